"""Claims on paper: the same rules host by host, guest by guest, slowly, with nothing kept in between."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from hypothesis import strategies as st

from banyan.core.host import Host
from banyan.core.order import GroupPolicy, Policy
from banyan.core.resources import DISK_GIB, MEMORY_MIB, VCPU, Amount, ResourceClass, shape
from banyan.placement.columns import Place
from banyan.placement.filters import NOBODY, Around, Ask
from banyan.placement.score import tie

TRAITS = ("HW_CPU_X86_AVX2", "CUSTOM_GPU")
HOSTS = tuple(f"h{n}" for n in range(7))
ZONES = ("", "az1", "az2")

Needs = tuple[tuple[ResourceClass, int], ...]


@dataclass
class Paper:
    """Hosts by id (their `used` is what is committed), and pending claims: order → (host → guests, needs)."""

    seed: int
    hosts: dict[str, Host] = field(default_factory=dict)
    pending: dict[str, tuple[dict[str, int], Needs]] = field(default_factory=dict)

    def free(self, id: str, cls: ResourceClass) -> int:
        held = sum(spots.get(id, 0) * dict(needs).get(cls, 0) for spots, needs in self.pending.values())
        amount = self.hosts[id].amounts.get(cls, Amount())
        return amount.total - amount.used - held

    def fits(self, ask: Ask, id: str) -> int:
        host = self.hosts[id]
        place = Place(host.availability_zone, frozenset(host.aggregates))
        if not (host.offered and host.up and not host.disabled and ask.admits(host.traits, place)):
            return 0
        return max(0, min(self.free(id, cls) // need for cls, need in ask.shape.needs))

    def share(self, id: str) -> int:
        """Of each class the share that is free, in parts of 65,536; added up."""
        amounts = self.hosts[id].amounts
        return sum(
            max(0, self.free(id, cls)) * 65_536 // amount.total for cls, amount in amounts.items() if amount.total
        )

    def best(self, ask: Ask, near: Around = NOBODY, members: Mapping[str, int] | None = None) -> str | None:
        """Where one more guest goes. `members`: of its group by host."""
        members = members or {}
        able = [id for id in self.hosts if self.fits(ask, id) > 0 and id not in near.different]
        if near.same is not None:
            able = [id for id in able if id in near.same]
        soft = 0
        match near.policy:
            case GroupPolicy.AFFINITY if any(members.values()):
                able = [id for id in able if members.get(id)]
            case GroupPolicy.ANTI_AFFINITY:
                able = [id for id in able if members.get(id, 0) < near.per_host]
            case GroupPolicy.SOFT_AFFINITY:
                soft = -1
            case GroupPolicy.SOFT_ANTI_AFFINITY:
                soft = 1

        def rank(id: str) -> tuple[int, int, int]:
            count = self.fits(ask, id)
            lower = tie(id, 0, self.seed)
            return soft * members.get(id, 0), self.share(id) if ask.policy is Policy.PACK else -count, lower

        return min(able, key=rank, default=None)

    def hold(self, order: str, ask: Ask, host: str) -> None:
        spots, _ = self.pending.setdefault(order, ({}, ask.shape.needs))
        spots[host] = spots.get(host, 0) + 1

    def one_by_one(self, ask: Ask, n: int, near: Around = NOBODY) -> dict[str, int]:
        """Where n single claims in a row would go, until one finds no place. Nothing stays held."""
        members = dict(near.members)
        for _ in range(n):
            host = self.best(ask, near, members)
            if host is None:
                break
            self.hold("one by one", ask, host)
            members[host] = members.get(host, 0) + 1
        return self.pending.pop("one by one", ({}, ()))[0]

    def use(self, host: str, needs: Needs, count: int) -> None:
        """More, or less, is used on that host. As in the columns, never less than nothing."""
        if host in self.hosts:
            amounts = dict(self.hosts[host].amounts)
            for cls, need in needs:
                if cls in amounts:
                    amounts[cls] = replace(amounts[cls], used=max(0, amounts[cls].used + need * count))
            self.hosts[host] = replace(self.hosts[host], amounts=amounts)


NEEDS = ({VCPU: 1}, {VCPU: 2, MEMORY_MIB: 1}, {VCPU: 1, MEMORY_MIB: 2, DISK_GIB: 1}, {MEMORY_MIB: 3, DISK_GIB: 2})
small = st.integers(0, 9)
mostly = st.sampled_from([True] * 5 + [False])


def rack_host(id: str, cores: int, memory: int, disk: int | None, used: int, **more: object) -> Host:
    sizes = ((VCPU, cores), (MEMORY_MIB, memory), (DISK_GIB, disk))
    amounts = {cls: Amount(total, total, min(total, used)) for cls, total in sizes if total is not None}
    return Host(id, id, amounts, **more)


# Most hosts and asks have nothing special, so that they meet.
plain_asks = st.builds(Ask, st.sampled_from(NEEDS).map(shape), st.sampled_from(Policy))
asks = st.one_of(
    plain_asks,
    st.builds(
        Ask,
        st.builds(shape, st.sampled_from(NEEDS), st.sampled_from([(), TRAITS[:1]])),
        st.sampled_from(Policy),
        st.sampled_from([(), TRAITS[1:]]),
        st.sampled_from(["", "az1"]),
        st.sampled_from([(), (("ssd", "nvme"),)]),
    ),
)
plain_hosts = st.builds(
    rack_host, st.sampled_from(HOSTS), st.integers(1, 9), st.integers(1, 9), small, st.integers(0, 2)
)
hosts = st.one_of(
    plain_hosts,
    st.builds(
        rack_host,
        st.sampled_from(HOSTS),
        small,
        small,
        st.one_of(st.none(), small),
        st.integers(0, 4),
        up=mostly,
        disabled=mostly.map(lambda usual: not usual),
        offered=mostly,
        traits=st.frozensets(st.sampled_from(TRAITS)),
        aggregates=st.sampled_from([(), ("ssd",), ("nvme", "fast")]),
        availability_zone=st.sampled_from(ZONES),
    ),
)


def racks(of: st.SearchStrategy[Host]) -> st.SearchStrategy[list[Host]]:
    return st.lists(of, min_size=3, max_size=7, unique_by=lambda host: host.id)
