"""Who may do what to which zone."""

from __future__ import annotations

import pytest

from banyan.core.errors import NotFound, Refused
from banyan.core.identity import Caller, Role
from banyan.core.ids import ZoneCode
from banyan.zone.authorise import below_issuer, check

OWN, PARENT, TOP, STRANGER = (ZoneCode(n) for n in range(1, 5))
PATH = "top/north/lab"


@pytest.mark.parametrize(
    ("issuer", "path", "relative"),
    [
        (OWN, PATH, ""),
        (OWN, f"{PATH}/deep", "deep"),
        (PARENT, PATH, "lab"),
        (PARENT, f"{PATH}/deep", "lab/deep"),
        (TOP, PATH, "north/lab"),
    ],
)
def test_a_path_is_seen_from_its_issuer(issuer: ZoneCode, path: str, relative: str) -> None:
    assert below_issuer(path, PATH, OWN, (PARENT, TOP), issuer) == relative


def test_an_issuer_that_is_not_above_is_refused() -> None:
    with pytest.raises(Refused, match="neither this one nor above"):
        below_issuer(PATH, PATH, OWN, (PARENT, TOP), STRANGER)


def caller(role: Role, under: str) -> Caller:
    return Caller("token:x", role, OWN, under)


def test_what_lies_outside_the_subtree_does_not_exist() -> None:
    with pytest.raises(NotFound):
        check(caller(Role.ADMIN, "zone1"), Role.VIEWER, "zone1xyz", "zone1xyz")
    with pytest.raises(NotFound):
        check(caller(Role.ADMIN, "zone1"), Role.VIEWER, "", "top")


def test_a_role_covers_those_below_it() -> None:
    check(caller(Role.ADMIN, "zone1"), Role.OPERATOR, "zone1/deep", "zone1/deep")
    with pytest.raises(Refused, match="needs the role operator"):
        check(caller(Role.VIEWER, "zone1"), Role.OPERATOR, "zone1", "zone1")
