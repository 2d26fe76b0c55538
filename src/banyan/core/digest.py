"""The digest: a bounded summary of capacity and use, folded from members (protocols §4).

Laws, property-tested: `merge` is commutative and associative with `Digest()` as zero; a fold never
exceeds what its members hold; `as_unknown` and `as_not_offered` keep every host and resource, and
distribute over `merge`. What is not alive stands apart in `unknown`, with its last value; what a
member does not share stands apart in `not_offered`; only `live` has `fits`. On the wire a digest is
a flat map of counters, so that a delta is the counters that changed (`flatten`, `diff`, `patch`).

A shape of which none fits and a shape that nobody counted are not the same: `counted` says on how many live hosts
each shape was counted; on the others what fits is not known (`Sums.uncounted`).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Final

from banyan.core.guest import GuestState
from banyan.core.resources import DISK_GIB, ID_SIZE, MEMORY_MIB, VCPU, Amount, ResourceClass, add_amounts, shape_id
from banyan.core.time import Wall

Counters = dict[str, int]

# A digest stays bounded whatever its members send; what is over is dropped by name order, and counted.
MAX_SHAPES = 300
MAX_CLASSES = 64
# Placement's own names have at most 255 characters; a shape that needs more is not counted.
MAX_NAME = 256
# A map with more keys than this is no digest, even with keys of a version that we do not know.
MAX_COUNTERS = 4096
# What the link lets through; sums of it over a zone's members are exact, and saturate here when they travel.
MAX_COUNTER = 2**48
# 9999-12-31, in milliseconds: what a datetime can hold.
MAX_INSTANT = 253_402_300_799_000


def add_counts(a: Mapping[str, int], b: Mapping[str, int]) -> dict[str, int]:
    return {k: a.get(k, 0) + b.get(k, 0) for k in sorted({*a, *b})}


@dataclass(frozen=True, slots=True)
class Sums:
    """Totals over hosts. `fits` is per Shape.key: how many more guests of it would fit, summed over hosts.

    `counted` is per Shape.id: the hosts on which that was counted. A shape that is not in it was counted nowhere.
    """

    hosts: int = 0
    hosts_up: int = 0
    hosts_disabled: int = 0
    resources: Mapping[ResourceClass, Amount] = field(default_factory=dict)
    guests: Mapping[str, int] = field(default_factory=dict)
    fits: Mapping[str, int] = field(default_factory=dict)
    counted: Mapping[str, int] = field(default_factory=dict)

    def __add__(self, other: Sums) -> Sums:
        return Sums(
            self.hosts + other.hosts,
            self.hosts_up + other.hosts_up,
            self.hosts_disabled + other.hosts_disabled,
            add_amounts(self.resources, other.resources),
            add_counts(self.guests, other.guests),
            add_counts(self.fits, other.fits),
            add_counts(self.counted, other.counted),
        )

    def uncounted(self, key: str) -> int:
        """Hosts on which it is not known how many more of the shape `key` would fit."""
        return max(0, self.hosts - self.counted.get(shape_id(key), 0))

    def without_fits(self) -> Sums:
        """The same hosts, where nothing may be promised."""
        return replace(self, fits={}, counted={})

    @property
    def guest_total(self) -> int:
        return sum(self.guests.values())


@dataclass(frozen=True, slots=True)
class ZoneCounts:
    """Zones below, by what the asked zone holds of them. `total` counts all that are not retired."""

    total: int = 0
    ready: int = 0
    alive: int = 0
    suspect: int = 0
    lost: int = 0
    unavailable: int = 0
    disabled: int = 0

    def __add__(self, other: ZoneCounts) -> ZoneCounts:
        return ZoneCounts(
            self.total + other.total,
            self.ready + other.ready,
            self.alive + other.alive,
            self.suspect + other.suspect,
            self.lost + other.lost,
            self.unavailable + other.unavailable,
            self.disabled + other.disabled,
        )


@dataclass(frozen=True, slots=True)
class Digest:
    """`as_of` is the oldest instant in `live` and `not_offered`; `unknown_as_of` the oldest in `unknown`.

    None means that nothing is in it. `unknown_zones` counts zones whose present state is not known.
    `dropped` counts the entries that were left out below because a digest is bounded.
    """

    live: Sums = Sums()
    not_offered: Sums = Sums()
    unknown: Sums = Sums()
    zones: ZoneCounts = ZoneCounts()
    unknown_zones: int = 0
    as_of: Wall | None = None
    unknown_as_of: Wall | None = None
    dropped: int = 0

    def __add__(self, other: Digest) -> Digest:
        return Digest(
            self.live + other.live,
            self.not_offered + other.not_offered,
            self.unknown + other.unknown,
            self.zones + other.zones,
            self.unknown_zones + other.unknown_zones,
            oldest(self.as_of, other.as_of),
            oldest(self.unknown_as_of, other.unknown_as_of),
            self.dropped + other.dropped,
        )

    def as_unknown(self) -> Digest:
        """The same totals, moved into `unknown`: for a member that is not alive now.

        Its zones are kept as counted, but none of them as alive. What fits there is not known.
        """
        zones = self.zones
        return Digest(
            unknown=(self.live + self.not_offered + self.unknown).without_fits(),
            zones=replace(zones, alive=0, suspect=0, lost=zones.alive + zones.suspect + zones.lost),
            unknown_zones=zones.total,
            unknown_as_of=oldest(self.as_of, self.unknown_as_of),
            dropped=self.dropped,
        )

    def as_not_offered(self) -> Digest:
        """The same totals as capacity that may not be used: for a member that is disabled or not ready."""
        return replace(self, live=Sums(), not_offered=(self.live + self.not_offered).without_fits())


def oldest(a: Wall | None, b: Wall | None) -> Wall | None:
    if a is None or b is None:
        return a if b is None else b
    return min(a, b)


def merge(digests: Iterable[Digest]) -> Digest:
    total = Digest()
    for digest in digests:
        total = total + digest
    return total


# --- the flat form ------------------------------------------------------------------------------

PARTS: Final = {"l": "live", "n": "not_offered", "u": "unknown"}
_SCALARS = ("h", "hu", "hd")
_ZONES = ("total", "ready", "alive", "suspect", "lost", "unavailable", "disabled")
_ALONE = ("uz", "at", "uat", "dr")
_FIRST_CLASSES = (VCPU, MEMORY_MIB, DISK_GIB)
_STATES = frozenset(str(state) for state in GuestState)
_ID = re.compile(f"[0-9a-f]{{{ID_SIZE}}}")


@dataclass(frozen=True, slots=True)
class Counter:
    """A key of the flat form, taken apart.

    `part` is l, n or u, or "" for what belongs to no part. `kind`: h, hu, hd, r, g, f, k; z; uz, at, uat,
    dr. `name` is a class, state, shape (its key for f, its id for k) or zone count; `amount` is p, t or u for kind r.
    """

    part: str
    kind: str
    name: str = ""
    amount: str = ""


@lru_cache(maxsize=16_384)
def counter(key: str) -> Counter | None:
    """What `key` counts; None for a key of another version, or one too long. A state that we do not know is OTHER."""
    if "\0" in key:
        return None
    if key in _ALONE:
        return Counter("", key)
    head, _, rest = key.partition(":")
    if head == "z":
        return Counter("", "z", rest) if rest in _ZONES else None
    part, kind = head[:1], head[1:]
    if part not in PARTS:
        return None
    if kind in _SCALARS:
        return Counter(part, kind) if key == head else None
    if kind == "r":
        name, _, amount = rest.rpartition(":")
        return Counter(part, kind, name, amount) if 0 < len(name) <= MAX_NAME and amount in ("p", "t", "u") else None
    if kind == "g" and rest:
        return Counter(part, kind, rest if rest in _STATES else str(GuestState.OTHER))
    if part + kind == "lf" and 0 < len(rest) <= MAX_NAME:
        return Counter(part, kind, rest)
    if part + kind == "lk" and _ID.fullmatch(rest):
        return Counter(part, kind, rest)
    return None


def flatten(digest: Digest) -> Counters:
    """A flat map of non-zero counters, bounded. Instants are milliseconds since 1970.

    Keys: `l|n|u` for the part, then `h` (hosts), `hu`, `hd`, `r:CLASS:p|t|u`, `g:STATE`; `lf:SHAPE` (its key),
    `lk:SHAPE` (its id); `z:NAME` for zones; `uz`, `at`, `uat`, `dr`.
    """
    flat: Counters = {}
    for p, part in PARTS.items():
        sums: Sums = getattr(digest, part)
        flat[f"{p}h"], flat[f"{p}hu"], flat[f"{p}hd"] = sums.hosts, sums.hosts_up, sums.hosts_disabled
        for cls, amount in sums.resources.items():
            flat[f"{p}r:{cls}:p"], flat[f"{p}r:{cls}:t"], flat[f"{p}r:{cls}:u"] = (
                amount.physical,
                amount.total,
                amount.used,
            )
        for state, count in sums.guests.items():
            flat[f"{p}g:{state}"] = count
    for key, count in digest.live.fits.items():
        flat[f"lf:{key}"] = count
    for id, count in digest.live.counted.items():
        flat[f"lk:{id}"] = count
    for name in _ZONES:
        flat[f"z:{name}"] = getattr(digest.zones, name)
    flat["uz"] = digest.unknown_zones
    flat["at"] = milliseconds(digest.as_of)
    flat["uat"] = milliseconds(digest.unknown_as_of)
    flat["dr"] = digest.dropped
    return bounded(flat)


def milliseconds(instant: Wall | None) -> int:
    """How the flat form spells an instant; 0 is none."""
    return round(instant * 1000) if instant is not None else 0


def bounded(flat: Mapping[str, int], first: Collection[str] = ()) -> Counters:
    """`flat` as it may travel: no zeros, no unknown keys, counters saturated, at most MAX_* names in each part.

    What is over goes by name order, and is added to `dr`. Kept before others: the three classes that every cloud has,
    and the shapes whose keys are `first`, so that no zone below crowds out what is counted everywhere. Where a shape
    was counted is kept for `first`, then for the shapes that are kept; elsewhere what fits is then not known.
    """
    names: dict[tuple[str, str], set[str]] = {}
    for key in flat:
        c = counter(key)
        if c is not None and c.kind in ("r", "f", "k"):
            names.setdefault((c.part, c.kind), set()).add(c.name)
    keep: dict[tuple[str, str], set[str]] = {}
    dropped = 0
    for (part, kind), found in names.items():
        limit = MAX_CLASSES if kind == "r" else MAX_SHAPES
        if kind != "k" and len(found) > limit:
            foremost = _FIRST_CLASSES if kind == "r" else first
            keep[part, kind] = set(sorted(found, key=lambda n: (n not in foremost, n))[:limit])
            dropped += len(found) - limit
    counted = names.get(("l", "k"), set())
    if len(counted) > MAX_SHAPES:
        asked = {shape_id(key) for key in first}
        shown = {shape_id(key) for key in keep.get(("l", "f"), names.get(("l", "f"), set()))}
        keep["l", "k"] = set(sorted(counted, key=lambda id: (id not in asked, id not in shown, id))[:MAX_SHAPES])
    result: Counters = {}
    for key, value in flat.items():
        c = counter(key)
        if c is None or not value or ((kept := keep.get((c.part, c.kind))) is not None and c.name not in kept):
            continue
        result[key] = min(value, MAX_INSTANT if c.kind in ("at", "uat") else MAX_COUNTER)
    if dropped:
        result["dr"] = min(result.get("dr", 0) + dropped, MAX_COUNTER)
    return result


def check_counters(flat: Mapping[str, int]) -> None:
    """ValueError unless these may be a digest's counters, or changes of them: see `unflatten`."""
    if len(flat) > MAX_COUNTERS:
        raise ValueError(f"a digest has at most {MAX_COUNTERS} counters, got {len(flat)}")
    for key, value in flat.items():
        if not 0 <= value <= (MAX_INSTANT if key in ("at", "uat") else MAX_COUNTER):
            raise ValueError(f"counter {key[:80]!r} of a digest is from 0 to 2^48 (an instant: before the year 10000)")


def check_counted(flat: Mapping[str, int]) -> None:
    """ValueError if a shape was counted on more live hosts than there are: that would hide what others left out."""
    hosts = flat.get("lh", 0)
    for key, value in flat.items():
        if value > hosts and key.startswith("lk:"):
            raise ValueError(f"a shape ({key[3:80]!r}) was counted on {value} hosts, but there are {hosts}")


def unflatten(flat: Mapping[str, int]) -> Digest:
    """The digest that `flat` spells. Unknown keys are ignored (a newer child may send them).

    Raises ValueError on counters that are negative or too large, and on more shapes or classes than
    the bounds allow.
    """
    check_counters(flat)
    scalars: dict[str, dict[str, int]] = {p: {} for p in PARTS}
    amounts: dict[str, dict[str, dict[str, int]]] = {p: {} for p in PARTS}
    guests: dict[str, dict[str, int]] = {p: {} for p in PARTS}
    fits: dict[str, int] = {}
    counted: dict[str, int] = {}
    zones: dict[str, int] = {}
    for key, value in flat.items():
        c = counter(key)
        if c is None:
            continue
        match c.kind:
            case "z":
                zones[c.name] = value
            case "h" | "hu" | "hd":
                scalars[c.part][c.kind] = value
            case "r":
                amounts[c.part].setdefault(c.name, {})[c.amount] = value
            case "g":
                guests[c.part][c.name] = guests[c.part].get(c.name, 0) + value
            case "f":
                fits[c.name] = value
            case "k":
                counted[c.name] = value
    for p, part in PARTS.items():
        if len(amounts[p]) > MAX_CLASSES:
            raise ValueError(f"a digest holds at most {MAX_CLASSES} classes; its part {part!r} has {len(amounts[p])}")
    if max(len(fits), len(counted)) > MAX_SHAPES:
        raise ValueError(f"a digest holds at most {MAX_SHAPES} shapes, got {max(len(fits), len(counted))}")
    live, not_offered, unknown = (
        Sums(
            scalars[p].get("h", 0),
            scalars[p].get("hu", 0),
            scalars[p].get("hd", 0),
            {
                ResourceClass(c): Amount(a.get("p", 0), a.get("t", 0), a.get("u", 0))
                for c, a in sorted(amounts[p].items())
            },
            dict(sorted(guests[p].items())),
            dict(sorted(fits.items())) if p == "l" else {},
            dict(sorted(counted.items())) if p == "l" else {},
        )
        for p in PARTS
    )
    return Digest(
        live,
        not_offered,
        unknown,
        ZoneCounts(**zones),
        flat.get("uz", 0),
        Wall(flat["at"] / 1000) if flat.get("at") else None,
        Wall(flat["uat"] / 1000) if flat.get("uat") else None,
        flat.get("dr", 0),
    )


def diff(old: Mapping[str, int], new: Mapping[str, int]) -> Counters:
    """The counters that changed from `old` to `new`; one that went is 0."""
    changed = {key: value for key, value in new.items() if old.get(key, 0) != value}
    changed.update({key: 0 for key in old if key not in new})
    return changed


def patch(old: Mapping[str, int], changes: Mapping[str, int]) -> Counters:
    """`old` with `changes` applied: patch(old, diff(old, new)) == new."""
    return {key: value for key, value in {**old, **changes}.items() if value}
