"""How strangers become children: the welcome, the enrolment, and the certificates that follow.

Nothing is written for a stranger but a counter and a rate-limited journal line; what it becomes is decided by
trust/enrol.py inside the unit that writes it. Sessions of those who are children: children.py.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from banyan.core.errors import BanyanError, Refused
from banyan.core.identity import Caller, Role
from banyan.core.ids import ZoneCode, code_text, join_path
from banyan.core.messages import PROTOCOL_CEILING, Admitted, Enrol, Greet, Welcome
from banyan.core.ports import Clock, Ids, Peer, Store
from banyan.core.records import StoreUnknown, Unit
from banyan.core.time import Wall
from banyan.core.zone import ENROLMENT, Admin, Child, EnrolEvent
from banyan.trust.attest import Context, verify
from banyan.trust.authority import issue_child
from banyan.trust.chain import time_proof
from banyan.trust.enrol import Admit, Neighbours, Request, Standing, check_request, decide
from banyan.trust.lineage import RefusedRow
from banyan.trust.rotation import bundle
from banyan.trust.session import Session
from banyan.zone.firm import firm
from banyan.zone.own import Own
from banyan.zone.reconcile.refusals import Refusals
from banyan.zone.roster import Roster
from banyan.zone.settings import ZoneSettings
from banyan.zone.tree import Tree


class Admission:
    """`server_certificate`: what our link listener shows now."""

    def __init__(
        self,
        own: Own,
        store: Store,
        clock: Clock,
        ids: Ids,
        settings: ZoneSettings,
        roster: Roster,
        tree: Tree,
        ancestors: Callable[[], tuple[ZoneCode, ...]],
    ) -> None:
        self.refusals = Refusals("link")
        self.server_certificate = b""
        self._own = own
        self._store = store
        self._clock = clock
        self._ids = ids
        self._settings = settings
        self._roster = roster
        self._tree = tree
        self._ancestors = ancestors

    async def welcome(self, greet: Greet, peer: Peer) -> Welcome:
        leaf = peer.local or self.server_certificate
        time_ms = round(self._own.wall() * 1000)
        authority = self._own.authority
        return Welcome(
            version=min(PROTOCOL_CEILING, greet.ceiling),
            code=self._own.code,
            name=self._own.name,
            time=time_ms,
            nonce=self._ids.token(16),
            chain=(leaf, authority.row.certificate),
            bundle=self._crosses(),
            proof=time_proof(authority.seed, nonce=greet.nonce, time_ms=time_ms, leaf=leaf),
        )

    async def enrol(self, greet: Greet, welcome: Welcome, enrol: Enrol, peer: Peer) -> Admitted:
        """Lets a stranger in, or refuses it; the same key with the same evidence converges."""
        try:
            child = await firm(self._admit(Session.of(greet, welcome, welcome.chain[0]), enrol, peer))
        except BanyanError as error:
            await self.note_refusal("join-refused", enrol.name, peer, error)
            raise
        return Admitted(
            certificate=self.certify(child.code, enrol.public_key),
            bundle=self.bundle(),
            name=child.name,
            path=join_path(self._tree.path, child.name),
            labels=dict(child.labels),
            mode=child.mode,
            quarantined=child.quarantined,
        )

    async def _admit(self, session: Session, ask: Enrol, peer: Peer) -> Child:
        request = check_request(session, ask)
        now = self._own.wall()
        caller = Caller(f"zone:{request.name}", Role.VIEWER, self._own.code, address=peer.address)

        def judge(unit: Unit, above: Collection[ZoneCode], through: Sequence[str]) -> Admit:
            context = Context(session, request.public_key, unit.codes, unit.known_keys)
            verified = verify(request.evidence, context)
            own = unit.self_.get() or self._own.row
            here = Neighbours(
                unit.children.by_name(request.name),
                unit.children.banned(request.fingerprint) or unit.children.by_fingerprint(request.fingerprint),
                unit.children.get(request.code),
                above,
                through,
            )
            admit = decide(verified, request, unit.rules.all(), here, now=now, epoch=own.epoch)
            if own.restored_at is not None and admit.standing is not Standing.AGAIN:
                check_restored(admit, self._own.name)
            return admit

        # Whoever would be refused reserves no place, and costs no commit.
        above, through = self._place_of(request.code)
        await self._store.read(lambda unit: judge(unit, above, through))

        # Names, keys and codes are judged by the rows in the unit that takes them, one unit after the other; places in
        # the tree are memory's, and reserved. So the commits of many strangers go together.
        above, through = self._place_of(request.code)

        let_in: list[ZoneCode] = []

        def work(unit: Unit) -> tuple[Child, Standing]:
            admit = judge(unit, above, through)
            if admit.use is not None and not unit.codes.use(admit.use, request.fingerprint, now):
                raise Refused(
                    "code-used",
                    f"join code {admit.use} was used by another key in this very moment; "
                    "make a new one (`banyan code create`)",
                )
            let_in[:] = [admit.code]
            kind, text = _ADMITTED[admit.standing]
            child = admitted_child(admit, request, unit.children.get(admit.code), now)
            child = replace(child, certificate_until=Wall(now + self._settings.certificate_life))
            unit.children.put(child)
            if admit.standing is Standing.REPLACES:
                unit.streams.forget(child.code)
            self._own.write(unit, self._own.event(kind, child.name, text, caller, **_facts(child, admit)))
            return child, admit.standing

        def kept(unit: Unit, made: tuple[Child, Standing]) -> bool:
            return unit.children.get(made[0].code) == made[0]

        with self._roster.reserved(request.code, (request.code,)):
            try:
                child, stands = await self._own.again.write("parent.admitted", work, kept)
            except StoreUnknown:
                # Whose place it is to take.
                for code in let_in[-1:]:
                    self._roster.doubt(code)
                raise
            async with self._roster.lock(child.code):
                # Read again: a person's word may have come between the commit and this lock.
                newest = await self._store.read(lambda unit: unit.children.get(child.code))
                child = child if newest is None else newest
                live = self._roster.took(child)
            if stands is Standing.REPLACES and self._roster.live.get(child.code) is live:
                self._roster.forget_reports(live)
        await self._roster.cut(child.code, "replaced", "the zone enrolled anew", 0.0)
        return child

    def _place_of(self, code: ZoneCode) -> tuple[tuple[ZoneCode, ...], tuple[str, ...]]:
        """The zones above, ourselves included, and the child through which a zone is reached, if by one."""
        via = self._roster.carrier(code)
        through = () if via is None or via == code else (self._tree.path_of(via),)
        return (self._own.code, *self._ancestors()), through

    def certify(self, code: ZoneCode, public: bytes) -> bytes:
        return issue_child(
            self._own.issuer,
            code,
            public,
            serial=self._own.serial(),
            now=self._own.wall(),
            lifetime=self._settings.certificate_life,
        )

    def bundle(self) -> tuple[bytes, ...]:
        """Our present CA's certificate, and the cross certificates that lead to it from older ones."""
        return (self._own.authority.row.certificate, *self._crosses())

    def _crosses(self) -> tuple[bytes, ...]:
        return bundle([one.row for one in self._own.authorities], self._own.wall())

    async def note_refusal(self, kind: str, name: str, peer: Peer, error: BanyanError) -> None:
        """A stranger leaves a counter, and at most a few journal lines a minute."""
        if not self.refusals.may_write(self._clock.now(), peer.address):
            return
        shown = name[:63] if name.isprintable() else "(unprintable)"
        caller = Caller("stranger", Role.VIEWER, self._own.code, address=peer.address)
        event = self._own.event(kind, shown, error.text, caller, "refused", code=error.code)
        await self._store.write("parent.refused", lambda unit: self._own.write(unit, event))

    async def note_rows(self, carrier: str, refused: Sequence[RefusedRow]) -> None:
        """Zones below a child that may not be there leave a journal line each, within the same budget."""
        now = self._clock.now()
        caller = Caller(f"zone:{carrier}", Role.VIEWER, self._own.code)
        events = [
            self._own.event(
                "lineage-refused", one.row.name[:63], one.error.text, caller, "refused", code=one.error.code
            )
            for one in refused
            if self.refusals.may_write(now, caller.subject)
        ]
        if events:
            await self._store.write("parent.lineage-refused", lambda unit: self._own.write_all(unit, events))


_ADMITTED = {
    Standing.NEW: ("child-admitted", "admitted by policy"),
    Standing.AGAIN: ("child-admitted-again", "the same key asked again; nothing else changed"),
    Standing.REPLACES: ("child-replaced", "a new key took the place of the old one, as was allowed"),
}


def check_restored(admit: Admit, name: str) -> None:
    """What a restored zone does not decide before it is released: a code that was made since is a person's fresh word,
    a listed key and another's place may have been taken back meanwhile.

    Raises Refused("restored"), for now: who asks again after the release is judged then.
    """
    if admit.use is not None and admit.standing is Standing.NEW:
        return
    what = (
        f"give the place of {admit.name!r} to another key"
        if admit.standing is Standing.REPLACES
        else (f"let {admit.name!r} in by a key that was listed before")
    )
    raise Refused(
        "restored",
        f"{name} was restored from an earlier state and may not {what} before a person has looked there and said "
        "`banyan release`; it is asked again by itself",
        transient=True,
    )


def admitted_child(admit: Admit, request: Request, row: Child | None, now: Wall) -> Child:
    """The child's row after its admission; `row` is the one it takes on, if any."""
    if row is None:
        row = Child(admit.code, admit.name, admit.fingerprint, joined_at=now)
    else:
        row = replace(row, state=ENROLMENT.after(row.state, EnrolEvent.JOINED_AGAIN), joined_at=now)
    if admit.standing is Standing.REPLACES:
        row = replace(row, rolled_back=False)
    if admit.quarantined and not row.quarantined and row.admin is Admin.ENABLED:
        row = replace(row, admin_reason=f"rule {admit.rule}{f': {admit.reason}' if admit.reason else ''}")
    return replace(
        row,
        fingerprint=admit.fingerprint,
        labels=dict(admit.labels),
        mode=admit.mode,
        quarantined=admit.quarantined,
        version=request.version[:40],
        mark=b"",
    )


def _facts(child: Child, admit: Admit) -> dict[str, str]:
    return {
        "code": code_text(child.code),
        "verifier": admit.verifier,
        "reference": admit.reference,
        "rule": admit.rule,
        "key": child.fingerprint.hex()[:16],
    }
