"""The digest: a bounded summary of capacity and use, folded from members (protocols §4).

Laws, property-tested: `merge` is commutative and associative with `Digest()` as zero; a fold never
exceeds what its members hold. What is not alive stands apart in `unknown`, with its last value;
what a member does not share stands apart in `not_offered`. On the wire a digest is a flat map of
counters, so that a delta is the counters that changed (`flatten`, `diff`, `patch`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from banyan.core.resources import Amount, ResourceClass, add_amounts
from banyan.core.time import Wall

Counters = dict[str, int]

# A digest stays bounded whatever its members send; what is over is dropped by name order, and counted.
MAX_SHAPES = 300
MAX_CLASSES = 64
MAX_STATES = 16


def add_counts(a: Mapping[str, int], b: Mapping[str, int]) -> dict[str, int]:
    return {k: a.get(k, 0) + b.get(k, 0) for k in sorted({*a, *b})}


@dataclass(frozen=True, slots=True)
class Sums:
    """Totals over hosts. `fits` is per Shape.key: how many more guests of it would fit, summed over hosts."""

    hosts: int = 0
    hosts_up: int = 0
    hosts_disabled: int = 0
    resources: Mapping[ResourceClass, Amount] = field(default_factory=dict)
    guests: Mapping[str, int] = field(default_factory=dict)
    fits: Mapping[str, int] = field(default_factory=dict)

    def __add__(self, other: Sums) -> Sums:
        return Sums(
            self.hosts + other.hosts,
            self.hosts_up + other.hosts_up,
            self.hosts_disabled + other.hosts_disabled,
            add_amounts(self.resources, other.resources),
            add_counts(self.guests, other.guests),
            add_counts(self.fits, other.fits),
        )

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
    """

    live: Sums = Sums()
    not_offered: Sums = Sums()
    unknown: Sums = Sums()
    zones: ZoneCounts = ZoneCounts()
    unknown_zones: int = 0
    as_of: Wall | None = None
    unknown_as_of: Wall | None = None

    def __add__(self, other: Digest) -> Digest:
        return Digest(
            self.live + other.live,
            self.not_offered + other.not_offered,
            self.unknown + other.unknown,
            self.zones + other.zones,
            self.unknown_zones + other.unknown_zones,
            oldest(self.as_of, other.as_of),
            oldest(self.unknown_as_of, other.unknown_as_of),
        )

    def as_unknown(self) -> Digest:
        """The same totals, moved out of `live`: for a member that is not alive now.

        Its zones are kept as counted, but none of them as alive.
        """
        zones = self.zones
        return Digest(
            unknown=self.live + self.unknown,
            not_offered=Sums(),
            zones=replace(zones, alive=0, suspect=0, lost=zones.alive + zones.suspect + zones.lost),
            unknown_zones=zones.total,
            unknown_as_of=oldest(self.as_of, self.unknown_as_of),
        )

    def as_not_offered(self) -> Digest:
        """The same totals as capacity that may not be used: for a member that is disabled or not ready."""
        return replace(self, live=Sums(), not_offered=self.live + self.not_offered)


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

_PARTS = ("live", "not_offered", "unknown")
_SCALARS = ("hosts", "hosts_up", "hosts_disabled")
_ZONES = ("total", "ready", "alive", "suspect", "lost", "unavailable", "disabled")


def flatten(digest: Digest) -> Counters:
    """A flat map of non-zero counters. Instants are milliseconds since 1970.

    Keys: `l|n|u` for the part, then `h` (hosts), `hu`, `hd`, `r:CLASS:p|t|u`, `g:STATE`, `f:SHAPE`;
    `z:NAME` for zones; `uz`, `at`, `uat`.
    """
    flat: Counters = {}
    for part in _PARTS:
        sums: Sums = getattr(digest, part)
        p = part[0]
        flat[f"{p}h"], flat[f"{p}hu"], flat[f"{p}hd"] = sums.hosts, sums.hosts_up, sums.hosts_disabled
        for cls, amount in sums.resources.items():
            flat[f"{p}r:{cls}:p"], flat[f"{p}r:{cls}:t"], flat[f"{p}r:{cls}:u"] = (
                amount.physical,
                amount.total,
                amount.used,
            )
        for state, count in sums.guests.items():
            flat[f"{p}g:{state}"] = count
        for key, count in sums.fits.items():
            flat[f"{p}f:{key}"] = count
    for name in _ZONES:
        flat[f"z:{name}"] = getattr(digest.zones, name)
    flat["uz"] = digest.unknown_zones
    flat["at"] = round(digest.as_of * 1000) if digest.as_of is not None else 0
    flat["uat"] = round(digest.unknown_as_of * 1000) if digest.unknown_as_of is not None else 0
    return {key: value for key, value in flat.items() if value}


def unflatten(flat: Mapping[str, int]) -> Digest:
    """The digest that `flat` spells. Unknown keys are ignored (a newer child may send them).

    Raises ValueError on negative counters or on more shapes, classes or states than the bounds allow.
    """
    if any(value < 0 for value in flat.values()):
        raise ValueError("a digest holds no negative counter")
    parts: dict[str, tuple[dict[str, int], dict[str, dict[str, int]], dict[str, int], dict[str, int]]] = {
        p: ({}, {}, {}, {}) for p in "lnu"
    }
    zones: dict[str, int] = {}
    for key, value in flat.items():
        head, _, rest = key.partition(":")
        if head == "z" and rest in _ZONES:
            zones[rest] = value
            continue
        if not head or head[0] not in parts or head in ("uz", "uat"):
            continue
        scalars, amounts, guests, fits = parts[head[0]]
        match head[1:]:
            case "h" | "hu" | "hd":
                scalars[head[1:]] = value
            case "r":
                cls, _, kind = rest.rpartition(":")
                if cls and kind in "ptu":
                    amounts.setdefault(cls, {})[kind] = value
            case "g":
                guests[rest] = value
            case "f":
                fits[rest] = value
    for p, (_, amounts, guests, fits) in parts.items():
        if len(amounts) > MAX_CLASSES or len(guests) > MAX_STATES or len(fits) > MAX_SHAPES:
            raise ValueError(
                f"a digest holds at most {MAX_CLASSES} classes, {MAX_STATES} states and {MAX_SHAPES} shapes; "
                f"part {p!r} has {len(amounts)}, {len(guests)} and {len(fits)}"
            )
    sums = {
        p: Sums(
            scalars.get("h", 0),
            scalars.get("hu", 0),
            scalars.get("hd", 0),
            {
                ResourceClass(c): Amount(a.get("p", 0), a.get("t", 0), a.get("u", 0))
                for c, a in sorted(amounts.items())
            },
            dict(sorted(guests.items())),
            dict(sorted(fits.items())),
        )
        for p, (scalars, amounts, guests, fits) in parts.items()
    }
    return Digest(
        sums["l"],
        sums["n"],
        sums["u"],
        ZoneCounts(**zones),
        flat.get("uz", 0),
        Wall(flat["at"] / 1000) if flat.get("at") else None,
        Wall(flat["uat"] / 1000) if flat.get("uat") else None,
    )


def diff(old: Mapping[str, int], new: Mapping[str, int]) -> Counters:
    """The counters that changed from `old` to `new`; one that went is 0."""
    changed = {key: value for key, value in new.items() if old.get(key, 0) != value}
    changed.update({key: 0 for key in old if key not in new})
    return changed


def patch(old: Mapping[str, int], changes: Mapping[str, int]) -> Counters:
    """`old` with `changes` applied: patch(old, diff(old, new)) == new."""
    return {key: value for key, value in {**old, **changes}.items() if value}
