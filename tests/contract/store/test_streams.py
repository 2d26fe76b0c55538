"""What children report: digests, generations, lineage and ledger rows, and forgetting them."""

from __future__ import annotations

from banyan.core.ids import RackCode, ZoneCode
from banyan.core.lineage import Row, UseRow
from banyan.core.zone import Child, ChildState
from tests.contract.store.conftest import Kept

A, B = ZoneCode(7), ZoneCode((1 << 40) - 1)


def zone(code: int, name: str = "z") -> Row:
    return Row(ZoneCode(code), A, name, b"\x00entry", b"sig", "ready", "alive", "enabled", "", 5, {"k": "v"}, True)


def use(issuer: int, project: str, guests: int = 1) -> UseRow:
    return UseRow(issuer, project, "näme", guests, 1 << 50, 3, 4)


def test_a_digest_and_generations_are_kept_apart(kept: Kept) -> None:
    assert kept.read(lambda u: (u.streams.digest(A), u.streams.generations(A))) == (None, (0, 0))
    kept.write(lambda u: u.streams.put_generations(A, 3, 4))
    assert kept.read(lambda u: (u.streams.digest(A), u.streams.generations(A))) == (None, (3, 4))
    kept.write(lambda u: u.streams.put_digest(A, 9, {"lh": 1 << 60, "r:é": 0}))
    assert kept.read(lambda u: (u.streams.digest(A), u.streams.generations(A))) == (
        (9, {"lh": 1 << 60, "r:é": 0}),
        (3, 4),
    )
    kept.write(lambda u: u.streams.put_digest(A, 10, {}))
    kept.write(lambda u: u.streams.put_generations(A, 5, 6))
    assert kept.read(lambda u: (u.streams.digest(A), u.streams.generations(A))) == ((10, {}), (5, 6))


def test_lineage_rows_are_paged_by_code_and_replaced(kept: Kept) -> None:
    kept.write(lambda u: u.lineage.put(A, [zone(n) for n in (5, 1, B, 3)]))
    kept.write(lambda u: u.lineage.put(A, [zone(3, "renamed")]))
    assert kept.read(lambda u: u.lineage.via(A, None, 3)) == [zone(1), zone(3, "renamed"), zone(5)]
    assert kept.read(lambda u: u.lineage.via(A, ZoneCode(5), 3)) == [zone(B)]
    kept.write(lambda u: u.lineage.delete(A, [ZoneCode(1), ZoneCode(99)]))
    assert [row.code for row in kept.read(lambda u: u.lineage.via(A, None, 10))] == [3, 5, B]


def test_a_zone_seen_through_two_children_has_two_carriers(kept: Kept) -> None:
    kept.write(lambda u: (u.lineage.put(B, [zone(5)]), u.lineage.put(A, [zone(5), zone(6)])))
    assert kept.read(lambda u: u.lineage.carriers(ZoneCode(5))) == [A, B]
    kept.write(lambda u: u.lineage.delete(A, [ZoneCode(5)]))
    assert kept.read(lambda u: u.lineage.carriers(ZoneCode(5))) == [B]
    assert kept.read(lambda u: u.lineage.carriers(ZoneCode(9))) == []


def test_ledger_rows_are_paged_by_issuer_and_project(kept: Kept) -> None:
    rows = [use(2, "a"), use(1, "b"), use(1, "B"), use(1, "é"), use(0, "z")]
    kept.write(lambda u: u.ledger.put(A, rows))
    expected = [use(0, "z"), use(1, "B"), use(1, "b"), use(1, "é"), use(2, "a")]
    assert kept.read(lambda u: u.ledger.via(A, None, 2)) == expected[:2]
    assert kept.read(lambda u: u.ledger.via(A, (1, "B"), 10)) == expected[2:]
    kept.write(lambda u: (u.ledger.put(A, [use(1, "b", 5)]), u.ledger.delete(A, [(1, "é"), (2, "a"), (9, "?")])))
    assert kept.read(lambda u: u.ledger.via(A, None, 10)) == [use(0, "z"), use(1, "B"), use(1, "b", 5)]
    assert kept.read(lambda u: u.ledger.via(ZoneCode(0), None, 10)) == []


def test_many_rows_at_once(kept: Kept) -> None:
    kept.write(lambda u: u.lineage.put(A, (zone(n) for n in range(2_345))))
    kept.write(lambda u: u.lineage.delete(A, (ZoneCode(n) for n in range(0, 2_345, 2))))
    assert [row.code for row in kept.read(lambda u: u.lineage.via(A, None, 10_000))] == list(range(1, 2_345, 2))
    kept.write(lambda u: u.lineage.put(A, []))
    kept.write(lambda u: u.lineage.delete(A, []))


def test_forgetting_a_child_leaves_the_others(kept: Kept) -> None:
    for child in (A, B):
        kept.write(
            lambda u, child=child: (
                u.streams.put_digest(child, 1, {"lh": 1}),
                u.streams.put_generations(child, 1, 1),
                u.lineage.put(child, [zone(5)]),
                u.ledger.put(child, [use(1, "p")]),
            )
        )
    kept.write(lambda u: u.streams.forget(A))

    def left(u, child):
        return u.streams.digest(child), u.lineage.via(child, None, 9), u.ledger.via(child, None, 9)

    assert kept.read(lambda u: left(u, A)) == (None, [], [])
    assert kept.read(lambda u: u.streams.generations(A)) == (0, 0)
    assert kept.read(lambda u: left(u, B)) == ((1, {"lh": 1}), [zone(5)], [use(1, "p")])


def test_owners_of_racks_are_paged_by_rack_and_forgotten(kept: Kept) -> None:
    big = RackCode((1 << 40) - 1)
    kept.write(lambda u: u.lineage.put_rack_owners({big: A, RackCode(3): B, RackCode(5): A}))
    kept.write(lambda u: u.lineage.put_rack_owners({RackCode(3): A, RackCode(5): None, RackCode(9): None}))
    assert kept.read(lambda u: u.lineage.rack_owners(None, 1)) == [(3, A)]
    assert kept.read(lambda u: u.lineage.rack_owners(RackCode(3), 10)) == [(big, A)]


def test_zones_with_two_carriers_are_found_but_not_those_of_a_retired_one(kept: Kept) -> None:
    def child(code: ZoneCode, state: ChildState = ChildState.READY) -> Child:
        return Child(code, f"c{code}", code.to_bytes(32, "big"), state)

    mine, retired = ZoneCode(20), ZoneCode(21)
    kept.write(lambda u: [u.children.put(child(c)) for c in (A, B, mine)])
    kept.write(lambda u: u.children.put(child(retired, ChildState.RETIRED)))
    kept.write(lambda u: (u.lineage.put(B, [zone(B), zone(5), zone(6)]), u.lineage.put(A, [zone(A), zone(5), zone(8)])))
    kept.write(lambda u: u.lineage.put(retired, [zone(6)]))
    kept.write(lambda u: (u.lineage.put(A, [zone(mine)]), u.lineage.put(mine, [zone(mine)])))
    assert kept.read(lambda u: u.lineage.doubled(10)) == [(5, A), (5, B), (mine, A)]
    assert kept.read(lambda u: u.lineage.doubled(1)) == [(5, A)]
