"""What the servers of one rack hold and how many there are, in memory: per host, per state, per project.

Made from the store's sums at start, then kept up by what each commit changed; there is no second truth. An object for
each server would cost gigabytes, so there is none here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

from banyan.core.guest import GuestState
from banyan.core.ids import ZoneCode
from banyan.core.lineage import UseRow
from banyan.core.resources import DISK_GIB, MEMORY_MIB, VCPU, ResourceClass, Shape
from banyan.core.server import Holding, Server, VmState

Needs = tuple[tuple[ResourceClass, int], ...]
Project = tuple[ZoneCode, str]

_STATES: Mapping[VmState, GuestState] = {
    VmState.BUILDING: GuestState.BUILDING,
    VmState.ACTIVE: GuestState.ACTIVE,
    VmState.RESIZED: GuestState.ACTIVE,
    VmState.RESCUED: GuestState.ACTIVE,
    VmState.STOPPED: GuestState.STOPPED,
    VmState.PAUSED: GuestState.PAUSED,
    VmState.SUSPENDED: GuestState.SUSPENDED,
    VmState.SHELVED: GuestState.SHELVED,
    VmState.OFFLOADED: GuestState.SHELVED,
    VmState.ERROR: GuestState.ERROR,
}
_parse = lru_cache(4_096)(Shape.parse)


class Place:
    """So many guests of some needs on one host; fewer if `count` is negative."""

    __slots__ = ("count", "host", "needs")

    def __init__(self, host: str, needs: Needs, count: int) -> None:
        self.host = host
        self.needs = needs
        self.count = count


class Held:
    """See the module. A server that nobody confirmed yet holds its place, and is not counted among servers."""

    def __init__(self) -> None:
        self._hosts: dict[str, dict[ResourceClass, int]] = {}
        self._guests: dict[str, int] = {}
        self._states: dict[GuestState, int] = {}
        self._projects: dict[Project, list[int]] = {}
        self._waiting: dict[Project, int] = {}
        self.touched: set[Project] = set()

    def load(self, holdings: Iterable[Holding]) -> None:
        for one in holdings:
            shape = _parse(one.shape)
            if one.host:
                self._put(one.host, shape.needs, one.count, guests=not one.kept)
            if one.unconfirmed:
                self._wait((one.issuer, one.project), one.count)
            elif not one.kept:
                self._count(one.state, (one.issuer, one.project), dict(shape.needs), one.count)

    @property
    def servers(self) -> int:
        return sum(self._states.values())

    def hosts(self) -> Iterable[tuple[str, Mapping[ResourceClass, int]]]:
        return self._hosts.items()

    def on(self, host: str) -> int:
        """How many servers hold a place on that host; a kept one of a resize is none."""
        return self._guests.get(host, 0)

    def guests(self) -> dict[tuple[str, bool], int]:
        """As placement.fold.GuestCounts. Banyan places on offered hosts only."""
        return {(str(state), True): count for state, count in self._states.items() if count}

    def uses(self) -> list[UseRow]:
        return [self.use(project) for project in sorted(self._projects)]

    def use(self, project: Project) -> UseRow:
        """Without guests when it uses nothing any more."""
        servers, vcpu, memory, disk = self._projects.get(project, (0, 0, 0, 0))
        return UseRow(*project, "", servers, vcpu, memory, disk)

    def waits(self, issuer: int, project: str) -> bool:
        """Whether servers of that project wait to be confirmed; 0 and "" stand for all."""
        return any(issuer in (0, of) and project in ("", name) for of, name in self._waiting)

    def placed(self, servers: Sequence[Server], needs: Needs) -> Mapping[str, int]:
        """New servers of one order, all of the same needs and in one state. How many of them each host got."""
        hosts: dict[str, int] = {}
        for server in servers:
            hosts[server.host] = hosts.get(server.host, 0) + 1
        for host, count in hosts.items():
            self._put(host, needs, count)
        one = servers[0]
        if one.unconfirmed:
            self._wait((one.issuer, one.project), len(servers))
        else:
            self._count(one.state, (one.issuer, one.project), dict(needs), len(servers))
        return hosts

    def change(self, before: Server | None, after: Server | None) -> list[Place]:
        """One server is not as it was; None: it is not there. The places that it took (once each) and gave up."""
        if before is not None and after is not None and _same_places(before, after):
            if before.state is not after.state:
                self._move(before, after)
            return []
        places = [*_places(before, -1), *_places(after, 1)]
        for place in places:
            self._put(place.host, place.needs, place.count, guests=False)
        for server, sign in ((before, -1), (after, 1)):
            if server is None:
                continue
            if server.holds:
                self._guests[server.host] = self._guests.get(server.host, 0) + sign
            if server.state is VmState.DELETED:
                continue
            if server.unconfirmed:
                self._wait((server.issuer, server.project), sign)
            else:
                needs = dict(server.spec.shape.needs)
                self._count(server.state, (server.issuer, server.project), needs, sign)
        return _net(places)

    def _move(self, before: Server, after: Server) -> None:
        """From one state to another, with everything that it holds."""
        old, new = _STATES[before.state], _STATES[after.state]
        self._states[old] -= 1
        self._states[new] = self._states.get(new, 0) + 1

    def _put(self, host: str, needs: Needs, count: int, *, guests: bool = True) -> None:
        held = self._hosts.setdefault(host, {})
        for cls, need in needs:
            held[cls] = held.get(cls, 0) + need * count
            if not held[cls]:
                del held[cls]
        if not held:
            del self._hosts[host]
        if guests:
            self._guests[host] = self._guests.get(host, 0) + count

    def _wait(self, project: Project, count: int) -> None:
        left = self._waiting.get(project, 0) + count
        if left:
            self._waiting[project] = left
        else:
            self._waiting.pop(project, None)

    def _count(self, state: VmState, project: Project, needs: Mapping[ResourceClass, int], count: int) -> None:
        word = _STATES[state]
        self._states[word] = self._states.get(word, 0) + count
        use = self._projects.setdefault(project, [0, 0, 0, 0])
        use[0] += count
        use[1] += needs.get(VCPU, 0) * count
        use[2] += needs.get(MEMORY_MIB, 0) * count
        use[3] += needs.get(DISK_GIB, 0) * count
        if not any(use):
            del self._projects[project]
        self.touched.add(project)


def _same_places(before: Server, after: Server) -> bool:
    """Most steps of a life change nothing but the state."""
    return (
        before.host == after.host
        and before.resize is after.resize
        and (before.spec is after.spec or before.spec.needs == after.spec.needs)
        and VmState.DELETED not in (before.state, after.state)
        and not (before.unconfirmed or after.unconfirmed)
    )


def _places(server: Server | None, sign: int) -> list[Place]:
    if server is None or server.state is VmState.DELETED:
        return []
    found = [Place(server.host, server.spec.shape.needs, sign)] if server.host else []
    if server.resize is not None:
        found.append(Place(server.resize.host, server.resize.spec.shape.needs, sign))
    return found


def _net(places: list[Place]) -> list[Place]:
    """Without those that were given up and taken again."""
    left: list[Place] = []
    for place in places:
        for other in left:
            if (other.host, other.needs, other.count) == (place.host, place.needs, -place.count):
                left.remove(other)
                break
        else:
            left.append(place)
    return left
