"""Every test here runs on each store. `kept` is an opened one; `run` runs a coroutine on the test's loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, Protocol, TypeVar

import pytest

from banyan.core.ports import Store
from banyan.store.inline import InlineStore, no_pause
from banyan.store.open import open_store
from banyan.store.store import Limits, Observer, SqlStore
from banyan.store.transactor import Work
from tests.contract.store import postgresql
from tests.contract.store.fakes import SeededIds, StillClock

T = TypeVar("T")


class Run(Protocol):
    def __call__(self, coroutine: Coroutine[Any, Any, T]) -> T: ...


class Kept:
    """A store under test, used from synchronous tests; `again` closes and opens it once more."""

    def __init__(self, run: Run, make: Callable[[], Store]) -> None:
        self.run = run
        self._make = make
        self.store = make()

    def write(self, work: Work[T], name: str = "test") -> T:
        return self.run(self.store.write(name, work))

    def read(self, work: Work[T]) -> T:
        return self.run(self.store.read(work))

    def again(self) -> None:
        self.run(self.store.close())
        self.store = self._make()

    def close(self) -> None:
        self.run(self.store.close())


@pytest.fixture
def run() -> Iterator[Run]:
    with asyncio.Runner() as runner:
        yield runner.run


@pytest.fixture(scope="session")
def server() -> Iterator[postgresql.Server]:
    if postgresql.SKIP:
        pytest.skip("BANYAN_TEST_POSTGRESQL=skip: this machine has no PostgreSQL server")
    with postgresql.running("fsync=off") as server:
        postgresql.prepare(server)
        yield server


@pytest.fixture(params=["sqlite", "postgresql", "inline"])
def kept(request: pytest.FixtureRequest, run: Run, tmp_path: Path) -> Iterator[Kept]:
    if request.param == "inline":
        kept = _inline(run)
    else:
        location = None if request.param == "sqlite" else request.getfixturevalue("server").new_database()
        kept = Kept(run, lambda: opened(tmp_path / "zone", location))
    try:
        yield kept
    finally:
        kept.close()


@pytest.fixture(params=["sqlite", "postgresql"])
def location(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A real database that several stores may open."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'shared.db'}"
    url: str = request.getfixturevalue("server").new_database()
    return url


def opened(
    data: Path,
    location: str | None = None,
    *,
    observer: Observer | None = None,
    limits: Limits = Limits(readers=2, retry_seconds=0.01),  # noqa: B008 - frozen
    seal_key: Path | None = None,
    seed: int = 1,
) -> SqlStore:
    return open_store(
        data,
        location,
        ids=SeededIds(seed),
        clock=StillClock(),
        observer=observer,
        limits=limits,
        seal_key=seal_key,
    )


def _inline(run: Run) -> Kept:
    last: list[InlineStore] = []

    def make() -> InlineStore:
        store = InlineStore(SeededIds(), no_pause, image=last[-1].image() if last else None)
        last.append(store)
        return store

    return Kept(run, make)
