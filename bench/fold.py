"""Folding one rack: 10,000 hosts, 50 shapes with traits, against the plain numpy way in the same run.

Also what a change costs after that, in the columns of one rack and in the sum over 20,000 children.
Figures are medians; the ratios are what to watch (machines differ).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from random import Random
from statistics import median
from time import perf_counter

import numpy as np

from banyan.core.digest import diff, flatten
from banyan.core.host import Host
from banyan.core.resources import DISK_GIB, MEMORY_MIB, VCPU, Amount, ResourceClass, Shape, shape
from banyan.placement.columns import TOTAL, USED, Columns
from banyan.placement.fold import Fold
from banyan.placement.standing import Standing, Sum

HOSTS = 10_000
SHAPES = 50
CHILDREN = 20_000
TRAITS = ("HW_CPU_X86_AVX2", "HW_CPU_X86_AVX512F", "STORAGE_DISK_SSD", "CUSTOM_GPU")


def hosts(random: Random) -> list[Host]:
    found = []
    for number in range(HOSTS):
        cores, memory, disk = random.choice((32, 64, 128)), random.choice((131_072, 262_144)), 2_000
        amounts: dict[ResourceClass, Amount] = {
            VCPU: Amount(cores, cores * 4, random.randrange(cores * 4)),
            MEMORY_MIB: Amount(memory, memory - 4_096, random.randrange(memory - 4_096)),
            DISK_GIB: Amount(disk, disk, random.randrange(disk)),
        }
        traits = frozenset(random.sample(TRAITS, random.randrange(len(TRAITS) + 1)))
        found.append(Host(f"h{number}", f"h{number}", amounts, traits=traits))
    return found


def shapes(random: Random) -> list[Shape]:
    found: dict[str, Shape] = {}
    while len(found) < SHAPES:
        cores = random.choice((1, 2, 4, 8, 16, 32))
        needs = {
            VCPU: cores,
            MEMORY_MIB: cores * random.choice((1_024, 2_048, 4_096)),
            DISK_GIB: random.choice((10, 20, 40, 80)),
        }
        one = shape(needs, tuple(random.sample(TRAITS, random.choice((0, 0, 1)))))
        found[one.key] = one
    return list(found.values())


def naive(columns: Columns, wanted: list[Shape]) -> dict[str, int]:
    """What one writes first: all classes at once, shape by shape, no quotient shared."""
    count = len(columns)
    free = np.maximum(columns.amounts[TOTAL, :, :count] - columns.amounts[USED, :, :count], 0)
    result = {}
    for one in wanted:
        rows = [columns.classes.index(cls) for cls, _ in one.needs]
        needs = np.array([need for _, need in one.needs], dtype=np.int64)
        fits = np.floor_divide(free[rows], needs[:, None]).min(axis=0)
        has = np.array([have.issuperset(one.traits) for have in columns.sets])[columns.trait_sets[:count]]
        result[one.key] = int(fits[has & columns.open[:count]].sum())
    return {key: n for key, n in result.items() if n}


def timed(work: Callable[[], object], times: int) -> float:
    """Median seconds."""
    taken = []
    for _ in range(times):
        began = perf_counter()
        work()
        taken.append(perf_counter() - began)
    return median(taken)


def measure() -> dict[str, float]:
    random = Random(2)
    fleet, wanted = hosts(random), shapes(random)
    began = perf_counter()
    columns = Columns.build([fleet])
    build = perf_counter() - began
    fold = Fold(columns, wanted)
    assert fold.fits() == naive(columns, wanted)

    def change() -> None:
        host = fleet[random.randrange(HOSTS)]
        columns.set_used(host.id, {VCPU: random.randrange(64)})
        fold.fits()

    def claim() -> None:
        columns.set_used(fleet[random.randrange(HOSTS)].id, {VCPU: random.randrange(64)})
        fold.refresh()

    def upsert() -> None:
        columns.upsert(replace(fleet[random.randrange(HOSTS)], up=random.random() < 0.9))
        fold.refresh()

    scratch = timed(lambda: Fold(columns, wanted), 15)
    plain = timed(lambda: naive(columns, wanted), 5)
    one_claim, one_upsert, one_fits = timed(claim, 2_000), timed(upsert, 2_000), timed(change, 2_000)
    digest = flatten(fold.digest({("active", True): 90_000}, None))
    total: Sum[int] = Sum()
    began = perf_counter()
    for child in range(CHILDREN):
        total.stand(child, Standing.LIVE, {"z:total": 1})
        total.put(child, digest)
    first = (perf_counter() - began) / CHILDREN

    def report() -> None:
        child = random.randrange(CHILDREN)
        total.patch(
            child,
            {
                "lr:vcpu:u": random.randrange(1, 2**30),
                "lg:active": random.randrange(1, 2**20),
                "at": random.randrange(1, 2**40),
            },
        )

    def lose() -> None:
        child = random.randrange(CHILDREN)
        total.stand(child, random.choice((Standing.LIVE, Standing.UNKNOWN)), {"z:total": 1})

    return {
        "build_ms": build * 1e3,
        "fold_from_scratch_ms": scratch * 1e3,
        "naive_numpy_ms": plain * 1e3,
        "scratch_against_naive": scratch / plain,
        "after_one_claim_us": one_claim * 1e6,
        "after_one_upsert_us": one_upsert * 1e6,
        "fits_after_one_claim_us": one_fits * 1e6,
        "claim_against_scratch": one_claim / scratch,
        "flat_digest_counters": float(len(digest)),
        "diff_us": timed(lambda: diff(digest, {**digest, "lh": 1}), 500) * 1e6,
        "first_digest_of_a_child_us": first * 1e6,
        "child_report_us": timed(report, 5_000) * 1e6,
        "child_lost_or_back_us": timed(lose, 1_000) * 1e6,
        "sum_of_20000_children_us": timed(total.counters, 50) * 1e6,
    }


def main() -> None:
    print(json.dumps({key: round(value, 3) for key, value in measure().items()}, indent=2))


if __name__ == "__main__":
    main()
