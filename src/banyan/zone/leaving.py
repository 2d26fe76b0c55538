"""What `banyan leave` says before and after: the parents that are forgotten, and everything that stays as it is.

Nothing is removed: guests run on, and this zone goes on managing those that Banyan made in its racks. So they are
counted, and named as far as one answer goes. Of the zones below only their number is known here; they come along.
"""

# gap: leaving removes nothing that Banyan made inside a cloud: it makes nothing there, as they are only observed

from __future__ import annotations

from banyan.core.image import Image
from banyan.core.network import Network
from banyan.core.records import Unit
from banyan.core.server import Server, ServerQuery
from banyan.zone.views import LeavingView
from banyan.zone.zone import Zone

# Servers, images and networks that one answer names, of each kind: there may be 600,000.
MAX_NAMED = 100
ALL_SERVERS = "`banyan server placed` names all"
ALL_IMAGES = "`openstack image list --all` names all"
ALL_NETWORKS = "`openstack network list` names all"


async def leaving(zone: Zone) -> list[LeavingView]:
    """What leaving concerns, as it is now; what is named comes last."""
    servers, server_count, images, image_count, networks, network_count = await zone.store.read(_kept)
    rows = [
        LeavingView("uplink", up.side.row.path or ", ".join(up.side.row.addresses), "forgotten")
        for up in zone.ups.values()
    ]
    for racked in zone.racks.values():
        made = racked.servers.places.held.servers
        rows.append(LeavingView("rack", racked.name, "stays, with every server in it, whoever made it", made))
    for kind, count, then in (
        ("zones", len(zone.tree), "stay below this zone, with all that is in them"),
        # All that Banyan made, also in racks that the settings have no more.
        ("servers", server_count, "stay" + _more(server_count, ALL_SERVERS)),
        ("images", image_count, "stay" + _more(image_count, ALL_IMAGES)),
        ("networks", network_count, "stay" + _more(network_count, ALL_NETWORKS)),
    ):
        if count:
            rows.append(LeavingView(kind, "", then, count))
    rows += [_server(zone, one) for one in servers]
    rows += [LeavingView("image", one.name or "", "stays", id=one.id) for one in images]
    rows += [LeavingView("network", one.name, "stays", id=one.id) for one in networks]
    return rows


def _kept(unit: Unit) -> tuple[list[Server], int, list[Image], int, list[Network], int]:
    """The newest servers, and the first images and networks, each with how many there are."""
    servers = unit.servers.page(ServerQuery(every_project=True, limit=MAX_NAMED)).servers
    images, networks = unit.images.images, unit.networks.networks
    return (
        list(servers),
        unit.servers.count(),
        list(images.page({}, "", MAX_NAMED)),
        images.count({}),
        list(networks.page({}, "", MAX_NAMED)),
        networks.count({}),
    )


def _server(zone: Zone, server: Server) -> LeavingView:
    racked = zone.racks.get(server.rack)
    where = "a rack that is not in the settings any more" if racked is None else f"rack {racked.name}"
    above = "" if server.issuer == zone.own.code else "; who ordered it, above, does not reach it any more"
    return LeavingView("server", server.name, f"stays in {where}{above}", id=server.id)


def _more(count: int, where: str) -> str:
    return f"; {MAX_NAMED} of those that Banyan made are named here, {where}" if count > MAX_NAMED else ""
