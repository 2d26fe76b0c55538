"""Every row of the identity API × who asks, in which scope: the policy's word, from the chassis and from the zone."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cache
from weakref import WeakKeyDictionary

import pytest

from banyan.api.keystone.rows import ROWS
from banyan.api.openstack.table import OPEN, Operation
from banyan.core.permissions import POLICY, could, may
from banyan.core.principal import Principal
from tests.api.openstack.identity_cases import CASES, Case
from tests.api.openstack.lab import SYSTEM, Lab, on_domain, on_project, world

# Who asks: a user of the world, and the scope of its token.
WHO = {
    "nobody": ("nobody", "unscoped"),
    "red-user, unscoped": ("red-user", "unscoped"),
    "red-user, project": ("red-user", "red-project"),
    "red-reader, domain": ("red-reader", "red"),
    "red-member, project": ("red-member", "red-project"),
    "red-manager, project": ("red-manager", "red-project"),
    "red-manager, domain": ("red-manager", "red"),
    "red-admin, domain": ("red-admin", "red"),
    "blue-reader, domain": ("blue-reader", "blue"),
    "blue-manager, domain": ("blue-manager", "blue"),
    "blue-admin, domain": ("blue-admin", "blue"),
    "red-admin, project": ("red-admin", "red-project"),
    "system-reader": ("system-reader", "system"),
    "admin": ("admin", "system"),
}


@cache
def prepared() -> tuple[Mapping[str, str], Mapping[str, str], object]:
    """The world with a key, a rule and an endpoint in it: ids, tokens by who, and its image."""
    made = world()
    lab = made.lab()
    ids = dict(made.ids)
    tokens = {}
    for who, (user, place) in WHO.items():
        domain = {"red": ids["red"], "blue": ids["blue"]}.get(user.partition("-")[0], "default")
        scope = {"unscoped": "unscoped", "system": SYSTEM}.get(place)
        if scope is None:
            scope = on_project(ids[place]) if place.endswith("project") else on_domain(ids[place])
        if user == "admin":
            tokens[who] = lab.log_in(scope=scope)
        else:
            tokens[who] = lab.log_in(user, f"{user}-pw", scope, domain)
    rules = [{"service": "compute", "method": "GET", "path": "/v2.1/servers"}]
    # Its own token is restricted by nothing: the key is only something to look at and to delete.
    body = {"application_credential": {"name": "first", "access_rules": rules}}
    path = f"/users/{ids['red-user']}/application_credentials"
    key = lab.good("POST", path, tokens["red-user, project"], body)["application_credential"]
    ids |= {"key": key["id"], "rule": key["access_rules"][0]["id"]}
    service = lab.good("POST", "/services", tokens["admin"], {"service": {"type": "t"}})["service"]["id"]
    endpoint = {"service_id": service, "interface": "public", "url": "http://x"}
    ids["endpoint"] = lab.good("POST", "/endpoints", tokens["admin"], {"endpoint": endpoint})["endpoint"]["id"]
    image = lab.store.image()
    lab.close()
    return ids, tokens, image


def principal(lab: Lab, token: str) -> Principal:
    return lab.run(lab.identity.gate.authenticate(token, "", ""))


def fresh() -> Lab:
    _, _, image = prepared()
    return Lab(image, seed=3)


def filled(value: object, ids: Mapping[str, str]) -> object:
    """`value` with each {name} replaced by the id of that name."""
    text = json.dumps(value)
    for name, id in ids.items():
        text = text.replace(f"{{{name}}}", id)
    return json.loads(text)


# What the case's `before` made in a lab.
_MADE: WeakKeyDictionary[Lab, str] = WeakKeyDictionary()


def ask(lab: Lab, row: Operation, case: Case, token: str) -> int:
    """The status. What the case needs is made first, if it is not there yet."""
    ids, tokens, _ = prepared()
    known = {**ids, "token of red-user": tokens["red-user, unscoped"]}
    if case.before is not None and lab not in _MADE:
        method, path, body = case.before
        answer = lab.ask(method, str(filled(path, known)), tokens["admin"], filled(body, known))
        assert answer.is_success, answer.text
        made = next(iter(answer.json().values())) if answer.content else {}
        _MADE[lab] = str(made.get("id") or made.get("access") or "")
    known["made"] = _MADE.get(lab, "")
    path = str(filled(case.path, known))
    if row.path in ("", "/", "/v3", "/v3/"):
        path = "/.." + row.path if row.path.startswith("/v3") or not row.path else "/../"
    headers = {name: str(filled(value, known)) for name, value in case.headers.items()}
    return lab.ask(row.method, path, token, filled(case.body, known), headers=headers).status_code


def test_every_row_has_a_case_and_every_case_a_row() -> None:
    assert {row.name for row in ROWS} == set(CASES)


def test_every_action_is_in_the_policy_and_used() -> None:
    actions = {row.action for row in ROWS} - {OPEN}
    assert actions <= set(POLICY)
    # Those that the zone asks for by itself, of rows whose target says which it is.
    by_zone = {"create_domain_role", "update_domain_role", "delete_domain_role", "get_domain_role", "list_domain_roles"}
    mine = {action for action in POLICY if action.startswith("identity:")}
    assert mine - actions == {f"identity:{word}" for word in by_zone}


def test_what_asks_for_no_token_is_what_must_not() -> None:
    paths = {f"{row.method} {row.path}" for row in ROWS if row.action == OPEN}
    assert paths == {
        "GET ",
        "GET /",
        "GET /v3",
        "GET /v3/",
        "POST /v3/auth/tokens",
        "POST /v3/users/{user_id}/password",
    }


def rows() -> Iterator[Operation]:
    yield from (row for row in ROWS if row.path not in ("", "/", "/v3", "/v3/"))


@pytest.mark.parametrize("row", list(rows()), ids=lambda row: row.name)
def test_authorisation(row: Operation) -> None:
    """Whoever may not is told so, and nothing has changed; whoever may gets the row's own status."""
    ids, tokens, _ = prepared()
    case = CASES[row.name]
    shared = fresh()
    before = len(shared.journal())
    if case.before is None:
        assert ask(shared, row, case, "") == (401 if row.action != OPEN else row.status), "without a token"
    allowed = []
    for who, token in tokens.items():
        if row.action == OPEN:
            continue
        acting = principal(shared, token)
        right = could(acting, row.action) if case.listing else may(acting, row.action, case.target(ids))
        if right:
            allowed.append(who)
        else:
            assert ask(shared, row, case, token) == 403, who
    if row.action != OPEN and case.before is None:
        assert len(shared.journal()) == before, "a refusal changed something"
    for who in allowed:
        lab = shared if row.method in ("GET", "HEAD") else fresh()
        wanted = row.status
        if row.action == "identity:create_application_credential":
            # It is for a project: another scope is a wrong request.
            wanted = 201 if who.endswith("project") else 400
        assert ask(lab, row, case, tokens[who]) == wanted, who
        if lab is not shared:
            lab.close()
    shared.close()
