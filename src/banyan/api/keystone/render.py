"""Records as Keystone's clients read them: dicts with exactly its keys, each with a link to itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TypeVar
from urllib.parse import quote, urlencode

import msgspec

from banyan.api.openstack.call import Call
from banyan.core.directory import (
    AccessRule,
    Credential,
    Endpoint,
    Group,
    Project,
    Region,
    Role,
    Service,
    User,
)
from banyan.core.principal import ScopeKind, UserClaims
from banyan.zone.identity.desk import MAX_LIST, Asked, Listed
from banyan.zone.identity.keys import Shown
from banyan.zone.identity.standing import Standing

R = TypeVar("R")
Json = dict[str, object]


def instant(at: float | None) -> str | None:
    """As Keystone writes one: UTC, six digits after the second."""
    return None if at is None else datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def asked(call: Call) -> Asked:
    """The page that a list is asked for. `limit` 0 is the most that is given."""
    return Asked(call.one("marker"), call.limit(MAX_LIST) or MAX_LIST)


def collection(
    call: Call, key: str, page: Listed[R], show: Callable[[Call, R], Json], path: str, last: str = ""
) -> Json:
    """A list under its key, with links. `last`: where a further page begins."""
    query = {name: values for name, values in call.query.items() if name != "marker"}
    link = call.link(path)
    shown = link + (f"?{urlencode(query, doseq=True)}" if query else "")
    following = None
    if page.more and last:
        following = f"{link}?{urlencode({**query, 'marker': (last,)}, doseq=True)}"
    body: Json = {
        key: [show(call, one) for one in page.items],
        "links": {"self": shown, "next": following, "previous": None},
    }
    if page.more:
        body["truncated"] = True
    return body


def named(key: str, one: Json) -> Json:
    return {key: one}


def _links(call: Call, path: str) -> Json:
    return {"self": call.link(quote(path))}


def user(call: Call, one: User) -> Json:
    body: Json = {
        **one.extra,
        "id": one.id,
        "name": one.name,
        "domain_id": one.domain,
        "enabled": one.enabled,
        "description": one.description,
        "password_expires_at": None,
        "links": _links(call, f"/v3/users/{one.id}"),
    }
    body.setdefault("options", {})
    if one.default_project is not None:
        body["default_project_id"] = one.default_project
    return body


def group(call: Call, one: Group) -> Json:
    return {
        **one.extra,
        "id": one.id,
        "name": one.name,
        "domain_id": one.domain,
        "description": one.description,
        "links": _links(call, f"/v3/groups/{one.id}"),
    }


def project(call: Call, one: Project) -> Json:
    body: Json = {
        **one.extra,
        "id": one.id,
        "name": one.name,
        "domain_id": one.domain,
        "parent_id": one.parent,
        "is_domain": one.is_domain,
        "enabled": one.enabled,
        "description": one.description,
        "tags": list(one.tags),
        "links": _links(call, f"/v3/projects/{one.id}"),
    }
    body.setdefault("options", {})
    return body


def domain(call: Call, one: Project) -> Json:
    body: Json = {
        **one.extra,
        "id": one.id,
        "name": one.name,
        "enabled": one.enabled,
        "description": one.description,
        "tags": list(one.tags),
        "links": _links(call, f"/v3/domains/{one.id}"),
    }
    body.setdefault("options", {})
    return body


def role(call: Call, one: Role) -> Json:
    body: Json = {
        **one.extra,
        "id": one.id,
        "name": one.name,
        "domain_id": one.domain,
        "description": one.description,
        "links": _links(call, f"/v3/roles/{one.id}"),
    }
    body.setdefault("options", {})
    return body


def region(call: Call, one: Region) -> Json:
    return {
        **one.extra,
        "id": one.id,
        "description": one.description,
        "parent_region_id": one.parent,
        "links": _links(call, f"/v3/regions/{one.id}"),
    }


def service(call: Call, one: Service) -> Json:
    return {
        **one.extra,
        "id": one.id,
        "type": one.type,
        "name": one.name,
        "enabled": one.enabled,
        "description": one.description,
        "links": _links(call, f"/v3/services/{one.id}"),
    }


def endpoint(call: Call, one: Endpoint) -> Json:
    return {
        **one.extra,
        "id": one.id,
        "service_id": one.service,
        "interface": one.interface.value,
        "url": one.url,
        "region": one.region,
        "region_id": one.region,
        "enabled": one.enabled,
        "links": _links(call, f"/v3/endpoints/{one.id}"),
    }


def access_rule(call: Call, one: AccessRule) -> Json:
    return {
        "id": one.id,
        "service": one.service,
        "method": one.method,
        "path": one.path,
        "links": _links(call, f"/v3/users/{one.owner}/access_rules/{one.id}"),
    }


def application_credential(call: Call, shown: Shown) -> Json:
    """`secret` is there only when it was just made; `access_rules` only if it has some."""
    one = shown.credential
    body: Json = {
        "id": one.id,
        "name": one.name,
        "description": one.description or None,
        "project_id": one.project,
        "user_id": one.owner,
        "unrestricted": one.unrestricted,
        "expires_at": None if one.expires is None else str(instant(one.expires)).removesuffix("Z"),
        "roles": [{"id": r.id, "name": r.name, "domain_id": r.domain} for r in shown.roles],
        "links": _links(call, f"/v3/users/{one.owner}/application_credentials/{one.id}"),
    }
    if shown.rules:
        body["access_rules"] = [
            {"id": r.id, "service": r.service, "method": r.method, "path": r.path} for r in shown.rules
        ]
    if shown.secret is not None:
        body["secret"] = shown.secret.reveal().decode()
    return body


def credential(call: Call, one: Credential) -> Json:
    return {
        **one.extra,
        "id": one.id,
        "type": one.kind,
        "blob": one.blob.reveal().decode(),
        "user_id": one.owner,
        "project_id": one.project,
        "links": _links(call, f"/v3/credentials/{one.id}"),
    }


class Ec2Blob(msgspec.Struct, frozen=True):
    access: str = ""
    secret: str = ""


def ec2(call: Call, one: Credential) -> Json:
    blob = msgspec.json.decode(one.blob.reveal(), type=Ec2Blob)
    return {
        "access": blob.access,
        "secret": blob.secret,
        "user_id": one.owner,
        "tenant_id": one.project,
        "trust_id": None,
        "links": _links(call, f"/v3/users/{one.owner}/credentials/OS-EC2/{blob.access}"),
    }


def token(claims: UserClaims, standing: Standing, catalogue: Sequence[Json] | None) -> Json:
    """What a token is good for, with the roles that hold now."""
    owner = standing.user
    audit_ids = [claims.audit] if claims.origin == claims.audit else [claims.audit, claims.origin]
    body: Json = {
        "methods": list(claims.methods),
        "user": {
            "id": owner.id,
            "name": owner.name,
            "domain": _reference(standing.domains, owner.domain),
            "password_expires_at": None,
        },
        "audit_ids": audit_ids,
        "issued_at": instant(claims.issued),
        "expires_at": instant(claims.expires),
    }
    if claims.scope is not ScopeKind.NONE:
        body["roles"] = [{"id": r.id, "name": r.name} for r in standing.roles]
        if catalogue is not None:
            body["catalog"] = catalogue
    if standing.project is not None:
        body["project"] = {
            "id": standing.project.id,
            "name": standing.project.name,
            "domain": _reference(standing.domains, standing.project.domain or standing.project.id),
        }
        body["is_domain"] = standing.project.is_domain
    if standing.domain is not None:
        body["domain"] = {"id": standing.domain.id, "name": standing.domain.name}
    if claims.scope is ScopeKind.SYSTEM:
        body["system"] = {"all": True}
    if standing.credential is not None:
        one = standing.credential
        shown: Json = {"id": one.id, "name": one.name, "restricted": not one.unrestricted}
        if standing.rules:
            shown["access_rules"] = [
                {"id": r.id, "service": r.service, "method": r.method, "path": r.path} for r in standing.rules
            ]
        body["application_credential"] = shown
    return {"token": body}


def _reference(domains: Mapping[str, Project], id: str) -> Json:
    return {"id": id, "name": domains[id].name if id in domains else ""}
