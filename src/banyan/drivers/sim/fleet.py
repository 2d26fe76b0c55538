"""Which hosts and guests a simulated rack has at an instant: everything computed, nothing kept. Pure.

Every property of host n or guest k follows from a hash of the rack's identity and that number, so that
600,000 guests need no memory and any two readings agree. Guest k lives in slot k // H of host k % H.
A slot's guest takes no more than the slot's equal part of the host, so claims are exact whatever
churns: no host ever holds more than its total.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from hashlib import blake2b
from math import gcd

from banyan.core.catalogue import Flavor, Image, Network, Project
from banyan.core.guest import Guest, GuestState
from banyan.core.host import Host
from banyan.core.resources import DISK_GIB, MEMORY_MIB, VCPU, Amount, ResourceClass
from banyan.core.share import Share, matches
from banyan.drivers.sim.options import HostClass, SimFlavor, SimOptions
from banyan.drivers.sim.script import Condition, Fill

# The guests of one host are worked out in one turn of the event loop, so their number is bounded.
MAX_GUESTS_PER_HOST = 1_000

# How long ago the oldest guest of a rack's first filling was made, in seconds: 30 days.
_PAST = 30 * 86_400


@dataclass(frozen=True, slots=True)
class _Model:
    """A host class with its amounts worked out. `flavors` fit one slot, smallest first."""

    source: HostClass
    amounts: Mapping[ResourceClass, Amount]
    traits: frozenset[str]
    flavors: tuple[SimFlavor, ...]


class Fleet:
    """The rack of `options`. `identity` tells this rack's ids from those of every other. Raises ValueError
    if a class of host cannot hold its part of the guests."""

    def __init__(self, options: SimOptions, identity: str, share: Share) -> None:
        self._options = options
        self._share = share
        self._base = options.hosts
        self._most = max([options.guests, *(step.guests for step in options.script if isinstance(step, Fill))])
        if self._most and not self._base:
            raise ValueError(f"{self._most} guests need at least one host")
        self._slots = -(-self._most // self._base) if self._most else 0
        if self._slots > MAX_GUESTS_PER_HOST:
            raise ValueError(
                f"a host holds at most {MAX_GUESTS_PER_HOST:,} guests, {self._most:,} on {self._base:,} hosts are "
                f"{self._slots:,} each; set more hosts or fewer guests"
            )
        self._hash = blake2b(f"{identity}/{options.seed}".encode(), digest_size=16)
        self._models = [_model(host_class, options, self._slots) for host_class in options.classes]
        self._draw = [i for i, c in enumerate(options.classes) for _ in range(c.weight // _common(options))]
        self._back = pow(_coprime_stride(self._most), -1, self._most) if self._most > 1 else 0
        self._projects = [
            Project(
                self._uuid(self._digest(b"p", number)),
                f"project-{number + 1:03d}",
                "default",
                offered=matches(share.projects, f"project-{number + 1:03d}"),
            )
            for number in range(options.projects)
        ]
        self._model_of = cache(self._choose_model) if self._base <= 100_000 else self._choose_model

    @property
    def base(self) -> int:
        """Hosts at the start; those that a script adds later hold no guests."""
        return self._base

    def host(self, number: int, now: Condition) -> tuple[Host, int]:
        """Host `number` (from 0) as `now` finds it, and how many guests it holds."""
        model = self._model_of(number)
        count = self._count(number, now)
        used = {VCPU: 0, MEMORY_MIB: 0, DISK_GIB: 0}
        for slot in range(count):
            flavor, _, _ = self._occupant(number, slot, model, now)
            used[VCPU] += flavor.vcpu
            used[MEMORY_MIB] += flavor.memory_mib
            used[DISK_GIB] += flavor.disk_gib
        up, disabled = now.host(number + 1)
        options = self._options
        host = Host(
            id=self.host_id(number),
            name=f"{options.name}-{number + 1:05d}",
            amounts={c: Amount(a.physical, a.total, used.get(c, 0)) for c, a in model.amounts.items()},
            up=up,
            disabled=bool(disabled),
            disabled_reason=disabled,
            traits=model.traits,
            aggregates=(options.aggregates[number % len(options.aggregates)],) if options.aggregates else (),
            availability_zone=options.availability_zones[number % len(options.availability_zones)],
            labels={"class": model.source.name},
        )
        return self._share.mark(host), count

    def guests(self, number: int, offered: bool, now: Condition, started: float) -> Iterator[Guest]:
        """The guests of host `number`. `started` is when the driver was made, seconds since 1970."""
        model = self._model_of(number)
        host_id = self.host_id(number)
        stopped_below = int(self._options.stopped * 65_536)
        for slot in range(self._count(number, now)):
            flavor, digest, generation = self._occupant(number, slot, model, now)
            project = self._projects[int.from_bytes(digest[2:6]) % len(self._projects)]
            if generation:
                created = started + now.replaced_at(self._event(number, slot, generation))
            else:
                created = started - 1 - int.from_bytes(digest[6:10]) % _PAST
            yield Guest(
                id=self._uuid(digest),
                name=f"{flavor.name}-{digest[:4].hex()}",
                project=project.id,
                state=GuestState.STOPPED if int.from_bytes(digest[10:12]) < stopped_below else GuestState.ACTIVE,
                host=host_id,
                flavor=flavor.name,
                vcpu=flavor.vcpu,
                memory_mib=flavor.memory_mib,
                disk_gib=flavor.disk_gib,
                created=float(created),
                offered=offered and project.offered,
            )

    def flavors(self) -> tuple[Flavor, ...]:
        return tuple(
            Flavor(
                id=self._uuid(self._digest(b"f", number)),
                name=flavor.name,
                needs={VCPU: flavor.vcpu, MEMORY_MIB: flavor.memory_mib, DISK_GIB: flavor.disk_gib},
                traits=flavor.traits,
                offered=matches(self._share.flavors, flavor.name),
            )
            for number, flavor in enumerate(self._options.flavors)
        )

    def images(self) -> tuple[Image, ...]:
        return (Image(self._uuid(self._digest(b"i", 0)), "sim-image", size=16_777_216),)

    def networks(self) -> tuple[Network, ...]:
        return (Network(self._uuid(self._digest(b"n", 0)), "sim-network", shared=True, subnets=("10.64.0.0/12",)),)

    def projects(self) -> tuple[Project, ...]:
        return tuple(self._projects)

    # --- the arithmetic ---------------------------------------------------------------------------

    def _count(self, number: int, now: Condition) -> int:
        """How many guests host `number` holds: those k < guests with k % base == number."""
        if number >= self._base or number >= now.guests:
            return 0
        return (now.guests - 1 - number) // self._base + 1

    def _generation(self, index: int, now: Condition) -> int:
        """How often guest `index` was replaced: replacement e falls on guest e * stride mod most."""
        if not now.churned:
            return 0
        turn = self._turn(index)
        return (now.churned - turn - 1) // self._most + 1 if now.churned > turn else 0

    def _turn(self, index: int) -> int:
        return index * self._back % self._most if self._most > 1 else 0

    def _event(self, number: int, slot: int, generation: int) -> int:
        return self._turn(slot * self._base + number) + (generation - 1) * self._most

    def _occupant(self, number: int, slot: int, model: _Model, now: Condition) -> tuple[SimFlavor, bytes, int]:
        index = slot * self._base + number
        generation = self._generation(index, now)
        digest = self._digest(b"g", index, generation)
        # Hosts differ in how big their guests are, or every host would be used alike.
        heat = number * 2_654_435_761 >> 7 & 3
        choices = max(1, len(model.flavors) * (heat + 1) // 4)
        return model.flavors[int.from_bytes(digest[12:14]) % choices], digest, generation

    def _choose_model(self, number: int) -> _Model:
        return self._models[self._draw[int.from_bytes(self._digest(b"c", number)[:4]) % len(self._draw)]]

    def host_id(self, number: int) -> str:
        """Of host `number` (from 0)."""
        return self._uuid(self._digest(b"h", number))

    def _digest(self, kind: bytes, number: int, generation: int = 0) -> bytes:
        hashed = self._hash.copy()
        hashed.update(kind + number.to_bytes(6) + generation.to_bytes(6))
        return hashed.digest()

    @staticmethod
    def _uuid(digest: bytes) -> str:
        """A version 8 UUID (RFC 9562) of a digest's bits."""
        h = digest.hex()
        return f"{h[:8]}-{h[8:12]}-8{h[13:16]}-a{h[17:20]}-{h[20:32]}"


def _model(host_class: HostClass, options: SimOptions, slots: int) -> _Model:
    amounts = {}
    for name, physical in sorted(host_class.physical().items()):
        left = max(0, physical - options.reserved.get(name, 0))
        amounts[ResourceClass(name)] = Amount(physical, int(left * options.overcommit.get(name, 1.0)))
    traits = frozenset(host_class.traits)
    flavors = tuple(
        flavor
        for flavor in sorted(options.flavors, key=lambda f: (f.vcpu, f.memory_mib, f.disk_gib, f.name))
        if slots
        and traits.issuperset(flavor.traits)
        and flavor.vcpu * slots <= amounts[VCPU].total
        and flavor.memory_mib * slots <= amounts[MEMORY_MIB].total
        and flavor.disk_gib * slots <= amounts[DISK_GIB].total
    )
    if slots and not flavors:
        raise ValueError(
            f"{slots} guests on each host do not fit hosts of class {host_class.name!r}, whatever their flavor; "
            "set fewer guests, more hosts, larger hosts or smaller flavors"
        )
    return _Model(host_class, amounts, traits, flavors)


def _common(options: SimOptions) -> int:
    """Divides all weights, so that the table drawn from stays small."""
    return max(1, gcd(*(c.weight for c in options.classes)), sum(c.weight for c in options.classes) // 10_000)


def _coprime_stride(size: int) -> int:
    """A step that visits all of `size` guests before it comes back, far from neighbour to neighbour."""
    stride = max(1, int(size * 0.618))
    while size > 1 and gcd(stride, size) != 1:
        stride += 1
    return stride
