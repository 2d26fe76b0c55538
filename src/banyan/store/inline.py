"""The simulated store: SQLite in memory, on the caller's own loop, without a thread or a file.

A unit's start, commit and answer are three separate instants, chosen by the world through `pause`. At the start
the unit is rehearsed and rolled back, at the commit it runs again and is kept: so every unit in a world proves that
it may run twice, and what else happens in between happens to it. Same SQL, same schema as store.SqlStore.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import cache
from typing import TypeVar

from sqlalchemy import Engine, create_engine
from sqlalchemy.pool import StaticPool

from banyan.core.errors import Unreachable
from banyan.core.ports import Ids
from banyan.core.records import StoreFull, StoreUnknown
from banyan.core.secret import Secret
from banyan.store.engine import Database, begin_with, on_connect
from banyan.store.faults import unknown
from banyan.store.keys import KEY_SIZE, Seal
from banyan.store.migrations.upgrade import upgrade
from banyan.store.store import Observer, Phase
from banyan.store.transactor import TransactionLost, Transactor, Work

T = TypeVar("T")

Pause = Callable[[str], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Image:
    """A zone's whole memory: the committed database's bytes, and the key that its secrets are sealed with."""

    database: bytes
    seal: Secret


class InlineStore:
    """core.ports.Store for worlds. `pause(instant)` is awaited with "start NAME", "commit NAME" and "answer NAME"
    for writes, "start read" and "answer read" for reads; it decides how long each takes.

    After `crash` this object is dead; `InlineStore(ids, pause, image=dead.image())` is the zone after its
    restart, and another one with the same image is a clone. `fail` plans failures of commits.
    """

    def __init__(
        self,
        ids: Ids,
        pause: Pause,
        *,
        image: Image | None = None,
        observer: Observer | None = None,
        rehearse: bool = True,
    ) -> None:
        seal = Secret(ids.token(KEY_SIZE)) if image is None else image.seal
        self._seal = seal
        self._raw = sqlite3.connect(":memory:", isolation_level=None)
        self._raw.deserialize(_empty() if image is None else image.database)
        self._database = _database(self._raw)
        self._transactor = Transactor(self._database, self._database.writer, Seal(seal, ids))
        self._pause = pause
        self._observer = observer
        self._rehearse = rehearse
        self._last = b""
        self._failures: list[type[StoreFull] | type[StoreUnknown] | None] = []
        self._dead = ""

    async def write(self, name: str, work: Work[T]) -> T:
        await self._reach(f"start {name}")
        if self._rehearse:
            self._run(work, keep=None)
        await self._reach(f"commit {name}")
        failure = self._failures.pop(0) if self._failures else None
        if failure is StoreFull:
            await self._reach(f"answer {name}")
            raise StoreFull("store-full", "the simulated disk is full: nothing was written", transient=True)
        value, error = self._run(work, keep=name)
        await self._reach(f"answer {name}")
        if failure is StoreUnknown:
            raise unknown(self._database.what, "a planned failure after COMMIT")
        if error is not None:
            raise error
        return value  # type: ignore[return-value]  # no error, so it is a T

    async def read(self, work: Work[T]) -> T:
        await self._reach("start read")
        value, error = self._run(work, keep=None)
        await self._reach("answer read")
        if error is not None:
            raise error
        return value  # type: ignore[return-value]  # no error, so it is a T

    async def close(self) -> None:
        self._die("closed")

    def fail(self, *failures: type[StoreFull] | type[StoreUnknown] | None) -> None:
        """The next commits fail: StoreFull keeps nothing, StoreUnknown keeps the change and does not say so. None: that
        one is well."""
        self._failures += failures

    def crash(self) -> None:
        """Power off: what is committed stays in the image, what was not is lost, nobody is answered any more."""
        self._die("crashed")

    def image(self) -> Image:
        """What is committed now; of a dead store, what was when it died."""
        return Image(self._last if self._dead else self._raw.serialize(), self._seal)

    def _die(self, how: str) -> None:
        if not self._dead:
            self._dead = how
            self._last = self._raw.serialize()
            self._transactor.close()
            self._database.dispose()
            self._raw.close()

    async def _reach(self, instant: str) -> None:
        self._check()
        await self._pause(instant)
        self._check()

    def _check(self) -> None:
        if self._dead == "crashed":
            raise unknown(self._database.what, "the simulated machine lost its power")
        if self._dead:
            raise Unreachable("store-closed", f"{self._database.what} is closed: this zone is stopping")

    def _run(self, work: Work[T], *, keep: str | None) -> tuple[T | None, BaseException | None]:
        """One transaction in one instant; committed under the name `keep`, or rolled back without one."""
        try:
            self._transactor.begin()
            outcome = self._transactor.attempt(work)
            if keep is not None and outcome.error is None:
                self._observe("before", keep)
                self._transactor.commit()
                self._observe("after", keep)
        except TransactionLost as lost:
            return None, lost.refusal
        finally:
            self._transactor.rollback()
        return outcome.value, outcome.error

    def _observe(self, phase: Phase, name: str) -> None:
        if self._observer is not None:
            self._observer(phase, (name,))


async def no_pause(instant: str) -> None:
    """A `pause` for tests that need no world: lets the loop turn once, so that callers interleave."""
    turned = asyncio.Event()
    asyncio.get_running_loop().call_soon(turned.set)
    await turned.wait()


def _database(raw: sqlite3.Connection) -> Database:
    # One connection for good: the memory is gone with it.
    engine = _engine(raw)
    return Database("the simulated database", engine, engine)


def _engine(raw: sqlite3.Connection) -> Engine:
    engine = create_engine("sqlite://", creator=lambda: raw, poolclass=StaticPool, hide_parameters=True)
    on_connect(engine, "foreign_keys=ON")
    begin_with(engine, "BEGIN")
    return engine


@cache
def _empty() -> bytes:
    """An empty zone's database, made by the migrations once per process. Small pages: worlds hold many."""
    raw = sqlite3.connect(":memory:", isolation_level=None)
    raw.execute("PRAGMA page_size=1024")
    engine = _engine(raw)
    with engine.connect() as connection:
        upgrade(connection)
        connection.commit()
    image = raw.serialize()
    engine.dispose()
    raw.close()
    return image
