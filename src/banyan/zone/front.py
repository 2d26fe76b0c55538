"""What can be asked of a zone, authorised and answered: the implementation of zone.surface.Surface.

Views read memory or one page of the store; commands go to commands/; what concerns a zone further down is
carried to it hop by hop with the caller (`answer` is the other end of that). No state of its own.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping

import msgspec

from banyan import __version__
from banyan.core.digest import Digest, check_counters, flatten, unflatten
from banyan.core.errors import BadInput, Conflict, NotFound, Unreachable
from banyan.core.identity import Caller, Role
from banyan.core.ids import ZoneCode, code_text, join_path
from banyan.core.messages import (
    CommandCall,
    CommandReply,
    Page,
    PageQuery,
    Request,
    UsageQuery,
    UsageReply,
)
from banyan.core.reading import json_reader, msgpack_reader
from banyan.core.time import Mono, iso
from banyan.core.zone import Admin, Health
from banyan.placement.standing import Standing
from banyan.zone import lists, own_lists, present, zone_list
from banyan.zone.authorise import CARRIED_OUT_THERE, Judge, Lineage, check, check_parent, unseen, within
from banyan.zone.carry import Target, ask, beyond
from banyan.zone.commands.release import release
from banyan.zone.commands.zones import check_word
from banyan.zone.deadline import Deadline, to_ask
from banyan.zone.firm import firm
from banyan.zone.front_receivers import ReceiversFront
from banyan.zone.leaving import leaving
from banyan.zone.metrics import measured
from banyan.zone.tree import Node
from banyan.zone.views import (
    CodeCreated,
    KnownKeyView,
    PageView,
    RackView,
    ReleaseView,
    RuleView,
    ShapesView,
    StatusView,
    TokenCreated,
    TokenView,
    UplinkView,
    UsageView,
    ZoneView,
)
from banyan.zone.zone import Zone
from banyan.zone.zone_pages import ZonePages

# Names of unknown zones that a usage view lists.
MAX_NAMED = 100

# Children looked at for a list at a time.
TURN = 200

# How soon a follower of the journal sees a new line, seconds.
FOLLOW = 0.5


_PAGE_QUERY, _PAGE = msgpack_reader(PageQuery), msgpack_reader(Page)
_USAGE_QUERY, _USAGE_REPLY = msgpack_reader(UsageQuery), msgpack_reader(UsageReply)
_COMMAND_CALL, _COMMAND_REPLY = msgpack_reader(CommandCall), msgpack_reader(CommandReply)
_VIEW = json_reader(ZoneView)


def _read_digest(body: bytes) -> Digest:
    counters = _USAGE_REPLY(body).counters
    check_counters(counters)
    return unflatten(counters)


def _read_view(body: bytes) -> ZoneView:
    return _VIEW(_COMMAND_REPLY(body).body)


class Front(ReceiversFront):
    """core: every public method authorises first. See zone/surface.py for what each takes and raises."""

    def __init__(self, zone: Zone) -> None:
        super().__init__(zone)
        zone.answer = self.answer
        self._journal_number = 0
        self._pages = ZonePages(zone)

    # --- callers --------------------------------------------------------------------------------

    async def authenticate(self, bearer: str, address: str, request: str) -> Caller:
        return await self._zone.tokens.authenticate(bearer, address, request)

    def local(self, user: str, request: str) -> Caller:
        return Caller(f"{user}@local", Role.ADMIN, self._zone.own.code, request=request)

    async def refused(self, caller: Caller | None, address: str, what: str, error: str) -> None:
        zone = self._zone
        if not zone.api_refusals.may_write(zone.clock.now(), address):
            return
        who = caller or Caller("stranger", Role.VIEWER, zone.own.code, address=address)
        event = zone.own.event("request-refused", what[:200], error[:500], who, "refused")
        await zone.store.write("request.refused", lambda unit: zone.own.write(unit, event))

    def _lineage(self, code: ZoneCode) -> Lineage:
        """Of this zone, or of one below."""
        zone = self._zone
        return Lineage([node.code for node in zone.tree.chain(code)], (zone.own.code, *zone.ancestors()))

    def _target(self, caller: Caller, text: str, needed: Role, judge: Judge = check) -> Target:
        """Resolves and authorises. What the caller may not see is not found."""
        try:
            code = self._zone.tree.resolve(text)
        except (NotFound, Conflict):
            if caller.under is not None:
                # Hints and candidates would tell of zones outside the caller's subtree.
                raise unseen(text) from None
            raise
        return self._allowed(caller, code, needed, text, judge)

    def _part(self, caller: Caller, text: str, needed: Role) -> Target:
        """As `_target`; "" is the whole of what the caller may see."""
        if text or caller.under is None:
            return self._target(caller, text, needed)
        return self._allowed(caller, caller.under, needed, "")

    def _allowed(self, caller: Caller, code: ZoneCode, needed: Role, text: str, judge: Judge = check) -> Target:
        zone = self._zone
        path = zone.tree.path_of(code)
        judge(caller, needed, self._lineage(code), text or path)
        node = zone.tree.get(code)
        return Target(code, path, None if node is None else zone.tree.get(node.via))

    def _here(self, caller: Caller, needed: Role) -> None:
        self._allowed(caller, self._zone.own.code, needed, "")

    # --- views ----------------------------------------------------------------------------------

    async def status(self, caller: Caller) -> StatusView:
        self._here(caller, Role.VIEWER)
        zone = self._zone
        own = zone.own
        page, rows = lists.page, zone.rack_rows()
        racks = await page("racks", zone.tree.path, zone.store, rows, lists.nobody, {}, "", lists.MAX_LIMIT)
        last = await zone.store.read(lambda unit: unit.journal.last())
        now = own.wall()
        digest, known = zone.members.fold(), zone.members.shapes
        return StatusView(
            name=own.name,
            path=zone.tree.path,
            code=code_text(own.code),
            version=__version__,
            epoch=own.row.epoch,
            time=iso(now),
            time_offset=round(own.row.time.offset, 3),
            uplinks=tuple(self._uplink(up_id) for up_id in sorted(zone.ups)),
            children=present.totals(digest),
            racks=tuple(msgspec.json.decode(item, type=RackView) for item in racks.rows),
            ca_fingerprint=own.authority.row.fingerprint.hex(),
            ca_until=iso(own.authority.row.not_after),
            public_key=own.fingerprint.hex(),
            journal=0 if last is None else last.number,
            restored_at=present.when(own.row.restored_at),
            ready=all(loop.last_error == "" for loop in zone.loops.values()),
            reason="; ".join(f"{name}: {loop.last_error}" for name, loop in zone.loops.items() if loop.last_error),
            shapes=ShapesView(len(known.counted), len(known.left_out), known.reason),
        )

    def _uplink(self, id: int) -> UplinkView:
        zone = self._zone
        up = zone.ups[id]
        side, row = up.side, up.side.row
        sent, received = up.runner.traffic()
        until = None
        if side.lease is not None:
            until = present.when(zone.own.wall() + side.lease.sent_at + side.lease.lease - zone.clock.now())
        return UplinkView(
            parent=row.parent_name,
            addresses=row.addresses,
            state=side.state,
            reason=side.reason,
            home=row.home,
            path=row.path,
            lease_until=until,
            certificate_until=present.when(side.certificate_until()),
            bytes_sent=sent,
            bytes_received=received,
        )

    async def usage(self, caller: Caller, path: str) -> UsageView:
        target = self._part(caller, path, Role.VIEWER)
        zone = self._zone
        digest = await self._digest(caller, target, zone.settings.replies)
        unheard = map(zone.tree.path_of, zone.tree.unheard())
        names = heapq.nsmallest(MAX_NAMED, (path for path in unheard if zone_list.inside(path, target.path)))
        keys = zone.members.announcement.keys
        return present.usage(digest, target.path, zone.own.wall(), tuple(names), keys)

    async def _digest(self, caller: Caller, target: Target, within: float) -> Digest:
        zone = self._zone
        if target.via is None:
            return zone.members.fold()
        if target.via.code == target.code:
            return zone.members.child_digest(target.code)
        query = msgspec.msgpack.encode(UsageQuery(beyond(zone, target)))
        digest = await ask(zone, caller, target, "usage", query, _read_digest, within)
        return zone.members.as_here(target.via.code, digest)

    async def zones(
        self, caller: Caller, path: str, filters: Mapping[str, str], sort: str, marker: str, limit: int
    ) -> PageView:
        target = self._part(caller, path, Role.VIEWER)
        return await self._pages.page(target.code, filters, sort, marker, lists.check_limit(limit))

    async def zone(self, caller: Caller, path: str) -> ZoneView:
        target = self._target(caller, path, Role.VIEWER)
        node = self._zone.tree.get(target.code)
        if node is None:
            raise BadInput("own-zone", f"{target.path} is this zone itself; `banyan status` shows it")
        return self._pages.view(node)

    async def page(
        self, caller: Caller, kind: str, path: str, filters: Mapping[str, str], marker: str, limit: int
    ) -> PageView:
        if kind in ("journal", "use"):
            target = self._target(caller, path, Role.VIEWER)
            if target.via is not None:
                raise BadInput("own-zone", f"{kind} is kept by each zone for itself; ask {target.path} directly")
            if kind == "use":
                return await own_lists.use(self._zone.streams.uses, self._zone.clock, filters, marker, limit)
            return await own_lists.journal(self._zone.store, filters, marker, limit)
        if kind not in lists.FILTERS:
            raise BadInput("bad-kind", f"lists are {', '.join(lists.FILTERS)}, use and journal; got {kind[:40]!r}")
        target = self._part(caller, path, Role.VIEWER)
        query = PageQuery(kind, "", dict(filters), marker, limit)
        page = await self._page(caller, target, query, self._zone.settings.replies)
        return PageView(tuple(msgspec.Raw(row) for row in page.rows), page.marker, page.absent)

    async def _page(self, caller: Caller, target: Target, query: PageQuery, within: float) -> Page:
        if target.via is not None:
            offered = self._seen(target.via, target.path) is Standing.LIVE
            further = lists.asked(msgspec.structs.replace(query, target=beyond(self._zone, target)), offered)
            if further is None:
                return Page(())

            def read(body: bytes) -> Page:
                return lists.checked(_PAGE(body), query, target.path, offered)

            return await ask(self._zone, caller, target, "page", msgspec.msgpack.encode(further), read, within)
        zone = self._zone
        deadline = Deadline.within(within)
        of, racks = self._below(caller, query.kind, deadline), zone.rack_rows()
        return await lists.page(
            query.kind, zone.tree.path, zone.store, racks, of, query.filters, query.marker, query.limit, deadline
        )

    def _seen(self, via: Node, path: str) -> Standing:
        """Of a child on the way. Raises Unreachable: a list of what lies below one that is banned or lost would be
        empty by some filters, and that is not known."""
        standing = self._zone.members.standing(via.code)
        if standing is Standing.UNKNOWN:
            there, why = self._zone.tree.path_of(via.code), "banned" if via.admin is Admin.BANNED else "lost"
            text = f"{there} is {why}, so what is at {path} is not known; `banyan zone show {there}` says more"
            raise Unreachable("member-unreachable", text, transient=why == "lost")
        return standing

    def _below(self, caller: Caller, kind: str, deadline: Deadline) -> lists.Members:
        """Children that may hold rows of that kind, by name. What holds no host is not asked for hosts."""
        zone = self._zone

        def below(name: str, count: int) -> list[lists.Below]:
            found: list[lists.Below] = []
            while len(found) < count:
                nodes = zone.tree.children(name, TURN)
                found += [self._one_below(caller, n, kind, deadline) for n in nodes if self._holds(n, kind)]
                if len(nodes) < TURN:
                    break
                name = nodes[-1].name + "\0"
            return found[:count]

        return below

    def _holds(self, node: Node, kind: str) -> bool:
        """Whether a child has racks, or hosts or servers, as far as is known."""
        counters = self._zone.members.child_counters(node.code)
        return (
            kind in ("racks", "trace")
            or node.health is not Health.ALIVE
            or any(key[1:2] in ("h", "g") for key in counters)
        )

    def _one_below(self, caller: Caller, node: Node, kind: str, deadline: Deadline) -> lists.Below:
        zone = self._zone
        live = zone.roster.live.get(node.code)
        path = join_path(zone.tree.path, node.name)
        target = Target(node.code, path, node)

        async def fetch(query: PageQuery) -> Page:
            return await ask(zone, caller, target, "page", msgspec.msgpack.encode(query), _PAGE, deadline.left())

        most = lists.most_rows(kind, zone.members.child_counters(node.code))
        standing = zone.members.standing(node.code)
        reachable = live is not None and live.session is not None and standing is not Standing.UNKNOWN
        return lists.Below(node.name, path, reachable, fetch, most, standing is Standing.LIVE)

    # --- commands -------------------------------------------------------------------------------

    async def command(
        self, caller: Caller, name: str, path: str, arguments: Mapping[str, str], within: float | None = None
    ) -> ZoneView:
        judge = check if name in CARRIED_OUT_THERE else check_parent
        target = self._target(caller, path, check_word(name, arguments), judge)
        zone = self._zone
        if target.via is None and name == "zone.rescan":
            for racked in zone.racks.values():
                racked.inventory.rescan()
                zone.loops[racked.inventory.name].signal()
            return present.itself(zone.own.name, zone.tree.path, zone.own.code, zone.own.wall(), __version__)
        if target.via is None:
            parent = zone.home()
            at = parent.parent_name if parent is not None and parent.parent_name else "no parent of its own"
            raise Conflict("own-zone", f"{target.path} is this zone itself, which has {at}; say this at its parent")
        if target.via.code != target.code or name == "zone.rescan":
            left = zone.settings.replies if within is None else within
            call = CommandCall(name, beyond(self._zone, target), dict(arguments))
            return await ask(zone, caller, target, "command", msgspec.msgpack.encode(call), _read_view, left)
        before = zone.tree.get(target.code)
        await zone.words.apply(caller, name, target.code, arguments)
        node = zone.tree.get(target.code)
        if node is not None:
            return self._pages.view(node)
        assert before is not None
        return present.retired(before, target.path)

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
        self._here(caller, Role.ADMIN if replace else Role.OPERATOR)
        if replace:
            self._zone.own.check_released("give a zone's place to another key")
        return await self._zone.access.create_code(
            caller, name=name, driver=driver, labels=labels, uses=uses, expires=expires, mode=mode, replace=replace
        )

    async def codes(self, caller: Caller, marker: str, limit: int) -> PageView:
        self._here(caller, Role.OPERATOR)
        return await self._zone.access.codes(marker, lists.check_limit(limit))

    async def revoke_code(self, caller: Caller, id: str) -> None:
        self._here(caller, Role.OPERATOR)
        await self._zone.access.revoke_code(caller, id)

    async def create_token(
        self, caller: Caller, subject: str, role: Role, under: str, expires: float | None
    ) -> TokenCreated:
        target = self._part(caller, under, Role.OPERATOR)
        within(caller, role, self._lineage(target.code))
        return await self._zone.tokens.create(caller, subject, role, target.code, expires)

    async def tokens(self, caller: Caller, marker: str, limit: int) -> PageView:
        self._here(caller, Role.ADMIN)
        return await self._zone.tokens.page(marker, lists.check_limit(limit))

    async def affirm_token(self, caller: Caller, id: str) -> TokenView:
        self._here(caller, Role.ADMIN)
        return await self._zone.tokens.affirm(caller, id)

    async def revoke_token(self, caller: Caller, id: str) -> None:
        self._here(caller, Role.ADMIN)
        await self._zone.tokens.revoke(caller, id)

    async def rules(self, caller: Caller, marker: str, limit: int) -> PageView:
        self._here(caller, Role.VIEWER)
        return await self._zone.access.rules(marker, lists.check_limit(limit))

    async def put_rule(self, caller: Caller, rule: RuleView) -> RuleView:
        self._here(caller, Role.ADMIN)
        return await self._zone.access.put_rule(caller, rule)

    async def delete_rule(self, caller: Caller, id: str) -> None:
        self._here(caller, Role.ADMIN)
        await self._zone.access.delete_rule(caller, id)

    async def known_keys(self, caller: Caller, marker: str, limit: int) -> PageView:
        self._here(caller, Role.VIEWER)
        return await self._zone.access.known_keys(marker, lists.check_limit(limit))

    async def put_known_key(self, caller: Caller, key: KnownKeyView) -> KnownKeyView:
        self._here(caller, Role.ADMIN)
        return await self._zone.access.put_known_key(caller, key)

    async def delete_known_key(self, caller: Caller, fingerprint: str) -> None:
        self._here(caller, Role.ADMIN)
        await self._zone.access.delete_known_key(caller, fingerprint)

    async def rotate_authority(self, caller: Caller, leaked: bool) -> StatusView:
        self._here(caller, Role.ADMIN)
        if leaked:
            self._zone.own.check_released("cut off every child")
        await self._zone.certificates.rotate(caller, leaked=leaked)
        if leaked:
            # A session that stands was let in by the key that is now in other hands, whoever it is.
            text = "the CA of this parent leaked and was replaced; `banyan leave` here, then join with a new code"
            for code in sorted(self._zone.roster.live):
                await self._zone.roster.cut(code, "leaked-authority", text)
        return await self.status(caller)

    async def release(self, caller: Caller, apply: bool) -> ReleaseView:
        self._here(caller, Role.ADMIN)
        return await release(self._zone.own, self._zone.roster, caller, apply)

    async def leave(self, caller: Caller, apply: bool) -> PageView:
        self._here(caller, Role.ADMIN)
        rows = await leaving(self._zone)
        if apply:
            self._zone.own.check_released("leave its parent")  # a copy would take the living one along
            await firm(self._zone.leave(caller))
        return PageView(tuple(msgspec.Raw(msgspec.json.encode(row)) for row in rows))

    # --- asked from above ---------------------------------------------------------------------

    async def answer(self, request: Request, caller: Caller) -> bytes:
        """A parent's request, for this zone or one below. Bodies as in core/messages.py."""
        zone = self._zone
        encode = msgspec.msgpack.encode
        left = to_ask(request.deadline, zone.settings.replies)
        match request.verb:
            case "page":
                query = _PAGE_QUERY(request.body)
                target = self._target(caller, join_path(zone.tree.path, query.target), Role.VIEWER)
                return encode(await self._page(caller, target, msgspec.structs.replace(query, target=""), left))
            case "usage":
                wanted = _USAGE_QUERY(request.body)
                target = self._target(caller, join_path(zone.tree.path, wanted.target), Role.VIEWER)
                return encode(UsageReply(flatten(await self._digest(caller, target, left))))
            case "command":
                call = _COMMAND_CALL(request.body)
                path = join_path(zone.tree.path, call.target)
                view = await self.command(caller, call.name, path, call.arguments, left)
                return encode(CommandReply(msgspec.json.encode(view)))
            case _:
                return await zone.server_answers.answer(request, caller)

    # --- followers ------------------------------------------------------------------------------

    def metrics(self, caller: Caller) -> Mapping[str, float]:
        self._here(caller, Role.VIEWER)
        return measured(self._zone)

    def journal_number(self) -> int:
        return max(self._journal_number, self._zone.own.journal_hint)

    async def journal_grew(self, number: int) -> None:
        clock = self._zone.clock
        while self.journal_number() <= number:
            last = await self._zone.store.read(lambda unit: unit.journal.last())
            self._journal_number = 0 if last is None else last.number
            if self.journal_number() <= number:
                await clock.sleep_until(Mono(clock.now() + FOLLOW))
