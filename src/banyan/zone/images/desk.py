"""What the parts of the image service share: ids, instants, bounds, units of work with their journal line."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, TypeVar

from banyan.core.identity import SYSTEM, Caller
from banyan.core.image import Image
from banyan.core.image_ports import ImageFiles
from banyan.core.image_rows import ImageRows
from banyan.core.ports import Clock, Ids, Store
from banyan.core.principal import Principal
from banyan.core.records import Unit
from banyan.core.time import Wall
from banyan.zone.firm import firm
from banyan.zone.images.refusals import OverSize
from banyan.zone.own import Own
from banyan.zone.remembered import Remembered

T = TypeVar("T")

# The most that one answer lists.
MAX_LIST: Final = 1_000
UNLIMITED: Final = -1
# How long an id that was used is remembered after its image is gone, seconds; each deletion forgets some older ones.
GRAVE_LIFE: Final = 90 * 86_400.0
_FORGOTTEN: Final = 20
MIB: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class ImageSettings:
    """Sizes in bytes, times in seconds; a quota of -1 is no limit.

    `most`: of one image's data. `quota_images`, `quota_bytes`: what one project's images may be. `uploads`,
    `downloads` and `fetches`: how many at the same time in this zone; `waiting` fetches may wait. Of all of these one
    project has a share (places.py). `fetch_deadline`: for one image.
    """

    most: int = 1 << 40
    quota_images: int = 10_000
    quota_bytes: int = UNLIMITED
    uploads: int = 16
    downloads: int = 32
    fetches: int = 4
    waiting: int = 64
    fetch_deadline: float = 3_600.0
    task_life: float = 172_800.0
    web_download: bool = True


@dataclass(frozen=True, slots=True)
class Desk:
    own: Own
    store: Store
    clock: Clock
    ids: Ids
    files: ImageFiles
    settings: ImageSettings = field(default_factory=ImageSettings)
    # Attempts of this process that have not come to their end.
    live: set[str] = field(default_factory=set)
    # Images by id, as orders ask for them.
    remembered: Remembered[str, Image] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "remembered", Remembered(self.clock))

    def now(self) -> Wall:
        return self.own.wall()

    def new_uuid(self) -> str:
        """A random one, of version 4 (RFC 9562)."""
        raw = bytearray(self.ids.token(16))
        raw[6] = raw[6] & 0x0F | 0x40
        raw[8] = raw[8] & 0x3F | 0x80
        text = raw.hex()
        return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"

    def new_attempt(self) -> str:
        """It is live until somebody takes it out of `live`."""
        mark = self.ids.token(8).hex()
        self.live.add(mark)
        return mark

    async def read(self, work: Callable[[ImageRows], T]) -> T:
        return await self.store.read(lambda unit: work(unit.images))

    async def change(self, name: str, work: Callable[[Unit], T]) -> T:
        try:
            return await firm(self.store.write(name, work))
        finally:
            self.remembered.forget()

    def note(self, unit: Unit, who: Principal | None, kind: str, target: str, text: str, **facts: str) -> None:
        """`who` None: the zone itself."""
        caller: Caller = SYSTEM if who is None else who.caller()
        self.own.write(unit, self.own.event(kind, target, text, caller, **facts))

    def remove(self, unit: Unit, image: Image, now: Wall) -> None:
        """The row goes; its id is never had again. Its file is deleted once this is committed."""
        unit.images.images.delete(image.id)
        unit.images.images.bury(image.id, now)
        unit.images.images.forget(Wall(now - GRAVE_LIFE), _FORGOTTEN)

    def check_count(self, rows: ImageRows, owner: str) -> None:
        """Raises OverSize("quota-exceeded") if the project may have no further image."""
        most = self.settings.quota_images
        if most != UNLIMITED and rows.images.stored(owner).images >= most:
            raise OverSize("quota-exceeded", f"Quota exceeded: a project may have {most} images")

    def room(self, rows: ImageRows, owner: str) -> int:
        """How many bytes one more image's data may have."""
        if self.settings.quota_bytes == UNLIMITED:
            return self.settings.most
        left = self.settings.quota_bytes - rows.images.stored(owner).bytes
        return max(0, min(self.settings.most, left))

    def check_bytes(self, rows: ImageRows, owner: str, size: int) -> None:
        """Raises OverSize("quota-exceeded") if the project may not keep so many bytes more."""
        if size > self.room(rows, owner):
            raise OverSize(
                "quota-exceeded",
                f"Quota exceeded: the images of a project may have {self.settings.quota_bytes} bytes together",
            )
