"""What a program makes for itself with an application credential: no more than that may (CVE-2020-12691)."""

from __future__ import annotations

import json
from collections.abc import Iterator

import httpx
import pytest

from tests.api.openstack.lab import Json, on_project
from tests.api.openstack.test_application_credentials import made, make, use
from tests.api.openstack.test_signatures import Keyed


class Weak(Keyed):
    """ann is a manager of p1 and p2; `weak` is a token of her unrestricted credential for reading p1."""

    def __init__(self) -> None:
        super().__init__()
        self.p2 = self.project("p2")
        for project in (self.p1, self.p2):
            self.grant("manager", f"users/{self.ann}", f"projects/{project}")
        self.project_id, self.user_id = self.p1, self.ann
        self.key = made(self, roles=[{"name": "reader"}], unrestricted=True)
        self.weak = use(self, self.key).headers["X-Subject-Token"]
        self.whole = self.log_in("ann", "ann-pw", on_project(self.p1))
        self.ec2 = f"/users/{self.ann}/credentials/OS-EC2"

    def key_for(self, project: str, token: str) -> httpx.Response:
        return self.ask("POST", self.ec2, token, {"tenant_id": project})

    def kept(self, project: str, token: str, **said: str) -> httpx.Response:
        blob = json.dumps({"access": "a1", "secret": "s1", **said})
        body = {"credential": {"type": "ec2", "blob": blob, "project_id": project}}
        return self.ask("POST", "/credentials", token, body)

    def roles(self, access: str, secret: str) -> set[str]:
        """Those of a token that a key gives."""
        answer = self.tell({**self.signed(secret), "access": access})
        assert answer.status_code == 200, answer.text
        return {role["name"] for role in answer.json()["token"]["roles"]}


@pytest.fixture
def lab() -> Iterator[Weak]:
    lab = Weak()
    yield lab
    lab.close()


def test_a_key_has_the_project_and_the_roles_of_the_credential_that_made_it(lab: Weak) -> None:
    assert lab.key_for(lab.p2, lab.weak).status_code == 403
    key = lab.key_for(lab.p1, lab.weak).json()["credential"]
    assert lab.roles(key["access"], key["secret"]) == {"reader"}
    # A password's is the user's, wherever.
    whole = lab.key_for(lab.p2, lab.whole).json()["credential"]
    assert "manager" in lab.roles(whole["access"], whole["secret"])
    # It makes no further key that is wider, and ends with its maker.
    answer = lab.tell({**lab.signed(key["secret"]), "access": key["access"]})
    token = answer.headers["X-Subject-Token"]
    assert answer.json()["token"]["application_credential"]["id"] == lab.key["id"]
    assert lab.key_for(lab.p2, token).status_code == 403
    assert lab.rescoped(token, on_project(lab.p2)).status_code == 403
    lab.good("DELETE", f"/users/{lab.ann}/application_credentials/{lab.key['id']}", lab.whole)
    assert lab.tell({**lab.signed(key["secret"]), "access": key["access"]}).status_code == 401


@pytest.mark.parametrize("said", [{}, {"app_cred_id": "another"}])
def test_so_has_a_key_that_is_kept_for_it(lab: Weak, said: dict[str, str]) -> None:
    assert lab.kept(lab.p2, lab.weak, **said).status_code == 403
    answer = lab.kept(lab.p1, lab.weak, **said)
    assert answer.status_code == 201, answer.text
    assert lab.roles("a1", "s1") == {"reader"}
    path = f"/credentials/{answer.json()['credential']['id']}"
    assert lab.ask("PATCH", path, lab.weak, {"credential": {"project_id": lab.p2}}).status_code == 403
    blob = json.dumps({"access": "a1", "secret": "s2"})
    lab.good("PATCH", path, lab.weak, {"credential": {"blob": blob}})
    assert lab.roles("a1", "s2") == {"reader"}


def test_with_it_no_other_key_of_the_user_is_seen_or_changed(lab: Weak) -> None:
    id = lab.good("GET", "/credentials?type=ec2", lab.whole)["credentials"][0]["id"]
    blob = json.dumps({"access": lab.access, "secret": "mine"})
    assert lab.ask("GET", f"{lab.ec2}/{lab.access}", lab.weak).status_code == 404
    assert lab.ask("GET", f"/credentials/{id}", lab.weak).status_code == 404
    assert lab.ask("PATCH", f"/credentials/{id}", lab.weak, {"credential": {"blob": blob}}).status_code == 404
    mine = lab.key_for(lab.p1, lab.weak).json()["credential"]["access"]
    for path in (lab.ec2, "/credentials", "/credentials?limit=1"):
        answer = lab.ask("GET", path, lab.weak)
        assert lab.secret not in answer.text and mine in answer.text, path
    assert lab.secret in lab.ask("GET", "/credentials", lab.whole).text


def second(lab: Weak, token: str, **more: object) -> httpx.Response:
    body = {"application_credential": {"name": "second", **more}}
    return lab.ask("POST", f"/users/{lab.ann}/application_credentials", token, body)


def test_a_credential_made_with_another_is_good_for_no_more_requests_and_no_longer(lab: Weak) -> None:
    rules = [
        {"service": "identity", "method": "POST", "path": "/v3/users/*/application_credentials"},
        {"service": "compute", "method": "GET", "path": "/v2.1/servers"},
    ]
    first = made(lab, name="first", unrestricted=True, access_rules=rules, expires_at="2026-11-30T20:00:00Z")
    token = use(lab, first).headers["X-Subject-Token"]
    good: Json = {"access_rules": rules[1:], "expires_at": "2026-11-30T19:00:00Z"}
    wider = [{"service": "compute", "method": "DELETE", "path": "/v2.1/servers/*"}]
    for more in (
        {"access_rules": []}, {"access_rules": wider}, {"access_rules": [*rules, *wider]}, {"expires_at": None},
        {"expires_at": "2026-11-30T21:00:00Z"},
    ):  # fmt: skip
        answer = second(lab, token, **{**good, **more})
        assert answer.status_code == 403, (more, answer.text)
    assert second(lab, token, **good).status_code == 201
    assert make(lab, name="of the whole user").status_code == 201
