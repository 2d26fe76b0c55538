"""The simulated store's own powers: three instants, crashes, images, clones, planned failures."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import pytest

from banyan.core.errors import Unreachable
from banyan.core.ids import ZoneCode
from banyan.core.records import StoreFull, StoreUnknown, Unit
from banyan.core.secret import Secret
from banyan.core.zone import Child
from banyan.store.inline import InlineStore, no_pause
from tests.contract.store.conftest import Run
from tests.contract.store.fakes import SeededIds


def child(n: int) -> Child:
    return Child(ZoneCode(n), f"z{n}", b"%d" % n)


def names(u: Unit) -> list[str]:
    return [c.name for c in u.children.page(None, 100)]


@dataclass
class Gate:
    """A pause whose instants the test lets pass one by one."""

    waiting: dict[str, asyncio.Event] = field(default_factory=dict)

    async def pause(self, instant: str) -> None:
        await self.waiting.setdefault(instant, asyncio.Event()).wait()

    async def pass_(self, instant: str) -> None:
        self.waiting.setdefault(instant, asyncio.Event()).set()
        for _ in range(5):
            await no_pause("")


def test_start_commit_and_answer_are_three_instants(run: Run) -> None:
    async def main() -> None:
        gate = Gate()
        store = InlineStore(SeededIds(), gate.pause)
        runs: list[int] = []
        task = asyncio.ensure_future(store.write("put", lambda u: (runs.append(1), u.children.put(child(1)))))
        await no_pause("")
        assert runs == []
        await gate.pass_("start put")
        assert runs == [1], "rehearsed"
        assert _peek(store) == [], "and rolled back"
        await gate.pass_("commit put")
        assert runs == [1, 1]
        assert _peek(store) == ["z1"], "committed before it is answered"
        assert not task.done()
        await gate.pass_("answer put")
        assert task.done()

    run(main())


def _peek(store: InlineStore) -> list[str]:
    twin = InlineStore(SeededIds(), no_pause, image=store.image())
    value, error = twin._run(names, keep=None)
    assert error is None
    assert value is not None
    return value


def test_units_in_flight_interleave_at_their_instants(run: Run) -> None:
    async def main() -> None:
        gate = Gate()
        store = InlineStore(SeededIds(), gate.pause)
        first = asyncio.ensure_future(store.write("first", lambda u: (u.children.put(child(1)), names(u))[1]))
        second = asyncio.ensure_future(store.write("second", lambda u: (u.children.put(child(2)), names(u))[1]))
        for instant in (
            "start first",
            "start second",
            "commit second",
            "commit first",
            "answer first",
            "answer second",
        ):
            await gate.pass_(instant)
        assert await second == ["z2"]
        assert await first == ["z1", "z2"], "what counts is what the unit saw when it was committed"

    run(main())


@pytest.mark.parametrize(("passed", "kept"), [(["start"], []), (["start", "commit"], ["z1"])])
def test_a_crash_keeps_what_was_committed_and_answers_nobody(run: Run, passed: list[str], kept: list[str]) -> None:
    async def main() -> None:
        gate = Gate()
        store = InlineStore(SeededIds(), gate.pause)
        task = asyncio.ensure_future(store.write("put", lambda u: u.children.put(child(1))))
        for instant in passed:
            await gate.pass_(f"{instant} put")
        store.crash()
        for instant in ("start", "commit", "answer"):
            await gate.pass_(f"{instant} put")
        with pytest.raises(StoreUnknown):
            await task
        with pytest.raises(StoreUnknown):
            await store.read(names)
        again = InlineStore(SeededIds(), no_pause, image=store.image())
        assert await again.read(names) == kept

    run(main())


def test_a_clone_starts_from_the_same_memory_secrets_included(run: Run) -> None:
    async def main() -> None:
        store = InlineStore(SeededIds(), no_pause)
        await store.write("put", lambda u: (u.children.put(child(1)), u.keys.put("ca", Secret(b"seed"))))
        image = store.image()
        await store.write("put", lambda u: u.children.put(child(2)))
        clone = InlineStore(SeededIds(9), no_pause, image=image)
        assert await clone.read(names) == ["z1"]
        assert await clone.read(lambda u: u.keys.get("ca")) == Secret(b"seed")
        await clone.write("put", lambda u: u.children.put(child(3)))
        assert await store.read(names) == ["z1", "z2"]
        assert await clone.read(names) == ["z1", "z3"]
        assert b"seed" not in image.database

    run(main())


def test_planned_failures(run: Run) -> None:
    async def main() -> None:
        store = InlineStore(SeededIds(), no_pause)
        store.fail(StoreFull, StoreUnknown)
        with pytest.raises(StoreFull):
            await store.write("put", lambda u: u.children.put(child(1)))
        assert await store.read(names) == []
        with pytest.raises(StoreUnknown):
            await store.write("put", lambda u: u.children.put(child(1)))
        assert await store.read(names) == ["z1"]
        await store.write("put", lambda u: u.children.put(child(2)))

    run(main())


def test_the_observer_sees_each_commit_and_no_rehearsal(run: Run) -> None:
    async def main() -> None:
        seen: list[tuple[str, tuple[str, ...]]] = []
        store = InlineStore(SeededIds(), no_pause, observer=lambda phase, names: seen.append((phase, names)))
        await store.write("put", lambda u: u.children.put(child(1)))
        with pytest.raises(LookupError):
            await store.write("fails", _fails)
        assert seen == [("before", ("put",)), ("after", ("put",))]

    run(main())


def _fails(u: Unit) -> None:
    raise LookupError


def test_closed_is_not_crashed(run: Run) -> None:
    async def main() -> None:
        store = InlineStore(SeededIds(), no_pause)
        await store.write("put", lambda u: u.children.put(child(1)))
        await store.close()
        with pytest.raises(Unreachable, match="closed"):
            await store.read(names)
        assert await InlineStore(SeededIds(), no_pause, image=store.image()).read(names) == ["z1"]

    run(main())
