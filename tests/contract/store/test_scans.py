"""Any sequence of scans leaves exactly what the last complete one saw, and sums that agree with it."""

from __future__ import annotations

import asyncio
from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from banyan.core.guest import Guest, GuestState
from banyan.core.ids import RackCode
from banyan.core.lineage import UseRow
from banyan.core.records import Unit
from banyan.store.inline import InlineStore, no_pause
from tests.contract.store.fakes import SeededIds

TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=6)
GUESTS = st.builds(
    Guest,
    id=st.sampled_from([f"g{n}" for n in range(12)]),
    name=TEXTS,
    project=st.sampled_from(["p1", "P1", "é", ""]),
    state=st.sampled_from(list(GuestState)),
    vcpu=st.integers(0, 1 << 20),
    memory_mib=st.integers(0, 1 << 50),
    created=st.floats(0, 2e9),
    offered=st.booleans(),
)
SCANS = st.lists(st.tuples(st.sampled_from([1, 2]), st.lists(GUESTS, max_size=10), st.booleans()), max_size=6)


@settings(max_examples=60, deadline=None)
@given(SCANS)
def test_scans(scans: list[tuple[int, list[Guest], bool]]) -> None:
    async def main() -> None:
        store = InlineStore(SeededIds(), no_pause, rehearse=False)
        model: dict[int, dict[str, Guest]] = {1: {}, 2: {}}
        for number, (rack, seen, complete) in enumerate(scans, start=1):
            kept = {guest.id: guest for guest in seen}
            swept = await store.write("scan", lambda u, r=rack, n=number, s=seen, c=complete: scan(u, r, n, s, c))
            if complete:
                assert swept == len(model[rack].keys() - kept.keys())
                model[rack] = kept
            else:
                model[rack] |= kept
            for code, guests in model.items():
                await check(store, RackCode(code), list(guests.values()))

    asyncio.run(main())


def scan(u: Unit, rack: int, number: int, seen: list[Guest], complete: bool) -> int:
    half = len(seen) // 2
    u.guests.put(RackCode(rack), number, seen[:half])
    u.guests.put(RackCode(rack), number, seen[half:])
    return u.guests.sweep(RackCode(rack), number) if complete else 0


async def check(store: InlineStore, rack: RackCode, guests: list[Guest]) -> None:
    found = await store.read(
        lambda u: (u.guests.page(rack, None, 100), u.guests.count_by_state(rack), u.guests.use_by_project(rack))
    )
    projects = {guest.project for guest in guests}
    uses = [
        UseRow(
            rack,
            project,
            "",
            sum(g.project == project for g in guests),
            sum(g.vcpu for g in guests if g.project == project),
            sum(g.memory_mib for g in guests if g.project == project),
            0,
        )
        for project in sorted(projects)
    ]
    states = Counter((guest.state.value, guest.offered) for guest in guests)
    assert found == (sorted(guests, key=lambda g: (g.name, g.id)), states, uses)
