"""The catalogue: where each service answers. Ours stand in it by themselves; others are what people added.

Our rows have ids that follow from their names, so that they are the same in every answer, and are never changed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from banyan.api.openstack.call import Call, Offered
from banyan.core import directory
from banyan.core.principal import ScopeKind, UserClaims

Json = dict[str, object]
INTERFACES = tuple(directory.Interface)


async def catalogue(call: Call, claims: UserClaims | None) -> list[Json]:
    """All services with their endpoints; without any for a token of no scope. `claims` None: the caller's own."""
    scope = call.principal.scope if claims is None else claims.scope
    if scope is ScopeKind.NONE:
        return []
    project = (call.principal.project if claims is None else claims.target) if scope is ScopeKind.PROJECT else ""
    user = call.principal.user if claims is None else claims.user
    services, endpoints = await call.identity.catalog.all()
    by_service: dict[str, list[Json]] = {}
    for endpoint in [*our_endpoints(call), *endpoints]:
        url = filled(endpoint.url, project, user)
        if url is not None:
            by_service.setdefault(endpoint.service, []).append(_endpoint(endpoint, url))
    return [
        {"id": one.id, "type": one.type, "name": one.name, "endpoints": by_service.get(one.id, [])}
        for one in [*our_services(call.offered), *services]
    ]


def our_services(offered: Sequence[Offered]) -> list[directory.Service]:
    return [
        directory.Service(row_id("service", one.type), one.type, one.name, description="of this cloud itself")
        for one in offered
    ]


def our_endpoints(call: Call) -> list[directory.Endpoint]:
    return [
        directory.Endpoint(
            row_id("endpoint", one.type, interface.value),
            row_id("service", one.type),
            interface,
            f"{call.base}{one.endpoint}",
            call.region,
        )
        for one in call.offered
        for interface in INTERFACES
    ]


def row_id(*names: str) -> str:
    """The id of a row of ours."""
    return hashlib.sha256("/".join(("banyan", *names)).encode()).hexdigest()[:32]


def filled(url: str, project: str, user: str) -> str | None:
    """An address with the project's and the user's id put in where it asks for them; None if there is no project."""
    for name in ("project_id", "tenant_id"):
        for form in (f"$({name})s", f"%({name})s"):
            if form in url:
                if not project:
                    return None
                url = url.replace(form, project)
    for form in ("$(user_id)s", "%(user_id)s"):
        url = url.replace(form, user)
    return url


def _endpoint(one: directory.Endpoint, url: str) -> Json:
    return {
        "id": one.id,
        "interface": one.interface.value,
        "region": one.region,
        "region_id": one.region,
        "url": url,
    }
