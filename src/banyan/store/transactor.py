"""Runs units of work on one connection: begin, a savepoint for each, commit. It reconnects when it must.

One thread's, never shared. It knows which failures belong to a unit (its savepoint is rolled back, the others
stand), which take the whole transaction, and after which the fate of a commit is not known.
Whose turn it is and who is answered is store.py's.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from banyan.core.errors import BanyanError
from banyan.core.records import Unit
from banyan.store.engine import Database
from banyan.store.faults import Fault, fault, refusal, unknown
from banyan.store.keys import Seal
from banyan.store.plain import run
from banyan.store.unit import SqlUnit, unit

T = TypeVar("T")
Work = Callable[[Unit], T]


@dataclass(frozen=True, slots=True)
class Outcome(Generic[T]):
    """What came of one unit: a value, or the error that rolled it back."""

    value: T | None = None
    error: BaseException | None = None


class TransactionLost(Exception):
    """The transaction is over, and nothing of it was committed. `refusal` is what to tell if no retry helps.

    `begun`: it had begun, so that a unit of it may be to blame.
    """

    def __init__(self, fault: Fault, refusal: BanyanError, *, begun: bool = True) -> None:
        super().__init__(refusal.text)
        self.fault = fault
        self.refusal = refusal
        self.begun = begun


class Transactor:
    def __init__(self, database: Database, engine: Engine, seal: Seal) -> None:
        self._database = database
        self._engine = engine
        self._seal = seal
        self._connection: Connection | None = None
        self._unit: SqlUnit | None = None

    def connect(self) -> None:
        """Connects before the first transaction; may be done in another thread than the one that then uses it."""
        self.begin()
        self.rollback()

    def begin(self) -> None:
        """Raises TransactionLost when the database can not be had."""
        try:
            if self._connection is None:
                self._connection = self._engine.connect()
                self._unit = unit(self._connection, self._seal)
            self._connection.begin()
        except DBAPIError as error:
            raise self._lost(error, begun=False) from error

    def attempt(self, work: Work[T]) -> Outcome[T]:
        """Runs one unit in its own savepoint. Raises TransactionLost when the failure is not the unit's own."""
        connection, rows = self._open()
        try:
            run(connection, "SAVEPOINT unit")
            value = work(rows)
            run(connection, "RELEASE SAVEPOINT unit")
        except DBAPIError as error:
            if fault(error) is not Fault.UNIT:
                raise self._lost(error) from error
            self._undo(error)
            return Outcome(error=_caused(refusal(error, self._database.what), error))
        except BaseException as error:  # noqa: BLE001 - carried to whoever asked for the unit
            self._undo(error)
            return Outcome(error=error)
        return Outcome(value)

    def look(self, work: Work[T]) -> Outcome[T]:
        """Runs one reading unit, the only one of its transaction, which is rolled back after it whatever comes. Raises
        TransactionLost as `attempt` does."""
        _, rows = self._open()
        try:
            return Outcome(work(rows))
        except DBAPIError as error:
            if fault(error) is not Fault.UNIT:
                raise self._lost(error) from error
            return Outcome(error=_caused(refusal(error, self._database.what), error))
        except BaseException as error:  # noqa: BLE001 - carried to whoever asked for the unit
            return Outcome(error=error)

    def commit(self) -> None:
        """Returns when the changes are durable. Raises TransactionLost, or StoreUnknown."""
        connection, _ = self._open()
        what, warnings = self._database.what, self._database.warnings
        warnings.clear()
        try:
            connection.commit()
        except DBAPIError as error:
            # SQLite writes the commit's mark last: full means not written. Anything else may be on the disk.
            self.reset()
            kind = fault(error)
            if kind in (Fault.FULL, Fault.CONFLICT, Fault.BUSY, Fault.UNIT):
                raise TransactionLost(kind, refusal(error, what)) from error
            raise unknown(what, f"{type(error.orig).__name__}: {error.orig}") from error
        if warnings:
            self.reset()
            raise unknown(what, "; ".join(warnings))

    def rollback(self) -> None:
        """Ends the transaction without a trace; reconnects later if even that fails."""
        if self._connection is None:
            return
        try:
            self._connection.rollback()
        except SQLAlchemyError:
            self.reset()

    def reset(self) -> None:
        """Drops the connection: the next transaction makes a new one."""
        connection, self._connection, self._unit = self._connection, None, None
        if connection is not None:
            try:
                connection.invalidate()
                connection.close()
            except SQLAlchemyError:
                pass  # it is thrown away because it is broken; another one is opened for the next unit

    def close(self) -> None:
        connection, self._connection, self._unit = self._connection, None, None
        if connection is not None:
            connection.close()

    def _open(self) -> tuple[Connection, SqlUnit]:
        assert self._connection is not None, "begin first"
        assert self._unit is not None
        return self._connection, self._unit

    def _undo(self, cause: BaseException) -> None:
        """Rolls back one unit's savepoint; TransactionLost if there is no transaction any more.

        SQLite ends the whole transaction by itself after some errors, and a unit may have swallowed one.
        """
        connection, _ = self._open()
        try:
            run(connection, "ROLLBACK TO SAVEPOINT unit")
            run(connection, "RELEASE SAVEPOINT unit")
        except DBAPIError as error:
            self.reset()
            raise TransactionLost(Fault.LOST, refusal(error, self._database.what)) from cause

    def _lost(self, error: DBAPIError, *, begun: bool = True) -> TransactionLost:
        self.reset()
        return TransactionLost(fault(error), refusal(error, self._database.what), begun=begun)


def _caused(error: BanyanError, cause: BaseException) -> BanyanError:
    error.__cause__ = cause
    return error
