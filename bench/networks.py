"""What an address costs: in an empty subnet of 65,533, in one that is full but for gaps, beside 100,000 ports."""

from __future__ import annotations

import asyncio
import random
import statistics
import tempfile
import time
from pathlib import Path
from typing import cast

from banyan.core.ids import ZoneCode
from banyan.core.network import FixedIp, Network, Port, Subnet
from banyan.core.network_quota import NETWORK_DEFAULTS
from banyan.core.order import NetworkWish
from banyan.core.principal import Principal, ScopeKind
from banyan.core.time import Wall
from banyan.serve.clock import SystemClock, SystemIds
from banyan.store.open import open_store
from banyan.zone.compute.sources import NetworkPlan
from banyan.zone.networks.ports import UNASKED
from banyan.zone.networks.service import NetworkService, make_networks
from banyan.zone.networks.subnets import GATEWAY_UNASKED
from banyan.zone.own import open_own
from banyan.zone.servers.surface import Servers

AT_ONCE, SINGLE = 1_000, 200
ENDLESS = dict.fromkeys(NETWORK_DEFAULTS, -1)


async def _net(service: NetworkService, who: Principal, cidr: str) -> str:
    (seen,) = await service.networks.create(who, [Network("", "", "n", Wall(0), Wall(0))])
    subnet = Subnet("", "", seen.network.id, "", 4, cidr, Wall(0), Wall(0), gateway=GATEWAY_UNASKED)
    await service.subnets.create(who, [subnet])
    return seen.network.id


async def _fill(service: NetworkService, who: Principal, network: str, count: int, first: int) -> float:
    """Ports of so many servers, a thousand in one unit of work; seconds for each port."""
    began = time.perf_counter()
    plan = NetworkPlan((NetworkWish(network),), ("default",))
    for begin in range(0, count, AT_ONCE):
        many = min(AT_ONCE, count - begin)
        servers = [f"{first + begin + n:08x}-0000-8000-8000-000000000000" for n in range(many)]
        await service.serving.allocate(who, plan, servers)
    return (time.perf_counter() - began) / count


async def _singles(service: NetworkService, who: Principal, network: str) -> tuple[float, float]:
    """Median seconds to make a port that asks for nothing, and to delete it."""
    made, gone = [], []
    for _ in range(SINGLE):
        began = time.perf_counter()
        (port,) = await service.ports.create(
            who, [Port("", "", network, "", "", Wall(0), Wall(0), addresses=UNASKED)], [False]
        )
        made.append(time.perf_counter() - began)
        began = time.perf_counter()
        await service.ports.delete(who, port.id)
        gone.append(time.perf_counter() - began)
    return statistics.median(made), statistics.median(gone)


async def _measure(folder: Path) -> None:
    clock, ids = SystemClock(), SystemIds()
    store = open_store(folder, None, ids=ids, clock=clock)
    own = await open_own(store, clock, ids, "bench", {})
    # No port here says by itself which server it is of: nobody is asked.
    service = make_networks(own, store, ids, cast(Servers, None), ENDLESS)
    roles = frozenset({"admin", "member", "reader"})
    who = Principal(ZoneCode(1), "u", "u", "d", ScopeKind.PROJECT, roles, Wall(9e9), project="p")
    network = await _net(service, who, "10.0.0.0/16")
    made, gone = await _singles(service, who, network)
    print(f"in an empty subnet: a port in {made * 1e3:.2f} ms, deleted in {gone * 1e3:.2f} ms")
    each = await _fill(service, who, network, 65_000, 0)
    print(f"65,000 ports of servers, {AT_ONCE} together: {each * 1e6:.0f} us each")
    other = await _net(service, who, "10.1.0.0/16")
    each = await _fill(service, who, other, 35_000, 1 << 20)
    print(f"35,000 more in another network: {each * 1e6:.0f} us each")
    made, gone = await _singles(service, who, network)
    print(f"at 100,000 ports, 533 addresses left: a port in {made * 1e3:.2f} ms, deleted in {gone * 1e3:.2f} ms")
    chance = random.Random(1)
    victims = [f"{n:08x}-0000-8000-8000-000000000000" for n in chance.sample(range(65_000), 20_000)]
    began = time.perf_counter()
    for begin in range(0, len(victims), 200):
        await service.serving.released(victims[begin : begin + 200])
    print(f"20,000 given back here and there: {(time.perf_counter() - began) / len(victims) * 1e6:.0f} us each")
    made, gone = await _singles(service, who, network)
    print(f"among 14,000 gaps: a port in {made * 1e3:.2f} ms, deleted in {gone * 1e3:.2f} ms")
    each = await _fill(service, who, network, 20_000, 1 << 21)
    print(f"the 20,000 taken again: {each * 1e6:.0f} us each")
    held = await store.read(lambda unit: unit.networks.subnets.find({"network": network}))
    assert held is not None and held.used == 65_000
    taken = await store.read(lambda unit: unit.networks.addresses.holders(held.id, 70_000))
    assert len({address for _, address in taken}) == 65_000
    (port,) = await service.ports.create(
        who, [Port("", "", network, "", "", Wall(0), Wall(0), addresses=(FixedIp("", "10.0.255.254"),))], [True]
    )
    print(f"no address was given twice; the last one by name: {port.addresses[0].address}")
    await store.close()


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(_measure(Path(folder)))


if __name__ == "__main__":
    main()
