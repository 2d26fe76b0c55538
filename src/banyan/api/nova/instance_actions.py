"""What was asked of a server, and how each step went."""

from __future__ import annotations

from urllib.parse import urlencode

from banyan.api.nova import server_query, words
from banyan.api.nova.servers import found, server_id
from banyan.api.openstack.call import Answer, Call
from banyan.core.errors import BadInput, NotFound
from banyan.core.permissions import may
from banyan.core.server import ActionRecord, EventRecord


async def index(call: Call) -> Answer:
    """The actions of a server, the newest first."""
    records = await _records(call)
    if call.version.minor < 58:
        return {"instanceActions": [_brief(record, call) for record in records]}
    limit, marker = server_query.limit(call), server_query.marker(call)
    if "changes-since" in call.query:
        since = server_query.instant("changes-since", call.query["changes-since"][-1])
        records = tuple(record for record in records if record.updated >= since)
    if call.version.minor >= 66 and "changes-before" in call.query:
        before = server_query.instant("changes-before", call.query["changes-before"][-1])
        records = tuple(record for record in records if record.updated <= before)
    if marker:
        at = next((n for n, record in enumerate(records) if record.request == marker), None)
        if at is None:
            raise BadInput("bad-marker", f"Marker {marker[:255]} could not be found.")
        records = records[at + 1 :]
    shown = records[:limit]
    answer: dict[str, object] = {"instanceActions": [_brief(record, call) for record in shown]}
    if len(records) > len(shown) and shown:
        pairs = [(name, value) for name, values in call.query.items() if name != "marker" for value in values]
        pairs.append(("marker", shown[-1].request))
        href = f"{call.link(f'/v2.1/servers/{server_id(call)}/os-instance-actions')}?{urlencode(pairs)}"
        answer["links"] = [{"rel": "next", "href": href}]
    return answer


async def show(call: Call) -> Answer:
    """One action of a server, by the id of its request, with its steps."""
    request = call.params["request_id"]
    record = next((one for one in await _records(call) if one.request == request), None)
    if record is None:
        raise NotFound("no-action", f"Action {request[:255]} not found")
    minor = call.version.minor
    view = _brief(record, call)
    sees = may(call.principal, "compute:server_events")
    if sees or minor >= 51:
        view["events"] = [_event(event, record, minor, sees=sees) for event in record.events]
    return {"instanceAction": view}


async def _records(call: Call) -> tuple[ActionRecord, ...]:
    if call.version.minor < 21:
        await found(call)
    return await call.compute.servers.actions(call.principal, server_id(call))


def _brief(record: ActionRecord, call: Call) -> dict[str, object]:
    view: dict[str, object] = {
        "action": words.ACTION_WORDS[record.action],
        "instance_uuid": record.server,
        "request_id": record.request,
        "user_id": record.user,
        "project_id": record.project,
        "start_time": words.precise(record.started),
        "message": record.message or None,
    }
    if call.version.minor >= 58:
        view["updated_at"] = words.precise(record.updated)
    return view


_RESULTS = {"success": "Success", "error": "Error"}


def _event(event: EventRecord, record: ActionRecord, minor: int, *, sees: bool) -> dict[str, object]:
    view: dict[str, object] = {
        "event": event.name,
        "start_time": words.precise(event.started),
        "finish_time": words.precise(event.finished),
        "result": _RESULTS.get(event.result),
    }
    if sees:
        view["traceback"] = event.text or None
        if minor >= 62:
            view["host"] = event.host or None
    if minor >= 62:
        view["hostId"] = words.host_id(record.project, event.host)
    if sees and minor >= 84:
        view["details"] = (event.text or None) if event.result == "error" else None
    return view
