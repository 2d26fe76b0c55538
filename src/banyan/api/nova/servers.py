"""Servers: create, list, show, update, delete."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections.abc import Mapping
from urllib.parse import urlencode

from banyan.api.nova import fields, server_create, server_query
from banyan.api.nova.fields import Fields, inner
from banyan.api.nova.server_view import LISTED, WHOLE, ServerView, Shown, reservation
from banyan.api.openstack.call import Answer, Call, Reply
from banyan.core.errors import NotFound, Unreachable
from banyan.core.permissions import may
from banyan.core.server import Change, Server, VmState
from banyan.core.shares import RETRY_HEADER
from banyan.zone.compute.life import ACCESS_4, ACCESS_6
from banyan.zone.compute.lists import Listed

# Bytes of a password that nobody named: 72 bits, twelve characters.
_PASSWORD = 9


async def create(call: Call, body: object) -> Answer:
    """Orders servers; the answer is given when they are claimed and durable."""
    who = call.principal
    retry_key = call.headers.get(RETRY_HEADER, "")
    may_place = may(who, "compute:server_place")
    wish, password, reserved = server_create.read(body, call.version, may_place, retry_key)
    ordered = await call.compute.ordering.create(who, wish)
    if reserved:
        return {"reservation_id": reservation(ordered.created.order)}
    id = ordered.created.made[0].id
    view = ServerView(call)
    groups = ordered.groups or wish.security_groups or ("default",)
    shown: dict[str, object] = {
        "id": id,
        "links": view.links(id),
        "OS-DCF:diskConfig": wish.disk_config,
        "security_groups": [{"name": name} for name in groups],
        # gap: the password that a create answers with is not set in the guest; one that is set later is
        "adminPass": make_password(call) if password is None else password,
    }
    return Reply({"server": shown}, headers={"Location": call.link(f"/v2.1/servers/{id}")})


def make_password(call: Call) -> str:
    """For the answer of a create, rebuild or rescue that named none."""
    return urlsafe_b64encode(call.compute.desk.ids.token(_PASSWORD)).decode()


async def show(call: Call) -> Answer:
    """One server."""
    view = ServerView(call)
    try:
        return {"server": view.whole(await found(call))}
    except Unreachable as error:
        # As Nova does from 2.69 on for a cell that is down; of a server above its zone, only its id is known.
        shown = (
            view.unknown(server_id(call)) if call.version.minor >= 69 and error.code == "member-unreachable" else None
        )
        if shown is None:
            raise
        return {"server": shown}


async def found(call: Call) -> Server:
    """The server that the path names. Raises NotFound("no-server"), to an administrator too of one that was deleted:
    clients wait for that."""
    try:
        server = await call.compute.servers.show(call.principal, server_id(call))
    except NotFound:
        await call.compute.life.left(call.principal, server_id(call))
        raise
    if server.state is VmState.DELETED:
        await call.compute.life.left(call.principal, server.id)
        raise NotFound("no-server", f"Instance {server.id} could not be found.")
    return server


def server_id(call: Call) -> str:
    """From the path. What is no UUID names no server: nobody is asked for it."""
    return checked_id(call.params["server_id"])


def checked_id(id: str) -> str:
    if not fields.is_uuid(id):
        raise NotFound("no-server", f"Instance {id[:255]} could not be found.")
    return id.lower()


# --- lists ----------------------------------------------------------------------------------------


async def listed(call: Call) -> Answer:
    """Servers by id and name."""
    view = ServerView(call)
    page = await _page(call)
    servers = [view.brief(server) for server in page.servers]
    return _listed({"servers": servers, **_links(call, page, "/v2.1/servers")}, page)


async def detailed(call: Call) -> Answer:
    """Servers with all that is known of them."""
    view = ServerView(call)
    page = await _page(call)
    servers = [view.whole(server, LISTED) for server in page.servers]
    return _listed({"servers": servers, **_links(call, page, "/v2.1/servers/detail")}, page)


# Names the zones whose servers are not in a list because they could not be asked: no zone above keeps their ids.
ABSENT = "X-Banyan-Absent"
_NAMED = 20


def _listed(body: dict[str, object], page: Listed) -> Answer:
    if not page.absent:
        return body
    more = len(page.absent) - _NAMED
    names = ", ".join(page.absent[:_NAMED]) + (f" and {more} more" if more > 0 else "")
    return Reply(body, headers={ABSENT: names})


async def _page(call: Call) -> Listed:
    limit = server_query.limit(call)
    query = server_query.read(call)
    if query is None:
        return Listed(())
    keep = server_query.keep(call)
    return await call.compute.lists.page(call.principal, query, server_query.marker(call), limit, keep)


def _links(call: Call, page: Listed, path: str) -> Mapping[str, object]:
    """Where the next page is, if there is one: only for who asked for pages, or whose list was cut."""
    if not page.marker:
        return {}
    pairs = [(name, value) for name, values in call.query.items() if name != "marker" for value in values]
    pairs.append(("marker", page.marker))
    return {"servers_links": [{"rel": "next", "href": f"{call.link(path)}?{urlencode(pairs)}"}]}


# --- changes --------------------------------------------------------------------------------------


async def update(call: Call, body: object) -> Answer:
    """Changes its name and what goes with it."""
    minor = call.version.minor
    given = inner(body, "server")
    name = given.take("name", fields.name, None)
    disk_config = given.take("OS-DCF:diskConfig", fields.disk_config, None)
    notes, dropped = access_notes(given)
    clear: tuple[str, ...] = ()
    description: str | None = None
    if minor >= 19 and "description" in given:
        description = given.need("description", fields.or_none(fields.description))
        clear = ("description",) if description is None else ()
    hostname: str | None = None
    if minor >= 90:
        hostname = given.take("hostname", fields.fqdn if minor >= 94 else fields.hostname, None)
    given.done()
    change = Change(
        name=name,
        description=description,
        hostname=hostname,
        metadata_merge=notes,
        metadata_drop=dropped,
        disk_config=disk_config,
        clear=clear,
    )
    if change == Change():
        server = await found(call)
    else:
        server = await call.compute.servers.change(call.principal, server_id(call), change)
    return {"server": ServerView(call).whole(server, WHOLE if minor >= 75 else Shown(part=True))}


def access_notes(given: Fields) -> tuple[dict[str, str], tuple[str, ...]]:
    """(items to set, items to drop) for the access addresses that a body names."""
    notes: dict[str, str] = {}
    dropped: list[str] = []
    for field, note, version in (("accessIPv4", ACCESS_4, 4), ("accessIPv6", ACCESS_6, 6)):
        if field in given:
            address = given.need(field, fields.address_or_empty(version))
            if address:
                notes[note] = address
            else:
                dropped.append(note)
    return notes, tuple(dropped)


async def delete(call: Call) -> Answer:
    """Deletes it; it is gone when show answers 404."""
    await call.compute.life.delete(call.principal, server_id(call))
    return None
