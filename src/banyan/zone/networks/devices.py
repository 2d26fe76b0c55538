"""What users may say a port is plugged into: `device_id` and `device_owner` of the ports API.

A port that names a server or a router of another project would be plugged into it (CVE-2014-0056 was that), so a device
is one of the port's own project, and `network:` owners are for administrators. What this service plugged into a router
or made for a floating IP is changed there only. Whoever looks ports up by their device asks for the project besides:
what is refused here is not the only guard.
"""

from __future__ import annotations

from collections.abc import Iterable

from banyan.core.errors import BadInput, Conflict, NotFound
from banyan.core.ids import read_guest_id
from banyan.core.network import COMPUTE, FLOATING, ROUTER_GATEWAY, ROUTER_INTERFACE, Port
from banyan.core.network_rows import NetworkRows
from banyan.core.permissions import may, require
from banyan.core.principal import Principal
from banyan.zone.servers.surface import Servers

_NETWORK = "network:"
_ADMINISTER = "network:administer_port"


async def own_servers(servers: Servers, who: Principal, ports: Iterable[Port]) -> frozenset[tuple[str, str]]:
    """(server, project) of those ports that name a server which is in the port's project. Asked before the unit of
    work, since a server's zone may be anywhere. Raises Conflict("foreign-device") for a server of another project, or
    of none: one answer, so that it tells nobody which servers there are."""
    found = set()
    for server, project in {(one.device, one.project) for one in ports if _serves(one)}:
        if may(who, _ADMINISTER):
            continue
        try:
            shown = await servers.show(who, server)
        except NotFound as error:
            raise _foreign(server) from error
        if shown.project != project:
            raise _foreign(server)
        found.add((server, project))
    return frozenset(found)


def check_device(
    rows: NetworkRows, who: Principal, new: Port, old: Port | None, servers: frozenset[tuple[str, str]]
) -> None:
    """`old` None: a new port. `servers`: of `own_servers`. Raises Refused, Conflict("foreign-device"),
    ("service-port") for what a router or a floating IP has, ("changed-meanwhile")."""
    if (new.device, new.owner) == (("", "") if old is None else (old.device, old.owner)):
        return
    if old is not None and of_service(rows, old):
        text = f"Port {old.id} cannot be updated to another device: has device owner {old.owner}."
        raise Conflict("service-port", text)
    if may(who, _ADMINISTER):
        return
    if new.owner.startswith(_NETWORK):
        require(who, _ADMINISTER)
    router = rows.routers.get(new.device) if new.device else None
    if router is not None and router.project != new.project:
        raise _foreign(new.device)
    if _serves(new) and (new.device, new.project) not in servers:
        # Another request changed the rest of it after this one looked.
        raise Conflict("changed-meanwhile", "it was changed at the same time; try again", transient=True)


def own_port(who: Principal, port: Port, project: str, what: str) -> None:
    """Who owns a network sees others' ports on it, and may not lead its own floating IPs or routers to them. Raises
    BadInput("bad-port"); administrators may."""
    if port.project not in (project, "") and not may(who, _ADMINISTER):
        raise BadInput("bad-port", f"Port {port.id} is owned by a different tenant, and {what} leads to no such port.")


def of_service(rows: NetworkRows, port: Port) -> bool:
    """True of a port that a router or a floating IP has: not of one that only says so."""
    if port.owner == FLOATING:
        floating = rows.floating_ips.get(port.device)
        return floating is not None and floating.outer_port == port.id
    if port.owner not in (ROUTER_INTERFACE, ROUTER_GATEWAY):
        return False
    router = rows.routers.get(port.device)
    if router is None:
        return False
    return router.gateway_port == port.id if port.owner == ROUTER_GATEWAY else port.ours


def _serves(port: Port) -> bool:
    """An id of another form is nobody's server: a word of the user's own."""
    return port.owner.startswith(COMPUTE) and read_guest_id(port.device) is not None


def _foreign(device: str) -> Conflict:
    text = f"The following device_id {device[:255]} is not owned by your tenant or matches another tenants router."
    return Conflict("foreign-device", text)
