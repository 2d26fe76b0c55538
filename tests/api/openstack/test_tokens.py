"""Tokens of the cloud's users: had, looked at, ended; and everything after which one is good for nothing at once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from banyan.core.time import Wall
from tests.api.openstack.lab import PASSWORD, SYSTEM, Json, Lab, on_domain, on_project


@pytest.fixture
def lab() -> Iterator[Lab]:
    lab = Lab()
    yield lab
    lab.close()


def works(lab: Lab, token: str) -> bool:
    """Whether a token is still good for anything."""
    status = lab.ask("GET", "/auth/projects", token).status_code
    assert status in (200, 401)
    return status == 200


@pytest.fixture
def ann(lab: Lab) -> Json:
    """A user with the role member on a project."""
    project, user = lab.project("p1"), lab.user("ann")
    lab.grant("member", f"users/{user}", f"projects/{project}")
    return {"id": user, "project": project}


def test_a_password_gives_a_token_with_roles_and_catalogue(lab: Lab) -> None:
    answer = lab.try_log_in(scope={"project": {"name": "admin", "domain": {"name": "Default"}}})
    assert answer.status_code == 201
    token = answer.json()["token"]
    assert token["user"] == {
        "id": token["user"]["id"],
        "name": "admin",
        "domain": {"id": "default", "name": "Default"},
        "password_expires_at": None,
    }
    assert [role["name"] for role in token["roles"]] == ["admin", "manager", "member", "reader"]
    assert token["project"]["name"] == "admin" and token["is_domain"] is False
    assert token["methods"] == ["password"] and len(token["audit_ids"]) == 1
    identity = next(row for row in token["catalog"] if row["type"] == "identity")
    assert {e["interface"] for e in identity["endpoints"]} == {"public", "internal", "admin"}
    assert {e["url"] for e in identity["endpoints"]} == {"http://cloud:8780/identity/v3"}
    assert {e["region_id"] for e in identity["endpoints"]} == {"RegionOne"}
    assert (
        "catalog"
        not in lab.ask(
            "POST",
            "/auth/tokens?nocatalog",
            json={"auth": {"identity": {"methods": ["token"], "token": {"id": answer.headers["X-Subject-Token"]}}}},
        ).json()["token"]
    )


@pytest.mark.parametrize(
    ("name", "password", "domain"),
    [
        ("admin", "wrong", "default"),
        ("admin", "", "default"),
        ("nobody", PASSWORD, "default"),
        ("admin", PASSWORD, "nowhere"),
        ("", PASSWORD, "default"),
    ],
)
def test_whatever_is_wrong_with_a_login_sounds_the_same(lab: Lab, name: str, password: str, domain: str) -> None:
    before = lab.passwords.asked
    answer = lab.try_log_in(name, password, domain=domain)
    assert answer.status_code == 401
    assert answer.json()["error"]["message"] == "The request you have made requires authentication."
    # An unknown user costs as much as a wrong password.
    assert lab.passwords.asked == before + 1


def test_a_wrong_application_credential_costs_the_same_whatever_there_is(lab: Lab, ann: Json) -> None:
    mine = lab.log_in("ann", "ann-pw", on_project(ann["project"]))
    where = f"/users/{ann['id']}/application_credentials"
    drawn = lab.good("POST", where, mine, {"application_credential": {"name": "drawn"}})["application_credential"]
    lab.good("POST", where, mine, {"application_credential": {"name": "own", "secret": "my own words"}})

    def asked(credential: Json) -> tuple[int, int]:
        before = lab.passwords.asked
        part = {"methods": ["application_credential"], "application_credential": credential}
        answer = lab.ask("POST", "/auth/tokens", json={"auth": {"identity": part}})
        return answer.status_code, lab.passwords.asked - before

    user = {"name": "ann", "domain": {"id": "default"}}
    for credential in (
        {"id": drawn["id"], "secret": "wrong"},
        {"id": "nowhere", "secret": "wrong"},
        *({"name": name, "user": user, "secret": "wrong"} for name in ("drawn", "own", "neither")),
        {"name": "drawn", "user": user | {"name": "nobody"}, "secret": "wrong"},
    ):
        assert asked(credential) == (401, 1), credential
    assert asked({"id": drawn["id"], "secret": drawn["secret"]}) == (201, 0), "who knows it waits for nothing"
    assert asked({"name": "own", "user": user, "secret": "my own words"}) == (201, 1)


def test_a_user_without_a_password_can_not_log_in(lab: Lab) -> None:
    lab.good("POST", "/users", lab.admin, {"user": {"name": "silent"}})
    for password in ("", "silent-pw"):
        assert lab.try_log_in("silent", password).status_code == 401


def test_without_a_scope_a_token_is_for_the_default_project_or_for_nothing(lab: Lab, ann: Json) -> None:
    answer = lab.try_log_in("ann", "ann-pw")
    assert "project" not in answer.json()["token"] and "roles" not in answer.json()["token"]
    lab.good("PATCH", f"/users/{ann['id']}", lab.admin, {"user": {"default_project_id": ann["project"]}})
    assert lab.try_log_in("ann", "ann-pw").json()["token"]["project"]["id"] == ann["project"]
    lab.good("PATCH", f"/projects/{ann['project']}", lab.admin, {"project": {"enabled": False}})
    assert "project" not in lab.try_log_in("ann", "ann-pw").json()["token"]


def test_scopes_need_a_role(lab: Lab, ann: Json) -> None:
    other = lab.project("p2")
    assert lab.try_log_in("ann", "ann-pw", on_project(ann["project"])).status_code == 201
    for scope in (on_project(other), on_project("missing"), on_domain("default"), SYSTEM):
        assert lab.try_log_in("ann", "ann-pw", scope).status_code == 401, scope


@pytest.mark.parametrize(
    "scope",
    [
        {},
        {"project": {}},
        {"project": {"name": "p1"}},
        {"domain": {}},
        {"system": {}},
        {"system": {"all": False}},
        {"project": {"id": "x"}, "domain": {"id": "y"}},
        "project",
        5,
        ["unscoped"],
    ],
)
def test_a_scope_that_says_nothing_is_400(lab: Lab, scope: object) -> None:
    assert lab.try_log_in(scope=scope).status_code == 400


def test_trusts_are_not_offered(lab: Lab) -> None:
    assert lab.try_log_in(scope={"OS-TRUST:trust": {"id": "x"}}).status_code == 501


def test_other_methods_are_refused(lab: Lab) -> None:
    for methods in (["totp"], ["password", "mapped"], []):
        auth = {"identity": {"methods": methods, "password": {"user": {"id": "x", "password": "y"}}}}
        assert lab.ask("POST", "/auth/tokens", json={"auth": auth}).status_code == 401


def test_a_token_is_rescoped_and_keeps_its_end(lab: Lab, ann: Json) -> None:
    first = lab.try_log_in("ann", "ann-pw", "unscoped")
    lab.clock.at += 60
    second = lab.rescoped(first.headers["X-Subject-Token"], on_project(ann["project"]))
    assert second.status_code == 201
    old, new = first.json()["token"], second.json()["token"]
    assert new["expires_at"] == old["expires_at"] and new["issued_at"] != old["issued_at"]
    assert new["methods"] == ["password", "token"]
    assert new["audit_ids"][1] == old["audit_ids"][0] != new["audit_ids"][0]


def test_a_token_ends(lab: Lab) -> None:
    token = lab.log_in()
    # So that nothing is remembered of it when it has ended, and so that something is.
    fresh = lab.log_in()
    assert works(lab, token)
    lab.clock.at += 3599
    assert works(lab, token)
    lab.clock.at += 2
    assert not works(lab, token) and not works(lab, fresh)
    answer = lab.ask("GET", "/auth/tokens", lab.log_in(), headers={"X-Subject-Token": token})
    assert answer.status_code == 404


def test_a_rescoped_token_does_not_outlive_the_first(lab: Lab) -> None:
    first = lab.log_in(scope="unscoped")
    lab.clock.at += 3000
    second = lab.rescoped(first, SYSTEM).headers["X-Subject-Token"]
    lab.clock.at += 601
    assert not works(lab, second)


def test_a_revoked_token_is_dead_at_once_and_after_a_restart(lab: Lab) -> None:
    token, other = lab.log_in(), lab.log_in()
    assert works(lab, token)
    assert lab.ask("DELETE", "/auth/tokens", token, headers={"X-Subject-Token": token}).status_code == 204
    assert not works(lab, token) and works(lab, other)
    lab.open()
    assert not works(lab, token) and works(lab, other)
    assert lab.ask("DELETE", "/auth/tokens", other, headers={"X-Subject-Token": token}).status_code == 404


def test_nobody_ends_or_looks_at_the_token_of_another(lab: Lab, ann: Json) -> None:
    token, mine = lab.log_in(), lab.log_in("ann", "ann-pw")
    for method in ("GET", "DELETE"):
        assert lab.ask(method, "/auth/tokens", mine, headers={"X-Subject-Token": token}).status_code == 403
    assert works(lab, token)
    seen = lab.ask("HEAD", "/auth/tokens", token, headers={"X-Subject-Token": mine})
    assert (seen.status_code, seen.content, seen.headers["X-Subject-Token"]) == (200, b"", mine)
    assert lab.ask("GET", "/auth/tokens", token).status_code == 400


def test_a_new_password_ends_all_tokens_of_the_user(lab: Lab, ann: Json) -> None:
    token, unseen, other = lab.log_in("ann", "ann-pw"), lab.log_in("ann", "ann-pw"), lab.log_in()
    assert works(lab, token)
    body = {"user": {"original_password": "ann-pw", "password": "newer"}}
    assert lab.ask("POST", f"/users/{ann['id']}/password", json=body).status_code == 204
    assert not works(lab, token) and not works(lab, unseen) and works(lab, other)
    assert lab.try_log_in("ann", "ann-pw").status_code == 401
    assert works(lab, lab.log_in("ann", "newer"))


def test_a_password_is_changed_by_who_knows_the_old_one(lab: Lab, ann: Json) -> None:
    body = {"user": {"original_password": "guess", "password": "newer"}}
    assert lab.ask("POST", f"/users/{ann['id']}/password", json=body).status_code == 401
    assert lab.ask("POST", "/users/missing/password", json=body).status_code == 401
    assert lab.try_log_in("ann", "ann-pw").status_code == 201
    lab.good("PATCH", f"/users/{ann['id']}", lab.admin, {"user": {"enabled": False}})
    body = {"user": {"original_password": "ann-pw", "password": "newer"}}
    assert lab.ask("POST", f"/users/{ann['id']}/password", json=body).status_code == 401


def test_an_administrators_new_password_ends_tokens_as_well(lab: Lab, ann: Json) -> None:
    token = lab.log_in("ann", "ann-pw")
    lab.good("PATCH", f"/users/{ann['id']}", lab.admin, {"user": {"password": "given"}})
    assert not works(lab, token)
    assert works(lab, lab.log_in("ann", "given"))


@pytest.mark.parametrize("what", ["user", "domain", "project", "delete-user", "delete-project"])
def test_what_is_disabled_or_deleted_takes_its_tokens_along(lab: Lab, what: str) -> None:
    domain = lab.domain("d1")
    project, user = lab.project("p1", domain), lab.user("ann", domain)
    lab.grant("member", f"users/{user}", f"projects/{project}")
    token = lab.log_in("ann", "ann-pw", on_project(project), domain)
    assert works(lab, token)
    admin = lab.admin
    off = {"enabled": False}
    match what:
        case "user":
            lab.good("PATCH", f"/users/{user}", admin, {"user": off})
        case "domain":
            lab.good("PATCH", f"/domains/{domain}", admin, {"domain": off})
        case "project":
            lab.good("PATCH", f"/projects/{project}", admin, {"project": off})
        case "delete-user":
            lab.good("DELETE", f"/users/{user}", admin)
        case _:
            lab.good("DELETE", f"/projects/{project}", admin)
    assert not works(lab, token)
    if what == "user":
        # Enabled again, it must log in again.
        lab.good("PATCH", f"/users/{user}", admin, {"user": {"enabled": True}})
        assert not works(lab, token)


def test_roles_count_as_they_are_now(lab: Lab, ann: Json) -> None:
    token = lab.log_in("ann", "ann-pw", on_project(ann["project"]))

    def held() -> list[str]:
        answer = lab.ask("GET", "/auth/tokens", token, headers={"X-Subject-Token": token})
        return [role["name"] for role in answer.json()["token"]["roles"]] if answer.is_success else []

    assert held() == ["member", "reader"]
    group = lab.group("g1")
    lab.grant("manager", f"groups/{group}", f"projects/{ann['project']}")
    assert held() == ["member", "reader"]
    lab.good("PUT", f"/groups/{group}/users/{ann['id']}", lab.admin)
    assert held() == ["manager", "member", "reader"]
    lab.good("DELETE", f"/groups/{group}/users/{ann['id']}", lab.admin)
    assert held() == ["member", "reader"]
    member = lab.role("member")
    lab.good("DELETE", f"/projects/{ann['project']}/users/{ann['id']}/roles/{member}", lab.admin)
    assert held() == [] and not works(lab, token)


def test_a_change_while_the_directory_is_read_is_not_missed(lab: Lab, ann: Json) -> None:
    """The store answers a reader with what was there before the change: that must not be remembered."""
    token = lab.log_in("ann", "ann-pw")
    admin = lab.admin
    gate = lab.identity.gate
    changed = False

    async def pause(instant: str) -> None:
        nonlocal changed
        if instant == "answer read" and not changed:
            changed = True
            who = await gate.authenticate(admin, "", "")
            from banyan.zone.identity.desk import Changes

            await lab.identity.people.update_user(who, ann["id"], Changes({"enabled": False}))

    lab.store._pause = pause
    lab.run(gate.authenticate(token, "", ""))
    assert changed and not works(lab, token)


def test_a_token_from_before_a_restore_is_good_for_nothing(lab: Lab) -> None:
    token, unseen = lab.log_in(), lab.log_in()
    assert works(lab, token)
    lab.run(lab.own.raise_epoch("restored", lab.own.row.epoch))
    assert not works(lab, token) and not works(lab, unseen)
    assert works(lab, lab.log_in())


@pytest.mark.parametrize("how", ["flip", "truncate", "empty", "operator", "other-zone", "long", "unsigned"])
def test_a_forged_token_is_refused(lab: Lab, how: str) -> None:
    token = lab.log_in()
    head, body, signature = token.split(".")
    match how:
        case "flip":
            token = f"{head}.{body[:-2] + ('A' if body[-2] != 'A' else 'B') + body[-1]}.{signature}"
        case "truncate":
            token = token[:-1]
        case "empty":
            token = f"{head}..{signature}"
        case "operator":
            from banyan.core.identity import Role
            from banyan.trust import signed_tokens

            now = lab.own.wall()
            claims = signed_tokens.TokenClaims(lab.own.code, "x", Role.ADMIN, None, "t1", now, Wall(now + 60))
            token = signed_tokens.issue(lab.own.token_seed, claims).reveal().decode()
        case "other-zone":
            other = Lab(seed=9)
            token = other.log_in()
            other.close()
        case "long":
            token = f"{head}.{body}{'A' * 8000}.{signature}"
        case _:
            token = f"{head}.{body}."
    status = lab.ask("GET", "/auth/projects", token).status_code
    assert status in (401, 431)


def test_texts_of_tokens_and_passwords_are_never_written_down(lab: Lab, ann: Json) -> None:
    token = lab.log_in("ann", "ann-pw", on_project(ann["project"]))
    lab.try_log_in("ann", "a-wrong-one")
    lab.ask("GET", "/auth/projects", token + "x")
    lab.good("POST", f"/users/{ann['id']}/password", json={"user": {"original_password": "ann-pw", "password": "nwr"}})
    made = lab.good(
        "POST",
        f"/users/{ann['id']}/application_credentials",
        lab.log_in("ann", "nwr", on_project(ann["project"])),
        {"application_credential": {"name": "k"}},
    )["application_credential"]
    secrets = [token, token.split(".")[2], "ann-pw", "a-wrong-one", "nwr", made["secret"], PASSWORD]
    for line in lab.journal():
        shown = repr(line)
        assert not [secret for secret in secrets if secret in shown], line.kind
    image = lab.store.image().database
    assert not [secret for secret in secrets if secret.encode() in image]


def test_the_journal_names_who_did_what_under_which_request(lab: Lab) -> None:
    token = lab.admin
    answer = lab.ask("POST", "/projects", token, {"project": {"name": "p9"}})
    line = lab.journal()[-1]
    assert (line.kind, line.text) == ("project-created", "p9")
    assert line.request == answer.headers["X-Openstack-Request-Id"]
    assert line.actor.startswith("user:admin#") and line.address == "192.0.2.7"
    audit = lab.good("GET", "/auth/tokens", token, headers={"X-Subject-Token": token})["token"]["audit_ids"][0]
    assert line.token == audit


def test_a_flood_of_revocations_ends_all_tokens_of_the_user(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("banyan.zone.identity.gate.MAX_REVOKED", 3)
    keep = lab.log_in()
    for _ in range(3):
        token = lab.log_in()
        lab.good("DELETE", "/auth/tokens", token, headers={"X-Subject-Token": token})
    assert works(lab, keep)
    token = lab.log_in()
    lab.good("DELETE", "/auth/tokens", token, headers={"X-Subject-Token": token})
    assert not works(lab, keep) and not works(lab, token)
    assert works(lab, lab.log_in())


def test_what_is_remembered_of_tokens_is_bounded(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("banyan.zone.identity.gate.MAX_KNOWN", 2)
    tokens = [lab.log_in() for _ in range(5)]
    assert all(works(lab, token) for token in tokens + tokens)
    assert len(lab.identity.gate._known) == 2
