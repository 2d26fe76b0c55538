"""Each record comes back as it went in, every field of it, also after the store was closed and opened again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields, replace

import pytest

from banyan.core.errors import Refused
from banyan.core.ids import RackCode, ZoneCode
from banyan.core.messages import EpochProof, ShapeSet
from banyan.core.policy import CodeRecord, KnownKey, Rule, TokenRecord, Verdict
from banyan.core.rack import Basis, Capacity, Rack, RackHealth
from banyan.core.records import AuthorityRow, Self, Unit
from banyan.core.secret import Secret
from banyan.core.time import TimeBasis, Wall
from banyan.core.zone import Admin, Child, ChildState, Health, Mode, Uplink
from banyan.store.rules import MAX_RULES
from tests.contract.store.conftest import Kept

BIG = (1 << 40) - 1

SELF = Self(
    ZoneCode(BIG),
    "top",
    Wall(1_800_000_000.123456),
    7,
    {"site": "Zürich", "a": ""},
    TimeBasis(-3.5, Wall(2e9)),
    "b",
    Wall(3.0),
)
AUTHORITY = AuthorityRow(b"\x00\xff" * 16, b"\x30\x00", "ca-1", Wall(1.0), Wall(2.5), False, (b"\x00", b"\xfe"), True)
UPLINK = Uplink(
    3,
    ("a:1", "[::1]:2"),
    b"\x01" * 32,
    False,
    ZoneCode(0),
    "north",
    "top/north",
    "lab",
    b"c",
    (b"1", b"\x00"),
    9,
    EpochProof(8, b"\x07" * 32, b"\x00\xff" * 32),
    b"m",
    b"n",
    Wall(4.25),
    True,
    "refused",
    ShapeSet(b"\x00\xff", ("vcpu=1", "memory_mib=512,vcpu=2;HW_CPU_X86_AVX2")),
)
CHILD = Child(
    ZoneCode(BIG),
    "east",
    b"\x02" * 32,
    ChildState.READY,
    Admin.MAINTENANCE,
    "disk",
    "ann",
    Wall(5.5),
    Health.SUSPECT,
    "late",
    True,
    True,
    {"site": "x"},
    Mode.PROTECT,
    "0.1",
    "c1",
    4,
    b"mark",
    False,
    Wall(6.0),
    Wall(7.0),
    Wall(8.0),
)
RACK = Rack(
    RackCode(BIG),
    "r1",
    "openstack",
    {"cloud": "east", "tls": True, "pages": [1, 2.5, None], "d": {"x": 1}},
    2,
    "c1",
    RackHealth.UNAVAILABLE,
    "401",
    Capacity.SHARED,
    Basis.QUOTA,
    11,
    Wall(9.0),
    {"region": "one"},
)
CODE = CodeRecord(
    "c0de", b"\x03" * 32, Wall(10.0), Wall(11.0), 5, 2, "lab*", "sim", {"site": "x"}, Mode.OBSERVE, True, True, "ann", 3
)
KNOWN = KnownKey(b"\x04" * 32, "lab", {"a": "b"}, Mode.PROTECT, True, "ann")
RULE = Rule("r", 5, "known-key", "lab*", "sim", {"a": "*"}, Verdict.QUARANTINE, {"b": "c"}, Mode.OBSERVE, "because")
TOKEN = TokenRecord(
    "t", "ann", "operator", ZoneCode(BIG), "top/north", Wall(12.0), Wall(13.0), True, "root", 3, ZoneCode(9)
)


@pytest.mark.parametrize("record", [SELF, AUTHORITY, UPLINK, CHILD, RACK, CODE, KNOWN, RULE, TOKEN])
def test_these_records_leave_no_field_at_its_default(record: object) -> None:
    for field in fields(record):
        assert getattr(record, field.name) != field.default, f"{type(record).__name__}.{field.name}"


def test_every_record_comes_back_whole(kept: Kept) -> None:
    def put(u: Unit) -> None:
        u.self_.put(SELF)
        u.authorities.put(AUTHORITY)
        u.uplinks.put(UPLINK)
        u.children.put(CHILD)
        u.racks.put(RACK)
        u.codes.put(CODE)
        u.known_keys.put(KNOWN)
        u.rules.put(RULE)
        u.tokens.put(TOKEN)

    def get(u: Unit) -> tuple[object, ...]:
        return (
            u.self_.get(),
            u.authorities.all()[0],
            u.uplinks.get(3),
            u.children.get(CHILD.code),
            u.racks.get(RACK.code),
            u.codes.get("c0de"),
            u.known_keys.get(KNOWN.fingerprint),
            u.rules.all()[0],
            u.tokens.get("t"),
        )

    kept.write(put)
    expected = (SELF, AUTHORITY, UPLINK, CHILD, RACK, CODE, KNOWN, RULE, TOKEN)
    assert kept.read(get) == expected
    kept.again()
    found = kept.read(get)
    assert found == expected
    assert [type(getattr(found[3], f.name)) for f in fields(Child)] == [
        type(getattr(CHILD, f.name)) for f in fields(Child)
    ]


def test_a_new_zone_holds_nothing(kept: Kept) -> None:
    nothing = (None, None, None, None)
    assert (
        kept.read(lambda u: (u.self_.get(), u.uplinks.get(1), u.children.get(ZoneCode(1)), u.racks.get(RackCode(1))))
        == nothing
    )
    assert (
        kept.read(lambda u: (u.codes.get("x"), u.known_keys.get(b"x"), u.tokens.get("x"), u.keys.get("x"))) == nothing
    )
    assert kept.read(lambda u: [*u.authorities.all(), *u.uplinks.all(), *u.racks.all(), *u.rules.all()]) == []


def test_the_last_put_of_a_key_stands(kept: Kept) -> None:
    kept.write(lambda u: u.self_.put(SELF))
    kept.write(lambda u: u.self_.put(replace(SELF, epoch=8, restored_at=None, labels={})))
    assert kept.read(lambda u: u.self_.get()) == replace(SELF, epoch=8, restored_at=None, labels={})


def test_optional_fields_come_back_as_none(kept: Kept) -> None:
    bare = Child(ZoneCode(1), "a", b"1")
    kept.write(lambda u: u.children.put(bare))
    kept.write(lambda u: u.codes.put(replace(CODE, uses=None)))
    assert kept.read(lambda u: u.children.get(ZoneCode(1))) == bare
    assert kept.read(lambda u: u.codes.get("c0de").uses) is None


def test_exactly_one_authority_is_current(kept: Kept) -> None:
    old = AuthorityRow(b"old", b"x", "k1", Wall(2.0), Wall(9.0))
    new = AuthorityRow(b"new", b"y", "k2", Wall(3.0), Wall(9.0))
    kept.write(lambda u: u.authorities.put(old))
    kept.write(lambda u: u.authorities.put(new))
    assert kept.read(lambda u: u.authorities.all()) == [replace(old, current=False), new]
    kept.write(lambda u: u.authorities.put(replace(old, leaked=True, current=False)))
    assert [row.current for row in kept.read(lambda u: u.authorities.all())] == [False, True]


def test_an_uplinks_number_is_never_given_again(kept: Kept) -> None:
    first = kept.write(lambda u: u.uplinks.next_id())
    kept.write(lambda u: u.uplinks.put(replace(UPLINK, id=first)))
    kept.write(lambda u: u.uplinks.delete(first))
    kept.again()
    assert kept.write(lambda u: (u.uplinks.next_id(), u.uplinks.next_id())) == (first + 1, first + 2)
    assert kept.read(lambda u: u.uplinks.all()) == []


def test_secrets_come_back_and_go(kept: Kept) -> None:
    kept.write(lambda u: u.keys.put("ca-1", Secret(b"\x00seed\xff")))
    kept.again()
    assert kept.read(lambda u: u.keys.get("ca-1")) == Secret(b"\x00seed\xff")
    kept.write(lambda u: u.keys.put("ca-1", Secret(b"other")))
    assert kept.read(lambda u: u.keys.get("ca-1")) == Secret(b"other")
    kept.write(lambda u: u.keys.delete("ca-1"))
    assert kept.read(lambda u: u.keys.get("ca-1")) is None


def test_rules_are_ordered_by_priority_then_id_and_bounded(kept: Kept) -> None:
    rules = [Rule("b", 1), Rule("a", 2), Rule("c", 1), Rule("B", 1)]
    kept.write(lambda u: [u.rules.put(rule) for rule in rules])
    assert [rule.id for rule in kept.read(lambda u: u.rules.all())] == ["B", "b", "c", "a"]
    kept.write(lambda u: u.rules.delete("b"))
    kept.write(lambda u: [u.rules.put(Rule(f"r{n}")) for n in range(MAX_RULES - 3)])
    with pytest.raises(Refused, match="1000") as refused:
        kept.write(lambda u: u.rules.put(Rule("one-more")))
    assert refused.value.code == "too-many-rules"
    kept.write(lambda u: u.rules.put(Rule("a", 50)))
    assert len(kept.read(lambda u: u.rules.all())) == MAX_RULES


def test_pages_go_on_after_the_last_key(kept: Kept) -> None:
    kept.write(lambda u: [u.codes.put(replace(CODE, id=id)) for id in ("b", "a", "B", "é", "c")])
    kept.write(lambda u: [u.tokens.put(replace(TOKEN, id=id)) for id in ("b", "a", "B", "é", "c")])
    kept.write(lambda u: [u.children.put(Child(ZoneCode(n), f"n{n}", bytes([n]))) for n in (5, 1, 3)])

    def walk(page: Callable[[Unit, str | None], Sequence[CodeRecord | TokenRecord]]) -> list[str]:
        ids, after = [], None
        while found := kept.read(lambda u, after=after: page(u, after)):
            ids += [row.id for row in found]
            after = ids[-1]
        return ids

    assert walk(lambda u, after: u.codes.page(after, 2)) == ["B", "a", "b", "c", "é"]
    assert walk(lambda u, after: u.tokens.page(after, 2)) == ["B", "a", "b", "c", "é"]
    assert [c.code for c in kept.read(lambda u: u.children.page(None, 2))] == [1, 3]
    assert [c.code for c in kept.read(lambda u: u.children.page(ZoneCode(3), 2))] == [5]


@pytest.mark.parametrize("limit", [0, -1, 10_001])
def test_a_page_has_bounds(kept: Kept, limit: int) -> None:
    with pytest.raises(ValueError, match="1 to 10000"):
        kept.read(lambda u: u.children.page(None, limit))


def test_known_keys_are_paged_by_their_bytes_and_deleted(kept: Kept) -> None:
    prints = (b"\xff" * 32, b"\x00" * 32, b"\x00" * 31 + b"\x01", b"a" * 32, b"\x80" * 32)
    kept.write(lambda u: [u.known_keys.put(replace(KNOWN, fingerprint=f)) for f in prints])
    kept.write(lambda u: u.known_keys.delete(b"a" * 32))
    assert _prints(kept, None, 3) == [b"\x00" * 32, b"\x00" * 31 + b"\x01", b"\x80" * 32]
    assert _prints(kept, b"\x80" * 32, 3) == [b"\xff" * 32]
    assert _prints(kept, b"a" * 32, 1) == [b"\x80" * 32], "what the marker names may be gone"
    assert _prints(kept, b"\xff" * 32, 3) == []


def _prints(kept: Kept, after: bytes | None, limit: int) -> list[bytes]:
    return [key.fingerprint for key in kept.read(lambda u: u.known_keys.page(after, limit))]


def test_rules_are_paged_in_the_order_in_which_they_are_tried(kept: Kept) -> None:
    rules = [Rule("b", 1), Rule("a", 2), Rule("c", 1), Rule("B", 1), Rule("z", -1), Rule("y", 10)]
    kept.write(lambda u: [u.rules.put(rule) for rule in rules])

    def ids(after: tuple[int, str] | None, limit: int) -> list[str]:
        return [rule.id for rule in kept.read(lambda u: u.rules.page(after, limit))]

    assert ids(None, 2) == ["z", "B"]
    assert ids((1, "B"), 3) == ["b", "c", "a"]
    assert ids((1, "bb"), 9) == ["c", "a", "y"], "what the marker names may be gone"
    assert ids((10, "y"), 9) == []
    assert kept.read(lambda u: (u.rules.get("a"), u.rules.get("A"))) == (Rule("a", 2), None)


def test_tokens_that_ended_go_the_oldest_first_and_so_many_at_a_time(kept: Kept) -> None:
    ends = {"a": 9.0, "b": 3.0, "c": 5.0, "d": 4.0, "e": 10.0}
    kept.write(lambda u: [u.tokens.put(replace(TOKEN, id=id, expires=Wall(end))) for id, end in ends.items()])
    left = [(kept.write(lambda u: u.tokens.sweep(Wall(9.0), 2)), _ids(kept)) for _ in range(3)]
    assert left == [(2, ["a", "c", "e"]), (1, ["a", "e"]), (0, ["a", "e"])]
    assert kept.write(lambda u: u.tokens.sweep(Wall(9.5), 2)) == 1
    with pytest.raises(ValueError, match="1 to 10000"):
        kept.write(lambda u: u.tokens.sweep(Wall(99.0), 0))


def _ids(kept: Kept) -> list[str]:
    return [row.id for row in kept.read(lambda u: u.tokens.page(None, 100))]


def test_a_racks_things_go_with_it(kept: Kept) -> None:
    kept.write(lambda u: [u.racks.put(RACK), u.racks.put(replace(RACK, code=RackCode(1), name="r0"))])
    assert [rack.name for rack in kept.read(lambda u: u.racks.all())] == ["r0", "r1"]
    kept.write(lambda u: u.racks.delete(RACK.code))
    assert [rack.name for rack in kept.read(lambda u: u.racks.all())] == ["r0"]
