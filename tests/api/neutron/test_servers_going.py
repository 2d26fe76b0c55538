"""What a server has while it is being deleted or loses an interface: its guest may use it, so nobody else gets it."""

from __future__ import annotations

from typing import Any

import pytest

from banyan.core.errors import Unreachable
from banyan.core.server import VmState
from banyan.core.time import Mono
from banyan.zone.networks.upkeep import Upkeep
from tests.api.neutron.cloud import NOVA, Cloud, run
from tests.api.neutron.test_ports import addresses
from tests.api.neutron.test_servers import compute, ports_of
from tests.api.serving import StillClock


def upkeep(cloud: Cloud) -> Upkeep:
    return cloud.network.upkeep(StillClock())


async def look(one: Upkeep) -> Mono | None:
    """Only at what is known to be going: it is not time for the others."""
    return await one.activate(Mono(-1.0))


async def taken(cloud: Cloud, network: str, address: str) -> bool:
    body = {"port": {"network_id": network, "fixed_ips": [{"ip_address": address}]}}
    answer = await cloud.ask("POST", "/ports", body)
    assert answer.status_code in (201, 409), answer.text
    return answer.status_code == 409


async def going(cloud: Cloud, network: str) -> str:
    """A server that is being deleted."""
    id: str = (await cloud.server(networks=[{"uuid": network}]))["server"]["id"]
    cloud.servers.held = True
    await compute(cloud, "DELETE", f"/servers/{id}")
    return id


@pytest.mark.parametrize("told", [True, False], ids=["told that it is gone", "looked after"])
def test_the_address_of_a_server_is_its_own_until_it_is_gone(told: bool) -> None:
    async def play(cloud: Cloud) -> None:
        network, subnet = await cloud.net()
        id, look_after = await going(cloud, network), upkeep(cloud)
        assert await look(look_after) == Mono(0.0)
        assert await taken(cloud, network, "10.0.0.2")
        assert (await compute(cloud, "GET", f"/servers/{id}"))["server"]["addresses"]["n"][0]["addr"] == "10.0.0.2"
        assert len(await ports_of(cloud, id)) == 1
        cloud.servers.finish(id)
        if told:
            # Who waits for a server to be gone deletes its network next.
            answer = await cloud.ask("GET", f"/servers/{id}", headers={NOVA: "2.96"}, service="compute")
            assert answer.status_code == 404
            await cloud.ok("DELETE", f"/networks/{network}")
            return
        await look(look_after)
        assert await cloud.used(subnet) == 0 and not cloud.network.serving.going
        assert not await taken(cloud, network, "10.0.0.2")

    run(play)


def test_a_server_that_can_not_be_asked_for_keeps_its_address() -> None:
    async def play(cloud: Cloud) -> None:
        network, subnet = await cloud.net()
        id, look_after = await going(cloud, network), upkeep(cloud)
        cloud.servers.away = Unreachable("member-unreachable", "its zone is away")
        await look(look_after)
        await cloud.compute.life.left(cloud.gate.known["member"], id)
        assert await cloud.used(subnet) == 1
        cloud.servers.away = None
        cloud.servers.finish(id)
        await look(look_after)
        assert await cloud.used(subnet) == 0

    run(play)


def test_who_asks_for_anothers_server_gives_nothing_back() -> None:
    async def play(cloud: Cloud) -> None:
        network, subnet = await cloud.net()
        id = (await cloud.server(networks=[{"uuid": network}]))["server"]["id"]
        answer = await cloud.ask("GET", f"/servers/{id}", token="other", headers={NOVA: "2.96"}, service="compute")
        assert answer.status_code == 404
        assert await cloud.used(subnet) == 1

    run(play)


def test_a_server_that_could_not_be_deleted_keeps_its_address() -> None:
    async def play(cloud: Cloud) -> None:
        network, subnet = await cloud.net()
        id, look_after = await going(cloud, network), upkeep(cloud)
        cloud.servers.finish(id, state=VmState.ERROR)
        await look(look_after)
        assert await cloud.used(subnet) == 1 and not cloud.network.serving.going

    run(play)


@pytest.mark.parametrize("done", [True, False])
def test_a_port_is_the_servers_until_it_is_detached(done: bool) -> None:
    async def play(cloud: Cloud) -> None:
        network, subnet = await cloud.net()
        id, look_after = (await cloud.server(networks=[{"uuid": network}]))["server"]["id"], upkeep(cloud)
        (port,) = await ports_of(cloud, id)
        cloud.servers.held = True
        await compute(cloud, "DELETE", f"/servers/{id}/os-interface/{port['id']}")
        await look(look_after)
        assert await taken(cloud, network, addresses(port)[0])
        if not done:
            fails(cloud, id)
        cloud.servers.finish(id)
        await look(look_after)
        assert not cloud.network.serving.going
        assert await cloud.used(subnet) == (0 if done else 1)
        assert len(cloud.servers.rows[id].nics) == (0 if done else 1)

    run(play)


def fails(cloud: Cloud, id: str) -> None:
    """What is under way is recorded as failed."""
    from msgspec.structs import replace

    real: Any = cloud.servers._done

    def failed(id: str, after: VmState) -> None:
        real(id, after)
        last = cloud.servers.done[id][-1]
        events = tuple(replace(event, result="error") for event in last.events)
        cloud.servers.done[id][-1] = replace(last, message="Error", events=events)

    cloud.servers._done = failed  # type: ignore[method-assign]  # from now on
