"""Brings a database to this program's schema, in the caller's transaction; refuses a newer one untouched.

Alembic is loaded only when there is something to do: an idle start reads one row.
"""

from __future__ import annotations

from importlib.resources import as_file, files

from sqlalchemy import Connection, inspect, text

from banyan import __version__
from banyan.core.errors import Refused
from banyan.store import tables
from banyan.store.rows import Put

# The newest revision in versions/. A test holds the two together.
HEAD = "0013"

_PUT_ABOUT = Put(tables.about)


def current(connection: Connection) -> str | None:
    """The database's revision; None if it is empty."""
    if not inspect(connection).has_table("alembic_version"):
        return None
    revision: str | None = connection.execute(text("SELECT version_num FROM alembic_version")).scalar()
    return revision


def upgrade(connection: Connection) -> bool:
    """True if anything was changed. Raises Refused("database-newer") before the first change."""
    revision = current(connection)
    if revision == HEAD:
        return False
    from alembic.config import Config
    from alembic.runtime.environment import EnvironmentContext
    from alembic.script import ScriptDirectory

    with as_file(files("banyan.store.migrations")) as folder:
        config = Config()
        config.set_main_option("script_location", str(folder).replace("%", "%%"))
        config.set_main_option("path_separator", "newline")
        script = ScriptDirectory.from_config(config)
        if revision is not None and revision not in {known.revision for known in script.walk_revisions()}:
            program = connection.execute(text("SELECT value FROM about WHERE key = 'program'")).scalar()
            raise newer(revision, program)
        with EnvironmentContext(
            config,
            script,
            fn=lambda at, _: script._upgrade_revs(HEAD, at),  # as alembic's own command does
        ) as environment:
            environment.configure(connection=connection, target_metadata=tables.metadata)
            environment.run_migrations()
    _PUT_ABOUT(connection, {"key": "program", "value": __version__})
    return True


def newer(revision: str, program: str | None) -> Refused:
    """`program`: the version that wrote the schema, if it said so."""
    return Refused(
        "database-newer",
        f"the database was written by banyan {program or 'of an unknown version'} (schema {revision}), this is banyan "
        f"{__version__} (schema {HEAD}); nothing was changed. Start that version again, or restore a backup that this "
        "one made (banyan restore)",
    )
