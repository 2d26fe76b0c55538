"""A zone in memory behind a real local socket, in a thread with a loop of its own; commands run in this process."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from banyan.api.app import Api
from banyan.cli.main import run
from tests.api.serving import local, make
from tests.api.surface import FakeSurface


@dataclass
class Result:
    status: int
    out: str
    err: str


@dataclass
class Zone:
    """`say` runs a command line against this zone. `later` runs something in the zone's loop."""

    folder: Path
    api: Api
    loop: asyncio.AbstractEventLoop
    say: Callable[..., Result]

    @property
    def surface(self) -> FakeSurface:
        assert isinstance(self.api.surface, FakeSurface)
        return self.api.surface


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Api, asyncio.AbstractEventLoop]]:
    folder = tmp_path_factory.mktemp("zone")
    api = make(FakeSurface())
    loop = asyncio.new_event_loop()
    up, stop = threading.Event(), asyncio.Event()

    async def serve() -> None:
        async with local(api, folder):
            up.set()
            await stop.wait()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),))
    thread.start()
    assert up.wait(10)
    yield folder, api, loop
    loop.call_soon_threadsafe(stop.set)
    thread.join(10)
    assert not thread.is_alive()
    loop.close()


@pytest.fixture
def zone(
    served: tuple[Path, Api, asyncio.AbstractEventLoop],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Zone:
    folder, api, loop = served
    api.surface = FakeSurface()
    for name in ("BANYAN_DATA", "BANYAN_URL", "BANYAN_TOKEN_FILE", "BANYAN_CA_FILE"):
        monkeypatch.delenv(name, raising=False)

    def say(*words: str, data: bool = True) -> Result:
        capsys.readouterr()
        status = run([*words, "--data", str(folder)] if data else list(words))
        out, err = capsys.readouterr()
        return Result(status, out, err)

    return Zone(folder, api, loop, say)
