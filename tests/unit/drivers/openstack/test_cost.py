"""What a scan costs the bottom: a few requests whatever the number of hosts, and exact all the same."""

from __future__ import annotations

import asyncio

import pytest

from banyan.core.resources import Amount
from banyan.drivers.openstack import OpenStackDriver
from banyan.drivers.openstack.inventory import capacity
from banyan.drivers.openstack.shapes import Inventory
from tests.unit.drivers.openstack.conftest import Make
from tests.unit.drivers.openstack.seen import Seen, scan, seen
from tests.unit.drivers.openstack.standin import Provider, StandIn

# Hypervisors (1 page and the empty one), services, aggregates, providers, candidates, projects, one project's limits,
# servers, flavors, images, networks, subnets.
PLAIN = 13
OPENING = 5  # Keystone's versions, a token, compute's and placement's versions; one spare


def hosts(cloud: StandIn, count: int) -> list[Provider]:
    cloud.add_rest()
    return [cloud.add_host(number) for number in range(1, count + 1)]


def placement(cloud: StandIn) -> int:
    return sum(1 for _, path, _, _ in cloud.log if path.startswith("/placement/") and len(path) > 11)


def fill(provider: Provider) -> None:
    provider.used = {name: provider.capacity(name) for name in provider.inventories}
    provider.generation += 1


def story(driver: OpenStackDriver, cloud: StandIn, *acts: object) -> list[tuple[Seen, int]]:
    """A scan, then each act and a scan after it; with how often placement was asked."""

    async def whole() -> list[tuple[Seen, int]]:
        results = []
        for act in (None, *acts):
            if callable(act):
                act()
            before = placement(cloud)
            results.append((await seen(driver), placement(cloud) - before))
        return results

    return asyncio.run(whole())


def exact(cloud: StandIn, result: Seen) -> None:
    """Every host's amounts are what placement's own records say."""
    for host in result.hosts.values():
        own = [p for p in cloud.providers.values() if p.root == host.id]
        for cls, key in (("vcpu", "VCPU"), ("memory_mib", "MEMORY_MB"), ("custom_gold", "CUSTOM_GOLD")):
            found = Amount()
            for provider in own:
                if key in provider.inventories:
                    total = provider.inventories[key][0]
                    found += Amount(total, provider.capacity(key), provider.used.get(key, 0))
            assert host.amounts.get(cls, Amount()) == found, (host.name, cls)


@pytest.mark.parametrize("count", [1, 100, 1000])
def test_a_thousand_hypervisors_cost_what_one_costs(cloud: StandIn, make: Make, count: int) -> None:
    hosts(cloud, count)
    for number in range(30):
        cloud.add_server(number)
    result = scan(make())
    assert len(result.hosts) == count
    assert result.end.requests <= PLAIN + OPENING
    exact(cloud, result)


def test_three_thousand_servers_are_three_pages(cloud: StandIn, make: Make) -> None:
    hosts(cloud, 3)
    for number in range(3000):
        cloud.add_server(number)
    result = scan(make())
    assert len(result.guests) == 3000
    assert cloud.asked("/servers/detail") == 4
    assert result.end.requests <= PLAIN + OPENING + 3


def test_a_full_class_is_seen_by_another(cloud: StandIn, make: Make) -> None:
    """CPUs are used up, memory is not: one further request for all."""
    for provider in hosts(cloud, 50):
        provider.used = {"VCPU": provider.capacity("VCPU"), "MEMORY_MB": 1}
    ((result, asked),) = story(make(), cloud)
    exact(cloud, result)
    assert asked == 3


def test_hosts_that_are_full_are_read_once(cloud: StandIn, make: Make) -> None:
    """No class has room: three requests each at first, then two in all while nothing changes there."""
    full = hosts(cloud, 40)
    for provider in full:
        fill(provider)

    def one_server_went() -> None:
        # Placement raises no generation when an allocation is removed.
        full[7].used["VCPU"] -= 1
        full[7].used["MEMORY_MB"] -= 2048

    def one_came() -> None:
        full[7].used["VCPU"] += 1
        full[7].generation += 1

    results = story(make(), cloud, lambda: None, one_server_went, one_came)
    for result, _ in results[-1:]:
        exact(cloud, result)
    assert results[2][0].hosts["c0008"].amounts["vcpu"].used == full[7].capacity("VCPU") - 1
    sweeps = 1 + 3  # the list of providers, and candidates by three classes
    filtered = 3
    assert [asked for _, asked in results] == [sweeps + 3 * 40, sweeps + filtered, sweeps + filtered, sweeps + filtered]


def test_candidates_that_are_cut_hide_no_room(cloud: StandIn, make: Make) -> None:
    """Placement's max_allocation_candidates cuts the list silently: what is missing there may have room after all."""
    full = hosts(cloud, 40)
    for provider in full:
        fill(provider)

    def one_server_went() -> None:
        cloud.max_candidates = 0
        full[7].used["VCPU"] -= 1

    _, (result, _) = story(make(), cloud, one_server_went)
    exact(cloud, result)


def test_an_over_used_host_is_read_each_time(cloud: StandIn, make: Make) -> None:
    """A removal need not show as room there, so nothing that was kept would be sure."""
    crowded = hosts(cloud, 20)
    for provider in crowded:
        fill(provider)
        provider.used["VCPU"] += 10

    def some_went() -> None:
        for provider in crowded:
            provider.used["VCPU"] -= 5

    (_, first), (result, then) = story(make(), cloud, some_went)
    exact(cloud, result)
    assert (first, then) == (4 + 60, 4 + 20)


def test_classes_of_ones_own_are_learnt(cloud: StandIn, make: Make) -> None:
    """Bare-metal nodes have one class that no other host has: it is found out from the first of them."""
    for provider in hosts(cloud, 100):
        provider.inventories = {"CUSTOM_GOLD": (1, 0, 1.0)}
    results = story(make(), cloud, lambda: None)
    for result, _ in results:
        exact(cloud, result)
        assert len(result.hosts) == 100
    # Inventories of all, once: what the hardware has of that class nobody else tells.
    assert results[0][1] <= 5 + 3 + 100
    # The first of them is looked at by itself again, to know which class to ask for.
    assert results[1][1] <= 5 + 3


def test_what_nova_lists_needs_no_inventories(cloud: StandIn, make: Make) -> None:
    hosts(cloud, 100)
    scan(make())
    assert not any(path.endswith("/inventories") for _, path, _, _ in cloud.log)


def test_a_changed_capacity_is_noticed(cloud: StandIn, make: Make) -> None:
    providers = hosts(cloud, 30)
    for provider in providers:
        provider.inventories["CUSTOM_GOLD"] = (4, 0, 1.0)

    def more_gold() -> None:
        providers[3].inventories["CUSTOM_GOLD"] = (9, 1, 1.0)
        providers[3].generation += 1

    (_, first), (result, then) = story(make(), cloud, more_gold)
    exact(cloud, result)
    assert (first, then) == (2 + 30, 2 + 1)


def test_hosts_that_go_are_forgotten(cloud: StandIn, make: Make) -> None:
    for provider in hosts(cloud, 20):
        fill(provider)
    driver = make()

    def some_go() -> None:
        del cloud.hypervisors[10:]
        for uuid in list(cloud.providers)[10:]:
            del cloud.providers[uuid]

    (_, _), (result, _) = story(driver, cloud, some_go)
    assert len(result.hosts) == 10
    assert len(driver._memory.inventories._known) == 10


@pytest.mark.parametrize(
    ("total", "reserved", "ratio", "promised"),
    [(10, 2, 1.2, 9), (64, 0, 4.0, 256), (1, 1, 16.0, 0), (262144, 512, 1.0, 261632)],
)
def test_capacity_is_rounded_as_placement_rounds_it(total: int, reserved: int, ratio: float, promised: int) -> None:
    assert capacity(Inventory(total, reserved, ratio)) == promised
