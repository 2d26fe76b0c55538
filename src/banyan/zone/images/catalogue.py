"""Images as records: made, shown, listed, changed, put out of use, deleted. What their data is, data.py knows."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace

from banyan.core.errors import BadInput, Conflict, NotFound, Refused
from banyan.core.image import Image, ImageQuery, ImageStatus, Visibility
from banyan.core.image_rows import ImageRows
from banyan.core.image_states import IMAGE, ImageEvent
from banyan.core.permissions import NOTHING, Target, require
from banyan.core.principal import Principal
from banyan.core.records import Unit
from banyan.zone.images import access
from banyan.zone.images.changing import Change, changed, check_tag, check_tags
from banyan.zone.images.desk import MAX_LIST, Desk


@dataclass(frozen=True, slots=True)
class Usage:
    """What a project's images hold, and may: counts, and bytes; a limit of -1 is none."""

    images: int
    images_limit: int
    bytes: int
    bytes_limit: int


class Catalogue:
    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def create(self, who: Principal, id: str | None, changes: Sequence[Change]) -> Image:
        """`id` None: one is drawn. Raises BadInput("bad-id"), Conflict("id-taken"), OverSize("quota-exceeded")."""
        now = self._desk.now()
        image = Image(_uuid(id) if id is not None else self._desk.new_uuid(), who.project, created_at=now)
        for change in changes:
            image = changed(image, change)
        image = replace(image, updated_at=now)
        require(who, "image:add_image", Target(project=who.project))
        self._check_owner(who, who.project, image)
        self._check_visibility(who, None, image)

        def work(unit: Unit) -> None:
            rows = unit.images
            self._desk.check_count(rows, image.owner)
            if rows.images.buried(image.id) or not rows.images.add(image):
                raise Conflict("id-taken", f"Image ID {image.id} already exists!")
            self._desk.note(unit, who, "image-created", image.id, image.name or "", visibility=image.visibility)

        await self._desk.change("image.created", work)
        return image

    async def show(self, who: Principal, id: str) -> Image:
        """Raises NotFound("no-image")."""
        return await self._desk.read(lambda rows: access.seen(rows, who, "image:get_image", id))

    async def remembered(self, who: Principal, id: str) -> Image:
        """As `show`, for orders: most of them boot from what others booted from a moment ago."""
        known = self._desk.remembered.get(id)
        if known is not None and access.sees_by_itself(who, known):
            require(who, "image:get_image", Target(project=who.project))
            return known
        as_of = self._desk.remembered.as_of
        image = await self.show(who, id)
        self._desk.remembered.put(id, image, as_of)
        return image

    async def page(self, who: Principal, query: ImageQuery, marker: str, limit: int) -> Sequence[Image]:
        """In the query's order, after the image of the id `marker`; whose view it is, is set here.

        Raises BadInput("bad-marker")."""
        require(who, "image:get_images", Target(project=who.project))
        query = replace(query, viewer=access.viewer(who))

        def work(rows: ImageRows) -> Sequence[Image]:
            after = rows.images.get(marker) if marker else None
            if marker and (after is None or not access.sees(rows, who, after)):
                raise BadInput("bad-marker", f"Invalid marker: no image found with ID {marker[:255]}")
            return rows.images.query(query, after, max(1, min(limit, MAX_LIST))) if limit else ()

        return await self._desk.read(work)

    async def update(self, who: Principal, id: str, changes: Sequence[Change]) -> Image:
        """All of the changes, in their order, or none. Raises NotFound("no-image") and what `changed` raises."""

        def work(unit: Unit) -> Image:
            before = access.own(unit.images, who, "image:modify_image", id)
            image = before
            for change in changes:
                image = changed(image, change)
            if image == before:
                return before
            self._check_owner(who, before.owner, image)
            self._check_visibility(who, before, image)
            if image.owner != before.owner:
                self._desk.check_count(unit.images, image.owner)
                self._desk.check_bytes(unit.images, image.owner, image.size or 0)
            fields = ", ".join(sorted({change.field for change in changes}))[:255]
            return self._put(unit, who, image, "image-changed", fields)

        return await self._desk.change("image.changed", work)

    async def delete(self, who: Principal, id: str) -> None:
        """Raises NotFound("no-image"), Refused("protected"). Its data goes with it; who reads that now reads on."""

        def work(unit: Unit) -> Image:
            image = access.own(unit.images, who, "image:delete_image", id)
            if image.protected:
                raise Refused("protected", f"Image {id} is protected and cannot be deleted.")
            self._desk.remove(unit, image, self._desk.now())
            self._desk.note(unit, who, "image-deleted", id, image.name or "")
            return image

        image = await self._desk.change("image.deleted", work)
        if image.data:
            await self._desk.files.delete(image.data)

    async def tag(self, who: Principal, id: str, tag: str) -> None:
        """Safe to repeat. Raises OverSize("too-many-tags")."""

        def work(unit: Unit) -> None:
            image = access.own(unit.images, who, "image:modify_image", id)
            tags = check_tags([*image.tags, check_tag(tag)])
            if tags != image.tags:
                self._put(unit, who, replace(image, tags=tags), "image-changed", "tags")

        await self._desk.change("image.changed", work)

    async def untag(self, who: Principal, id: str, tag: str) -> None:
        """Raises NotFound("no-tag")."""

        def work(unit: Unit) -> None:
            image = access.own(unit.images, who, "image:modify_image", id)
            if tag not in image.tags:
                raise NotFound("no-tag", f"Tag {tag[:255]} is not on image {id}")
            tags = tuple(one for one in image.tags if one != tag)
            self._put(unit, who, replace(image, tags=tags), "image-changed", "tags")

        await self._desk.change("image.changed", work)

    async def deactivate(self, who: Principal, id: str) -> None:
        """Only admins get its data from then on. Raises Refused("bad-status")."""
        await self._turn(who, id, "image:deactivate", ImageEvent.DEACTIVATE)

    async def reactivate(self, who: Principal, id: str) -> None:
        await self._turn(who, id, "image:reactivate", ImageEvent.REACTIVATE)

    async def usage(self, who: Principal) -> Usage:
        """Of the caller's own project."""
        require(who, "image:get_usage", Target(project=who.project))
        stored = await self._desk.read(lambda rows: rows.images.stored(who.project))
        settings = self._desk.settings
        return Usage(stored.images, settings.quota_images, stored.bytes, settings.quota_bytes)

    async def _turn(self, who: Principal, id: str, action: str, event: ImageEvent) -> None:
        def work(unit: Unit) -> None:
            image = access.own(unit.images, who, action, id)
            if not IMAGE.allows(image.status, event):
                raise Refused("bad-status", f"Not allowed to {event} image in status '{image.status}'")
            status = IMAGE.after(image.status, event)
            if status is not image.status:
                self._put(unit, who, replace(image, status=status), f"image-{event}d", image.name or "")

        await self._desk.change(f"image.{event}d", work)

    def _put(self, unit: Unit, who: Principal, image: Image, kind: str, text: str) -> Image:
        image = replace(image, updated_at=self._desk.now())
        unit.images.images.put(image)
        self._desk.note(unit, who, kind, image.id, text)
        return image

    def _check_owner(self, who: Principal, before: str, image: Image) -> None:
        if image.owner != before and not access.is_admin(who):
            raise Refused("forbidden", "You are not permitted to create or give away images owned by another project.")

    def _check_visibility(self, who: Principal, before: Image | None, image: Image) -> None:
        if before is not None and image.visibility is before.visibility:
            return
        target = Target(project=image.owner) if image.owner else NOTHING
        if image.visibility is Visibility.PUBLIC:
            require(who, "image:publicize_image", target)
        if image.visibility is Visibility.COMMUNITY:
            require(who, "image:communitize_image", target)


def _uuid(text: str) -> str:
    try:
        found = str(uuid.UUID(text))
    except ValueError:
        found = ""
    if found != text.lower():
        raise BadInput("bad-id", f"Invalid image id format: it must be a UUID, got {text[:64]!r}")
    return found


def in_use(image: Image) -> bool:
    """Its data may be had."""
    return image.status in (ImageStatus.ACTIVE, ImageStatus.DEACTIVATED)
