"""A parent that went back in time, and the children that tell it so: at once, after its release, twice, by a lie.

`house.restore` brings back an earlier state without a word, as a copy of the database does; `banyan restore` notes it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import msgspec
import pytest

from banyan.core.errors import BanyanError
from banyan.core.messages import EpochProof
from banyan.trust.epochs import prove_epoch
from tests.unit.zone.household import ADMIN, Household, Kid


@pytest.fixture
def house() -> Iterator[Household]:
    made = Household()
    yield made
    made.close()


def standing(house: Household) -> tuple[int, bool]:
    """The epoch of the zone itself, and whether it waits for a release."""
    return house.zone.own.row.epoch, house.zone.own.row.restored_at is not None


def release(house: Household) -> None:
    house.run(house.zone.own.release(ADMIN))


def kids_of_a_lost_life(house: Household, count: int) -> list[Kid]:
    """Each opened sessions that the zone, fallen back, knows nothing of; a first one told it, and it was released."""
    first, *late = (house.kid(f"z{number}") for number in range(count + 1))
    image = house.store.image()
    for kid in (first, *late) * 3:
        kid.open()
    house.restore(image)
    first.open()
    assert standing(house) == (2, True)
    release(house)
    return late


def test_who_comes_late_from_before_a_restore_that_was_released_locks_nobody(house: Household) -> None:
    late = kids_of_a_lost_life(house, 20)
    for kid in late:
        seen = kid.epoch
        ack = kid.open()
        assert ack.grant.epoch == seen + 1, "its own epoch goes on above what it was granted"
        assert not ack.read_only, "the zone forgot its marks: it can blame it for nothing"
        assert standing(house) == (2, False)
    assert len(house.journal("zone-rolled-back")) == 1
    assert house.journal("child-rolled-back") == house.journal("epoch-unproved") == []
    lines = house.journal("child-caught-up")
    assert [line.target for line in lines] == [kid.name for kid in late]
    assert lines[0].facts == {"epoch": "4", "held": "1"}
    # It is caught up: from now on it is judged by its marks as any other.
    kid, copied = late[0], late[0].mark
    kid.open()
    kid.open(mark=copied, proof=None)
    assert len(house.journal("child-caught-up")) == len(late)
    assert len(house.journal("child-rolled-back")) == 1


def test_a_restore_after_a_release_is_found_as_the_first_was(house: Household) -> None:
    kid, late = kids_of_a_lost_life(house, 2)
    image = house.store.image()
    kid.open()
    house.restore(image)
    kid.open()
    assert standing(house) == (3, True)
    late.open()
    assert standing(house) == (3, True)
    assert len(house.journal("zone-rolled-back")) == 2


def test_an_epoch_that_an_earlier_life_used_is_not_used_again(house: Household) -> None:
    """One copy brought back twice: what was issued under the number that follows it is of a life that is over."""
    first, second, third = (house.kid(name) for name in ("first", "second", "third"))
    image = house.store.image()
    for kid in (first, second, third) * 2:
        kid.open()
    house.restore(image)
    first.open()
    release(house)
    first.open()
    house.restore(image)
    second.open()
    assert standing(house) == (2, True), "all that this one can tell"
    first.open()
    assert standing(house) == (3, True)
    release(house)
    third.open()
    assert standing(house) == (3, False)


def of_the_version_before(house: Household, kid: Kid) -> EpochProof:
    """As a program signed it that said nothing of its own epoch."""
    proof = prove_epoch(house.zone.own.issuer, kid.code, kid.epoch, 0)
    return EpochProof(proof.epoch, proof.authority, proof.signature)


def test_a_proof_of_the_version_before_counts_as_of_the_first_epoch(house: Household) -> None:
    first, second = house.kid("first"), house.kid("second")
    image = house.store.image()
    for kid in (first, second) * 2:
        kid.open()
        kid.proof = of_the_version_before(house, kid)
    house.restore(image)
    first.open()
    assert standing(house) == (2, True)
    release(house)
    assert not second.open().read_only
    assert standing(house) == (2, False)
    assert len(house.journal("child-caught-up")) == 1


@pytest.mark.parametrize("own", [0, 1, 3])
def test_a_child_chooses_no_epoch_of_its_parents(house: Household, own: int) -> None:
    """The parent's own epoch is signed with the child's: raised, lowered or left out the proof is none."""
    kid, other = kids_of_a_lost_life(house, 2)
    kid.open()
    image = house.store.image()
    kid.open()
    house.restore(image)
    assert kid.proof is not None
    assert kid.proof.own == 2
    kid.open(proof=msgspec.structs.replace(kid.proof, own=own))
    assert standing(house) == (2, False)
    assert len(house.journal("epoch-unproved")) == 1
    other.open()
    assert standing(house) == (2, False)


def test_who_has_the_ca_s_key_can_not_exhaust_the_epochs(house: Household) -> None:
    kid = house.kid("east")
    kid.open()
    far = (1 << 63) - 1
    proof = prove_epoch(house.zone.own.issuer, kid.code, kid.epoch + 1, far)
    with pytest.raises(BanyanError) as refused:
        kid.open(epoch=kid.epoch + 1, proof=proof)
    assert refused.value.code == "bad-epoch"
    assert standing(house) == (1, False)


def test_two_bodies_of_one_late_child_are_told_apart(house: Household) -> None:
    """Only the first of them finds its parent behind; the other's marks are judged, though it came in that moment."""
    [kid] = kids_of_a_lost_life(house, 1)
    copy = Kid(house, kid.name, kid.code, kid.seed, kid.certificate, house.ids.token(16), kid.epoch, kid.proof)

    async def both() -> None:
        await asyncio.gather(kid.say_hello(), copy.say_hello())

    house.run(both())
    assert house.zone.roster.get(kid.code).child.rolled_back
