"""banyan rack, host, server: what the racks of the tree hold."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from cyclopts import App, Parameter

from banyan.cli.client import Query, segment
from banyan.cli.output import Column, instant, number, words
from banyan.cli.session import Limit, Pattern, Under, session
from banyan.cli.target import HERE, Target
from banyan.zone.views import HostView, RackView, ServerView

racks = App(name="rack", help="Racks: what is owned as one, with its driver.")
hosts = App(name="host", help="Hosts: hypervisors and machines.")
servers = App(name="server", help="Servers, as last seen.")

InRack = Annotated[str, Parameter(help="Only in racks of this name.", metavar="PATTERN", show_default=False)]


RACKS: tuple[Column[RackView], ...] = (
    Column("ZONE", lambda r: r.zone),
    Column("NAME", lambda r: r.name),
    Column("CODE", lambda r: r.code),
    Column("DRIVER", lambda r: r.driver),
    Column("HEALTH", lambda r: r.health),
    Column("HOSTS", lambda r: number(r.hosts), right=True),
    Column("SERVERS", lambda r: number(r.servers), right=True),
    Column("CAPACITY", lambda r: r.capacity),
    Column("BASIS", lambda r: r.basis),
    Column("SCANNED", lambda r: instant(r.scanned_at)),
    Column("REASON", lambda r: r.reason),
)


def _use(host: HostView, name: str) -> str:
    amount = host.resources.get(name)
    return "" if amount is None else f"{amount.used:,}/{amount.total:,}"


def _host_state(host: HostView) -> str:
    return "disabled" if host.disabled else "up" if host.up else "down"


HOSTS: tuple[Column[HostView], ...] = (
    Column("ZONE", lambda h: h.zone),
    Column("RACK", lambda h: h.rack),
    Column("NAME", lambda h: h.name),
    Column("ID", lambda h: h.id),
    Column("STATE", _host_state),
    Column("OFFERED", lambda h: words(h.offered)),
    Column("VCPU", lambda h: _use(h, "vcpu"), right=True),
    Column("MEMORY MiB", lambda h: _use(h, "memory_mib"), right=True),
    Column("DISK GiB", lambda h: _use(h, "disk_gib"), right=True),
    Column("AVAILABILITY ZONE", lambda h: h.availability_zone),
    Column("REASON", lambda h: h.reason),
)

SERVERS: tuple[Column[ServerView], ...] = (
    Column("ZONE", lambda s: s.zone),
    Column("RACK", lambda s: s.rack),
    Column("ID", lambda s: s.id),
    Column("NAME", lambda s: s.name),
    Column("STATE", lambda s: s.state),
    Column("PROJECT", lambda s: s.project),
    Column("FLAVOR", lambda s: s.flavor),
    Column("HOST", lambda s: s.host),
    Column("CREATED", lambda s: instant(s.created) if s.created else ""),
)


@racks.command(name="list")
def list_racks(
    *,
    under: Under = "",
    name: Pattern = "",
    driver: Annotated[str, Parameter(help="Only of this driver.", metavar="PATTERN", show_default=False)] = "",
    health: Annotated[
        Literal["unknown", "available", "unavailable"] | None,
        Parameter(help="Only of this health.", show_default=False),
    ] = None,
    limit: Limit = None,
    target: Target = HERE,
) -> int:
    """The racks of the tree. Exit status 6 if some zone could not be asked."""
    with session(target) as s:
        return s.list(
            "/v1/racks", RackView, RACKS, "no rack matches", limit, under=under, name=name, driver=driver, health=health
        )


@hosts.command(name="list")
def list_hosts(
    *,
    under: Under = "",
    name: Pattern = "",
    rack: InRack = "",
    state: Annotated[
        Literal["up", "down", "disabled"] | None, Parameter(help="Only in this state.", show_default=False)
    ] = None,
    offered: Annotated[
        Literal["yes", "no", "unknown"] | None,
        Parameter(help="Only those that may be used, or may not, or of which nobody knows.", show_default=False),
    ] = None,
    aggregate: Annotated[str, Parameter(help="Only of this aggregate.", metavar="PATTERN", show_default=False)] = "",
    availability_zone: Annotated[
        str, Parameter(help="Only of this availability zone.", metavar="PATTERN", show_default=False)
    ] = "",
    limit: Limit = None,
    target: Target = HERE,
) -> int:
    """The hosts of the tree. Exit status 6 if some zone could not be asked."""
    with session(target) as s:
        return s.list(
            "/v1/hosts", HostView, HOSTS, "no host matches", limit, under=under, name=name, rack=rack, state=state,
            offered=offered, aggregate=aggregate, availability_zone=availability_zone,
        )  # fmt: skip


HostName = Annotated[str, Parameter(help="Its whole name.", metavar="NAME")]
OfRack = Annotated[str, Parameter(help="The one in this rack.", metavar="RACK", show_default=False)]
OfId = Annotated[str, Parameter(help="The one of this id.", metavar="ID", show_default=False)]


@hosts.command(name="disable")
def disable_host(
    name: HostName,
    /,
    *,
    reason: Annotated[
        str, Parameter(help="Why; shown with the host and kept in the journal.", show_default=False)
    ] = "",
    down: Annotated[bool, Parameter(negative="", help="It counts as down as well.", show_default=False)] = False,
    under: Under = "",
    rack: OfRack = "",
    id: OfId = "",
    target: Target = HERE,
) -> int:
    """Place no servers on a host from now on. Those that it has stay as they are."""
    return _say("disable", name, {"reason": reason, "down": down}, {"under": under, "rack": rack, "id": id}, target)


@hosts.command(name="enable")
def enable_host(
    name: HostName, /, *, under: Under = "", rack: OfRack = "", id: OfId = "", target: Target = HERE
) -> int:
    """Take back what was said about a host. One that its own cloud disabled stays so: it is enabled there."""
    return _say("enable", name, {}, {"under": under, "rack": rack, "id": id}, target)


def _say(action: str, name: str, body: Mapping[str, object], which: Query, target: Target) -> int:
    with session(target) as s:
        host = s.client.post(f"/v1/hosts/{segment(name)}/actions/{action}", body, HostView, query=which)
        if s.screen.json:
            s.screen.one(host)
        else:
            s.screen.table(HOSTS, (host,), "")
        return s.end()


NO_SERVER = "no server matches, as racks were last scanned; what Banyan made since is in `banyan server placed`"


@servers.command(name="list")
def list_servers(
    *,
    under: Under = "",
    name: Pattern = "",
    rack: InRack = "",
    project: Annotated[str, Parameter(help="Only of this project.", metavar="PATTERN", show_default=False)] = "",
    host: Annotated[str, Parameter(help="Only on this host, by id.", metavar="PATTERN", show_default=False)] = "",
    state: Annotated[
        Literal["active", "building", "stopped", "paused", "suspended", "shelved", "error", "other"] | None,
        Parameter(help="Only in this state.", show_default=False),
    ] = None,
    limit: Limit = None,
    target: Target = HERE,
) -> int:
    """All servers of the tree, whoever made them, as they were when their racks were last scanned.

    `server placed` has those that Banyan made, as they are now. Exit status 6 if some zone could not be asked.
    """
    with session(target) as s:
        return s.list(
            "/v1/servers", ServerView, SERVERS, NO_SERVER, limit, under=under, name=name, rack=rack,
            project=project, host=host, state=state,
        )  # fmt: skip


def register(app: App) -> None:
    for part in (racks, hosts, servers):
        app.command(part)
