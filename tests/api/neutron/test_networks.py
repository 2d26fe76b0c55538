"""Networks, subnets and pools: what fits together, who sees what, lists in pages, revisions, limits."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest

from banyan.core.network_quota import NETWORK_DEFAULTS
from tests.api.neutron.cloud import Cloud, run

NONE = "f0000000-0000-4000-8000-000000000000"


def test_a_network_is_made_shown_changed_and_deleted() -> None:
    async def play(cloud: Cloud) -> None:
        made = await cloud.make("network", name="blue", description="d", mtu="1400")
        assert (made["name"], made["mtu"], made["status"], made["shared"]) == ("blue", 1400, "ACTIVE", False)
        assert made["project_id"] == made["tenant_id"] == "p1" and made["revision_number"] == 1
        assert made["subnets"] == [] and made["banyan:reach"] == "zone"
        # Segments are the operator's.
        assert "provider:network_type" not in made
        path = f"/networks/{made['id']}"
        changed = (await cloud.ok("PUT", path, {"network": {"name": "red", "admin_state_up": "false"}}))["network"]
        assert (changed["name"], changed["admin_state_up"], changed["revision_number"]) == ("red", False, 2)
        assert (await cloud.ok("GET", f"{path}?fields=id&fields=mtu")) == {"network": {"id": made["id"], "mtu": 1400}}
        await cloud.ok("DELETE", path)
        assert (await cloud.refused(404, "GET", path))["type"] == "NetworkNotFound"

    run(play)


def test_another_project_s_things_are_not_there() -> None:
    async def play(cloud: Cloud) -> None:
        network, subnet = await cloud.net()
        port = (await cloud.port(network))["id"]
        router = (await cloud.make("router", name="r"))["id"]
        group = (await cloud.make("security_group", name="g"))["id"]
        for path in (f"networks/{network}", f"subnets/{subnet}", f"ports/{port}", f"routers/{router}",
                     f"security-groups/{group}"):  # fmt: skip
            kind = path.split("/")[0]
            for method in ("GET", "DELETE"):
                await cloud.refused(404, method, f"/{path}", token="other")
            await cloud.refused(404, "GET", f"/{path}/tags", token="other")
            listed = await cloud.ok("GET", f"/{kind}", token="other")
            assert path.split("/")[1] not in str(listed), kind
        await cloud.refused(404, "POST", "/subnets", _subnet(network, "10.9.0.0/24"), token="other")
        await cloud.refused(404, "POST", "/ports", {"port": {"network_id": network}}, token="other")
        wanted = {"security_group_id": group, "direction": "ingress"}
        await cloud.refused(404, "POST", "/security-group-rules", {"security_group_rule": wanted}, token="other")
        mine, _ = await cloud.net(token="other")
        given = {"port": {"network_id": mine, "security_groups": [group]}}
        await cloud.refused(404, "POST", "/ports", given, token="other")
        # Nor can a thing be made for another project, but by an administrator.
        await cloud.refused(403, "POST", "/networks", {"network": {"project_id": "p1"}}, token="other")
        made = await cloud.make("network", "admin", project_id="p2")
        assert made["project_id"] == "p2"
        assert (await cloud.ok("GET", f"/networks/{made['id']}", token="other"))["network"]["id"] == made["id"]

    run(play)


def _subnet(network: str, cidr: str, **more: object) -> dict[str, object]:
    return {"subnet": {"network_id": network, "cidr": cidr, "ip_version": 6 if ":" in cidr else 4, **more}}


def test_a_shared_network_is_used_by_all_and_changed_by_its_owner() -> None:
    async def play(cloud: Cloud) -> None:
        await cloud.refused(403, "POST", "/networks", {"network": {"shared": True}})
        network = (await cloud.make("network", "admin", name="s", shared=True))["id"]
        subnet = (await cloud.ok("POST", "/subnets", _subnet(network, "10.0.0.0/24"), "admin"))["subnet"]["id"]
        assert (await cloud.ok("GET", f"/networks/{network}", token="other"))["network"]["subnets"] == [subnet]
        assert [one["id"] for one in (await cloud.ok("GET", "/subnets", token="other"))["subnets"]] == [subnet]
        assert (await cloud.port(network, "other"))["fixed_ips"][0]["subnet_id"] == subnet
        for method, path in (("PUT", f"/networks/{network}"), ("PUT", f"/subnets/{subnet}")):
            body = {"network" if "networks" in path else "subnet": {"name": "x"}}
            assert (await cloud.refused(403, method, path, body, "other"))["type"] == "PolicyNotAuthorized"
        await cloud.refused(403, "POST", "/subnets", _subnet(network, "10.1.0.0/24"), "other")
        # An address of its own choice, on somebody else's network, is not the guest's to take.
        fixed = [{"ip_address": "10.0.0.77"}]
        await cloud.refused(403, "POST", "/ports", {"port": {"network_id": network, "fixed_ips": fixed}}, "other")
        said = await cloud.refused(409, "PUT", f"/networks/{network}", {"network": {"shared": False}}, "admin")
        assert said["type"] == "InvalidSharedSetting"

    run(play)


def test_what_only_an_operator_says_of_a_network() -> None:
    async def play(cloud: Cloud) -> None:
        fields = {"provider:network_type": "vlan", "provider:segmentation_id": 7, "provider:physical_network": "a"}
        for field in ({"router:external": True}, fields, {"is_default": True}, {"banyan:zones": ["top"]}):
            await cloud.refused(403, "POST", "/networks", {"network": field})
        made = await cloud.make("network", "admin", **fields)
        assert made["provider:segmentation_id"] == 7
        said = await cloud.refused(409, "POST", "/networks", {"network": fields}, "admin")
        assert said["type"] == "VlanIdInUse"
        wrong = {"provider:network_type": "vlan", "provider:segmentation_id": 5000}
        await cloud.refused(400, "POST", "/networks", {"network": wrong}, "admin")
        await cloud.refused(400, "POST", "/networks", {"network": {"banyan:reach": "provider"}}, "admin")
        reach = {"banyan:reach": "provider", "banyan:zones": ["top/a", "top/b"]}
        assert (await cloud.make("network", "admin", **reach))["banyan:zones"] == ["top/a", "top/b"]

    run(play)


def test_many_are_made_at_once_or_none() -> None:
    async def play(cloud: Cloud) -> None:
        made = await cloud.ok("POST", "/networks", {"networks": [{"name": "a"}, {"name": "b"}]})
        assert [one["name"] for one in made["networks"]] == ["a", "b"]
        network = made["networks"][0]["id"]
        some = [_subnet(network, cidr)["subnet"] for cidr in ("10.0.0.0/24", "10.0.1.0/24", "10.0.0.128/25")]
        await cloud.refused(400, "POST", "/subnets", {"subnets": some})
        assert (await cloud.ok("GET", "/subnets"))["subnets"] == []
        await cloud.refused(400, "POST", "/networks", {"networks": []})

    run(play)


@pytest.mark.parametrize(
    ("cidr", "more", "gateway", "pools"),
    [
        ("10.0.0.0/24", {}, "10.0.0.1", [("10.0.0.2", "10.0.0.254")]),
        ("10.0.0.0/24", {"gateway_ip": None}, None, [("10.0.0.1", "10.0.0.254")]),
        ("10.0.0.0/24", {"gateway_ip": "10.0.0.9"}, "10.0.0.9",
         [("10.0.0.1", "10.0.0.8"), ("10.0.0.10", "10.0.0.254")]),
        ("10.0.0.0/30", {}, "10.0.0.1", [("10.0.0.2", "10.0.0.2")]),
        ("10.0.0.0/31", {}, "10.0.0.0", [("10.0.0.1", "10.0.0.1")]),
        ("10.0.0.5/32", {}, None, [("10.0.0.5", "10.0.0.5")]),
        ("2001:db8::/64", {}, "2001:db8::1", [("2001:db8::2", "2001:db8::ffff:ffff:ffff:ffff")]),
    ],
)  # fmt: skip
def test_a_subnet_has_the_usual_gateway_and_pools(cidr: str, more: Any, gateway: Any, pools: Any) -> None:
    async def play(cloud: Cloud) -> None:
        network = (await cloud.make("network"))["id"]
        made = (await cloud.ok("POST", "/subnets", _subnet(network, cidr, **more)))["subnet"]
        assert made["gateway_ip"] == gateway
        assert made["allocation_pools"] == [{"start": first, "end": last} for first, last in pools]

    run(play)


@pytest.mark.parametrize(
    ("cidr", "more", "status", "word"),
    [
        ("10.0.0.1/24", {}, 400, "10.0.0.0/24"),
        ("10.0.0.0", {}, 400, "recommended"),
        ("nonsense", {}, 400, "cidr"),
        ("0.0.0.0/0", {}, 400, "prefix length"),
        ("224.0.0.0/24", {}, 400, "multicast"),
        ("10.0.0.0/24", {"ip_version": 6}, 400, "ip_version"),
        ("10.0.0.0/24", {"gateway_ip": "10.0.0.255"}, 400, "Gateway"),
        ("10.0.0.0/24", {"gateway_ip": "2001:db8::1"}, 400, "gateway_ip"),
        ("10.0.0.0/24", {"allocation_pools": [{"start": "10.0.0.1", "end": "10.0.0.9"}]}, 409, "conflicts"),
        ("10.0.0.0/24", {"allocation_pools": [{"start": "10.0.0.9", "end": "10.0.0.3"}]}, 400, "not valid"),
        ("10.0.0.0/24", {"allocation_pools": [{"start": "10.0.0.9", "end": "10.0.1.3"}]}, 400, "beyond"),
        ("10.0.0.0/24", {"allocation_pools": [{"start": "10.0.0.3", "end": "10.0.0.6"},
                                              {"start": "10.0.0.6", "end": "10.0.0.9"}]}, 409, "overlap"),
        ("10.0.0.0/24", {"host_routes": [{"destination": "2001:db8::/64", "nexthop": "10.0.0.1"}]}, 400, "route"),
        ("10.0.0.0/24", {"ipv6_ra_mode": "slaac"}, 400, "ip_version is 4"),
        ("2001:db8::/65", {"ipv6_address_mode": "slaac"}, 400, "/64"),
        ("2001:db8::/64", {"ipv6_ra_mode": "slaac", "ipv6_address_mode": "dhcpv6-stateful"}, 400, "same value"),
        ("2001:db8::/64", {"ipv6_ra_mode": "slaac", "enable_dhcp": False}, 400, "enable_dhcp"),
    ],
)  # fmt: skip
def test_a_subnet_that_does_not_fit_together_is_refused(cidr: str, more: Any, status: int, word: str) -> None:
    async def play(cloud: Cloud) -> None:
        network = (await cloud.make("network"))["id"]
        said = await cloud.refused(status, "POST", "/subnets", _subnet(network, cidr, **more))
        assert word in said["message"], said

    run(play)


@pytest.mark.parametrize("cidr", ["10.0.0.0/24", "10.0.0.128/25", "10.0.0.0/16", "10.0.0.77/32"])
def test_subnets_of_a_network_do_not_overlap(cidr: str) -> None:
    async def play(cloud: Cloud) -> None:
        network, _ = await cloud.net("10.0.0.0/24")
        said = await cloud.refused(400, "POST", "/subnets", _subnet(network, cidr))
        assert "overlaps" in said["message"]
        # On another network they may.
        await cloud.net(cidr)

    run(play)


def test_pools_may_move_and_what_is_taken_stays_taken() -> None:
    async def play(cloud: Cloud) -> None:
        network, subnet = await cloud.net()
        first = (await cloud.port(network))["fixed_ips"][0]["ip_address"]
        assert first == "10.0.0.2"
        pools = [{"start": "10.0.0.2", "end": "10.0.0.3"}]
        await cloud.ok("PUT", f"/subnets/{subnet}", {"subnet": {"allocation_pools": pools}})
        assert (await cloud.port(network))["fixed_ips"][0]["ip_address"] == "10.0.0.3"
        said = await cloud.refused(409, "POST", "/ports", {"port": {"network_id": network}})
        assert said["type"] == "IpAddressGenerationFailure"
        assert await cloud.used(subnet) == 2

    run(play)


def test_a_subnet_in_use_stays_and_a_network_with_ports_too() -> None:
    async def play(cloud: Cloud) -> None:
        network, subnet = await cloud.net()
        port = (await cloud.port(network))["id"]
        assert (await cloud.refused(409, "DELETE", f"/subnets/{subnet}"))["type"] == "SubnetInUse"
        assert (await cloud.refused(409, "DELETE", f"/networks/{network}"))["type"] == "NetworkInUse"
        await cloud.ok("DELETE", f"/ports/{port}")
        # With the network goes what is left of it.
        await cloud.ok("DELETE", f"/networks/{network}")
        await cloud.refused(404, "GET", f"/subnets/{subnet}")
        used = (await cloud.ok("GET", "/quotas/p1/details"))["quota"]
        assert used["network"]["used"] == used["subnet"]["used"] == used["port"]["used"] == 0

    run(play)


def test_a_subnet_is_cut_from_a_pool() -> None:
    async def play(cloud: Cloud) -> None:
        fields = {"prefixes": ["10.0.0.0/22"], "default_prefixlen": 24, "min_prefixlen": 23, "default_quota": 768}
        pool = (await cloud.make("subnetpool", name="p", **fields))["id"]
        network = (await cloud.make("network"))["id"]

        async def cut(**more: object) -> str:
            body = {"subnet": {"network_id": network, "ip_version": 4, "subnetpool_id": pool, **more}}
            return str((await cloud.ok("POST", "/subnets", body))["subnet"]["cidr"])

        assert await cut() == "10.0.0.0/24"
        assert await cut(prefixlen=25) == "10.0.1.0/25"
        assert await cut(cidr="10.0.3.0/25") == "10.0.3.0/25"
        assert await cut() == "10.0.2.0/24"
        body = {"subnet": {"network_id": network, "ip_version": 4, "subnetpool_id": pool}}
        assert (await cloud.refused(409, "POST", "/subnets", body))["type"] == "SubnetAllocationError"
        one = {"subnet": {**body["subnet"], "cidr": "10.0.0.0/25"}}
        await cloud.refused(409, "POST", "/subnets", one)
        over = {"subnet": {**body["subnet"], "prefixlen": 25}}
        assert (await cloud.refused(409, "POST", "/subnets", over))["type"] == "OverQuota"
        await cloud.refused(400, "POST", "/subnets", {"subnet": {**body["subnet"], "prefixlen": 22}})
        await cloud.refused(409, "DELETE", f"/subnetpools/{pool}")
        less = {"subnetpool": {"prefixes": ["10.0.0.0/23"]}}
        await cloud.refused(400, "PUT", f"/subnetpools/{pool}", less)

    run(play)


def test_a_list_is_filtered_sorted_and_paged_both_ways() -> None:
    async def play(cloud: Cloud) -> None:
        ids = [(await cloud.make("network", name=f"n{n // 2}", mtu=1400 + n))["id"] for n in range(5)]

        async def names(query: str) -> list[int]:
            return [one["mtu"] - 1400 for one in (await cloud.ok("GET", f"/networks?{query}"))["networks"]]

        assert sorted(await names("")) == [0, 1, 2, 3, 4]
        assert sorted(await names("name=n0&name=n2")) == [0, 1, 4]
        assert await names("sort_key=name&sort_dir=desc&sort_key=mtu&sort_dir=asc") == [4, 2, 3, 0, 1]
        assert await names("id=" + ids[3]) == [3] and await names("shared=true") == []
        for wrong in ("name2=x", "sort_key=subnets", "sort_dir=asc", "sort_key=name&sort_dir=up", "limit=x",
                      f"marker={NONE}", "mtu=many", "shared=perhaps"):  # fmt: skip
            await cloud.refused(400, "GET", f"/networks?{wrong}")
        query, found = "sort_key=mtu&limit=2", []
        while query:
            answer = await cloud.ok("GET", f"/networks?{query}")
            found += [one["mtu"] - 1400 for one in answer["networks"]]
            links = {one["rel"]: urlsplit(one["href"]) for one in answer.get("networks_links", [])}
            query = links["next"].query if "next" in links else ""
            if "next" in links:
                assert links["next"].path == "/network/v2.0/networks"
        assert found == [0, 1, 2, 3, 4]
        answer = await cloud.ok("GET", f"/networks?sort_key=mtu&limit=2&marker={ids[4]}&page_reverse=true")
        assert [one["mtu"] - 1400 for one in answer["networks"]] == [2, 3]
        links = {one["rel"]: dict(parse_qsl(urlsplit(one["href"]).query)) for one in answer["networks_links"]}
        assert links["previous"]["marker"] == ids[2] and links["next"]["marker"] == ids[3]
        assert await cloud.ok("GET", "/networks?limit=0") == {"networks": []}

    run(play)


def test_tags_are_set_and_found() -> None:
    async def play(cloud: Cloud) -> None:
        one, two = [(await cloud.make("network", name=name))["id"] for name in ("a", "b")]
        await cloud.ok("PUT", f"/networks/{one}/tags", {"tags": ["red", "blue"]})
        assert (await cloud.ok("GET", f"/networks/{one}/tags"))["tags"] == ["red", "blue"]
        await cloud.ok("PUT", f"/networks/{two}/tags/red")
        for query, wanted in (("tags=red,blue", "a"), ("tags-any=blue", "a"), ("not-tags=red,blue", "b"),
                              ("tags=red", "ab"), ("not-tags-any=red", "")):  # fmt: skip
            found = (await cloud.ok("GET", f"/networks?{query}&sort_key=name"))["networks"]
            assert "".join(network["name"] for network in found) == wanted, query
        await cloud.refused(404, "DELETE", f"/networks/{two}/tags/none")
        for wrong in (["a,b"], [""], ["a", "a"], ["x" * 256], [str(n) for n in range(51)]):
            await cloud.refused(400, "PUT", f"/networks/{one}/tags", {"tags": wrong})

    run(play)


def test_a_change_meets_the_revision_that_was_seen() -> None:
    async def play(cloud: Cloud) -> None:
        made = await cloud.make("network", name="a")
        path, body = f"/networks/{made['id']}", {"network": {"name": "b"}}
        await cloud.ok("PUT", path, body, headers={"If-Match": "revision_number=1"})
        said = await cloud.refused(412, "PUT", path, body, headers={"If-Match": "revision_number=1"})
        assert said["type"] == "RevisionNumberConstraintFailed"
        await cloud.refused(412, "DELETE", path, headers={"If-Match": "revision_number=7"})
        await cloud.refused(400, "DELETE", path, headers={"If-Match": "nonsense"})
        await cloud.ok("DELETE", path, headers={"If-Match": '"revision_number=2"'})

    run(play)


def test_a_project_makes_no_more_than_its_limits() -> None:
    async def play(cloud: Cloud) -> None:
        quota = {"network": 2, "subnet": 1, "port": 3, "router": 0, "security_group": 2, "security_group_rule": 5,
                 "subnetpool": 0, "floatingip": 0}  # fmt: skip
        assert (await cloud.ok("PUT", "/quotas/p1", {"quota": quota}, "admin"))["quota"] == quota
        network, _ = await cloud.net()
        await cloud.make("network")
        out = await cloud.outside()
        group = (await cloud.make("security_group", name="g"))["id"]
        for _ in range(3):
            await cloud.port(network)
        over: list[tuple[str, dict[str, object]]] = [
            ("/networks", {"network": {}}),
            ("/subnets", _subnet(network, "10.1.0.0/24")),
            ("/ports", {"port": {"network_id": network}}),
            ("/ports", {"ports": [{"network_id": network}] * 2}),
            ("/routers", {"router": {}}),
            ("/subnetpools", {"subnetpool": {"name": "p", "prefixes": ["10.0.0.0/8"]}}),
            ("/floatingips", {"floatingip": {"floating_network_id": out}}),
            ("/security-groups", {"security_group": {"name": "h"}}),
            ("/security-group-rules", {"security_group_rule": {"security_group_id": group, "direction": "ingress"}}),
        ]
        for path, body in over:
            assert (await cloud.refused(409, "POST", path, body))["type"] == "OverQuota", path
        # What was given back may be had again.
        ports = (await cloud.ok("GET", "/ports"))["ports"]
        await cloud.ok("DELETE", f"/ports/{ports[0]['id']}")
        await cloud.port(network)
        details = (await cloud.ok("GET", "/quotas/p1/details"))["quota"]
        assert details["port"] == {"limit": 3, "used": 3, "reserved": 0}
        await cloud.refused(403, "PUT", "/quotas/p1", {"quota": {"port": 9}})
        await cloud.refused(400, "PUT", "/quotas/p1", {"quota": {"port": -2}}, "admin")
        assert [one["project_id"] for one in (await cloud.ok("GET", "/quotas", token="admin"))["quotas"]] == ["p1"]
        await cloud.ok("DELETE", "/quotas/p1", token="admin")
        assert (await cloud.ok("GET", "/quotas/p1"))["quota"]["port"] == NETWORK_DEFAULTS[_port()]

    run(play)


def _port() -> Any:
    from banyan.core.network import Kind

    return Kind.PORT


def test_how_many_addresses_a_network_has_and_gave_out() -> None:
    async def play(cloud: Cloud) -> None:
        network, subnet = await cloud.net()
        for _ in range(3):
            await cloud.port(network)
        found = await cloud.ok("GET", f"/network-ip-availabilities/{network}", token="admin")
        one = found["network_ip_availability"]
        assert (one["total_ips"], one["used_ips"]) == (253, 3)
        assert one["subnet_ip_availability"][0]["subnet_id"] == subnet
        listed = await cloud.ok("GET", f"/network-ip-availabilities?network_id={network}", token="admin")
        assert listed["network_ip_availabilities"] == [one]

    run(play)


def test_an_external_network_is_seen_by_all_and_its_subnets_are_not() -> None:
    async def play(cloud: Cloud) -> None:
        out = await cloud.outside()
        shown = (await cloud.ok("GET", f"/networks/{out}"))["network"]
        assert shown["router:external"] is True and shown["subnets"] == []
        assert out in str(await cloud.ok("GET", "/networks?router:external=True", token="other"))
        assert (await cloud.ok("GET", "/subnets"))["subnets"] == []
        await cloud.make("floatingip", floating_network_id=out)
        said = await cloud.refused(409, "PUT", f"/networks/{out}", {"network": {"router:external": False}}, "admin")
        assert said["type"] == "ExternalNetworkInUse"

    run(play)
