"""Migrations: the resizes and cold migrations that were asked for here in the last days."""

from __future__ import annotations

from urllib.parse import urlencode

from banyan.api.nova import server_query, words
from banyan.api.openstack.call import Answer, Call
from banyan.core.compute import Migration, MigrationKind, MigrationState
from banyan.core.errors import BadInput
from banyan.core.server import Server, ServerQuery, Task, VmState

_KNOWN = frozenset(
    """
    host status source_compute migration_type instance_uuid hidden limit marker changes-since changes-before user_id
    project_id
    """.split()  # noqa: SIM905 - a table of words
)
_MOVING = frozenset({Task.RESIZING, Task.MIGRATING})


async def listed(call: Call) -> Answer:
    """Migrations, the newest first."""
    minor, who = call.version.minor, call.principal
    if minor >= 59:
        for name in call.query:
            if name not in _KNOWN or (name in ("user_id", "project_id") and minor < 80):
                text = f"Additional properties are not allowed ('{name[:80]}' was unexpected)"
                raise BadInput("bad-filter", f"Invalid input for query parameters {name[:80]}. {text}")
    paged = minor >= 59
    limit = server_query.limit(call) if paged else server_query.MAX_LIMIT
    marker = server_query.marker(call) if paged else ""
    server, user, project = _one(call, "instance_uuid"), "", ""
    if minor >= 80:
        user, project = _one(call, "user_id"), _one(call, "project_id")
    if limit == 0:
        return {"migrations": []}
    servers = (server,) if server else ()
    rows = await call.compute.life.migrations(who, servers, project, user, marker, limit)
    now = await _now(call, rows)
    shown = [(row, _view(row, now.get(row.server), minor)) for row in rows]
    kept = [(row, view) for row, view in shown if _wanted(call, row, view)]
    answer: dict[str, object] = {"migrations": [view for _, view in kept]}
    if paged and rows and len(rows) == limit:
        pairs = [(name, value) for name, values in call.query.items() if name != "marker" for value in values]
        pairs.append(("marker", rows[-1].id))
        answer["migrations_links"] = [{"rel": "next", "href": f"{call.link('/v2.1/os-migrations')}?{urlencode(pairs)}"}]
    return answer


def _one(call: Call, name: str) -> str:
    return call.query.get(name, ("",))[-1]


async def _now(call: Call, rows: tuple[Migration, ...]) -> dict[str, Server]:
    """The servers whose migration is not known to be over, as they are now."""
    ids = tuple(dict.fromkeys(row.server for row in rows if row.state is MigrationState.MOVING))
    if not ids:
        return {}
    query = ServerQuery(call.principal.issuer, every_project=True, ids=ids[: server_query.MAX_LIMIT])
    page = await call.compute.servers.page(call.principal, query)
    return {server.id: server for server in page.servers}


def _status(row: Migration, server: Server | None) -> str:
    if row.state is not MigrationState.MOVING:
        return row.state.value
    if server is None or server.state is VmState.ERROR:
        return "error"
    if server.task in _MOVING:
        return "migrating"
    return "finished" if server.state is VmState.RESIZED else "confirmed"


def _view(row: Migration, server: Server | None, minor: int) -> dict[str, object]:
    target = row.target or (server.host_name if server is not None and server.resize is not None else "") or None
    view: dict[str, object] = {
        "id": row.number,
        "instance_uuid": row.server,
        "status": _status(row, server),
        "source_compute": row.source,
        "source_node": row.source,
        "dest_compute": target,
        "dest_node": target,
        "dest_host": None,
        "old_instance_type_id": 0,
        "new_instance_type_id": 0,
        "created_at": words.precise(row.created_at),
        "updated_at": words.precise(row.updated_at),
    }
    if minor >= 23:
        view["migration_type"] = "resize" if row.kind is MigrationKind.RESIZE else "migration"
    if minor >= 59:
        view["uuid"] = row.id
    if minor >= 80:
        view["user_id"] = row.user
        view["project_id"] = row.project
    return view


def _wanted(call: Call, row: Migration, view: dict[str, object]) -> bool:
    host, source, kind = _one(call, "host"), _one(call, "source_compute"), _one(call, "migration_type")
    status = _one(call, "status")
    if host and host not in (row.source, view["dest_compute"]):
        return False
    if source and source != row.source:
        return False
    if kind and kind != ("resize" if row.kind is MigrationKind.RESIZE else "migration"):
        return False
    if status and status != view["status"]:
        return False
    if "changes-since" in call.query and call.version.minor >= 59:
        since = server_query.instant("changes-since", _one(call, "changes-since"))
        if row.updated_at < since:
            return False
    if "changes-before" in call.query and call.version.minor >= 66:
        return row.updated_at <= server_query.instant("changes-before", _one(call, "changes-before"))
    return True
