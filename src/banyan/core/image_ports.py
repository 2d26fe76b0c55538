"""What the image service needs of the outside: files for data, and somebody who fetches from addresses.

Adapters: store/image_files.py, serve/fetch.py. Sums are in hex, sizes in bytes.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

# Pieces of data as they come, in order, of any size.
Pieces = AsyncIterator[bytes]
# Those of these names that are some image's data.
Known = Callable[[Sequence[str]], Awaitable[frozenset[str]]]


@dataclass(frozen=True, slots=True)
class Received:
    """Data that is on the disk."""

    size: int
    md5: str
    sha512: str


class Reading(Protocol):
    """A file that is being read; `aclose` it also where nothing was read of it."""

    def __aiter__(self) -> Reading: ...
    async def __anext__(self) -> bytes: ...
    async def aclose(self) -> None: ...


class ImageFiles(Protocol):
    """Files by name, each written once and never changed.

    A name that is being written, or was and is not released, is not swept.
    """

    async def write(self, name: str, pieces: Pieces, most: int) -> Received:
        """Returns when all of it is durable under that name; then `release` it, or `delete` it. Nothing stays of one
        that fails. Raises DataTooLarge (more than `most` bytes), Unreachable("image-store-full"), what `pieces` raises.
        """

    def release(self, name: str) -> None:
        """A row names it now."""

    async def read(self, name: str, first: int, size: int, *, whole: int, sha512: str | None = None) -> Reading:
        """`size` bytes from `first` on. `whole`: its size. With `sha512` its last piece is handed out only if all of
        it had that sum, else Broken("image-damaged") is raised. Raises Broken("image-damaged") at once if there is no
        such file of that size, Unreachable("images-busy") if as many are read as may be."""

    async def delete(self, name: str) -> None:
        """Or leaves it to the next sweep, while a backup of the zone is made. Safe to repeat."""

    async def sweep(self, known: Known) -> int:
        """Deletes what no image names any more, such as halves of what a dead process wrote; how many it were."""


class Fetcher(Protocol):
    """Fetches what an address names. Every address that it connects to is judged first (addresses.py)."""

    def fetch(self, url: str) -> AsyncGenerator[bytes, None]:
        """Raises FetchFailed, with a reason that may be shown to who asked."""


class DataTooLarge(Exception):
    """More than the `most` bytes that there may be."""


class FetchFailed(Exception):
    """`reason`: for who asked; it says nothing of what else lies in the network that was asked."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
