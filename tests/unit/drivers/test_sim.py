"""Simulated racks: the same from the same seed, exact in what they hold, and true to their script."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import msgspec
import pytest

from banyan.core.errors import BadInput
from banyan.core.guest import Guest, GuestState
from banyan.core.host import Host
from banyan.core.rack import GuestBatch, HostBatch, RackHealth, Scan, ScanItem
from banyan.core.records import DriverUnavailable
from banyan.core.resources import DISK_GIB, MEMORY_MIB, VCPU, ResourceClass
from banyan.core.share import OFFER_ALL, Share
from banyan.drivers.sim import SimDriver, SimOptions
from banyan.drivers.sim.driver import ROWS_IN_A_TURN
from banyan.drivers.sim.fleet import Fleet
from banyan.drivers.sim.script import Condition
from tests.unit.drivers.fakes import START, StillClock, context


@dataclass(frozen=True, slots=True)
class Seen:
    items: tuple[ScanItem, ...]

    @property
    def hosts(self) -> dict[str, Host]:
        return {host.name: host for item in self.items if isinstance(item, HostBatch) for host in item}

    @property
    def guests(self) -> list[Guest]:
        return [guest for item in self.items if isinstance(item, GuestBatch) for guest in item]

    @property
    def end(self) -> Scan:
        last = self.items[-1]
        assert isinstance(last, Scan)
        return last


def make(clock: StillClock | None = None, *, code: int = 7, share: Share = OFFER_ALL, **options: object) -> SimDriver:
    checked = msgspec.convert(options, SimOptions)
    return SimDriver(checked, context(clock, code=code, share=share))


def scan(driver: SimDriver) -> Seen:
    async def whole() -> Seen:
        return Seen(tuple([item async for item in driver.scan()]))

    return asyncio.run(whole())


def test_the_same_seed_gives_the_same_rack_to_the_last_id() -> None:
    options = {"hosts": 40, "guests": 900, "seed": 5, "churn": 1.0}
    assert scan(make(**options)).items == scan(make(**options)).items


@pytest.mark.parametrize("other", [{"seed": 6}, {"code": 8}])
def test_another_seed_or_rack_shares_no_id(other: dict[str, int]) -> None:
    here = scan(make(hosts=40, guests=900))
    there = scan(make(hosts=40, guests=900, **other))
    assert not {h.id for h in here.hosts.values()} & {h.id for h in there.hosts.values()}
    assert not {g.id for g in here.guests} & {g.id for g in there.guests}
    assert not {p.id for p in here.end.projects} & {p.id for p in there.end.projects}


@pytest.mark.parametrize(("hosts", "guests"), [(1, 1), (1, 33), (7, 6), (7, 7), (7, 8), (50, 2_999), (3, 0), (0, 0)])
def test_every_guest_is_somewhere_once_and_its_host_counts_it(hosts: int, guests: int) -> None:
    seen = scan(make(hosts=hosts, guests=guests))
    assert len(seen.hosts) == hosts
    assert len({guest.id for guest in seen.guests}) == len(seen.guests) == guests
    used: Counter[tuple[str, ResourceClass]] = Counter()
    for guest in seen.guests:
        used[guest.host, VCPU] += guest.vcpu
        used[guest.host, MEMORY_MIB] += guest.memory_mib
        used[guest.host, DISK_GIB] += guest.disk_gib
    for host in seen.hosts.values():
        for resource, amount in host.amounts.items():
            assert amount.used == used[host.id, resource] <= amount.total


def test_overcommit_and_reserve_make_the_total() -> None:
    classes = [{"name": "one", "vcpu": 10, "memory_mib": 1_000, "disk_gib": 7, "resources": {"custom_gpu": 4}}]
    seen = scan(make(hosts=1, classes=classes, overcommit={"vcpu": 1.5}, reserved={"vcpu": 1, "custom_gpu": 1}))
    amounts = seen.hosts["sim-00001"].amounts
    assert {c: (a.physical, a.total) for c, a in amounts.items()} == {
        "vcpu": (10, 13),
        "memory_mib": (1_000, 1_000),
        "disk_gib": (7, 7),
        "custom_gpu": (4, 3),
    }


def test_classes_come_by_their_weight() -> None:
    classes = [{"name": "common", "weight": 9, "traits": ["A"]}, {"name": "rare", "weight": 1, "traits": ["B"]}]
    counted = Counter(host.labels["class"] for host in scan(make(hosts=1_000, classes=classes)).hosts.values())
    assert 60 <= counted["rare"] <= 140
    assert counted["common"] + counted["rare"] == 1_000


def test_guests_only_take_flavors_whose_traits_their_host_has() -> None:
    classes = [{"name": "plain"}, {"name": "gpu", "traits": ["GPU"]}]
    flavors = [{"name": "any"}, {"name": "gpu", "traits": ["GPU"]}]
    seen = scan(make(hosts=50, guests=1_000, classes=classes, flavors=flavors))
    kinds = {host.id: host.labels["class"] for host in seen.hosts.values()}
    met = {(kinds[guest.host], guest.flavor) for guest in seen.guests}
    assert met == {("plain", "any"), ("gpu", "any"), ("gpu", "gpu")}


def test_hosts_are_dealt_to_aggregates_and_zones() -> None:
    seen = scan(make(hosts=6, aggregates=["a", "b"], availability_zones=["x", "y", "z"]))
    assert [(h.aggregates, h.availability_zone) for h in seen.hosts.values()] == [
        (("a",), "x"),
        (("b",), "y"),
        (("a",), "z"),
        (("b",), "x"),
        (("a",), "y"),
        (("b",), "z"),
    ]


def test_stopped_guests_are_the_share_that_was_asked_for() -> None:
    states = Counter(guest.state for guest in scan(make(hosts=50, guests=3_000, stopped=0.25)).guests)
    assert set(states) == {GuestState.ACTIVE, GuestState.STOPPED}
    assert 650 <= states[GuestState.STOPPED] <= 850


def test_churn_replaces_guests_and_keeps_their_number() -> None:
    clock = StillClock()
    driver = make(clock, hosts=10, guests=100, churn=2.0)
    before = {guest.id: guest for guest in scan(driver).guests}
    clock.elapsed = 20.0
    after = {guest.id: guest for guest in scan(driver).guests}
    assert len(after) == 100
    assert len(before.keys() - after.keys()) == 40
    fresh = [after[id] for id in after.keys() - before.keys()]
    assert all(START < guest.created <= START + 20 for guest in fresh)
    assert all(guest.created < START for guest in before.values())
    clock.elapsed = 500.0
    assert not {guest.id for guest in scan(driver).guests} & before.keys()


def test_the_script_is_seen_in_scans() -> None:
    clock = StillClock()
    script = [
        {"at": 10, "do": "down", "hosts": "1-2"},
        {"at": 10, "do": "disable", "hosts": "2", "reason": "fans"},
        {"at": 20, "do": "grow", "hosts": 5},
        {"at": 30, "do": "fill", "guests": 30},
    ]
    driver = make(clock, hosts=10, guests=20, script=script)
    first = scan(driver)
    clock.elapsed = 15.0
    hosts = scan(driver).hosts
    assert [(h.up, h.disabled, h.disabled_reason) for h in list(hosts.values())[:3]] == [
        (False, False, ""),
        (False, True, "fans"),
        (True, False, ""),
    ]
    clock.elapsed = 30.0
    last = scan(driver)
    assert len(last.hosts) == 15
    assert {g.id for g in first.guests} < {g.id for g in last.guests}
    assert len(last.guests) == 30


def test_a_scan_breaks_off_where_the_script_says() -> None:
    clock = StillClock()
    script = [{"at": 5, "do": "fail", "reason": "503 from the API", "after_batches": 3}, {"at": 9, "do": "recover"}]
    driver = make(clock, hosts=100, script=script)
    clock.elapsed = 6.0
    got: list[ScanItem] = []

    async def part() -> None:
        async for item in driver.scan():
            got.append(item)

    with pytest.raises(DriverUnavailable, match=r"rack 'lab' \(sim\): 503 from the API") as broken:
        asyncio.run(part())
    assert len(got) == 3
    assert broken.value.transient
    assert asyncio.run(driver.probe())[0] is RackHealth.UNAVAILABLE
    clock.elapsed = 9.0
    assert asyncio.run(driver.probe()) == (RackHealth.AVAILABLE, "")
    assert len(scan(driver).hosts) == 100


def test_a_rack_that_fails_while_it_is_read_breaks_the_scan_off() -> None:
    clock = StillClock()
    driver = make(clock, hosts=100, latency=1.0, script=[{"at": 3.5, "do": "fail"}])
    with pytest.raises(DriverUnavailable):
        scan(driver)
    assert clock.elapsed == 4.0


def test_each_request_takes_its_latency() -> None:
    clock = StillClock()
    seen = scan(make(clock, hosts=60, latency=2.0))
    assert seen.end.requests == len(seen.items)
    assert clock.elapsed == 2.0 * seen.end.requests
    assert seen.end.finished_at - seen.end.started_at == clock.elapsed


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"hosts": 10, "guests": 9_000}, "900 guests on each host do not fit"),
        ({"hosts": 1, "guests": 5_000}, "at most 1,000 guests"),
        ({"hosts": 0, "guests": 1}, "need at least one host"),
        ({"hosts": 1, "script": [{"at": 0, "do": "fill", "guests": 900}]}, "do not fit"),
    ],
)
def test_what_can_not_be_is_refused(options: dict[str, object], said: str) -> None:
    with pytest.raises(BadInput, match=said) as refused:
        make(**options)
    assert refused.value.code == "bad-driver-option"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"classes": []}, "classes needs 1 to 100"),
        ({"classes": [{"name": "a"}, {"name": "a"}]}, "different names"),
        ({"classes": [{"name": "a", "resources": {"vcpu": 1}}]}, "fields of their own"),
        ({"classes": [{"name": "a", "resources": {"CUSTOM": 1}}]}, "lower case"),
        ({"flavors": [{"name": "a", "vcpu": -1}]}, "amounts of 0 or more"),
        ({"overcommit": {"vcpu": 0}}, "overcommit.vcpu"),
        ({"stopped": 1.5}, "stopped is from 0 to 1"),
        ({"latency": float("nan")}, "latency"),
    ],
)
def test_options_that_are_wrong_together_are_refused(options: dict[str, object], said: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=said):
        msgspec.convert(options, SimOptions)


def test_a_large_rack_streams_in_small_batches() -> None:
    async def sizes() -> tuple[int, int, int]:
        hosts = guests = largest = 0
        async for item in make(hosts=1_000, guests=60_000).scan():
            if isinstance(item, HostBatch):
                hosts += len(item.hosts)
                largest = max(largest, len(item.hosts))
            elif isinstance(item, GuestBatch):
                guests += len(item.guests)
                largest = max(largest, len(item.guests))
        return hosts, guests, largest

    assert asyncio.run(sizes()) == (1_000, 60_000, 500)


@pytest.mark.parametrize("scarce", ["vcpu", "memory_mib", "disk_gib"])
def test_whatever_is_scarce_no_host_is_oversold(scarce: str) -> None:
    sizes = {"vcpu": 1_000, "memory_mib": 1_000_000, "disk_gib": 1_000_000} | {scarce: 8_000 if scarce != "vcpu" else 8}
    small = {"name": "small", "vcpu": 1, "memory_mib": 1_000, "disk_gib": 1_000}
    big = {"name": "big", "vcpu": 8, "memory_mib": 8_000, "disk_gib": 8_000}
    # Eight small ones fill the scarce resource of a host exactly.
    seen = scan(
        make(hosts=20, guests=160, classes=[{"name": "one", **sizes}], flavors=[small, big], overcommit={"vcpu": 1.0})
    )
    assert {guest.flavor for guest in seen.guests} == {"small"}
    for host in seen.hosts.values():
        assert all(amount.used <= amount.total for amount in host.amounts.values())
        assert host.amounts[ResourceClass(scarce)].free == 0


class CountedFleet(Fleet):
    """Counts the rows that it works out."""

    rows = 0

    def host(self, number: int, now: Condition) -> tuple[Host, int]:
        host, guests = super().host(number, now)
        self.rows += 1 + guests
        return host, guests

    def guests(self, number: int, offered: bool, now: Condition, started: float) -> Iterator[Guest]:
        for guest in super().guests(number, offered, now, started):
            self.rows += 1
            yield guest


@pytest.mark.parametrize(("hosts", "guests"), [(200, 12_000), (2_000, 0), (10, 2_500)])
def test_few_rows_are_worked_out_between_two_turns_of_the_loop(hosts: int, guests: int) -> None:
    """What a heartbeat waits for: a bounded number of rows, or one crowded host."""
    driver = make(hosts=hosts, guests=guests)
    fleet = driver._fleet = CountedFleet(SimOptions(hosts=hosts, guests=guests), "lab", OFFER_ALL)

    async def story() -> int:
        most = seen = 0
        done = False

        async def heartbeat() -> None:
            nonlocal most, seen
            while not done:
                most, seen = max(most, fleet.rows - seen), fleet.rows
                turned = asyncio.Event()
                asyncio.get_running_loop().call_soon(turned.set)
                await turned.wait()

        beating = asyncio.ensure_future(heartbeat())
        async for _ in driver.scan():
            pass
        done = True
        await beating
        return most

    one_host = 1 + -(-guests // hosts)
    # The heartbeat has a turn of its own for each of the scan's, or for each second one.
    assert asyncio.run(story()) <= 2 * (ROWS_IN_A_TURN + one_host)
    assert fleet.rows == hosts + 2 * guests
