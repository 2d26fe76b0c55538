"""A private PostgreSQL for a test session: the machine's own server binary, a socket in a temporary folder.

Nothing of an installed server's is touched: no port, no service, no data of its own.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import TypedDict

import psycopg
import pytest
from psycopg import sql

from banyan.store.location import PostgresqlServer
from banyan.store.open import open_database

SKIP = os.environ.get("BANYAN_TEST_POSTGRESQL") == "skip"  # noqa: TID251 - how a machine without a server says so

_numbers = count(1)


def binaries() -> Path:
    """The folder of the newest server's programs. Without one the run fails: half a contract is none."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=lambda path: int(path.parts[4]))
    if found:
        return found[-1].parent
    on_path = shutil.which("postgres")
    if on_path:
        return Path(on_path).resolve().parent
    pytest.fail(
        "no PostgreSQL server found (looked in /usr/lib/postgresql/*/bin and PATH): install the package "
        "`postgresql`, or set BANYAN_TEST_POSTGRESQL=skip to test SQLite only",
        pytrace=False,
    )


class Account(TypedDict, total=False):
    """Whom subprocess runs it as; empty is ourselves."""

    user: int
    group: int


@dataclass
class Server:
    folder: Path
    command: list[str]
    account: Account
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                self.command, cwd=self.folder, stdout=log, stderr=log, stdin=subprocess.DEVNULL, **self.account
            )
        for _ in range(400):
            if self.process.poll() is not None:
                break
            try:
                self.connect().close()
            except psycopg.OperationalError:
                subprocess.run(["sleep", "0.02"], check=True)
            else:
                return
        raise AssertionError((self.folder / "log").read_text())

    def stop(self) -> None:
        """SIGQUIT is PostgreSQL's immediate shutdown."""
        process, self.process = self.process, None
        if process is not None:
            process.send_signal(signal.SIGQUIT)
            process.wait(30)

    def url(self, name: str) -> str:
        return f"postgresql://banyan@/{name}?host={self.folder}"

    def connect(self, name: str = "postgres") -> psycopg.Connection[tuple[object, ...]]:
        return psycopg.connect(self.url(name), autocommit=True)

    def new_database(self, template: str = "zone_template") -> str:
        """The URL of a database at the newest schema, nobody's yet."""
        name = f"zone{next(_numbers)}"
        with self.connect() as connection:
            connection.execute(
                sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(sql.Identifier(name), sql.Identifier(template))
            )
        return self.url(name)


@contextmanager
def running(*settings: str) -> Iterator[Server]:
    programs = binaries()
    folder = Path(tempfile.mkdtemp(prefix="banyan-pg-"))
    account = _account()
    if account:
        os.chown(folder, account["user"], account["group"])
    data = folder / "data"
    try:
        made = subprocess.run(
            [programs / "initdb", "-D", data, "-U", "banyan", "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8", "-N"],
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
            **account,
        )
        assert made.returncode == 0, made.stdout + made.stderr
        options = ["listen_addresses=", f"unix_socket_directories={folder}", "max_connections=60", *settings]
        command = [str(programs / "postgres"), "-D", str(data)]
        server = Server(folder, command + [part for option in options for part in ("-c", option)], account)
        try:
            server.start()
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def prepare(server: Server) -> None:
    """The template that every test's database is copied from. Where the server can, it sorts as English people do."""
    with server.connect() as connection:
        english = (
            "TEMPLATE template0 LOCALE_PROVIDER icu ICU_LOCALE 'en'" if connection.info.server_version >= 150000 else ""
        )
        connection.execute(f"CREATE DATABASE zone_template {english}")
    open_database(PostgresqlServer(server.url("zone_template"))).dispose()


def _account() -> Account:
    """PostgreSQL refuses to run as root: then it runs as its own user, or as nobody."""
    if os.geteuid() != 0:
        return {}
    for name in ("postgres", "nobody"):
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return {"user": entry.pw_uid, "group": entry.pw_gid}
    pytest.fail("running as root, and there is neither a user postgres nor nobody to run the server as")
