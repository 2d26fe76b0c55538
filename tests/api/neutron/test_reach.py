"""Networks in a tree of zones: servers on one network reach each other, or the order is refused with the reason."""

from __future__ import annotations

from typing import Any

import pytest

from banyan.core.errors import NotFound
from banyan.core.ids import RackCode, ZoneCode, code_text, guest_id
from banyan.core.order import GroupPolicy, GroupScope
from banyan.zone.networks.places import TreePlaces
from banyan.zone.rack_routes import RackRoutes
from banyan.zone.tree import Tree
from tests.api.neutron.cloud import Cloud, run
from tests.api.neutron.test_ports import addresses
from tests.api.neutron.test_servers import ports_of
from tests.unit.zone.test_tree import node

TOP, NORTH, LAB, SOUTH = (ZoneCode(n) for n in (1, 2, 3, 4))
RACKS = {TOP: RackCode(77), LAB: RackCode(78), SOUTH: RackCode(79)}


class Here(TreePlaces):
    """top (rack 77) over north over lab (rack 78), and over south (rack 79). The fakes' servers are where `now` is."""

    def __init__(self) -> None:
        tree, routes = Tree(TOP, "top"), RackRoutes()
        for one in (node(NORTH, TOP, NORTH, "north"), node(LAB, NORTH, NORTH, "lab"), node(SOUTH, TOP, SOUTH, "south")):
            tree.put(one)
        for zone in (LAB, SOUTH):
            routes.put(zone, [RACKS[zone]])
        super().__init__(tree, routes, {RACKS[TOP]})
        self.now = [LAB]
        self._were: dict[str, str] = {}

    def of_server(self, id: str) -> str:
        if id not in self._were:
            where = self.now[0] if len(self.now) == 1 else self.now.pop(0)
            self._were[id] = super().of_server(guest_id(1, RACKS[where], 1))
        return self._were[id]


def in_the_tree(play: Any) -> None:
    places = Here()

    async def whole(cloud: Cloud) -> None:
        await play(cloud, places)

    run(whole, places=places)


async def order(cloud: Cloud, *networks: str, status: int = 202, **more: object) -> Any:
    return await cloud.server(status=status, networks=[{"uuid": one} for one in networks], **more)


def test_the_first_server_settles_where_a_network_is_and_later_ones_follow() -> None:
    async def play(cloud: Cloud, places: Here) -> None:
        network, subnet = await cloud.net()
        assert (await cloud.ok("GET", f"/networks/{network}"))["network"]["banyan:zones"] == []
        await order(cloud, network)
        assert (await cloud.ok("GET", f"/networks/{network}"))["network"]["banyan:zones"] == ["top/north/lab"]
        await order(cloud, network)
        # The order is bound to that zone, wherever else there is room.
        assert [spec.hints.path for spec, _, _ in cloud.servers.orders] == ["", "north/lab"]
        # Whoever places it elsewhere all the same has placed nothing.
        places.now = [SOUTH]
        said = await order(cloud, network, status=409)
        assert "top/north/lab" in said["conflictingRequest"]["message"]
        assert await cloud.used(subnet) == 2

    in_the_tree(play)


def test_several_servers_of_one_order_are_kept_together() -> None:
    async def play(cloud: Cloud, places: Here) -> None:
        network, subnet = await cloud.net()
        await order(cloud, network, min_count=2, max_count=2)
        hints = cloud.servers.orders[0][0].hints
        assert (hints.policy, hints.scope) == (GroupPolicy.AFFINITY, GroupScope.ZONE)
        other, near = await cloud.net()
        places.now = [LAB, SOUTH]
        await order(cloud, other, status=409, min_count=2, max_count=2)
        assert await cloud.used(near) == 0 and await cloud.used(subnet) == 2
        assert (await cloud.ok("GET", f"/networks/{other}"))["network"]["banyan:zones"] == []

    in_the_tree(play)


def test_networks_of_two_zones_have_no_server_in_common() -> None:
    async def play(cloud: Cloud, places: Here) -> None:
        (one, _), (two, _) = await cloud.net(), await cloud.net("10.1.0.0/24")
        await order(cloud, one)
        places.now = [SOUTH]
        id = (await order(cloud, two))["server"]["id"]
        before = len(cloud.servers.orders)
        await order(cloud, one, two, status=409)
        assert len(cloud.servers.orders) == before
        body = {"interfaceAttachment": {"net_id": one}}
        answer = await cloud.ask("POST", f"/servers/{id}/os-interface", body, service="compute")
        assert answer.status_code == 409 and len(await ports_of(cloud, id)) == 1

    in_the_tree(play)


def test_an_operator_says_that_a_segment_is_in_several_zones() -> None:
    async def play(cloud: Cloud, places: Here) -> None:
        fields = {"banyan:reach": "provider", "banyan:zones": ["north", "top/south"], "project_id": "p1"}
        network = (await cloud.make("network", "admin", name="n", **fields))["id"]
        await cloud.make("subnet", network_id=network, cidr="10.0.0.0/24", ip_version=4)
        shown = (await cloud.ok("GET", f"/networks/{network}"))["network"]
        assert shown["banyan:zones"] == ["top/north", "top/south"]
        places.now = [LAB, SOUTH]
        await order(cloud, network, min_count=2, max_count=2)
        places.now = [TOP]
        await order(cloud, network, status=409)
        wrong = {"network": {"banyan:zones": ["nowhere"]}}
        assert "nowhere" in (await cloud.refused(400, "PUT", f"/networks/{network}", wrong, "admin"))["message"]
        # Servers are on it: it stays where it is.
        moved = {"network": {"banyan:zones": ["north"]}}
        await cloud.refused(409, "PUT", f"/networks/{network}", moved, "admin")
        await cloud.refused(403, "PUT", f"/networks/{network}", moved)

    in_the_tree(play)


def test_a_zone_alone_binds_no_order() -> None:
    async def play(cloud: Cloud) -> None:
        network, _ = await cloud.net()
        await order(cloud, network, min_count=2, max_count=2)
        hints = cloud.servers.orders[0][0].hints
        assert hints.policy is None and not hints.path
        assert addresses((await cloud.ok("GET", "/ports"))["ports"][0])

    run(play)


def test_places_are_read_from_the_tree() -> None:
    places = TreePlaces(Here()._tree, Here()._routes, {RACKS[TOP]})
    lab, north, south, top = (code_text(code) for code in (LAB, NORTH, SOUTH, TOP))
    assert places.of_server(guest_id(1, RACKS[LAB], 1)) == lab and places.of_server(guest_id(1, RACKS[TOP], 1)) == top
    assert (
        places.of_server(guest_id(1, RackCode(5), 1)) == "" == places.of_server("f0000000-0000-4000-8000-000000000000")
    )
    assert places.named("top/north/lab") == lab == places.named("lab") and places.named(".") == top
    with pytest.raises(NotFound):
        places.named("nowhere")
    assert (places.path(lab), places.way(lab), places.way(top)) == ("top/north/lab", "north/lab", "")
    assert places.path(code_text(9)) == code_text(9) and places.way(code_text(9)) == ""
    assert places.within(lab, north) and places.within(lab, lab) and places.within(lab, top)
    assert not places.within(lab, south) and not places.within(north, lab) and not places.within(code_text(9), north)
