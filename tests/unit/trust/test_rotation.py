from __future__ import annotations

import pytest

from banyan.core.errors import BadInput, Refused
from banyan.core.time import Wall
from banyan.trust import authority, rotation
from banyan.trust.authority import Issuer
from banyan.trust.chain import verify_child
from banyan.trust.issued import check_issued, read_issued
from tests.unit.trust.world import DAY, EAST, HOUR, NOW, TOP, Parent, chance, meet, public, row, seed

CA = Issuer(TOP, seed("top ca"))
NEW = Issuer(TOP, seed("new ca"))
NEWER = Issuer(TOP, seed("newer ca"))


def rotate(leaked: bool = False) -> rotation.Rotation:
    return rotation.rotate(row(CA), CA.seed, NEW, key="k", serials=chance("3", 48), now=NOW, leaked=leaked)


def test_a_certificate_is_renewed_from_two_thirds_of_its_life_spread_by_jitter() -> None:
    def due(hours: float, jitter: float) -> bool:
        return rotation.should_renew(NOW, Wall(NOW + DAY), Wall(NOW + hours * HOUR), jitter)

    assert not due(15.99, 0)
    assert due(16, 0)
    assert not due(17.9, 0.99)
    assert due(18, 0.99)
    assert due(99, 0.5)


def test_a_ca_changes_at_two_thirds_of_its_life() -> None:
    assert not rotation.should_rotate_authority(row(CA), Wall(NOW + 6 * 365 * DAY))
    assert rotation.should_rotate_authority(row(CA), Wall(NOW + 7 * 365 * DAY))
    assert not rotation.should_rotate_authority(row(CA, current=False), Wall(NOW + 9 * 365 * DAY))


def test_old_and_new_sign_each_other() -> None:
    rotated = rotate()
    assert (rotated.before.current, rotated.present.current) == (False, True)
    assert rotated.present.key == "k"
    rows = [rotated.before, rotated.present]
    parent = Parent(ca=NEW, bundle=rotation.bundle(rows, NOW))
    assert meet(parent, pin=CA.fingerprint).fingerprint == NEW.fingerprint
    back = Parent(ca=CA, bundle=parent.bundle)
    assert meet(back, pin=NEW.fingerprint).fingerprint == CA.fingerprint
    late = Wall(NOW + 91 * DAY)
    assert rotation.bundle(rows, late) == ()


def test_children_of_the_old_ca_are_still_known_and_renewed_by_the_new() -> None:
    rotated = rotate()
    old = authority.issue_child(CA, EAST, public("east"), serial=chance("o"), now=NOW)
    assert verify_child(old, [rotated.before, rotated.present], NOW).code == EAST


def test_a_leaked_ca_is_not_crossed_and_vouches_for_nobody() -> None:
    rotated = rotate(leaked=True)
    rows = [rotated.before, rotated.present]
    assert rotated.before.leaked
    assert rotation.bundle(rows, NOW) == ()
    with pytest.raises(Refused) as error:
        meet(Parent(ca=NEW, bundle=rotation.bundle(rows, NOW)), pin=CA.fingerprint)
    assert error.value.code == "wrong-pin"
    old = authority.issue_child(CA, EAST, public("east"), serial=chance("o"), now=NOW)
    with pytest.raises(Refused) as error:
        verify_child(old, rows, NOW)
    assert error.value.code == "leaked-authority"


def test_what_a_ca_crossed_before_it_leaked_is_announced_no_more() -> None:
    first = rotate()
    second = rotation.rotate(
        first.present, NEW.seed, NEWER, key="k", serials=chance("x", 48), now=Wall(NOW + DAY), leaked=True
    )
    assert rotation.bundle([first.before, second.before, second.present], Wall(NOW + DAY)) == ()


def test_a_bundle_is_bounded() -> None:
    many = tuple(authority.cross_certificate(CA, public(f"{n}"), serial=chance("c"), now=NOW) for n in range(40))
    assert len(rotation.bundle([row(NEW, cross=many)], NOW)) == 16


def test_a_rotation_needs_its_chance() -> None:
    with pytest.raises(BadInput):
        rotation.rotate(row(CA), CA.seed, NEW, key="k", serials=b"", now=NOW)


def issue(issuer: Issuer = CA, key: str = "east") -> bytes:
    return authority.issue_child(issuer, EAST, public(key), serial=chance("c"), now=NOW)


def test_a_child_checks_what_it_was_given() -> None:
    trusted = [row(NEW).certificate, row(CA).certificate]
    assert check_issued(issue(), public("east"), trusted, NOW).code == EAST
    assert read_issued(issue()).not_after == NOW + DAY
    wrong = [
        (issue(key="west"), trusted, NOW),
        (issue(NEWER), trusted, NOW),
        (Parent().leaf(), trusted, NOW),
        (issue(), [issue()], NOW),
        (issue(), [], NOW),
        (issue(), trusted, Wall(NOW + DAY + 1)),
        (issue(), trusted, Wall(NOW - 301)),
    ]
    for certificate, authorities, now in wrong:
        with pytest.raises(Refused) as error:
            check_issued(certificate, public("east"), authorities, now)
        assert error.value.code == "bad-issue"
