"""Servers on networks: what an order may name, ports that come and go with their servers, whoever dies in between."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from banyan.api.nova.servers import RETRY_HEADER
from banyan.core.errors import Conflict, Unreachable
from banyan.core.order import NetworkWish
from banyan.zone.compute.sources import NetworkPlan
from banyan.zone.networks.serving import ServerNetworks
from tests.api.neutron.cloud import NOVA, Cloud, run
from tests.api.neutron.test_ports import addresses
from tests.api.neutron.test_routers import routed
from tests.api.nova.fakes import IMAGE

NONE = "f0000000-0000-4000-8000-000000000000"


async def ports_of(cloud: Cloud, server: str) -> list[Any]:
    found: list[Any] = (await cloud.ok("GET", f"/ports?device_id={server}&sort_key=id"))["ports"]
    return found


async def compute(cloud: Cloud, method: str, path: str, body: object = None, token: str = "member") -> Any:
    answer = await cloud.ask(method, path, body, token, {NOVA: "2.96"}, service="compute")
    assert answer.status_code < 300, answer.text
    return answer.json() if answer.content else None


def test_a_server_has_a_port_and_gives_it_back() -> None:
    async def play(cloud: Cloud) -> None:
        network, subnet = await cloud.net()
        id = (await cloud.server(networks=[{"uuid": network}]))["server"]["id"]
        shown = (await compute(cloud, "GET", f"/servers/{id}"))["server"]
        assert [one["addr"] for one in shown["addresses"]["n"]] == ["10.0.0.2"]
        assert shown["security_groups"] == [{"name": "default"}]
        (port,) = await ports_of(cloud, id)
        assert addresses(port) == ["10.0.0.2"] and port["status"] == "ACTIVE"
        assert port["device_owner"].startswith("compute:") and len(port["security_groups"]) == 1
        (interface,) = (await compute(cloud, "GET", f"/servers/{id}/os-interface"))["interfaceAttachments"]
        assert interface["port_id"] == port["id"]
        assert interface["fixed_ips"] == [{"ip_address": "10.0.0.2", "subnet_id": subnet}]
        await compute(cloud, "DELETE", f"/servers/{id}")
        assert await ports_of(cloud, id) == [] and await cloud.used(subnet) == 0
        assert (await cloud.ok("GET", "/quotas/p1/details"))["quota"]["port"]["used"] == 0

    run(play)


def test_a_server_tells_its_security_groups_and_their_rules() -> None:
    async def play(cloud: Cloud) -> None:
        network, _ = await cloud.net()
        made = await cloud.ok("POST", "/security-groups", {"security_group": {"name": "web"}})
        group = made["security_group"]["id"]
        asked = {"security_group_id": group, "direction": "ingress", "protocol": "tcp"}
        for more in ({"port_range_min": 80, "port_range_max": 443}, {"remote_ip_prefix": "10.0.0.0/8"}):
            await cloud.ok("POST", "/security-group-rules", {"security_group_rule": asked | more})
        asked = {**asked, "protocol": "icmp", "remote_group_id": group}
        await cloud.ok("POST", "/security-group-rules", {"security_group_rule": asked})
        id = (await cloud.server(networks=[{"uuid": network}], security_groups=[{"name": "web"}]))["server"]["id"]
        (told,) = (await compute(cloud, "GET", f"/servers/{id}/os-security-groups"))["security_groups"]
        assert (told["id"], told["name"], told["tenant_id"]) == (group, "web", "p1")
        rules = [(r["ip_protocol"], r["from_port"], r["to_port"], r["ip_range"], r["group"]) for r in told["rules"]]
        assert sorted(rules, key=str) == [
            ("icmp", -1, -1, {}, {"name": "web", "tenant_id": "p1"}),
            ("tcp", 1, 65535, {"cidr": "10.0.0.0/8"}, {}),
            ("tcp", 80, 443, {"cidr": "0.0.0.0/0"}, {}),
        ]

    run(play)


def test_many_servers_have_different_addresses() -> None:
    async def play(cloud: Cloud) -> None:
        network, subnet = await cloud.net()
        await cloud.server(networks=[{"uuid": network}] * 2, min_count=40, max_count=40)
        servers = (await compute(cloud, "GET", "/servers/detail"))["servers"]
        found = [one["addr"] for server in servers for one in server["addresses"]["n"]]
        assert len(found) == len(set(found)) == 80 == await cloud.used(subnet)

    run(play)


def test_a_port_that_the_user_brought_stays() -> None:
    async def play(cloud: Cloud) -> None:
        network, subnet = await cloud.net()
        port = await cloud.port(network, fixed_ips=[{"ip_address": "10.0.0.77"}])
        id = (await cloud.server(networks=[{"port": port["id"]}]))["server"]["id"]
        shown = (await cloud.ok("GET", f"/ports/{port['id']}"))["port"]
        assert (shown["device_id"], shown["status"]) == (id, "ACTIVE")
        await cloud.server(status=409, networks=[{"port": port["id"]}])
        await compute(cloud, "DELETE", f"/servers/{id}")
        left = (await cloud.ok("GET", f"/ports/{port['id']}"))["port"]
        assert (left["device_id"], left["device_owner"], left["status"]) == ("", "", "DOWN")
        assert addresses(left) == ["10.0.0.77"] and await cloud.used(subnet) == 1
        await cloud.server(networks=[{"port": port["id"]}])

    run(play)


def test_what_an_order_may_not_name() -> None:
    async def play(cloud: Cloud) -> None:
        network, _ = await cloud.net()
        bare = (await cloud.make("network"))["id"]
        others, _ = await cloud.net(token="other")
        foreign = await cloud.port(others, "other")
        out = await cloud.outside()
        taken = addresses(await cloud.port(network))[0]
        for networks, status in (
            ([{"uuid": NONE}], 400),
            ([{"uuid": others}], 400),
            ([{"uuid": bare}], 400),
            ([{"uuid": out}], 403),
            ([{"port": foreign["id"]}], 400),
            ([{"uuid": network, "fixed_ip": "10.9.0.1"}], 400),
            ([{"uuid": network, "fixed_ip": taken}], 409),
        ):
            await cloud.server(status=status, networks=networks)
        await cloud.server(status=400, networks=[{"uuid": network}], security_groups=[{"name": "none"}])
        await cloud.server(status=400, networks=[{"uuid": network, "fixed_ip": "10.0.0.50"}], min_count=2)
        assert not cloud.servers.rows

    run(play)


def test_an_order_that_names_none_has_the_project_s_own() -> None:
    async def play(cloud: Cloud) -> None:
        id = (await cloud.server(networks="none"))["server"]["id"]
        assert await ports_of(cloud, id) == []
        await cloud.server(status=400, networks="auto")
        network, _ = await cloud.net()
        id = (await cloud.server(networks="auto"))["server"]["id"]
        assert [one["network_id"] for one in await ports_of(cloud, id)] == [network]
        await cloud.net("10.1.0.0/24")
        await cloud.server(status=409, networks="auto")

    run(play)


def test_a_full_subnet_refuses_the_order_and_leaves_nothing() -> None:
    async def play(cloud: Cloud) -> None:
        network, subnet = await cloud.net("10.0.0.0/29")
        _, room = await cloud.net("10.1.0.0/24")
        other = (await cloud.ok("GET", f"/subnets/{room}"))["subnet"]["network_id"]
        await cloud.server(status=409, networks=[{"uuid": other}, {"uuid": network}], min_count=6, max_count=6)
        assert (await cloud.ok("GET", "/ports"))["ports"] == []
        assert await cloud.used(subnet) == await cloud.used(room) == 0
        # What could not be connected is gone.
        states = {one.state.value for one in cloud.servers.rows.values()}
        assert states == {"deleted"}, states

    run(play)


def test_a_refused_quota_leaves_nothing() -> None:
    async def play(cloud: Cloud) -> None:
        network, _ = await cloud.net()
        await cloud.ok("PUT", "/quotas/p1", {"quota": {"port": 3}}, "admin")
        await cloud.server(status=403, networks=[{"uuid": network}], min_count=4, max_count=4)
        await cloud.server(networks=[{"uuid": network}], min_count=3, max_count=3)
        assert len((await cloud.ok("GET", "/ports"))["ports"]) == 3

    run(play)


def _plan(network: str) -> NetworkPlan:
    return NetworkPlan((NetworkWish(network, "n"), NetworkWish(network, "n")), ("default",))


def test_allocating_again_finds_what_was_made() -> None:
    """Whoever died between the order and its answer: the same order has the same ports."""

    async def play(cloud: Cloud) -> None:
        network, subnet = await cloud.net()
        who, serving = cloud.gate.known["member"], cloud.network.serving
        servers = [f"{n:08x}-0000-8000-8000-000000000000" for n in range(3)]
        first = await serving.allocate(who, _plan(network), servers[:2])
        again = await serving.allocate(who, _plan(network), servers)
        assert {id: again[id] for id in servers[:2]} == dict(first)
        assert await cloud.used(subnet) == 6
        await serving.release(who, servers[0])
        await serving.release(who, servers[0])
        assert await cloud.used(subnet) == 4
        assert (await cloud.ok("GET", "/quotas/p1/details"))["quota"]["port"]["used"] == 4

    run(play)


def test_two_who_allocate_at_once_have_different_addresses() -> None:
    async def play(cloud: Cloud) -> None:
        network, subnet = await cloud.net()
        who, serving = cloud.gate.known["member"], cloud.network.serving
        servers = [f"{n:08x}-0000-8000-8000-000000000000" for n in range(12)]
        # Each server twice, as a client does that had no answer.
        both = await asyncio.gather(*(serving.allocate(who, _plan(network), [id]) for id in servers * 2))
        found = [address.address for one in both for nics in one.values() for nic in nics for address in nic.addresses]
        assert len(set(found)) == 24 == await cloud.used(subnet)

    run(play)


def test_an_interface_comes_and_goes() -> None:
    async def play(cloud: Cloud) -> None:
        network, subnet = await cloud.net()
        id = (await cloud.server(networks=[{"uuid": network}]))["server"]["id"]
        path = f"/servers/{id}/os-interface"
        body = {"interfaceAttachment": {"net_id": network, "fixed_ips": [{"ip_address": "10.0.0.40"}]}}
        made = (await compute(cloud, "POST", path, body))["interfaceAttachment"]
        assert made["fixed_ips"][0]["ip_address"] == "10.0.0.40"
        mine = await cloud.port(network)
        await compute(cloud, "POST", path, {"interfaceAttachment": {"port_id": mine["id"]}})
        assert len(await ports_of(cloud, id)) == 3
        for port in (made["port_id"], mine["id"]):
            await compute(cloud, "DELETE", f"{path}/{port}")
        assert len(await ports_of(cloud, id)) == 1
        # The one that was brought is there still, free.
        assert (await cloud.ok("GET", f"/ports/{mine['id']}"))["port"]["device_id"] == ""
        assert await cloud.used(subnet) == 2

    run(play)


def test_an_interface_that_the_server_refuses_is_taken_back() -> None:
    async def play(cloud: Cloud) -> None:
        network, subnet = await cloud.net()
        id = (await cloud.server(networks="none"))["server"]["id"]
        cloud.servers.away = None
        real = cloud.servers.act

        async def refuse(*arguments: Any, **more: Any) -> Any:
            raise Conflict("busy", "another action is under way")

        cloud.servers.act = refuse
        body = {"interfaceAttachment": {"net_id": network}}
        answer = await cloud.ask("POST", f"/servers/{id}/os-interface", body, headers={NOVA: "2.96"}, service="compute")
        assert answer.status_code == 409
        cloud.servers.act = real
        assert await ports_of(cloud, id) == [] and await cloud.used(subnet) == 0

    run(play)


def test_an_interface_of_which_nobody_knows_whether_the_server_has_it_stays() -> None:
    async def play(cloud: Cloud) -> None:
        network, subnet = await cloud.net()
        id = (await cloud.server(networks="none"))["server"]["id"]
        real = cloud.servers.act

        async def lost(*arguments: Any, **more: Any) -> Any:
            await real(*arguments, **more)
            raise Unreachable("server-undecided", "no answer", transient=True)

        cloud.servers.act = lost
        body = {"interfaceAttachment": {"net_id": network}}
        answer = await cloud.ask("POST", f"/servers/{id}/os-interface", body, headers={NOVA: "2.96"}, service="compute")
        assert answer.status_code == 503
        assert len(await ports_of(cloud, id)) == 1 == await cloud.used(subnet), "its address would be another's"

    run(play)


def test_security_groups_of_a_server_are_those_of_its_ports() -> None:
    async def play(cloud: Cloud) -> None:
        network, _ = await cloud.net()
        web = (await cloud.make("security_group", name="web"))["id"]
        fields = {"networks": [{"uuid": network}], "security_groups": [{"name": "web"}, {"name": "default"}]}
        id = (await cloud.server(**fields))["server"]["id"]
        (port,) = await ports_of(cloud, id)
        assert len(port["security_groups"]) == 2 and web in port["security_groups"]
        path = f"/servers/{id}/action"
        await compute(cloud, "POST", path, {"removeSecurityGroup": {"name": "web"}})
        assert web not in (await ports_of(cloud, id))[0]["security_groups"]
        for action, status in (("removeSecurityGroup", 404), ("addSecurityGroup", 202), ("addSecurityGroup", 409)):
            answer = await cloud.ask("POST", path, {action: {"name": "web"}}, headers={NOVA: "2.96"}, service="compute")
            assert answer.status_code == status, answer.text
        assert web in (await ports_of(cloud, id))[0]["security_groups"]
        await cloud.refused(409, "DELETE", f"/security-groups/{web}")

    run(play)


@pytest.mark.parametrize("error", [Unreachable("member-unreachable", "away"), Conflict("bad-state", "no")])
def test_a_server_that_is_not_deleted_keeps_its_ports(error: Exception) -> None:
    async def play(cloud: Cloud) -> None:
        network, subnet = await cloud.net()
        id = (await cloud.server(networks=[{"uuid": network}]))["server"]["id"]
        real = cloud.servers.act

        async def refuse(*arguments: Any, **more: Any) -> Any:
            raise error

        cloud.servers.act = refuse
        answer = await cloud.ask("DELETE", f"/servers/{id}", headers={NOVA: "2.96"}, service="compute")
        assert answer.status_code >= 400
        cloud.servers.act = real
        assert len(await ports_of(cloud, id)) == 1 and await cloud.used(subnet) == 1

    run(play)


async def shown_addresses(cloud: Cloud, server: str) -> list[tuple[str, str]]:
    found = (await compute(cloud, "GET", f"/servers/{server}"))["server"]["addresses"]
    return sorted((one["addr"], one["OS-EXT-IPS:type"]) for some in found.values() for one in some)


def test_a_server_shows_what_leads_to_it_and_what_its_ports_have() -> None:
    async def play(cloud: Cloud) -> None:
        out, _, network, _ = await routed(cloud)
        id = (await cloud.server(networks=[{"uuid": network}]))["server"]["id"]
        (port,) = await ports_of(cloud, id)
        floating = await cloud.make("floatingip", floating_network_id=out, port_id=port["id"])
        address = floating["floating_ip_address"]
        assert await shown_addresses(cloud, id) == [("10.0.0.2", "fixed"), (address, "floating")]
        await cloud.ok("PUT", f"/floatingips/{floating['id']}", {"floatingip": {"port_id": None}})
        assert await shown_addresses(cloud, id) == [("10.0.0.2", "fixed")]
        fixed = {"port": {"fixed_ips": [{"ip_address": "10.0.0.9"}]}}
        await cloud.ok("PUT", f"/ports/{port['id']}", fixed)
        assert await shown_addresses(cloud, id) == [("10.0.0.9", "fixed")]
        await cloud.ok("DELETE", f"/ports/{port['id']}")
        assert await shown_addresses(cloud, id) == []

    run(play)


def test_a_server_that_can_not_be_told_hinders_nobody() -> None:
    async def play(cloud: Cloud) -> None:
        network, _ = await cloud.net()
        id = (await cloud.server(networks=[{"uuid": network}]))["server"]["id"]
        (port,) = await ports_of(cloud, id)
        cloud.servers.away = Unreachable("member-unreachable", "away")
        await cloud.ok("DELETE", f"/ports/{port['id']}")
        cloud.servers.away = None
        assert await shown_addresses(cloud, id) == [("10.0.0.2", "fixed")]

    run(play)


class Died(BaseException):
    """The process is gone."""


@pytest.mark.parametrize("where", ["allocate", "change"])
def test_an_order_whose_zone_died_has_its_interfaces_when_it_is_asked_again(where: str) -> None:
    """Before the ports were made, or when they were and the server was not told."""

    async def play(cloud: Cloud) -> None:
        network, subnet = await cloud.net()
        web = (await cloud.make("security_group", name="web"))["id"]
        wanted = {
            "name": "web", "imageRef": IMAGE, "flavorRef": "1", "networks": [{"uuid": network}],
            "security_groups": [{"name": "web"}],
        }  # fmt: skip
        headers = {NOVA: "2.96", RETRY_HEADER: "k1"}
        owner: Any = cloud.network.serving if where == "allocate" else cloud.servers
        real = getattr(owner, where)

        async def die(*arguments: Any, **more: Any) -> Any:
            raise Died

        setattr(owner, where, die)
        with pytest.raises(Died):
            await cloud.ask("POST", "/servers", {"server": wanted}, headers=headers, service="compute")
        setattr(owner, where, real)
        (id,) = cloud.servers.rows
        assert not cloud.servers.rows[id].nics
        for _ in range(2):
            answer = await cloud.ask("POST", "/servers", {"server": wanted}, headers=headers, service="compute")
            assert answer.status_code == 202 and answer.json()["server"]["id"] == id
            assert await shown_addresses(cloud, id) == [("10.0.0.2", "fixed")]
        (port,) = await ports_of(cloud, id)
        assert port["security_groups"] == [web] and await cloud.used(subnet) == 1

    run(play)


class FewMacs:
    """Ids whose three bytes of chance are few: as in a network that has most MACs given out."""

    def __init__(self, ids: Any, many: int) -> None:
        self._ids, self._many = ids, many

    def token(self, size: int) -> bytes:
        raw: bytes = self._ids.token(size)
        return raw if size != 3 else bytes((0, 0, raw[0] % self._many))


@pytest.mark.parametrize("way", ["detached", "port deleted"])
def test_a_create_that_is_said_again_leaves_a_server_as_its_user_made_it(way: str) -> None:
    async def play(cloud: Cloud) -> None:
        network, _ = await cloud.net()
        wanted = {"name": "web", "imageRef": IMAGE, "flavorRef": "1", "networks": [{"uuid": network}] * 2}
        headers = {NOVA: "2.96", RETRY_HEADER: "k1"}

        async def order() -> str:
            answer = await cloud.ask("POST", "/servers", {"server": wanted}, headers=headers, service="compute")
            assert answer.status_code == 202
            return str(answer.json()["server"]["id"])

        id = await order()
        for left in (1, 0):
            port = (await ports_of(cloud, id))[0]["id"]
            if way == "detached":
                await compute(cloud, "DELETE", f"/servers/{id}/os-interface/{port}")
            else:
                await cloud.ok("DELETE", f"/ports/{port}")
            assert await order() == id and len(await ports_of(cloud, id)) == left

    run(play)


def test_many_ports_have_macs_of_their_own_where_most_are_given_out() -> None:
    async def play(cloud: Cloud) -> None:
        network, _ = await cloud.net()
        who = cloud.gate.known["member"]
        desk = replace(cloud.network.desk, ids=FewMacs(cloud.network.desk.ids, 64))
        serving = ServerNetworks(desk)
        for begin in range(3):
            servers = [f"{begin * 20 + n:08x}-0000-8000-8000-000000000000" for n in range(20)]
            await serving.allocate(who, NetworkPlan((NetworkWish(network, "n"),), ("default",)), servers)
        found = {one["mac_address"] for one in (await cloud.ok("GET", "/ports"))["ports"]}
        assert len(found) == 60
        with pytest.raises(Conflict, match="mac"):
            await serving.allocate(
                who, _plan(network), [f"{n:08x}-0000-8000-8000-000000000000" for n in range(99, 109)]
            )

    run(play)
