"""Group commit: many units to one COMMIT, nobody answered before it returned, and a queue that has an end."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from banyan.core.errors import Unreachable
from banyan.core.ids import ZoneCode
from banyan.core.records import StoreUnknown, Unit
from banyan.core.zone import Child
from banyan.store.inline import no_pause
from banyan.store.store import Limits, SqlStore
from tests.contract.store.conftest import Run, opened


def put(n: int, u: Unit) -> int:
    u.children.put(Child(ZoneCode(n), f"z{n}", b"%d" % n))
    return n


class Watch:
    """An observer that can hold the writing thread at either side of a COMMIT."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, tuple[str, ...]]] = []
        self.held: str | None = None
        self.there = threading.Event()
        self.go_on = threading.Event()

    def __call__(self, phase: str, names: tuple[str, ...]) -> None:
        self.seen.append((phase, names))
        if phase == self.held:
            self.held = None
            self.there.set()
            assert self.go_on.wait(20)

    def hold(self, phase: str) -> None:
        self.there.clear()
        self.go_on.clear()
        self.held = phase


@pytest.fixture
def watch() -> Watch:
    return Watch()


@pytest.fixture
def store(location: str, tmp_path: Path, run: Run, watch: Watch) -> Iterator[SqlStore]:
    limits = Limits(waiting=40, batch=16, readers=1, patience=20.0)
    store = opened(tmp_path / "zone", location, observer=watch, limits=limits)
    yield store
    watch.go_on.set()
    run(store.close())


async def reached(watch: Watch) -> None:
    assert await asyncio.to_thread(watch.there.wait, 20)


@pytest.mark.parametrize("phase", ["before", "after"])
def test_nobody_is_answered_while_the_commit_is_under_way(store: SqlStore, run: Run, watch: Watch, phase: str) -> None:
    async def main() -> None:
        watch.hold(phase)
        tasks = [asyncio.ensure_future(store.write(f"unit-{n}", lambda u, n=n: put(n, u))) for n in range(3)]
        await reached(watch)
        for _ in range(20):
            await no_pause("")
        assert not any(task.done() for task in tasks)
        counted = await store.read(lambda u: u.children.count())
        assert (counted > 0) == (phase == "after"), "readers see what is committed, and only that"
        watch.go_on.set()
        assert await asyncio.gather(*tasks) == [0, 1, 2]

    run(main())


def test_units_that_wait_share_commits_of_bounded_size(store: SqlStore, run: Run, watch: Watch) -> None:
    async def main() -> None:
        watch.hold("before")
        first = asyncio.ensure_future(store.write("first", lambda u: put(100, u)))
        await reached(watch)
        tasks = [asyncio.ensure_future(store.write(f"unit-{n}", lambda u, n=n: put(n, u))) for n in range(40)]
        await no_pause("")
        watch.go_on.set()
        await asyncio.gather(first, *tasks)

    run(main())
    sizes = [len(names) for phase, names in watch.seen if phase == "after"]
    assert sizes == [1, 16, 16, 8]
    assert [name for phase, names in watch.seen if phase == "before" for name in names] == [
        "first",
        *(f"unit-{n}" for n in range(40)),
    ], "in the order of asking"
    measures = store.measures()
    assert (measures.commits, measures.units, measures.failed, measures.largest) == (4, 41, 0, 16)


def test_a_full_queue_refuses_at_once_and_takes_the_next_ones_later(store: SqlStore, run: Run, watch: Watch) -> None:
    async def main() -> None:
        watch.hold("before")
        first = asyncio.ensure_future(store.write("first", lambda u: put(100, u)))
        await reached(watch)
        tasks = [asyncio.ensure_future(store.write("unit", lambda u, n=n: put(n, u))) for n in range(40)]
        await no_pause("")
        assert store.measures().waiting == 40
        with pytest.raises(Unreachable, match="40 units of work waiting") as refused:
            await store.write("one-more", lambda u: put(99, u))
        assert refused.value.code == "store-busy"
        assert await store.read(lambda u: u.children.count()) == 0, "reading goes on"
        watch.go_on.set()
        await asyncio.gather(first, *tasks)
        assert await store.write("one-more", lambda u: put(99, u)) == 99

    run(main())


def test_units_of_a_commit_that_all_failed_make_no_commit(store: SqlStore, run: Run, watch: Watch) -> None:
    def fails(u: Unit) -> None:
        put(1, u)
        raise LookupError

    with pytest.raises(LookupError):
        run(store.write("fails", fails))
    assert watch.seen == []
    assert (store.measures().commits, store.measures().failed) == (0, 1)


def test_a_caller_that_is_cancelled_before_its_turn_leaves_no_trace(store: SqlStore, run: Run, watch: Watch) -> None:
    async def main() -> None:
        watch.hold("before")
        first = asyncio.ensure_future(store.write("first", lambda u: put(100, u)))
        await reached(watch)
        gone = asyncio.ensure_future(store.write("gone", lambda u: put(1, u)))
        stays = asyncio.ensure_future(store.write("stays", lambda u: put(2, u)))
        await no_pause("")
        gone.cancel()
        await asyncio.gather(gone, return_exceptions=True)
        watch.go_on.set()
        await asyncio.gather(first, stays)
        assert [child.code for child in await store.read(lambda u: u.children.page(None, 10))] == [2, 100]

    run(main())


def test_closing_serves_what_waits(store: SqlStore, run: Run, watch: Watch) -> None:
    async def main() -> None:
        watch.hold("before")
        tasks = [asyncio.ensure_future(store.write("unit", lambda u, n=n: put(n, u))) for n in range(30)]
        await reached(watch)
        closing = asyncio.ensure_future(store.close())
        await no_pause("")
        watch.go_on.set()
        await closing
        assert await asyncio.gather(*tasks) == list(range(30))

    run(main())


def test_patience_with_a_database_that_hangs_ends_in_an_unknown_fate(
    location: str, tmp_path: Path, run: Run, watch: Watch
) -> None:
    store = opened(tmp_path / "zone", location, observer=watch, limits=Limits(readers=1, patience=0.2))

    async def main() -> None:
        watch.hold("before")
        with pytest.raises(StoreUnknown, match="is not known"):
            await store.write("hangs", lambda u: put(1, u))
        with pytest.raises(Unreachable, match="nothing was done"):
            await store.write("behind", lambda u: put(2, u))
        watch.go_on.set()
        assert await store.write("later", lambda u: put(3, u)) == 3
        assert [child.code for child in await store.read(lambda u: u.children.page(None, 10))] == [1, 3]

    run(main())
    run(store.close())


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_an_observer_that_raises_ends_writing_and_leaves_nobody_waiting(
    location: str, tmp_path: Path, run: Run
) -> None:
    def broken(phase: str, names: tuple[str, ...]) -> None:
        raise SystemExit

    store = opened(tmp_path / "zone", location, observer=broken)
    with pytest.raises(StoreUnknown):
        run(store.write("unit", lambda u: put(1, u)))
    with pytest.raises(Unreachable, match="closed"):
        run(store.write("unit", lambda u: put(1, u)))
    assert run(store.read(lambda u: u.children.count())) == 0
    run(store.close())
