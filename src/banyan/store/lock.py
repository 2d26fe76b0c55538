"""One process per data folder: an flock on DATA/lock, held as long as the store is open.

The kernel drops it when the process ends, however it ends. The file's content is only for people: whose it is.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from banyan.core.errors import Conflict
from banyan.store.durable import FILE_MODE

LOCK_NAME = "lock"


def holder(data: Path) -> int | None:
    """The process that serves the folder now, None if nobody does, or if nothing is there. Writes nothing."""
    try:
        descriptor = os.open(data / LOCK_NAME, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        text = os.read(descriptor, 32).decode("ascii", "replace").strip()
        return int(text) if text.isdigit() else 0
    finally:
        os.close(descriptor)
    return None


class FolderLock:
    """Taken on construction. Raises Conflict("folder-in-use") naming the process that has it."""

    def __init__(self, data: Path) -> None:
        # Not inherited by programs that this one starts: a lock lives as long as any copy of its descriptor.
        descriptor = os.open(data / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            holder = os.read(descriptor, 32).decode("ascii", "replace").strip() or "unknown"
            os.close(descriptor)
            raise Conflict(
                "folder-in-use",
                f"the data folder {data} is in use by process {holder}; one process serves it at a time: "
                "stop that one, or give this one a folder of its own (--data)",
            ) from error
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        self._descriptor = descriptor

    def release(self) -> None:
        """May be called again."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.ftruncate(descriptor, 0)
            os.close(descriptor)
