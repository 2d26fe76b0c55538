"""A zone as the parent of many children: it opens their sessions, hears them, and keeps what they report.

Implements core.ports.ParentSide; strangers are admission.py's. Two rules. An acknowledgement means "received":
lineage and ledger are stored before it, a digest may be lost at a crash and is then sent whole again. Every change
of a child's row is made under that child's lock (zone/roster.py), so that memory follows the store's order.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

import structlog

from banyan.core.errors import BanyanError, NotFound, Refused, Unreachable
from banyan.core.identity import Caller, Role
from banyan.core.ids import ZoneCode, code_text, join_path
from banyan.core.lineage import Delta
from banyan.core.messages import (
    Ack,
    Admitted,
    Beat,
    BeatAck,
    Enrol,
    Grant,
    Greet,
    Hello,
    HelloAck,
    Renew,
    Renewed,
    Report,
    Welcome,
)
from banyan.core.ports import Clock, Ids, ParentSession, Peer, Store
from banyan.core.records import StoreUnknown, Unit
from banyan.core.text import shown
from banyan.core.time import Mono, Terms, Wall, iso
from banyan.core.zone import ENROLMENT, Admin, Child, ChildState, Condition, EnrolEvent, Health
from banyan.health.suspicion import habit
from banyan.trust.chain import ChildProof, check_claimed, check_expiry, standing, verify_child
from banyan.trust.enrol import check_renewal
from banyan.trust.epochs import prove_epoch
from banyan.trust.keys import fingerprint
from banyan.trust.marks import MarkVerdict, judge_marks
from banyan.zone.announcing import Announcing
from banyan.zone.firm import firm
from banyan.zone.inbox import use_changes
from banyan.zone.live import Live, check_key
from banyan.zone.members import Members
from banyan.zone.own import Own
from banyan.zone.reconcile.admission import Admission
from banyan.zone.reconcile.restores import Meeting, Restores
from banyan.zone.reconcile.sifting import sift_step
from banyan.zone.roster import Roster
from banyan.zone.settings import ZoneSettings
from banyan.zone.tree import Tree

log = structlog.get_logger("banyan.children")

# A child's last word in its report's `condition`.
LEAVING = "leaving"

# No refusal of ours: nobody is there any more to be refused.
CHILD_GONE = "child-gone"

# How often a child's own word may move its row, and its certificate be renewed: each is a commit. Seconds.
CHANGE_GAP = 2.0
RENEWAL_GAP = 30.0


class Children:
    """core.ports.ParentSide for all children of this zone. `lag`: how late our own loop runs, seconds."""

    def __init__(
        self,
        own: Own,
        store: Store,
        clock: Clock,
        ids: Ids,
        settings: ZoneSettings,
        roster: Roster,
        tree: Tree,
        members: Members,
        admission: Admission,
        ancestors: Callable[[], tuple[ZoneCode, ...]],
    ) -> None:
        self.lag = 0.0
        self._own = own
        self._store = store
        self._clock = clock
        self._ids = ids
        self._settings = settings
        self._roster = roster
        self._tree = tree
        self._members = members
        self._ancestors = ancestors
        self._admission = admission
        self._announcing = Announcing(clock, members)
        self._restores = Restores(own, store, clock, admission.refusals)

    # --- opening --------------------------------------------------------------------------------

    async def welcome(self, greet: Greet, peer: Peer) -> Welcome:
        return await self._admission.welcome(greet, peer)

    async def enrol(self, greet: Greet, welcome: Welcome, enrol: Enrol, peer: Peer) -> Admitted:
        return await self._admission.enrol(greet, welcome, enrol, peer)

    async def hello(self, hello: Hello, session: ParentSession) -> HelloAck:
        """Opens a session, or refuses it: then there is a journal line, within the budget for strangers."""
        try:
            return await self._open_session(hello, session)
        except BanyanError as error:
            if error.code == CHILD_GONE:
                raise
            node = self._tree.get(hello.code)
            name = f"zone {hello.code:x}" if node is None else node.name
            await self._admission.note_refusal("session-refused", name, session.peer, error)
            raise

    async def _open_session(self, hello: Hello, session: ParentSession) -> HelloAck:
        """Certificate, row, marks, epoch; a new certificate when asked. All in one unit."""
        began, now = self._clock.now(), self._own.wall()
        leaf = session.peer.certificate
        if leaf is None:
            raise Refused("no-certificate", "a session needs the certificate that this zone gave; enrol first")
        proof = verify_child(leaf, [one.row for one in self._own.authorities], now)
        # First of all: what is remembered, or waited for, by a code is so by one that this zone gave.
        check_claimed(proof, hello.code)
        check_expiry(proof, now, renewing=hello.renew is not None)
        if hello.code in self._ancestors():
            raise Refused("loop", f"zone {code_text(hello.code)} lies above this one; it cannot be its child as well")
        renewed = None if hello.renew is None else check_renewal(hello.renew, hello.code, leaf)
        if renewed is not None and proof.expired and fingerprint(renewed) != proof.fingerprint:
            raise Refused("wrong-key", "an expired certificate is renewed for the same key only")
        met = await self._meet(hello, proof, session.peer)
        life = self._settings.certificate_life
        if renewed is None:
            life = min(life, proof.not_after - now)

        def work(unit: Unit) -> Child:
            row = standing(proof, hello.code, unit.children.get(hello.code))
            row = self._open(unit, row, hello, session.peer, met=met, expired=proof.expired)
            if renewed is not None:
                until = Wall(now + self._settings.certificate_life)
                row = replace(row, fingerprint=fingerprint(renewed), certificate_until=until)
            row = replace(row, heard_at=now, version=shown(hello.version, 40))
            unit.children.put(row)
            return row

        async def connect() -> tuple[Live, Grant]:
            async with self._roster.lock(hello.code):
                if session.gone:
                    # What stood before this in the line took as long as the child waits: it dials again.
                    raise Unreachable(CHILD_GONE, "the child hung up before its session was opened", transient=True)
                live = self._roster.took(await self._roster.store(hello.code, "parent.connected", work))
                live.session = session
                live.keys = {live.child.fingerprint}
                live.until = Mono(began + life)
                live.told = (self._tree.path, self._ancestors())
                # Which shapes it holds its first report says.
                live.shapes = b""
                live.heard = self._clock.now()
                grant, _ = self._grant(live)
                return live, grant

        try:
            live, grant = await firm(connect())
        except asyncio.CancelledError:
            # Nobody waits for it any more, and nobody would say that it ended.
            await self.ended(session, "given up while it was opened")
            raise
        child = live.child
        return HelloAck(
            grant=grant,
            known=live.inbox.known,
            name=child.name,
            path=join_path(self._tree.path, child.name),
            read_only=child.rolled_back,
            certificate=b"" if renewed is None else self._admission.certify(child.code, renewed),
            ancestors=(self._own.code, *self._ancestors()),
            # By the CA that this wire showed: to a newer one, of which it has not heard, the child could lead nobody.
            proof=prove_epoch(self._own.issuer_of(session.peer.local), child.code, grant.epoch, self._own.row.epoch),
            shapes=self._announcing.hash,
        )

    async def _meet(self, hello: Hello, shown: ChildProof, peer: Peer) -> Meeting:
        """What this hello tells of this zone itself. Only a child that stands is listened to."""
        live = self._roster.live.get(hello.code)
        if live is None:
            return Meeting.KNOWN
        return await self._restores.meet(hello, standing(shown, hello.code, live.child), peer)

    def _open(self, unit: Unit, row: Child, hello: Hello, peer: Peer, *, met: Meeting, expired: bool) -> Child:
        """The row after this hello, with its journal lines."""
        caller = Caller(f"zone:{row.name}", Role.VIEWER, self._own.code, address=peer.address)
        before = row
        # By the row of this unit: of two bodies of one zone that come at once, the second finds nothing behind it.
        behind = met is not Meeting.KNOWN and hello.epoch > row.epoch
        row = replace(
            row, epoch=max(row.epoch, hello.epoch) + 1, state=ENROLMENT.after(row.state, EnrolEvent.CONNECTED)
        )
        if behind or judge_marks(held=row.mark, last=hello.mark, new=hello.next_mark) is MarkVerdict.OK:
            row = replace(row, mark=hello.next_mark)
        elif not row.rolled_back:
            row = replace(row, rolled_back=True)
            text = (
                f"{row.name} shows an older mark than the one held here: it was restored from a backup, or cloned. "
                f"It is read-only until `banyan zone accept {row.name}`"
            )
            self._own.write(unit, self._own.event("child-rolled-back", row.name, text, caller))
        if behind and met is Meeting.LATE:
            text = (
                f"comes back from before a restore of this zone that was released: this zone granted it epoch "
                f"{hello.epoch} then, where {before.epoch} is held; its marks are taken as they are"
            )
            facts = {"epoch": str(hello.epoch), "held": str(before.epoch)}
            self._own.write(unit, self._own.event("child-caught-up", row.name, text, caller, **facts))
        if before.state is ChildState.JOINING:
            text = "both sides proved who they are"
            self._own.write(unit, self._own.event("child-registered", row.name, text, caller))
        if expired:
            text = "its certificate had run out while it was cut off; renewed for the same key"
            self._own.write(unit, self._own.event("child-recovered", row.name, text, caller))
        if row.health in (Health.SUSPECT, Health.LOST):
            heard = "" if row.heard_at is None else iso(row.heard_at)
            self._own.write(
                unit, self._own.event("child-alive", row.name, f"heard again; it was {row.health}", caller, last=heard)
            )
            row = replace(row, health=Health.ALIVE, health_reason="")
        return row

    # --- in a session ---------------------------------------------------------------------------

    async def reported(self, session: ParentSession, report: Report | Beat) -> Ack | BeatAck:
        live = self._in_session(session)
        live.heard = self._clock.now()
        live.late = habit(live.late, live.granted, live.terms, live.heard)
        if isinstance(report, Beat):
            self._heard_below(live, report)
            self._roster.unreported.again(session.code, self._clock.now())
            await self._heard(live)
            grant, due = self._grant(live)
            shapes = self._announcing.due(live)
            if live.again or shapes is not None:
                # Rows that were refused here may be right now, or there is something to tell: only an Ack can.
                again, live.again = live.again, False
                return Ack(report.seq, grant, live.inbox.known, again, shapes)
            return BeatAck(report.seq, due)
        if report.condition == LEAVING:
            if live.child.rolled_back:
                # A clone's word would retire the zone that it was copied from, for good.
                raise Refused(
                    "not-believed",
                    f"{live.child.name} was restored or cloned, so its word does not retire it; a person here decides: "
                    "`banyan zone accept` believes it, `banyan zone retire` retires it",
                )
            await self._left(live)
            raise Refused("left", "this zone left by its own word; to join again it needs a new data folder and a code")
        resend = await firm(self._receive(live, session, report))
        live.condition, live.said = _condition(report.condition), shown(report.reason, 500)
        await self._heard(live)
        await self._progress(live, report)
        # After its rows: who is no longer alive in them was last known to be by what was said before.
        self._heard_below(live, report)
        live.shapes = report.shapes
        grant, _ = self._grant(live)
        return Ack(report.seq, grant, live.inbox.known, resend, self._announcing.due(live))

    def _in_session(self, session: ParentSession) -> Live:
        """The child that speaks. Raises Refused("replaced", "certificate-expired")."""
        live = self._roster.live.get(session.code)
        if live is None or live.session is not session:
            raise Refused("replaced", "a newer session of this zone took the place of this one", transient=True)
        # By boot time: a step of our own wall clock is no reason to send everybody away.
        if self._clock.now() > live.until:
            raise Refused(
                "certificate-expired", f"the certificate of {live.child.name} ended during its session", transient=True
            )
        return live

    def _heard_below(self, live: Live, report: Report | Beat) -> None:
        """Nothing was heard later than now, whatever a child's clock says."""
        live.below = min(report.heard, round(self._own.wall() * 1000))

    async def _left(self, live: Live) -> None:
        """A child's own last word: it is retired, as by a person's."""

        def left(child: Child) -> Child:
            state = ENROLMENT.after(child.state, EnrolEvent.RETIRED)
            return replace(child, state=state, health=Health.GONE, health_reason="it left by its own word")

        event = self._own.event("child-left", live.child.name, "left by its own word")
        try:
            await self._roster.said(live, "parent.left", left, event)
        except NotFound:
            return  # it was retired already, perhaps by this word, said before

    async def renew(self, session: ParentSession, renew: Renew) -> Renewed:
        live = self._in_session(session)
        now = self._clock.now()
        if live.renewed is not None and now < live.renewed + RENEWAL_GAP:
            raise Refused("too-soon", f"a certificate was renewed less than {RENEWAL_GAP:g} s ago", transient=True)
        live.renewed = now
        public = check_renewal(renew, session.code, session.peer.certificate or b"")
        until = Wall(self._own.wall() + self._settings.certificate_life)

        def renewed(child: Child) -> Child:
            if child.admin is Admin.BANNED:
                # The ban holds the key that it met.
                raise Refused("banned", f"{child.name} was banned during its session")
            return replace(child, fingerprint=fingerprint(public), certificate_until=until)

        live.keys.add(fingerprint(public))
        await self._roster.said(live, "parent.renewed", renewed)
        if live.session is session:
            live.until = Mono(now + self._settings.certificate_life)
        return Renewed(self._admission.certify(session.code, public), self._admission.bundle())

    async def ended(self, session: ParentSession, reason: str) -> None:
        live = self._roster.live.get(session.code)
        if live is not None and live.session is session:
            live.session = None
            log.info("session ended", child=live.child.name, reason=reason)

    # --- what is reported -----------------------------------------------------------------------

    async def _receive(self, live: Live, session: ParentSession, report: Report) -> bool:
        """Takes the parts of a report; True if one did not fit what is held, and must be sent whole."""
        # A report of a session that was replaced may still be in the store: it ends before the next is judged.
        async with live.receiving:
            if self._roster.live.get(session.code) is not live or live.session is not session:
                raise Refused("replaced", "a newer session of this zone took the place of this one", transient=True)
            if session.code in self._roster.doubtful:
                # What it reported before is not known yet; what would this be judged by?
                await self._roster.settle_reports(live)
                return True
            return await self._take(live, report)

    async def _take(self, live: Live, report: Report) -> bool:
        code, inbox, keys = live.child.code, live.inbox, live.keys
        resend = False
        if report.digest is not None:
            step = inbox.digest(report.digest, self._members.child_counters(code), self._own.wall())
            if step is None:
                resend = True
            else:
                inbox.accept_digest(step)
                live.unwritten = True
                if step.whole:
                    self._members.put_digest(code, step.counters)
                else:
                    self._members.patch_digest(code, step.counters)
        if report.lineage is not None:
            resend = not await self._receive_lineage(live, report.lineage) or resend
        if report.ledger is not None:
            held = self._roster.held_uses(live)
            uses = inbox.ledger(report.ledger, held)
            if uses is None:
                resend = True
            else:
                stored, put, drop = uses.stored, uses.put, uses.drop

                def keep(unit: Unit) -> None:
                    check_key(unit.children.get(code), keys)
                    unit.ledger.put(code, put)
                    unit.ledger.delete(code, drop)
                    unit.streams.put_generations(code, unit.streams.generations(code)[0], stored)

                try:
                    await self._store.write("parent.ledger", keep)
                except StoreUnknown:
                    await self._roster.settle_reports(live)
                    return True
                if not self._roster.holds(live, inbox):
                    return True
                inbox.accept_ledger(uses)
                self._roster.keep_uses(live, use_changes(uses))
        if not resend and live.inbox.whole and not (report.ledger is not None and report.ledger.more):
            self._roster.unreported.reported(code, self._clock.now(), partial=report.partial)
        return resend

    async def _receive_lineage(self, live: Live, delta: Delta) -> bool:
        code, inbox, keys = live.child.code, live.inbox, live.keys
        step = inbox.lineage(delta, self._roster.held(code))
        if step is None:
            return False
        sifted, drop = sift_step(step, live.child, self._own, self._ancestors(), self._roster, self._tree)
        kept = sifted.kept

        def keep(unit: Unit) -> None:
            check_key(unit.children.get(code), keys)
            unit.lineage.put(code, kept)
            unit.lineage.delete(code, drop)
            unit.streams.put_generations(code, step.stored if whole else 0, unit.streams.generations(code)[1])

        # Before the commit: the place of one that was refused may become free during it. What goes is below such a one.
        self._roster.keep_refused(code, [one.row.code for one in sifted.refused if one.row.code not in drop])
        # What is remembered of refusals a restart forgets: then the child is asked for the whole.
        whole = not self._roster.refused(code) - {row.code for row in kept} - drop
        with self._roster.reserved(code, [row.code for row in kept]):
            try:
                await self._store.write("parent.lineage", keep)
            except StoreUnknown:
                # It goes on from what is there; the places are kept until that is known.
                await self._roster.settle_reports(live)
                return False
            if not self._roster.holds(live, inbox):
                # It was told meanwhile to start over; what is stored is replaced by the whole that comes.
                return False
            inbox.accept_lineage(step)
            self._roster.keep_rows(live, kept, drop)
        # Whose a rack is that others name as well was decided just now, and is so from the answer on.
        await self._roster.owners.keep()
        await self._admission.note_rows(live.child.name, sifted.refused)
        return True

    async def _progress(self, live: Live, report: Report) -> None:
        """Moves the enrolment on, one durable step after another, as far as the report allows."""
        if live.child.state is ChildState.READY:
            return
        steps: list[EnrolEvent] = []
        if report.scanned:
            steps.append(EnrolEvent.SCANNED)
            if live.inbox.whole:
                steps.append(EnrolEvent.COUNTED)
        elif report.scanning:
            steps.append(EnrolEvent.SCAN_BEGUN)
        for event in steps:
            before = live.child.state
            if not ENROLMENT.allows(before, event) or ENROLMENT.after(before, event) is before:
                continue
            after = ENROLMENT.after(before, event)

            def moved(child: Child, event: EnrolEvent = event) -> Child:
                return replace(child, state=ENROLMENT.after(child.state, event))

            line = self._own.event(f"child-{after}", live.child.name, _STEPS[after])
            await self._roster.said(live, f"parent.{event}", moved, line)

    async def _heard(self, live: Live) -> None:
        """Health from the child's own word; only a change of it is stored, and not more often than CHANGE_GAP."""
        health = Health.UNAVAILABLE if live.condition is Condition.UNAVAILABLE else Health.ALIVE
        said = live.said if health is Health.UNAVAILABLE else ""
        before = live.child
        if (health, said) == (before.health, before.health_reason):
            return
        moment = self._clock.now()
        if live.changed is not None and moment < live.changed + CHANGE_GAP:
            return
        live.changed = moment
        now = self._own.wall()

        def heard(child: Child) -> Child:
            return replace(child, health=health, health_reason=said, heard_at=now)

        line = None
        if health is not before.health:
            text = said or f"answers again; it was {before.health}"
            line = self._own.event(f"child-{health}", before.name, text)
        await self._roster.said(live, "parent.heard", heard, line)

    # --- grants and certificates ------------------------------------------------------------------

    def _grant(self, live: Live) -> tuple[Grant, int]:
        """What the acknowledgement that is sent now grants, and when the next report is due (ms, jittered).

        A parent that lags behind its own loop grants longer: it could not hear a child that is in time.
        """
        terms = self._settings.terms
        due = terms.report * self._ids.uniform(0.85, 1.0)
        live.granted = self._clock.now()
        live.terms = Terms(terms.lease + self.lag, terms.silence, terms.grace, due)
        if live.child.rolled_back:
            return Grant(0, 0, round(due * 1000), live.child.epoch), round(due * 1000)
        grant = Grant(
            round(live.terms.lease * 1000), round(live.terms.silence * 1000), round(due * 1000), live.child.epoch
        )
        return grant, grant.report


_STEPS = {
    ChildState.SCANNING: "its racks are being read",
    ChildState.COUNTING: "all its racks were read once",
    ChildState.READY: "it is in the totals",
}


def _condition(text: str) -> Condition:
    """A word that this version does not know counts as available: the digest says what there is."""
    return Condition.UNAVAILABLE if text == Condition.UNAVAILABLE else Condition.AVAILABLE
