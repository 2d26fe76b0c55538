"""Who may do what to which zone."""

from __future__ import annotations

import pytest

from banyan.core.errors import NotFound, Refused
from banyan.core.identity import Caller, Role
from banyan.core.ids import ZoneCode
from banyan.zone.authorise import Lineage, check, check_parent, within

OWN, PARENT, TOP, STRANGER, NORTH, LAB, SOUTH = (ZoneCode(n) for n in range(1, 8))
# As seen from OWN, which has PARENT and TOP above it, and NORTH, with LAB, and SOUTH below it.
ABOVE = (OWN, PARENT, TOP)
HERE, AT_NORTH, AT_LAB, AT_SOUTH = (Lineage(below, ABOVE) for below in ((), (NORTH,), (LAB, NORTH), (SOUTH,)))


def caller(role: Role = Role.ADMIN, under: ZoneCode | None = None, issuer: ZoneCode = OWN) -> Caller:
    return Caller("token:x", role, issuer, under)


@pytest.mark.parametrize("issuer", ABOVE)
def test_a_caller_without_a_subtree_may_see_all_below_its_issuer(issuer: ZoneCode) -> None:
    for lineage in (HERE, AT_NORTH, AT_LAB):
        check(caller(issuer=issuer), Role.ADMIN, lineage, "it")


@pytest.mark.parametrize("under", [LAB, NORTH, OWN, PARENT])
def test_a_subtree_is_a_zone_and_what_lies_below_it(under: ZoneCode) -> None:
    check(caller(under=under, issuer=TOP), Role.ADMIN, AT_LAB, "lab")


def test_what_lies_outside_the_subtree_does_not_exist() -> None:
    for under, lineage in ((NORTH, AT_SOUTH), (NORTH, HERE), (LAB, AT_NORTH), (STRANGER, AT_LAB)):
        with pytest.raises(NotFound) as refused:
            check(caller(under=under), Role.VIEWER, lineage, "south")
        assert refused.value.code == "no-zone"


@pytest.mark.parametrize("issuer", [STRANGER, NORTH, LAB])
def test_an_issuer_that_is_neither_this_zone_nor_above_it_is_refused(issuer: ZoneCode) -> None:
    with pytest.raises(Refused, match="neither this one nor above") as refused:
        check(caller(issuer=issuer), Role.VIEWER, AT_LAB, "lab")
    assert refused.value.code == "unknown-issuer"


def test_an_issuer_gives_nothing_that_is_above_it() -> None:
    with pytest.raises(NotFound):
        check(caller(under=TOP, issuer=PARENT), Role.VIEWER, AT_LAB, "lab")


def test_a_role_covers_those_below_it() -> None:
    check(caller(Role.ADMIN, NORTH), Role.OPERATOR, AT_LAB, "lab")
    with pytest.raises(Refused, match="needs the role operator for 'north'; token:x is viewer"):
        check(caller(Role.VIEWER, NORTH), Role.OPERATOR, AT_NORTH, "north")


@pytest.mark.parametrize(
    ("role", "lineage", "may"),
    [
        (Role.OPERATOR, AT_NORTH, True),
        (Role.VIEWER, AT_LAB, True),
        (Role.ADMIN, AT_NORTH, False),
        (Role.VIEWER, AT_SOUTH, False),
        (Role.VIEWER, HERE, False),
    ],
)
def test_nobody_gives_more_than_they_have(role: Role, lineage: Lineage, may: bool) -> None:
    giver = caller(Role.OPERATOR, NORTH)
    if may:
        within(giver, role, lineage)
        return
    with pytest.raises(Refused, match="at most your own role") as refused:
        within(giver, role, lineage)
    assert refused.value.code == "forbidden"


def test_what_a_parent_decides_about_a_zone_is_not_for_the_admin_of_that_zone_alone() -> None:
    with pytest.raises(Refused, match="decided at the parent of 'north'.*good for that zone and below") as refused:
        check_parent(caller(under=NORTH), Role.ADMIN, AT_NORTH, "north")
    assert refused.value.code == "forbidden"
    check(caller(under=NORTH), Role.ADMIN, AT_NORTH, "north")
    check_parent(caller(under=NORTH), Role.ADMIN, AT_LAB, "lab")


@pytest.mark.parametrize("under", [None, PARENT, OWN])
def test_whoever_holds_the_parent_too_decides_about_a_zone(under: ZoneCode | None) -> None:
    check_parent(caller(under=under, issuer=TOP), Role.ADMIN, AT_NORTH, "north")


def test_a_parent_above_this_zone_counts_as_well() -> None:
    check_parent(caller(under=PARENT, issuer=TOP), Role.ADMIN, HERE, "here")
    with pytest.raises(Refused, match="decided at the parent"):
        check_parent(caller(under=OWN, issuer=TOP), Role.ADMIN, HERE, "here")


def test_what_may_not_be_seen_has_no_parent_to_ask() -> None:
    with pytest.raises(NotFound):
        check_parent(caller(under=NORTH), Role.ADMIN, AT_SOUTH, "south")
    with pytest.raises(Refused, match="needs the role operator"):
        check_parent(caller(Role.VIEWER, NORTH), Role.OPERATOR, AT_NORTH, "north")
