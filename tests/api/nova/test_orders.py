"""What an order of servers carries to the leaf that takes it, and which servers its hints may name."""

from __future__ import annotations

import pytest

from tests.api.nova.cloud import Cloud, run
from tests.api.nova.fakes import NETWORK
from tests.api.nova.test_servers import NONE, SERVER


def test_an_order_carries_all_that_a_leaf_needs() -> None:
    async def play(c: Cloud) -> None:
        await c.ok("POST", "/os-keypairs", {"keypair": {"name": "k"}})
        group = await c.ok("POST", "/os-server-groups", {"server_group": {"name": "g", "policies": ["affinity"]}})
        await c.ok("POST", "/flavors/1/os-extra_specs", {"extra_specs": {"trait:HW_X": "required"}}, "admin")
        apart = (await c.ok("POST", "/servers", {"server": {**SERVER, "networks": "none"}}, version="2.52"))["server"][
            "id"
        ]
        body = {
            "server": {
                **SERVER, "metadata": {"a": "b"}, "key_name": "k", "user_data": "aGk=", "config_drive": "true",
                "security_groups": [{"name": "web"}], "tags": ["t"], "description": "d", "availability_zone": "az1",
                "accessIPv4": "1.2.3.4", "OS-DCF:diskConfig": "AUTO", "min_count": "2", "max_count": 3,
                "networks": [{"uuid": NETWORK, "fixed_ip": "10.0.0.9", "tag": "nic"}],
            },
            "os:scheduler_hints": {"group": group["server_group"]["id"], "different_host": [apart], "mine": 1},
        }  # fmt: skip
        await c.ok("POST", "/servers", body, version="2.52")
        spec, least, most = c.servers.orders[1]
        assert (least, most) == (2, 3)
        assert spec.flavor is not None and spec.flavor.name == "m1.tiny" and spec.required == ("HW_X",)
        assert spec.needs == {"vcpu": 1, "memory_mib": 512, "disk_gib": 1}
        assert spec.image is not None and spec.image.checksum == "sha512:00"
        assert spec.key is not None and spec.key.public_key.startswith("ssh-ed25519 ")
        assert (spec.user_data, spec.config_drive, spec.tags, spec.description) == ("aGk=", True, ("t",), "d")
        assert spec.metadata == {"a": "b", "banyan:access_ipv4": "1.2.3.4"}
        assert (spec.availability_zone, spec.disk_config, spec.security_groups) == ("az1", "AUTO", ("web",))
        assert (spec.hints.policy, spec.hints.different_host) == ("affinity", (apart,))
        assert spec.scheduler_hints["mine"] == "1"
        assert spec.networks[0].name == "private" and spec.networks[0].tag == "nic"
        servers = [server for server in c.servers.rows.values() if server.id != apart]
        assert [server.name for server in servers] == ["web-1", "web-2", "web-3"]
        assert all(server.nics[0].addresses[0].address == "10.0.0.9" for server in servers)
        found = await c.ok("GET", f"/os-server-groups/{group['server_group']['id']}")
        assert set(found["server_group"]["members"]) == set(c.servers.rows) - {apart}

    run(play)


@pytest.mark.parametrize("token", ["other", "admin"])
def test_a_hint_names_only_servers_of_the_project(token: str) -> None:
    """Administrators too order for one project: where another's servers are, its users would see by theirs."""

    async def play(c: Cloud) -> None:
        maker = "member" if token == "other" else "other"
        wanted = {**SERVER, "networks": "none"}
        theirs = (await c.ok("POST", "/servers", {"server": wanted}, maker, version="2.52"))["server"]["id"]
        texts = set()
        for hint in ("same_host", "different_host"):
            for id in (theirs, NONE):
                body = {"server": wanted, "os:scheduler_hints": {hint: [id]}}
                answer = await c.ask("POST", "/servers", body, token, version="2.52")
                assert answer.status_code == 400, answer.text
                texts.add(answer.json()["badRequest"]["message"].replace(id, ""))
        assert len(texts) == 1 and len(c.servers.orders) == 1

    run(play)
