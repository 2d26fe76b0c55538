"""Where a database is, as people write it; a password is never part of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from banyan.core.errors import BadInput
from banyan.store.location import PostgresqlServer, SqliteFile, parse_location


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("zone.db", "zone.db"),
        ("/var/lib/banyan/zone.db", "/var/lib/banyan/zone.db"),
        ("sqlite:///zone.db", "zone.db"),
        ("sqlite:////var/lib/zone.db", "/var/lib/zone.db"),
        ("sqlite:////a%20b/zone.db", "/a b/zone.db"),
    ],
)
def test_files(text: str, path: str) -> None:
    assert parse_location(text) == SqliteFile(Path(path))


@pytest.mark.parametrize(
    "rest", ["banyan@db.example/zone", "banyan@[::1]:5433/zone", "banyan@/zone?host=/run/pg", "db/zone"]
)
def test_servers(rest: str) -> None:
    for scheme in ("postgresql", "postgres"):
        assert parse_location(f"{scheme}://{rest}") == PostgresqlServer(f"postgresql://{rest}")


@pytest.mark.parametrize(
    "rest",
    [
        "banyan:hunter2@db/zone",
        "banyan:hun/ter2@db/zone",
        "banyan:hun?ter2@db/zone",
        "banyan:hun#ter2@db/zone",
        "banyan:h@hunter2@db/zone",
        "banyan@db/zone?password=hunter2",
        "banyan@db/zone?sslmode=require&password=hunter2",
        "banyan@db/zone?sslpassword=hunter2",
        "banyan:@db/zone",
    ],
)
def test_a_password_is_refused_and_not_repeated(rest: str) -> None:
    with pytest.raises(BadInput, match="PGPASSFILE") as refused:
        parse_location(f"postgresql://{rest}")
    assert refused.value.code == "password-in-url"
    assert "hunter" not in repr(refused.value) + refused.value.detail
    assert "ter2" not in refused.value.text


@pytest.mark.parametrize("text", ["mysql://u:secret@db/zone", "sqlite://zone.db", "sqlite://", "sqlite:///"])
def test_other_databases_are_refused(text: str) -> None:
    with pytest.raises(BadInput) as refused:
        parse_location(text)
    assert refused.value.code == "bad-database-url"
    assert "secret" not in refused.value.text
