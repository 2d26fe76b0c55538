"""What goes up: changes since what the parent knows, a whole to one that knows something else, news only for news."""

from __future__ import annotations

from dataclasses import replace

import msgspec

from banyan.core.digest import MAX_COUNTER
from banyan.core.ids import ZoneCode
from banyan.core.lineage import MAX_ROWS, Entry, Row, UseRow
from banyan.core.messages import DigestPart
from banyan.core.time import BUILD_DATE, Wall
from banyan.core.zone import Child, ChildState, Health
from banyan.simulate.ids import SeededIds
from banyan.zone.streams import HISTORY, Streams, child_row, first_generation, own_row
from banyan.zone.uses import OTHERS, Uses

OWN = ZoneCode(7)
NOW = Wall(BUILD_DATE)


def row(code: int, health: str = "alive", as_of: int = 5) -> Row:
    return Row(ZoneCode(code), OWN, f"z{code}", b"e" * 100, b"s" * 64, "ready", health, "enabled", "", as_of)


def use(key: str, guests: int, name: str = "") -> UseRow:
    return UseRow(9, key, name, guests, guests, guests, guests)


def test_a_parent_that_knows_nothing_is_sent_a_whole() -> None:
    streams = Streams(OWN, 1_000)
    streams.publish_digest({"lh": 1, "lhu": 1})
    assert streams.digest_since(0) == DigestPart(0, 1_001, {"lh": 1, "lhu": 1})


def test_one_that_is_behind_is_sent_what_changed() -> None:
    streams = Streams(OWN, 1_000)
    streams.publish_digest({"lh": 1, "lhu": 1})
    streams.publish_digest({"lh": 2, "lhu": 1})
    streams.publish_digest({"lh": 2})
    assert streams.digest_since(1_001) == DigestPart(1_001, 1_003, {"lh": 2, "lhu": 0})
    assert streams.digest_since(1_003) is None


def test_the_same_digest_is_no_generation() -> None:
    streams = Streams(OWN, 1_000)
    assert streams.publish_digest({"lh": 1})
    assert not streams.publish_digest({"lh": 1})
    assert streams.generations().digest == 1_001


def test_one_that_is_far_behind_or_from_another_life_is_sent_a_whole() -> None:
    streams = Streams(OWN, 1_000)
    for hosts in range(1, HISTORY + 5):
        streams.publish_digest({"lh": hosts})
    for known in (1_001, 999, 5, 2**60):
        part = streams.digest_since(known)
        assert part is not None
        assert (part.since, part.counters) == (0, {"lh": HISTORY + 4})


def test_what_a_caller_does_to_its_map_later_changes_no_history() -> None:
    streams = Streams(OWN, 1_000)
    counters = {"lh": 1}
    streams.publish_digest(counters)
    counters["lh"] = 9
    streams.publish_digest(counters)
    assert streams.digest_since(1_001) == DigestPart(1_001, 1_002, {"lh": 9})


def test_rows_go_up_in_pages_of_what_the_budget_holds() -> None:
    streams = Streams(OWN, 1_000)
    streams.put_rows(row(n) for n in range(1, 1_201))
    first = streams.lineage_since(0, 10**9)
    assert first is not None
    assert (len(first.rows), first.more, first.since) == (MAX_ROWS, True, 0)
    small = streams.lineage_since(0, 1_000)
    assert small is not None
    assert len(small.rows) < 8
    one = streams.lineage_since(0, 1)
    assert one is not None
    assert len(one.rows) == 1


def test_rows_keep_their_order_from_page_to_page() -> None:
    streams = Streams(OWN, 1_000)
    streams.put_rows(row(n) for n in range(1, 11))
    streams.put_rows([row(3, "lost")])
    known, seen = 0, []
    while (delta := streams.lineage_since(known, 500)) is not None:
        seen += [r.code for r in delta.rows]
        known = delta.until
    assert seen == [1, 2, 4, 5, 6, 7, 8, 9, 10, 3]


def test_a_heartbeat_is_no_news_of_a_zone() -> None:
    streams = Streams(OWN, 1_000)
    assert streams.put_rows([row(1, as_of=5)]) == 1
    assert streams.put_rows([row(1, as_of=9)]) == 0
    assert streams.put_rows([row(1, "lost", as_of=9)]) == 1
    held = streams.row(ZoneCode(1))
    assert held is not None
    assert held.as_of == 9


def test_a_zone_that_goes_is_told_once_to_those_who_knew_it() -> None:
    streams = Streams(OWN, 1_000)
    streams.put_rows([row(1), row(2)])
    known = streams.generations().lineage
    assert streams.drop_rows([ZoneCode(1), ZoneCode(5)]) == 1
    delta = streams.lineage_since(known, 10_000)
    assert delta is not None
    assert [(r.code, r.gone) for r in delta.rows] == [(1, True)]
    whole = streams.lineage_since(0, 10_000)
    assert whole is not None
    assert [r.code for r in whole.rows] == [2]


def test_news_wakes_and_mere_time_does_not() -> None:
    streams = Streams(OWN, 1_000)
    event = streams.subscribe()
    streams.publish_digest({"lh": 1, "at": 5})
    assert event.is_set()
    event.clear()
    streams.publish_digest({"lh": 1, "at": 6})
    assert not event.is_set()
    streams.put_rows([row(1)])
    assert event.is_set()
    event.clear()
    streams.put_rows([row(1, as_of=8)])
    streams.put_uses(1, [])
    assert not event.is_set()
    streams.put_uses(1, [use("a", 1)])
    assert event.is_set()
    event.clear()
    streams.unsubscribe(event)
    streams.put_uses(1, [use("a", 2)])
    assert not event.is_set()


def test_use_is_summed_over_members() -> None:
    streams = Streams(OWN, 1_000)
    streams.replace_uses(1, [use("a", 2, "alpha"), use("b", 1)])
    streams.put_uses(2, [use("a", 3)])
    known = streams.generations().ledger
    assert streams.uses.page(None, 10) == [use("a", 5, "alpha"), use("b", 1)]
    streams.replace_uses(1, [use("a", 2, "alpha")])
    ledger = streams.ledger_since(known, 10_000)
    assert ledger is not None
    assert ledger.rows == (use("b", 0),)


def test_what_may_not_travel_is_summed_with_the_others() -> None:
    uses = Uses(OWN)
    uses.put(1, [use("x" * 300, 2), use("a\0b", 3), use("fine", 1, "n" * 300)])
    rows = uses.page(None, 10)
    assert [(r.issuer, r.project, r.guests) for r in rows] == [(OWN, OTHERS, 5), (9, "fine", 1)]
    assert len(rows[1].name) == 255


def test_sums_of_use_saturate() -> None:
    uses = Uses(OWN)
    uses.put(1, [use("a", MAX_COUNTER)])
    uses.put(2, [use("a", MAX_COUNTER)])
    assert uses.total((9, "a")).guests == MAX_COUNTER


def test_generations_of_a_later_life_are_above_all_earlier_ones() -> None:
    ids = SeededIds(1, "zone")
    early, late = first_generation(NOW, ids), first_generation(Wall(NOW + 1.0), ids)
    assert early + 900_000 < late < 2**53


def test_a_zones_own_row_is_signed_as_it_is_encoded() -> None:
    entry = Entry(OWN, b"k" * 32, (ZoneCode(1),), 5)
    signed = []
    one = own_row(entry, lambda body: signed.append(body) or b"signature", "lab", {"site": "b"}, NOW)
    assert signed == [one.entry]
    assert msgspec.msgpack.decode(one.entry, type=Entry) == entry
    assert (one.signature, one.parent, one.labels) == (b"signature", 0, {"site": "b"})


def test_a_childs_row_says_what_its_parent_sees() -> None:
    child = Child(
        ZoneCode(3), "lab", b"", ChildState.READY, health=Health.LOST, health_reason="x" * 2_000, heard_at=NOW
    )
    one = child_row(child, OWN, b"entry", b"signature")
    assert (one.parent, one.health, one.as_of) == (OWN, "lost", round(NOW * 1000))
    assert len(one.reason) == 1_000
    assert child_row(replace(child, heard_at=None), OWN, b"", b"").as_of == 0
