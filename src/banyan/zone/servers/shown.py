"""Servers as API and CLI of Banyan's own show them."""

from __future__ import annotations

from banyan.core.server import Created, Level, Server
from banyan.core.text import printable
from banyan.core.time import iso
from banyan.zone.views import LevelView, PlacementView, ServerDetail, ServersCreated, WhyView


def detail(server: Server, path: str) -> ServerDetail:
    """`path`: of the zone that has its rack, whole."""
    return ServerDetail(
        server.id,
        path,
        printable(server.name),
        server.project,
        server.user,
        server.state.value,
        server.task.value,
        server.host_name or server.host,
        server.host,
        server.availability_zone,
        "" if server.spec.flavor is None else server.spec.flavor.name,
        dict(server.spec.needs),
        iso(server.created),
        iso(server.updated),
        None if server.launched is None else iso(server.launched),
        "" if server.fault is None else server.fault.text,
        dict(server.spec.metadata),
        server.order,
    )


def created(made: Created) -> ServersCreated:
    servers = tuple(PlacementView(one.id, one.path, one.host, one.ground.value, one.fits) for one in made.made)
    return ServersCreated(made.order, servers, made.again, tuple(map(level, made.levels)))


def why(levels: tuple[Level, ...]) -> WhyView:
    return WhyView(tuple(map(level, levels)))


def level(one: Level) -> LevelView:
    return LevelView(
        one.path, iso(one.at), one.order, one.request, one.looked, dict(one.left_out), one.chosen, one.text
    )
