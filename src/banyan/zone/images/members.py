"""Whom an image is shared with. Its owner says to whom it is offered, each of those whether it takes it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from banyan.core.errors import BadInput, Conflict, NotFound, Refused
from banyan.core.image import MAX_MEMBERS, MAX_TEXT, Image, ImageMember, MemberStatus, Visibility
from banyan.core.image_rows import ImageRows
from banyan.core.permissions import Target, require
from banyan.core.principal import Principal
from banyan.core.records import Unit
from banyan.zone.images import access
from banyan.zone.images.desk import Desk
from banyan.zone.images.refusals import OverSize


class Members:
    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def page(self, who: Principal, id: str) -> Sequence[ImageMember]:
        """All of them for the owner; a member sees itself. Raises NotFound("no-image")."""

        def work(rows: ImageRows) -> Sequence[ImageMember]:
            image = _shared(access.seen(rows, who, "image:get_members", id))
            if access.owns(who, image) or access.sees_all(who):
                return rows.members.of(id, "", MAX_MEMBERS)
            mine = rows.members.get(id, who.project)
            return () if mine is None else (mine,)

        return await self._desk.read(work)

    async def show(self, who: Principal, id: str, member: str) -> ImageMember:
        """Raises NotFound("no-member")."""

        def work(rows: ImageRows) -> ImageMember:
            image = _shared(access.seen(rows, who, "image:get_member", id))
            return _visible(rows, who, image, member)

        return await self._desk.read(work)

    async def add(self, who: Principal, id: str, member: str) -> ImageMember:
        """Raises Conflict("member-there"), OverSize("too-many-members")."""
        if not member or len(member) > MAX_TEXT:
            raise BadInput("bad-member", f"Invalid member: it must be the id of a project, got {member[:64]!r}")
        now = self._desk.now()

        def work(unit: Unit) -> ImageMember:
            rows = unit.images
            image = _shared(access.own(rows, who, "image:add_member", id))
            if rows.members.count(id) >= MAX_MEMBERS:
                raise OverSize("too-many-members", f"an image may be shared with {MAX_MEMBERS} projects")
            made = ImageMember(id, member, MemberStatus.PENDING, now, now)
            if not rows.members.add(made):
                raise Conflict("member-there", f"Image member '{member}' already exists for image '{id}'")
            self._desk.note(unit, who, "image-shared", image.id, image.name or "", project=member)
            return made

        return await self._desk.change("image.shared", work)

    async def answer(self, who: Principal, id: str, member: str, status: MemberStatus) -> ImageMember:
        """What the member says to the offer; nobody says it for it but an admin."""

        def work(unit: Unit) -> ImageMember:
            rows = unit.images
            image = _shared(access.seen(rows, who, "image:get_member", id))
            held = _visible(rows, who, image, member)
            require(who, "image:modify_member", Target(project=member))
            changed = replace(held, status=status, updated_at=self._desk.now())
            rows.members.put(changed)
            self._desk.note(unit, who, "image-share-answered", image.id, status, project=member)
            return changed

        return await self._desk.change("image.answered", work)

    async def remove(self, who: Principal, id: str, member: str) -> None:
        """Raises NotFound("no-member")."""

        def work(unit: Unit) -> None:
            rows = unit.images
            image = _shared(access.own(rows, who, "image:delete_member", id))
            if not rows.members.delete(id, member):
                raise _no_member(id, member)
            self._desk.note(unit, who, "image-unshared", image.id, image.name or "", project=member)

        await self._desk.change("image.unshared", work)


def _shared(image: Image) -> Image:
    if image.visibility is not Visibility.SHARED:
        raise Refused("not-shared", "Only shared images have members.")
    return image


def _visible(rows: ImageRows, who: Principal, image: Image, member: str) -> ImageMember:
    mine = access.owns(who, image) or access.sees_all(who) or member == who.project
    held = rows.members.get(image.id, member) if mine else None
    if held is None:
        raise _no_member(image.id, member)
    return held


def _no_member(id: str, member: str) -> NotFound:
    return NotFound("no-member", f"{member[:255]} not found in the member list of the image {id}.")
