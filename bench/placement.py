"""Placing: exact claims on one rack of 10,000 hosts against a plain numpy scan, and choosing among members.

Claims are timed one by one and many at once, spread and packed, of one shape and of fifty in a random mixture, each
with what follows once it is durable (its use goes into the columns). The peer does the same work as one writes it
first: for each request it computes what fits on every host, and takes the best; in the same run, on the same rack,
checked to choose the same host. CPU seconds of this process, so that others on the machine count for little; machines
differ, the ratios are what to watch. Wanted: 50,000 single claims/s and, at once, 1,000,000 guests/s on one core.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random
from statistics import median
from time import process_time
from typing import Final, ParamSpec, TypeVar

import numpy as np

from banyan.core.digest import flatten
from banyan.core.ids import ZoneCode
from banyan.core.order import Claim, GroupPolicy, Order, Policy, Specification
from banyan.core.resources import DISK_GIB, MEMORY_MIB, VCPU, Shape, shape
from banyan.placement.candidates import Candidates, Member
from banyan.placement.choose import Sharing
from banyan.placement.claims import Claims
from banyan.placement.columns import TOTAL, USED, Columns, Ints
from banyan.placement.filters import Around, Ask
from banyan.placement.fold import Fold
from banyan.placement.room import WHOLE
from banyan.placement.score import END, ROW_BITS, TIE_BITS, ties
from bench.fold import HOSTS, hosts, shapes

P = ParamSpec("P")
R = TypeVar("R")

SINGLE: Final = 4_000
ROUNDS: Final = 5
BATCHES: Final = (100, 1_000, 2_000, 10_000)
MEMBERS: Final = (100, 20_000)
NAIVE: Final = 60


class Naive:
    """What one writes first: a pass over all hosts for each request."""

    def __init__(self, columns: Columns, policy: Policy) -> None:
        count = len(columns)
        self.free: Ints = columns.amounts[TOTAL, :, :count] - columns.amounts[USED, :, :count]
        self._columns = columns
        self._policy = policy
        self._ties = ties([columns.id(row) for row in range(count)], 0) >> ROW_BITS

    def claim(self, one: Shape) -> int:
        """The host's row."""
        columns, count = self._columns, len(self._columns)
        rows = [columns.classes.index(cls) for cls, _ in one.needs]
        needs = np.array([need for _, need in one.needs], dtype=np.int64)
        fits = np.floor_divide(self.free[rows], needs[:, None]).min(axis=0)
        has = np.array([have.issuperset(one.traits) for have in columns.sets])[columns.trait_sets[:count]]
        fits[~(has & columns.open[:count])] = 0
        if self._policy is Policy.SPREAD:
            worth = -fits
        else:
            worth = (np.maximum(self.free, 0) * WHOLE // columns.amounts[TOTAL, :, :count]).sum(axis=0)
        best = int(np.argmin(np.where(fits > 0, worth << TIE_BITS | self._ties, END)))
        self.free[rows, best] -= needs
        return best


@dataclass(slots=True)
class Rack:
    """A rack half in use, and what is asked of it."""

    claims: Claims
    shapes: list[Shape]

    @staticmethod
    def make(seed: int = 2) -> Rack:
        random = Random(seed)
        fleet, wanted = hosts(random), shapes(random)
        return Rack(Claims(Columns.build([fleet])), wanted)


def timed(work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> tuple[float, R]:
    """CPU seconds, and what came of it."""
    began = process_time()
    result = work(*args, **kwargs)
    return process_time() - began, result


def claim_all(claims: Claims, wanted: list[Ask]) -> None:
    for number, ask in enumerate(wanted):
        claims.claim(str(number), ask)


def commit_all(claims: Claims) -> None:
    for order in list(claims.pending):
        claims.commit(order)


def single(policy: Policy, count: int) -> dict[str, float]:
    """Microseconds of CPU for a claim, and for what follows; `count` shapes in a random mixture."""
    claimed, committed = [], []
    for turn in range(ROUNDS):
        rack, random = Rack.make(), Random(turn)
        asks = [Ask(one, policy) for one in rack.shapes[:count]]
        wanted = [random.choice(asks) for _ in range(SINGLE)]
        for ask in asks:
            rack.claims.fits(ask)

        took, _ = timed(claim_all, rack.claims, wanted)
        claimed.append(took / SINGLE)
        took, _ = timed(commit_all, rack.claims)
        committed.append(took / SINGLE)
    return {"claim_us": median(claimed) * 1e6, "commit_us": median(committed) * 1e6}


def naive(policy: Policy, count: int) -> float:
    """Microseconds of CPU for one claim of the peer, which must choose what ours chooses."""
    rack, random = Rack.make(), Random(0)
    wanted = [random.choice(rack.shapes[:count]) for _ in range(NAIVE)]
    peer = Naive(rack.claims.columns, policy)
    taken = []
    for number, one in enumerate(wanted):
        took, row = timed(peer.claim, one)
        taken.append(took)
        ours = rack.claims.claim(str(number), Ask(one, policy))
        assert isinstance(ours, Claim) and ours.hosts == (rack.claims.columns.id(row),)
    return median(taken) * 1e6


def batch(policy: Policy, guests: int) -> dict[str, float]:
    """Milliseconds of CPU for one claim of so many guests of a small shape, and for what follows."""
    ask = Ask(shape({VCPU: 1, MEMORY_MIB: 1_024, DISK_GIB: 10}), policy)
    claimed, committed, hosts_taken = [], [], []
    for turn in range(ROUNDS):
        rack = Rack.make(turn)
        rack.claims.fits(ask)
        rack.claims.claim("before", ask, guests, guests)
        rack.claims.commit("before")
        took, got = timed(rack.claims.claim, "timed", ask, guests, guests)
        assert isinstance(got, Claim) and got.count == guests
        claimed.append(took)
        committed.append(timed(rack.claims.commit, "timed")[0])
        hosts_taken.append(len(got.hosts))
    return {
        "claim_ms": median(claimed) * 1e3,
        "commit_ms": median(committed) * 1e3,
        "hosts": float(median(hosts_taken)),
        "guests_per_s": guests / (median(claimed) + median(committed)),
    }


def others() -> dict[str, float]:
    """A group kept apart, a refusal, a host that changes: microseconds of CPU, median of many."""
    rack, random = Rack.make(), Random(1)
    claims, ask = rack.claims, Ask(rack.shapes[0])
    near = Around("g", GroupPolicy.ANTI_AFFINITY)
    apart = [timed(claims.claim, f"g{number}", ask, 1, 1, near)[0] for number in range(300)]
    large = Ask(Shape(tuple((cls, need * 1_000) for cls, need in rack.shapes[0].needs)))
    cold = []
    for number in range(60):
        claims.claim(f"c{number}", ask)
        cold.append(timed(claims.claim, "large", large)[0])
    warm = [timed(claims.claim, "large", large)[0] for _ in range(300)]
    fleet = hosts(Random(2))
    changes = []
    for number in range(300):
        claims.columns.upsert(replace(random.choice(fleet), up=random.random() < 0.9))
        changes.append(timed(claims.claim, f"u{number}", ask)[0])
    return {
        "group_apart_us": median(apart) * 1e6,
        "refusal_us": median(cold) * 1e6,
        "refusal_again_us": median(warm) * 1e6,
        "after_a_host_changed_us": median(changes) * 1e6,
    }


class Seeded:
    def __init__(self) -> None:
        self._random = Random(0)

    def below(self, bound: int) -> int:
        return self._random.randrange(bound)


def members(count: int) -> dict[str, float]:
    """Microseconds of CPU to choose a member for one guest, and members for 1,000, as digests and answers come in."""
    rack, random, chance = Rack.make(), Random(3), Seeded()
    digest = flatten(Fold(rack.claims.columns, rack.shapes).digest({}, None))
    counters = [dict(digest) for _ in range(count)]
    table = Candidates(lambda key: counters[key[1]])
    for number in range(count):
        table.put(Member(("child", number), f"z{number}"))
    orders = []
    for number in range(400):
        needs = {str(cls): need for cls, need in random.choice(rack.shapes).needs}
        orders.append(Order(str(number), ZoneCode(1), "p", "u", Specification("web", needs)))

    def place(order: Order) -> None:
        sharing = Sharing(table, order, chance)
        for share in sharing.next():
            sharing.placed(share.member, share.count)

    for order in orders[:200]:
        place(order)
    one, many = [], []
    for order in orders[200:]:
        for _ in range(max(1, count // 1_000)):
            number = random.randrange(count)
            name = f"lf:{random.choice(rack.shapes).key}"
            counters[number][name] = random.randrange(1, 9_000)
            table.counted(("child", number), [name])
        one.append(timed(place, order)[0])
    for number in range(40):
        bulk = Order(f"m{number}", ZoneCode(1), "p", "u", orders[0].specification, 1, 1_000)
        many.append(timed(place, bulk)[0])
    return {"one_us": median(one) * 1e6, "thousand_us": median(many) * 1e6}


def measure() -> dict[str, object]:
    found: dict[str, object] = {"hosts": HOSTS}
    for policy in Policy:
        for count in (1, 50):
            ours, peer = single(policy, count), naive(policy, count)
            both = ours["claim_us"] + ours["commit_us"]
            found[f"{policy}, {count} shapes"] = _round(
                {**ours, "claims_per_s": 1e6 / both, "naive_us": peer, "against_naive": ours["claim_us"] / peer}
            )
        found[f"{policy}, at once"] = {str(guests): _round(batch(policy, guests)) for guests in BATCHES}
    found["others"] = _round(others())
    for count in MEMBERS:
        found[f"{count} members"] = _round(members(count))
    return found


def _round(values: dict[str, float]) -> dict[str, float]:
    return {key: round(value, 4 if abs(value) < 1 else 1) for key, value in values.items()}


def main() -> None:
    print(json.dumps(measure(), indent=2))


if __name__ == "__main__":
    main()
