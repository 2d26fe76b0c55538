"""The directory's rows, on each store: what core/directory_rows.py promises."""

from __future__ import annotations

from dataclasses import replace

import pytest

from banyan.core.directory import (
    AccessRule,
    ActorKind,
    ApplicationCredential,
    Credential,
    Endpoint,
    Grant,
    Group,
    Interface,
    Project,
    Region,
    Revocation,
    Role,
    Service,
    User,
)
from banyan.core.errors import Conflict
from banyan.core.principal import ScopeKind
from banyan.core.records import Unit
from banyan.core.secret import Secret
from banyan.core.time import Wall
from tests.contract.store.conftest import Kept

DOMAIN = Project("d1", "Red", None, None, True)
OTHER = Project("d2", "Blue", None, None, True)
PROJECT = Project("p1", "p", "d1", "d1", tags=("a", 'x"y'), extra={"k": [1, {"ü": None}]})
USER = User("u1", "ann", "d1", password="hash", password_at=Wall(5.5), default_project="p1", extra={"email": "a@b"})
GROUP, ROLE = Group("g1", "team", "d1"), Role("r1", "member")


def fill(unit: Unit) -> None:
    rows = unit.directory
    for project in (DOMAIN, OTHER, PROJECT):
        assert rows.projects.add(project)
    assert rows.users.add(USER) and rows.groups.add(GROUP) and rows.roles.add(ROLE)


@pytest.fixture
def filled(kept: Kept) -> Kept:
    kept.write(fill)
    return kept


def test_records_come_back_as_they_were(filled: Kept) -> None:
    kept = filled
    key = ApplicationCredential("a1", "u1", "p1", "k", "sha", ("r1",), Wall(1.0), Wall(9.25), "d", True, ("ru1",))
    rule = AccessRule("ru1", "u1", "compute", "GET", "/v2.1/**")
    credential = Credential("c1", "u1", "p1", "ec2", Secret(b"{}"), "ACCESS", {"x": 1})
    region, below = Region("R", None, "d", {"e": 1}), Region("S", "R")
    service, endpoint = Service("s1", "t", "n"), Endpoint("e1", "s1", Interface.ADMIN, "http://x", "S", False)
    revocation = Revocation("t1", "u1", Wall(7.0))

    def work(unit: Unit) -> None:
        rows = unit.directory
        assert (
            rows.access_rules.add(rule) and rows.application_credentials.add(key) and rows.credentials.add(credential)
        )
        assert rows.regions.add(region) and rows.regions.add(below)
        assert rows.services.add(service) and rows.endpoints.add(endpoint) and rows.revocations.add(revocation)

    kept.write(work)
    kept.again()

    def look(unit: Unit) -> None:
        rows = unit.directory
        assert rows.projects.get("p1") == PROJECT and rows.projects.get("d1") == DOMAIN
        assert rows.users.get("u1") == USER and rows.groups.get("g1") == GROUP and rows.roles.get("r1") == ROLE
        assert rows.application_credentials.get("a1") == key and rows.access_rules.get("ru1") == rule
        assert rows.credentials.get("c1") == credential
        assert rows.regions.get("S") == below and rows.services.get("s1") == service
        assert rows.endpoints.get("e1") == endpoint and rows.revocations.get("t1") == revocation
        assert rows.users.get("nobody") is None

    kept.read(look)


def test_names_are_unique_in_their_domain_and_domains_among_domains(filled: Kept) -> None:
    def work(unit: Unit) -> None:
        rows = unit.directory
        assert not rows.users.add(replace(USER, id="u2"))
        assert rows.users.add(replace(USER, id="u2", domain="d2", default_project=None))
        assert rows.users.add(replace(USER, id="u3", name="Ann"))
        assert not rows.projects.add(replace(PROJECT, id="p2"))
        assert rows.projects.add(replace(PROJECT, id="p2", domain="d2", parent="d2"))
        assert not rows.projects.add(replace(DOMAIN, id="d3"))
        # A project may be called as a domain is.
        assert rows.projects.add(replace(PROJECT, id="p3", name="Red"))
        assert not rows.roles.add(Role("r2", "member"))
        assert rows.roles.add(Role("r2", "member", "d1")) and not rows.roles.add(Role("r3", "member", "d1"))
        assert not rows.users.add(replace(USER, name="other"))

    filled.write(work)


def test_a_name_that_is_taken_fails_the_unit_that_takes_it(filled: Kept) -> None:
    filled.write(lambda unit: unit.directory.users.add(replace(USER, id="u2", name="bob")))
    with pytest.raises(Conflict) as conflict:
        filled.write(lambda unit: unit.directory.users.put(replace(USER, id="u2", name="ann")))
    assert conflict.value.code == "name-taken"
    assert filled.read(lambda unit: unit.directory.users.get("u2")) == replace(USER, id="u2", name="bob")


def test_pages_are_by_id_and_filters_exact(filled: Kept) -> None:
    def work(unit: Unit) -> None:
        for n in range(7):
            unit.directory.users.add(User(f"x{n}", f"x{n}", "d1", enabled=n % 2 == 0))

    filled.write(work)

    def look(unit: Unit) -> None:
        users = unit.directory.users
        assert [u.id for u in users.page({}, "", 3)] == ["u1", "x0", "x1"]
        assert [u.id for u in users.page({"enabled": False}, "x1", 10)] == ["x3", "x5"]
        assert users.page({"name": "ANN"}, "", 10) == []
        assert [u.id for u in users.page({"default_project": None}, "x5", 9)] == ["x6"]
        assert users.find({"name": "x4", "domain": "d1"}) == users.get("x4")
        assert users.find({"name": "x4", "domain": "d2"}) is None
        assert users.count({"enabled": True}) == 5
        assert set(users.some(["u1", "x3", "nobody", "u1"])) == {"u1", "x3"}
        assert users.some([]) == {}
        assert len(users.some([f"x{n}" for n in range(9_000)])) == 7

    filled.read(look)


def test_some_are_deleted_at_a_time(filled: Kept) -> None:
    def work(unit: Unit) -> tuple[int, int]:
        for n in range(5):
            unit.directory.roles.add(Role(f"x{n}", f"x{n}", "d1"))
        first = unit.directory.roles.delete_some({"domain": "d1"}, 3)
        return first, unit.directory.roles.delete_some({"domain": "d1"}, 3)

    assert filled.write(work) == (3, 2)
    assert filled.read(lambda unit: [r.id for r in unit.directory.roles.page({}, "", 9)]) == ["r1"]


def test_what_belongs_to_a_user_or_a_project_goes_with_it(filled: Kept) -> None:
    def work(unit: Unit) -> None:
        rows = unit.directory
        rows.memberships.add("g1", "u1")
        for n, owner in ((1, "u1"), (2, "u2")):
            if n == 2:
                rows.users.add(User("u2", "bob", "d1"))
            rows.application_credentials.add(ApplicationCredential(f"a{n}", owner, "p1", "k", "s", (), Wall(1.0)))
            rows.access_rules.add(AccessRule(f"ru{n}", owner, "compute", "GET", "/"))
            rows.credentials.add(Credential(f"c{n}", owner, "p1", "ec2", Secret(b"x"), f"key{n}"))
        assert rows.users.delete("u1") and not rows.users.delete("u1")
        assert rows.memberships.groups("u1") == []
        assert rows.application_credentials.get("a1") is None and rows.application_credentials.get("a2") is not None
        assert rows.access_rules.get("ru1") is None and rows.credentials.get("c1") is None
        rows.projects.delete("p1")
        assert rows.application_credentials.get("a2") is None and rows.credentials.get("c2") is None
        assert rows.access_rules.get("ru2") is not None

    filled.write(work)


def test_a_project_is_nobodys_default_any_more(filled: Kept) -> None:
    filled.write(lambda unit: unit.directory.users.forget_project("p1"))
    assert filled.read(lambda unit: unit.directory.users.get("u1")) == replace(USER, default_project=None)


def test_an_access_key_is_one_users_and_other_kinds_have_none(filled: Kept) -> None:
    def work(unit: Unit) -> None:
        rows = unit.directory.credentials
        assert rows.add(Credential("c1", "u1", None, "x", Secret(b"1")))
        assert rows.add(Credential("c2", "u1", None, "x", Secret(b"2")))
        assert rows.add(Credential("c3", "u1", None, "ec2", Secret(b"3"), "KEY"))
        assert not rows.add(Credential("c4", "u1", None, "ec2", Secret(b"4"), "KEY"))

    filled.write(work)


def test_blobs_are_sealed_under_their_own_id(filled: Kept) -> None:
    filled.write(lambda unit: unit.directory.credentials.add(Credential("c1", "u1", None, "x", Secret(b"sesame"))))
    held = filled.read(lambda unit: unit.directory.credentials.get("c1"))
    assert held is not None and held.blob == Secret(b"sesame")
    assert "sesame" not in repr(held)


def test_tags_are_found_as_wholes(filled: Kept) -> None:
    def work(unit: Unit) -> None:
        unit.directory.projects.add(Project("p2", "q", "d1", "d1", tags=("A", "ab", "ü")))

    filled.write(work)

    def found(**tags: tuple[str, ...]) -> list[str]:
        rows = filled.read(lambda unit: unit.directory.projects.tagged({"is_domain": False}, "", 9, **tags))
        return [project.id for project in rows]

    assert found(all_of=("a",)) == ["p1"] and found(all_of=("A",)) == ["p2"]
    assert found(all_of=("a", 'x"y')) == ["p1"] and found(all_of=("a", "ab")) == []
    assert found(any_of=("a", "ü")) == ["p1", "p2"] and found(any_of=("b", "x", "y")) == []
    assert found(not_all_of=("a", "b")) == ["p1", "p2"] and found(not_all_of=("a", 'x"y')) == ["p2"]
    assert found(none_of=("a", "zz")) == ["p2"] and found() == ["p1", "p2"]
    assert found(any_of=("%", "_", "\\")) == []


def test_memberships_are_pairs(filled: Kept) -> None:
    def work(unit: Unit) -> None:
        rows = unit.directory
        for n in range(4):
            rows.users.add(User(f"x{n}", f"x{n}", "d1"))
            assert rows.memberships.add("g1", f"x{n}") and not rows.memberships.add("g1", f"x{n}")
        assert rows.memberships.users("g1", "x0", 2) == ["x1", "x2"]
        assert rows.memberships.has("g1", "x3") and not rows.memberships.has("g1", "u1")
        assert rows.memberships.groups("x1") == ["g1"]
        assert rows.memberships.remove("g1", "x1") and not rows.memberships.remove("g1", "x1")
        rows.groups.delete("g1")
        assert rows.memberships.groups("x2") == []

    filled.write(work)


def test_implications_are_pairs_and_go_with_their_roles(filled: Kept) -> None:
    def work(unit: Unit) -> None:
        rows = unit.directory
        for n in range(3):
            rows.roles.add(Role(f"x{n}", f"x{n}"))
        assert rows.implications.add("x0", "x1") and rows.implications.add("x1", "x2")
        assert not rows.implications.add("x0", "x1")
        assert rows.implications.all() == [("x0", "x1"), ("x1", "x2")]
        assert rows.implications.remove("x0", "x1") and not rows.implications.remove("x0", "x1")
        rows.roles.delete("x2")
        assert rows.implications.all() == []

    filled.write(work)


USER_ON = Grant(ActorKind.USER, "u1", ScopeKind.PROJECT, "p1", "r1")
GROUP_ON = Grant(ActorKind.GROUP, "g1", ScopeKind.DOMAIN, "d1", "r1", True)
ON_SYSTEM = Grant(ActorKind.USER, "u1", ScopeKind.SYSTEM, "", "r1")


def test_grants_are_found_from_either_end(filled: Kept) -> None:
    def work(unit: Unit) -> None:
        grants = unit.directory.grants
        for grant in (USER_ON, GROUP_ON, ON_SYSTEM):
            assert grants.add(grant) and not grants.add(grant) and grants.has(grant)
        assert not grants.has(replace(USER_ON, inherited=True))
        me, team = (ActorKind.USER, "u1"), (ActorKind.GROUP, "g1")
        assert grants.on([me], [(ScopeKind.PROJECT, "p1"), (ScopeKind.DOMAIN, "d1")]) == [USER_ON]
        assert grants.on([me, team], [(ScopeKind.PROJECT, "p1"), (ScopeKind.DOMAIN, "d1")]) == [GROUP_ON, USER_ON]
        assert grants.on([(ActorKind.GROUP, "u1")], [(ScopeKind.PROJECT, "p1")]) == []
        assert grants.of([me], ScopeKind.SYSTEM, 9) == [ON_SYSTEM] and grants.of([team], ScopeKind.SYSTEM, 9) == []
        first = grants.page({}, None, 2)
        assert [*first, *grants.page({}, first[-1], 2)] == [GROUP_ON, USER_ON, ON_SYSTEM]
        assert grants.page({"target_kind": "domain", "inherited": True}, None, 9) == [GROUP_ON]
        assert grants.remove(ON_SYSTEM) and not grants.remove(ON_SYSTEM)
        assert grants.drop({"actor_kind": "user", "actor": "u1"}) == 1

    filled.write(work)
    with pytest.raises(ValueError, match="at least one filter"):
        filled.write(lambda unit: unit.directory.grants.drop({}))
    filled.write(lambda unit: unit.directory.roles.delete("r1"))
    assert filled.read(lambda unit: unit.directory.grants.page({}, None, 9)) == []


def test_ended_tokens_need_no_revocation(filled: Kept) -> None:
    def work(unit: Unit) -> None:
        rows = unit.directory
        for n in range(4):
            rows.revocations.add(Revocation(f"t{n}", "u1", Wall(float(n))))
        assert rows.sweep_revocations(Wall(2.0), 1) == 1
        assert rows.sweep_revocations(Wall(2.0), 9) == 1
        assert [r.id for r in rows.revocations.page({}, "", 9)] == ["t2", "t3"]

    filled.write(work)
