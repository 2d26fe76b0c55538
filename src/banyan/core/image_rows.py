"""Rows of what stands in core/image.py, as the zone uses them inside a unit of work. Implemented in store/images.py.

Synchronous, in one transaction, as core/records.py has it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from banyan.core.directory_rows import Rows
from banyan.core.image import Image, ImageMember, ImageQuery, ImageTask, Stored
from banyan.core.time import Wall


class ImageRecords(Rows[Image], Protocol):
    def query(self, query: ImageQuery, after: Image | None, limit: int) -> Sequence[Image]:
        """In the query's order; after that one, which need not be there any more."""

    def stored(self, owner: str) -> Stored:
        """What the project's images hold now."""

    def unfinished(self, after: str, limit: int) -> Sequence[Image]:
        """Those whose data is on its way (`attempt` is not ""), by id."""

    def awaiting(self, after: str, limit: int) -> Sequence[Image]:
        """Those that a server's disk will fill, by id."""

    def of_server(self, server: str, purpose: str, after: str, limit: int) -> Sequence[Image]:
        """Those that a server's disk filled or will fill, by id. They may be in any project."""

    def kept(self, purpose: str, after: str, limit: int) -> Sequence[Image]:
        """Those of any server that are kept for that purpose, by id."""

    def files(self, names: Sequence[str]) -> frozenset[str]:
        """Those of `names` (at most 5,000) that are some image's data."""

    def bury(self, id: str, at: Wall) -> None:
        """Remembers an id that was used, so that nothing else is ever had under it."""

    def buried(self, id: str) -> bool: ...
    def forget(self, before: Wall, limit: int) -> int:
        """Forgets ids that were buried before then; at most `limit`."""


class ImageMembers(Protocol):
    """By (image, project)."""

    def get(self, image: str, member: str) -> ImageMember | None: ...
    def of(self, image: str, after: str, limit: int) -> Sequence[ImageMember]:
        """By project."""

    def add(self, member: ImageMember) -> bool:
        """False, and nothing written, if it is one."""

    def put(self, member: ImageMember) -> None: ...
    def delete(self, image: str, member: str) -> bool: ...
    def count(self, image: str) -> int: ...


class ImageTasks(Rows[ImageTask], Protocol):
    def newest(self, image: str, owner: str | None, after: ImageTask | None, limit: int) -> Sequence[ImageTask]:
        """The newest first; `image` "" is any, `owner` None any project's."""

    def sweep(self, before: Wall, limit: int) -> int:
        """Deletes those that expired before then; at most `limit`."""


class ImageRows(Protocol):
    @property
    def images(self) -> ImageRecords: ...
    @property
    def members(self) -> ImageMembers: ...
    @property
    def tasks(self) -> ImageTasks: ...
