"""One process per zone's database on PostgreSQL: an advisory lock of a session of its own, while the store is open.

A folder's lock (lock.py) says nothing to another machine, or folder. Several controllers of one zone have no contract
yet: two would both believe to be the zone. The server drops the lock with the session, however that ends; so each
writing transaction looks whether our session has it still, and takes it anew before anything more is written.

To look for the lock in pg_locks is a round trip and a list of all locks. So the session has a second one, of a number
that is drawn for it: a writer tries for that as it takes its turn, in one statement, and gets it only if it is lost.
"""

from __future__ import annotations

import threading

import psycopg
from sqlalchemy import Connection, event
from sqlalchemy.exc import OperationalError

from banyan.core.errors import Conflict
from banyan.core.ports import Ids
from banyan.store.engine import APPLICATION_ID, CONNECT_TIMEOUT, WRITER_LOCK, Database
from banyan.store.location import PostgresqlServer

# The two-part space of advisory locks, which that of the writers (engine.WRITER_LOCK) does not touch.
_KEY = f"{APPLICATION_ID}, 1"
# Of 64 bits: whoever meets a number that is taken so often is not unlucky, but refused.
_DRAWS = 5
# None of its statements waits for anything but the server.
_OPTIONS = "-c lock_timeout=10s -c statement_timeout=10s"
_HOLDER = (
    "EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND granted AND objsubid = 2 "
    f"AND classid = {APPLICATION_ID} AND objid = 1 "
    "AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
)


class SoleProcess:
    """Taken on construction. Raises Conflict("database-in-use") naming who has it, or psycopg's errors.

    Its `watch` has every transaction of a writer refused, as one that finds no server, while another has the lock.
    """

    def __init__(self, server: PostgresqlServer, what: str, ids: Ids) -> None:
        self._url = server.url
        self._what = what
        self._ids = ids
        self._guard = threading.Lock()
        self._session: psycopg.Connection[tuple[object, ...]] | None = None
        self._begin = ""
        self._take()

    def _take(self) -> None:
        self.release()
        session = psycopg.connect(
            self._url,
            autocommit=True,
            connect_timeout=CONNECT_TIMEOUT,
            application_name="banyan (the zone)",
            keepalives_idle=30,
            keepalives_interval=10,
            keepalives_count=3,
            options=_OPTIONS,
        )
        try:
            row = session.execute(f"SELECT pg_try_advisory_lock({_KEY})").fetchone()
            if row is None or not row[0]:
                raise self._held(session)
            mark = self._drawn(session)
        except BaseException:
            session.close()
            raise
        self._session = session
        self._begin = (
            f"SELECT pg_try_advisory_xact_lock_shared({mark}) "
            f"FROM (SELECT pg_advisory_xact_lock({WRITER_LOCK}) OFFSET 0) AS turn"
        )

    def _drawn(self, session: psycopg.Connection[tuple[object, ...]]) -> int:
        """A number that this session has a lock of, and no other. One that somebody has is drawn again, never waited
        for: nobody says when it is free. Raises psycopg.OperationalError."""
        for _ in range(_DRAWS):
            mark = int.from_bytes(self._ids.token(8), "big", signed=True)
            row = session.execute(f"SELECT pg_try_advisory_lock({mark})").fetchone()
            if row is not None and row[0]:
                return mark
        raise psycopg.OperationalError(f"{_DRAWS} numbers that were drawn for an advisory lock were all taken")

    def _held(self, session: psycopg.Connection[tuple[object, ...]]) -> Conflict:
        row = session.execute(
            "SELECT pid, application_name, coalesce(host(client_addr), 'the socket of its machine') "
            f"FROM pg_stat_activity WHERE {_HOLDER} AND pg_locks.pid = pg_stat_activity.pid)"
        ).fetchone()
        who = "another session" if row is None else f"{row[1]!r} from {row[2]} (server process {row[0]})"
        return Conflict(
            "database-in-use",
            f"{self._what} is in use by {who}; one process serves a zone at a time: stop that one, or give this one a "
            "database of its own. If its machine is gone, end it there: "
            + ("wait a minute" if row is None else f"SELECT pg_terminate_backend({row[0]})"),
        )

    def watch(self, database: Database) -> None:
        """From now on no transaction of the writer begins while our session has lost the lock."""

        def begin(connection: Connection) -> None:
            if connection.exec_driver_sql(self._begin).scalar() is not False:
                self._again()

        if database.begins is not None:
            event.remove(database.writer, "begin", database.begins)
        event.listen(database.writer, "begin", begin)

    def _again(self) -> None:
        """Raises OperationalError, which a transaction takes for a server that is not there."""
        with self._guard:
            try:
                self._take()
            except Conflict as error:
                raise OperationalError(None, None, psycopg.OperationalError(error.text)) from error
            except psycopg.Error as error:
                raise OperationalError(None, None, error) from error

    def release(self) -> None:
        """May be called again."""
        session, self._session = self._session, None
        if session is not None:
            session.close()
