"""What one child may have its parent remember is bounded in all, not only zone by zone."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator

import msgspec
import pytest

from banyan.core.errors import BadInput
from banyan.core.ids import RackCode
from banyan.core.lineage import Entry, RackEntry, Row
from banyan.trust.lineage import sign_entry
from banyan.zone import inbox
from banyan.zone.rack_routes import RackRoutes
from banyan.zone.weights import Weights
from tests.unit.zone.household import Household, Kid, delta


@pytest.fixture
def house() -> Iterator[Household]:
    made = Household()
    yield made
    made.close()


def racked(kid: Kid, row: Row, first: int, racks: int) -> Row:
    entry = msgspec.msgpack.decode(row.entry, type=Entry)
    named = tuple(RackEntry(RackCode(first + n), "r" * 18, "sim") for n in range(racks))
    body = msgspec.msgpack.encode(msgspec.structs.replace(entry, racks=named))
    return msgspec.structs.replace(row, entry=body, signature=sign_entry(kid.seed, body))


def fat(kid: Kid, page: int, count: int = 20) -> list[Row]:
    made = []
    for n in range(count):
        zone = kid.house.stranger(f"z{page}-{n}")
        made.append(racked(zone, zone.row(kid.code), (page * count + n + 1) * 1000, 1000))
    return made


def opened(house: Household) -> Kid:
    kid = house.kid("east")
    kid.open()
    kid.report(lineage=delta([kid.itself()]))
    return kid


def test_all_racks_of_a_child_together_are_bounded(house: Household, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inbox, "MAX_LINEAGE_RACKS", 3_000)
    kid = opened(house)
    rows = fat(kid, 0, 3)
    kid.report(lineage=delta(rows, since=1, until=2))
    with pytest.raises(BadInput, match="racks in all, these would have .* 4000 racks") as refused:
        kid.report(lineage=delta(fat(kid, 50, 1), since=2, until=3))
    assert refused.value.code == "too-much-lineage"
    # The same ones again, or others in the place of some, are no more than before; a restart forgets nothing.
    house.restore(house.store.image())
    kid.open()
    kid.report(lineage=delta([msgspec.structs.replace(row, health="lost") for row in rows], since=2, until=3))
    gone = msgspec.structs.replace(rows[0], gone=True)
    kid.report(lineage=delta([gone, *fat(kid, 60, 1)], since=3, until=4))
    assert len(house.zone.roster.routes) == 3_000
    # More than may be, from a version before: it may not grow, and is heard.
    monkeypatch.setattr(inbox, "MAX_LINEAGE_RACKS", 2_000)
    kid.report(lineage=delta([msgspec.structs.replace(rows[1], health="lost")], since=4, until=5))


def test_all_bytes_of_a_child_together_are_bounded(house: Household, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inbox, "MAX_LINEAGE_BYTES", 100_000)
    kid = opened(house)
    kid.report(lineage=delta(fat(kid, 0, 3), since=1, until=2))
    with pytest.raises(BadInput, match="MiB"):
        kid.report(lineage=delta(fat(kid, 1, 1), since=2, until=3))


def test_a_child_that_is_gone_weighs_nothing(house: Household) -> None:
    kid, weights = house.stranger("east"), Weights()
    rows = fat(kid, 0, 2)
    weights.keep(kid.code, rows, ())
    size, racks = weights.after(kid.code, (), ())
    assert (size > 40_000, racks) == (True, 2_000)
    assert weights.after(kid.code, rows[:1], [rows[1].code])[1] == 1_000
    weights.keep(kid.code, (), [row.code for row in rows])
    assert weights.after(kid.code, (), ()) == (0, 0)


def test_a_rack_costs_little_memory() -> None:
    routes = RackRoutes()
    codes = [RackCode(1 << 39 | n) for n in range(50_000)]
    tracemalloc.start()
    for first in range(0, len(codes), 1000):
        routes.put(first, codes[first : first + 1000])
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert used / len(codes) < 100
