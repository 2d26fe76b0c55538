"""Ports: addresses given once and given back, MACs, security groups, what their owner may say, and IPv6."""

from __future__ import annotations

from typing import Any

import pytest

from tests.api.neutron.cloud import Cloud, run
from tests.api.neutron.test_networks import _subnet


def addresses(port: dict[str, Any]) -> list[str]:
    return [fixed["ip_address"] for fixed in port["fixed_ips"]]


def test_each_port_has_an_address_and_a_mac_of_its_own() -> None:
    async def play(cloud: Cloud) -> None:
        network, subnet = await cloud.net("10.0.0.0/29")
        made = [await cloud.port(network) for _ in range(5)]
        assert sorted(one for port in made for one in addresses(port)) == [f"10.0.0.{n}" for n in range(2, 7)]
        assert len({one["mac_address"] for one in made}) == 5
        said = await cloud.refused(409, "POST", "/ports", {"port": {"network_id": network}})
        assert said["type"] == "IpAddressGenerationFailure" and network in said["message"]
        await cloud.ok("DELETE", f"/ports/{made[2]['id']}")
        assert addresses(await cloud.port(network)) == addresses(made[2])
        assert await cloud.used(subnet) == 5

    run(play)


def test_a_port_may_ask_for_addresses() -> None:
    async def play(cloud: Cloud) -> None:
        network, near = await cloud.net("10.0.0.0/24")
        far = (await cloud.ok("POST", "/subnets", _subnet(network, "10.0.1.0/24")))["subnet"]["id"]
        _, elsewhere = await cloud.net("10.0.0.0/24")

        async def port(*fixed: dict[str, str], status: int = 201) -> Any:
            answer = await cloud.ask("POST", "/ports", {"port": {"network_id": network, "fixed_ips": list(fixed)}})
            assert answer.status_code == status, answer.text
            return answer.json().get("port", answer.json().get("NeutronError"))

        assert addresses(await port({"ip_address": "10.0.1.9"})) == ["10.0.1.9"]
        assert addresses(await port({"subnet_id": near}, {"subnet_id": far})) == ["10.0.0.2", "10.0.1.2"]
        assert addresses(await port()) == []
        # Outside of the pools, but within the subnet.
        assert addresses(await port({"subnet_id": near, "ip_address": "10.0.0.1"})) == ["10.0.0.1"]
        assert (await port({"ip_address": "10.0.1.9"}, status=409))["type"] == "IpAddressInUse"
        assert (await port({"ip_address": "10.0.2.9"}, status=400))["type"] == "InvalidIpForNetwork"
        for wrong in ("10.0.0.0", "10.0.0.255"):
            await port({"subnet_id": near, "ip_address": wrong}, status=400)
        await port({"subnet_id": near, "ip_address": "10.0.1.3"}, status=400)
        await port({"subnet_id": elsewhere}, status=400)
        await port({"ip_address": "10.0.0.5"}, {"ip_address": "10.0.0.5"}, status=400)
        # Of what was refused nothing is kept.
        assert await cloud.used(near) == 2 and await cloud.used(far) == 2

    run(play)


def test_addresses_are_changed_and_each_old_one_is_free_again() -> None:
    async def play(cloud: Cloud) -> None:
        network, subnet = await cloud.net()
        port = await cloud.port(network)
        path = f"/ports/{port['id']}"

        async def change(*fixed: dict[str, str]) -> list[str]:
            body = {"port": {"fixed_ips": list(fixed)}}
            return addresses((await cloud.ok("PUT", path, body))["port"])

        assert await change({"ip_address": "10.0.0.50"}) == ["10.0.0.50"]
        # What it has may be named by its subnet.
        assert await change({"subnet_id": subnet}) == ["10.0.0.50"]
        assert await change({"subnet_id": subnet}, {"subnet_id": subnet}) == ["10.0.0.50", "10.0.0.2"]
        assert await change({"ip_address": "10.0.0.2"}) == ["10.0.0.2"]
        other = await cloud.port(network)
        fixed = {"port": {"fixed_ips": [{"ip_address": addresses(other)[0]}]}}
        await cloud.refused(409, "PUT", path, fixed)
        assert addresses((await cloud.ok("GET", path))["port"]) == ["10.0.0.2"]
        assert await change() == []
        assert await cloud.used(subnet) == 1

    run(play)


def test_a_mac_is_chosen_once_in_a_network() -> None:
    async def play(cloud: Cloud) -> None:
        network, _ = await cloud.net()
        made = await cloud.port(network, mac_address="FA-16-3E-00-00-01")
        assert made["mac_address"] == "fa:16:3e:00:00:01"
        body = {"port": {"network_id": network, "mac_address": made["mac_address"]}}
        assert (await cloud.refused(409, "POST", "/ports", body))["type"] == "MacAddressInUse"
        other, _ = await cloud.net()
        await cloud.port(other, mac_address=made["mac_address"])
        for wrong in ("01:00:5e:00:00:01", "00:00:00:00:00:00", "fa:16:3e", "x"):
            await cloud.refused(400, "POST", "/ports", {"port": {"network_id": network, "mac_address": wrong}})

    run(play)


def test_a_port_has_the_default_group_unless_it_says_otherwise() -> None:
    async def play(cloud: Cloud) -> None:
        network, _ = await cloud.net()
        groups = (await cloud.ok("GET", "/security-groups?name=default"))["security_groups"]
        assert len(groups) == 1
        default = groups[0]["id"]
        assert (await cloud.port(network))["security_groups"] == [default]
        assert (await cloud.port(network, security_groups=[]))["security_groups"] == []
        plain = await cloud.port(network, port_security_enabled=False)
        assert plain["security_groups"] == [] and plain["port_security_enabled"] is False
        wrong = {"network_id": network, "port_security_enabled": False, "security_groups": [default]}
        await cloud.refused(400, "POST", "/ports", {"port": wrong})
        pairs = {"network_id": network, "port_security_enabled": False,
                 "allowed_address_pairs": [{"ip_address": "10.0.0.9"}]}  # fmt: skip
        await cloud.refused(409, "POST", "/ports", {"port": pairs})
        assert (await cloud.refused(409, "DELETE", f"/security-groups/{default}"))["type"] == "SecurityGroupInUse"
        found = (await cloud.ok("GET", f"/ports?security_groups={default}"))["ports"]
        assert len(found) == 1

    run(play)


def test_options_and_pairs_of_a_port() -> None:
    async def play(cloud: Cloud) -> None:
        network, _ = await cloud.net()
        options = [{"opt_name": "bootfile-name", "opt_value": "pxe"}, {"opt_name": "mtu", "opt_value": "1400"}]
        pairs = [{"ip_address": "10.0.0.0/28"}, {"ip_address": "10.0.0.9", "mac_address": "fa:16:3e:00:00:09"}]
        port = await cloud.port(network, extra_dhcp_opts=options, allowed_address_pairs=pairs)
        assert port["allowed_address_pairs"][0] == {"ip_address": "10.0.0.0/28", "mac_address": port["mac_address"]}
        assert port["extra_dhcp_opts"][1] == {"opt_name": "mtu", "opt_value": "1400", "ip_version": 4}
        # Options are changed one by one; null takes one away.
        change = [{"opt_name": "mtu", "opt_value": None}, {"opt_name": "tftp-server", "opt_value": "10.0.0.3"}]
        changed = (await cloud.ok("PUT", f"/ports/{port['id']}", {"port": {"extra_dhcp_opts": change}}))["port"]
        assert [one["opt_name"] for one in changed["extra_dhcp_opts"]] == ["bootfile-name", "tftp-server"]
        twice = {"port": {"allowed_address_pairs": [pairs[1], pairs[1]]}}
        await cloud.refused(400, "PUT", f"/ports/{port['id']}", twice)
        many = {"port": {"allowed_address_pairs": [{"ip_address": f"10.0.0.{n}"} for n in range(11)]}}
        await cloud.refused(400, "PUT", f"/ports/{port['id']}", many)

    run(play)


def test_what_a_binding_is_only_administrators_say_and_see() -> None:
    async def play(cloud: Cloud) -> None:
        network, _ = await cloud.net()
        port = await cloud.port(network, **{"binding:vnic_type": "direct"})
        assert port["binding:vnic_type"] == "direct" and "binding:host_id" not in port
        path = f"/ports/{port['id']}"
        for field in ({"binding:host_id": "h"}, {"binding:profile": {"a": 1}}, {"mac_address": "fa:16:3e:00:00:77"}):
            await cloud.refused(403, "PUT", path, {"port": field})
            await cloud.ok("PUT", path, {"port": field}, "admin")
        shown = (await cloud.ok("GET", path, token="admin"))["port"]
        assert (shown["binding:host_id"], shown["binding:profile"]) == ("h", {"a": 1})

    run(play)


def test_ports_are_found_by_address_and_subnet() -> None:
    async def play(cloud: Cloud) -> None:
        network, subnet = await cloud.net()
        one, two = await cloud.port(network, name="a"), await cloud.port(network, name="b")

        async def names(query: str) -> list[str]:
            return [port["name"] for port in (await cloud.ok("GET", f"/ports?{query}&sort_key=name"))["ports"]]

        assert await names(f"fixed_ips=ip_address={addresses(one)[0]}") == ["a"]
        assert await names(f"fixed_ips=subnet_id={subnet}") == ["a", "b"]
        assert await names(f"fixed_ips=subnet_id={subnet}&fixed_ips=ip_address={addresses(two)[0]}") == ["b"]
        assert await names(f"mac_address={two['mac_address']}&network_id={network}") == ["b"]
        await cloud.refused(400, "GET", "/ports?fixed_ips=address=1")

    run(play)


@pytest.mark.parametrize("mode", ["slaac", "dhcpv6-stateless"])
def test_an_address_of_ipv6_follows_from_the_mac(mode: str) -> None:
    async def play(cloud: Cloud) -> None:
        network, four = await cloud.net()
        fields = {"ipv6_ra_mode": mode, "ipv6_address_mode": mode}
        six = (await cloud.ok("POST", "/subnets", _subnet(network, "2001:db8::/64", **fields)))["subnet"]["id"]
        port = await cloud.port(network, mac_address="fa:16:3e:01:02:03")
        assert addresses(port) == ["10.0.0.2", "2001:db8::f816:3eff:fe01:203"]
        # It comes beside what was asked for, unless nothing was to be had.
        assert len(addresses(await cloud.port(network, fixed_ips=[{"subnet_id": four}]))) == 2
        assert addresses(await cloud.port(network, fixed_ips=[])) == []
        fixed = [{"subnet_id": six, "ip_address": "2001:db8::77"}]
        await cloud.refused(400, "POST", "/ports", {"port": {"network_id": network, "fixed_ips": fixed}})
        # Such a subnet goes although ports have its addresses: they lose them.
        await cloud.ok("DELETE", f"/subnets/{six}")
        assert addresses((await cloud.ok("GET", f"/ports/{port['id']}"))["port"]) == ["10.0.0.2"]

    run(play)


def test_ports_made_together_have_different_addresses() -> None:
    async def play(cloud: Cloud) -> None:
        network, subnet = await cloud.net("10.0.0.0/22")
        made = (await cloud.ok("POST", "/ports", {"ports": [{"network_id": network}] * 300}))["ports"]
        found = [one for port in made for one in addresses(port)]
        assert len(set(found)) == 300 == await cloud.used(subnet)
        listed = await cloud.ok("GET", "/ports?limit=250")
        assert len(listed["ports"]) == 250 and listed["ports_links"][0]["rel"] == "next"

    run(play)


def test_the_owner_of_a_network_sees_and_unplugs_what_is_on_it() -> None:
    async def play(cloud: Cloud) -> None:
        network = (await cloud.make("network", "admin", name="s", shared=True, project_id="p1"))["id"]
        await cloud.ok("POST", "/subnets", _subnet(network, "10.0.0.0/24"))
        guest = await cloud.port(network, "other")
        assert guest["id"] in str(await cloud.ok("GET", "/ports"))
        await cloud.ok("DELETE", f"/ports/{guest['id']}")
        await cloud.refused(404, "GET", f"/ports/{guest['id']}", token="other")

    run(play)
