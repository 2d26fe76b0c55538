"""How long the loop was held, and how fast the database grows: told over a minute, and over days."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from banyan.core.time import Mono, Wall
from banyan.serve.machine import DAY, KEPT, SIZES_NAME, Machine, Size, growth
from banyan.store.store import Measures


class Still:
    """A clock that stands until it is set."""

    def __init__(self) -> None:
        self.at = 1000.0

    def now(self) -> Mono:
        return Mono(self.at)

    def wall(self) -> Wall:
        return Wall(1_796_000_000.0 + self.at)

    async def sleep_until(self, instant: Mono) -> None:
        self.at = max(self.at, instant)
        turn = asyncio.Event()
        asyncio.get_running_loop().call_soon(turn.set)
        await turn.wait()


def machine(folder: Path, clock: Still) -> Machine:
    return Machine(folder, clock, lambda: Measures(commits=7, waiting=2))  # type: ignore[arg-type]  # not all of a clock


def test_the_longest_hold_of_the_last_minute_is_told_and_then_forgotten(tmp_path: Path) -> None:
    clock = Still()
    one = machine(tmp_path, clock)
    one.held(0.5)
    clock.at += 30
    one.held(0.1)
    assert one.measured()["banyan_loop_held_seconds"] == 0.5
    clock.at += 40
    one.held(0.0)
    assert one.measured()["banyan_loop_held_seconds"] == 0.1
    clock.at += 100_000
    one.held(0.2)
    assert one.measured()["banyan_loop_held_seconds"] == 0.2


def test_what_the_store_counts_is_shown(tmp_path: Path) -> None:
    found = machine(tmp_path, Still()).measured()
    assert (found["banyan_store_waiting"], found["banyan_store_commits_total"]) == (2, 7)


@pytest.mark.parametrize(
    ("sizes", "rate"),
    [([], None), ([Size(0, 5)], None), ([Size(0, 5), Size(60, 9)], None), ([Size(0, 100), Size(2 * DAY, 300)], 100.0),
     ([Size(0, 300), Size(DAY, 100)], -200.0)],
)  # fmt: skip
def test_growth_is_told_over_days(sizes: list[Size], rate: float | None) -> None:
    assert growth(sizes) == rate


def test_sizes_outlive_the_process_one_a_day_and_only_so_many(tmp_path: Path) -> None:
    clock = Still()
    database = tmp_path / "banyan.db"
    one = machine(tmp_path, clock)
    for day in range(KEPT + 5):
        database.write_bytes(b"x" * 1000 * (day + 1))
        one._look()
        one._look()
        clock.at += DAY
    kept = json.loads((tmp_path / SIZES_NAME).read_bytes())
    assert len(kept) == KEPT
    another = machine(tmp_path, clock)
    another._sizes = list(another._kept())
    assert another._look()["banyan_database_growth_bytes_per_day"] == pytest.approx(1000, rel=0.1)


def test_a_file_of_sizes_that_makes_no_sense_is_none_and_a_clock_set_back_begins_anew(tmp_path: Path) -> None:
    (tmp_path / SIZES_NAME).write_text("{")
    clock = Still()
    one = machine(tmp_path, clock)
    assert one._kept() == ()
    one._look()
    clock.at -= 10 * DAY
    found = one._look()
    assert "banyan_database_growth_bytes_per_day" not in found
    assert found["banyan_disk_free_bytes"] > 0
    assert "banyan_backup_made_seconds" not in found


def test_it_looks_until_it_is_cancelled(tmp_path: Path) -> None:
    one = machine(tmp_path, Still())

    async def scene() -> None:
        task = asyncio.create_task(one.run())
        async with asyncio.timeout(10):
            while "banyan_disk_free_bytes" not in one.measured():
                await asyncio.to_thread(lambda: None)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(scene())
