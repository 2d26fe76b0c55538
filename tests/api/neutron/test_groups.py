"""Security groups and rules: the default one of each project, what a rule may say, and what stands in the way."""

from __future__ import annotations

from typing import Any

import pytest

from tests.api.neutron.cloud import Cloud, run


async def rule(cloud: Cloud, group: str, status: int = 201, **fields: object) -> Any:
    body = {"security_group_rule": {"security_group_id": group, "direction": "ingress", **fields}}
    answer = await cloud.ask("POST", "/security-group-rules", body)
    assert answer.status_code == status, answer.text
    return answer.json().get("security_group_rule", answer.json().get("NeutronError"))


def test_each_project_has_one_default_group() -> None:
    async def play(cloud: Cloud) -> None:
        mine = (await cloud.ok("GET", "/security-groups"))["security_groups"]
        assert [one["name"] for one in mine] == ["default"]
        rules = mine[0]["security_group_rules"]
        assert sorted((one["direction"], one["ethertype"], one["remote_group_id"]) for one in rules) == sorted(
            [("egress", "IPv4", None), ("egress", "IPv6", None),
             ("ingress", "IPv4", mine[0]["id"]), ("ingress", "IPv6", mine[0]["id"])],
            key=str,
        )  # fmt: skip
        others = (await cloud.ok("GET", "/security-groups", token="other"))["security_groups"]
        assert len(others) == 1 and others[0]["id"] != mine[0]["id"]
        path = f"/security-groups/{mine[0]['id']}"
        await cloud.refused(409, "POST", "/security-groups", {"security_group": {"name": "default"}})
        await cloud.refused(409, "PUT", path, {"security_group": {"name": "x"}})
        await cloud.refused(409, "DELETE", path)
        # An administrator may, as the end of a project wants it.
        await cloud.ok("DELETE", path, token="admin")
        assert len((await cloud.ok("GET", "/security-groups"))["security_groups"]) == 1

    run(play)


def test_a_group_lets_everything_out_and_goes_with_its_rules() -> None:
    async def play(cloud: Cloud) -> None:
        made = await cloud.make("security_group", name="web", description="d")
        assert sorted(one["ethertype"] for one in made["security_group_rules"]) == ["IPv4", "IPv6"]
        other = await cloud.make("security_group", name="db")
        pointing = await rule(cloud, other["id"], remote_group_id=made["id"])
        await cloud.refused(409, "PUT", f"/security-groups/{made['id']}", {"security_group": {"name": "Default"}})
        await cloud.ok("DELETE", f"/security-groups/{made['id']}")
        await cloud.refused(404, "GET", f"/security-group-rules/{made['security_group_rules'][0]['id']}")
        await cloud.refused(404, "GET", f"/security-group-rules/{pointing['id']}")
        used = (await cloud.ok("GET", "/quotas/p1/details"))["quota"]
        # The default group's four, and the other's two.
        assert (used["security_group"]["used"], used["security_group_rule"]["used"]) == (2, 6)

    run(play)


def test_a_rule_is_kept_as_it_was_said() -> None:
    async def play(cloud: Cloud) -> None:
        group = (await cloud.make("security_group", name="g"))["id"]
        made = await rule(
            cloud, group, protocol="tcp", port_range_min=80, port_range_max=90, remote_ip_prefix="10.1.2.3"
        )
        assert (made["protocol"], made["port_range_min"], made["remote_ip_prefix"]) == ("tcp", 80, "10.1.2.3/32")
        assert (await rule(cloud, group, protocol=17))["protocol"] == "17"
        assert (await rule(cloud, group, protocol="icmp", port_range_min=8, port_range_max=0))["port_range_max"] == 0
        six = await rule(cloud, group, ethertype="IPv6", protocol="icmpv6")
        assert six["ethertype"] == "IPv6"
        listed = await cloud.ok("GET", f"/security-group-rules?security_group_id={group}&direction=ingress")
        assert len(listed["security_group_rules"]) == 4
        shown = (await cloud.ok("GET", f"/security-groups/{group}"))["security_group"]
        assert len(shown["security_group_rules"]) == 6 and shown["revision_number"] > 1
        await cloud.ok("DELETE", f"/security-group-rules/{made['id']}")

    run(play)


@pytest.mark.parametrize(
    ("fields", "status", "word"),
    [
        ({"protocol": "tcp", "port_range_min": -16, "port_range_max": 80}, 400, "Invalid value for port -16"),
        ({"protocol": "tcp", "port_range_min": 80, "port_range_max": 65536}, 400, "Invalid value for port 65536"),
        ({"protocol": "tcp", "port_range_min": 80, "port_range_max": 79}, 400, "must be <= port_range_max"),
        ({"protocol": "tcp", "port_range_max": 6}, 400, "must be <= port_range_max"),
        ({"port_range_min": 1, "port_range_max": 2}, 400, "protocol"),
        ({"protocol": "gre", "port_range_min": 1, "port_range_max": 2}, 400, "gre"),
        ({"protocol": "icmp", "port_range_min": 300}, 400, "Invalid value for ICMP type"),
        ({"protocol": "icmp", "port_range_max": 6}, 400, "is missing"),
        ({"protocol": "carrier-pigeon"}, 400, "not supported"),
        ({"protocol": 256}, 400, "not supported"),
        ({"protocol": "icmpv6"}, 400, "ethertype"),
        ({"ethertype": "IPv5"}, 400, "ethertype"),
        ({"direction": "sideways"}, 400, "direction"),
        ({"remote_ip_prefix": "10.0.0.0/33"}, 400, "prefix"),
        ({"remote_ip_prefix": "2001:db8::/64"}, 400, "Conflicting"),
        ({"remote_group_id": "no-such"}, 404, "does not exist"),
    ],
)
def test_a_rule_that_means_nothing_is_refused(fields: dict[str, object], status: int, word: str) -> None:
    async def play(cloud: Cloud) -> None:
        group = (await cloud.make("security_group", name="g"))["id"]
        assert word in (await rule(cloud, group, status, **fields))["message"]

    run(play)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"protocol": "tcp", "port_range_min": 1, "port_range_max": 2}, {"protocol": "6", "port_range_min": 1,
                                                                        "port_range_max": 2}),
        ({}, {"remote_ip_prefix": "0.0.0.0/0"}),
        ({"remote_ip_prefix": "10.0.0.1"}, {"remote_ip_prefix": "10.0.0.1/32"}),
        ({"protocol": "any"}, {"protocol": None}),
    ],
)  # fmt: skip
def test_a_rule_that_says_the_same_is_there_already(one: dict[str, object], other: dict[str, object]) -> None:
    async def play(cloud: Cloud) -> None:
        group = (await cloud.make("security_group", name="g"))["id"]
        first = await rule(cloud, group, **one)
        said = await rule(cloud, group, 409, **other)
        assert said["type"] == "SecurityGroupRuleExists" and first["id"] in said["message"]
        used = (await cloud.ok("GET", "/quotas/p1/details"))["quota"]["security_group_rule"]["used"]
        assert used == 4 + 2 + 1

    run(play)
