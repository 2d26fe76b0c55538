"""What servers hold of their hosts, what a project holds, and where a request would fit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec import structs

from banyan.api.nova import fields
from banyan.api.openstack.call import Answer, Call
from banyan.api.placement import question
from banyan.api.placement.providers import MOST, answer, found, generation, hosts
from banyan.core import needs
from banyan.core.errors import BadInput, NotFound, Refused, Unreachable
from banyan.core.permissions import Target, require
from banyan.core.server import MAX_PAGE, Server, ServerQuery
from banyan.zone.compute.hosts import uuid_of
from banyan.zone.compute.usage import MAX_COUNTED
from banyan.zone.views import HostView

# Candidates that one answer has where the client says no limit.
CANDIDATES: Final = 1_000


def _resources(server: Server) -> dict[str, int]:
    return {needs.class_name(name): count for name, count in server.spec.needs.items()}


async def of_provider(call: Call) -> Answer:
    """What each server holds of one provider."""
    host = await found(call, call.params["uuid"])
    query = ServerQuery(call.principal.issuer, every_project=True, host=host.id, limit=MAX_PAGE)
    shown: dict[str, object] = {}
    while True:
        page = await call.compute.servers.page(call.principal, query)
        for server in page.servers:
            if server.holds:
                shown[server.id] = {"resources": _resources(server)} | (
                    {"consumer_generation": server.revision} if call.version.minor >= 28 else {}
                )
        if not page.after or len(shown) > MOST:
            return answer(call, {"resource_provider_generation": generation(host), "allocations": shown})
        query = structs.replace(query, after=page.after)


async def of_consumer(call: Call) -> Answer:
    """What one server holds; nothing if there is no such server, as placement answers."""
    id, minor = call.params["consumer_uuid"], call.version.minor
    try:
        server = await call.compute.servers.show(call.principal, id.lower()) if fields.is_uuid(id) else None
    except NotFound:
        server = None
    if server is None or not server.holds:
        return answer(call, {"allocations": {}})
    host = await call.compute.hosts.of_server(call.principal, server)
    shown: dict[str, object] = {}
    if host is not None:
        shown[uuid_of(host)] = {"resources": _resources(server), "generation": generation(host)}
    body: dict[str, object] = {"allocations": shown}
    if minor >= 12:
        body.update(project_id=server.project, user_id=server.user)
    if minor >= 28:
        body["consumer_generation"] = server.revision
    return answer(call, body)


async def usages(call: Call) -> Answer:
    """What the servers of a project hold."""
    project, user = call.one("project_id"), call.one("user_id")
    if not project:
        raise BadInput("bad-parameter", "'project_id' is a required property")
    require(call.principal, "placement:usages", Target(project=project))
    query = ServerQuery(call.principal.issuer, project, every_project=project != call.principal.project, limit=MAX_PAGE)
    sums: dict[str, int] = {}
    count = 0
    while True:
        page = await call.compute.servers.page(call.principal, query)
        if page.absent:
            raise Unreachable(
                "member-unreachable", f"a sum without these would be wrong: {', '.join(page.absent[:10])}"
            )
        for server in page.servers:
            if server.holds and user in ("", server.user):
                for name, amount in _resources(server).items():
                    sums[name] = sums.get(name, 0) + amount
        if not page.after:
            return answer(call, {"usages": sums})
        count += len(page.servers)
        if count >= MAX_COUNTED:
            raise Refused(
                "too-many-servers",
                f"project {project[:64]} has more than {MAX_COUNTED} servers: more than are summed here",
            )
        query = structs.replace(query, after=page.after)


async def candidates(call: Call) -> Answer:
    """Hosts on which a request would fit now. Nothing is held by it: servers are placed by their own zone."""
    minor = call.version.minor
    known = ["resources"]
    known += ["limit"] if minor >= 16 else []
    known += ["required"] if minor >= 17 else []
    known += ["member_of"] if minor >= 21 else []
    known += ["in_tree"] if minor >= 31 else []
    wanted = question.read(call, known)
    if not wanted.amounts:
        raise BadInput("bad-resources", "'resources' is a required property: CLASS:N,CLASS:N")
    limit = _limit(call)
    tree = call.maybe("in_tree")
    if tree is not None and not fields.is_uuid(tree):
        raise BadInput("bad-id", f"in_tree is a uuid, got {tree[:80]!r}")
    requests: list[dict[str, object]] = []
    summaries: dict[str, object] = {}
    amounts = {needs.class_name(name): count for name, count in wanted.amounts.items()}
    async for host in hosts(call):
        id = uuid_of(host)
        if tree is not None and id != tree.lower():
            continue
        if not (host.up and host.offered and not host.disabled and wanted.holds(host)):
            continue
        requests.append(_request(id, amounts, minor))
        summaries[id] = _summary(host, wanted.amounts, minor)
        if len(requests) >= limit:
            break
    return answer(call, {"allocation_requests": requests, "provider_summaries": summaries})


def _limit(call: Call) -> int:
    text = call.maybe("limit")
    if text is None:
        return CANDIDATES
    value = fields.digits(text)
    if value is None or not value >= 1:
        raise BadInput("bad-limit", f"limit is a whole number from 1, got {text[:40]!r}")
    return min(value, CANDIDATES)


def _request(id: str, amounts: Mapping[str, int], minor: int) -> dict[str, object]:
    resources = dict(amounts)
    if minor < 12:
        return {"allocations": [{"resource_provider": {"uuid": id}, "resources": resources}]}
    request: dict[str, object] = {"allocations": {id: {"resources": resources}}}
    if minor >= 34:
        request["mappings"] = {"": [id]}
    return request


def _summary(host: HostView, wanted: Mapping[str, int], minor: int) -> dict[str, object]:
    shown = {
        needs.class_name(name): {"capacity": amount.total, "used": amount.used}
        for name, amount in host.resources.items()
        if minor >= 27 or name in wanted
    }
    summary: dict[str, object] = {"resources": shown}
    if minor >= 17:
        summary["traits"] = list(host.traits)
    if minor >= 29:
        summary.update(parent_provider_uuid=None, root_provider_uuid=uuid_of(host))
    return summary
