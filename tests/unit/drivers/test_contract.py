"""The shipped suite can fail: a driver that breaks one duty is caught by that duty."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace

import pytest

from banyan.core.ports import Driver, Finding
from banyan.core.rack import Capacity, GuestBatch, HostBatch, RackHealth, Scan, ScanItem
from banyan.core.resources import VCPU, Amount
from banyan.core.share import OFFER_ALL, Share
from banyan.drivers.contract import DriverContract
from banyan.drivers.observing import Observing
from banyan.drivers.sim import REGISTRATION

Change = Callable[[Sequence[ScanItem]], Sequence[ScanItem]]


class Liar(Observing):
    """A simulated rack whose scans are changed before they are told. Each instance counts as a new process."""

    made = 0

    def __init__(self, inner: Driver, change: Change) -> None:
        self._inner = inner
        self._change = change
        self.kind = inner.kind
        self.capacity: Capacity = inner.capacity
        self.turns = True
        Liar.made += 1

    async def scan(self) -> AsyncIterator[ScanItem]:
        for item in self._change([item async for item in self._inner.scan()]):
            if self.turns:
                await self._inner.probe()
            yield item

    async def probe(self) -> tuple[RackHealth, str]:
        return await self._inner.probe()

    async def check(self) -> Sequence[Finding]:
        return await self._inner.check()

    async def close(self) -> None:
        await self._inner.close()


class Suite(DriverContract):
    secrets = ("hunter2",)

    def __init__(self, change: Change) -> None:
        self.change = change

    def driver(self, share: Share = OFFER_ALL) -> Driver:
        inner = REGISTRATION.open({"hosts": 5, "guests": 20}, self.context(share))
        return Liar(inner, self.change)

    def failing(self) -> Driver:
        return Liar(REGISTRATION.open({"script": [{"at": 0, "do": "fail"}]}, self.context()), self.change)


def honest(items: Sequence[ScanItem]) -> Sequence[ScanItem]:
    return items


def without_end(items: Sequence[ScanItem]) -> Sequence[ScanItem]:
    return items[:-1]


def ended_twice(items: Sequence[ScanItem]) -> Sequence[ScanItem]:
    return [*items, items[-1]]


def with_an_empty_batch(items: Sequence[ScanItem]) -> Sequence[ScanItem]:
    return [HostBatch(()), *items]


def guests_first(items: Sequence[ScanItem]) -> Sequence[ScanItem]:
    return [*sorted(items[:-1], key=lambda item: isinstance(item, HostBatch)), items[-1]]


def told_twice(items: Sequence[ScanItem]) -> Sequence[ScanItem]:
    return [items[0], *items]


def negative(items: Sequence[ScanItem]) -> Sequence[ScanItem]:
    return _hosts(items, lambda _: Amount(8, 8, -1))


def oversold(items: Sequence[ScanItem]) -> Sequence[ScanItem]:
    return _hosts(items, lambda _: Amount(8, 8, 9))


def new_ids(items: Sequence[ScanItem]) -> Sequence[ScanItem]:
    return [
        HostBatch(tuple(replace(host, id=f"{host.id}-{Liar.made}") for host in item))
        if isinstance(item, HostBatch)
        else item
        for item in items
        if not isinstance(item, GuestBatch)
    ]


def all_offered(items: Sequence[ScanItem]) -> Sequence[ScanItem]:
    return [
        HostBatch(tuple(replace(host, offered=True) for host in item)) if isinstance(item, HostBatch) else item
        for item in items
    ]


def told_a_secret(items: Sequence[ScanItem]) -> Sequence[ScanItem]:
    return _end(items, {"password": "hunter2"})


def long_facts(items: Sequence[ScanItem]) -> Sequence[ScanItem]:
    return _end(items, {"catalogue": "x" * 1_000})


def _hosts(items: Sequence[ScanItem], change: Callable[[Amount], Amount]) -> Sequence[ScanItem]:
    return [
        HostBatch(tuple(replace(host, amounts={**host.amounts, VCPU: change(host.amounts[VCPU])}) for host in item))
        if isinstance(item, HostBatch)
        else item
        for item in items
    ]


def _end(items: Sequence[ScanItem], facts: dict[str, str]) -> Sequence[ScanItem]:
    return [replace(item, facts=facts) if isinstance(item, Scan) else item for item in items]


def duties() -> list[str]:
    return sorted(name for name in vars(DriverContract) if name.startswith("test_"))


@pytest.mark.parametrize("duty", duties())
def test_an_honest_driver_holds_every_duty(duty: str) -> None:
    getattr(Suite(honest), duty)()


@pytest.mark.parametrize(
    ("number", "change"),
    [
        (2, without_end),
        (2, ended_twice),
        (3, with_an_empty_batch),
        (4, guests_first),
        (5, told_twice),
        (6, negative),
        (6, oversold),
        (7, new_ids),
        (8, all_offered),
        (15, long_facts),
        (16, told_a_secret),
    ],
)
def test_a_driver_that_breaks_a_duty_is_caught_by_it(number: int, change: Change) -> None:
    (duty,) = [name for name in duties() if name.startswith(f"test_{number:02}_")]
    with pytest.raises(AssertionError):
        getattr(Suite(change), duty)()


def test_a_driver_that_blocks_the_loop_is_caught() -> None:
    class Blocking(Suite):
        def driver(self, share: Share = OFFER_ALL) -> Driver:
            driver = Liar(REGISTRATION.open({"hosts": 0}, self.context(share)), lambda items: list(items) * 50)
            driver.turns = False
            return driver

    with pytest.raises(AssertionError, match="batches left the event loop"):
        Blocking(honest).test_14_the_loop_has_a_turn_between_batches()


def test_a_driver_that_never_fails_is_caught() -> None:
    class Cheerful(Suite):
        def failing(self) -> Driver:
            return self.driver()

    with pytest.raises(AssertionError, match="a failing rack is unavailable"):
        Cheerful(honest).test_11_a_rack_that_fails_is_unavailable_with_a_reason()


def test_a_driver_that_outlives_its_close_is_caught() -> None:
    class Immortal(Suite):
        def driver(self, share: Share = OFFER_ALL) -> Driver:
            driver = Liar(REGISTRATION.open({}, self.context(share)), honest)

            async def nothing() -> None:
                return None

            driver.close = nothing
            return driver

    with pytest.raises(AssertionError, match="a closed driver is not available"):
        Immortal(honest).test_13_close_may_be_said_twice_and_ends_everything()
