"""Servers, images, networks and hosts in memory, with the rules of the real ones: for tests of the API before them.

Servers follow core/server_states.py. An action is done at once unless `held`: then it stays under way until `finish`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import count

from msgspec.structs import replace

from banyan.core.errors import BadInput, BanyanError, Conflict, NotFound
from banyan.core.host import HostChange
from banyan.core.identity import Caller
from banyan.core.ids import RackCode, guest_id
from banyan.core.network import SecurityGroup, SecurityRule
from banyan.core.order import Ground, ImageSource, NetworkWish, Policy, Specification
from banyan.core.permissions import Target, may, require
from banyan.core.principal import Principal
from banyan.core.secret import Secret
from banyan.core.server import (
    Action,
    ActionRecord,
    Address,
    Arguments,
    Change,
    Created,
    EventRecord,
    Fault,
    Level,
    Made,
    Nic,
    NoValidHost,
    PendingResize,
    Power,
    Server,
    ServerPage,
    ServerQuery,
    Task,
    VmState,
)
from banyan.core.server_order import full_order, ranking, read_place, values_of, write_place
from banyan.core.server_states import TASKS, check
from banyan.core.time import Wall
from banyan.zone.compute.sources import BootImage, ImageDetail, Interface, NetworkPlan
from banyan.zone.views import HostView
from tests.api.nova.inventory import FakeInventory

# Some time before the zone's own clock, which stands still.
NOW = Wall(1_795_990_000.25)
RACK = RackCode(77)
IMAGE, BIG_IMAGE, QUEUED_IMAGE = (f"{n}0000000-0000-4000-8000-000000000000" for n in (1, 2, 3))
NETWORK, PORT = "a0000000-0000-4000-8000-000000000001", "b0000000-0000-4000-8000-000000000001"
_POWER = {
    VmState.ACTIVE: Power.RUNNING,
    VmState.STOPPED: Power.OFF,
    VmState.PAUSED: Power.PAUSED,
    VmState.SUSPENDED: Power.SUSPENDED,
}


class FakeServers:
    """zone.servers.surface.Servers. `room`: how many more there is a place for; `away`: an error for whoever asks."""

    def __init__(self) -> None:
        self.rows: dict[str, Server] = {}
        self.done: dict[str, list[ActionRecord]] = {}
        self.held = False
        self.room = 10_000
        self.absent: tuple[str, ...] = ()
        self.away: BanyanError | None = None
        self.orders: list[tuple[Specification, int, int]] = []
        self.keys: dict[str, tuple[dict[str, object], Created]] = {}
        self.pages = 0
        self.arguments: list[Arguments] = []
        self.passwords: list[tuple[str, Secret | None]] = []
        self.inventory = FakeInventory()
        self._sequence = count(1)
        self._now = NOW

    def tick(self) -> Wall:
        self._now = Wall(self._now + 1.0)
        return self._now

    async def create(
        self,
        who: Principal | Caller,
        specification: Specification,
        *,
        least: int = 1,
        most: int = 1,
        policy: Policy = Policy.SPREAD,
        retry_key: str = "",
        asked: Mapping[str, object] | None = None,
    ) -> Created:
        assert isinstance(who, Principal)
        require(who, "compute:server_create", Target(project=who.project))
        self._check_away()
        self.orders.append((specification, least, most))
        many = min(most, self.room)
        if many < least:
            raise NoValidHost(2, {"full": 2}, least, many)
        self.room -= many
        order = f"{1:012x}{len(self.orders):020x}"
        made = []
        for n in range(many):
            now = self.tick()
            id = guest_id(int(now * 1000), RACK, next(self._sequence))
            name = specification.name if most == 1 else f"{specification.name}-{n + 1}"
            host = f"h{len(self.rows) % 2 + 1}"
            self.rows[id] = Server(
                id, who.issuer, who.project, who.user, name, RACK, host, specification, now, now,
                description=specification.description, hostname=specification.hostname, host_name=f"host-{host}",
                availability_zone="az1", order=order, index=n, request=who.request,
            )  # fmt: skip
            self._begun(who, id, Action.CREATE)
            if not self.held:
                self._done(id, VmState.ACTIVE)
            made.append(Made(id, "top", RACK, host, Ground.MOST_ROOM))
        self.keys[retry_key or order] = dict(asked or {}), Created(order, tuple(made), True)
        return Created(order, tuple(made))

    async def answered(self, who: Principal, retry_key: str, asked: Mapping[str, object]) -> Created | None:
        before, created = self.keys.get(retry_key, (dict(asked), None))
        if other := [name for name in asked if asked[name] != before.get(name)]:
            raise Conflict("other-order", f"another {', '.join(other)}")
        return created

    async def withdraw(self, who: Principal, created: Created, retry_key: str = "") -> None:
        """What can not be asked is told later."""
        self.keys.pop(retry_key, None)
        for made in created.made:
            if self.rows[made.id].deleted_at is None:
                self._begun(who, made.id, Action.DELETE)
                self._done(made.id, VmState.DELETED)

    async def show(self, who: Principal | Caller, id: str) -> Server:
        self._check_away()
        return self._mine(who, id, "compute:server_show")

    def _mine(self, who: Principal | Caller, id: str, action: str) -> Server:
        server = self.rows.get(id)
        missing = NotFound("no-server", f"Instance {id} could not be found.")
        if server is None or (server.deleted_at is not None and not may_see(who)):
            raise missing
        if isinstance(who, Caller):
            return server
        if not may(who, "compute:server_show", Target(project=server.project)):
            raise missing
        require(who, action, Target(project=server.project))
        return server

    def _check_away(self) -> None:
        if self.away is not None:
            raise self.away

    async def page(self, who: Principal | Caller, query: ServerQuery, within: float | None = None) -> ServerPage:
        self._check_away()
        self.pages += 1
        assert isinstance(who, Principal)
        found = [server for server in self.rows.values() if self._matches(who, server, query)]
        order = full_order(query.sort)
        rank = ranking(order)
        found.sort(key=lambda server: rank(values_of(server, order)))
        start = read_place(query.after, len(order))
        if start is not None:
            found = [server for server in found if rank(start) < rank(values_of(server, order))]
        rows = found[: query.limit]
        after = write_place(values_of(rows[-1], order)) if len(found) > len(rows) else ""
        return ServerPage(tuple(rows), after, self.absent)

    def _matches(self, who: Principal, s: Server, q: ServerQuery) -> bool:
        if not q.every_project:
            if s.project != who.project:
                return False
        elif q.project and s.project != q.project:
            return False
        if (s.deleted_at is not None) != q.deleted and q.changed_since is None:
            return False
        tags = set(s.spec.tags)
        return (
            (not q.ids or s.id in q.ids)
            and (not q.name or re.search(q.name, s.name) is not None)
            and (not q.states or s.state in q.states)
            and (q.tasks is None or s.task in q.tasks)
            and (not q.flavor or (s.spec.flavor is not None and s.spec.flavor.id == q.flavor))
            and (not q.image or (s.spec.image is not None and s.spec.image.id == q.image))
            and (not q.host or s.host == q.host)
            and (not q.address or any(re.search(q.address, a.address) for n in s.nics for a in n.addresses))
            and (not q.group or s.spec.hints.group == q.group)
            and (not q.user or s.user == q.user)
            and (q.changed_since is None or s.updated >= q.changed_since)
            and (q.changed_before is None or s.updated <= q.changed_before)
            and (q.locked is None or s.locked == q.locked)
            and (q.power is None or s.power is q.power)
            and set(q.tags) <= tags
            and (not q.tags_any or bool(set(q.tags_any) & tags))
            and (not q.not_tags or not set(q.not_tags) <= tags)
            and not set(q.not_tags_any) & tags
        )

    async def act(
        self,
        who: Principal | Caller,
        id: str,
        action: Action,
        arguments: Arguments | None = None,
        *,
        password: Secret | None = None,
    ) -> Server:
        self._check_away()
        self.passwords.append((str(action), password))
        self.arguments.append(arguments or Arguments())
        server = self._mine(who, id, f"compute:server_{action}")
        given = arguments or Arguments()
        operator = may_see(who)
        after = check(server, action, operator=operator)
        assert isinstance(who, Principal)
        if action is Action.LOCK:
            return self._put(replace(server, locked=True, locked_by="owner", locked_reason=given.reason))
        if action is Action.UNLOCK:
            return self._put(replace(server, locked=False, locked_by="", locked_reason=""))
        if action is Action.RESET:
            assert given.state is not None
            fault = Fault(500, "reset", self.tick()) if given.state is VmState.ERROR else None
            return self._put(replace(server, state=given.state, task=Task.NONE, fault=fault))
        self._begun(who, id, action)
        server = self._put(replace(server, task=TASKS[action]))
        if action is Action.RESIZE:
            assert given.flavor is not None
            before = PendingResize(server.spec, server.host, server.host_name, server.state, server.move, self._now)
            spec = replace(server.spec, flavor=given.flavor, needs=given.needs)
            server = self._put(replace(server, spec=spec, resize=before))
        if action is Action.MIGRATE:
            before = PendingResize(server.spec, server.host, server.host_name, server.state, server.move, self._now)
            server = self._put(replace(server, resize=before, host="h9", host_name="host-h9"))
        if action is Action.REVERT_RESIZE and server.resize is not None:
            server = self._put(replace(server, spec=server.resize.spec, host_name=server.resize.host_name))
        if action is Action.REBUILD:
            server = self._put(_rebuilt(server, given))
        if not self.held:
            self._done(id, after)
        return self.rows[id]

    async def change(self, who: Principal | Caller, id: str, change: Change) -> Server:
        self._check_away()
        server = self._mine(who, id, "compute:server_change")
        spec = server.spec
        metadata = dict(spec.metadata) if change.metadata is None else dict(change.metadata)
        metadata.update(change.metadata_merge)
        for key in change.metadata_drop:
            metadata.pop(key, None)
        tags = list(spec.tags) if change.tags is None else list(change.tags)
        tags = [tag for tag in dict.fromkeys([*tags, *change.tags_add]) if tag not in change.tags_drop]
        spec = replace(
            spec,
            metadata=metadata,
            tags=tuple(tags),
            disk_config=change.disk_config or spec.disk_config,
            security_groups=spec.security_groups if change.security_groups is None else change.security_groups,
        )
        description = server.description if change.description is None else change.description
        return self._put(
            replace(
                server,
                spec=spec,
                name=change.name or server.name,
                hostname=change.hostname or server.hostname,
                description=None if "description" in change.clear else description,
                nics=server.nics if change.nics is None else change.nics,
                connected=server.connected or change.nics is not None,
            )
        )

    async def actions(self, who: Principal | Caller, id: str) -> tuple[ActionRecord, ...]:
        server = self.rows.get(id)
        if server is None or not (
            isinstance(who, Caller) or may(who, "compute:server_show", Target(project=server.project))
        ):
            raise NotFound("no-server", f"Instance {id} could not be found.")
        if isinstance(who, Principal):
            require(who, "compute:server_actions", Target(project=server.project))
        return tuple(reversed(self.done.get(id, [])))

    async def console(self, who: Principal | Caller, id: str, lines: int | None = None) -> str:
        server = self._mine(who, id, "compute:server_console")
        if server.state is VmState.BUILDING:
            raise Conflict("bad-state", "not yet")
        rows = [f"line {n}" for n in range(50)]
        return "\n".join(rows if lines is None else rows[-lines:] if lines else []) + "\n"

    async def why(self, who: Principal | Caller, id: str) -> tuple[Level, ...]:
        return ()

    async def say_of_host(
        self, who: Principal | Caller, zone: str, rack: str, host: str, change: HostChange
    ) -> HostView:
        if self.away is not None:
            raise self.away
        return self.inventory.say(host, change)

    async def counts(self, who: Principal | Caller) -> Mapping[str, int]:
        assert isinstance(who, Principal)
        mine = [s for s in self.rows.values() if s.project == who.project and s.deleted_at is None]
        flavors = [s.spec.flavor for s in mine if s.spec.flavor is not None]
        vcpu, memory = sum(f.vcpu for f in flavors), sum(f.memory_mib for f in flavors)
        return {"servers": len(mine), "vcpu": vcpu, "memory_mib": memory, "disk_gib": 0}

    def finish(self, id: str, *, state: VmState | None = None) -> None:
        """What is under way is done."""
        server = self.rows[id]
        action = next(action for action, task in TASKS.items() if task is server.task)
        self._done(id, state or check(replace(server, task=Task.NONE), action, operator=True))

    def _begun(self, who: Principal, id: str, action: Action) -> None:
        now = self.tick()
        record = ActionRecord(id, who.request, action, who.issuer, who.project, who.user, now, now)
        self.done.setdefault(id, []).append(record)

    def _done(self, id: str, after: VmState) -> None:
        server, now = self.rows[id], self.tick()
        last = self.done[id][-1]
        event = EventRecord(f"compute_{last.action}", last.started, now, "success", server.host_name)
        self.done[id][-1] = replace(last, updated=now, events=(event,))
        server = replace(server, state=after, task=Task.NONE, power=_POWER.get(after, Power.UNKNOWN))
        if after is VmState.DELETED:
            server = replace(server, deleted_at=now, terminated=now)
            self.room += 1
        elif after is VmState.ACTIVE and server.launched is None:
            server = replace(server, launched=now)
        if after is not VmState.RESIZED and last.action in (Action.CONFIRM_RESIZE, Action.REVERT_RESIZE):
            server = replace(server, resize=None)
        self._put(server)

    def _put(self, server: Server) -> Server:
        changed = replace(server, updated=self.tick(), revision=server.revision + 1)
        self.rows[server.id] = changed
        return changed


def may_see(who: Principal | Caller) -> bool:
    return isinstance(who, Caller) or may(who, "compute:server_hosts")


def _rebuilt(server: Server, given: Arguments) -> Server:
    spec = replace(server.spec, image=given.image or server.spec.image)
    if given.metadata is not None:
        spec = replace(spec, metadata=given.metadata)
    if given.key is not None or "key" in given.clear:
        spec = replace(spec, key=given.key)
    if given.user_data is not None or "user_data" in given.clear:
        spec = replace(spec, user_data=given.user_data or "")
    if given.disk_config:
        spec = replace(spec, disk_config=given.disk_config)
    description = server.description if given.description is None else given.description
    return replace(
        server,
        spec=spec,
        name=given.name or server.name,
        hostname=given.hostname or server.hostname,
        description=None if "description" in given.clear else description,
    )


class FakeImages:
    """zone.compute.sources.Images: three public ones, and the snapshots."""

    def __init__(self) -> None:
        self.known = {
            IMAGE: BootImage(ImageSource(IMAGE, "small", "sha512:00", "here", 512)),
            BIG_IMAGE: BootImage(ImageSource(BIG_IMAGE, "big"), min_disk_gib=500, min_memory_mib=100_000),
            QUEUED_IMAGE: BootImage(ImageSource(QUEUED_IMAGE, "soon"), status="queued"),
        }
        self.reserved: list[tuple[str, str, str, dict[str, str]]] = []
        self.rotated: list[tuple[str, str, int]] = []
        self.unshelving: list[str] = []

    async def find(self, who: Principal, id: str) -> BootImage:
        if id not in self.known:
            raise NotFound("no-image", f"Image {id} could not be found.")
        return self.known[id]

    async def reserve(
        self,
        who: Principal,
        name: str,
        server: Server,
        properties: Mapping[str, str],
        kind: str,
        keep: int | None = None,
    ) -> ImageSource:
        if keep is not None:
            self.rotated.append((server.id, properties["backup_type"], keep))
        id = f"c0000000-0000-4000-8000-{len(self.reserved):012d}"
        self.reserved.append((id, name, kind, dict(properties)))
        return ImageSource(id, name)

    async def show(self, who: Principal, id: str) -> ImageDetail:
        image = await self.find(who, id)
        return ImageDetail(id, image.source.name, image.status, NOW, NOW, image.size_bytes)

    async def page(self, who: Principal, after: str, limit: int, filters: Mapping[str, str]) -> Sequence[ImageDetail]:
        return [await self.show(who, id) for id in sorted(self.known) if id > after][:limit]

    async def delete(self, who: Principal, id: str) -> None:
        await self.find(who, id)
        del self.known[id]

    def unshelved(self, server: str) -> None:
        self.unshelving.append(server)

    async def abandon(self, who: Principal, image: ImageSource) -> None:
        self.reserved = [one for one in self.reserved if one[0] != image.id]


class FakeNetworks:
    """zone.compute.sources.Networks: one network of each project, one port of nobody's."""

    def __init__(self) -> None:
        self.ports: dict[str, str] = {}
        self.nics: dict[str, Nic] = {}
        self.full = False
        self._sequence = count(1)

    async def plan(
        self, who: Principal, wishes: Sequence[NetworkWish], *, automatic: bool, groups: Sequence[str], count: int
    ) -> NetworkPlan:
        for group in groups:
            if group not in ("default", "web"):
                text = f"Security group {group} not found for project {who.project}."
                raise BadInput("bad-security-group", text)
        found = []
        for wish in wishes or ([NetworkWish(network=NETWORK)] if automatic else []):
            if wish.port and wish.port != PORT:
                raise BadInput("bad-port", f"Port id {wish.port} could not be found.")
            if not wish.port and wish.network != NETWORK:
                raise BadInput("bad-network", f"Network {wish.network} could not be found.")
            found.append(replace(wish, network=NETWORK, name="private"))
        return NetworkPlan(tuple(found), tuple(groups) or ("default",))

    async def allocate(
        self, who: Principal, plan: NetworkPlan, servers: Sequence[str]
    ) -> Mapping[str, tuple[Nic, ...]]:
        if self.full:
            raise Conflict("no-addresses", "No fixed IP addresses available for network: private")
        return {id: tuple(self._nic(id, wish) for wish in plan.wishes) for id in servers}

    def _nic(self, server: str, wish: NetworkWish) -> Nic:
        n = next(self._sequence)
        port = wish.port or f"b0000000-0000-4000-8000-1{n:011d}"
        self.ports[port] = server
        address = wish.addresses[0] if wish.addresses else f"10.0.0.{n}"
        mac = f"fa:16:3e:00:00:{n % 256:02x}"
        self.nics[port] = Nic(port, mac, NETWORK, (Address(address),), "private", wish.tag, not wish.port)
        return self.nics[port]

    async def attach(self, who: Principal, server: Server, wish: NetworkWish) -> Nic:
        (found,) = (await self.plan(who, (wish,), automatic=False, groups=(), count=1)).wishes
        return self._nic(server.id, found)

    async def detach(self, who: Principal, server: Server, port: str) -> None:
        if self.ports.pop(port, None) is None:
            raise NotFound("no-port", f"Port {port} could not be found.")

    async def release(self, who: Principal, server: str) -> None:
        self.ports = {port: owner for port, owner in self.ports.items() if owner != server}

    def leaving(self, who: Principal, server: str, port: str = "") -> None:
        """They stay: nobody looks after them."""

    async def plugged(self, servers: Sequence[str]) -> bool:
        return any(owner in servers for owner in self.ports.values())

    async def interfaces(self, who: Principal, server: Server) -> Sequence[Interface]:
        mine = [self.nics[port] for port, owner in self.ports.items() if owner == server.id]
        return [Interface(nic, subnets={a.address: "subnet" for a in nic.addresses}) for nic in mine]

    async def groups(self, who: Principal, server: Server) -> Sequence[tuple[SecurityGroup, tuple[SecurityRule, ...]]]:
        return [(SecurityGroup(name, server.project, name, NOW, NOW), ()) for name in server.spec.security_groups]

    async def join_group(self, who: Principal, server: Server, group: str) -> tuple[str, ...]:
        if group not in ("default", "web"):
            raise NotFound("no-security-group", f"Security group {group} not found for project {who.project}.")
        return (*server.spec.security_groups, group)

    async def leave_group(self, who: Principal, server: Server, group: str) -> tuple[str, ...]:
        if group not in server.spec.security_groups:
            raise NotFound("not-in-group", f"Security group {group} not associated with the instance {server.id}")
        return tuple(one for one in server.spec.security_groups if one != group)
