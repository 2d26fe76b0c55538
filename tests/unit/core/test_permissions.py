"""The policy table: what each rule asks of role, scope and target."""

from __future__ import annotations

from dataclasses import replace

import pytest

from banyan.core.errors import Refused
from banyan.core.ids import ZoneCode
from banyan.core.permissions import POLICY, Target, anywhere, could, may, require
from banyan.core.principal import Principal, ScopeKind
from banyan.core.time import Wall

NOBODY = Principal(ZoneCode(1), "u1", "ann", "d1", ScopeKind.NONE, frozenset(), Wall(2e9))
ROLES = {
    "reader": frozenset({"reader"}),
    "member": frozenset({"reader", "member"}),
    "manager": frozenset({"reader", "member", "manager"}),
    "admin": frozenset({"reader", "member", "manager", "admin"}),
}


def who(role: str, scope: ScopeKind) -> Principal:
    at = replace(NOBODY, roles=ROLES[role], scope=scope)
    if scope is ScopeKind.PROJECT:
        return replace(at, project="p1", project_domain="d1")
    return replace(at, domain="d1") if scope is ScopeKind.DOMAIN else at


HERE, THERE = Target(domain="d1", user="u2"), Target(domain="d2", user="u2")


@pytest.mark.parametrize(
    ("role", "scope", "here", "there"),
    [
        ("admin", ScopeKind.SYSTEM, True, True),
        ("admin", ScopeKind.PROJECT, True, True),
        ("admin", ScopeKind.DOMAIN, True, False),
        ("manager", ScopeKind.DOMAIN, True, False),
        ("manager", ScopeKind.SYSTEM, False, False),
        ("manager", ScopeKind.PROJECT, False, False),
        ("member", ScopeKind.DOMAIN, False, False),
        ("reader", ScopeKind.SYSTEM, False, False),
    ],
)
def test_who_may_change_users(role: str, scope: ScopeKind, here: bool, there: bool) -> None:
    assert may(who(role, scope), "identity:update_user", HERE) is here
    assert may(who(role, scope), "identity:update_user", THERE) is there
    assert could(who(role, scope), "identity:update_user") is (here or there)
    assert anywhere(who(role, scope), "identity:update_user") is there


def test_everybody_may_look_at_oneself_and_not_at_others() -> None:
    assert may(NOBODY, "identity:get_user", Target(domain="d1", user="u1"))
    assert not may(NOBODY, "identity:get_user", HERE)
    assert not anywhere(NOBODY, "identity:get_user")


def test_what_belongs_to_nobody_is_not_the_callers() -> None:
    stranger = replace(NOBODY, user="", domain="", scope=ScopeKind.DOMAIN, roles=ROLES["admin"])
    assert not may(stranger, "identity:get_user", Target())
    assert not may(stranger, "identity:update_user", Target())


def test_a_refusal_says_what_would_have_been_enough() -> None:
    with pytest.raises(Refused) as refused:
        require(who("reader", ScopeKind.PROJECT), "identity:create_user", HERE)
    text = refused.value.text
    assert refused.value.code == "forbidden"
    assert "identity:create_user" in text and "the role manager on a domain" in text and "This token has reader" in text


def test_no_action_is_open_to_all_that_changes_something() -> None:
    for action, rules in POLICY.items():
        word = action.partition(":")[2]
        if any(not rule.role and rule.where.name == "ANYWHERE" for rule in rules):
            assert word.startswith(("get_", "list_")), action
