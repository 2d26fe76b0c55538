"""One case per row of the identity API: a well-formed request about something in the domain red, and whose that is.

A row without a case is a failing test, and so is a case without a row.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field

from banyan.api.keystone.rows import ROWS
from banyan.core.permissions import Target

# tests/api/openstack/lab.py Clock, at its start.
LAB_HOUR = "2026-11-30T00:53:20Z"


@dataclass(frozen=True)
class Case:
    """`{name}` in path and body is the id of the world's thing of that name; `target` the names of whose it is.

    `listing`: whoever may ask gets its own part, so that nothing is refused by the target. `before` is asked as the
    administrator first; what it makes is `{made}`.
    """

    path: str
    domain: str = ""
    project: str = ""
    user: str = ""
    body: object = None
    listing: bool = False
    before: tuple[str, str, object] | None = None
    headers: Mapping[str, str] = field(default_factory=dict)

    def target(self, ids: Mapping[str, str]) -> Target:
        return Target(ids.get(self.domain, ""), ids.get(self.project, ""), ids.get(self.user, ""))


def _hmac(text: bytes) -> str:
    return base64.b64encode(hmac.new(b"s", text, hashlib.sha1).digest()).decode()


_U, _G, _P, _D = "/users/{red-user}", "/groups/{red-group}", "/projects/{red-project}", "/domains/{red}"
_RED_USER = {"domain": "red", "user": "red-user"}
_RED_PROJECT = {"domain": "red", "project": "red-project"}
_RED: dict[str, str] = {"domain": "red"}
_SUBJECT = {"X-Subject-Token": "{token of red-user}"}
_EC2 = ("POST", f"{_U}/credentials/OS-EC2", {"tenant_id": "{red-project}"})
# A key whose secret is known, and what it signs at the lab's hour.
_BLOB = '{"access": "k", "secret": "s"}'
_SIGNER = (
    "POST",
    "/credentials",
    {"credential": {"type": "ec2", "blob": _BLOB, "user_id": "{red-user}", "project_id": "{red-project}"}},
)
_PARAMS = {"SignatureVersion": "2", "Timestamp": LAB_HOUR}
_SIGNED = f"GET\nh\n/\nSignatureVersion=2&Timestamp={LAB_HOUR.replace(':', '%3A')}".encode()
_CREDENTIAL = ("POST", "/credentials", {"credential": {"type": "x", "blob": "b", "user_id": "{red-user}"}})
_SERVICE = ("POST", "/services", {"service": {"type": "t", "name": "n"}})
_REGION = ("POST", "/regions", {"region": {"id": "r9"}})
_APPCRED = {"application_credential": {"name": "k"}}
_MEMBER = f"{_G}{_U}"
_TAG = f"{_P}/tags/a"
_NO_KEY = ("DELETE", f"{_U}/application_credentials/{{key}}", None)

CASES: dict[str, Case] = {
    "GET ": Case(""),
    "GET /": Case("/"),
    "GET /v3": Case("/v3"),
    "GET /v3/": Case("/v3/"),
    "POST /v3/auth/tokens": Case("/auth/tokens", body={"auth": {"identity": {
        "methods": ["password"], "password": {"user": {"id": "{red-user}", "password": "red-user-pw"}}}}}),
    "GET /v3/auth/tokens": Case("/auth/tokens", user="red-user", headers=_SUBJECT),
    "DELETE /v3/auth/tokens": Case("/auth/tokens", user="red-user", headers=_SUBJECT),
    "GET /v3/auth/catalog": Case("/auth/catalog"),
    "GET /v3/auth/projects": Case("/auth/projects"),
    "GET /v3/auth/domains": Case("/auth/domains"),
    "GET /v3/auth/system": Case("/auth/system"),
    "GET /v3/users": Case("/users", listing=True),
    "POST /v3/users": Case("/users", **_RED, body={"user": {"name": "new", "domain_id": "{red}", "password": "x"}}),
    "GET /v3/users/{user_id}": Case(_U, **_RED_USER),
    "PATCH /v3/users/{user_id}": Case(_U, **_RED_USER, body={"user": {"description": "d"}}),
    "DELETE /v3/users/{user_id}": Case(_U, **_RED_USER),
    "POST /v3/users/{user_id}/password": Case(
        f"{_U}/password", body={"user": {"original_password": "red-user-pw", "password": "x"}}),
    "GET /v3/users/{user_id}/groups": Case(f"{_U}/groups", **_RED_USER),
    "GET /v3/users/{user_id}/projects": Case(f"{_U}/projects", **_RED_USER),
    "GET /v3/groups": Case("/groups", listing=True),
    "POST /v3/groups": Case("/groups", **_RED, body={"group": {"name": "new", "domain_id": "{red}"}}),
    "GET /v3/groups/{group_id}": Case(_G, **_RED),
    "PATCH /v3/groups/{group_id}": Case(_G, **_RED, body={"group": {"description": "d"}}),
    "DELETE /v3/groups/{group_id}": Case(_G, **_RED),
    "GET /v3/groups/{group_id}/users": Case(f"{_G}/users", **_RED),
    "GET /v3/groups/{group_id}/users/{user_id}": Case(_MEMBER, **_RED, before=("PUT", _MEMBER, None)),
    "PUT /v3/groups/{group_id}/users/{user_id}": Case(_MEMBER, **_RED),
    "DELETE /v3/groups/{group_id}/users/{user_id}": Case(_MEMBER, **_RED, before=("PUT", _MEMBER, None)),
    "GET /v3/projects": Case("/projects", listing=True),
    "POST /v3/projects": Case("/projects", **_RED, body={"project": {"name": "new", "domain_id": "{red}"}}),
    "GET /v3/projects/{project_id}": Case(_P, **_RED_PROJECT),
    "PATCH /v3/projects/{project_id}": Case(_P, **_RED_PROJECT, body={"project": {"description": "d"}}),
    "DELETE /v3/projects/{project_id}": Case(_P, **_RED_PROJECT),
    "GET /v3/projects/{project_id}/tags": Case(f"{_P}/tags", **_RED_PROJECT),
    "PUT /v3/projects/{project_id}/tags": Case(f"{_P}/tags", **_RED_PROJECT, body={"tags": ["a", "b"]}),
    "DELETE /v3/projects/{project_id}/tags": Case(f"{_P}/tags", **_RED_PROJECT),
    "GET /v3/projects/{project_id}/tags/{tag}": Case(_TAG, **_RED_PROJECT, before=("PUT", _TAG, None)),
    "PUT /v3/projects/{project_id}/tags/{tag}": Case(f"{_P}/tags/a", **_RED_PROJECT),
    "DELETE /v3/projects/{project_id}/tags/{tag}": Case(
        f"{_P}/tags/a", **_RED_PROJECT, before=("PUT", f"{_P}/tags/a", None)),
    "GET /v3/domains": Case("/domains", listing=True),
    "POST /v3/domains": Case("/domains", body={"domain": {"name": "green"}}),
    "GET /v3/domains/{domain_id}": Case(_D, **_RED),
    "PATCH /v3/domains/{domain_id}": Case(_D, **_RED, body={"domain": {"description": "d"}}),
    "DELETE /v3/domains/{domain_id}": Case("/domains/{made}", before=(
        "POST", "/domains", {"domain": {"name": "green", "enabled": False}})),
    "GET /v3/roles": Case("/roles", listing=True),
    "POST /v3/roles": Case("/roles", body={"role": {"name": "new"}}),
    "GET /v3/roles/{role_id}": Case("/roles/{custom}", listing=True),
    "PATCH /v3/roles/{role_id}": Case("/roles/{custom}", body={"role": {"name": "newer"}}),
    "DELETE /v3/roles/{role_id}": Case("/roles/{custom}"),
    "GET /v3/roles/{prior_role_id}/implies": Case("/roles/{member}/implies"),
    "GET /v3/roles/{prior_role_id}/implies/{implied_role_id}": Case("/roles/{member}/implies/{reader}"),
    "HEAD /v3/roles/{prior_role_id}/implies/{implied_role_id}": Case("/roles/{member}/implies/{reader}"),
    "PUT /v3/roles/{prior_role_id}/implies/{implied_role_id}": Case("/roles/{custom}/implies/{reader}"),
    "DELETE /v3/roles/{prior_role_id}/implies/{implied_role_id}": Case("/roles/{member}/implies/{reader}"),
    "GET /v3/role_inferences": Case("/role_inferences"),
    "GET /v3/role_assignments": Case("/role_assignments?scope.domain.id={red}", **_RED),
    "GET /v3/users/{user_id}/application_credentials": Case(f"{_U}/application_credentials", user="red-user"),
    "POST /v3/users/{user_id}/application_credentials": Case(
        f"{_U}/application_credentials", user="red-user", body=_APPCRED),
    "GET /v3/users/{user_id}/application_credentials/{application_credential_id}": Case(
        f"{_U}/application_credentials/{{key}}", user="red-user"),
    "DELETE /v3/users/{user_id}/application_credentials/{application_credential_id}": Case(
        f"{_U}/application_credentials/{{key}}", user="red-user"),
    "GET /v3/users/{user_id}/access_rules": Case(f"{_U}/access_rules", user="red-user"),
    "GET /v3/users/{user_id}/access_rules/{access_rule_id}": Case(f"{_U}/access_rules/{{rule}}", user="red-user"),
    "DELETE /v3/users/{user_id}/access_rules/{access_rule_id}": Case(
        f"{_U}/access_rules/{{rule}}", user="red-user", before=_NO_KEY),
    "GET /v3/credentials": Case("/credentials?user_id={red-user}", user="red-user"),
    "POST /v3/credentials": Case(
        "/credentials", user="red-user", body={"credential": {"type": "x", "blob": "b", "user_id": "{red-user}"}}),
    "GET /v3/credentials/{credential_id}": Case("/credentials/{made}", user="red-user", before=_CREDENTIAL),
    "PATCH /v3/credentials/{credential_id}": Case(
        "/credentials/{made}", user="red-user", before=_CREDENTIAL, body={"credential": {"blob": "c"}}),
    "DELETE /v3/credentials/{credential_id}": Case("/credentials/{made}", user="red-user", before=_CREDENTIAL),
    "POST /v3/ec2tokens": Case("/ec2tokens", before=_SIGNER, body={"credentials": {
        "access": "k", "signature": _hmac(_SIGNED), "host": "h", "params": _PARAMS}}),
    "POST /v3/s3tokens": Case("/s3tokens", before=_SIGNER, body={"credentials": {
        "access": "k", "signature": _hmac(b"a"), "token": "YQ=="}}),
    "GET /v3/users/{user_id}/credentials/OS-EC2": Case(f"{_U}/credentials/OS-EC2", user="red-user"),
    "POST /v3/users/{user_id}/credentials/OS-EC2": Case(
        f"{_U}/credentials/OS-EC2", user="red-user", body={"tenant_id": "{red-project}"}),
    "GET /v3/users/{user_id}/credentials/OS-EC2/{access}": Case(
        f"{_U}/credentials/OS-EC2/{{made}}", user="red-user", before=_EC2),
    "DELETE /v3/users/{user_id}/credentials/OS-EC2/{access}": Case(
        f"{_U}/credentials/OS-EC2/{{made}}", user="red-user", before=_EC2),
    "GET /v3/regions": Case("/regions"),
    "POST /v3/regions": Case("/regions", body={"region": {"description": "d"}}),
    "GET /v3/regions/{region_id}": Case("/regions/RegionOne"),
    "PUT /v3/regions/{region_id}": Case("/regions/r8", body={"region": {}}),
    "PATCH /v3/regions/{region_id}": Case("/regions/{made}", before=_REGION, body={"region": {"description": "e"}}),
    "DELETE /v3/regions/{region_id}": Case("/regions/{made}", before=_REGION),
    "GET /v3/services": Case("/services"),
    "POST /v3/services": Case("/services", body={"service": {"type": "t"}}),
    "GET /v3/services/{service_id}": Case("/services/{made}", before=_SERVICE),
    "PATCH /v3/services/{service_id}": Case("/services/{made}", before=_SERVICE, body={"service": {"name": "m"}}),
    "DELETE /v3/services/{service_id}": Case("/services/{made}", before=_SERVICE),
    "GET /v3/endpoints": Case("/endpoints"),
    "POST /v3/endpoints": Case("/endpoints", before=_SERVICE, body={"endpoint": {
        "service_id": "{made}", "interface": "public", "url": "http://x", "region_id": "RegionOne"}}),
    "GET /v3/endpoints/{endpoint_id}": Case("/endpoints/{endpoint}"),
    "PATCH /v3/endpoints/{endpoint_id}": Case("/endpoints/{endpoint}", body={"endpoint": {"url": "http://y"}}),
    "DELETE /v3/endpoints/{endpoint_id}": Case("/endpoints/{endpoint}"),
}  # fmt: skip


def _grants() -> dict[str, Case]:
    """Of each kind of grant the same four; `reader` is there before it is looked at or taken."""
    found: dict[str, Case] = {}
    for row in ROWS:
        if not any(word in row.action for word in ("_grant", "_grants")):
            continue
        path = row.path.removeprefix("/v3")
        for name, value in (("user_id", "{red-member}"), ("group_id", "{red-group}"), ("project_id", "{red-project}"),
                            ("domain_id", "{red}"), ("role_id", "{reader}")):  # fmt: skip
            path = path.replace(f"{{{name}}}", value)
        before = ("PUT", path, None) if row.method in ("GET", "DELETE") and "{reader}" in path else None
        found[row.name] = Case(path, domain="" if "system" in row.action else "red", before=before)
    return found


CASES |= _grants()
