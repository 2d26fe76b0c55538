"""Nobody reaches beyond their domain, and nobody makes themselves, or another, more than they are."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.api.openstack.lab import SYSTEM, Lab, grant_path, on_domain, on_project, world


@pytest.fixture
def lab() -> Iterator[Lab]:
    lab = world().lab()
    yield lab
    lab.close()


IDS = world().ids


def token(lab: Lab, user: str, place: str = "") -> str:
    """Of a user of the world; `place` is a domain or a project, else the user's own domain."""
    domain = {"red": IDS["red"], "blue": IDS["blue"]}.get(user.partition("-")[0], "default")
    scope = on_project(IDS[place]) if place else on_domain(domain)
    return lab.log_in(user, f"{user}-pw", scope, domain)


@pytest.mark.parametrize("role", ["reader", "manager", "admin"])
def test_lists_of_a_domain_hold_nothing_of_others(lab: Lab, role: str) -> None:
    mine = token(lab, f"blue-{role}")
    for what in ("users", "groups", "projects"):
        found = lab.good("GET", f"/{what}", mine)[what]
        assert found and {one["domain_id"] for one in found} == {IDS["blue"]}, what
        assert lab.ask("GET", f"/{what}?domain_id={IDS['red']}", mine).status_code == 403
    assert [one["id"] for one in lab.good("GET", "/domains", mine)["domains"]] == [IDS["blue"]]
    assert lab.ask("GET", "/role_assignments", mine).status_code == 403
    assert lab.ask("GET", f"/role_assignments?scope.domain.id={IDS['red']}", mine).status_code == 403
    assert lab.ask("GET", f"/role_assignments?scope.project.id={IDS['red-project']}", mine).status_code == 403
    assert lab.good("GET", f"/role_assignments?scope.domain.id={IDS['blue']}", mine)["role_assignments"]


def test_what_is_not_there_and_what_is_not_ones_own_sound_the_same(lab: Lab) -> None:
    mine, admin = token(lab, "blue-admin"), lab.admin
    for what, id in (("users", "red-user"), ("groups", "red-group"), ("projects", "red-project"), ("domains", "red")):
        there, missing = (lab.ask("GET", f"/{what}/{one}", mine) for one in (IDS[id], "0" * 32))
        assert (there.status_code, missing.status_code) == (403, 403), what
        assert there.json() == missing.json()
        assert lab.ask("GET", f"/{what}/{'0' * 32}", admin).status_code == 404


@pytest.mark.parametrize("who", ["red-manager", "red-admin"])
def test_in_a_domain_nobody_makes_an_admin(lab: Lab, who: str) -> None:
    """Neither by a grant, nor by a group that has one, nor with a role that implies it."""
    mine, admin = token(lab, who), lab.admin
    user, project = f"users/{IDS['red-user']}", f"projects/{IDS['red-project']}"
    for where in (project, f"domains/{IDS['red']}"):
        for inherited in (False, True):
            path = grant_path(IDS["admin"], user, where, inherited)
            assert lab.ask("PUT", path, mine).status_code == 403, path
    assert lab.ask("PUT", grant_path(IDS["admin"], user, "system"), mine).status_code == 403
    assert lab.ask("PUT", grant_path(IDS["manager"], user, project), mine).status_code == 204
    # A group that an administrator gave more.
    lab.good("PUT", grant_path(IDS["admin"], f"groups/{IDS['red-group']}", project), admin)
    assert lab.ask("PUT", f"/groups/{IDS['red-group']}/{user}", mine).status_code == 403
    assert lab.ask("DELETE", f"/groups/{IDS['red-group']}", mine).status_code == 403
    # A role of another name that brings it.
    boss = lab.role("boss")
    assert lab.ask("PUT", f"/roles/{boss}/implies/{IDS['admin']}", admin).status_code == 403
    assert lab.ask("PUT", grant_path(boss, user, project), mine).status_code == 403


def test_in_a_domain_nobody_takes_over_an_admin(lab: Lab) -> None:
    mine = token(lab, "red-manager")
    boss = f"/users/{IDS['red-admin']}"
    for body in ({"password": "mine"}, {"enabled": False}, {"name": "x"}):
        assert lab.ask("PATCH", boss, mine, {"user": body}).status_code == 403
    assert lab.ask("DELETE", boss, mine).status_code == 403
    for where in (f"domains/{IDS['red']}", f"projects/{IDS['red-project']}"):
        assert lab.ask("DELETE", grant_path(IDS["admin"], boss[1:], where), mine).status_code == 403
    member = f"/users/{IDS['red-member']}"
    assert lab.ask("PATCH", member, mine, {"user": {"password": "given"}}).status_code == 200


def test_a_manager_gives_no_role_that_it_lacks(lab: Lab) -> None:
    mine = token(lab, "red-manager")
    path = grant_path(IDS["custom"], f"users/{IDS['red-user']}", f"projects/{IDS['red-project']}")
    assert lab.ask("PUT", path, mine).status_code == 403
    assert lab.ask("PUT", path, lab.admin).status_code == 204


def test_grants_across_domains_are_for_admins_of_the_cloud(lab: Lab) -> None:
    mine, reader = token(lab, "red-admin"), IDS["reader"]
    for who, where in (
        (f"users/{IDS['blue-user']}", f"projects/{IDS['red-project']}"),
        (f"users/{IDS['red-user']}", f"projects/{IDS['blue-project']}"),
        (f"groups/{IDS['blue-group']}", f"domains/{IDS['red']}"),
    ):
        assert lab.ask("PUT", grant_path(reader, who, where), mine).status_code == 403
        assert lab.ask("PUT", grant_path(reader, who, where), lab.admin).status_code == 204
    assert lab.ask("PUT", f"/groups/{IDS['red-group']}/users/{IDS['blue-user']}", mine).status_code == 403


def test_domains_are_for_admins_of_the_cloud_by_whichever_address(lab: Lab) -> None:
    mine = token(lab, "red-admin")
    off = {"enabled": False}
    assert lab.ask("PATCH", f"/domains/{IDS['red']}", mine, {"domain": off}).status_code == 403
    assert lab.ask("PATCH", f"/projects/{IDS['red']}", mine, {"project": off}).status_code == 403
    assert lab.ask("DELETE", f"/projects/{IDS['red']}", mine).status_code == 403
    assert lab.ask("POST", "/projects", mine, {"project": {"name": "d", "is_domain": True}}).status_code == 403
    assert lab.ask("POST", "/projects", mine, {"project": {"name": "p", "domain_id": IDS["blue"]}}).status_code == 403
    below = {"project": {"name": "p", "parent_id": IDS["blue-project"]}}
    assert lab.ask("POST", "/projects", mine, below).status_code == 403


def test_nothing_moves_to_another_domain(lab: Lab) -> None:
    for path, key in (("users/red-user", "user"), ("groups/red-group", "group"), ("projects/red-project", "project")):
        kind, _, name = path.partition("/")
        body = {key: {"domain_id": IDS["blue"]}}
        assert lab.ask("PATCH", f"/{kind}/{IDS[name]}", lab.admin, body).status_code == 400


def test_an_admin_of_a_project_is_an_admin_of_the_cloud(lab: Lab) -> None:
    """As OpenStack's clients expect it; so nobody becomes one but by an admin of the cloud."""
    mine = token(lab, "red-admin", "red-project")
    assert len(lab.good("GET", "/domains", mine)["domains"]) == 3
    assert lab.ask("PATCH", f"/users/{IDS['blue-user']}", mine, {"user": {"description": "x"}}).status_code == 200


def test_a_system_reader_sees_all_and_changes_nothing(lab: Lab) -> None:
    mine = lab.log_in("system-reader", "system-reader-pw", SYSTEM)
    assert len(lab.good("GET", "/users", mine)["users"]) == 13
    assert lab.ask("PATCH", f"/users/{IDS['red-user']}", mine, {"user": {"description": "x"}}).status_code == 403


def test_a_key_is_nobodys_elses(lab: Lab) -> None:
    owner = token(lab, "red-user", "red-project")
    made = lab.good("POST", f"/users/{IDS['red-user']}/credentials/OS-EC2", owner, {"tenant_id": IDS["red-project"]})
    access = made["credential"]["access"]
    held = lab.good("GET", "/credentials", owner)["credentials"][0]["id"]
    for who in ("blue-user", "red-member"):
        other = token(lab, who, who.partition("-")[0] + "-project")
        assert lab.good("GET", "/credentials", other)["credentials"] == []
        assert lab.ask("GET", f"/credentials/{held}", other).status_code == 403
        assert lab.ask("GET", f"/credentials?user_id={IDS['red-user']}", other).status_code == 403
        assert lab.ask("GET", f"/users/{IDS['red-user']}/credentials/OS-EC2/{access}", other).status_code == 403
        # By one's own address another's key is not there.
        assert lab.ask("GET", f"/users/{IDS[who]}/credentials/OS-EC2/{access}", other).status_code == 404
        body = {"credential": {"type": "ec2", "blob": "{}", "user_id": IDS["red-user"]}}
        assert lab.ask("POST", "/credentials", other, body).status_code == 403
        assert lab.ask("PATCH", f"/credentials/{held}", other, {"credential": {"blob": "x"}}).status_code == 403


def test_an_access_key_names_one_user_only(lab: Lab) -> None:
    def body(user: str, color: str) -> dict[str, object]:
        blob = '{"access": "same", "secret": "s"}'
        return {
            "credential": {"type": "ec2", "blob": blob, "user_id": IDS[user], "project_id": IDS[f"{color}-project"]}
        }

    assert lab.ask("POST", "/credentials", lab.admin, body("red-user", "red")).status_code == 201
    assert lab.ask("POST", "/credentials", lab.admin, body("blue-user", "blue")).status_code == 409
    made = lab.good(
        "POST", f"/users/{IDS['blue-user']}/credentials/OS-EC2", lab.admin, {"tenant_id": IDS["blue-project"]}
    )
    id = next(c["id"] for c in lab.good("GET", "/credentials?type=ec2", lab.admin)["credentials"]
              if made["credential"]["access"] in c["blob"])  # fmt: skip
    changed = {"credential": {"blob": '{"access": "same", "secret": "t"}'}}
    assert lab.ask("PATCH", f"/credentials/{id}", lab.admin, changed).status_code == 409
