"""The data of images as files in DATA/images: core.image_ports.ImageFiles on a local file system.

A file gets its name when all of it is on the disk, and is never changed afterwards. Data goes through memory in pieces
of PIECE bytes at most; all that waits for the disk runs in threads of its own. While a backup of the zone is made
(it holds `.lock`, shared) no file is deleted: what the backup's rows name must be there.
"""

from __future__ import annotations

import asyncio
import errno
import fcntl
import hashlib
import os
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

from banyan.core.errors import Broken, Unreachable
from banyan.core.image_ports import DataTooLarge, Known, Pieces, Received
from banyan.store.durable import FILE_MODE, make_folder, sync_folder

T = TypeVar("T")

FOLDER: Final = "images"
LOCK: Final = ".lock"
PIECE: Final = 1 << 20
# What is written is flushed every so many bytes, so that the last flush is short, and the room is looked at.
FLUSH: Final = 64 * PIECE
_HALF: Final = ".part"
# Names that are looked up at a time when files are swept.
_SOME: Final = 1_000


class _Summed:
    """A file that is being written, with its sums."""

    def __init__(self, path: Path) -> None:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, FILE_MODE)
        self.file = open(descriptor, "wb", buffering=0)  # noqa: SIM115 - closed by who writes
        # MD5 is what OpenStack's clients know an image's `checksum` as; nothing relies on it.
        self.md5 = hashlib.md5(usedforsecurity=False)
        self.sha512 = hashlib.sha512()
        self.size = 0
        self.flushed = 0

    def add(self, piece: bytes) -> None:
        left = memoryview(piece)
        while left:
            left = left[self.file.write(left) :]
        self.md5.update(piece)
        self.sha512.update(piece)
        self.size += len(piece)


class ImageFolder:
    """`keep_free`: bytes that the file system must have left after each flush. `readers`: how many files are handed
    out at the same time."""

    def __init__(
        self,
        folder: Path,
        *,
        keep_free: int = 1 << 30,
        readers: int = 32,
        threads: int = 4,
    ) -> None:
        self._folder = folder
        self._keep_free = keep_free
        self._readers = readers
        self._reading = 0
        self._held: set[str] = set()
        self._pool = ThreadPoolExecutor(threads, "images")
        make_folder(folder)

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)

    # --- writing --------------------------------------------------------------------------------

    async def write(self, name: str, pieces: Pieces, most: int) -> Received:
        self._held.add(name)
        half = self._folder / f"{name}{_HALF}"
        out: _Summed | None = None
        try:
            out = await _whole(self.run(lambda: _Summed(half)))
            waiting: list[bytes] = []
            size = came = 0
            async for piece in pieces:
                came += len(piece)
                if came > most:
                    raise DataTooLarge(most)
                for begin in range(0, len(piece), PIECE):
                    waiting.append(piece[begin : begin + PIECE])
                    size += len(waiting[-1])
                    if size >= PIECE:
                        await self._add(out, waiting)
                        waiting, size = [], 0
            await self._add(out, waiting)
            await _whole(self.run(partial(self._finish, out, half, self._folder / name)))
        except BaseException:
            await _whole(self.run(partial(_discard, out, half, self._folder / name)))
            self._held.discard(name)
            raise
        return Received(out.size, out.md5.hexdigest(), out.sha512.hexdigest())

    async def _add(self, out: _Summed, waiting: list[bytes]) -> None:
        if waiting:
            await _whole(self.run(lambda: self._append(out, b"".join(waiting))))

    def _append(self, out: _Summed, content: bytes) -> None:
        out.add(content)
        if out.size - out.flushed >= FLUSH or out.flushed == 0:
            os.fdatasync(out.file.fileno())
            out.flushed = out.size
            self._check_room()

    def _check_room(self) -> None:
        there = os.statvfs(self._folder)
        if there.f_bavail * there.f_frsize < self._keep_free:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self._folder))

    def _finish(self, out: _Summed, half: Path, path: Path) -> None:
        os.fsync(out.file.fileno())
        out.file.close()
        half.rename(path)
        sync_folder(self._folder)

    def release(self, name: str) -> None:
        self._held.discard(name)

    # --- reading --------------------------------------------------------------------------------

    async def read(self, name: str, first: int, size: int, *, whole: int, sha512: str | None = None) -> _Reading:
        if self._reading >= self._readers:
            raise Unreachable(
                "images-busy",
                f"{self._readers} images are being read from this zone, as many as may be; try again in some seconds",
                transient=True,
                retry_after=5.0,
            )
        self._reading += 1
        try:
            descriptor = await self.run(lambda: self._open(name, whole))
        except BaseException:
            self._reading -= 1
            raise
        return _Reading(self, name, descriptor, first, size, sha512)

    def closed(self) -> None:
        self._reading -= 1

    def _open(self, name: str, whole: int) -> int:
        try:
            descriptor = os.open(self._folder / name, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except FileNotFoundError as error:
            raise _damaged(name, "its file is not there") from error
        if (found := os.fstat(descriptor).st_size) != whole:
            os.close(descriptor)
            raise _damaged(name, f"its file has {found} bytes and not {whole}")
        return descriptor

    # --- deleting -------------------------------------------------------------------------------

    async def delete(self, name: str) -> None:
        await self.run(lambda: self._delete([name]))
        self._held.discard(name)

    async def sweep(self, known: Known) -> int:
        names = await self.run(lambda: [path.name for path in self._folder.iterdir() if path.name != LOCK])
        count = 0
        for begin in range(0, len(names), _SOME):
            some = names[begin : begin + _SOME]
            # First what is held: a file that a row names now was held until then.
            held = set(self._held)
            named = await known(some)
            lost = [name for name in some if name not in named and name.removesuffix(_HALF) not in held]
            if lost:
                count += await self.run(partial(self._delete, lost))
        return count

    def _delete(self, names: list[str]) -> int:
        count = 0
        with _alone(self._folder / LOCK) as free:
            for name in names if free else []:
                for path in (self._folder / name, self._folder / f"{name}{_HALF}"):
                    try:
                        path.unlink()
                        count += 1
                    except FileNotFoundError:
                        continue
            if count:
                sync_folder(self._folder)
        return count

    async def run(self, work: Callable[[], T]) -> T:
        """In a thread; what the file system refuses is said in our words."""
        try:
            return await asyncio.get_running_loop().run_in_executor(self._pool, work)
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise Unreachable(
                    "image-store-full", "this zone has no room for the image; its operator must make some"
                ) from error
            raise Broken(
                "image-store-broken", "this zone can not read or write its images; its log has the reason",
                detail=f"{error.filename}: {error.strerror}",
            ) from error  # fmt: skip


class _Reading:
    """core.image_ports.Reading."""

    def __init__(
        self, folder: ImageFolder, name: str, descriptor: int, first: int, size: int, sha512: str | None
    ) -> None:
        self._folder = folder
        self._name = name
        self._descriptor: int | None = descriptor
        self._at, self._end = first, first + size
        self._sha512 = sha512
        self._summed = hashlib.sha512()

    def __aiter__(self) -> _Reading:
        return self

    async def __anext__(self) -> bytes:
        descriptor = self._descriptor
        if descriptor is None or self._at >= self._end:
            raise StopAsyncIteration
        wanted = min(PIECE, self._end - self._at)
        # A thread that reads is not left by its caller: the descriptor is closed after it.
        piece = await _whole(self._folder.run(partial(self._read, descriptor, self._at, wanted)))
        self._at += len(piece)
        if not piece:
            raise _damaged(self._name, "its file became shorter")
        if self._at == self._end and self._sha512 is not None and self._summed.hexdigest() != self._sha512:
            raise _damaged(self._name, "its data is not what was stored")
        return piece

    def _read(self, descriptor: int, first: int, size: int) -> bytes:
        piece = os.pread(descriptor, size, first)
        if self._sha512 is not None:
            self._summed.update(piece)
        return piece

    async def aclose(self) -> None:
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            self._folder.closed()
            os.close(descriptor)


async def _whole(work: Coroutine[object, object, T]) -> T:
    """The result of `work`, which runs to its end also if its caller is cancelled."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait((task,))
        raise


def _discard(out: _Summed | None, half: Path, path: Path) -> None:
    if out is not None:
        out.file.close()
    half.unlink(missing_ok=True)
    path.unlink(missing_ok=True)


@contextmanager
def kept(folder: Path) -> Iterator[None]:
    """Meanwhile no file in `folder`, which need not be there, is deleted by anybody."""
    if not folder.is_dir():
        yield
        return
    descriptor = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
    try:
        # Whoever deletes holds it for a moment only.
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        yield
    finally:
        os.close(descriptor)


@contextmanager
def _alone(lock: Path) -> Iterator[bool]:
    """False while a backup holds the lock."""
    descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        yield True
    finally:
        os.close(descriptor)


def _damaged(name: str, why: str) -> Broken:
    return Broken(
        "image-damaged", "the data of this image is lost or damaged; send it again as another image",
        detail=f"{FOLDER}/{name}: {why}",
    )  # fmt: skip
