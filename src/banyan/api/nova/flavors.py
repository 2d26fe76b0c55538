"""Flavors, their extra specs, and whom a private one is open to."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from urllib.parse import urlencode

from banyan.api.nova import fields, server_query
from banyan.api.nova.fields import Fields, bad, inner
from banyan.api.openstack.call import Answer, Call
from banyan.core import needs
from banyan.core.compute import Flavor, FlavorQuery, FlavorSort
from banyan.core.errors import BadInput, Conflict, NotFound
from banyan.core.permissions import may
from banyan.zone.compute.flavors import may_see_specs, no_spec

_AMOUNT, _SOME = fields.whole(0, 2_147_483_647), fields.whole(1, 2_147_483_647)
_ID = re.compile(r"[a-zA-Z0-9. _-]*\Z")
_PROJECT = re.compile(r"[a-zA-Z0-9_-]+\Z")
_SPEC = re.compile(r"[a-zA-Z0-9\-_:. ]{1,255}\Z")
_SORTS = {
    "flavorid": FlavorSort.ID,
    "id": FlavorSort.ID,
    "name": FlavorSort.NAME,
    "memory_mb": FlavorSort.MEMORY,
    "vcpus": FlavorSort.VCPU,
    "root_gb": FlavorSort.DISK,
    "ephemeral_gb": FlavorSort.EPHEMERAL,
    "swap": FlavorSort.SWAP,
    "created_at": FlavorSort.CREATED,
}
_ORDERLESS = frozenset({"deleted", "deleted_at", "disabled", "is_public", "rxtx_factor", "updated_at", "vcpu_weight"})


async def listed(call: Call) -> Answer:
    """Flavors by id and name."""
    return await _page(call, whole=False)


async def detailed(call: Call) -> Answer:
    """Flavors with their sizes."""
    return await _page(call, whole=True)


async def _page(call: Call, *, whole: bool) -> Answer:
    limit = server_query.limit(call)
    query = FlavorQuery(
        public=_public(call),
        least_memory=_least(call, "minRam"),
        least_disk=_least(call, "minDisk"),
        sort=_sort(call),
        descending=_last(call, "sort_dir") == "desc",
    )
    if _last(call, "sort_dir") not in ("", "asc", "desc"):
        raise BadInput(
            "bad-sort", f"Unknown sort direction, must be one of: asc, desc: {_last(call, 'sort_dir')[:40]!r}"
        )
    found = await call.compute.flavors.page(call.principal, query, server_query.marker(call), limit)
    specs = may_see_specs(call.principal)
    shown = [view(flavor, call, specs=specs) if whole else _brief(flavor, call) for flavor in found]
    answer: dict[str, object] = {"flavors": shown}
    if limit and len(found) == limit and ("limit" in call.query or limit == server_query.MAX_LIMIT):
        answer["flavors_links"] = _next(call, found, "/v2.1/flavors/detail" if whole else "/v2.1/flavors")
    return answer


def _next(call: Call, found: Sequence[Flavor], path: str) -> list[dict[str, str]]:
    pairs = [(name, value) for name, values in call.query.items() if name != "marker" for value in values]
    pairs.append(("marker", found[-1].id))
    return [{"rel": "next", "href": f"{call.link(path)}?{urlencode(pairs)}"}]


def _last(call: Call, name: str) -> str:
    return call.query.get(name, ("",))[-1]


def _public(call: Call) -> bool | None:
    """Only public ones unless it says so; `none` is all."""
    text = _last(call, "is_public").strip().lower()
    if text in ("none", "null"):
        return None
    if not text or not may(call.principal, "compute:create_flavor"):
        return True
    if text in ("1", "t", "true", "on", "y", "yes"):
        return True
    if text in ("0", "f", "false", "off", "n", "no"):
        return False
    raise BadInput("bad-filter", f"Invalid is_public filter [{text[:40]}]")


def _least(call: Call, name: str) -> int:
    text = _last(call, name)
    if not text:
        return 0
    number = fields.digits(text.removeprefix("-"))
    if number is None:
        raise BadInput("bad-filter", f"Invalid {name} filter [{text[:40]}]")
    return 0 if text.startswith("-") else number


def _sort(call: Call) -> FlavorSort:
    key = _last(call, "sort_key")
    if not key or key in _ORDERLESS:
        return FlavorSort.ID
    if key not in _SORTS:
        raise BadInput("bad-sort", f"Invalid input for query parameters sort_key. Value: {key[:80]!r}.")
    return _SORTS[key]


def _brief(flavor: Flavor, call: Call) -> dict[str, object]:
    shown: dict[str, object] = {"id": flavor.id, "name": flavor.name, "links": _links(flavor, call)}
    if call.version.minor >= 55:
        shown["description"] = flavor.description
    return shown


def _links(flavor: Flavor, call: Call) -> list[dict[str, str]]:
    return [
        {"rel": "self", "href": call.link(f"/v2.1/flavors/{flavor.id}")},
        {"rel": "bookmark", "href": call.link(f"/flavors/{flavor.id}")},
    ]


def view(flavor: Flavor, call: Call, *, specs: bool) -> dict[str, object]:
    minor = call.version.minor
    shown: dict[str, object] = {
        "id": flavor.id,
        "name": flavor.name,
        "ram": flavor.memory_mib,
        "disk": flavor.disk_gib,
        "swap": flavor.swap_mib or (0 if minor >= 75 else ""),
        "OS-FLV-EXT-DATA:ephemeral": flavor.ephemeral_gib,
        "OS-FLV-DISABLED:disabled": False,
        "vcpus": flavor.vcpu,
        "os-flavor-access:is_public": flavor.public,
        "rxtx_factor": flavor.rxtx,
        "links": _links(flavor, call),
    }
    if minor >= 55:
        shown["description"] = flavor.description
    if minor >= 61 and specs:
        shown["extra_specs"] = dict(flavor.extra_specs)
    return shown


async def show(call: Call) -> Answer:
    """One flavor."""
    flavor = await call.compute.flavors.show(call.principal, call.params["flavor_id"])
    return {"flavor": view(flavor, call, specs=may_see_specs(call.principal))}


async def create(call: Call, body: object) -> Answer:
    """Makes a flavor."""
    given = inner(body, "flavor")
    flavor = Flavor(
        given.take("id", fields.or_none(_id), None) or "",
        given.need("name", fields.name),
        given.need("vcpus", _SOME),
        given.need("ram", _SOME),
        given.need("disk", _AMOUNT),
        given.take("OS-FLV-EXT-DATA:ephemeral", _AMOUNT, 0),
        given.take("swap", _AMOUNT, 0),
        given.take("os-flavor-access:is_public", fields.truth, True),
        given.take("rxtx_factor", _factor, 1.0),
    )
    description: str | None = None
    if call.version.minor >= 55:
        description = given.take("description", fields.or_none(_description), None)
    given.done()
    made = await call.compute.flavors.create(call.principal, replace(flavor, description=description))
    return {"flavor": view(made, call, specs=may_see_specs(call.principal))}


def _id(value: object, field: str) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    found = fields.text(0, 255)(value, field)
    if not _ID.match(found) or found != found.strip():
        raise bad(field, "It is letters, digits and . - _ and inner blanks.", found)
    return "" if found == "auto" else found


def _factor(value: object, field: str) -> float:
    try:
        found = float(value) if isinstance(value, (int, float, str)) and not isinstance(value, bool) else -1.0
    except ValueError:
        found = -1.0
    if not 0 < found <= 3.40282e38:
        raise bad(field, "It is a number above 0.", value)
    return found


def _description(value: object, field: str) -> str:
    found = fields.text(0, 65_535)(value, field)
    if not all(fields.printable(line) for line in found.splitlines()):
        raise bad(field, "It must be printable characters.")
    return found


async def describe(call: Call, body: object) -> Answer:
    """Changes a flavor's description; its sizes stay for ever."""
    given = inner(body, "flavor")
    description = given.need("description", fields.or_none(_description))
    given.done()
    flavor = await call.compute.flavors.describe(call.principal, call.params["flavor_id"], description)
    return {"flavor": view(flavor, call, specs=may_see_specs(call.principal))}


async def delete(call: Call) -> Answer:
    """Deletes a flavor; servers that have it keep it."""
    await call.compute.flavors.delete(call.principal, call.params["flavor_id"])
    return None


# --- extra specs ----------------------------------------------------------------------------------


async def specs(call: Call) -> Answer:
    """A flavor's extra specs."""
    return {"extra_specs": dict(await call.compute.flavors.specs(call.principal, call.params["flavor_id"]))}


async def spec(call: Call) -> Answer:
    """One extra spec of a flavor."""
    found = await call.compute.flavors.specs(call.principal, call.params["flavor_id"])
    key = call.params["key"]
    if key not in found:
        raise no_spec(call.params["flavor_id"], key)
    return {key: found[key]}


async def add_specs(call: Call, body: object) -> Answer:
    """Adds extra specs to a flavor, or gives them other values."""
    given = _specs(inner(body, "extra_specs"), call)
    await call.compute.flavors.set_specs(call.principal, call.params["flavor_id"], given)
    return {"extra_specs": given}


async def put_spec(call: Call, body: object) -> Answer:
    """Gives one extra spec of a flavor another value."""
    given = _specs(Fields(body, "body"), call)
    key = call.params["key"]
    if len(given) != 1:
        raise BadInput("bad-extra-spec", "the body has one key, the extra spec")
    if key not in given:
        raise BadInput("bad-extra-spec", "Request body and URI mismatch")
    await call.compute.flavors.set_specs(call.principal, call.params["flavor_id"], given)
    return given


async def drop_spec(call: Call) -> Answer:
    """Takes an extra spec from a flavor."""
    await call.compute.flavors.unset_spec(call.principal, call.params["flavor_id"], call.params["key"])
    return None


def _specs(given: Fields, call: Call) -> dict[str, str]:
    found: dict[str, str] = {}
    for key, value in given.rest().items():
        if not _SPEC.match(key):
            raise bad("extra_specs", "A key has 1 to 255 letters, digits and - _ : . or blanks.", key)
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            value = str(value)
        found[key] = fields.text(0, 255)(value, key)
        if call.version.minor >= 86:
            _check_spec(key, found[key])
    if not found:
        raise BadInput("bad-extra-spec", "the body names no extra spec")
    return found


def _check_spec(key: str, value: str) -> None:
    """Of the namespaces that placement here reads."""
    prefix, _, name = key.partition(":")
    if prefix == "trait":
        needs.trait(name, key)
        needs.demand(value, key)
    elif prefix == "resources":
        needs.resource_class(name, key)
        needs.amount(value, key)


# --- access ---------------------------------------------------------------------------------------


async def access(call: Call) -> Answer:
    """The projects that a private flavor is open to."""
    id = call.params["flavor_id"]
    return _opened(id, await call.compute.flavors.access(call.principal, id))


async def open_to(call: Call, value: object) -> Answer:
    """Opens a private flavor to a project."""
    id = call.params["flavor_id"]
    project = _tenant(value, "addTenantAccess")
    # From 2.7 a public flavor is refused; before that it was let through without effect.
    before = call.version.minor < 7
    return _opened(id, await call.compute.flavors.open(call.principal, id, project, public_too=before))


async def close_to(call: Call, value: object) -> Answer:
    """Closes a private flavor to a project."""
    id = call.params["flavor_id"]
    project = _tenant(value, "removeTenantAccess")
    try:
        return _opened(id, await call.compute.flavors.close(call.principal, id, project))
    except Conflict as error:
        raise NotFound("not-open", error.text) from error


def _tenant(value: object, name: str) -> str:
    given = Fields(value, name)
    project = given.need("tenant", fields.text(1, 255))
    given.done()
    if not _PROJECT.match(project):
        raise bad("tenant", "It is the id of a project.", project)
    return project


def _opened(id: str, projects: Sequence[str]) -> dict[str, object]:
    return {"flavor_access": [{"flavor_id": id, "tenant_id": project} for project in projects]}
