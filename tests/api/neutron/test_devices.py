"""What a port says it is plugged into: servers and routers of its own project, and nobody else's (CVE-2014-0056)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from banyan.core.network import Port
from tests.api.neutron.cloud import Cloud, run
from tests.api.neutron.test_routers import connect, routed
from tests.api.neutron.test_servers import compute

NOVA_OWNER, INTERFACE = "compute:nova", "network:router_interface"


async def interfaces(cloud: Cloud, server: str) -> list[str]:
    """The networks that compute shows it on."""
    found = (await compute(cloud, "GET", f"/servers/{server}/os-interface"))["interfaceAttachments"]
    return [one["net_id"] for one in found]


async def forge(cloud: Cloud, port: str, **fields: Any) -> None:
    """As a row may be that was written before this was refused, or by an administrator."""

    def work(unit: Any) -> None:
        old: Port = unit.networks.ports.get(port)
        assert unit.networks.ports.change(old, replace(old, revision=old.revision + 1, **fields))

    await cloud.store.write("test", work)


async def victim(cloud: Cloud) -> tuple[str, str, str]:
    """A server of p1 and its network; a network of p2."""
    network, _ = await cloud.net()
    server = (await cloud.server(networks=[{"uuid": network}]))["server"]["id"]
    theirs, _ = await cloud.net("10.66.6.0/24", token="other")
    return server, network, theirs


@pytest.mark.parametrize("owner", [NOVA_OWNER, "compute:", "compute:x"])
def test_a_port_names_no_server_of_another_project(owner: str) -> None:
    async def play(cloud: Cloud) -> None:
        server, network, theirs = await victim(cloud)
        fields = {"device_id": server, "device_owner": owner}
        said = await cloud.refused(409, "POST", "/ports", {"port": {"network_id": theirs, **fields}}, "other")
        assert said["type"] == "DeviceIDNotOwnedByTenant" and server in said["message"]
        port = f"/ports/{(await cloud.port(theirs, 'other'))['id']}"
        await cloud.refused(409, "PUT", port, {"port": fields}, "other")
        # One after the other they are no less one.
        await cloud.ok("PUT", port, {"port": {"device_id": server}}, "other")
        await cloud.refused(409, "PUT", port, {"port": {"device_owner": owner}}, "other")
        await cloud.ok("PUT", port, {"port": {"device_id": "", "device_owner": owner}}, "other")
        await cloud.refused(409, "PUT", port, {"port": {"device_id": server}}, "other")
        # A server that is not there is answered as one that is another's.
        gone = server[:-1] + ("1" if server.endswith("0") else "0")
        again = {"port": {**fields, "device_id": gone}}
        assert (await cloud.refused(409, "PUT", port, again, "other"))["message"] == said["message"].replace(
            server, gone
        )
        assert await interfaces(cloud, server) == [network]

    run(play)


def test_a_port_may_name_a_server_of_its_own_project() -> None:
    async def play(cloud: Cloud) -> None:
        server, network, _ = await victim(cloud)
        port = await cloud.port(network, device_id=server, device_owner=NOVA_OWNER)
        assert await interfaces(cloud, server) == [network, network]
        # One that was made for a server, moved by its owner, is no more made for it: it does not go with the next.
        other = (await cloud.server(networks="none"))["server"]["id"]
        made = (await cloud.ok("GET", f"/ports?device_id={server}"))["ports"]
        (first,) = [one["id"] for one in made if one["id"] != port["id"]]
        await cloud.ok("PUT", f"/ports/{first}", {"port": {"device_id": other}})
        await compute(cloud, "DELETE", f"/servers/{other}")
        assert (await cloud.ok("GET", f"/ports/{first}"))["port"]["device_id"] == ""
        assert await interfaces(cloud, server) == [network]

    run(play)


def test_what_an_administrator_says_of_a_port_plugs_it_into_nothing_of_another_project() -> None:
    async def play(cloud: Cloud) -> None:
        server, network, theirs = await victim(cloud)
        port = await cloud.port(theirs, "other")
        fields = {"device_id": server, "device_owner": NOVA_OWNER}
        await cloud.ok("PUT", f"/ports/{port['id']}", {"port": fields}, "admin")
        assert await interfaces(cloud, server) == [network]

    run(play)


def test_a_port_of_another_project_with_a_server_s_name_is_none_of_its_interfaces() -> None:
    """The look-ups by device hold by themselves, whatever a row says."""

    async def play(cloud: Cloud) -> None:
        server, network, theirs = await victim(cloud)
        port = (await cloud.port(theirs, "other"))["id"]
        await forge(cloud, port, device=server, owner=NOVA_OWNER)
        assert await interfaces(cloud, server) == [network]
        await compute(cloud, "POST", f"/servers/{server}/os-interface", {"interfaceAttachment": {"net_id": network}})
        assert {nic.network for nic in cloud.servers.rows[server].nics} == {network}
        groups = (await compute(cloud, "GET", f"/servers/{server}/os-security-groups"))["security_groups"]
        mine = {one["id"] for one in (await cloud.ok("GET", "/security-groups"))["security_groups"]}
        assert groups and {one["id"] for one in groups} <= mine
        answer = await cloud.ask("DELETE", f"/servers/{server}/os-interface/{port}", service="compute")
        assert answer.status_code == 404
        await cloud.make("security_group", name="g")
        await compute(cloud, "POST", f"/servers/{server}/action", {"addSecurityGroup": {"name": "g"}})
        theirs_now = (await cloud.ok("GET", f"/ports/{port}", token="other"))["port"]["security_groups"]
        assert not set(theirs_now) & mine
        # It is let go with the server, and stays its project's.
        await compute(cloud, "DELETE", f"/servers/{server}")
        assert (await cloud.ok("GET", f"/ports/{port}", token="other"))["port"]["device_id"] == ""

    run(play)


def test_a_server_has_no_port_of_another_project_from_an_administrator_either() -> None:
    async def play(cloud: Cloud) -> None:
        _, network, theirs = await victim(cloud)
        port = (await cloud.port(theirs, "other"))["id"]
        said = await cloud.server("admin", 400, networks=[{"port": port}])
        assert "not usable" in said["badRequest"]["message"]
        own = (await cloud.server(networks=[{"uuid": network}]))["server"]["id"]
        body = {"interfaceAttachment": {"port_id": port}}
        answer = await cloud.ask("POST", f"/servers/{own}/os-interface", body, "admin", service="compute")
        assert answer.status_code == 400, answer.text

    run(play)


@pytest.mark.parametrize("owner", [INTERFACE, "network:router_gateway", "network:floatingip", "network:dhcp"])
def test_only_administrators_say_that_a_port_is_the_service_s(owner: str) -> None:
    async def play(cloud: Cloud) -> None:
        router = (await cloud.make("router", name="r"))["id"]
        theirs, _ = await cloud.net("10.66.6.0/24", token="other")
        fields = {"device_id": router, "device_owner": owner}
        # Also the owner of the network, of its own router.
        own = (await cloud.make("router", "other", name="o"))["id"]
        for device in (router, own, ""):
            wanted = {"network_id": theirs, **fields, "device_id": device}
            await cloud.refused(403, "POST", "/ports", {"port": wanted}, "other")
        port = (await cloud.port(theirs, "other"))["id"]
        await cloud.refused(403, "PUT", f"/ports/{port}", {"port": fields}, "other")
        # Under no other owner either is it at a router of another project.
        await cloud.refused(409, "PUT", f"/ports/{port}", {"port": {"device_id": router}}, "other")
        # An administrator's word makes it no interface: the router goes, and so does the port.
        await cloud.ok("PUT", f"/ports/{port}", {"port": fields}, "admin")
        await cloud.ok("DELETE", f"/routers/{router}")
        await cloud.ok("DELETE", f"/ports/{port}", token="other")

    run(play)


def test_a_port_that_says_it_is_an_interface_leads_no_floating_ip_and_hinders_no_router() -> None:
    async def play(cloud: Cloud) -> None:
        out, router, _, _ = await routed(cloud)
        theirs, _ = await cloud.net("10.66.6.0/24", token="other")
        false = (await cloud.port(theirs, "other"))["id"]
        await forge(cloud, false, device=router, owner=INTERFACE)
        port = (await cloud.port(theirs, "other"))["id"]
        wanted = {"floating_network_id": out, "port_id": port}
        await cloud.refused(404, "POST", "/floatingips", {"floatingip": wanted}, "other")
        # The network that it says the router is in is none of the router's.
        route = {"routes": [{"destination": "198.51.100.0/24", "nexthop": "10.66.6.9"}]}
        await cloud.refused(400, "PUT", f"/routers/{router}", {"router": route})
        mine, subnet = await cloud.net("10.66.6.0/24")
        assert mine and await connect(cloud, router, subnet_id=subnet)

    run(play)


async def _kept(cloud: Cloud, ports: Sequence[str], router: str) -> None:
    for port in ports:
        for token in ("member", "admin"):
            for fields in ({"device_id": ""}, {"device_owner": ""}, {"device_id": router, "device_owner": "x"}):
                said = await cloud.refused(409, "PUT", f"/ports/{port}", {"port": fields}, token)
                assert said["type"] == "ServicePortInUse"
            await cloud.ok("PUT", f"/ports/{port}", {"port": {"name": "named"}}, token)


def test_what_is_plugged_into_a_router_is_unplugged_there_only() -> None:
    async def play(cloud: Cloud) -> None:
        _, router, network, _ = await routed(cloud)
        other = (await cloud.make("router", name="r2"))["id"]
        brought = (await cloud.port(network, fixed_ips=[{"ip_address": "10.0.0.77"}]))["id"]
        await connect(cloud, other, port_id=brought)
        made = (await cloud.ok("GET", f"/ports?device_id={router}&device_owner={INTERFACE}"))["ports"]
        await _kept(cloud, [made[0]["id"], brought], other)
        await cloud.refused(409, "DELETE", f"/ports/{brought}")
        await cloud.ok("PUT", f"/routers/{other}/remove_router_interface", {"port_id": brought})
        await cloud.ok("DELETE", f"/routers/{other}")

    run(play)


def test_who_owns_a_network_leads_nothing_of_its_own_to_another_projects_port() -> None:
    async def play(cloud: Cloud) -> None:
        out, router, network, _ = await routed(cloud)
        await cloud.ok("PUT", f"/networks/{network}", {"network": {"shared": True}}, "admin")
        theirs = (await cloud.port(network, "other"))["id"]
        wanted = {"floatingip": {"floating_network_id": out, "port_id": theirs}}
        assert "different tenant" in (await cloud.refused(400, "POST", "/floatingips", wanted))["message"]
        mine = await cloud.make("floatingip", floating_network_id=out)
        await cloud.refused(400, "PUT", f"/floatingips/{mine['id']}", {"floatingip": {"port_id": theirs}})
        second = (await cloud.make("router", name="r2"))["id"]
        await cloud.refused(400, "PUT", f"/routers/{second}/add_router_interface", {"port_id": theirs})
        assert (await cloud.ok("GET", f"/ports/{theirs}"))["port"]["device_id"] == ""
        # Whose port it is leads its own floating IP there, by whosever router; and an administrator any.
        led = await cloud.make("floatingip", "other", floating_network_id=out, port_id=theirs)
        assert led["router_id"] == router
        await cloud.ok("DELETE", f"/floatingips/{led['id']}", token="other")
        await cloud.ok("PUT", f"/floatingips/{mine['id']}", {"floatingip": {"port_id": theirs}}, "admin")

    run(play)
