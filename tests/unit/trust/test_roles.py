"""Which roles a user has, where."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from banyan.core.directory import ActorKind, Grant, Role
from banyan.core.principal import ScopeKind
from banyan.trust.roles import (
    closure,
    counts,
    effective,
    granted,
    implied_by,
    scopes_of,
    targets_of,
    would_ring,
)

CHAIN = implied_by([("admin", "manager"), ("manager", "member"), ("member", "reader")])
P, D, S = ScopeKind.PROJECT, ScopeKind.DOMAIN, ScopeKind.SYSTEM


def grant(kind: ScopeKind, target: str, role: str = "r", *, inherited: bool = False) -> Grant:
    return Grant(ActorKind.USER, "u", kind, target, role, inherited)


def test_roles_imply_downwards_only() -> None:
    assert closure({"member"}, CHAIN) == {"member", "reader"}
    assert closure({"reader"}, CHAIN) == {"reader"}
    assert closure({"admin"}, CHAIN) == {"admin", "manager", "member", "reader"}
    assert closure((), CHAIN) == frozenset()


def test_a_ring_of_implications_ends_and_is_foreseen() -> None:
    ring = implied_by([("a", "b"), ("b", "c"), ("c", "a")])
    assert closure({"b"}, ring) == {"a", "b", "c"}
    assert would_ring("reader", "admin", CHAIN) and would_ring("a", "a", {})
    assert not would_ring("admin", "reader", CHAIN)


def test_a_grant_counts_on_the_spot_and_an_inherited_one_below() -> None:
    places = targets_of(P, "p2", ["p1"], "d1")
    assert places == [(P, "p2"), (P, "p1"), (D, "d1")]
    there = [grant(P, "p2", "a"), grant(P, "p2", "b", inherited=True), grant(P, "p1", "c"),
             grant(P, "p1", "d", inherited=True), grant(D, "d1", "e"), grant(D, "d1", "f", inherited=True)]  # fmt: skip
    assert granted(there, P, "p2") == {"a", "d", "f"}
    assert targets_of(D, "d1", [], "d1") == [(D, "d1")] and targets_of(S, "", [], "") == [(S, "")]
    assert granted([grant(D, "d1", "e"), grant(D, "d1", "f", inherited=True)], D, "d1") == {"e"}


def test_a_domains_own_role_counts_by_what_it_implies() -> None:
    known = {"x": Role("x", "local", "d1"), "y": Role("y", "member"), "z": Role("z", "a-reader")}
    implied = implied_by([("x", "y"), ("y", "z")])
    assert [role.name for role in effective({"x"}, implied, known)] == ["a-reader", "member"]


def test_scopes_to_choose_from() -> None:
    grants = [grant(P, "p1"), grant(P, "p2", inherited=True), grant(D, "d1")]
    assert scopes_of(grants, P) == ({"p1"}, {"p2"}) and scopes_of(grants, D) == ({"d1"}, set())


ROLES = st.sampled_from("abcdef")
PAIRS = st.lists(st.tuples(ROLES, ROLES), max_size=12)


@given(st.sets(ROLES), st.sets(ROLES), PAIRS)
def test_closure_is_a_closure(some: set[str], more: set[str], pairs: list[tuple[str, str]]) -> None:
    implied = implied_by(pairs)
    held = closure(some, implied)
    assert some <= held and closure(held, implied) == held
    assert held <= closure(some | more, implied)
    assert closure(some | more, implied) == held | closure(more, implied)


@given(st.sampled_from([P, D, S]), st.sampled_from(["", "x", "y"]), st.booleans(), st.sampled_from([P, D, S]))
def test_an_inherited_grant_never_counts_on_its_own_target(
    kind: ScopeKind, target: str, inherited: bool, scope: ScopeKind
) -> None:
    one = grant(kind, target, inherited=inherited)
    assert counts(one, kind, target) is not inherited
    assert counts(one, scope, "elsewhere") is inherited
