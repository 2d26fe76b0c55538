"""Claimed orders on their way into the store: while one commit is under way, those that come gather for the next.

One unit of work for many orders costs little more than for one. An order that may not be stored after all, because its
lease is over or its id is known, is answered by itself and takes nobody along; a batch that fails as a whole is tried
again order by order.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from banyan.core.errors import BanyanError, Conflict, Unreachable
from banyan.core.journal import Event
from banyan.core.order import Order
from banyan.core.records import StoreUnknown, Unit
from banyan.core.server import Server, StoredOrder
from banyan.core.shares import ShareRow
from banyan.zone.firm import firm
from banyan.zone.loop import contained
from banyan.zone.own import Own
from banyan.zone.servers.places import Effect, Places

# Orders, and servers, to one unit of work: some tens of milliseconds of the writer.
MAX_ORDERS: Final = 256
MAX_SERVERS: Final = 4_000

Answer = StoredOrder | BanyanError | None


@dataclass(slots=True)
class Claimed:
    """One order whose places are pending. `share`: the row that says who decides about it, if that is not settled by
    the claim itself; stored with it. The answer: None if it is stored, what was stored under its id, or why it was not
    stored."""

    order: Order
    stored: StoredOrder
    servers: Sequence[Server]
    event: Event
    admit: Callable[[Order], None]
    share: ShareRow | None = None
    answer: asyncio.Future[StoredOrder | None] = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )


class ClaimedOrders:
    """Runs for ever, until cancelled; whoever waits then is told that the zone stops."""

    def __init__(self, own: Own, places: Places) -> None:
        self._own = own
        self._places = places
        self._waiting: deque[Claimed] = deque()
        self._wake = asyncio.Event()

    def __len__(self) -> int:
        return len(self._waiting)

    async def store(self, claimed: Claimed) -> StoredOrder | None:
        """None when it is durable; else what is stored under its id. Raises what kept it from that; its claim is then
        given back, but for StoreUnknown."""
        self._waiting.append(claimed)
        self._wake.set()
        return await claimed.answer

    async def run(self) -> None:
        try:
            while True:
                await self._wake.wait()
                self._wake.clear()
                while self._waiting:
                    await self._write(self._next())
        finally:
            for claimed in self._waiting:
                self._places.give_back(claimed.order.id)
                _answer(claimed, Unreachable("stopping", "this zone is stopping; the order was not stored"))

    def _next(self) -> list[Claimed]:
        batch = [self._waiting.popleft()]
        servers = len(batch[0].servers)
        while self._waiting and len(batch) < MAX_ORDERS:
            servers += len(self._waiting[0].servers)
            if servers > MAX_SERVERS:
                break
            batch.append(self._waiting.popleft())
        return batch

    async def _write(self, batch: Sequence[Claimed]) -> None:
        claims = [claimed.order.id for claimed in batch]
        write = self._places.write("order.claimed", partial(self._insert, batch), claims, keep=len(batch) > 1)
        try:
            answers = await firm(contained(write, "storing claimed orders"))
        except Conflict as error:
            # One of many ids was drawn before: whose it was is found out one by one.
            if len(batch) == 1:
                _answer(batch[0], error)
                return
            for claimed in batch:
                await self._write([claimed])
        except BanyanError as error:
            for claimed in batch:
                if not isinstance(error, StoreUnknown):
                    self._places.give_back(claimed.order.id)
                _answer(claimed, error)
        except asyncio.CancelledError:
            for claimed in batch:
                _answer(claimed, Unreachable("stopping", "this zone is stopping; the order may be stored"))
            raise
        else:
            for claimed, answer in zip(batch, answers, strict=True):
                _answer(claimed, answer)

    def _insert(self, batch: Sequence[Claimed], unit: Unit, effect: Effect) -> list[Answer]:
        """The unit of work."""
        refused: dict[str, BanyanError] = {}
        for claimed in batch:
            try:
                claimed.admit(claimed.order)
            except BanyanError as error:
                refused[claimed.order.id] = error
        admitted = [claimed for claimed in batch if claimed.order.id not in refused]
        known = unit.orders.insert(*(claimed.stored for claimed in admitted))
        fresh = [claimed for claimed in admitted if claimed.order.id not in known]
        unit.servers.insert([server for claimed in fresh for server in claimed.servers])
        unit.shares.put([claimed.share for claimed in fresh if claimed.share is not None])
        self._own.write_all(unit, [claimed.event for claimed in fresh])
        effect.new += [(claimed.order.id, claimed.servers) for claimed in fresh]
        return [refused.get(claimed.order.id) or known.get(claimed.order.id) for claimed in batch]


def _answer(claimed: Claimed, answer: Answer) -> None:
    if claimed.answer.done():
        return
    if isinstance(answer, BanyanError):
        claimed.answer.set_exception(_copy(answer))
    else:
        claimed.answer.set_result(answer)


def _copy(error: BanyanError) -> BanyanError:
    """For one more waiter: tracebacks grow on an exception that is raised in many places."""
    if type(error).__init__ is not BanyanError.__init__:
        return error
    copy = type(error)(
        error.code, error.text, detail=error.detail, transient=error.transient, retry_after=error.retry_after
    )
    copy.__cause__ = error
    return copy
