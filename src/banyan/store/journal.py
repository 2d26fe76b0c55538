"""The journal's rows: appended, never changed, each chained to the one before by its digest.

Triggers refuse UPDATE, DELETE and TRUNCATE, which stops accidents and our own bugs; whoever owns the database
can drop a trigger, and is found out by `verify`. What verify can not see by itself is a journal cut short
at its end: give it a line remembered elsewhere (`expect`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec
from sqlalchemy import Connection, bindparam, select

from banyan.core.errors import BadInput
from banyan.core.identity import Caller, Role
from banyan.core.ids import ZoneCode
from banyan.core.journal import Event, Line, chain
from banyan.core.records import JournalRows
from banyan.core.time import Wall
from banyan.store import tables
from banyan.store.bulk import BulkInsert
from banyan.store.plain import Plain
from banyan.store.rows import Codec, page_limit

FILTERS = ("kind", "target", "actor", "outcome", "request")

_T = tables.journal
_CODEC = Codec(Line, _T)
_LAST = _CODEC.select().order_by(_T.c.number.desc()).limit(1)
_HEAD = Plain(select(_T.c.number, _T.c.digest).order_by(_T.c.number.desc()).limit(1))
_PAGE = _CODEC.select().where(_T.c.number > bindparam("after")).order_by(_T.c.number).limit(bindparam("limit"))
_INSERT = BulkInsert(_T)
_FACTS = msgspec.json.Encoder(order="deterministic").encode

_PAGE_TO_VERIFY = 1_000


def _line(number: int, at: Wall, event: Event, digest: bytes) -> Line:
    caller = event.caller
    return Line(
        number,
        at,
        event.kind,
        event.target,
        caller.subject,
        caller.token,
        caller.address,
        caller.request,
        event.text,
        dict(sorted(event.facts.items())),
        event.outcome,
        digest,
    )


def _row(line: Line) -> tuple[object, ...]:
    """In the order of the table."""
    return (
        line.number,
        line.at,
        line.kind,
        line.target,
        line.actor,
        line.token,
        line.address,
        line.request,
        line.text,
        _FACTS(line.facts).decode(),
        line.outcome,
        line.digest,
    )


class SqlJournal:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def append(self, at: Wall, event: Event) -> Line:
        return self.append_all(at, (event,))[0]

    def append_all(self, at: Wall, events: Sequence[Event]) -> Sequence[Line]:
        if not events:
            return ()
        number, previous = _HEAD.one(self._connection) or (0, b"")
        lines: list[Line] = []
        for event in events:
            number += 1
            previous = chain(previous, number, at, event)
            lines.append(_line(number, at, event, previous))
        _INSERT(self._connection, [_row(line) for line in lines])
        return lines

    def last(self) -> Line | None:
        row = self._connection.execute(_LAST).first()
        return None if row is None else _CODEC.record(row)

    def page(self, after: int, limit: int, filters: Mapping[str, str]) -> Sequence[Line]:
        """Raises BadInput("bad-filter") for a filter that is not one of FILTERS."""
        statement = _PAGE
        for name, value in sorted(filters.items()):
            if name not in FILTERS:
                raise BadInput("bad-filter", f"the journal is filtered by {', '.join(FILTERS)}, not by {name!r}")
            statement = statement.where(_T.c[name] == bindparam(f"filter_{name}", value))
        return _CODEC.records(self._connection.execute(statement, {"after": after, "limit": page_limit(limit)}))


@dataclass(frozen=True, slots=True)
class Break:
    """The first line at which the chain does not hold, and why."""

    number: int
    why: str


def verify(journal: JournalRows, expect: tuple[int, bytes] | None = None) -> Break | None:
    """Walks the whole chain, a page at a time; None if it holds.

    `expect`: the (number, digest) of a line remembered outside this database. Linear in the journal's
    length: about 20 µs a line.
    """
    number, digest = 0, b""
    while page := journal.page(number, _PAGE_TO_VERIFY, {}):
        for line in page:
            if line.number != number + 1:
                return Break(number + 1, f"the line is missing; the next one kept is {line.number}")
            if chain(digest, line.number, line.at, _event(line)) != line.digest:
                return Break(line.number, "its content, or the line before it, is not what was written")
            if expect is not None and expect[0] == line.number and expect[1] != line.digest:
                return Break(line.number, "it is not the line that was remembered: the history was written anew")
            number, digest = line.number, line.digest
    if expect is not None and expect[0] > number:
        return Break(number + 1, f"the journal ends at {number}, but line {expect[0]} had been written")
    return None


def _event(line: Line) -> Event:
    """The event as `chain` reads it; a caller's role and issuer are not part of a line."""
    caller = Caller(line.actor, Role.VIEWER, ZoneCode(0), None, line.token, line.address, line.request)
    return Event(line.kind, line.target, caller, line.text, line.facts, line.outcome)
