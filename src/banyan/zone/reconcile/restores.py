"""How a zone learns from its returning children that it was restored, and who merely comes late from before that.

A child's claim to have seen a later epoch than is held is believed as far as this zone signed it (trust/epochs.py).
Signed in this life, it proves that the zone has gone back; signed in one that a noticed restore ended, it is no news,
and counts for the child's own row only: a thousand who come back over days must not lock the zone a thousand times.
"""

from __future__ import annotations

from enum import StrEnum

from banyan.core.errors import Refused
from banyan.core.identity import Caller, Role
from banyan.core.messages import Hello
from banyan.core.ports import Clock, Peer, Store
from banyan.core.zone import Child
from banyan.trust.epochs import proved_epoch
from banyan.trust.marks import EpochVerdict, judge_epoch
from banyan.zone.own import Own
from banyan.zone.reconcile.refusals import Refusals

# A child's epoch rises by one with each session, a zone's own with each restore.
MAX_SESSIONS = 1_000_000


class Meeting(StrEnum):
    """What a hello tells of this zone. Only after `KNOWN` do the child's marks say something against the child."""

    KNOWN = "known"
    RESTORED = "restored"
    LATE = "late"


class Restores:
    """`refusals`: the budget for what strangers cause in the journal."""

    def __init__(self, own: Own, store: Store, clock: Clock, refusals: Refusals) -> None:
        self._own = own
        self._store = store
        self._clock = clock
        self._refusals = refusals

    async def meet(self, hello: Hello, child: Child, peer: Peer) -> Meeting:
        """`child`: the row of whoever says `hello`, which stands. Raises Refused("bad-epoch").

        `RESTORED`: this zone knows that it was restored, and waits for a release. `LATE`: the child comes from before
        a restore that was released. In both this zone forgot marks of it, and can blame nobody for newer ones.
        """
        if judge_epoch(own=child.epoch, seen=hello.epoch) is EpochVerdict.OK:
            return Meeting.KNOWN
        row = self._own.row
        proved = proved_epoch(
            hello.proof,
            hello.crosses,
            parent=row.code,
            child=child.code,
            authorities=[one.row for one in self._own.authorities],
            now=self._own.wall(),
        )
        if hello.epoch > max(proved.epoch, child.epoch) + MAX_SESSIONS or proved.own > row.epoch + MAX_SESSIONS:
            raise Refused(
                "bad-epoch",
                f"{child.name} says it has seen epoch {hello.epoch} where {child.epoch} is held; no zone opens "
                f"{MAX_SESSIONS} sessions between two backups: its database is damaged, or it lies",
            )
        if judge_epoch(own=child.epoch, seen=proved.epoch) is EpochVerdict.OK:
            await self._note_unproved(child, hello.epoch, peer)
            # Who knows that it was restored holds old marks, whoever reminds it of that.
            return Meeting.KNOWN if self._own.row.restored_at is None else Meeting.RESTORED
        if proved.of_this_life(row.epoch):
            await self._own.raise_epoch(
                f"child {child.name} shows that this zone, at epoch {proved.own}, granted it epoch {proved.epoch}, "
                f"where {child.epoch} is held: this zone was restored from an earlier state. Join codes made before "
                "are refused for good, tokens until they are affirmed; look, then `banyan release`",
                proved.own,
            )
        return Meeting.LATE if self._own.row.restored_at is None else Meeting.RESTORED

    async def _note_unproved(self, child: Child, epoch: int, peer: Peer) -> None:
        """A line within the budget for strangers: a child that lies in each hello must not fill the journal."""
        if not self._refusals.may_write(self._clock.now(), f"zone:{child.name}"):
            return
        text = (
            f"{child.name} says it has seen epoch {epoch} where {child.epoch} is held, and shows no signature of this "
            "zone for it: not believed. Its program may be older than this one, then look whether this zone was "
            "restored from an earlier state; or it lies"
        )
        caller = Caller(f"zone:{child.name}", Role.VIEWER, self._own.code, address=peer.address)
        event = self._own.event("epoch-unproved", child.name, text, caller, "refused", epoch=str(epoch))
        await self._store.write("parent.epoch-unproved", lambda unit: self._own.write(unit, event))
