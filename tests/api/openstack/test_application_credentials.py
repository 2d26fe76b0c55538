"""Application credentials: some of a user's roles on one project, for some requests, until some day."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from tests.api.openstack.lab import SYSTEM, Json, Lab, on_project


@pytest.fixture
def lab() -> Iterator[Lab]:
    lab = Lab()
    lab.project_id = lab.project("p1")
    lab.user_id = lab.user("ann")
    lab.grant("manager", f"users/{lab.user_id}", f"projects/{lab.project_id}")
    yield lab
    lab.close()


def make(lab: Lab, **more: object) -> httpx.Response:
    token = lab.log_in("ann", "ann-pw", on_project(lab.project_id))
    body = {"application_credential": {"name": "key", **more}}
    return lab.ask("POST", f"/users/{lab.user_id}/application_credentials", token, body)


def made(lab: Lab, **more: object) -> Json:
    answer = make(lab, **more)
    assert answer.status_code == 201, answer.text
    return dict(answer.json()["application_credential"])


def use(lab: Lab, key: Json, scope: object = None, **other: object) -> httpx.Response:
    part = {"id": key["id"], "secret": key["secret"], **other}
    auth: Json = {"identity": {"methods": ["application_credential"], "application_credential": part}}
    if scope is not None:
        auth["scope"] = scope
    return lab.ask("POST", "/auth/tokens", json={"auth": auth})


def test_a_key_gives_a_token_of_its_project_with_its_roles(lab: Lab) -> None:
    key = made(lab, roles=[{"name": "member"}])
    token = use(lab, key).json()["token"]
    assert [role["name"] for role in token["roles"]] == ["member", "reader"]
    assert token["project"]["id"] == lab.project_id
    assert token["application_credential"] == {"id": key["id"], "name": "key", "restricted": True}
    assert token["methods"] == ["application_credential"]


def test_by_its_name_a_key_is_found_with_its_user(lab: Lab) -> None:
    key = made(lab)
    user = {"name": "ann", "domain": {"id": "default"}}
    part = {"name": "key", "secret": key["secret"], "user": user}
    auth = {"identity": {"methods": ["application_credential"], "application_credential": part}}
    assert lab.ask("POST", "/auth/tokens", json={"auth": auth}).status_code == 201
    del part["user"]
    assert lab.ask("POST", "/auth/tokens", json={"auth": auth}).status_code == 400


def test_its_secret_is_told_once(lab: Lab) -> None:
    key = made(lab)
    shown = lab.good("GET", f"/users/{lab.user_id}/application_credentials", lab.admin)
    assert "secret" not in shown["application_credentials"][0]
    assert use(lab, key).status_code == 201
    assert use(lab, key, secret="other").status_code == 401
    chosen = made(lab, name="chosen", secret="one of mine")
    assert use(lab, chosen, secret="one of mine").status_code == 201


def test_it_gives_no_role_that_its_user_lacks(lab: Lab) -> None:
    assert make(lab, roles=[{"name": "admin"}]).status_code == 404
    key = made(lab)
    member, manager = lab.role("member"), lab.role("manager")
    where = f"/projects/{lab.project_id}/users/{lab.user_id}/roles"
    lab.good("PUT", f"{where}/{member}", lab.admin)
    lab.good("DELETE", f"{where}/{manager}", lab.admin)
    assert [role["name"] for role in use(lab, key).json()["token"]["roles"]] == ["member", "reader"]
    lab.good("DELETE", f"{where}/{member}", lab.admin)
    assert use(lab, key).status_code == 401


def test_it_keeps_its_scope(lab: Lab) -> None:
    key = made(lab)
    other = lab.project("p2")
    lab.grant("member", f"users/{lab.user_id}", f"projects/{other}")
    for scope in (on_project(other), SYSTEM, "unscoped"):
        assert use(lab, key, scope).status_code == 401
    token = use(lab, key).headers["X-Subject-Token"]
    assert lab.rescoped(token, on_project(other)).status_code == 403


def test_it_ends(lab: Lab) -> None:
    key = made(lab, expires_at="2026-11-30T20:00:00Z")
    assert make(lab, name="past", expires_at="2020-01-01T00:00:00").status_code == 400
    assert make(lab, name="odd", expires_at="tomorrow").status_code == 400
    answer = use(lab, key)
    assert answer.status_code == 201
    lab.clock.at = 1_796_068_800.0 - 1
    token = use(lab, key)
    assert token.json()["token"]["expires_at"] == "2026-11-30T20:00:00.000000Z"
    lab.clock.at += 2
    assert use(lab, key).status_code == 401
    assert lab.ask("GET", "/auth/projects", token.headers["X-Subject-Token"]).status_code == 401


def test_deleted_its_tokens_are_dead(lab: Lab) -> None:
    key = made(lab)
    token = use(lab, key).headers["X-Subject-Token"]
    assert lab.ask("GET", "/auth/projects", token).status_code == 200
    lab.good("DELETE", f"/users/{lab.user_id}/application_credentials/{key['id']}", lab.admin)
    assert lab.ask("GET", "/auth/projects", token).status_code == 401
    assert use(lab, key).status_code == 401


@pytest.mark.parametrize(("unrestricted", "status"), [(False, 403), (True, 201)])
def test_a_restricted_key_makes_no_further_ones(lab: Lab, unrestricted: bool, status: int) -> None:
    key = made(lab, unrestricted=unrestricted)
    token = use(lab, key).headers["X-Subject-Token"]
    user = lab.user_id
    body = {"application_credential": {"name": "second"}}
    assert lab.ask("POST", f"/users/{user}/application_credentials", token, body).status_code == status
    ec2 = {"tenant_id": lab.project_id}
    assert lab.ask("POST", f"/users/{user}/credentials/OS-EC2", token, ec2).status_code == status


def test_access_rules_are_kept_to(lab: Lab) -> None:
    rules = [
        {"service": "identity", "method": "GET", "path": "/v3/users/*"},
        {"service": "compute", "method": "GET", "path": "/v2.1/servers"},
    ]
    key = made(lab, access_rules=rules)
    assert [rule["path"] for rule in key["access_rules"]] == ["/v3/users/*", "/v2.1/servers"]
    token = use(lab, key).headers["X-Subject-Token"]
    user = lab.user_id
    assert lab.ask("GET", f"/users/{user}", token).status_code == 200
    assert lab.ask("HEAD", f"/users/{user}", token).status_code == 200
    assert lab.ask("GET", f"/users/{user}/projects", token).status_code == 403
    assert lab.ask("GET", "/regions", token).status_code == 403
    assert lab.ask("GET", "/auth/projects", token).status_code == 200
    # A rule in use stays; the same rule is one for all keys of its user.
    rule = key["access_rules"][0]["id"]
    assert lab.ask("DELETE", f"/users/{user}/access_rules/{rule}", lab.admin).status_code == 403
    again = made(lab, name="other", access_rules=[rules[0]])
    assert again["access_rules"][0]["id"] == rule
    by_id = made(lab, name="third", access_rules=[{"id": rule}])
    assert by_id["access_rules"][0]["path"] == "/v3/users/*"
    assert make(lab, name="fourth", access_rules=[{"id": "missing"}]).status_code == 404


def test_names_are_unique_for_a_user(lab: Lab) -> None:
    made(lab)
    assert make(lab).status_code == 409


def test_at_the_zones_machine_a_key_is_made_for_anybody(lab: Lab) -> None:
    user, project = lab.user_id, lab.project_id
    body = {"application_credential": {"name": "local", "project_id": project}}
    answer = lab.ask("POST", f"/users/{user}/application_credentials", json=body, local=True)
    assert answer.status_code == 201
    assert use(lab, answer.json()["application_credential"]).status_code == 201
    other = {"application_credential": {"name": "other", "project_id": lab.project("p9")}}
    answer = lab.ask("POST", f"/users/{user}/application_credentials", json=other, local=True)
    assert (answer.status_code, "has no role" in answer.text) == (403, True)
    # From elsewhere not even an admin of the cloud makes one for another.
    assert lab.ask("POST", f"/users/{user}/application_credentials", lab.admin, body).status_code == 403
    assert "user:root@local#" in {line.actor for line in lab.journal()}
