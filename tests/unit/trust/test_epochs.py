"""What a parent signed of an epoch is believed by it, whatever became of its CA; nothing else is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import msgspec
import pytest

from banyan.core.ids import ZoneCode
from banyan.core.messages import EpochProof
from banyan.core.records import AuthorityRow
from banyan.core.time import Wall
from banyan.trust import authority, rotation
from banyan.trust.authority import CROSS_LIFE, Issuer
from banyan.trust.chain import new_pins
from banyan.trust.epochs import FIRST, Proved, crosses_to, prove_epoch, proved_epoch
from banyan.trust.keys import sign, statement
from tests.unit.trust.world import DAY, EAST, GREET, NOW, TOP, WEST, Parent, chance, meet, public, row, seed

CA = Issuer(TOP, seed("top ca"))
NEW = Issuer(TOP, seed("new ca"))
NEWER = Issuer(TOP, seed("newer ca"))
PROOF = prove_epoch(CA, EAST, 7, 3)
# As the version before made it.
OLD = EpochProof(7, CA.public, sign(CA.seed, statement("epoch", *(n.to_bytes(8, "big") for n in (TOP, EAST, 7)))))


def believed(
    proof: EpochProof | None,
    crosses: Sequence[bytes] = (),
    rows: Sequence[AuthorityRow] = (row(CA),),
    parent: ZoneCode = TOP,
    child: ZoneCode = EAST,
    now: Wall = NOW,
) -> int:
    return proved_epoch(proof, crosses, parent=parent, child=child, authorities=rows, now=now).epoch


def rotated(before: AuthorityRow, by: Issuer, new: Issuer, **how: bool) -> rotation.Rotation:
    name = new.fingerprint.hex()
    return rotation.rotate(before, by.seed, new, key=name, serials=chance(name, 48), now=NOW, **how)


ONCE = rotated(row(CA), CA, NEW)
TWICE = rotated(ONCE.present, NEW, NEWER)


def test_what_the_parent_signed_is_believed() -> None:
    assert believed(PROOF) == 7
    assert believed(None) == 0
    found = [
        proved_epoch(one, (), parent=TOP, child=EAST, authorities=[row(CA)], now=NOW) for one in (PROOF, OLD, None)
    ]
    assert found == [Proved(7, 3), Proved(7, FIRST), Proved(0, 0)]


def test_what_was_signed_in_a_life_that_is_known_to_be_over_is_no_news() -> None:
    assert [Proved(7, 3).of_this_life(own) for own in (2, 3, 4)] == [True, True, False]


@pytest.mark.parametrize(
    "proof",
    [
        msgspec.structs.replace(PROOF, epoch=8),
        msgspec.structs.replace(PROOF, epoch=0),
        msgspec.structs.replace(PROOF, own=4),
        msgspec.structs.replace(PROOF, own=2),
        msgspec.structs.replace(PROOF, own=0),
        msgspec.structs.replace(OLD, own=FIRST),
        msgspec.structs.replace(PROOF, signature=bytes(64)),
        msgspec.structs.replace(PROOF, signature=b""),
        msgspec.structs.replace(PROOF, authority=public("east")),
        msgspec.structs.replace(PROOF, authority=bytes(32)),
        msgspec.structs.replace(PROOF, authority=b""),
        prove_epoch(Issuer(TOP, seed("east")), EAST, 7, 3),
        prove_epoch(Issuer(WEST, CA.seed), EAST, 7, 3),
    ],
    ids=[
        "raised",
        "lowered",
        "own-raised",
        "own-lowered",
        "own-left-out",
        "own-put-in",
        "unsigned",
        "empty",
        "another-key",
        "low-order",
        "no-key",
        "signed-by-a-child",
        "other",
    ],
)
def test_what_it_did_not_sign_is_not(proof: EpochProof) -> None:
    assert believed(proof) == 0


def test_a_proof_is_of_one_parent_and_one_child() -> None:
    assert believed(PROOF, child=WEST) == 0
    assert believed(PROOF, parent=WEST) == 0


def test_an_older_ca_of_its_own_is_believed_unless_it_leaked() -> None:
    assert believed(PROOF, rows=[ONCE.before, ONCE.present]) == 7
    leak = rotated(row(CA), CA, NEW, leaked=True)
    assert believed(PROOF, rows=[leak.before, leak.present]) == 0
    assert believed(prove_epoch(NEW, EAST, 9, 3), rows=[leak.before, leak.present]) == 9


def held_by_a_child(parent: Parent) -> tuple[bytes, ...]:
    """The certificates that a child of the first CA keeps after it met `parent`."""
    welcome = parent.welcome(GREET)
    return new_pins(meet(parent, pin=CA.fingerprint), welcome).bundle


@pytest.mark.parametrize(
    ("present", "rows"),
    [(NEW, [ONCE.before, ONCE.present]), (NEWER, [ONCE.before, TWICE.before, TWICE.present])],
    ids=["once", "twice"],
)
def test_a_parent_restored_from_before_its_ca_changed_follows_the_crosses(
    present: Issuer, rows: list[AuthorityRow]
) -> None:
    bundle = held_by_a_child(Parent(ca=present, bundle=rotation.bundle(rows, NOW)))
    proof = prove_epoch(present, EAST, 9, 3)
    # Restored, it shows its first CA again, which the child then pins.
    crosses = crosses_to(proof, bundle, TOP, CA.fingerprint)
    assert len(crosses) == len(rows) - 1
    assert believed(proof, crosses) == 9
    assert believed(proof) == 0, "alone the new CA is anybody's"
    assert crosses_to(proof, bundle, TOP, present.fingerprint) == ()


def test_a_child_shows_nothing_where_nothing_leads() -> None:
    assert crosses_to(prove_epoch(NEW, EAST, 9, 3), (row(CA).certificate,), TOP, CA.fingerprint) == ()


def test_crosses_that_do_not_lead_here_prove_nothing() -> None:
    proof = prove_epoch(NEW, EAST, 9, 3)
    [cross] = ONCE.present.cross
    assert believed(proof, [cross]) == 9

    def crossed(issuer: Issuer, key: bytes) -> bytes:
        return authority.cross_certificate(issuer, key, serial=chance("x"), now=NOW)

    wrong: list[Sequence[bytes]] = [
        [ONCE.before.cross[0]],  # the new one signs the old one: anybody can say that
        [row(NEW).certificate],
        [authority.issue_child(CA, EAST, NEW.public, serial=chance("x"), now=NOW)],  # a child's is no CA's
        [crossed(Issuer(WEST, CA.seed), NEW.public)],
        [crossed(Issuer(TOP, seed("rogue")), NEW.public)],
        [crossed(CA, NEWER.public)],
        [cross[:-1] + bytes((cross[-1] ^ 1,))],
        [b"", cross],
        [row(CA).certificate] * 5 + [cross],  # more than anybody needs
    ]
    assert [believed(proof, crosses) for crosses in wrong] == [0] * len(wrong)
    assert believed(proof, [cross], now=Wall(NOW + CROSS_LIFE + DAY)) == 0, "a cross that is over leads nowhere"


def test_nothing_follows_through_a_ca_that_leaked() -> None:
    proof = prove_epoch(NEWER, EAST, 9, 3)
    crosses = [*TWICE.present.cross, *ONCE.present.cross]
    assert believed(proof, crosses) == 9
    leaked = [row(CA), replace(ONCE.present, current=False, leaked=True)]
    assert believed(proof, crosses, rows=leaked) == 0
