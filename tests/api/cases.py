"""One case per row of the route table: a request that is well-formed, within a subtree and out of it.

A row without a case is a failing test, and so is a case without a row.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from tests.api.surface import INSIDE, SERVER


class Reach(Enum):
    """What a caller that is limited to a part of the tree meets.

    OPEN: no credential is asked. ANYWHERE: an answer, of its part. PLACE: its part, nothing elsewhere.
    WHOLE: not found, since it is about the zone itself, which is out of its part.
    """

    OPEN = "open"
    ANYWHERE = "anywhere"
    PLACE = "place"
    WHOLE = "whole"


@dataclass(frozen=True)
class Case:
    """`inside`, `outside` and `root` are addresses; `{made}` in them is the id of what `before` made, as an admin.

    `root` is the very zone that a limited caller's part begins with; `parents`: it is for that zone's parent to decide.
    """

    reach: Reach
    inside: str
    outside: str = ""
    root: str = ""
    parents: bool = False
    body: dict[str, object] | None = None
    before: tuple[str, str, dict[str, object]] | None = None
    outside_body: dict[str, object] | None = None
    extra: dict[str, str] = field(default_factory=dict)


KEY = "ab" * 32
_OPEN, _ANY, _PLACE, _WHOLE = Reach.OPEN, Reach.ANYWHERE, Reach.PLACE, Reach.WHOLE


def _word(word: str, body: dict[str, object] | None = None) -> Case:
    here, there = f"/v1/zones/top/{INSIDE}/lab1/actions/{word}", f"/v1/zones/top/south/lab3/actions/{word}"
    root = f"/v1/zones/top/{INSIDE}/actions/{word}"
    return Case(_PLACE, here, there, root, word != "rescan", body, outside_body=body)


def _list(noun: str) -> Case:
    return Case(_PLACE, f"/v1/{noun}?under={INSIDE}/lab1", f"/v1/{noun}?under=south", f"/v1/{noun}?under={INSIDE}")


def _host(word: str, body: dict[str, object] | None = None) -> Case:
    here, there = f"/v1/hosts/host-{INSIDE}/lab1/actions/{word}", f"/v1/hosts/host-south/lab3/actions/{word}"
    return Case(_PLACE, f"{here}?under={INSIDE}/lab1", f"{there}?under=south", body=body, outside_body=body)


_ACT = "POST /v1/zones/{path…}/actions"

CASES: dict[str, Case] = {
    "GET /": Case(_OPEN, "/"),
    "GET /v1": Case(_OPEN, "/v1"),
    "GET /openapi.json": Case(_OPEN, "/openapi.json"),
    "GET /healthz": Case(_OPEN, "/healthz"),
    "GET /metrics": Case(_WHOLE, "/metrics"),
    "GET /v1/status": Case(_WHOLE, "/v1/status"),
    "POST /v1/authority/rotate": Case(_WHOLE, "/v1/authority/rotate", body={"leaked": True}),
    "POST /v1/release": Case(_WHOLE, "/v1/release", body={"apply": True}),
    "POST /v1/leave": Case(_WHOLE, "/v1/leave", body={"apply": True}),
    "GET /v1/usage": _list("usage"),
    "GET /v1/use": Case(_WHOLE, "/v1/use"),
    "GET /v1/racks": _list("racks"),
    "GET /v1/hosts": _list("hosts"),
    "POST /v1/hosts/{name…}/actions/disable": _host("disable", {"reason": "for a test", "down": True}),
    "POST /v1/hosts/{name…}/actions/enable": _host("enable"),
    "GET /v1/servers": _list("servers"),
    "GET /v1/placed": Case(_ANY, "/v1/placed"),
    "POST /v1/placed": Case(_ANY, "/v1/placed", body={"name": "web", "project": "p1"}),
    "GET /v1/placed/{id}": Case(_ANY, f"/v1/placed/{SERVER}"),
    "DELETE /v1/placed/{id}": Case(_ANY, f"/v1/placed/{SERVER}"),
    "GET /v1/placed/{id}/why": Case(_ANY, f"/v1/placed/{SERVER}/why"),
    "GET /v1/zones": _list("zones"),
    "GET /v1/zones/{path…}": Case(
        _PLACE, f"/v1/zones/top/{INSIDE}/lab1", "/v1/zones/top/south/lab3", f"/v1/zones/top/{INSIDE}"
    ),
    f"{_ACT}/disable": _word("disable", {"reason": "for a test"}),
    f"{_ACT}/enable": _word("enable"),
    f"{_ACT}/maintenance": _word("maintenance", {"until": "3600"}),
    f"{_ACT}/rescan": _word("rescan"),
    f"{_ACT}/ban": _word("ban"),
    f"{_ACT}/unban": _word("unban"),
    f"{_ACT}/retire": _word("retire"),
    f"{_ACT}/rename": _word("rename", {"name": "lab9"}),
    f"{_ACT}/replace": Case(_WHOLE, f"/v1/zones/top/{INSIDE}/actions/replace"),
    f"{_ACT}/admit": _word("admit"),
    f"{_ACT}/accept": _word("accept"),
    "GET /v1/journal": Case(_WHOLE, "/v1/journal"),
    "GET /v1/requests/{request}": _list("requests/req-1"),
    "GET /v1/journal/follow": Case(_WHOLE, "/v1/journal/follow?after=0"),
    "GET /v1/receivers": Case(_WHOLE, "/v1/receivers"),
    "POST /v1/receivers/{name}/test": Case(_WHOLE, "/v1/receivers/siem/test"),
    "GET /v1/codes": Case(_WHOLE, "/v1/codes"),
    "POST /v1/codes": Case(_WHOLE, "/v1/codes", body={"name": "lab*"}),
    "DELETE /v1/codes/{id}": Case(_WHOLE, "/v1/codes/{made}", before=("POST", "/v1/codes", {})),
    "GET /v1/tokens": Case(_WHOLE, "/v1/tokens"),
    "POST /v1/tokens": Case(
        _PLACE, "/v1/tokens", "/v1/tokens", body={"role": "viewer", "subject": "ops", "under": INSIDE},
        outside_body={"role": "viewer", "subject": "ops", "under": "south"},
    ),
    "DELETE /v1/tokens/{id}": Case(
        _WHOLE, "/v1/tokens/{made}", before=("POST", "/v1/tokens", {"role": "viewer", "subject": "x", "under": INSIDE})
    ),
    "POST /v1/tokens/{id}/affirm": Case(
        _WHOLE, "/v1/tokens/{made}/affirm",
        before=("POST", "/v1/tokens", {"role": "viewer", "subject": "x", "under": INSIDE}),
    ),
    "GET /v1/rules": Case(_WHOLE, "/v1/rules"),
    "PUT /v1/rules/{id}": Case(_WHOLE, "/v1/rules/all-labs", body={"name": "lab*"}),
    "DELETE /v1/rules/{id}": Case(_WHOLE, "/v1/rules/{made}", before=("PUT", "/v1/rules/{new}", {})),
    "GET /v1/known-keys": Case(_WHOLE, "/v1/known-keys"),
    "PUT /v1/known-keys/{fingerprint}": Case(_WHOLE, f"/v1/known-keys/{KEY}", body={"name": "lab9"}),
    "DELETE /v1/known-keys/{fingerprint}": Case(
        _WHOLE, f"/v1/known-keys/{KEY}", before=("PUT", f"/v1/known-keys/{KEY}", {"name": "lab9"})
    ),
}  # fmt: skip
