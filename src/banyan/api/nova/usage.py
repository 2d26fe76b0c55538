"""How long servers of which size were there: os-simple-tenant-usage."""

from __future__ import annotations

from datetime import UTC, datetime
from urllib.parse import urlencode

from banyan.api.nova import server_query, words
from banyan.api.openstack.call import Answer, Call
from banyan.core.errors import BadInput
from banyan.core.time import Wall
from banyan.zone.compute.usage import ProjectTime, ServerTime

_FORMATS = ("%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M:%S.%f", "%Y-%m-%d %H:%M:%S.%f")


async def listed(call: Call) -> Answer:
    """What all projects used in a time."""
    start, end, detailed = _window(call)
    found = await call.compute.usage.of_all(call.principal, start, end)
    rows = [(one, server) for one in found for server in one.servers]
    rows, links = _paged(call, rows, "/v2.1/os-simple-tenant-usage")
    shown: dict[str, list[ServerTime]] = {}
    for one, server in rows:
        shown.setdefault(one.project, []).append(server)
    usages = [_project(project, servers, start, end, detailed=detailed) for project, servers in shown.items()]
    answer: dict[str, object] = {"tenant_usages": usages}
    if links:
        answer["tenant_usages_links"] = links
    return answer


async def show(call: Call) -> Answer:
    """What one project used in a time."""
    start, end, _ = _window(call)
    project = call.params["project_id"]
    found = await call.compute.usage.of_project(call.principal, project, start, end)
    rows, links = _paged(call, [(found, server) for server in found.servers], f"/v2.1/os-simple-tenant-usage/{project}")
    servers = [server for _, server in rows]
    usage = _project(project, servers, start, end, detailed=True)
    answer: dict[str, object] = {"tenant_usage": usage}
    if links:
        answer["tenant_usage_links"] = links
    return answer


def _paged(
    call: Call, rows: list[tuple[ProjectTime, ServerTime]], path: str
) -> tuple[list[tuple[ProjectTime, ServerTime]], list[dict[str, str]]]:
    """From 2.40 in pages of servers."""
    if call.version.minor < 40:
        return rows, []
    limit, marker = server_query.limit(call), server_query.marker(call)
    if marker:
        at = next((n for n, (_, one) in enumerate(rows) if one.server.id == marker), None)
        if at is None:
            raise BadInput("bad-marker", f"Marker {marker[:255]} could not be found.")
        rows = rows[at + 1 :]
    page = rows[:limit]
    if len(rows) <= len(page) or not page:
        return page, []
    pairs = [(name, value) for name, values in call.query.items() if name != "marker" for value in values]
    pairs.append(("marker", page[-1][1].server.id))
    return page, [{"rel": "next", "href": f"{call.link(path)}?{urlencode(pairs)}"}]


def _window(call: Call) -> tuple[Wall, Wall, bool]:
    """Start, end, and whether servers are wanted one by one. Raises BadInput."""
    now = call.compute.desk.now()
    start, end = _instant(call, "start", now), _instant(call, "end", now)
    # Who names neither asks for no time at all, and is answered: some clients do.
    if not start < end and any(call.query.get(name, ("",))[-1] for name in ("start", "end")):
        raise BadInput("bad-times", "Invalid start time. The start time cannot occur after the end time.")
    return start, min(end, now), call.query.get("detailed", ("0",))[-1] == "1"


def _instant(call: Call, name: str, now: Wall) -> Wall:
    text = call.query.get(name, ("",))[-1]
    if not text:
        return now
    for form in _FORMATS:
        try:
            return Wall(datetime.strptime(text, form).replace(tzinfo=UTC).timestamp())
        except (ValueError, OverflowError):
            continue
    raise BadInput("bad-time", f"Invalid datetime string: {text[:40]!r}. Datetime is in invalid format")


def _project(project: str, servers: list[ServerTime], start: Wall, end: Wall, *, detailed: bool) -> dict[str, object]:
    rows = [_server(one, end) for one in servers]
    shown: dict[str, object] = {
        "tenant_id": project,
        "total_local_gb_usage": _sum(rows, "local_gb"),
        "total_vcpus_usage": _sum(rows, "vcpus"),
        "total_memory_mb_usage": _sum(rows, "memory_mb"),
        "total_hours": sum(one.hours for one in servers),
        "start": words.precise(start),
        "stop": words.precise(end),
    }
    if detailed:
        shown["server_usages"] = rows
    return shown


def _sum(rows: list[dict[str, object]], field: str) -> float:
    return sum(float(str(row[field])) * float(str(row["hours"])) for row in rows)


def _server(one: ServerTime, end: Wall) -> dict[str, object]:
    server, flavor = one.server, one.server.spec.flavor
    begun = server.launched or server.created
    return {
        "instance_id": server.id,
        "name": server.name,
        "tenant_id": server.project,
        "hours": one.hours,
        "flavor": "" if flavor is None else flavor.name,
        "memory_mb": 0 if flavor is None else flavor.memory_mib,
        "local_gb": 0 if flavor is None else flavor.disk_gib + flavor.ephemeral_gib,
        "vcpus": 0 if flavor is None else flavor.vcpu,
        "started_at": words.precise(begun),
        "ended_at": words.precise(one.ended),
        "state": "terminated" if one.ended is not None else words.STATE_WORDS[server.state],
        "uptime": max(0, int((one.ended if one.ended is not None else end) - begun)),
    }
