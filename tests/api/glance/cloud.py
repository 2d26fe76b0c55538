"""The image API over a real store and real files, with fakes of servers and of the network."""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import httpx

from banyan.api import glance
from banyan.api.app import Api
from banyan.api.openstack.call import Surfaces
from banyan.api.openstack.serve import Face
from banyan.core.errors import NotFound, Unreachable
from banyan.core.image_ports import FetchFailed
from banyan.core.server import ActionRecord, Server
from banyan.store.image_files import ImageFolder
from banyan.store.inline import InlineStore, no_pause
from banyan.zone.images.addresses import AddressRules
from banyan.zone.images.desk import ImageSettings
from banyan.zone.images.service import ImageService, make_images
from banyan.zone.own import Own, open_own
from banyan.zone.servers.surface import Servers
from tests.api.nova.cloud import Gate
from tests.api.openstack.lab import Clock
from tests.api.serving import make
from tests.api.surface import FakeSurface
from tests.contract.store.fakes import SeededIds

BYTES = "application/octet-stream"
NEW, OLD = "application/openstack-images-v2.1-json-patch", "application/openstack-images-v2.0-json-patch"
SETTINGS = ImageSettings(most=1 << 22, quota_images=1_000, quota_bytes=1 << 23, uploads=4, fetches=1, waiting=2)


@dataclass
class FakeFetcher:
    """What each address has; a text is why it fails. `held`: nothing comes until it is set."""

    there: dict[str, bytes | str] = field(default_factory=dict)
    held: asyncio.Event | None = None
    asked: list[str] = field(default_factory=list)

    async def fetch(self, url: str) -> AsyncGenerator[bytes, None]:
        self.asked.append(url)
        if self.held is not None:
            await self.held.wait()
        content = self.there.get(url, "there is nothing")
        if isinstance(content, str):
            raise FetchFailed(content)
        yield content


@dataclass
class Watched:
    """Servers as the image service looks at them, and what was asked of them. `away`: they can not be asked."""

    rows: dict[str, Server] = field(default_factory=dict)
    done: dict[str, tuple[ActionRecord, ...]] = field(default_factory=dict)
    away: bool = False

    async def show(self, who: object, id: str) -> Server:
        if self.away:
            raise Unreachable("member-unreachable", "not now")
        if id not in self.rows:
            raise NotFound("no-server", f"there is no server {id}")
        return self.rows[id]

    async def actions(self, who: object, id: str) -> tuple[ActionRecord, ...]:
        await self.show(who, id)
        return self.done.get(id, ())


@dataclass
class Cloud:
    api: Api
    images: ImageService
    files: ImageFolder
    folder: Path
    store: InlineStore
    servers: Watched
    fetcher: FakeFetcher
    gate: Gate
    clock: Clock
    own: Own

    async def ask(
        self,
        method: str,
        path: str,
        body: object = None,
        token: str = "member",
        headers: Mapping[str, str] | None = None,
        content: bytes | AsyncIterator[bytes] | None = None,
    ) -> httpx.Response:
        """One request; `path` below /image."""
        given = {"X-Auth-Token": token, **(headers or {})}
        transport = httpx.ASGITransport(self.api, client=("192.0.2.7", 4711))
        async with httpx.AsyncClient(transport=transport, base_url="http://cloud:8780") as http:
            if content is not None:
                given.setdefault("Content-Type", BYTES)
                return await http.request(method, f"/image{path}", headers=given, content=content)
            return await http.request(method, f"/image{path}", headers=given, json=body)

    async def ok(self, *arguments: Any, **more: Any) -> Any:
        """The answer's body, if it is a success."""
        answer = await self.ask(*arguments, **more)
        assert answer.status_code < 300, (arguments, answer.status_code, answer.text)
        if not answer.content:
            return None
        return answer.json() if answer.headers["content-type"] == "application/json" else answer.content

    async def image(self, token: str = "member", data: bytes | None = None, **fields: object) -> str:
        """The id of a new image; active with `data`."""
        wanted = {"name": "cirros", "disk_format": "raw", "container_format": "bare", **fields}
        id = str((await self.ok("POST", "/v2/images", wanted, token))["id"])
        if data is not None:
            await self.ok("PUT", f"/v2/images/{id}/file", token=token, content=data)
        return id

    async def patch(self, id: str, *operations: object, token: str = "member", kind: str = NEW) -> httpx.Response:
        content = json.dumps(list(operations)).encode()
        return await self.ask("PATCH", f"/v2/images/{id}", None, token, {"Content-Type": kind}, content)

    async def ids(self, query: str = "", token: str = "member") -> list[str]:
        return [one["id"] for one in (await self.ok("GET", f"/v2/images{query}", token=token))["images"]]

    async def reaches(self, id: str, status: str) -> None:
        async def met() -> bool:
            return await self.status(id) == status

        await until(met)

    async def status(self, id: str, token: str = "member") -> str:
        return str((await self.ok("GET", f"/v2/images/{id}", token=token))["status"])

    def kept(self) -> list[str]:
        """Names of files of data."""
        return sorted(path.name for path in self.folder.iterdir() if path.name != ".lock")

    async def restarted(self, settings: ImageSettings = SETTINGS) -> None:
        """The image service as it is after the process was killed and started."""
        self.files.close()
        self.files = ImageFolder(self.folder, keep_free=0)
        self.images = make_images(
            self.own, self.store, self.clock, SeededIds(8), self.files, self.fetcher,
            cast(Servers, self.servers), settings, AddressRules(),
        )  # fmt: skip
        await self.images.start()
        self.api = make(FakeSurface())
        self.api.offer([glance.SERVICE], self.gate, Surfaces(images=self.images), Face())


async def lit(folder: Path, settings: ImageSettings = SETTINGS) -> Cloud:
    store = InlineStore(SeededIds(), no_pause, rehearse=False)
    clock, ids = Clock(), SeededIds(7)
    own = await open_own(store, clock, ids, "top", {})
    files = ImageFolder(folder / "images", keep_free=0)
    fetcher, servers = FakeFetcher(), Watched()
    images = make_images(own, store, clock, ids, files, fetcher, cast(Servers, servers), settings, AddressRules())
    await images.start()
    api, gate = make(FakeSurface()), Gate(own.code)
    api.offer([glance.SERVICE], gate, Surfaces(images=images), Face())
    return Cloud(api, images, files, folder / "images", store, servers, fetcher, gate, clock, own)


def run(play: Callable[[Cloud], Any], settings: ImageSettings = SETTINGS) -> Any:
    """Runs `play(cloud)`, a coroutine function."""

    async def whole() -> Any:
        with tempfile.TemporaryDirectory() as folder:
            cloud = await lit(Path(folder), settings)
            try:
                return await play(cloud)
            finally:
                await cloud.images.close()
                cloud.files.close()
                await cloud.store.close()

    return asyncio.run(whole())


async def until(met: Callable[[], Awaitable[bool]]) -> None:
    """Returns when that is so; the loop turns meanwhile. Raises TimeoutError."""
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(20):
        while not await met():
            turned = loop.create_future()
            loop.call_soon(turned.set_result, None)
            await turned
