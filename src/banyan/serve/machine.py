"""What a zone's process and disk say of themselves, for /metrics and `banyan doctor`: how long the event loop was held,
the store's queue, room on the disk and how fast the database grows, and when the zone was last backed up.

Growth is told over days, and a process may live for hours: one size a day is kept in DATA/sizes.json.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from banyan.core.ports import Clock
from banyan.core.time import Mono
from banyan.store.backup import last_backup
from banyan.store.durable import sync_folder, write_synced
from banyan.store.location import SqliteFile, parse_location
from banyan.store.open import DATABASE_NAME
from banyan.store.store import Measures

SIZES_NAME: Final = "sizes.json"
# Seconds between two looks at the loop: what is shorter is missed now and then, what is longer than a beat never.
BEAT: Final = 0.25
# The longest hold is told for so long, in so many parts, seconds.
WINDOW, PARTS = 60.0, 6
# Seconds between two looks at the disk, and between two kept sizes; how many are kept.
LOOK: Final = 60.0
DAY: Final = 86_400.0
KEPT: Final = 15
# A shorter time says nothing about a day.
LEAST: Final = 3_600.0


class Size(msgspec.Struct, frozen=True):
    """How many bytes the database had at that instant (seconds since 1970)."""

    at: float
    size: int


_sizes = msgspec.json.Decoder(tuple[Size, ...])


def growth(sizes: Sequence[Size]) -> float | None:
    """Bytes a day from the oldest size to the newest; None where too little time lies between them."""
    if not sizes or (apart := sizes[-1].at - sizes[0].at) < LEAST:
        return None
    return (sizes[-1].size - sizes[0].size) / apart * DAY


class Machine:
    """See the module. `run` looks until it is cancelled; `measured` is cheap. `store`: what the store counts.
    `location`: where the database is, if not in the folder; of one in a server no size is told."""

    def __init__(self, folder: Path, clock: Clock, store: Callable[[], Measures], location: str = "") -> None:
        where = parse_location(location) if location else SqliteFile(folder / DATABASE_NAME)
        self._folder = folder
        self._clock = clock
        self._store = store
        self._database = where.path if isinstance(where, SqliteFile) else None
        # The longest hold of each part of the window, the newest last.
        self._holds: deque[float] = deque([0.0], maxlen=PARTS)
        self._part_ends = Mono(clock.now() + WINDOW / PARTS)
        self._sizes: list[Size] = []
        self._found: dict[str, float] = {}

    def measured(self) -> Mapping[str, float]:
        store = self._store()
        return {
            **self._found,
            "banyan_loop_held_seconds": max(self._holds),
            "banyan_store_waiting": float(store.waiting),
            "banyan_store_commits_total": float(store.commits),
            "banyan_store_units_total": float(store.units),
            "banyan_store_units_failed_total": float(store.failed),
            "banyan_store_reads_total": float(store.reads),
            "banyan_store_commit_seconds_total": store.commit_seconds,
        }

    async def run(self) -> None:
        self._sizes = list(await asyncio.to_thread(self._kept))
        look_at = self._clock.now()
        while True:
            if self._clock.now() >= look_at:
                self._found = await asyncio.to_thread(self._look)
                look_at = Mono(self._clock.now() + LOOK)
            meant = Mono(self._clock.now() + BEAT)
            await self._clock.sleep_until(meant)
            self.held(self._clock.now() - meant)

    def held(self, seconds: float) -> None:
        """The loop came back so much later than it was to."""
        now = self._clock.now()
        while now >= self._part_ends:
            self._holds.append(0.0)
            # After a long absence (a stopped process) no part of it needs an end of its own.
            self._part_ends = Mono(max(self._part_ends + WINDOW / PARTS, now - WINDOW))
        self._holds[-1] = max(self._holds[-1], seconds)

    def _look(self) -> dict[str, float]:
        """In a thread: a disk may hang. What can not be read is left out, and `banyan doctor` says that it is."""
        found: dict[str, float] = {}
        try:
            found["banyan_disk_free_bytes"] = float(shutil.disk_usage(self._folder).free)
            if self._database is not None:
                size = _size(self._database) + _size(self._database.with_name(f"{self._database.name}-wal"))
                found["banyan_database_bytes"] = float(size)
                self._keep(Size(self._clock.wall(), size))
                if (rate := growth([*self._sizes, Size(self._clock.wall(), size)])) is not None:
                    found["banyan_database_growth_bytes_per_day"] = rate
            if (made := last_backup(self._folder)) is not None:
                found["banyan_backup_made_seconds"] = made
        except OSError:
            return found
        return found

    def _kept(self) -> Sequence[Size]:
        """What an earlier process wrote; a file that makes no sense is none."""
        try:
            return _sizes.decode((self._folder / SIZES_NAME).read_bytes())[-KEPT:]
        except (OSError, msgspec.MsgspecError):
            return ()

    def _keep(self, size: Size) -> None:
        # A clock that was set back begins anew: a growth over negative days is none.
        if self._sizes and size.at < self._sizes[-1].at:
            self._sizes = []
        if self._sizes and size.at - self._sizes[-1].at < DAY:
            return
        self._sizes = [*self._sizes, size][-KEPT:]
        temporary = self._folder / f".{SIZES_NAME}.new"
        temporary.unlink(missing_ok=True)
        write_synced(temporary, [msgspec.json.encode(self._sizes)])
        os.replace(temporary, self._folder / SIZES_NAME)
        sync_folder(self._folder)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
