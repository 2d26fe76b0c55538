"""Makes what goes up from what is held: the digest after changes, and the zone's own lineage entry.

Signalled by every change of Members; gathers what comes within GATHER seconds, so that a thousand children that
report at once cost one digest. Also writes down children's digests now and then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from banyan.core.ids import ZoneCode
from banyan.core.lineage import Entry, RackEntry
from banyan.core.ports import Clock, Ids
from banyan.core.rack import Rack
from banyan.core.time import Mono, Wall
from banyan.trust.lineage import sign_entry
from banyan.zone.members import Members
from banyan.zone.own import Own
from banyan.zone.roster import Roster
from banyan.zone.settings import ZoneSettings
from banyan.zone.streams import Streams, own_row

GATHER = 0.2  # seconds
# Children that are told of a new place come back at so many per second, within so many seconds.
RETURNS = 50.0
MOST_SPREAD = 300.0
TOLERANCE = 60.0  # seconds


class Publish:
    """zone.loop.Activation. `parents`: codes of the zones this one is enrolled at, the home parent first."""

    name = "publish"

    def __init__(
        self,
        own: Own,
        clock: Clock,
        settings: ZoneSettings,
        members: Members,
        streams: Streams,
        roster: Roster,
        parents: Callable[[], tuple[ZoneCode, ...]],
        ancestors: Callable[[], tuple[ZoneCode, ...]],
        ids: Ids,
        racks: Callable[[], Iterable[Rack]],
        version: str,
    ) -> None:
        self._own = own
        self._clock = clock
        self._settings = settings
        self._members = members
        self._streams = streams
        self._roster = roster
        self._parents = parents
        self._ancestors = ancestors
        self._ids = ids
        self._place: tuple[str, tuple[ZoneCode, ...]] | None = None
        self._racks = racks
        self._version = version
        self._shown: tuple[object, ...] = ()
        self._signed = Wall(0.0)
        self._code = own.code
        self._published = -1
        self._next = Mono(0.0)
        self._flush_at = Mono(0.0)

    async def activate(self, now: Mono) -> Mono | None:
        self._entry()
        await self._tell_place()
        if now < self._next and self._published != self._members.version:
            return self._next
        if self._published != self._members.version:
            self._published = self._members.version
            self._streams.scanned = self._members.scanned
            self._streams.publish_digest(self._members.counters())
            self._next = Mono(now + GATHER)
        if now >= self._flush_at:
            more = await self._roster.flush()
            await self._own.raise_floor()
            self._flush_at = Mono(now + (1.0 if more else self._settings.flush))
        return self._flush_at

    async def _tell_place(self) -> None:
        """Children learn our path and who is above us when a session opens: when that changes, they open another."""
        place = (self._roster.path(), self._ancestors())
        if place == self._place:
            return
        self._place = place
        sessions = [code for code, live in self._roster.live.items() if live.session is not None and live.told != place]
        spread = min(MOST_SPREAD, len(sessions) / RETURNS)
        for code in sessions:
            text = f"this zone's parent is {place[0]} from now on"
            await self._roster.cut(code, "moved", text, self._ids.uniform(0.0, spread))

    def _entry(self) -> None:
        """Signs our own entry anew when what it says has changed."""
        racks = tuple(sorted((r.code, r.name, r.driver) for r in self._racks()))
        parents = self._parents()
        shown = (self._own.code, self._own.name, parents, racks, self._version, tuple(self._own.row.labels.items()))
        now = self._own.wall()
        # What was signed by a clock that ran ahead would be refused above, and stand for ever.
        if shown == self._shown and self._signed <= now + TOLERANCE:
            return
        if self._code != self._own.code:
            # It took the code of the zone that it replaces: what it was before is below nobody.
            self._streams.drop_rows([self._code])
            self._code = self._own.code
        entry = Entry(
            self._own.code,
            self._own.public,
            parents,
            round(now * 1000),
            tuple(RackEntry(*rack) for rack in racks),
            self._version,
        )
        labels = dict(self._own.row.labels)
        self._streams.put_rows(
            [own_row(entry, lambda body: sign_entry(self._own.seed, body), self._own.name, labels, now)]
        )
        self._shown, self._signed = shown, now
