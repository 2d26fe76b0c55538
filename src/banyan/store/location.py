"""Where a zone's database is: a file (`sqlite:///path` or a path), or `postgresql://user@host/db`.

A password never stands in a URL: URLs end up in settings files, process lists and logs.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlsplit

from banyan.core.errors import BadInput


@dataclass(frozen=True, slots=True)
class SqliteFile:
    path: Path

    def __str__(self) -> str:
        return f"sqlite:///{self.path}"


@dataclass(frozen=True, slots=True)
class PostgresqlServer:
    """`url` in libpq's form, without a password."""

    url: str

    def __str__(self) -> str:
        return self.url


Location = SqliteFile | PostgresqlServer

# libpq takes these in the query as well.
_SECRET_OPTIONS = frozenset({"password", "sslpassword", "oauth_client_secret"})


def parse_location(text: str) -> Location:
    """Raises BadInput("password-in-url" | "bad-database-url")."""
    scheme, mark, rest = text.partition("://")
    if not mark:
        return SqliteFile(Path(text))
    if scheme == "sqlite":
        # sqlite:///relative, sqlite:////absolute
        if not rest.startswith("/") or len(rest) < 2:
            raise BadInput("bad-database-url", f"a SQLite database is sqlite:///PATH, got {text!r}")
        return SqliteFile(Path(unquote(rest[1:])))
    if scheme not in ("postgresql", "postgres"):
        raise BadInput(
            "bad-database-url", f"a database is a path, sqlite:///PATH or postgresql://USER@HOST/NAME, not {scheme}://…"
        )
    try:
        parts = urlsplit(text)
        options = dict(parse_qsl(parts.query, keep_blank_values=True))
    except ValueError as error:
        raise BadInput("bad-database-url", "the database's URL is not postgresql://USER@HOST/NAME") from error
    # Whatever comes before the last "@" is read here by hand, so that a "/" or "?" in a password hides nothing.
    credentials = rest.rpartition("@")[0]
    if parts.password is not None or ":" in credentials or _SECRET_OPTIONS & options.keys():
        raise BadInput(
            "password-in-url",
            "the database's URL holds a password; take it out and put it in ~/.pgpass, or in a file that "
            "PGPASSFILE names (mode 0600)",
        )
    return PostgresqlServer("postgresql://" + rest)
