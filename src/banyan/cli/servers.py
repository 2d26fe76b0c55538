"""banyan server create, placed, show, delete, why: servers that Banyan makes, where each is placed, and why there."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

from cyclopts import App, Parameter

from banyan.cli import values
from banyan.cli.client import segment
from banyan.cli.inventory import servers as noun
from banyan.cli.output import Column, instant, number, pairs
from banyan.cli.session import OK, Limit, Session, each, session
from banyan.cli.target import HERE, Target
from banyan.core.errors import BadInput
from banyan.zone.views import LevelView, PlacementView, ServerDetail, ServersCreated, WhyView

PLACED: tuple[Column[ServerDetail], ...] = (
    Column("ZONE", lambda s: s.zone),
    Column("ID", lambda s: s.id),
    Column("NAME", lambda s: s.name),
    Column("STATE", lambda s: s.state),
    Column("TASK", lambda s: s.task),
    Column("PROJECT", lambda s: s.project),
    Column("FLAVOR", lambda s: s.flavor),
    Column("HOST", lambda s: s.host),
    Column("CREATED", lambda s: instant(s.created)),
)
PLACEMENTS: tuple[Column[PlacementView], ...] = (
    Column("ID", lambda p: p.id),
    Column("ZONE", lambda p: p.zone),
    Column("HOST", lambda p: p.host_id),
    Column("REASON", lambda p: p.reason),
    Column("FITS", lambda p: number(p.fits), right=True),
)
LEVELS: tuple[Column[LevelView], ...] = (
    Column("ZONE", lambda one: one.zone),
    Column("LOOKED AT", lambda one: number(one.looked), right=True),
    Column("WHAT IT SAYS", lambda one: one.text or _in_words(one)),
)

ServerIds = Annotated[str, Parameter(help="Ids, as `server placed` shows them.", metavar="ID")]
ServerId = Annotated[str, Parameter(help="The id of a server.")]


def _in_words(one: LevelView) -> str:
    return "; ".join(f"{count} on {name} ({why})" for name, count, why in one.chosen) or "nothing chosen"


def create(
    name: Annotated[str, Parameter(help="Its name; of several each gets a number.")],
    *,
    project: Annotated[str, Parameter(help="Whose it is.")],
    count: Annotated[int, Parameter(help="So many of them.", metavar="N")] = 1,
    least: Annotated[
        int | None,
        Parameter(help="As few as this will do (default: all of them).", metavar="N", show_default=False),
    ] = None,
    vcpu: Annotated[int, Parameter(help="Virtual processors of each.", metavar="N")] = 1,
    memory: Annotated[int, Parameter(help="Memory of each, MiB.", metavar="MIB")] = 512,
    disk: Annotated[int, Parameter(help="Disk of each, GiB.", metavar="GIB")] = 0,
    trait: Annotated[
        tuple[str, ...],
        Parameter(negative="", help="What its host must have; may be given again.", show_default=False),
    ] = (),
    label: Annotated[
        tuple[str, ...],
        Parameter(negative="", help="Only in zones with this label.", metavar="K=V", show_default=False),
    ] = (),
    path: Annotated[
        str, Parameter(help="Only in this zone, by its path from here.", metavar="PATH", show_default=False)
    ] = "",
    availability_zone: Annotated[str, Parameter(help="Only in this availability zone.", show_default=False)] = "",
    retry_key: Annotated[
        str,
        Parameter(
            help="Your own name for this request: said again within 24 hours it gives the same servers.",
            metavar="KEY",
            show_default=False,
        ),
    ] = "",
    target: Target = HERE,
) -> int:
    """Order servers wherever there is room; says where each went, and why. Exit status 3 if there is no room."""
    body = {
        "name": name,
        "project": project,
        "count": values.number(count, "--count", 1, values.MAX_SERVERS),
        "least": None if least is None else values.number(least, "--least", 1, count),
        "vcpu": values.number(vcpu, "--vcpu", 1, values.MAX_VCPU),
        "memory_mib": values.number(memory, "--memory", 1, values.MAX_SIZE),
        "disk_gib": values.number(disk, "--disk", 0, values.MAX_SIZE),
        "traits": list(trait),
        "labels": values.labels(label),
        "path": path,
        "availability_zone": availability_zone,
    }
    with session(target) as s:
        made = s.client.post("/v1/placed", body, ServersCreated, retry_key)
        if s.screen.json:
            s.screen.one(made)
            return OK
        s.screen.table(PLACEMENTS, made.servers, "nothing was made")
        for one in made.levels:
            s.screen.note(f"{one.zone}: {one.text or _in_words(one)}")
        return OK


# gap: `server show` and `server placed` say where a server is; why, only `server create` and `server why`
# gap: `server list` (as racks were last seen) and `server placed` (what Banyan made) are two lists of partly the same
def placed(
    *,
    project: Annotated[str, Parameter(help="Only of this project, by its id.", show_default=False)] = "",
    limit: Limit = None,
    target: Target = HERE,
) -> int:
    """The servers that Banyan made, the newest first. Exit status 6 if some zone could not be asked."""
    with session(target) as s:
        return s.list("/v1/placed", ServerDetail, PLACED, "no server was made", limit, project=project)


def show(id: ServerId, *, target: Target = HERE) -> int:
    """One server that Banyan made. Exit status 5 if its zone can not be asked: then its state is unknown."""
    with session(target) as s:
        server = s.client.get(f"/v1/placed/{segment(id)}", ServerDetail)
        if s.screen.json:
            s.screen.one(server)
        else:
            s.screen.show(_pairs(server))
        return OK


def delete(*ids: ServerIds, target: Target = HERE) -> int:
    """Delete servers that Banyan made. It is stored when this returns; they go after that."""
    if not ids:
        raise BadInput("bad-option", "name at least one, as `server placed` shows it")
    with session(target) as s:
        done, status = each(s, ids, lambda id: _delete(s, id))
        if s.screen.json:
            s.screen.array(done)
        return status


def _delete(s: Session, id: str) -> ServerDetail:
    server = s.client.delete_into(f"/v1/placed/{segment(id)}", ServerDetail)
    if not s.screen.json:
        s.screen.line(f"{server.id} {server.task or server.state}")
    return server


def why(
    id: Annotated[str, Parameter(help="The id of a server, of an order, or of a request.")], *, target: Target = HERE
) -> int:
    """Why a server is where it is, or an order of late has no place: what each zone left out and chose."""
    with session(target) as s:
        found = s.client.get(f"/v1/placed/{segment(id)}/why", WhyView)
        if s.screen.json:
            s.screen.one(found)
        else:
            s.screen.table(LEVELS, found.levels, "nothing is known of it any more")
        return OK


def _pairs(server: ServerDetail) -> Iterable[tuple[str, str]]:
    yield "id", server.id
    yield "name", server.name
    yield "zone", server.zone
    yield "state", f"{server.state} {server.task}".strip()
    yield "host", f"{server.host} {server.host_id if server.host_id != server.host else ''}".strip()
    yield "availability zone", server.availability_zone
    yield "project", server.project
    yield "user", server.user
    yield "flavor", server.flavor
    yield "needs", pairs({name: str(amount) for name, amount in server.needs.items()})
    yield "created", instant(server.created)
    yield "launched", instant(server.launched) if server.launched else ""
    yield "fault", server.fault
    yield "metadata", pairs(server.metadata)
    yield "order", server.order


def register(app: App) -> None:
    """Beside `banyan server list`, which is the inventory's. The noun is in the command already."""
    for command in (create, placed, show, delete, why):
        if command.__name__ not in noun:
            noun.command(command)
