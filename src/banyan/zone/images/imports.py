"""Imports: what was staged becomes an image's data, or data is fetched from an address, in the background.

An import is accepted when its task and the image's row say so, durably. Fetches wait in a bounded queue for one of a
few places, by turns of their projects, and each has a deadline; a process that ends leaves rows that the next start
undoes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import aclosing, contextmanager
from dataclasses import replace
from typing import Final

import structlog

from banyan.core.errors import BadInput, BanyanError, Conflict, Unreachable
from banyan.core.image import Image, ImageStatus, ImageTask, TaskState
from banyan.core.image_ports import Fetcher, FetchFailed
from banyan.core.image_rows import ImageRows
from banyan.core.image_states import IMAGE, ImageEvent
from banyan.core.permissions import Target, require
from banyan.core.principal import Principal
from banyan.core.records import Unit
from banyan.core.time import Wall
from banyan.zone.firm import firm
from banyan.zone.images import access
from banyan.zone.images.addresses import AddressRules, Place, judged
from banyan.zone.images.catalogue import Catalogue
from banyan.zone.images.changing import Change
from banyan.zone.images.data import Attempt, Data, check_fillable, project_of
from banyan.zone.images.desk import MAX_LIST, Desk
from banyan.zone.images.places import Shares, Turns
from banyan.zone.images.refusals import OverSize, no_image

log = structlog.get_logger("banyan.images")

GLANCE_DIRECT: Final = "glance-direct"
WEB_DOWNLOAD: Final = "web-download"
_SWEPT: Final = 20
_INTERRUPTED: Final = "the zone was restarted before the import was done; ask for it again"


class Imports:
    def __init__(self, desk: Desk, catalogue: Catalogue, data: Data, fetcher: Fetcher, rules: AddressRules) -> None:
        self._desk = desk
        self._catalogue = catalogue
        self._data = data
        self._fetcher = fetcher
        self._rules = rules
        self._queue = Shares(desk.settings.fetches + desk.settings.waiting)
        self._turns = Turns(desk.settings.fetches)
        self._jobs: set[asyncio.Task[None]] = set()

    @property
    def methods(self) -> tuple[str, ...]:
        return (GLANCE_DIRECT, WEB_DOWNLOAD) if self._desk.settings.web_download else (GLANCE_DIRECT,)

    async def begin(self, who: Principal, id: str, method: str, uri: str) -> ImageTask:
        """Accepted when this returns. Raises NotFound("no-image"), BadInput("bad-method"), ("bad-uri"),
        Conflict("bad-transition"), ("no-format"), ("not-staged"), Unreachable("images-busy")."""
        if method not in self.methods:
            known = ", ".join(self.methods)
            raise BadInput("bad-method", f"Unknown import method name '{method[:64]}': this zone has {known}")
        if method == GLANCE_DIRECT:
            return await self._direct(who, id)
        place = judged(uri, self._rules)
        with self._place(who) as keep:
            attempt, task = await self._accepted(who, id, place)
            keep(attempt, task, uri)
        return task

    async def create(self, who: Principal, fields: Sequence[Change], uri: str) -> ImageTask:
        """A new image with these fields, and its data fetched. Raises what `begin` and Catalogue.create raise."""
        if WEB_DOWNLOAD not in self.methods:
            raise BadInput("bad-method", "this zone fetches no images from addresses")
        place = judged(uri, self._rules)
        with self._place(who) as keep:
            image = await self._catalogue.create(who, None, fields)
            attempt, task = await self._accepted(who, image.id, place)
            keep(attempt, task, uri)
        return task

    @contextmanager
    def _place(self, who: Principal) -> Iterator[Callable[[Attempt, ImageTask, str], None]]:
        """One of so many that are fetched or wait. Given back when this is left, or, if what it yields was called, when
        the fetch that this began is over."""
        project, queue = project_of(who), self._queue
        if not queue.may(project):
            raise Unreachable(
                "images-busy",
                f"as many images wait to be fetched as your project may have beside others: {queue.free} places are "
                "free; try again in a minute",
                transient=True,
                retry_after=60.0,
            )
        queue.take(project)
        kept = False

        def keep(attempt: Attempt, task: ImageTask, uri: str) -> None:
            nonlocal kept
            kept = True
            work = self._fetched(project, attempt, task, uri)
            job = asyncio.create_task(work, name=f"import of image {attempt.image.id}")
            self._jobs.add(job)
            job.add_done_callback(self._jobs.discard)
            job.add_done_callback(lambda _: queue.give(project))

        try:
            yield keep
        finally:
            if not kept:
                queue.give(project)

    async def close(self) -> None:
        """Ends what is being fetched; the next start puts those images back."""
        jobs = list(self._jobs)
        for job in jobs:
            job.cancel()
        await asyncio.gather(*jobs, return_exceptions=True)

    async def idle(self) -> None:
        """Returns when nothing is being fetched."""
        while self._jobs:
            await asyncio.wait(set(self._jobs))

    # --- tasks ----------------------------------------------------------------------------------

    async def of_image(self, who: Principal, id: str) -> Sequence[ImageTask]:
        """The newest first. Raises NotFound("no-image")."""

        def work(rows: ImageRows) -> Sequence[ImageTask]:
            image = access.found(rows, who, id)
            if not (access.owns(who, image) or access.sees_all(who)):
                raise no_image(id)
            require(who, "image:get_image_tasks", Target(project=image.owner))
            return rows.tasks.newest(id, None, None, MAX_LIST)

        return await self._desk.read(work)

    async def show(self, who: Principal, id: str) -> ImageTask | None:
        require(who, "image:get_task")
        return await self._desk.read(lambda rows: rows.tasks.get(id))

    async def page(self, who: Principal, after: str, limit: int) -> Sequence[ImageTask]:
        """The newest first, of all projects. Raises BadInput("bad-marker")."""
        require(who, "image:get_tasks")

        def work(rows: ImageRows) -> Sequence[ImageTask]:
            last = rows.tasks.get(after) if after else None
            if after and last is None:
                raise BadInput("bad-marker", f"Invalid marker: no task found with ID {after[:255]}")
            return rows.tasks.newest("", None, last, max(1, min(limit, MAX_LIST))) if limit else ()

        return await self._desk.read(work)

    async def recover(self) -> None:
        """At a start: imports of a process that ended are failed, and say so."""

        states = (TaskState.PENDING, TaskState.PROCESSING)

        def work(unit: Unit) -> None:
            for state in states:
                while page := unit.images.tasks.page({"state": state.value}, "", MAX_LIST):
                    for task in page:
                        unit.images.tasks.put(
                            replace(task, state=TaskState.FAILURE, message=_INTERRUPTED, updated_at=self._desk.now())
                        )

        def left(rows: ImageRows) -> bool:
            return any(rows.tasks.page({"state": state.value}, "", 1) for state in states)

        if await self._desk.read(left):
            await self._desk.change("image-task.recovered", work)

    # --- doing it -------------------------------------------------------------------------------

    async def _direct(self, who: Principal, id: str) -> ImageTask:
        """What was staged is the data already: its file is known to the row, and summed."""

        def work(unit: Unit) -> ImageTask:
            image = self._fit(unit, who, id)
            if image.status is not ImageStatus.UPLOADING:
                raise Conflict(
                    "not-staged", f"Only images with status uploading can be imported, {id} is {image.status}"
                )
            if image.attempt or not image.data:
                raise Conflict("not-staged", f"the data of image {id} is still being staged")
            status = IMAGE.after(IMAGE.after(image.status, ImageEvent.IMPORT), ImageEvent.DONE)
            unit.images.images.put(replace(image, status=status, import_failed=False, updated_at=self._desk.now()))
            self._desk.note(unit, who, "image-imported", id, GLANCE_DIRECT)
            return self._add(unit, who, image, GLANCE_DIRECT, "", TaskState.SUCCESS)

        return await self._desk.change("image.imported", work)

    async def _accepted(self, who: Principal, id: str, place: Place) -> tuple[Attempt, ImageTask]:
        mark = self._desk.new_attempt()

        def work(unit: Unit) -> tuple[Attempt, ImageTask]:
            image = self._fit(unit, who, id)
            if image.status is not ImageStatus.QUEUED:
                raise Conflict(
                    "bad-transition", f"Only images with status queued can be fetched, {id} is {image.status}"
                )
            status = IMAGE.after(image.status, ImageEvent.IMPORT)
            held = replace(image, status=status, attempt=mark, import_failed=False, updated_at=self._desk.now())
            unit.images.images.put(held)
            self._desk.note(unit, who, "image-import-begun", id, place.shown)
            task = self._add(unit, who, image, WEB_DOWNLOAD, place.shown, TaskState.PENDING)
            return Attempt(held, mark, self._desk.room(unit.images, image.owner)), task

        try:
            return await self._desk.change("image.begun", work)
        except BaseException:
            self._desk.live.discard(mark)
            raise

    def _fit(self, unit: Unit, who: Principal, id: str) -> Image:
        image = access.own(unit.images, who, "image:import_image", id)
        check_fillable(image)
        for name in ("container_format", "disk_format"):
            if getattr(image, name) is None:
                raise Conflict("no-format", f"'{name}' needs to be set before import")
        return image

    def _add(self, unit: Unit, who: Principal, image: Image, method: str, uri: str, state: TaskState) -> ImageTask:
        now = self._desk.now()
        unit.images.tasks.sweep(now, _SWEPT)
        expires = Wall(now + self._desk.settings.task_life)
        task = ImageTask(
            self._desk.new_uuid(), image.id, image.owner, who.user, who.request, method, uri, state,
            created_at=now, updated_at=now, expires=expires,
        )  # fmt: skip
        unit.images.tasks.add(task)
        return task

    async def _fetched(self, project: str, attempt: Attempt, task: ImageTask, uri: str) -> None:
        """One fetch from its place in the queue to its end. Never raises but when it is cancelled."""
        why = ""
        try:
            async with asyncio.timeout(self._desk.settings.fetch_deadline), self._turns.place(project):
                await self._set(task, TaskState.PROCESSING, "")
                async with aclosing(self._fetcher.fetch(uri)) as pieces:
                    await self._data.receive(None, attempt, pieces, None, ImageEvent.DONE)
        except FetchFailed as failure:
            why = failure.reason
        except TimeoutError:
            why = f"it took more than {self._desk.settings.fetch_deadline:g} seconds"
        except (OverSize, BanyanError) as error:
            why = error.text
        except asyncio.CancelledError:
            raise
        except Exception:
            # Whoever asked is told that it failed; what it was is a fault of ours, for the log.
            log.exception("import failed", image=attempt.image.id)
            why = "something failed inside the zone"
        await firm(self._ended(attempt, task, why))

    async def _ended(self, attempt: Attempt, task: ImageTask, why: str) -> None:
        self._desk.live.discard(attempt.id)
        try:
            if why:
                await self._data.failed(attempt, import_failed=True)
                await self._mark(attempt)
            await self._set(task, TaskState.FAILURE if why else TaskState.SUCCESS, why)
        except BanyanError as error:
            log.warning("the end of an import was not stored", image=attempt.image.id, code=error.code)

    async def _mark(self, attempt: Attempt) -> None:
        """`receive` may have put the image back already, and knows nothing of imports."""

        def work(unit: Unit) -> None:
            image = unit.images.images.get(attempt.image.id)
            if image is not None and image.status is ImageStatus.QUEUED and not image.import_failed:
                unit.images.images.put(replace(image, import_failed=True))

        await self._desk.change("image.failed", work)

    async def _set(self, task: ImageTask, state: TaskState, message: str) -> None:
        def work(unit: Unit) -> None:
            held = unit.images.tasks.get(task.id)
            if held is not None:
                unit.images.tasks.put(replace(held, state=state, message=message, updated_at=self._desk.now()))

        await self._desk.change("image-task.set", work)
