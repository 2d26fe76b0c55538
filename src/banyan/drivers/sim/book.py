"""The simulated hosts' memory on disk: a file of its own, so that a zone that is killed finds its guests as they were.

Each entry is its length (4 bytes) and MessagePack of (guest, machine or None), appended before it is told. A torn last
entry, or an entry that is no entry, ends the reading: what stands before it is good. The file is written anew when it
is opened and most of it is old. It is not synced: it outlives the process, not the machine's power.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping
from pathlib import Path

import msgspec

from banyan.core.errors import Broken
from banyan.drivers.sim.machines import Machine

# Entries beyond twice the guests that make a file worth writing anew.
_SLACK = 10_000

_ENTRY = msgspec.msgpack.Decoder(tuple[str, Machine | None])
_ENCODE = msgspec.msgpack.Encoder().encode


class FileBook:
    """drivers.sim.machines.Book. Nothing is opened before it is read."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: int | None = None
        self._entries: list[bytes] = []

    def read(self) -> Mapping[str, Machine]:
        """Raises Broken("sim-book") when the file cannot be had."""
        try:
            # `parents=True` would make the folders above with the mode of the umask.
            for folder in (self._path.parent.parent, self._path.parent):
                folder.mkdir(mode=0o700, exist_ok=True)
            content = self._path.read_bytes() if self._path.exists() else b""
            machines, entries, good = _entries(content)
            if entries > 2 * len(machines) + _SLACK:
                self._rewrite(machines)
            elif good < len(content):
                os.truncate(self._path, good)
            self._file = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        except OSError as error:
            raise Broken("sim-book", f"the simulated hosts' memory {self._path} cannot be had: {error}") from error
        return machines

    def write(self, guest: str, machine: Machine | None) -> None:
        if self._file is None:
            raise Broken("sim-book", f"the simulated hosts' memory {self._path} is not open")
        self._entries.append(_entry(guest, machine))

    def flush(self) -> None:
        """Writes what was given since the last time. Raises Broken("sim-book"); then it is kept for the next."""
        if self._file is None or not self._entries:
            return
        entries = b"".join(self._entries)
        try:
            written = os.write(self._file, entries)
            if written < len(entries):
                # The disk is full: what follows a torn entry would never be read.
                os.ftruncate(self._file, os.fstat(self._file).st_size - written)
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError as error:
            raise Broken("sim-book", f"{self._path} cannot be written: {error}") from error
        self._entries.clear()

    def close(self) -> None:
        if self._file is not None:
            self.flush()
            os.close(self._file)
            self._file = None

    def _rewrite(self, machines: Mapping[str, Machine]) -> None:
        fresh = self._path.with_suffix(".new")
        fresh.write_bytes(b"".join(_entry(guest, machine) for guest, machine in machines.items()))
        fresh.chmod(0o600)
        fresh.replace(self._path)


def _entry(guest: str, machine: Machine | None) -> bytes:
    body = _ENCODE((guest, machine))
    return len(body).to_bytes(4) + body


def _entries(content: bytes) -> tuple[dict[str, Machine], int, int]:
    """The machines, how many entries they came from, and how many bytes of the file are good."""
    machines: dict[str, Machine] = {}
    at = entries = 0
    while at + 4 <= len(content):
        size = int.from_bytes(content[at : at + 4])
        if at + 4 + size > len(content):
            break
        try:
            guest, machine = _ENTRY.decode(content[at + 4 : at + 4 + size])
        except msgspec.MsgspecError:
            break
        at += 4 + size
        entries += 1
        if machine is None:
            machines.pop(guest, None)
        else:
            machines[guest] = machine
    return machines, entries, at
