"""A zone in memory behind zone.surface.Surface: a small tree, tokens, codes, rules, keys and a journal.

It authorises as a zone must: out of a caller's subtree nothing exists (404), within it a low role is refused (403).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

import msgspec

from banyan.core.errors import BadInput, Conflict, NotFound, Refused, Unauthenticated
from banyan.core.host import HostChange
from banyan.core.identity import Caller, Role
from banyan.core.ids import ZoneCode, parse_code, under
from banyan.core.order import Specification
from banyan.core.server import NoValidHost
from banyan.zone.views import (
    AmountView,
    CodeCreated,
    CodeView,
    HostCounts,
    HostView,
    JournalView,
    KnownKeyView,
    LevelView,
    PageView,
    PartView,
    PlacementView,
    RackView,
    ReleaseView,
    RuleView,
    ServerDetail,
    ServersCreated,
    ServerView,
    StatusView,
    TokenCreated,
    TokenView,
    TraceView,
    UsageView,
    UseView,
    WhyView,
    ZoneTotals,
    ZoneView,
)
from tests.api.receivers import FakeReceivers

OWN = "top"
CODE = ZoneCode(1)
NOW = "2026-11-30T12:00:00.000Z"
LATER = "2026-12-01T12:00:00.000Z"
INSIDE = "north"

WORDS = {
    "zone.disable": (Role.OPERATOR, ("reason",)),
    "zone.enable": (Role.OPERATOR, ()),
    "zone.maintenance": (Role.OPERATOR, ("until", "reason")),
    "zone.rescan": (Role.OPERATOR, ()),
    "zone.ban": (Role.ADMIN, ("reason",)),
    "zone.unban": (Role.ADMIN, ()),
    "zone.retire": (Role.ADMIN, ("reason",)),
    "zone.rename": (Role.ADMIN, ("name",)),
    "zone.admit": (Role.ADMIN, ()),
    "zone.accept": (Role.ADMIN, ()),
}
_AFTER = {"zone.disable": "disabled", "zone.enable": "enabled", "zone.maintenance": "maintenance", "zone.ban": "banned"}


def zone_view(path: str, health: str = "alive", **more: object) -> ZoneView:
    """The view of the zone at `path` below OWN."""
    whole = f"{OWN}/{path}"
    name = path.rpartition("/")[2]
    # Crockford's alphabet has no i, l, o or u.
    code = name.translate(str.maketrans("ilou-", "zzzzz"))[:8].rjust(8, "0")
    view = ZoneView(name, whole, code, "ready", health, "enabled", "", "0.1.0", NOW, parent=whole.rpartition("/")[0],
                    depth=path.count("/") + 1, hosts=50, servers=12, used_share=0.25)  # fmt: skip
    return msgspec.structs.replace(view, **more)


def totals(zones: int = 4, lost: int = 1) -> ZoneTotals:
    return ZoneTotals(zones, zones, zones - lost, 0, lost, 0)


NONE = PartView(0, 0, 0, {}, None)


def usage_view(path: str = OWN) -> UsageView:
    resources = {
        "vcpu": AmountView(1600, 6400, 1200),
        "memory_mib": AmountView(6_553_600, 6_553_600, 1_000_000),
        "disk_gib": AmountView(100_000, 100_000, 95_000),
    }
    unknown = PartView(1, 50, 12, {"vcpu": AmountView(400, 1600, 300)}, NOW)
    return UsageView(NOW, path, totals(), HostCounts(150, 149, 1), {"active": 30, "stopped": 6}, resources, NONE,
                     unknown, (f"{OWN}/south/lab3",))  # fmt: skip


@dataclass
class Held:
    """A token as the fake keeps it."""

    caller: Caller
    revoked: bool = False
    expired: bool = False


SERVER = "01890000-0000-8000-8000-000000000001"
LEVEL = LevelView("top", NOW, "order-1", "req-1", 3, {"full": 2}, (("north", 1, "spread"),), "3 members looked at")


def server_detail(id: str, name: str, project: str) -> ServerDetail:
    return ServerDetail(
        id, "top/north", name, project, "ops", "building", "spawning", "host1", "h1", "", "1x512x0",
        {"vcpu": 1, "memory_mib": 512}, NOW, NOW, None, "", {}, "order-1",
    )  # fmt: skip


class FakeSurface(FakeReceivers):
    """`before` runs at the start of each call, with the call's name: to fail, wait or count there."""

    def __init__(self) -> None:
        paths = ("north", "north/lab1", "north/lab2", "south", "south/lab3")
        self.tree = {path: zone_view(path, "lost" if path == "south/lab3" else "alive") for path in paths}
        self.tree["north/lab1"] = msgspec.structs.replace(self.tree["north/lab1"], labels={"site": "berlin"})
        self.held: dict[str, Held] = {}
        self.retry_keys: list[str] = []
        self.placed = {SERVER: server_detail(SERVER, "web-0", "p0")}
        self.codes_made: dict[str, CodeView] = {}
        self.tokens_made: dict[str, TokenView] = {}
        self.lives: list[float | None] = []
        self.rules_kept: dict[str, RuleView] = {}
        self.keys_kept: dict[str, KnownKeyView] = {}
        self.lines: list[JournalView] = []
        self.refusals: list[tuple[str, str, str, str]] = []
        self.absent: tuple[str, ...] = ()
        self.restored_at: str | None = None
        self.said: list[tuple[str, str, str, Mapping[str, str]]] = []
        self.before: Callable[[str], None] = lambda name: None
        self.pause: asyncio.Event | None = None
        self._grown = asyncio.Condition()
        for role in Role:
            self.give(f"{role.name.lower()}-all", role, "")
            self.give(f"{role.name.lower()}-north", role, INSIDE)
        for n in range(1, 4):
            self.write("child-registered", f"top/zone{n}")

    def give(self, bearer: str, role: Role, subtree: str) -> None:
        part = ZoneCode(parse_code(self.tree[subtree].code)) if subtree else None
        self.held[bearer] = Held(Caller(f"token:{bearer}", role, CODE, part, bearer))

    def _part(self, caller: Caller) -> str:
        """The path below OWN of what the caller may see, "" for everything."""
        return next((p for p, z in self.tree.items() if parse_code(z.code) == caller.under), "")

    def write(self, kind: str, target: str) -> None:
        """A line of the journal, without telling who waits: `grow` does."""
        number = len(self.lines) + 1
        self.lines.append(
            JournalView(number, NOW, kind, target, "system", "", "", "", "said so", {}, "done", "00" * 32)
        )

    async def grow(self, kind: str, target: str) -> None:
        async with self._grown:
            self.write(kind, target)
            self._grown.notify_all()

    # --- who may what

    async def _enter(self, name: str) -> None:
        self.before(name)
        if self.pause is not None:
            await self.pause.wait()

    def _find(self, caller: Caller, role: Role, path: str) -> str:
        """The path below OWN that a person meant, "" for OWN. NotFound out of the caller's subtree, then Refused."""
        typed = path.strip("/") or self._part(caller)
        typed = "" if typed == OWN else typed.removeprefix(f"{OWN}/")
        if typed and typed not in self.tree:
            ends = [p for p, z in self.tree.items() if typed in (p.rpartition("/")[2], z.code)]
            ends = [p for p in ends if under(p, self._part(caller))]
            if len(ends) > 1:
                raise Conflict("ambiguous-zone", f"{path!r} may be {', '.join(ends)}; give more of the path")
            typed = ends[0] if ends else typed
        if (typed and typed not in self.tree) or not under(typed, self._part(caller)):
            raise NotFound("no-zone", f"no zone {path!r} below {OWN}")
        self._allow(caller, role)
        return typed

    def _allow(self, caller: Caller, role: Role) -> None:
        if caller.role < role:
            raise Refused("forbidden", f"this needs the role {role.name.lower()}")

    def _whole(self, caller: Caller, role: Role) -> None:
        """For what concerns the zone itself: for a caller that is limited to a part below it is not there."""
        if caller.under is not None:
            raise NotFound("no-zone", f"there is no zone {OWN!r} that you may see")
        self._allow(caller, role)

    def _anywhere(self, caller: Caller, role: Role) -> None:
        """For what is of each caller's own part."""
        self._allow(caller, role)

    # --- Surface

    async def authenticate(self, bearer: str, address: str, request: str) -> Caller:
        held = self.held.get(bearer)
        if held is None:
            raise Unauthenticated("bad-token", "this token was not issued here")
        if held.revoked or held.expired:
            code = "token-revoked" if held.revoked else "token-expired"
            raise Unauthenticated(code, "this token is good for nothing any more; ask for another")
        return replace(held.caller, address=address, request=request)

    def local(self, user: str, request: str) -> Caller:
        return Caller(f"{user}@socket", Role.ADMIN, CODE, request=request, address="local")

    async def refused(self, caller: Caller | None, address: str, what: str, error: str) -> None:
        self.refusals.append((caller.subject if caller else "", address, what, error))

    async def status(self, caller: Caller) -> StatusView:
        await self._enter("status")
        self._whole(caller, Role.VIEWER)
        return StatusView(OWN, OWN, "00000001", "0.1.0", 1, NOW, 0.0, (), totals(), (), "ab" * 32, LATER, "cd" * 32,
                          len(self.lines))  # fmt: skip

    async def usage(self, caller: Caller, path: str) -> UsageView:
        await self._enter("usage")
        found = self._find(caller, Role.VIEWER, path)
        return usage_view("/".join(p for p in (OWN, found) if p))

    async def zones(
        self, caller: Caller, path: str, filters: Mapping[str, str], sort: str, marker: str, limit: int
    ) -> PageView:
        await self._enter("zones")
        top = self._find(caller, Role.VIEWER, path)
        found = [z for p, z in sorted(self.tree.items()) if p != top and under(p, top) and _fits(z, filters)]
        if sort.startswith("-"):
            found.reverse()
        return _page(found, marker, limit, self.absent)

    async def zone(self, caller: Caller, path: str) -> ZoneView:
        await self._enter("zone")
        return self.tree[self._below(caller, Role.VIEWER, path)]

    async def page(
        self, caller: Caller, kind: str, path: str, filters: Mapping[str, str], marker: str, limit: int
    ) -> PageView:
        await self._enter(kind)
        if kind == "journal":
            if not path:
                self._whole(caller, Role.VIEWER)
            else:
                self._find(caller, Role.VIEWER, path)
            after = int(marker or 0)
            lines = [line for line in self.lines if line.number > after]
            kept = [line for line in lines if all(fnmatchcase(getattr(line, k), v) for k, v in filters.items())]
            items = tuple(msgspec.Raw(msgspec.json.encode(line)) for line in kept[:limit])
            return PageView(items, str(kept[limit - 1].number) if len(kept) > limit else "")
        if kind == "use":
            self._whole(caller, Role.VIEWER)
            uses = [UseView("00000001", f"p{n}", f"project {n}", n, n, n, n) for n in range(3)]
            uses = [one for one in uses if all(fnmatchcase(getattr(one, k), v) for k, v in filters.items())]
            return _page(uses, marker, limit, self.absent)
        top = self._find(caller, Role.VIEWER, path)
        zones = [p for p in sorted(self.tree) if under(p, top)]
        rows: dict[str, list[msgspec.Struct]] = {
            "racks": [RackView(f"{OWN}/{p}", "sim", "00000002", "sim", "available", "", "exclusive", "hosts", 50, 12, 1,
                               NOW) for p in zones],
            "hosts": [HostView(f"{OWN}/{p}", "sim", f"id-{p}", f"host-{p}", True, False, True,
                               {"vcpu": AmountView(16, 64, 8)}) for p in zones],
            "servers": [ServerView(f"{OWN}/{p}", "sim", f"id-{p}", "web", "p1", "active", f"id-{p}", "m1", True, NOW)
                        for p in zones],
            "trace": [TraceView(1, NOW, "server-changed", f"id-{p}", "user:ann", "", "", filters.get("request", ""),
                                "name of 'web'", {}, "done", "", f"{OWN}/{p}") for p in zones],
        }  # fmt: skip
        return _page(rows[kind], marker, limit, self.absent)

    async def command(self, caller: Caller, name: str, path: str, arguments: Mapping[str, str]) -> ZoneView:
        await self._enter(name)
        role, known = WORDS[name]
        if not set(arguments) <= set(known):
            raise BadInput("bad-argument", f"{name} takes {', '.join(known)}, got {', '.join(arguments)}")
        found = self._below(caller, role, path)
        if name != "zone.rescan" and found == self._part(caller):
            raise Refused("forbidden", "that is for its parent to decide")
        self.said.append((caller.subject, name, found, dict(arguments)))
        self.tree[found] = msgspec.structs.replace(
            self.tree[found], admin=_AFTER.get(name, self.tree[found].admin), reason=arguments.get("reason", "")
        )
        await self.grow(name.replace(".", "-"), f"{OWN}/{found}")
        return self.tree[found]

    async def say_of_host(
        self, caller: Caller, name: str, change: HostChange, *, under: str = "", rack: str = "", id: str = ""
    ) -> HostView:
        await self._enter("host.said")
        self._find(caller, Role.OPERATOR, under)
        page = await self.page(caller, "hosts", under, {}, "", 1000)
        hosts = [msgspec.json.decode(item, type=HostView) for item in page.items]
        found = next((host for host in hosts if host.name == name), None)
        if found is None or rack not in ("", found.rack) or id not in ("", found.id):
            raise NotFound("no-host", f"there is no host {name!r}")
        self.said.append((caller.subject, "host.said", name, {"reason": change.reason}))
        down = bool(change.forced_down)
        return msgspec.structs.replace(
            found, up=not down, disabled=bool(change.disabled), reason=change.reason, forced_down=down
        )

    def _below(self, caller: Caller, role: Role, path: str) -> str:
        found = self._find(caller, role, path)
        if not found:
            raise BadInput("own-zone", "this is about a zone below, not about this zone itself")
        return found

    async def create_servers(
        self,
        caller: Caller,
        specification: Specification,
        *,
        count: int,
        least: int,
        project: str,
        retry_key: str = "",
    ) -> ServersCreated:
        await self._enter("create_servers")
        self._anywhere(caller, Role.OPERATOR)
        self.retry_keys.append(retry_key)
        if specification.shape.needs and count > 100:
            raise NoValidHost(312, {"small:vcpu": 312}, least)
        servers = []
        for n in range(count):
            id = f"01890000-0000-8000-8000-{len(self.placed) + 1:012}"
            self.placed[id] = server_detail(id, specification.name, project)
            servers.append(PlacementView(id, "top/north", f"h{n}", "most-room", 7))
        return ServersCreated("order-1", tuple(servers), False, (LEVEL,))

    async def servers(self, caller: Caller, project: str, marker: str, limit: int) -> PageView:
        self._anywhere(caller, Role.VIEWER)
        found = [one for _, one in sorted(self.placed.items()) if project in ("", one.project)]
        return msgspec.structs.replace(_page(found, marker, limit), absent=self.absent)

    async def server(self, caller: Caller, id: str) -> ServerDetail:
        self._anywhere(caller, Role.VIEWER)
        if id not in self.placed:
            raise NotFound("no-server", f"there is no server {id}")
        return self.placed[id]

    async def delete_server(self, caller: Caller, id: str) -> ServerDetail:
        self._anywhere(caller, Role.OPERATOR)
        return msgspec.structs.replace(await self.server(caller, id), task="deleting")

    async def why(self, caller: Caller, id: str) -> WhyView:
        await self.server(caller, id)
        return WhyView((LEVEL,))

    async def create_code(
        self,
        caller: Caller,
        *,
        name: str,
        driver: str,
        labels: Mapping[str, str],
        uses: int | None,
        expires: float,
        mode: str,
        replace: bool,
    ) -> CodeCreated:
        await self._enter("create_code")
        self._whole(caller, Role.ADMIN if replace else Role.OPERATOR)
        id = f"c{len(self.codes_made) + 1:03}"
        self.codes_made[id] = CodeView(
            id, NOW, LATER, uses, 0, name, driver, dict(labels), mode, replace, "open", False, caller.subject
        )
        return CodeCreated(id, f"banyan1.{'A' * 60}{id}", LATER)

    async def codes(self, caller: Caller, marker: str, limit: int) -> PageView:
        self._whole(caller, Role.OPERATOR)
        return _page([view for _, view in sorted(self.codes_made.items())], marker, limit)

    async def revoke_code(self, caller: Caller, id: str) -> None:
        self._whole(caller, Role.OPERATOR)
        if id not in self.codes_made:
            raise NotFound("no-code", f"no join code {id!r}")
        self.codes_made[id] = msgspec.structs.replace(self.codes_made[id], state="revoked", revoked=True)

    async def create_token(
        self, caller: Caller, subject: str, role: Role, under: str, expires: float | None
    ) -> TokenCreated:
        await self._enter("create_token")
        found = self._find(caller, Role.OPERATOR, under)
        if caller.role < role:
            raise Refused("forbidden", "you may give at most your own role")
        id = f"t{len(self.tokens_made) + 1:03}"
        self.lives.append(expires)
        path, code = (f"{OWN}/{found}", self.tree[found].code) if found else ("", "")
        self.tokens_made[id] = TokenView(
            id, subject, role.name.lower(), path, code, "good", NOW, LATER, False, caller.subject
        )
        self.give(f"made-{id}", role, found)
        return TokenCreated(id, f"made-{id}", role.name.lower(), path, LATER)

    async def tokens(self, caller: Caller, marker: str, limit: int) -> PageView:
        self._whole(caller, Role.ADMIN)
        return _page([view for _, view in sorted(self.tokens_made.items())], marker, limit)

    async def affirm_token(self, caller: Caller, id: str) -> TokenView:
        self._whole(caller, Role.ADMIN)
        if id not in self.tokens_made:
            raise NotFound("no-token", f"no token {id!r}")
        self.tokens_made[id] = msgspec.structs.replace(self.tokens_made[id], state="good")
        return self.tokens_made[id]

    async def revoke_token(self, caller: Caller, id: str) -> None:
        self._whole(caller, Role.ADMIN)
        if id not in self.tokens_made:
            raise NotFound("no-token", f"no token {id!r}")
        self.tokens_made[id] = msgspec.structs.replace(self.tokens_made[id], revoked=True)
        self.held[f"made-{id}"].revoked = True

    async def rules(self, caller: Caller, marker: str, limit: int) -> PageView:
        self._whole(caller, Role.VIEWER)
        return _page(sorted(self.rules_kept.values(), key=lambda r: (r.priority, r.id)), marker, limit)

    async def put_rule(self, caller: Caller, rule: RuleView) -> RuleView:
        self._whole(caller, Role.ADMIN)
        self.rules_kept[rule.id] = rule
        return rule

    async def delete_rule(self, caller: Caller, id: str) -> None:
        self._whole(caller, Role.ADMIN)
        if self.rules_kept.pop(id, None) is None:
            raise NotFound("no-rule", f"no rule {id!r}")

    async def known_keys(self, caller: Caller, marker: str, limit: int) -> PageView:
        self._whole(caller, Role.VIEWER)
        return _page([view for _, view in sorted(self.keys_kept.items())], marker, limit)

    async def put_known_key(self, caller: Caller, key: KnownKeyView) -> KnownKeyView:
        self._whole(caller, Role.ADMIN)
        self.keys_kept[key.fingerprint] = msgspec.structs.replace(key, created_by=caller.subject)
        return self.keys_kept[key.fingerprint]

    async def delete_known_key(self, caller: Caller, fingerprint: str) -> None:
        self._whole(caller, Role.ADMIN)
        if self.keys_kept.pop(fingerprint, None) is None:
            raise NotFound("no-key", f"no key {fingerprint!r}")

    async def rotate_authority(self, caller: Caller, leaked: bool) -> StatusView:
        self._whole(caller, Role.ADMIN)
        return await self.status(caller)

    async def release(self, caller: Caller, apply: bool) -> ReleaseView:
        self._whole(caller, Role.ADMIN)
        released, self.restored_at = self.restored_at, None if apply else self.restored_at
        held = ("listed keys let zones in",) if released else ()
        return ReleaseView(apply, released, held, 4, 2 if released else 0, ("lab3", "south") if released else ())

    async def leave(self, caller: Caller, apply: bool) -> PageView:
        self._whole(caller, Role.ADMIN)
        return PageView((msgspec.Raw(b'{"kind":"network","name":"banyan","then":"stays","id":"n1"}'),))

    def metrics(self, caller: Caller) -> Mapping[str, float]:
        self._whole(caller, Role.VIEWER)
        return {"banyan_zones": 5.0, 'banyan_children{health="alive"}': 4.0, "banyan_scans_total": 7.0}

    def journal_number(self) -> int:
        return len(self.lines)

    async def journal_grew(self, number: int) -> None:
        async with self._grown:
            await self._grown.wait_for(lambda: len(self.lines) > number)


def _page(rows: Sequence[msgspec.Struct], marker: str, limit: int, absent: tuple[str, ...] = ()) -> PageView:
    if marker and not marker.isdigit():
        raise BadInput("bad-marker", "the marker must be the `marker` of the page before, unchanged")
    start = int(marker or 0)
    items = tuple(msgspec.Raw(msgspec.json.encode(row)) for row in rows[start : start + limit])
    return PageView(items, str(start + limit) if start + limit < len(rows) else "", absent)


def _fits(zone: ZoneView, filters: Mapping[str, str]) -> bool:
    for key, wanted in filters.items():
        have = zone.labels.get(key[6:], "") if key.startswith("label.") else getattr(zone, key)
        if not fnmatchcase(have, wanted):
            return False
    return True
