"""What compute asks of images (zone/compute/sources.py): to boot from one, and to keep a server's disk as one.

An image that a server will fill is queued until the server's action is done, and the one that keeps a shelved server's
disk stays until that server runs again or is gone: `settle` and `walk` look after all of them, again and again, so it
needs no word from the server and goes on after a restart. Who can not be asked, or is found nowhere only once, is not
gone: such an image may be the only copy of a disk.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

import structlog

from banyan.core.errors import BanyanError, NotFound, Refused
from banyan.core.identity import SYSTEM
from banyan.core.image import HASH, Image, ImageQuery, ImageSort, ImageStatus, Visibility
from banyan.core.image_states import IMAGE, ImageEvent
from banyan.core.order import ImageSource
from banyan.core.permissions import Target, require
from banyan.core.principal import Principal
from banyan.core.records import Unit
from banyan.core.server import Action, ActionRecord, Server, Task, VmState
from banyan.core.time import Mono, Wall
from banyan.zone.compute.sources import BootImage, ImageDetail
from banyan.zone.images.catalogue import Catalogue
from banyan.zone.images.changing import FIELDS, READ_ONLY, RESERVED, RESERVED_PREFIX
from banyan.zone.images.desk import MAX_LIST, Desk
from banyan.zone.images.refusals import OverSize
from banyan.zone.servers.surface import Servers

log = structlog.get_logger("banyan.images")

# Properties of a server's image that an image of the server does not have: they belong to those bytes.
NOT_INHERITED: Final = frozenset({
    "cache_in_nova", "bittorrent", "img_signature", "img_signature_hash_method", "img_signature_key_type",
    "img_signature_certificate_uuid", "image_type", "instance_uuid", "base_image_ref", "owner_id", "user_id",
    "backup_type",
})  # fmt: skip
# What a server has under way while its disk is kept.
_KEEPING: Final = frozenset({Task.SNAPSHOTTING, Task.SHELVING})
# After so long without a word of the server's that it was asked, an image is taken to have been left by a crash.
FORGOTTEN: Final = 120.0
# Seconds between the first and the second time that a server was found nowhere.
GRACE: Final = 600.0
# Of one look: kept images of the walk. Remembered: servers whose images are looked at soon, or that were found nowhere.
WALKED, MAX_SOON, MAX_MISSING = 50, 10_000, 10_000
# Images of late orders.
MAX_BOOTED: Final = 1_000
# Rows read at a time.
_PAGE: Final = 100
_SHELVED: Final = "shelved"
# The purpose of a backup; until it is filled with "/" and how many are to stay then.
_BACKUP: Final = "backup"
# What a shelved server has under way while it is not known yet whether its image is of use.
_LEAVING: Final = frozenset({Task.UNSHELVING, Task.DELETING})
_MD5, _SHA512 = hashlib.md5(usedforsecurity=False).hexdigest(), hashlib.sha512().hexdigest()


class ForCompute:
    """zone.compute.sources.Images."""

    def __init__(self, desk: Desk, catalogue: Catalogue, servers: Servers) -> None:
        self._desk = desk
        self._catalogue = catalogue
        self._servers = servers
        # Set when there may be an image that waits for a server.
        self.reserved = asyncio.Event()
        # Servers of whom it was said that they are given a place again, or deleted.
        self._soon: dict[str, None] = {}
        # Server → when it was found nowhere first.
        self._missing: dict[str, Mono] = {}
        self._walked = ""
        # What follows from an image alone, as long as the catalogue remembers that one.
        self._booted: dict[str, tuple[Image, BootImage]] = {}

    # gap: zones below do not pull images' data from those above yet; an order says where it is, and its SHA-512
    async def find(self, who: Principal, id: str) -> BootImage:
        try:
            image = await self._catalogue.remembered(who, id)
        except NotFound as error:
            raise _no_image(id) from error
        known = self._booted.get(id)
        if known is not None and known[0] is image:
            return known[1]
        boot = BootImage(
            ImageSource(
                image.id,
                image.name or "",
                f"{image.hash_algo}:{image.hash_value}" if image.hash_value else "",
                f"/v2/images/{image.id}/file" if image.data else "",
                image.size or 0,
                image.disk_format or "",
                image.container_format or "",
                dict(image.properties),
            ),
            image.status.value,
            image.min_disk,
            image.min_ram,
            image.size or 0,
        )
        while len(self._booted) >= MAX_BOOTED:
            del self._booted[next(iter(self._booted))]
        self._booted[id] = image, boot
        return boot

    async def show(self, who: Principal, id: str) -> ImageDetail:
        return _detail(await self._get(who, id))

    async def page(self, who: Principal, after: str, limit: int, filters: Mapping[str, str]) -> Sequence[ImageDetail]:
        names = (filters["name"],) if "name" in filters else ()
        statuses = (filters["status"],) if "status" in filters else ()
        properties = {key: filters[key] for key in ("image_type", "instance_uuid") if key in filters}
        order = ((ImageSort.CREATED, True),)
        query = ImageQuery(names=names, statuses=statuses, properties=properties, sort=order)
        return [_detail(one) for one in await self._catalogue.page(who, query, after, limit)]

    async def delete(self, who: Principal, id: str) -> None:
        try:
            await self._catalogue.delete(who, id)
        except NotFound as error:
            raise _no_image(id) from error

    async def reserve(
        self,
        who: Principal,
        name: str,
        server: Server,
        properties: Mapping[str, str],
        kind: str,
        keep: int | None = None,
    ) -> ImageSource:
        now = self._desk.now()
        base, flavor = server.spec.image, server.spec.flavor
        inherited = {} if base is None else {k: v for k, v in base.properties.items() if k not in NOT_INHERITED}
        told = {
            "image_type": _BACKUP if kind == _BACKUP else "snapshot",
            "instance_uuid": server.id,
            "base_image_ref": "" if base is None else base.id,
            "owner_id": server.project,
            "user_id": who.user,
        }
        image = Image(
            self._desk.new_uuid(),
            who.project or server.project,
            name=name,
            visibility=Visibility.PRIVATE,
            container_format=(base.container_format if base is not None else "") or "bare",
            disk_format=(base.disk_format if base is not None else "") or "raw",
            min_disk=0 if flavor is None else flavor.disk_gib,
            properties=_properties({**inherited, **told, **properties}),
            created_at=now,
            updated_at=now,
            server=server.id,
            purpose=kind if keep is None else f"{kind}/{keep}",
            request=who.request,
        )
        require(who, "image:add_image", Target(project=image.owner))

        def work(unit: Unit) -> None:
            self._desk.check_count(unit.images, image.owner)
            # A disk needs its flavor's room again; of memory it needs no more than what it was made from.
            old = None if base is None else unit.images.images.get(base.id)
            unit.images.images.add(image if old is None else replace(image, min_ram=old.min_ram))
            self._desk.note(unit, who, "image-reserved", image.id, f"{kind} of server {server.id}")

        try:
            await self._desk.change("image.reserved", work)
            self.reserved.set()
        except OverSize as error:
            raise Refused(error.code, error.text) from error
        return ImageSource(
            image.id, name, disk_format=image.disk_format or "", container_format=image.container_format or ""
        )

    async def abandon(self, who: Principal, image: ImageSource) -> None:
        await self._drop(image.id)

    def unshelved(self, server: str) -> None:
        if len(self._soon) < MAX_SOON:
            self._soon[server] = None
        self.reserved.set()

    # --- images that servers fill ---------------------------------------------------------------

    async def settle(self) -> int:
        """Looks at each image that a server will fill, and at that server; how many images still wait."""
        self.reserved.clear()
        waiting, after = 0, ""
        while True:
            page = await self._desk.read(lambda rows, after=after: rows.images.awaiting(after, _PAGE))  # type: ignore[misc]  # mypy infers no type beside a default
            for image in page:
                waiting += await self._settle(image)
            if len(page) < _PAGE:
                break
            after = page[-1].id
        for id in list(self._soon):
            if await self._of_shelved(id):
                waiting += 1
            else:
                self._soon.pop(id, None)
        return waiting

    async def walk(self) -> None:
        """Looks at the next few images that keep disks of shelved servers, whatever was said of them."""
        after = self._walked
        page = await self._desk.read(lambda rows: rows.images.kept(_SHELVED, after, WALKED))
        self._walked = page[-1].id if len(page) == WALKED else ""
        for image in page:
            await self._kept(image)

    async def _of_shelved(self, server: str) -> bool:
        """True if one of its images can not be judged yet."""
        page = await self._desk.read(lambda rows: rows.images.of_server(server, _SHELVED, "", _PAGE))
        return any([await self._kept(image) for image in page])

    async def _kept(self, image: Image) -> bool:
        """Deletes it once its server runs from it, or is gone. True if that is not known yet."""
        if not image.filled:
            return False
        try:
            server = await self._servers.show(SYSTEM, image.server)
            records = await self._servers.actions(SYSTEM, image.server)
        except NotFound:
            if not self._gone(image.server):
                return False
            await self._delete(image, "its server is gone")
            return False
        except BanyanError:
            return True
        self._missing.pop(image.server, None)
        if server.state is VmState.DELETED:
            await self._delete(image, "its server was deleted")
        elif any(one.action is Action.UNSHELVE and _succeeded(one) for one in _since(records, image.request)):
            await self._delete(image, "its server runs again")
        else:
            return server.task in _LEAVING
        return False

    def _gone(self, server: str) -> bool:
        """It was found nowhere now and GRACE ago: after a restart ways to servers may be unknown for a while."""
        now = self._desk.clock.now()
        if len(self._missing) >= MAX_MISSING and server not in self._missing:
            self._missing.pop(next(iter(self._missing)))
        if now - self._missing.setdefault(server, now) < GRACE:
            return False
        del self._missing[server]
        return True

    async def _settle(self, image: Image) -> bool:
        """True if it still waits."""
        try:
            server = await self._servers.show(SYSTEM, image.server)
            if server.task in _KEEPING and server.state is not VmState.DELETED:
                return True
            records = await self._servers.actions(SYSTEM, image.server)
        except NotFound:
            return not self._gone(image.server) or await self._dropped(image.id)
        except BanyanError:
            # Its zone can not be asked now.
            return True
        self._missing.pop(image.server, None)
        record = next((one for one in records if one.request == image.request), None)
        if record is None:
            if self._desk.now() - image.created_at < FORGOTTEN:
                return True
            await self._drop(image.id)
            return False
        if record.message or any(event.result == "error" for event in record.events):
            await self._drop(image.id)
        elif any(event.result == "success" for event in record.events):
            await self._fill(image.id)
        else:
            return server.state is not VmState.DELETED or await self._dropped(image.id)
        return False

    async def _dropped(self, id: str) -> bool:
        await self._drop(id)
        return False

    async def _fill(self, id: str) -> None:
        """A simulated guest's disk has no content: the image is empty, and knows it. What a backup takes the place of
        goes with the same commit: one that fails costs none of those before it."""

        def work(unit: Unit) -> Sequence[Image]:
            image = unit.images.images.get(id)
            if image is None or not image.awaits_server or image.status is not ImageStatus.QUEUED:
                return ()
            purpose, _, keep = image.purpose.partition("/")
            filled = replace(
                image,
                status=IMAGE.after(image.status, ImageEvent.FILL),
                filled=True,
                purpose=purpose,
                size=0,
                checksum=_MD5,
                hash_algo=HASH,
                hash_value=_SHA512,
                updated_at=self._desk.now(),
            )
            unit.images.images.put(filled)
            self._desk.note(unit, None, "image-filled", id, f"{purpose} of server {image.server}")
            return self._rotated(unit, filled, int(keep)) if keep else ()

        for image in await self._desk.change("image.filled", work):
            if image.data:
                await self._desk.files.delete(image.data)

    def _rotated(self, unit: Unit, newest: Image, keep: int) -> Sequence[Image]:
        """The project's backups beyond `keep` of the same server and type, that are deleted by this."""
        found: list[Image] = []
        after = ""
        while page := unit.images.images.of_server(newest.server, _BACKUP, after, MAX_LIST):
            found += [one for one in page if _series(one) == _series(newest)]
            after = page[-1].id
        found.sort(key=lambda one: (one.created_at, one.id), reverse=True)
        for image in found[keep:]:
            self._desk.remove(unit, image, self._desk.now())
            self._desk.note(unit, None, "image-deleted", image.id, "newer backups of its server took its place")
        return found[keep:]

    async def _drop(self, id: str) -> None:
        """It will not be filled: it goes, unless it was."""

        def work(unit: Unit) -> None:
            image = unit.images.images.get(id)
            if image is not None and image.awaits_server:
                self._desk.remove(unit, image, self._desk.now())
                self._desk.note(unit, None, "image-abandoned", id, f"{image.purpose} of server {image.server}")

        await self._desk.change("image.abandoned", work)

    async def _delete(self, image: Image, why: str) -> None:
        def work(unit: Unit) -> None:
            if unit.images.images.get(image.id) is not None:
                self._desk.remove(unit, image, self._desk.now())
                self._desk.note(unit, None, "image-deleted", image.id, why)

        await self._desk.change("image.deleted", work)
        if image.data:
            await self._desk.files.delete(image.data)

    async def _get(self, who: Principal, id: str) -> Image:
        try:
            return await self._catalogue.show(who, id)
        except NotFound as error:
            raise _no_image(id) from error


def _properties(wanted: Mapping[str, str]) -> Mapping[str, str]:
    """Without what an image says by other means; people may put any word into a server's metadata."""
    barred = FIELDS | READ_ONLY | RESERVED
    return {k: v for k, v in wanted.items() if k not in barred and not k.startswith(RESERVED_PREFIX)}


def _series(image: Image) -> tuple[str, str | None]:
    """Backups of one server that take each other's places."""
    return image.owner, image.properties.get("backup_type")


def _succeeded(record: ActionRecord) -> bool:
    return not record.message and any(event.result == "success" for event in record.events)


def _since(records: Sequence[ActionRecord], request: str) -> Sequence[ActionRecord]:
    """Those after the one of that request, of `records` with the newest first; all if it is not among them."""
    at = next((n for n, one in enumerate(records) if one.request == request), len(records))
    return records[:at]


def _no_image(id: str) -> NotFound:
    return NotFound("no-image", f"Image {id[:255]} could not be found.")


def _detail(image: Image) -> ImageDetail:
    return ImageDetail(
        image.id,
        image.name or "",
        image.status.value,
        image.created_at,
        Wall(image.updated_at),
        image.size,
        image.min_disk,
        image.min_ram,
        dict(image.properties),
    )
