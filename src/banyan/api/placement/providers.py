"""Resource providers: each host of the tree is one, a tree of its own."""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterator, Mapping
from email.utils import formatdate
from typing import Final

import msgspec

from banyan.api.nova import fields
from banyan.api.openstack.call import Answer, Call, Reply
from banyan.api.placement import question
from banyan.core import needs
from banyan.core.errors import BadInput, NotFound
from banyan.zone.compute.hosts import uuid_of
from banyan.zone.views import AmountView, HostView

# This API has no pages: a longer list is refused, and says how to ask for less.
MOST: Final = 20_000


def answer(call: Call, body: Mapping[str, object]) -> Reply:
    """From 1.15 on an answer says how old it is: it was made now."""
    headers = {}
    if call.version.minor >= 15:
        headers = {"last-modified": formatdate(call.compute.desk.now(), usegmt=True), "cache-control": "no-cache"}
    return Reply(dict(body), headers=headers)


def generation(host: HostView) -> int:
    """A number that is another one as soon as anything of the host is."""
    return zlib.crc32(msgspec.json.encode(host)) & 0x7FFFFFFF


async def hosts(call: Call) -> AsyncIterator[HostView]:
    """All hosts of the tree, page by page, as long as the caller takes them."""
    after = ""
    while True:
        page = await call.compute.hosts.page(call.principal, after=after)
        for host in page.hosts:
            yield host
        after = page.after
        if not after:
            return


async def found(call: Call, id: str, what: str = "resource provider") -> HostView:
    """Raises NotFound that names the provider."""
    try:
        if fields.is_uuid(id):
            return await call.compute.hosts.show(call.principal, id.lower())
    except NotFound:
        pass  # said below, in placement's words
    raise NotFound("no-provider", f"No {what} with uuid {id[:80]} found.")


async def listed(call: Call) -> Answer:
    """Resource providers, by name, uuid, tree, aggregates, traits and free resources."""
    minor = call.version.minor
    known = ["name", "uuid"]
    known += ["member_of"] if minor >= 3 else []
    known += ["resources"] if minor >= 4 else []
    known += ["in_tree"] if minor >= 14 else []
    known += ["required"] if minor >= 18 else []
    wanted = question.read(call, known)
    shown: list[dict[str, object]] = []
    async for host in _asked_for(call):
        if wanted.holds(host):
            shown.append(_view(host, call))
            if len(shown) > MOST:
                raise BadInput(
                    "too-many-providers",
                    f"more than {MOST} resource providers, and this API has no pages: ask by name, uuid, member_of, "
                    "required or resources, ask a zone further down, or list hypervisors in pages (compute 2.33)",
                )
    return answer(call, {"resource_providers": shown})


async def _asked_for(call: Call) -> AsyncIterator[HostView]:
    name, ids = call.maybe("name"), [id for key in ("uuid", "in_tree") if (id := call.maybe(key)) is not None]
    for id in ids:
        if not fields.is_uuid(id):
            raise BadInput("bad-id", f"Expected a uuid, got {id[:80]!r}")
    if ids:
        if len({id.lower() for id in ids}) > 1:
            return
        try:
            host = await call.compute.hosts.show(call.principal, ids[0].lower())
        except NotFound:
            return
        if name is None or host.name == name:
            yield host
        return
    if name is not None:
        host_named = await call.compute.hosts.named(call.principal, name)
        if host_named is not None:
            yield host_named
        return
    async for host in hosts(call):
        yield host


def _view(host: HostView, call: Call) -> dict[str, object]:
    id, minor = uuid_of(host), call.version.minor
    rels = ["inventories", "usages"]
    rels += ["aggregates"] if minor >= 1 else []
    rels += ["traits"] if minor >= 6 else []
    rels += ["allocations"] if minor >= 11 else []
    path = f"/placement/resource_providers/{id}"
    links = [{"rel": "self", "href": path}] + [{"rel": rel, "href": f"{path}/{rel}"} for rel in rels]
    view: dict[str, object] = {"uuid": id, "name": host.name, "generation": generation(host), "links": links}
    if minor >= 14:
        view.update(parent_provider_uuid=None, root_provider_uuid=id)
    return view


async def show(call: Call) -> Answer:
    """One resource provider."""
    return answer(call, _view(await found(call, call.params["uuid"]), call))


def inventory_of(amount: AmountView) -> dict[str, object]:
    """What OpenStack computes capacity from: (total - reserved) * ratio is what may be promised here."""
    total = amount.physical or amount.total
    return {
        "total": total,
        "reserved": 0,
        "min_unit": 1,
        "max_unit": max(1, total),
        "step_size": 1,
        "allocation_ratio": amount.total / total if total else 1.0,
    }


async def inventories(call: Call) -> Answer:
    """What a provider has, by resource class."""
    host = await found(call, call.params["uuid"])
    shown = {needs.class_name(name): inventory_of(amount) for name, amount in host.resources.items()}
    return answer(call, {"resource_provider_generation": generation(host), "inventories": shown})


async def inventory(call: Call) -> Answer:
    """What a provider has of one resource class."""
    host = await found(call, call.params["uuid"])
    asked = call.params["resource_class"]
    for name, amount in host.resources.items():
        if needs.class_name(name) == asked:
            return answer(call, {"resource_provider_generation": generation(host), **inventory_of(amount)})
    raise NotFound("no-inventory", f"No inventory of class {asked[:80]} for {call.params['uuid']}")


async def usages(call: Call) -> Answer:
    """What is promised of a provider, by resource class."""
    host = await found(call, call.params["uuid"])
    shown = {needs.class_name(name): amount.used for name, amount in host.resources.items()}
    return answer(call, {"resource_provider_generation": generation(host), "usages": shown})


async def aggregates(call: Call) -> Answer:
    """The aggregates that a provider is in."""
    host = await found(call, call.params["uuid"])
    body: dict[str, object] = {"aggregates": list(host.aggregates)}
    if call.version.minor >= 19:
        body["resource_provider_generation"] = generation(host)
    return answer(call, body)


async def traits(call: Call) -> Answer:
    """The traits of a provider."""
    host = await found(call, call.params["uuid"])
    return answer(call, {"resource_provider_generation": generation(host), "traits": list(host.traits)})


async def all_traits(call: Call) -> Answer:
    """The traits that some host of the tree has."""
    seen: set[str] = set()
    async for host in hosts(call):
        seen.update(host.traits)
    name = call.one("name")
    if name.startswith("in:"):
        seen &= set(name.removeprefix("in:").split(","))
    elif name.startswith("startswith:"):
        seen = {trait for trait in seen if trait.startswith(name.removeprefix("startswith:"))}
    elif name:
        raise BadInput("bad-parameter", "name is in:TRAIT,TRAIT or startswith:PREFIX")
    return answer(call, {"traits": sorted(seen)})


async def one_trait(call: Call) -> Answer:
    """204 if some host of the tree has the trait."""
    name = call.params["name"]
    async for host in hosts(call):
        if name in host.traits:
            return answer(call, {})
    raise NotFound("no-trait", f"No such trait(s): {name[:255]}.")


# Those that every placement has, then those of the tree's hosts.
STANDARD: Final = ("VCPU", "MEMORY_MB", "DISK_GB")


async def classes(call: Call) -> Answer:
    """The resource classes of the tree's hosts."""
    totals = await call.compute.hosts.totals(call.principal)
    names = dict.fromkeys([*STANDARD, *sorted(needs.class_name(name) for name in totals.resources)])
    return answer(call, {"resource_classes": [_class(name) for name in names]})


async def one_class(call: Call) -> Answer:
    """One resource class."""
    name = call.params["name"]
    totals = await call.compute.hosts.totals(call.principal)
    if name not in STANDARD and name not in {needs.class_name(one) for one in totals.resources}:
        raise NotFound("no-class", f"No such resource class {name[:255]}.")
    return answer(call, _class(name))


def _class(name: str) -> dict[str, object]:
    return {"name": name, "links": [{"rel": "self", "href": f"/placement/resource_classes/{name}"}]}
