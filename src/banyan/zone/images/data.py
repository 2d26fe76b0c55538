"""The data of images: sent, staged, imported, handed out. An image is active only when its data is durable.

What is under way is in the row: `attempt` names who writes, the file is called by the image and the attempt. So an
attempt that ends late changes nothing, and at a start every row with an attempt is one that a dead process left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Final

import structlog

from banyan.core.errors import BadInput, BanyanError, Conflict, Refused, Unreachable
from banyan.core.image import HASH, Image, ImageStatus
from banyan.core.image_ports import DataTooLarge, Pieces, Reading, Received
from banyan.core.image_rows import ImageRows
from banyan.core.image_states import IMAGE, ImageEvent
from banyan.core.permissions import Target, require
from banyan.core.principal import Principal
from banyan.core.records import Unit
from banyan.zone.firm import firm
from banyan.zone.images import access
from banyan.zone.images.catalogue import in_use
from banyan.zone.images.desk import Desk
from banyan.zone.images.formats import Inspection
from banyan.zone.images.places import Shares, steady
from banyan.zone.images.refusals import BadRange, Gone, OverSize

log = structlog.get_logger("banyan.images")

_PAGE: Final = 500


@dataclass(frozen=True, slots=True)
class Attempt:
    """One writing of one image's data: at most `room` bytes."""

    image: Image
    id: str
    room: int

    @property
    def file(self) -> str:
        return f"{self.image.id}.{self.id}"


@dataclass(frozen=True, slots=True)
class Part:
    """`size` bytes of `image`'s data from `first` on, in `pieces`; None: there is no data."""

    image: Image
    first: int = 0
    size: int = 0
    pieces: Reading | None = None


class _Read:
    """A file that is being read, and keeps a place until it is closed."""

    def __init__(self, pieces: Reading, give: Callable[[], None]) -> None:
        self._pieces = pieces
        self._give: Callable[[], None] | None = give

    def __aiter__(self) -> _Read:
        return self

    async def __anext__(self) -> bytes:
        return await anext(self._pieces)

    async def aclose(self) -> None:
        give, self._give = self._give, None
        if give is not None:
            give()
        await self._pieces.aclose()


class Data:
    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._sent = Shares(desk.settings.uploads)
        self._read = Shares(desk.settings.downloads)

    async def upload(self, who: Principal, id: str, pieces: Pieces, declared: int | None) -> Image:
        """The image is active when this returns. `declared`: how many bytes will come, if that is known.

        Raises NotFound("no-image"), Conflict("bad-transition") for one that has data, BadInput("no-format"),
        OverSize("large-image"), ("quota-exceeded"), Gone("no-image") for one that was deleted meanwhile,
        SlowData("slow-data"), Unreachable("images-busy").
        """
        with self._place(who):
            attempt = await self.begin(who, id, ImageEvent.UPLOAD, formats=True)
            return await self.receive(who, attempt, pieces, declared, ImageEvent.DONE)

    async def stage(self, who: Principal, id: str, pieces: Pieces, declared: int | None) -> Image:
        """As `upload`; the data waits until it is imported."""
        with self._place(who):
            attempt = await self.begin(who, id, ImageEvent.STAGE, formats=False)
            return await self.receive(who, attempt, pieces, declared, ImageEvent.STAGED)

    async def open(self, who: Principal, id: str, span: tuple[int | None, int | None] | None) -> Part:
        """The data, or of it the bytes (first, last): (5, None) is all from the sixth on, (None, 5) the last five.

        Raises NotFound("no-image"), Refused for one that is deactivated, BadRange("bad-range").
        """

        def work(rows: ImageRows) -> Image:
            image = access.found(rows, who, id)
            require(who, "image:download_image", Target(project=who.project))
            if image.status is ImageStatus.DEACTIVATED and not access.is_admin(who):
                raise Refused(
                    "deactivated", "The requested image has been deactivated. Image data download is forbidden."
                )
            return image

        image = await self._desk.read(work)
        if not in_use(image) or not image.data:
            return Part(image)
        whole = image.size or 0
        first, last = _span(span, whole)
        size = last - first
        project = project_of(who)
        if not self._read.may(project):
            raise Unreachable(
                "images-busy",
                f"as many images are being read as your project may read beside others: {self._read.free} of "
                f"{self._desk.settings.downloads} places are free; try again in some seconds",
                transient=True,
                retry_after=5.0,
            )
        self._read.take(project)
        try:
            pieces = await self._desk.files.read(
                image.data, first, size, whole=whole, sha512=image.hash_value if size == whole else None
            )
        except BaseException:
            self._read.give(project)
            raise
        return Part(image, first, size, _Read(pieces, lambda: self._read.give(project)))

    # --- writing --------------------------------------------------------------------------------

    @contextmanager
    def _place(self, who: Principal) -> Iterator[None]:
        """One of so many uploads at the same time."""
        with self._sent.held(project_of(who)) as there:
            if not there:
                raise Unreachable(
                    "images-busy",
                    f"as many images are being sent to this zone as your project may send beside others: "
                    f"{self._sent.free} of {self._desk.settings.uploads} places are free; try again in some seconds",
                    transient=True,
                    retry_after=5.0,
                )
            yield

    async def begin(self, who: Principal, id: str, event: ImageEvent, *, formats: bool) -> Attempt:
        """Puts into the row that somebody writes."""
        mark = self._desk.new_attempt()

        def work(unit: Unit) -> Attempt:
            image = access.own(unit.images, who, "image:upload_image", id)
            check_fillable(image)
            if formats:
                check_formats(image)
            status = IMAGE.after(image.status, event)
            held = replace(image, status=status, attempt=mark, import_failed=False, updated_at=self._desk.now())
            unit.images.images.put(held)
            return Attempt(held, mark, self._desk.room(unit.images, image.owner))

        try:
            return await self._desk.change("image.begun", work)
        except BaseException:
            self._desk.live.discard(mark)
            raise

    async def receive(
        self, who: Principal | None, attempt: Attempt, pieces: Pieces, declared: int | None, event: ImageEvent
    ) -> Image:
        """Writes the file, then the row. Whatever fails: the image is queued again, and nothing is left of the file.

        Raises Unfit("format-mismatch"), ("unsafe-image") for data that is not of the image's format, or not to be
        opened by any host; OverSize; Gone.
        """
        desk, name = self._desk, attempt.file
        try:
            if declared is not None and declared > attempt.room:
                raise over_size(attempt.room)
            inspection = Inspection(attempt.image.disk_format, attempt.image.container_format)
            try:
                received = await desk.files.write(name, inspection.watched(steady(pieces, desk.clock)), attempt.room)
            except DataTooLarge as error:
                raise over_size(attempt.room) from error
            image = await self._received(who, attempt, received, inspection.virtual_size, event)
        except BaseException:
            await firm(self._undone(attempt))
            raise
        finally:
            desk.live.discard(attempt.id)
        desk.files.release(name)
        return image

    async def _undone(self, attempt: Attempt) -> None:
        """The image is queued again and the file goes, unless the row says that this attempt came to its end: a commit
        whose answer nobody heard may have happened. Once a later write is done, it has or never will."""
        try:
            await self.failed(attempt, import_failed=False)
            image = await self._desk.read(lambda rows: rows.images.get(attempt.image.id))
        except BanyanError as error:
            # The row and the file stay as they are, for `recover` and `sweep`.
            log.warning("an upload was not undone", image=attempt.image.id, code=error.code)
            self._desk.files.release(attempt.file)
            return
        if image is not None and image.data == attempt.file:
            self._desk.files.release(attempt.file)
        else:
            await self._desk.files.delete(attempt.file)

    async def _received(
        self, who: Principal | None, attempt: Attempt, received: Received, virtual: int | None, event: ImageEvent
    ) -> Image:
        def work(unit: Unit) -> Image:
            image = _still(unit.images, attempt)
            self._desk.check_bytes(unit.images, image.owner, received.size)
            held = replace(
                image,
                status=IMAGE.after(image.status, event),
                attempt="",
                data=attempt.file,
                size=received.size,
                virtual_size=virtual,
                checksum=received.md5,
                hash_algo=HASH,
                hash_value=received.sha512,
                import_failed=False,
                updated_at=self._desk.now(),
            )
            unit.images.images.put(held)
            text = f"{received.size} bytes, sha512 {received.sha512[:16]}"
            self._desk.note(unit, who, "image-received", image.id, text, name=image.name or "", status=held.status)
            return held

        return await self._desk.change("image.received", work)

    async def failed(self, attempt: Attempt, *, import_failed: bool) -> None:
        """The image is queued again, if this attempt is still what writes it."""

        def work(unit: Unit) -> None:
            image = unit.images.images.get(attempt.image.id)
            if image is not None and image.attempt == attempt.id:
                unit.images.images.put(without_data(image, import_failed=import_failed))

        await self._desk.change("image.failed", work)

    # --- what was left half done ----------------------------------------------------------------

    async def recover(self) -> int:
        """Images that nobody writes any more are queued again: what a process that ended left half done, and what this
        one could not undo; how many that were."""

        def work(unit: Unit) -> int:
            count, after = 0, ""
            while page := unit.images.images.unfinished(after, _PAGE):
                for image in page:
                    if image.attempt in self._desk.live:
                        continue
                    count += 1
                    importing = image.status is ImageStatus.IMPORTING
                    unit.images.images.put(without_data(image, import_failed=importing))
                    self._desk.note(unit, None, "image-interrupted", image.id, f"was {image.status}")
                after = page[-1].id
            return count

        def left(rows: ImageRows) -> bool:
            # As many as are live, and one more, can not all be live.
            found = rows.images.unfinished("", len(self._desk.live) + 1)
            return any(image.attempt not in self._desk.live for image in found)

        if not await self._desk.read(left):
            return 0
        return await self._desk.change("image.recovered", work)

    async def sweep(self) -> int:
        """Deletes files that no image names."""

        async def known(names: Sequence[str]) -> frozenset[str]:
            return await self._desk.read(lambda rows: rows.images.files(names))

        return await self._desk.files.sweep(known)


def project_of(who: Principal) -> str:
    """Whose share of places that is."""
    return who.project or f"user {who.user}"


def without_data(image: Image, *, import_failed: bool) -> Image:
    return replace(
        image,
        status=IMAGE.after(image.status, ImageEvent.FAIL),
        attempt="",
        data="",
        size=None,
        virtual_size=None,
        checksum=None,
        hash_algo=None,
        hash_value=None,
        import_failed=import_failed,
    )


def check_fillable(image: Image) -> None:
    if image.awaits_server:
        raise Conflict(
            "awaits-server", f"image {image.id} will be filled by server {image.server}, and by nothing else"
        )


def check_formats(image: Image) -> None:
    missing = [name for name in ("container_format", "disk_format") if getattr(image, name) is None]
    if missing:
        raise BadInput("no-format", f"Properties {', '.join(missing)} must be set prior to saving data.")


def over_size(most: int) -> OverSize:
    return OverSize(
        "large-image", f"the image is larger than it may be: {most} bytes are left for it by quota and settings"
    )


def _still(rows: ImageRows, attempt: Attempt) -> Image:
    image = rows.images.get(attempt.image.id)
    if image is None or image.attempt != attempt.id:
        raise Gone(
            "no-image", f"Image {attempt.image.id} could not be found after upload. The image may have been deleted."
        )
    return image


def _span(span: tuple[int | None, int | None] | None, whole: int) -> tuple[int, int]:
    """As (first, end). Raises BadRange."""
    if span is None:
        return 0, whole
    first, last = span
    if first is None:
        first, end = max(0, whole - (last or 0)), whole
    else:
        end = whole if last is None else min(whole, last + 1)
    if first >= end:
        raise BadRange("bad-range", f"the image has {whole} bytes: there is nothing in the range that was asked for")
    return first, end
