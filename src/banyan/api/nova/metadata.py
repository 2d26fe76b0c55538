"""A server's metadata and tags: what people write on it."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import quote

from banyan.api.nova import fields
from banyan.api.nova.fields import bad, inner
from banyan.api.nova.servers import found, server_id
from banyan.api.openstack.call import Answer, Call, Reply
from banyan.core.errors import BadInput, NotFound
from banyan.core.server import Change, Server
from banyan.zone.compute.life import NOTES
from banyan.zone.compute.ordering import check_metadata


def shown(server: Server) -> dict[str, str]:
    return {key: value for key, value in server.spec.metadata.items() if key not in NOTES}


async def index(call: Call) -> Answer:
    """All items of a server's metadata."""
    return {"metadata": shown(await found(call))}


async def show(call: Call) -> Answer:
    """One item of a server's metadata."""
    items = shown(await found(call))
    key = call.params["key"]
    if key not in items:
        raise _missing()
    return {"meta": {key: items[key]}}


async def replace(call: Call, body: object) -> Answer:
    """Puts these items in the place of all that there are."""
    items = _items(body)
    server = await found(call)
    ours = {key: value for key, value in server.spec.metadata.items() if key in NOTES}
    check_metadata(items, await call.compute.quotas.mine(call.principal))
    changed = await _change(call, Change(metadata={**items, **ours}))
    return {"metadata": shown(changed)}


async def merge(call: Call, body: object) -> Answer:
    """Adds these items, or gives them other values."""
    items = _items(body)
    server = await found(call)
    check_metadata({**shown(server), **items}, await call.compute.quotas.mine(call.principal))
    changed = await _change(call, Change(metadata_merge=items)) if items else server
    return {"metadata": shown(changed)}


async def put(call: Call, body: object) -> Answer:
    """Adds one item, or gives it another value."""
    given = inner(body, "meta")
    items = fields.metadata(given.rest(), "meta")
    key = call.params["key"]
    if len(items) != 1:
        raise BadInput("bad-meta", "Request body contains too many items" if items else "Request body has no item")
    if key not in items:
        raise BadInput("bad-meta", "Request body and URI mismatch")
    _check_ours(items)
    server = await found(call)
    check_metadata({**shown(server), **items}, await call.compute.quotas.mine(call.principal))
    await _change(call, Change(metadata_merge=items))
    return {"meta": items}


async def drop(call: Call) -> Answer:
    """Takes one item away."""
    key = call.params["key"]
    if key not in shown(await found(call)):
        raise _missing()
    await _change(call, Change(metadata_drop=(key,)))
    return None


def _items(body: object) -> dict[str, str]:
    given = inner(body, "metadata")
    items = fields.metadata(given.rest(), "metadata")
    _check_ours(items)
    return items


def _check_ours(items: Mapping[str, str]) -> None:
    if NOTES & items.keys():
        raise bad("metadata", "These keys are this service's own.", ", ".join(sorted(NOTES)))


def _missing() -> NotFound:
    return NotFound("no-item", "Metadata item was not found")


async def _change(call: Call, change: Change) -> Server:
    return await call.compute.servers.change(call.principal, server_id(call), change)


# --- tags -----------------------------------------------------------------------------------------


async def tags(call: Call) -> Answer:
    """A server's tags."""
    return {"tags": list((await found(call)).spec.tags)}


async def has_tag(call: Call) -> Answer:
    """Whether a server has a tag: 204, or 404."""
    server = await found(call)
    if call.params["tag"] not in server.spec.tags:
        raise _no_tag(server, call.params["tag"])
    return None


async def replace_tags(call: Call, body: object) -> Answer:
    """Puts these tags in the place of all that there are."""
    given = fields.Fields(body, "body")
    wanted = given.need("tags", fields.tags)
    given.done()
    changed = await _change(call, Change(tags=wanted))
    return {"tags": list(changed.spec.tags)}


async def add_tag(call: Call) -> Answer:
    """Adds a tag: 201, or 204 if it was there."""
    tag = fields.tag(call.params["tag"], "tag")
    server = await found(call)
    if tag in server.spec.tags:
        return Reply(status=204)
    if len(server.spec.tags) >= fields.MAX_TAGS:
        raise BadInput("too-many-tags", f"The number of tags exceeded the per-server limit {fields.MAX_TAGS}")
    await _change(call, Change(tags_add=(tag,)))
    return Reply(status=201, headers={"Location": _address(call)})


async def drop_tag(call: Call) -> Answer:
    """Takes a tag away."""
    server = await found(call)
    if call.params["tag"] not in server.spec.tags:
        raise _no_tag(server, call.params["tag"])
    await _change(call, Change(tags_drop=(call.params["tag"],)))
    return None


async def drop_tags(call: Call) -> Answer:
    """Takes all tags away."""
    await _change(call, Change(tags=()))
    return None


def _address(call: Call) -> str:
    return call.link(f"/v2.1/servers/{server_id(call)}/tags/{quote(call.params['tag'], safe='')}")


def _no_tag(server: Server, tag: str) -> NotFound:
    return NotFound("no-tag", f"Server {server.id} has no tag '{tag[:60]}'")
