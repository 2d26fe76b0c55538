"""Every address of the network API: method, path, handler, policy, success."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from banyan.api.neutron import extensions, floating_ips, groups, networks, ports, quotas, routers, subnets, tags
from banyan.api.openstack.call import Answer, Call
from banyan.api.openstack.table import OPEN, Method, Operation, op, op_with
from banyan.core.network import Kind

# A thousand ports in one body.
_LARGE = 1024 * 1024

Plain = Callable[[Call], Awaitable[Answer]]
Bodied = Callable[[Call, object], Awaitable[Answer]]


def _body(
    method: Method, path: str, handler: Bodied, action: str, *, status: int = 200, most: int = _LARGE
) -> Operation:
    """A row whose handler reads the body attribute by attribute (fields.py)."""
    return op_with(method, path, handler, action, body=object, status=status, most=most)


def _kind(
    kind: Kind, path: str, create: Bodied, listed: Plain, show: Plain, delete: Plain, update: Bodied | None
) -> tuple[Operation, ...]:
    """The rows that each kind has."""
    word, one = kind.value, f"{path}/{{id}}"
    rows = [
        _body("POST", path, create, f"network:create_{word}", status=201),
        op("GET", path, listed, f"network:get_{word}"),
        op("GET", one, show, f"network:get_{word}"),
        op("DELETE", one, delete, f"network:delete_{word}", status=204),
    ]
    if update is not None:
        rows.append(_body("PUT", one, update, f"network:update_{word}"))
    return tuple(rows)


def _tagged(kind: Kind, path: str) -> tuple[Operation, ...]:
    see, change, all_of = f"network:get_{kind.value}", f"network:update_{kind.value}", f"{path}/{{id}}/tags"
    one = f"{all_of}/{{tag}}"
    return (
        op("GET", all_of, tags.listed(kind), see),
        _body("PUT", all_of, tags.replace(kind), change),
        op("DELETE", all_of, tags.clear(kind), change, status=204),
        op("GET", one, tags.check(kind), see, status=204),
        op("PUT", one, tags.add(kind), change, status=201),
        op("DELETE", one, tags.remove(kind), change, status=204),
    )


_PATHS = {
    Kind.NETWORK: "/v2.0/networks",
    Kind.SUBNET: "/v2.0/subnets",
    Kind.POOL: "/v2.0/subnetpools",
    Kind.PORT: "/v2.0/ports",
    Kind.ROUTER: "/v2.0/routers",
    Kind.FLOATING_IP: "/v2.0/floatingips",
    Kind.GROUP: "/v2.0/security-groups",
}
# not-offered: RBAC policies: a network or subnet pool is its project's, or shared with all
# not-offered: address scopes and groups, segments, trunks, metering, QoS, port forwarding, DVR and HA routers
# not-offered: agents and what schedules to them: the list is empty, no daemon of a network's reports here
# not-offered: ports by a part of an address (`ip_address_substr`), and an automatic topology for who has no network
_N, _S, _P, _R, _F, _G = networks, subnets, ports, routers, floating_ips, groups

ROWS: tuple[Operation, ...] = (
    op("GET", "", extensions.versions, OPEN),
    op("GET", "/", extensions.versions, OPEN),
    op("GET", "/v2.0", extensions.version, "network:get_extension"),
    op("GET", "/v2.0/", extensions.version, "network:get_extension"),
    op("GET", "/v2.0/extensions", extensions.listed, "network:get_extension"),
    op("GET", "/v2.0/extensions/{alias}", extensions.show, "network:get_extension"),
    *_kind(Kind.NETWORK, _PATHS[Kind.NETWORK], _N.create, _N.listed, _N.show, _N.delete, _N.update),
    *_kind(Kind.SUBNET, _PATHS[Kind.SUBNET], _S.create, _S.listed, _S.show, _S.delete, _S.update),
    *_kind(Kind.POOL, _PATHS[Kind.POOL], _S.create_pool, _S.pools, _S.show_pool, _S.delete_pool, _S.update_pool),
    *_kind(Kind.PORT, _PATHS[Kind.PORT], _P.create, _P.listed, _P.show, _P.delete, _P.update),
    *_kind(Kind.ROUTER, _PATHS[Kind.ROUTER], _R.create, _R.listed, _R.show, _R.delete, _R.update),
    _body("PUT", "/v2.0/routers/{id}/add_router_interface", _R.add_interface, "network:update_router"),
    _body("PUT", "/v2.0/routers/{id}/remove_router_interface", _R.remove_interface, "network:update_router"),
    *_kind(Kind.FLOATING_IP, _PATHS[Kind.FLOATING_IP], _F.create, _F.listed, _F.show, _F.delete, _F.update),
    *_kind(Kind.GROUP, _PATHS[Kind.GROUP], _G.create, _G.listed, _G.show, _G.delete, _G.update),
    *_kind(Kind.RULE, "/v2.0/security-group-rules", _G.create_rule, _G.rules, _G.show_rule, _G.delete_rule, None),
    *(row for kind, path in _PATHS.items() for row in _tagged(kind, path)),
    op("GET", "/v2.0/network-ip-availabilities", _N.availabilities, "network:get_network_ip_availability"),
    op("GET", "/v2.0/network-ip-availabilities/{id}", _N.availability, "network:get_network_ip_availability"),
    op("GET", "/v2.0/quotas", quotas.listed, "network:list_quotas"),
    op("GET", "/v2.0/quotas/tenant", quotas.mine, "network:get_quota"),
    op("GET", "/v2.0/quotas/project", quotas.mine, "network:get_quota"),
    op("GET", "/v2.0/quotas/{project_id}", quotas.show, "network:get_quota"),
    op("GET", "/v2.0/quotas/{project_id}/default", quotas.defaults, "network:get_quota"),
    op("GET", "/v2.0/quotas/{project_id}/details", quotas.details, "network:get_quota"),
    op("GET", "/v2.0/quotas/{project_id}/details.json", quotas.details, "network:get_quota"),
    _body("PUT", "/v2.0/quotas/{project_id}", quotas.update, "network:update_quota"),
    op("DELETE", "/v2.0/quotas/{project_id}", quotas.delete, "network:update_quota", status=204),
    op("GET", "/v2.0/availability_zones", extensions.availability_zones, "network:get_availability_zone"),
    op("GET", "/v2.0/agents", extensions.agents, "network:get_agent"),
    op("GET", "/v2.0/agents/{id}", extensions.agent, "network:get_agent"),
    op("GET", "/v2.0/service-providers", extensions.service_providers, "network:get_service_provider"),
)
