"""Hypervisors, services and availability zones: the tree's hosts in the words of compute."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from urllib.parse import urlencode

from banyan.api.nova import fields, server_query, words
from banyan.api.nova.fields import Fields
from banyan.api.openstack.call import Answer, Call, truth
from banyan.api.openstack.faults import Unsupported
from banyan.core.errors import BadInput, NotFound
from banyan.core.host import HostChange
from banyan.core.server import ServerQuery
from banyan.zone.compute.hosts import DEFAULT_ZONE, number_of, uuid_of
from banyan.zone.views import AmountView, HostView

# Hosts whose servers are asked for at the same time.
_TOGETHER = 8
_NONE = AmountView(0, 0, 0)
# What a host of ours is called towards clients that ask for its kind.
KIND = "QEMU"
VERSION = 1_000_000


async def listed(call: Call) -> Answer:
    """Hypervisors by name."""
    return await _page(call, whole=False)


async def detailed(call: Call) -> Answer:
    """Hypervisors with all that is known of them."""
    return await _page(call, whole=True)


async def _page(call: Call, *, whole: bool) -> Answer:
    minor = call.version.minor
    pattern = call.query.get("hypervisor_hostname_pattern", ("",))[-1] if minor >= 53 else ""
    with_servers = minor >= 53 and _flag(call, "with_servers")
    limit = server_query.limit(call) if minor >= 33 else server_query.MAX_LIMIT
    marker = server_query.marker(call) if minor >= 33 else ""
    if pattern:
        if "limit" in call.query or marker:
            raise BadInput(
                "bad-paging",
                "Paging over hypervisors with the hypervisor_hostname_pattern query parameter is not supported.",
            )
        hosts, more = await _matching(call, pattern), False
    else:
        hosts, more = await _after(call, marker, limit)
    servers = await _servers(call, hosts) if with_servers else {}
    shown = [_view(host, call, whole=whole, servers=servers.get(uuid_of(host)), asked=with_servers) for host in hosts]
    answer: dict[str, object] = {"hypervisors": shown}
    if more and hosts and minor >= 33:
        path = "/v2.1/os-hypervisors/detail" if whole else "/v2.1/os-hypervisors"
        pairs = [(name, value) for name, values in call.query.items() if name != "marker" for value in values]
        last = hosts[-1]
        pairs.append(("marker", uuid_of(last) if minor >= 53 else str(number_of(last))))
        answer["hypervisors_links"] = [{"rel": "next", "href": f"{call.link(path)}?{urlencode(pairs)}"}]
    return answer


def _flag(call: Call, name: str) -> bool:
    values = call.query.get(name)
    return truth(name, values[-1]) if values else False


async def _after(call: Call, marker: str, limit: int) -> tuple[Sequence[HostView], bool]:
    """So many hosts after the one with this id."""
    hosts = call.compute.hosts
    if limit == 0:
        return (), False
    if not marker:
        page = await hosts.page(call.principal, limit=limit)
        return page.hosts, bool(page.after)
    every = await hosts.all(call.principal)
    at = next((n for n, host in enumerate(every) if marker in (uuid_of(host), str(number_of(host)))), None)
    if at is None:
        raise BadInput("bad-marker", f"marker [{marker[:255]}] not found")
    return every[at + 1 : at + 1 + limit], len(every) > at + 1 + limit


async def _matching(call: Call, pattern: str) -> Sequence[HostView]:
    found: list[HostView] = []
    after = ""
    while True:
        page = await call.compute.hosts.page(call.principal, name=pattern, after=after)
        found += page.hosts
        after = page.after
        if not after:
            break
    if not found:
        raise NotFound("no-host", f"No hypervisor matching '{pattern[:255]}' could be found.")
    return found


async def _servers(call: Call, hosts: Sequence[HostView]) -> Mapping[str, list[dict[str, str]]]:
    """Of each host, the servers that it has: at most a page."""

    async def of(host: HostView) -> list[dict[str, str]]:
        query = ServerQuery(call.principal.issuer, every_project=True, host=host.id, limit=server_query.MAX_LIMIT)
        page = await call.compute.servers.page(call.principal, query)
        return [{"name": f"server-{server.id}", "uuid": server.id} for server in page.servers]

    found: dict[str, list[dict[str, str]]] = {}
    for begin in range(0, len(hosts), _TOGETHER):
        some = hosts[begin : begin + _TOGETHER]
        lists = await asyncio.gather(*(of(host) for host in some))
        found.update({uuid_of(host): servers for host, servers in zip(some, lists, strict=True)})
    return found


def _view(
    host: HostView, call: Call, *, whole: bool, servers: list[dict[str, str]] | None = None, asked: bool = False
) -> dict[str, object]:
    minor = call.version.minor
    view: dict[str, object] = {
        "id": uuid_of(host) if minor >= 53 else number_of(host),
        "hypervisor_hostname": host.name,
        "state": "up" if host.up else "down",
        "status": "disabled" if host.disabled else "enabled",
    }
    if whole:
        view.update(
            hypervisor_type=KIND,
            hypervisor_version=VERSION,
            host_ip="0.0.0.0",
            service={
                "id": service_id(host, minor),
                "host": host.name,
                "disabled_reason": host.reason or None if host.disabled else None,
            },
        )
        if minor >= 88:
            view["uptime"] = None
        else:
            view.update(_figures(host.resources))
            view["cpu_info"] = {} if minor >= 28 else ""
    if servers or (asked and minor >= 75):
        view["servers"] = servers or []
    return view


def _figures(resources: Mapping[str, AmountView]) -> dict[str, object]:
    vcpu, memory = resources.get("vcpu", _NONE), resources.get("memory_mib", _NONE)
    disk = resources.get("disk_gib", _NONE)
    return {
        "vcpus": vcpu.physical,
        "vcpus_used": vcpu.used,
        "memory_mb": memory.physical,
        "memory_mb_used": memory.used,
        "free_ram_mb": memory.total - memory.used,
        "local_gb": disk.physical,
        "local_gb_used": disk.used,
        "free_disk_gb": disk.total - disk.used,
        "disk_available_least": disk.total - disk.used,
        "current_workload": 0,
        "running_vms": 0,
    }


async def show(call: Call) -> Answer:
    """One hypervisor."""
    host = await _found(call)
    with_servers = call.version.minor >= 53 and _flag(call, "with_servers")
    servers = await _servers(call, (host,)) if with_servers else {}
    view = _view(host, call, whole=True, servers=servers.get(uuid_of(host)), asked=with_servers)
    return {"hypervisor": view}


async def _found(call: Call) -> HostView:
    id, minor = call.params["hypervisor_id"], call.version.minor
    if minor >= 53 and not fields.is_uuid(id):
        raise BadInput("bad-id", f"Invalid uuid {id[:80]}")
    if minor < 53 and fields.digits(id) is None:
        raise NotFound("no-host", f"Hypervisor with ID '{id[:80]}' could not be found.")
    try:
        return await call.compute.hosts.show(call.principal, id.lower())
    except NotFound as error:
        raise NotFound("no-host", f"Hypervisor with ID '{id[:80]}' could not be found.") from error


async def uptime(call: Call) -> Answer:
    """How long a hypervisor is up: hosts tell it to nobody here, so all that is known is that it runs."""
    host = await _found(call)
    if not host.up:
        raise BadInput("host-down", f"Service {host.name} is unavailable at this time.")
    view = _view(host, call, whole=False)
    view["uptime"] = "up"
    return {"hypervisor": view}


async def search(call: Call) -> Answer:
    """Hypervisors with a word in their names."""
    hosts = await _matching(call, call.params["hypervisor_id"])
    return {"hypervisors": [_view(host, call, whole=False) for host in hosts]}


async def servers(call: Call) -> Answer:
    """Hypervisors with a word in their names, and their servers."""
    hosts = await _matching(call, call.params["hypervisor_id"])
    found = await _servers(call, hosts)
    shown = [_view(host, call, whole=False, servers=found.get(uuid_of(host)), asked=True) for host in hosts]
    return {"hypervisors": shown}


async def statistics(call: Call) -> Answer:
    """The sums over all hypervisors that are alive."""
    totals = await call.compute.hosts.totals(call.principal)
    figures = _figures(totals.resources)
    running = sum(count for state, count in totals.guests.items() if state.lower() == "active")
    return {"hypervisor_statistics": {**figures, "count": totals.hosts.total, "running_vms": running}}


# --- services -------------------------------------------------------------------------------------

_CONTROL = ("nova-conductor", "nova-scheduler")


def _control_id(number: int) -> str:
    return f"00000000-0000-8000-8000-{number:012d}"


def service_id(host: HostView, minor: int) -> int | str:
    return uuid_of(host) if minor >= 53 else number_of(host)


async def services(call: Call) -> Answer:
    """What runs where: compute on each host, the rest in this zone."""
    host = call.query.get("host", ("",))[-1]
    binary = call.query.get("binary", ("",))[-1]
    minor, desk = call.version.minor, call.compute.desk
    now = desk.now()
    rows: list[dict[str, object]] = []
    for number, name in enumerate(_CONTROL, 1):
        if host in ("", desk.own.name) and binary in ("", name):
            uuid = _control_id(number)
            rows.append(_service(name, desk.own.name, "internal", uuid if minor >= 53 else number, minor, now, up=True))
    if binary in ("", "nova-compute"):
        made = await call.compute.steering.known(call.principal)
        if host:
            one = await call.compute.hosts.named(call.principal, host)
            hosts: Sequence[HostView] = () if one is None else (one,)
        else:
            hosts = await call.compute.hosts.all(call.principal)
        for one in hosts:
            zone = made.zone_of(one) or DEFAULT_ZONE
            rows.append(_compute_service(one, zone, minor, now))
    return {"services": rows}


def _compute_service(host: HostView, zone: str, minor: int, now: float) -> dict[str, object]:
    id = service_id(host, minor)
    row = _service("nova-compute", host.name, zone, id, minor, now, up=host.up, disabled=host.disabled)
    row["disabled_reason"] = host.reason or None if host.disabled else None
    if minor >= 11:
        row["forced_down"] = host.forced_down
    return row


def _service(
    binary: str, host: str, zone: str, id: int | str, minor: int, now: float, *, up: bool, disabled: bool = False
) -> dict[str, object]:
    row: dict[str, object] = {
        "id": id,
        "binary": binary,
        "host": host,
        "zone": zone,
        "status": "disabled" if disabled else "enabled",
        "state": "up" if up else "down",
        "updated_at": words.precise(now),
        "disabled_reason": None,
    }
    if minor >= 11:
        row["forced_down"] = False
    return row


async def update_service(call: Call, body: object) -> Answer:
    """Takes a host out of service and back by the uuid of its service, or says that it is down whatever it seems."""
    given = Fields(body, "body")
    status = given.take("status", fields.one_of("enabled", "disabled"), "")
    reason = given.take("disabled_reason", fields.text(1, 255), "")
    forced_down = given.take("forced_down", fields.truth, None)
    given.done()
    id = call.params["service_id"]
    if not fields.is_uuid(id):
        raise BadInput("bad-id", f"Invalid uuid {id[:80]}")
    if not status and forced_down is None:
        raise BadInput("no-change", "No updates were requested. Fields 'status' or 'forced_down' should be specified.")
    if reason and status != "disabled":
        raise BadInput("bad-change", "Specifying disabled_reason requires that status is 'disabled'.")
    host = await _of_service(call, id)
    change = HostChange(status == "disabled" if status else None, reason, forced_down)
    said = await call.compute.hosts.say(call.principal, host, change)
    made = await call.compute.steering.known(call.principal)
    zone = made.zone_of(said) or DEFAULT_ZONE
    return {"service": _compute_service(said, zone, call.version.minor, call.compute.desk.now())}


async def _of_service(call: Call, id: str) -> HostView:
    for number, name in enumerate(_CONTROL, 1):
        if id.lower() == _control_id(number):
            raise BadInput(
                "not-compute",
                f"Updating a {name} service is not supported. Only nova-compute services can be updated.",
            )
    try:
        return await call.compute.hosts.show(call.principal, id.lower())
    except NotFound as error:
        raise NotFound("no-service", f"Service {id[:80]} could not be found.") from error


async def update_named_service(call: Call, body: object) -> Answer:
    """The same, by host and binary, before 2.53."""
    word = call.params["service_id"]
    if word not in ("enable", "disable", "disable-log-reason", "force-down"):
        raise NotFound("no-action", "Unknown action")
    given = Fields(body, "body")
    name = given.need("host", fields.fqdn)
    binary = given.need("binary", fields.text(1, 255))
    reason, forced_down = "", False
    if word == "disable-log-reason":
        reason = given.need("disabled_reason", fields.text(1, 255))
    elif word != "force-down":
        given.take("disabled_reason", fields.text(1, 255), "")
    elif call.version.minor >= 11:
        forced_down = given.need("forced_down", fields.truth)
    else:
        raise NotFound("no-action", "Unknown action")
    given.done()
    host = await call.compute.hosts.named(call.principal, name) if binary == "nova-compute" else None
    if host is None:
        raise NotFound("no-service", f"Could not find binary {binary[:80]} on host {name[:80]}.")
    shown: dict[str, object] = {"host": name, "binary": binary}
    if word == "force-down":
        said = await call.compute.hosts.say(call.principal, host, HostChange(forced_down=forced_down))
        return {"service": {**shown, "forced_down": said.forced_down}}
    said = await call.compute.hosts.say(call.principal, host, HostChange(word != "enable", reason))
    shown["status"] = "disabled" if said.disabled else "enabled"
    return {"service": {**shown, "disabled_reason": said.reason} if reason else shown}


async def delete_service(call: Call) -> Answer:
    """Forgets a service: hosts go with their rack."""
    id = call.params["service_id"]
    if call.version.minor >= 53 and not fields.is_uuid(id):
        raise BadInput("bad-id", f"Invalid uuid {id[:80]}")
    host = await _of_service(call, id)
    # not-offered: a host is not forgotten through os-services (501)
    raise Unsupported(
        "not-offered",
        f"host {host.name[:80]} goes when its rack has it no more; to take it out of service, disable it",
    )


# --- availability zones ---------------------------------------------------------------------------


async def zones(call: Call) -> Answer:
    """The availability zones."""
    found = await call.compute.steering.zones(call.principal)
    shown = [{"zoneName": name, "zoneState": {"available": up}, "hosts": None} for name, up in found.up.items()]
    return {"availabilityZoneInfo": shown}


async def zone_hosts(call: Call) -> Answer:
    """The availability zones with their hosts."""
    now = words.precise(call.compute.desk.now())
    made = await call.compute.steering.known(call.principal)
    by_zone: dict[str, dict[str, object]] = {}
    for host in await call.compute.hosts.all(call.principal):
        state = {"active": not host.disabled, "available": host.up, "updated_at": now}
        by_zone.setdefault(made.zone_of(host) or DEFAULT_ZONE, {})[host.name] = {"nova-compute": state}
    own = call.compute.desk.own.name
    state = {"active": True, "available": True, "updated_at": now}
    shown: list[dict[str, object]] = [
        {
            "zoneName": "internal",
            "zoneState": {"available": True},
            "hosts": {own: dict.fromkeys(_CONTROL, state)},
        }
    ]
    for name, hosts in sorted(by_zone.items()):
        shown.append({"zoneName": name, "zoneState": {"available": True}, "hosts": hosts})
    return {"availabilityZoneInfo": shown}
