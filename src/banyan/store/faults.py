"""What a database says when it fails, in our words: who is to blame, and whether to try again.

The only place that reads SQLite's result codes (sqlite.org/rescode.html) and PostgreSQL's SQLSTATEs
(its manual's appendix A).
"""

from __future__ import annotations

import sqlite3
from enum import StrEnum

import psycopg
from sqlalchemy.exc import DBAPIError, IntegrityError

from banyan.core.errors import BanyanError, Broken, Unreachable
from banyan.core.records import StoreFull, StoreUnknown


class Fault(StrEnum):
    """UNIT: this unit's own doing. CONFLICT: lost to another transaction. The rest befall whoever comes."""

    UNIT = "unit"
    CONFLICT = "conflict"
    FULL = "full"
    LOST = "lost"
    BUSY = "busy"
    DAMAGED = "damaged"
    READ_ONLY = "read-only"
    DISK = "disk"


# Primary result codes.
_SQLITE = {
    sqlite3.SQLITE_FULL: Fault.FULL,
    sqlite3.SQLITE_BUSY: Fault.BUSY,
    sqlite3.SQLITE_LOCKED: Fault.BUSY,
    sqlite3.SQLITE_CORRUPT: Fault.DAMAGED,
    sqlite3.SQLITE_NOTADB: Fault.DAMAGED,
    sqlite3.SQLITE_READONLY: Fault.READ_ONLY,
    sqlite3.SQLITE_IOERR: Fault.DISK,
    sqlite3.SQLITE_CANTOPEN: Fault.DISK,
    sqlite3.SQLITE_PROTOCOL: Fault.BUSY,
}

_POSTGRESQL = {
    "40001": Fault.CONFLICT,
    "40P01": Fault.CONFLICT,
    "53100": Fault.FULL,
    "53200": Fault.BUSY,
    "53300": Fault.BUSY,
    "55P03": Fault.BUSY,
    "57014": Fault.BUSY,
    "57P01": Fault.LOST,
    "57P02": Fault.LOST,
    "57P03": Fault.LOST,
    "57P05": Fault.LOST,
    "25P03": Fault.LOST,
    "25006": Fault.READ_ONLY,
    "58030": Fault.DISK,
    "XX001": Fault.DAMAGED,
    "XX002": Fault.DAMAGED,
}


def fault(error: DBAPIError) -> Fault:
    origin = error.orig
    if isinstance(origin, sqlite3.Error):
        # Errors of the module itself (a closed connection, a wrong type) carry no code.
        code = getattr(origin, "sqlite_errorcode", None)
        if code is None:
            return Fault.UNIT
        if code == sqlite3.SQLITE_IOERR_SHMSIZE:
            # The write-ahead log's index could not grow.
            return Fault.FULL
        return _SQLITE.get(code & 0xFF, Fault.UNIT)
    if isinstance(origin, psycopg.Error):
        state = origin.sqlstate
        if state is None:
            return Fault.LOST if isinstance(origin, psycopg.OperationalError | psycopg.InterfaceError) else Fault.UNIT
        if state.startswith("08"):
            return Fault.LOST
        return _POSTGRESQL.get(state, Fault.UNIT)
    return Fault.LOST if error.connection_invalidated else Fault.UNIT


def refusal(error: DBAPIError, what: str) -> BanyanError:
    """The error to raise for a transaction that is known not to be committed. `what` names the database."""
    detail = f"{type(error.orig).__name__}: {error.orig}"
    match fault(error):
        case Fault.FULL:
            return StoreFull(
                "store-full",
                f"the disk of {what} is full: nothing was written, reading goes on; make room and try again",
                detail=detail,
                transient=True,
                retry_after=10.0,
            )
        case Fault.LOST:
            return Unreachable(
                "store-unreachable",
                f"{what} does not answer: nothing was written; see that the database runs and can be reached",
                detail=detail,
                transient=True,
                retry_after=5.0,
            )
        case Fault.BUSY | Fault.CONFLICT:
            return Unreachable(
                "store-busy",
                f"{what} is busy: nothing was written; try again",
                detail=detail,
                transient=True,
                retry_after=1.0,
            )
        case Fault.DAMAGED:
            return Broken(
                "database-damaged",
                f"{what} is damaged; stop this zone and restore its newest backup (banyan restore)",
                detail=detail,
            )
        case Fault.READ_ONLY:
            return Broken(
                "store-read-only",
                f"{what} takes no writes here: either its files or its server are read-only, or a reading unit wrote",
                detail=detail,
            )
        case Fault.DISK:
            return Broken(
                "store-disk",
                f"the disk of {what} failed: nothing was written; look at the machine's kernel log",
                detail=detail,
            )
    if isinstance(error, IntegrityError):
        return Broken("store-rule", f"{what} refused a row that breaks one of its rules", detail=detail)
    return Broken("store-statement", f"{what} refused a statement; this is a fault of the program", detail=detail)


def unknown(what: str, detail: str) -> StoreUnknown:
    return StoreUnknown(
        "store-unknown",
        f"whether {what} kept the last changes is not known; they are read again before anything else is done",
        detail=detail,
        transient=True,
        retry_after=1.0,
    )
