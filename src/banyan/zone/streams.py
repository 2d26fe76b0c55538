"""What goes up: the three streams digest, lineage and ledger, each as changes since a generation (protocols §4).

One `Streams` serves all uplinks; a parent's own word ("known") says where each goes on, so nothing is
kept per parent. Generations begin at an instant (`first_generation`), so that a restarted or restored
zone gives none out twice; a parent that holds any other is sent a whole. Nothing here is stored.
A zone's `as_of` travels only when something else of its row changes: while it is alive, an ancestor
takes the instant at which it last heard the child that it came through.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from banyan.core.digest import Counters, diff
from banyan.core.ids import ZoneCode
from banyan.core.lineage import MAX_ROWS, Delta, Entry, Ledger, Row, UseRow
from banyan.core.messages import DigestPart, Generations
from banyan.core.ports import Ids
from banyan.core.time import Wall
from banyan.core.zone import Admin, Child, ChildState, Health
from banyan.zone.feed import Feed
from banyan.zone.members import same_but_time
from banyan.zone.unreported import Unreported
from banyan.zone.uses import Project, Uses

# Digests kept to make changes from. A parent answers each report, so it is seldom more than one behind.
HISTORY = 16
MAX_USES = 1_000
MAX_REASON = 1_000

_ENCODER = msgspec.msgpack.Encoder()


def first_generation(now: Wall, ids: Ids) -> int:
    """Above every generation of an earlier life, while no stream changes over a thousand times per millisecond.

    The low bits are drawn: two lives that begin in one millisecond of a stuck clock still differ.
    """
    return (round(now * 1000) << 10) + ids.below(1 << 10)


class Streams:
    """`code`: our own. `start`: from `first_generation`. `scanned`: the newest digest is of complete scans."""

    def __init__(self, code: ZoneCode, start: int) -> None:
        self.code = code
        self.uses = Uses(code)
        self.unreported = Unreported()
        self.scanned = False
        self._generation = start
        self._digests: OrderedDict[int, Counters] = OrderedDict({start: {}})
        self._rows: Feed[ZoneCode, Row] = Feed(start, _size)
        self._ledger: Feed[Project, UseRow] = Feed(start, _size)
        self._subscribers: list[asyncio.Event] = []

    def generations(self) -> Generations:
        return Generations(self._generation, self._rows.position, self._ledger.position)

    # --- news -----------------------------------------------------------------------------------

    def subscribe(self) -> asyncio.Event:
        """Set when something changed that should not wait for the next report; the subscriber clears it."""
        event = asyncio.Event()
        self._subscribers.append(event)
        return event

    def unsubscribe(self, event: asyncio.Event) -> None:
        self._subscribers.remove(event)

    def _announce(self) -> None:
        for event in self._subscribers:
            event.set()

    # --- digest ---------------------------------------------------------------------------------

    def publish_digest(self, counters: Counters) -> bool:
        """The zone's digest from now on (`Members.counters`); False if it is the same as before."""
        newest = self._digests[self._generation]
        if counters == newest:
            return False
        self._generation += 1
        self._digests[self._generation] = dict(counters)
        if len(self._digests) > HISTORY:
            self._digests.popitem(last=False)
        if not same_but_time(newest, counters):
            self._announce()
        return True

    def digest_since(self, known: int) -> DigestPart | None:
        """None if nothing is new. A digest is bounded, not paged: it may pass a report's budget."""
        if known == self._generation:
            return None
        newest = self._digests[self._generation]
        held = self._digests.get(known)
        if held is None:
            return DigestPart(0, self._generation, newest)
        return DigestPart(known, self._generation, diff(held, newest))

    # --- lineage --------------------------------------------------------------------------------

    def put_rows(self, rows: Iterable[Row]) -> int:
        """Rows of this zone (`own_row`), its children (`child_row`), and what these reported. How many changed.

        A row that is `gone` drops its zone above.
        """
        changed = 0
        for row in rows:
            if row.gone:
                changed += self._rows.drop(row.code, row)
                continue
            held = self._rows.get(row.code)
            if held is None or msgspec.structs.replace(held, as_of=row.as_of) != row:
                changed += self._rows.put(row.code, row)
        if changed:
            self._announce()
        return changed

    def drop_rows(self, codes: Iterable[ZoneCode]) -> int:
        """Zones that are no longer below; those above are told so."""
        return self.put_rows([gone(code, self.code) for code in codes])

    def row(self, code: ZoneCode) -> Row | None:
        return self._rows.get(code)

    def lineage_since(self, known: int, budget: int) -> Delta | None:
        """One page in about `budget` bytes; the next goes on from its `until`. None if nothing is new."""
        found = self._rows.since(known, MAX_ROWS, budget)
        return None if found is None else Delta(found.since, found.until, found.values, found.more)

    # --- ledger ---------------------------------------------------------------------------------

    def put_uses(self, member: int, rows: Iterable[UseRow]) -> None:
        """Changed rows of a child (by its code); a row without guests drops its project there."""
        self._publish_uses(self.uses.put(member, rows))

    def replace_uses(self, member: int, rows: Sequence[UseRow], *, announce: bool = True) -> None:
        """All rows of a rack or child (by its code); () when it is gone.

        `announce` false: a digest that says the same follows at once, and one report takes both. Two reports keep half
        a second between them (link.session.Timing.gap), for which the totals above would wait.
        """
        self._publish_uses(self.uses.replace(member, rows), announce=announce)

    def _publish_uses(self, touched: Iterable[Project], *, announce: bool = True) -> None:
        changed = False
        for key in sorted(touched):
            row = self.uses.total(key)
            changed |= self._ledger.put(key, row) if row.guests else self._ledger.drop(key, row)
        if changed and announce:
            self._announce()

    def ledger_since(self, known: int, budget: int) -> Ledger | None:
        """As `lineage_since`, at most MAX_USES rows a page."""
        found = self._ledger.since(known, MAX_USES, budget)
        return None if found is None else Ledger(found.since, found.until, found.values, found.more)


def _size(value: Row | UseRow) -> int:
    return len(_ENCODER.encode(value))


def own_row(entry: Entry, sign: Callable[[bytes], bytes], name: str, labels: Mapping[str, str], now: Wall) -> Row:
    """What a zone says of itself to its parents. `sign` makes the Ed25519 signature of the encoded entry.

    `parent` is 0: each parent fills in itself and what it observes (`child_row`).
    """
    body = _ENCODER.encode(entry)
    return Row(
        entry.code,
        ZoneCode(0),
        name,
        body,
        sign(body),
        str(ChildState.READY),
        str(Health.ALIVE),
        str(Admin.ENABLED),
        "",
        round(now * 1000),
        dict(labels),
    )


def child_row(child: Child, parent: ZoneCode, entry: bytes, signature: bytes) -> Row:
    """A direct child as its parent reports it upwards; `entry` and `signature` as the child sent them."""
    return Row(
        child.code,
        parent,
        child.name,
        entry,
        signature,
        str(child.state),
        str(child.health),
        str(child.admin),
        child.reason[:MAX_REASON],
        round(child.heard_at * 1000) if child.heard_at is not None else 0,
        dict(child.labels),
    )


def gone(code: ZoneCode, parent: ZoneCode) -> Row:
    """The row that drops a zone above."""
    return Row(code, parent, "", b"", b"", "", "", "", "", 0, {}, True)
