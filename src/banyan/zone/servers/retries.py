"""Requests that may be repeated: the same retry key with the same arguments gives the same servers (protocols §5.1).

The key's row is stored before anything is ordered for it, and its answer in the commit that decides the order. A key
without an answer, whose order nobody works on any more, is ordered for anew under another id: what came of the first
was cancelled, since nobody was told of it. Refusals are not kept. What was asked is kept as digests: never its content.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping

from msgspec.structs import replace

from banyan.core.errors import BadInput, Conflict, Refused, Unreachable
from banyan.core.ids import RISING_CHANCE, ZoneCode, rising_id
from banyan.core.order import order_id
from banyan.core.ports import Ids, Store
from banyan.core.records import StoreUnknown, Unit
from banyan.core.server import Created
from banyan.core.server_messages import PlaceReply
from banyan.core.shares import KEY_LIFE, MAX_KEY, MAX_KEYS, RetryRow, differing, digests
from banyan.core.time import Wall
from banyan.zone.firm import firm
from banyan.zone.own import Own
from banyan.zone.servers.placing import Note

Ordering = Callable[[str, Note], Awaitable[PlaceReply]]
"""Places the order of that id, and stores the note with what is decided about it."""


class Retries:
    def __init__(self, own: Own, store: Store, ids: Ids) -> None:
        self._own = own
        self._store = store
        self._ids = ids
        self._under_way: dict[str, tuple[RetryRow, asyncio.Task[Created | PlaceReply]]] = {}

    async def answered(
        self, issuer: ZoneCode, project: str, user: str, key: str, asked: Mapping[str, object]
    ) -> Created | None:
        """The answer that was given under that key, None if there was none. Raises BadInput("bad-retry-key"),
        Conflict("other-order") if it was of other arguments."""
        id, arguments = _id(issuer, project, user, key), digests(asked)
        row = await self._store.read(lambda unit: unit.retries.get(id))
        if row is None or self._is_over(row):
            return None
        _same(row, arguments)
        return None if row.created is None else replace(row.created, again=True)

    async def create(
        self, issuer: ZoneCode, project: str, user: str, key: str, asked: Mapping[str, object], order: Ordering
    ) -> Created | PlaceReply:
        """As `order` answers; a refusal as it is, and not kept. Under a key that was used it answers what was said
        then; who comes while that is under way waits for it.

        Raises what `answered` does, Refused("too-many-retry-keys"), and what `order` raises.
        """
        now = self._own.wall()
        fresh = RetryRow(
            _id(issuer, project, user, key),
            issuer,
            project,
            now,
            rising_id(now, self._ids.token(RISING_CHANCE)),
            digests(asked),
        )
        known = self._under_way.get(fresh.id)
        if known is not None:
            _same(known[0], fresh.arguments)
            made = await asyncio.shield(known[1])
            return replace(made, again=True) if isinstance(made, Created) else made
        task = asyncio.ensure_future(self._create(fresh, order))
        self._under_way[fresh.id] = fresh, task
        task.add_done_callback(lambda task: self._ended(fresh.id, task))
        # Whoever asked may be gone before it is known what became of the request; that is found out all the same.
        return await asyncio.shield(task)

    async def withdrawn(self, issuer: ZoneCode, project: str, user: str, key: str, order: str) -> None:
        """What that order made is taken back: its key answers nothing any more. To be called after that is stored."""
        id = _id(issuer, project, user, key)

        def work(unit: Unit) -> None:
            row = unit.retries.get(id)
            if row is not None and row.order == order:
                unit.retries.drop(id)

        await firm(self._store.write("order.unkeyed", work))

    def _ended(self, id: str, task: asyncio.Task[Created | PlaceReply]) -> None:
        del self._under_way[id]
        if not task.cancelled():
            task.exception()

    async def _create(self, fresh: RetryRow, order: Ordering) -> Created | PlaceReply:
        try:
            known = await firm(self._store.write("order.keyed", lambda unit: self._begin(unit, fresh)))
        except StoreUnknown as error:
            text = "it is not known whether this request was stored; nothing was ordered; send the same again"
            raise Unreachable("order-lost", text, detail=error.text, transient=True) from error
        if known is not None:
            return known

        def note(unit: Unit, reply: PlaceReply) -> None:
            row = unit.retries.get(fresh.id)
            if row is None or row.order != fresh.order:
                raise Refused("order-cancelled", "another process has taken this request over; send the same again")
            if reply.refusal is not None:
                unit.retries.drop(fresh.id)
            else:
                # Why each is where it is, the order's way tells.
                unit.retries.put(replace(row, created=Created(fresh.order, reply.made)))

        try:
            reply = await order(fresh.order, note)
        except (BadInput, Refused):
            # As little kept as any refusal: put right, it may be asked for under the same key.
            await firm(self._store.write("order.unkeyed", lambda unit: _forget(unit, fresh)))
            raise
        return reply if reply.refusal is not None else Created(fresh.order, reply.made, reply.again, reply.levels)

    def _begin(self, unit: Unit, fresh: RetryRow) -> Created | None:
        """The answer if there is one; else the key is `fresh` from now on."""
        row = unit.retries.get(fresh.id)
        if row is not None and not self._is_over(row):
            _same(row, fresh.arguments)
            if row.created is not None:
                return replace(row.created, again=True)
        elif unit.retries.count(fresh.issuer, fresh.project, self._oldest(), MAX_KEYS) >= MAX_KEYS:
            text = f"a project may use {MAX_KEYS} retry keys in 24 hours, and this one has; order without one, or later"
            raise Refused("too-many-retry-keys", text)
        unit.retries.put(fresh)
        return None

    def _is_over(self, row: RetryRow) -> bool:
        return row.at < self._oldest()

    def _oldest(self) -> Wall:
        """Keys of before are over."""
        return Wall(self._own.wall() - KEY_LIFE)


def _forget(unit: Unit, fresh: RetryRow) -> None:
    row = unit.retries.get(fresh.id)
    if row is not None and row.order == fresh.order and row.created is None:
        unit.retries.drop(fresh.id)


def _id(issuer: ZoneCode, project: str, user: str, key: str) -> str:
    if not 1 <= len(key) <= MAX_KEY or not key.isprintable() or not key.isascii():
        raise BadInput("bad-retry-key", f"a retry key is 1 to {MAX_KEY} printable ASCII characters, got {len(key)}")
    return order_id(issuer, project, user, key)


def _same(row: RetryRow, arguments: Mapping[str, bytes]) -> None:
    names = differing(row.arguments, arguments)
    if names:
        text = f"this retry key was used before for a request with another {', '.join(names)}; take another key"
        raise Conflict("other-order", text)
