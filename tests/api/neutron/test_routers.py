"""Routers and floating IPs: interfaces, gateways, routes, and where an address leads."""

from __future__ import annotations

from typing import Any

from tests.api.neutron.cloud import Cloud, run
from tests.api.neutron.test_networks import _subnet
from tests.api.neutron.test_ports import addresses


async def connect(cloud: Cloud, router: str, **end: str) -> Any:
    return await cloud.ok("PUT", f"/routers/{router}/add_router_interface", end)


async def part(cloud: Cloud, router: str, **end: str) -> Any:
    return await cloud.ok("PUT", f"/routers/{router}/remove_router_interface", end)


async def routed(cloud: Cloud, cidr: str = "10.0.0.0/24") -> tuple[str, str, str, str]:
    """An external network, a router with its gateway there, a network and its subnet behind it."""
    out = await cloud.outside()
    network, subnet = await cloud.net(cidr)
    router = (await cloud.make("router", external_gateway_info={"network_id": out}))["id"]
    await connect(cloud, router, subnet_id=subnet)
    return out, router, network, subnet


def test_an_interface_takes_the_gateway_and_gives_it_back() -> None:
    async def play(cloud: Cloud) -> None:
        network, subnet = await cloud.net()
        router = (await cloud.make("router", name="r"))["id"]
        made = await connect(cloud, router, subnet_id=subnet)
        assert (made["id"], made["subnet_id"], made["subnet_ids"], made["network_id"]) == (
            router,
            subnet,
            [subnet],
            network,
        )
        port = (await cloud.ok("GET", f"/ports/{made['port_id']}"))["port"]
        assert addresses(port) == ["10.0.0.1"] and port["status"] == "ACTIVE" and port["security_groups"] == []
        assert (port["device_id"], port["device_owner"]) == (router, "network:router_interface")
        for method, path, kind in (
            ("DELETE", f"/ports/{port['id']}", "ServicePortInUse"),
            ("DELETE", f"/routers/{router}", "RouterInUse"),
            ("DELETE", f"/subnets/{subnet}", "SubnetInUse"),
        ):
            assert (await cloud.refused(409, method, path))["type"] == kind
        body = {"subnet": {"gateway_ip": "10.0.0.200"}}
        await cloud.refused(409, "PUT", f"/subnets/{subnet}", body)
        assert (await part(cloud, router, subnet_id=subnet))["port_id"] == port["id"]
        await cloud.refused(404, "GET", f"/ports/{port['id']}")
        said = await cloud.refused(404, "PUT", f"/routers/{router}/remove_router_interface", {"subnet_id": subnet})
        assert said["type"] == "RouterInterfaceNotFound"
        assert await cloud.used(subnet) == 0
        await cloud.ok("DELETE", f"/routers/{router}")

    run(play)


def test_an_interface_may_be_a_port() -> None:
    async def play(cloud: Cloud) -> None:
        network, subnet = await cloud.net()
        router, other = [(await cloud.make("router"))["id"] for _ in range(2)]
        port = await cloud.port(network)
        made = await connect(cloud, router, port_id=port["id"])
        assert made["port_id"] == port["id"]
        said = await cloud.refused(409, "PUT", f"/routers/{other}/add_router_interface", {"port_id": port["id"]})
        assert said["type"] == "PortInUse"
        await part(cloud, router, port_id=port["id"])
        await cloud.refused(404, "GET", f"/ports/{port['id']}")
        bare = await cloud.port(network, fixed_ips=[])
        for end in ({"port_id": bare["id"]}, {}, {"port_id": bare["id"], "subnet_id": subnet}):
            await cloud.refused(400, "PUT", f"/routers/{router}/add_router_interface", end)

    run(play)


def test_a_router_has_one_way_to_an_address() -> None:
    async def play(cloud: Cloud) -> None:
        router = (await cloud.make("router"))["id"]
        _, one = await cloud.net("10.0.0.0/24")
        _, same = await cloud.net("10.0.0.128/25")
        _, without = await cloud.net("10.1.0.0/24", gateway_ip=None)
        await connect(cloud, router, subnet_id=one)
        for subnet in (one, same, without):
            await cloud.refused(400, "PUT", f"/routers/{router}/add_router_interface", {"subnet_id": subnet})

    run(play)


def test_a_gateway_is_set_changed_and_cleared() -> None:
    async def play(cloud: Cloud) -> None:
        out, other = await cloud.outside(), await cloud.outside("198.51.100.0/24")
        inner, _ = await cloud.net()
        router = await cloud.make("router", external_gateway_info={"network_id": out})
        path = f"/routers/{router['id']}"
        assert router["external_gateway_info"]["external_fixed_ips"][0]["ip_address"] == "203.0.113.2"

        async def gateway(value: object, token: str = "member") -> Any:
            body = {"router": {"external_gateway_info": value}}
            return (await cloud.ok("PUT", path, body, token))["router"]["external_gateway_info"]

        assert (await gateway({"network_id": other}))["network_id"] == other
        outer = (await cloud.ok("GET", f"/ports?device_id={router['id']}", token="admin"))["ports"]
        assert [addresses(one) for one in outer] == [["198.51.100.2"]] and outer[0]["project_id"] == ""
        # Nobody but an administrator sees it, or chooses its address.
        assert (await cloud.ok("GET", f"/ports?device_id={router['id']}"))["ports"] == []
        for value in ({"network_id": other, "enable_snat": False},
                      {"network_id": other, "external_fixed_ips": [{"ip_address": "198.51.100.9"}]}):  # fmt: skip
            await cloud.refused(403, "PUT", path, {"router": {"external_gateway_info": value}})
            await gateway(value, "admin")
        shown = (await cloud.ok("GET", path))["router"]["external_gateway_info"]
        assert shown["enable_snat"] is False and shown["external_fixed_ips"][0]["ip_address"] == "198.51.100.9"
        for network, status in ((inner, 400), ("f0000000-0000-4000-8000-000000000000", 404)):
            await cloud.refused(status, "PUT", path, {"router": {"external_gateway_info": {"network_id": network}}})
        assert await gateway(None) is None
        assert (await cloud.ok("GET", "/ports?device_owner=network:router_gateway", token="admin"))["ports"] == []

    run(play)


def test_routes_go_by_a_neighbour() -> None:
    async def play(cloud: Cloud) -> None:
        _, router, _, subnet = await routed(cloud)
        path = f"/routers/{router}"

        def routes(*hops: tuple[str, str]) -> dict[str, object]:
            return {"router": {"routes": [{"destination": to, "nexthop": by} for to, by in hops]}}

        good = routes(("192.0.2.0/24", "10.0.0.9"), ("0.0.0.0/0", "203.0.113.1"))
        assert len((await cloud.ok("PUT", path, good))["router"]["routes"]) == 2
        for wrong in (("192.0.2.0/24", "172.16.0.1"), ("192.0.2.0/24", "10.0.0.1"), ("2001:db8::/64", "10.0.0.9")):
            await cloud.refused(400, "PUT", path, routes(wrong))
        said = await cloud.refused(409, "PUT", f"{path}/remove_router_interface", {"subnet_id": subnet})
        assert "routes" in said["message"]
        assert (await cloud.ok("PUT", path, {"router": {"routes": None}}))["router"]["routes"] == []

    run(play)


def test_a_floating_ip_leads_to_a_port_through_its_router() -> None:
    async def play(cloud: Cloud) -> None:
        out, router, network, subnet = await routed(cloud)
        port, second = await cloud.port(network), await cloud.port(network)
        made = await cloud.make("floatingip", floating_network_id=out, port_id=port["id"])
        assert (made["port_id"], made["router_id"], made["status"]) == (port["id"], router, "ACTIVE")
        assert made["fixed_ip_address"] == addresses(port)[0] and made["floating_ip_address"] == "203.0.113.3"
        path = f"/floatingips/{made['id']}"
        for method, where in (("DELETE", f"/routers/{router}"), ("PUT", f"/routers/{router}/remove_router_interface")):
            await cloud.refused(409, method, where, {"subnet_id": subnet} if method == "PUT" else None)
        await cloud.refused(409, "PUT", f"/routers/{router}", {"router": {"external_gateway_info": None}})
        body = {"floatingip": {"floating_network_id": out, "port_id": port["id"]}}
        assert (await cloud.refused(409, "POST", "/floatingips", body))["type"] == "FloatingIPPortAlreadyAssociated"
        moved = (await cloud.ok("PUT", path, {"floatingip": {"port_id": second["id"]}}))["floatingip"]
        assert moved["fixed_ip_address"] == addresses(second)[0]
        # Words about it leave where it leads.
        told = (await cloud.ok("PUT", path, {"floatingip": {"description": "web"}}))["floatingip"]
        assert (told["description"], told["port_id"]) == ("web", second["id"])
        await cloud.ok("DELETE", f"/ports/{second['id']}")
        shown = (await cloud.ok("GET", path))["floatingip"]
        assert (shown["port_id"], shown["fixed_ip_address"], shown["router_id"], shown["status"]) == (
            None, None, None, "DOWN",
        )  # fmt: skip
        await cloud.ok("DELETE", path)
        assert (await cloud.ok("GET", "/ports?device_owner=network:floatingip", token="admin"))["ports"] == []
        assert (await cloud.ok("GET", "/quotas/p1/details"))["quota"]["floatingip"]["used"] == 0

    run(play)


def test_which_address_of_a_port_a_floating_ip_leads_to() -> None:
    async def play(cloud: Cloud) -> None:
        out, _, network, subnet = await routed(cloud)
        port = await cloud.port(network, fixed_ips=[{"subnet_id": subnet}, {"subnet_id": subnet}])
        lead = {"floating_network_id": out, "port_id": port["id"]}
        await cloud.refused(400, "POST", "/floatingips", {"floatingip": lead})
        await cloud.refused(400, "POST", "/floatingips", {"floatingip": {**lead, "fixed_ip_address": "10.0.0.99"}})
        await cloud.refused(400, "POST", "/floatingips",
                            {"floatingip": {"floating_network_id": out, "fixed_ip_address": "10.0.0.9"}})  # fmt: skip
        made = await cloud.make("floatingip", **lead, fixed_ip_address=addresses(port)[1])
        assert made["fixed_ip_address"] == addresses(port)[1]
        # When the port loses that address, it leads nowhere.
        fixed = {"port": {"fixed_ips": [{"ip_address": addresses(port)[0]}]}}
        await cloud.ok("PUT", f"/ports/{port['id']}", fixed)
        assert (await cloud.ok("GET", f"/floatingips/{made['id']}"))["floatingip"]["port_id"] is None

    run(play)


def test_a_floating_ip_that_can_not_be() -> None:
    async def play(cloud: Cloud) -> None:
        out, _, network, _ = await routed(cloud)
        inner, _ = await cloud.net("10.7.0.0/24")
        lonely = await cloud.port(inner)
        others, _ = await cloud.net(token="other")
        foreign = await cloud.port(others, "other")
        for fields, status in (
            ({"floating_network_id": network}, 400),
            ({"floating_network_id": out, "port_id": lonely["id"]}, 404),
            ({"floating_network_id": out, "port_id": foreign["id"]}, 404),
            ({"floating_network_id": out, "floating_ip_address": "203.0.113.77"}, 403),
        ):
            await cloud.refused(status, "POST", "/floatingips", {"floatingip": fields})
        assert (await cloud.ok("GET", "/floatingips"))["floatingips"] == []
        wanted = {"floating_network_id": out, "floating_ip_address": "203.0.113.77"}
        made = await cloud.make("floatingip", "admin", **wanted)
        assert made["floating_ip_address"] == "203.0.113.77"
        assert (await cloud.refused(409, "POST", "/floatingips", {"floatingip": wanted}, "admin"))[
            "type"
        ] == "IpAddressInUse"

    run(play)


def test_an_external_network_of_two_subnets_is_used_to_the_end() -> None:
    async def play(cloud: Cloud) -> None:
        out = await cloud.outside("203.0.113.0/30")
        more = _subnet(out, "203.0.113.4/30")["subnet"]
        await cloud.ok("POST", "/subnets", {"subnet": {**more, "project_id": "outer"}}, "admin")
        found = [(await cloud.make("floatingip", floating_network_id=out))["floating_ip_address"] for _ in range(2)]
        assert found == ["203.0.113.2", "203.0.113.6"]
        said = await cloud.refused(409, "POST", "/floatingips", {"floatingip": {"floating_network_id": out}})
        assert said["type"] == "IpAddressGenerationFailure"

    run(play)


def test_an_external_network_goes_with_what_leads_nowhere() -> None:
    async def play(cloud: Cloud) -> None:
        out, router, network, _ = await routed(cloud)
        await cloud.ok("PUT", f"/routers/{router}", {"router": {"external_gateway_info": None}})
        idle = await cloud.make("floatingip", floating_network_id=out)
        port = await cloud.port(network)
        await cloud.ok("PUT", f"/routers/{router}", {"router": {"external_gateway_info": {"network_id": out}}})
        led = await cloud.make("floatingip", floating_network_id=out, port_id=port["id"])
        await cloud.refused(409, "DELETE", f"/networks/{out}", token="admin")
        assert len((await cloud.ok("GET", "/floatingips"))["floatingips"]) == 2
        await cloud.ok("DELETE", f"/ports/{port['id']}")
        await cloud.refused(409, "DELETE", f"/networks/{out}", token="admin")
        await cloud.ok("PUT", f"/routers/{router}", {"router": {"external_gateway_info": None}})
        await cloud.ok("DELETE", f"/networks/{out}", token="admin")
        for one in (idle, led):
            await cloud.refused(404, "GET", f"/floatingips/{one['id']}")
        assert (await cloud.ok("GET", "/quotas/p1/details"))["quota"]["floatingip"]["used"] == 0

    run(play)
