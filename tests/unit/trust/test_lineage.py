"""A small tree seen from `top`: east and west are its children, lab and attic lie below east."""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec
import pytest

from banyan.core.errors import BanyanError
from banyan.core.ids import ZoneCode, code_text
from banyan.core.lineage import Entry, RackEntry, Row
from banyan.core.time import Wall
from banyan.core.zone import Child
from banyan.trust import lineage
from banyan.trust.keys import fingerprint
from tests.unit.trust.world import EAST, NOW, TOP, WEST, public, seed

LAB, ATTIC, ROOF = ZoneCode(0x1AB), ZoneCode(0xA771C), ZoneCode(0x400F)
ABOVE = ZoneCode(0xAB0FE)
KEYS = {EAST: "east", WEST: "west", LAB: "lab", ATTIC: "attic", ROOF: "roof"}
NAMES = dict(KEYS)


def row(
    code: ZoneCode,
    parent: ZoneCode,
    *,
    key: str = "",
    parents: tuple[ZoneCode, ...] | None = None,
    issued: float = NOW,
    voucher: str = "",
    **changes: object,
) -> Row:
    key = key or KEYS[code]
    entry = Entry(
        code,
        public(key),
        (parent or TOP,) if parents is None else parents,
        int(issued * 1000),
        (RackEntry(5, "r1", "sim"),),
        "1.0",
    )
    body = msgspec.msgpack.encode(entry)
    signature = lineage.sign_entry(seed(key), body)
    if voucher:
        signature = lineage.vouch(seed(voucher), body, signature)
    made = Row(code, parent, NAMES[code], body, signature, "ready", "alive", "enabled", "", int(NOW * 1000))
    return msgspec.structs.replace(made, **changes)


def own(code: ZoneCode, **changes: object) -> Row:
    """A direct child's row of itself."""
    return row(code, ZoneCode(0), parents=(TOP,), **changes)


@dataclass
class Top:
    """What `top` holds: rows by code, and the child that each came through."""

    rows: dict[ZoneCode, Row] = field(default_factory=dict)
    carriers: dict[ZoneCode, ZoneCode] = field(default_factory=lambda: {EAST: EAST, WEST: WEST})
    keys: dict[ZoneCode, str] = field(default_factory=lambda: {EAST: "east", WEST: "west"})

    def sift(self, through: ZoneCode, *rows: Row, now: Wall | None = NOW) -> lineage.Sifted:
        child = Child(through, NAMES[through], fingerprint(public(self.keys[through])))
        sifted = lineage.sift_rows(
            rows,
            child=child,
            own=TOP,
            ancestors=(ABOVE,),
            held=self.rows.get,
            via=self.carriers.get,
            path=lambda code: f"top/…/{NAMES.get(code, '?')}",
            now=now,
        )
        for kept in sifted.kept:
            parent = TOP if kept.code == through else kept.parent
            self.rows[kept.code] = msgspec.structs.replace(kept, parent=parent)
            self.carriers[kept.code] = through
        return sifted

    def takes(self, through: ZoneCode, *rows: Row) -> tuple[Row, ...]:
        sifted = self.sift(through, *rows)
        assert sifted.refused == ()
        return sifted.kept

    def refuses(self, through: ZoneCode, *rows: Row) -> str:
        """The code of the one refusal."""
        sifted = self.sift(through, *rows)
        assert len(sifted.refused) == 1, sifted.refused
        assert len(sifted.refused[0].error.text) > 25
        return sifted.refused[0].error.code


@pytest.fixture
def top() -> Top:
    made = Top()
    made.takes(EAST, own(EAST), row(LAB, EAST), row(ATTIC, LAB))
    made.takes(WEST, own(WEST))
    return made


def test_a_tree_is_taken_in_any_order() -> None:
    rows = (row(ATTIC, LAB), row(LAB, EAST), own(EAST))
    assert Top().takes(EAST, *rows) == rows
    top = Top()
    for one in rows:
        top.takes(EAST, one)


def test_the_same_again_is_taken_without_another_look_at_signatures(top: Top) -> None:
    again = row(LAB, EAST, health="lost")
    assert top.takes(EAST, again) == (again,)


def test_a_zone_may_be_named_as_a_code_is_spelled(top: Top) -> None:
    top.takes(EAST, row(LAB, EAST, name=code_text(WEST)))


def test_an_entry_that_the_zone_did_not_sign(top: Top) -> None:
    forged = row(LAB, EAST, issued=NOW + 1)
    entry = msgspec.msgpack.decode(forged.entry, type=Entry)
    changed = msgspec.msgpack.encode(msgspec.structs.replace(entry, version="2"))
    assert top.refuses(EAST, msgspec.structs.replace(forged, entry=changed)) == "bad-entry-signature"
    assert top.refuses(EAST, msgspec.structs.replace(forged, signature=b"")) == "bad-entry-signature"
    assert top.refuses(EAST, msgspec.structs.replace(row(LAB, EAST), code=ROOF)) == "not-its-entry"
    assert top.refuses(EAST, row(LAB, EAST, entry=b"\xc1")) == "bad-entry"
    assert top.refuses(EAST, row(LAB, EAST, entry=b"x" * 40_000)) == "bad-entry"


def test_a_direct_child_signs_by_the_key_of_its_certificate_and_names_us(top: Top) -> None:
    assert top.refuses(EAST, own(EAST, key="lab", issued=NOW + 1)) == "wrong-key"
    assert top.refuses(EAST, row(EAST, ZoneCode(0), parents=(WEST,), issued=NOW + 1)) == "not-named"
    top.keys[EAST] = "east two"  # renewed over another key
    top.takes(EAST, own(EAST, key="east two", issued=NOW + 1))


def test_a_child_that_reports_anothers_lineage(top: Top) -> None:
    assert top.refuses(WEST, row(ATTIC, LAB)) == "not-your-lineage"
    assert top.refuses(WEST, row(ROOF, EAST)) == "not-your-lineage"
    assert top.refuses(WEST, row(EAST, TOP)) == "not-your-lineage"
    # A zone that does not name west as its parent is not west's, whatever west says.
    stolen = msgspec.structs.replace(row(LAB, EAST), parent=WEST)
    assert top.refuses(WEST, stolen) == "not-named"


def test_a_diamond_is_refused_at_the_younger_edge_with_both_paths(top: Top) -> None:
    both = row(LAB, WEST, parents=(EAST, WEST), issued=NOW + 1)
    refused = top.sift(WEST, both).refused[0].error
    assert refused.code == "diamond"
    assert "top/…/lab" in refused.text
    assert "top/…/west/lab" in refused.text
    top.takes(EAST, row(LAB, EAST, parents=(EAST, WEST), issued=NOW + 1))


def test_what_lies_below_a_refused_zone_is_refused_with_it(top: Top) -> None:
    below = row(ROOF, LAB)
    sifted = top.sift(WEST, below, row(LAB, WEST, parents=(EAST, WEST)))
    assert sifted.kept == ()
    fresh = Top()
    fresh.takes(EAST, own(EAST))
    refused = fresh.sift(EAST, row(ATTIC, LAB), row(LAB, EAST, parents=()), row(ROOF, ATTIC)).refused
    assert [r.error.code for r in refused] == ["not-named", "parent-refused", "parent-refused"]


@pytest.mark.parametrize("code", [TOP, ABOVE])
def test_a_loop_is_refused(top: Top, code: ZoneCode) -> None:
    KEYS[code], NAMES[code] = "top", "top"
    error = top.sift(EAST, row(code, LAB)).refused[0].error
    assert error.code == "loop"
    assert "top/…/lab/top" in error.text


def test_a_loop_within_a_lineage() -> None:
    top = Top()
    top.takes(EAST, own(EAST))
    refused = top.sift(EAST, row(LAB, ATTIC), row(ATTIC, LAB)).refused
    assert {r.error.code for r in refused} == {"loop"}
    assert top.refuses(EAST, row(LAB, LAB)) == "loop"


def test_a_chain_without_end() -> None:
    top = Top()
    codes = [ZoneCode(1000 + n) for n in range(40)]
    for code in codes:
        KEYS[code], NAMES[code] = "lab", f"n{code}"
    chain = [row(code, parent) for code, parent in zip(codes, [EAST, *codes], strict=False)]
    sifted = top.sift(EAST, *chain)
    assert len(sifted.kept) == lineage.MAX_DEPTH
    assert {r.error.code for r in sifted.refused} <= {"loop", "parent-refused"}


# --- keys ----------------------------------------------------------------------------------------


def test_the_first_key_stays(top: Top) -> None:
    assert top.refuses(EAST, row(LAB, EAST, key="thief", issued=NOW + 1)) == "wrong-key"
    assert top.refuses(EAST, row(ATTIC, LAB, key="thief", issued=NOW + 1, voucher="east")) == "wrong-key"
    assert top.refuses(EAST, row(ATTIC, LAB, key="thief", issued=NOW + 1, voucher="thief")) == "wrong-key"


def test_a_parent_vouches_for_its_childs_new_key(top: Top) -> None:
    top.takes(EAST, row(LAB, EAST, key="lab two", issued=NOW + 1, voucher="east"))
    # And the one with the new key for its own child.
    top.takes(EAST, row(ATTIC, LAB, key="attic two", issued=NOW + 1, voucher="lab two"))
    assert top.refuses(EAST, row(ATTIC, LAB, key="attic three", issued=NOW + 2, voucher="lab")) == "wrong-key"


def test_two_new_keys_in_one_delta(top: Top) -> None:
    top.takes(
        EAST,
        row(ATTIC, LAB, key="attic two", issued=NOW + 1, voucher="lab two"),
        row(LAB, EAST, key="lab two", issued=NOW + 1, voucher="east"),
    )


def test_a_parent_that_has_no_say_cannot_vouch(top: Top) -> None:
    """East moves attic from lab to itself on paper, to vouch for a key of its own making."""
    assert top.refuses(EAST, row(ATTIC, EAST, key="thief", issued=NOW + 1, voucher="east")) == "wrong-key"
    # Nor by a lab of its own making in the same delta.
    sifted = top.sift(
        EAST,
        row(ATTIC, LAB, key="thief", issued=NOW + 1, voucher="false lab"),
        row(LAB, EAST, key="false lab", issued=NOW + 1),
    )
    assert [r.error.code for r in sifted.refused] == ["wrong-key", "wrong-key"]


def test_a_vouched_signature_can_be_vouched_anew() -> None:
    once = row(LAB, EAST, voucher="somebody")
    again = lineage.vouch(seed("east"), once.entry, once.signature)
    assert len(again) == 128
    assert again == row(LAB, EAST, voucher="east").signature


# --- time ----------------------------------------------------------------------------------------


def test_a_newer_entry_replaces_an_older_one_and_never_the_other_way_round(top: Top) -> None:
    newer = row(LAB, EAST, issued=NOW + 1)
    top.takes(EAST, newer)
    older = row(LAB, EAST, issued=NOW, health="lost")
    (kept,) = top.takes(EAST, older)
    assert (kept.entry, kept.signature, kept.health) == (newer.entry, newer.signature, "lost")


def test_an_older_entry_does_not_bring_back_a_place_that_was_left(top: Top) -> None:
    top.takes(EAST, row(LAB, EAST))
    top.takes(EAST, row(ATTIC, EAST, issued=NOW + 1))  # moved up, and no longer names lab
    assert top.refuses(EAST, row(ATTIC, LAB, issued=NOW)) == "not-named"


def test_two_entries_for_one_instant(top: Top) -> None:
    assert top.refuses(EAST, row(LAB, EAST, parents=(EAST, ROOF))) == "entry-conflict"


def test_an_entry_of_the_future(top: Top) -> None:
    top.takes(EAST, row(LAB, EAST, issued=NOW + lineage.FUTURE))
    assert top.refuses(EAST, row(LAB, EAST, issued=NOW + lineage.FUTURE + 1)) == "entry-of-the-future"
    assert top.sift(EAST, row(LAB, EAST, issued=NOW + 10 * lineage.FUTURE), now=None).refused == ()


# --- form ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"name": "Lab"}, "bad-name"),
        ({"state": "asleep"}, "bad-row"),
        ({"health": ""}, "bad-row"),
        ({"admin": "x"}, "bad-row"),
        ({"as_of": -1}, "bad-row"),
        ({"as_of": 2**62}, "bad-row"),
        ({"labels": {"": ""}}, "bad-label"),
        ({"labels": {str(n): "" for n in range(65)}}, "bad-label"),
        ({"code": ZoneCode(2**40)}, "bad-code"),
        ({"parent": ZoneCode(-1)}, "bad-code"),
    ],
)
def test_rows_of_a_wrong_form(top: Top, changes: dict[str, object], code: str) -> None:
    assert top.refuses(EAST, msgspec.structs.replace(row(LAB, EAST), **changes)) == code


def test_judging_raises_the_first_refusal_and_gives_what_to_store(top: Top) -> None:
    def judge(*rows: Row) -> tuple[Row, ...]:
        return lineage.judge_rows(
            rows,
            child=Child(EAST, "east", fingerprint(public("east"))),
            own=TOP,
            ancestors=(),
            held=top.rows.get,
            via=top.carriers.get,
            path=str,
        )

    assert judge(row(LAB, EAST)) == (row(LAB, EAST),)
    with pytest.raises(BanyanError) as error:
        judge(own(EAST), row(LAB, EAST, key="thief", issued=NOW + 1))
    assert error.value.code == "wrong-key"


def test_a_zone_that_was_dropped_may_come_with_any_key(top: Top) -> None:
    top.rows[LAB] = msgspec.structs.replace(top.rows[LAB], gone=True, entry=b"", signature=b"")
    top.takes(EAST, row(LAB, EAST, key="lab two"))
