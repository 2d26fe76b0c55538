"""The image service of one zone, put together. A surface gets `ImageService` and speaks to its parts."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Final

import structlog

from banyan.core.errors import BanyanError
from banyan.core.image_ports import Fetcher, ImageFiles
from banyan.core.ports import Clock, Ids, Store
from banyan.core.time import Mono
from banyan.zone.images.addresses import AddressRules
from banyan.zone.images.catalogue import Catalogue
from banyan.zone.images.data import Data
from banyan.zone.images.desk import Desk, ImageSettings
from banyan.zone.images.for_compute import ForCompute
from banyan.zone.images.imports import Imports
from banyan.zone.images.members import Members
from banyan.zone.own import Own
from banyan.zone.servers.surface import Servers

log = structlog.get_logger("banyan.images")

# Seconds between looks at the servers that images wait for, at a few of those whose disks are kept, and between sweeps
# of files.
LOOK: Final = 1.0
WALK: Final = 60.0
SWEEP: Final = 3_600.0


@dataclass(frozen=True, slots=True)
class ImageService:
    """`for_compute`: what servers are booted from, and kept as."""

    desk: Desk
    catalogue: Catalogue
    members: Members
    data: Data
    imports: Imports
    for_compute: ForCompute = field(repr=False)

    async def start(self) -> None:
        """Before anything is offered: undoes what a process that ended left half done."""
        interrupted = await self.data.recover()
        await self.imports.recover()
        swept = await self.data.sweep()
        if interrupted or swept:
            log.info("images put in order", interrupted=interrupted, files_deleted=swept)

    async def run(self) -> None:
        """For ever: looks after images that servers fill, and sweeps files."""
        clock = self.desk.clock
        swept = walked = clock.now()
        waiting = 1
        while True:
            try:
                waiting = await self.for_compute.settle()
                if clock.now() - walked >= WALK:
                    walked = clock.now()
                    await self.for_compute.walk()
                if clock.now() - swept >= SWEEP:
                    swept = clock.now()
                    await self.data.recover()
                    await self.data.sweep()
            except BanyanError as error:
                waiting = 1
                log.warning("images not looked after", code=error.code, detail=error.detail or error.text)
            await self._pause(Mono(clock.now() + LOOK if waiting else walked + WALK), bool(waiting))

    async def _pause(self, until: Mono, waiting: bool) -> None:
        """Until then; where nothing waits, at most until something does."""
        sleep = asyncio.ensure_future(self.desk.clock.sleep_until(until))
        wake = asyncio.ensure_future(self.for_compute.reserved.wait())
        try:
            await asyncio.wait({sleep} if waiting else {sleep, wake}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            sleep.cancel()
            wake.cancel()

    async def close(self) -> None:
        await self.imports.close()


def make_images(
    own: Own,
    store: Store,
    clock: Clock,
    ids: Ids,
    files: ImageFiles,
    fetcher: Fetcher,
    servers: Servers,
    settings: ImageSettings = ImageSettings(),  # noqa: B008 - frozen
    rules: AddressRules = AddressRules(),  # noqa: B008 - frozen
) -> ImageService:
    desk = Desk(own, store, clock, ids, files, settings)
    catalogue = Catalogue(desk)
    data = Data(desk)
    return ImageService(
        desk,
        catalogue,
        Members(desk),
        data,
        Imports(desk, catalogue, data, fetcher, rules),
        ForCompute(desk, catalogue, servers),
    )
