"""What compute asks of images (zone/compute/sources.py): to boot from one, and to keep a server's disk as one.

An image that a server will fill is queued until the server's action is done: `settle` looks after all of them, again
and again, so it needs no word from the server and goes on after a restart.
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
from banyan.core.image_rows import ImageRows
from banyan.core.image_states import IMAGE, ImageEvent
from banyan.core.order import ImageSource
from banyan.core.permissions import Target, require
from banyan.core.principal import Principal
from banyan.core.records import Unit
from banyan.core.server import Server, Task, VmState
from banyan.core.time import Wall
from banyan.zone.compute.sources import BootImage, ImageDetail
from banyan.zone.images import access
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
# Rows read at a time.
_PAGE: Final = 100
_MD5, _SHA512 = hashlib.md5(usedforsecurity=False).hexdigest(), hashlib.sha512().hexdigest()


class ForCompute:
    """zone.compute.sources.Images."""

    def __init__(self, desk: Desk, catalogue: Catalogue, servers: Servers) -> None:
        self._desk = desk
        self._catalogue = catalogue
        self._servers = servers
        # Set when there may be an image that waits for a server.
        self.reserved = asyncio.Event()

    # gap: zones below do not pull images' data from those above yet; an order says where it is, and its SHA-512
    async def find(self, who: Principal, id: str) -> BootImage:
        try:
            image = await self._catalogue.remembered(who, id)
        except NotFound as error:
            raise _no_image(id) from error
        return BootImage(
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

    async def show(self, who: Principal, id: str) -> ImageDetail:
        return _detail(await self._get(who, id))

    async def page(self, who: Principal, after: str, limit: int, filters: Mapping[str, str]) -> Sequence[ImageDetail]:
        names = (filters["name"],) if "name" in filters else ()
        statuses = (filters["status"],) if "status" in filters else ()
        query = ImageQuery(names=names, statuses=statuses, sort=((ImageSort.CREATED, True),))
        return [_detail(one) for one in await self._catalogue.page(who, query, after, limit)]

    async def delete(self, who: Principal, id: str) -> None:
        try:
            await self._catalogue.delete(who, id)
        except NotFound as error:
            raise _no_image(id) from error

    async def reserve(
        self, who: Principal, name: str, server: Server, properties: Mapping[str, str], kind: str
    ) -> ImageSource:
        now = self._desk.now()
        base, flavor = server.spec.image, server.spec.flavor
        inherited = {} if base is None else {k: v for k, v in base.properties.items() if k not in NOT_INHERITED}
        told = {
            "image_type": "backup" if kind == "backup" else "snapshot",
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
            purpose=kind,
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

    async def unshelved(self, who: Principal, server: str) -> None:
        def work(rows: ImageRows) -> Sequence[Image]:
            return rows.images.of_server(server, "shelved", "", MAX_LIST)

        for image in await self._desk.read(work):
            await self._delete(image, "its server has a place again")

    async def rotate(self, who: Principal, server: str, backup_type: str, keep: int) -> None:
        def work(rows: ImageRows) -> Sequence[Image]:
            found: list[Image] = []
            after = ""
            while page := rows.images.of_server(server, "backup", after, MAX_LIST):
                found += [one for one in page if one.properties.get("backup_type") == backup_type]
                after = page[-1].id
            return sorted(found, key=lambda one: (one.created_at, one.id), reverse=True)

        for image in (await self._desk.read(work))[keep:]:
            if image.owner == who.project or access.is_admin(who):
                await self._delete(image, "newer backups of its server took its place")

    # --- images that servers fill ---------------------------------------------------------------

    async def settle(self) -> int:
        """Looks at each image that a server will fill, and at that server; how many images still wait."""
        self.reserved.clear()
        waiting, after = 0, ""
        while True:
            last = after
            page = await self._desk.read(lambda rows: rows.images.awaiting(last, _PAGE))  # noqa: B023
            for image in page:
                waiting += await self._settle(image)
            if len(page) < _PAGE:
                return waiting
            after = page[-1].id

    async def _settle(self, image: Image) -> bool:
        """True if it still waits."""
        try:
            server = await self._servers.show(SYSTEM, image.server)
            if server.task in _KEEPING and server.state is not VmState.DELETED:
                return True
            records = await self._servers.actions(SYSTEM, image.server)
        except NotFound:
            await self._drop(image.id)
            return False
        except BanyanError:
            # Its zone can not be asked now.
            return True
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
        """A simulated guest's disk has no content: the image is empty, and knows it."""

        def work(unit: Unit) -> None:
            image = unit.images.images.get(id)
            if image is None or not image.awaits_server or image.status is not ImageStatus.QUEUED:
                return
            unit.images.images.put(
                replace(
                    image,
                    status=IMAGE.after(image.status, ImageEvent.FILL),
                    filled=True,
                    size=0,
                    checksum=_MD5,
                    hash_algo=HASH,
                    hash_value=_SHA512,
                    updated_at=self._desk.now(),
                )
            )
            self._desk.note(unit, None, "image-filled", id, f"{image.purpose} of server {image.server}")

        await self._desk.change("image.filled", work)

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
