"""Files and folders that survive a power cut: content first, then the name, then the folder that holds it.

A rename is atomic, but only an fsync of the folder makes it last (man 2 fsync). All that is made here is private:
files 0600, folders 0700.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

FILE_MODE = 0o600
FOLDER_MODE = 0o700


def sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_folder(folder: Path) -> None:
    """Makes `folder` and what leads to it, and closes it to others if it was open to them."""
    missing = []
    at = folder
    while not at.exists():
        missing.append(at)
        at = at.parent
    for path in reversed(missing):
        path.mkdir(mode=FOLDER_MODE, exist_ok=True)
        sync_folder(path.parent)
    if folder.stat().st_mode & 0o077:
        folder.chmod(FOLDER_MODE)


def make_file(path: Path, content: bytes = b"") -> None:
    """A new private file, whole or not at all. Raises FileExistsError and then leaves the old one alone."""
    temporary = path.with_name(f".{path.name}.new")
    temporary.unlink(missing_ok=True)
    write_synced(temporary, [content])
    try:
        # A link, unlike a rename, never takes the place of another file.
        os.link(temporary, path)
    finally:
        temporary.unlink()
    sync_folder(path.parent)


def write_synced(path: Path, pieces: Iterable[bytes]) -> None:
    """A new private file whose content is on the disk; its name is once its folder is synced."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE_MODE)
    with open(descriptor, "wb") as file:
        for piece in pieces:
            file.write(piece)
        file.flush()
        os.fsync(file.fileno())
