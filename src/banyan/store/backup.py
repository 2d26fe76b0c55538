"""Backup and restore of a zone: its database, seal key, settings and images in one file, encrypted as a whole.

A backup is taken beside a running zone. A restore goes into an empty folder, and only after every byte of the backup
was verified; the restored zone has the next epoch and knows that it was restored, so that its neighbours and
itself treat it as rolled back (protocols §8) until a person releases it.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import shutil
import sqlite3
import tarfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import IO, cast

import msgspec

from banyan import __version__
from banyan.core.errors import BadInput, Broken, Conflict, NotFound, Refused
from banyan.core.identity import SYSTEM
from banyan.core.ids import code_text
from banyan.core.journal import Event
from banyan.core.ports import Ids
from banyan.core.records import StoreFull, Unit
from banyan.core.secret import Secret
from banyan.core.time import Wall, iso
from banyan.store.durable import FILE_MODE, FOLDER_MODE, make_folder, sync_folder, write_synced
from banyan.store.image_files import FOLDER, kept
from banyan.store.keys import seal_from_file
from banyan.store.location import PostgresqlServer, SqliteFile, parse_location
from banyan.store.lock import LOCK_NAME, FolderLock
from banyan.store.open import DATABASE_NAME, SEAL_NAME, SETTINGS_NAME, open_database
from banyan.store.sealed_file import CHUNK, DEFAULT_COSTS, Costs, SealedReader, SealedWriter
from banyan.store.unit import unit

_MANIFEST = "manifest.json"
_MANIFEST_MAX = 1 << 20
_NAMES = (DATABASE_NAME, SEAL_NAME, SETTINGS_NAME)
# Names of images' data, as zone/images gives them: nothing else is ever written into that folder.
_IMAGE = re.compile(rf"{FOLDER}/[0-9a-f-]{{36}}\.[0-9a-f]{{16}}\Z")
_COPY = ".backup.db"
_WORKSHOP = ".restoring"
# What the folder remembers of its last backup; itself in none.
NOTE_NAME = "backup.json"
# What an empty folder may hold: our own lock and workshop, and what mkfs leaves in a new file system.
_NOTHING = frozenset({LOCK_NAME, _WORKSHOP, "lost+found"})


class _Note(msgspec.Struct, frozen=True):
    made_at: float


_made = msgspec.json.Decoder(_Note)


class Manifest(msgspec.Struct, frozen=True):
    """What a backup says of itself. `files` are sizes in bytes; `made_at` is RFC 3339, corrected time. `images`: how
    many images' data it holds, `image_bytes` together; `images_lost`: of how many it should and the zone had no file.
    """

    program: str
    schema: str
    zone: str
    name: str
    epoch: int
    made_at: str
    files: dict[str, int]
    images: int = 0
    image_bytes: int = 0
    images_lost: int = 0


def backup(
    data: Path,
    target: Path,
    passphrase: Secret,
    *,
    ids: Ids,
    now: Wall,
    location: str | None = None,
    seal_key: Path | None = None,
    settings: Path | None = None,
    images: bool = True,
    costs: Costs = DEFAULT_COSTS,
) -> Manifest:
    """Writes `target`, whole or not at all; the zone may be running. `location`, `seal_key`: as for open_store.

    `settings`: DATA/banyan.toml without one, if it is there. `images`: with the data of images; no file of one is
    deleted meanwhile, so the backup has each that its database names. Needs as much room again as the database has, in
    `data` for the moment of the backup. Raises NotFound("no-zone-here"), Conflict("backup-running"),
    Refused("backup-postgresql"), Broken("seal-key-missing"), StoreFull, BadInput("bad-backup-file").
    """
    where = SqliteFile(data / DATABASE_NAME) if location is None else parse_location(location)
    if isinstance(where, PostgresqlServer):
        raise Refused(
            "backup-postgresql",
            f"{where} is backed up by PostgreSQL's own means (pg_dump, pg_basebackup); keep DATA/{SEAL_NAME} and "
            f"DATA/{FOLDER} with it",
        )
    if not where.path.is_file():
        raise NotFound(
            "no-zone-here", f"there is no zone in {data}: {where.path} does not exist; give its folder (--data)"
        )
    sources = {SEAL_NAME: seal_key or data / SEAL_NAME, SETTINGS_NAME: settings or data / SETTINGS_NAME}
    if not sources[SEAL_NAME].is_file():
        raise Broken(
            "seal-key-missing",
            f"a backup without the seal key could never be used, and {sources[SEAL_NAME]} is not there; if the key is "
            "a credential of systemd, or store.seal_key_file names it, give this command the same",
        )
    temporary = target.with_name(f".{target.name}.part")
    with _failures_of(target), kept(data / FOLDER), _snapshot(where.path, data / _COPY) as copy:
        present = {DATABASE_NAME: copy} | {name: path for name, path in sources.items() if path.is_file()}
        manifest = _describe(copy, now, {name: path.stat().st_size for name, path in present.items()})
        data_files, lost = _images(copy, data / FOLDER) if images else ([], 0)
        size = sum(path.stat().st_size for path in data_files)
        manifest = msgspec.structs.replace(manifest, images=len(data_files), image_bytes=size, images_lost=lost)
        temporary.unlink(missing_ok=True)
        try:
            with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE_MODE), "wb") as file:
                _write(SealedWriter(file, passphrase, ids, costs), manifest, present, data_files)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(target)
            sync_folder(target.absolute().parent)
        finally:
            temporary.unlink(missing_ok=True)
    _note(data, now)
    return manifest


def last_backup(data: Path) -> Wall | None:
    """When the zone of this folder was last backed up, as corrected time; None if it never was, by this command."""
    try:
        return Wall(_made.decode((data / NOTE_NAME).read_bytes()).made_at)
    except (OSError, msgspec.MsgspecError):
        return None


def _note(data: Path, now: Wall) -> None:
    """That a backup was made is told to people (`banyan doctor`). The backup is whole without: a folder that can not be
    written to is named when the zone next writes there."""
    temporary = data / f".{NOTE_NAME}.new"
    with suppress(OSError):
        temporary.unlink(missing_ok=True)
        write_synced(temporary, [msgspec.json.encode(_Note(now))])
        temporary.replace(data / NOTE_NAME)
        sync_folder(data)


def inspect(file: Path, passphrase: Secret) -> Manifest:
    """What is in it, after every byte of it was verified."""
    with _failures_of(file), file.open("rb") as opened:
        return _read(SealedReader(opened, passphrase), None)


def restore(file: Path, data: Path, passphrase: Secret, *, ids: Ids, now: Wall) -> Manifest:
    """Makes `data` the zone that `file` holds, at the next epoch, restored at `now`.

    `data` must not exist, or be empty: Refused("folder-not-empty"). Raises Conflict("folder-in-use"),
    Refused("wrong-passphrase" | "database-newer"), Broken("backup-damaged" | "seal-key-wrong"), StoreFull; then
    `data` is as before.
    """
    with _failures_of(file), file.open("rb") as opened:
        reader = SealedReader(opened, passphrase)
        new = not data.exists()
        make_folder(data)
        lock = FolderLock(data)
        workshop = data / _WORKSHOP
        restored = False
        try:
            if others := {path.name for path in data.iterdir()} - _NOTHING:
                raise Refused(
                    "folder-not-empty",
                    f"a backup is restored into a new or empty folder, and {data} holds {min(others)!r}; "
                    "give another (--data)",
                )
            shutil.rmtree(workshop, ignore_errors=True)
            workshop.mkdir(mode=FOLDER_MODE)
            manifest = _read(reader, workshop)
            _rise(workshop, manifest, ids, now)
            # Images before the database that names them; and that before the rest: a database without its seal key is
            # refused, a seal key alone would start a new zone.
            for name in (FOLDER, *_NAMES):
                if (workshop / name).exists():
                    (workshop / name).rename(data / name)
                    sync_folder(data)
            restored = True
        finally:
            shutil.rmtree(workshop, ignore_errors=True)
            lock.release()
            if new and not restored:
                shutil.rmtree(data, ignore_errors=True)
    return manifest


def _describe(copy: Path, now: Wall, sizes: dict[str, int]) -> Manifest:
    connection = sqlite3.connect(copy)
    try:
        (schema,) = connection.execute("SELECT version_num FROM alembic_version").fetchone()
        zone = connection.execute("SELECT code, name, epoch FROM zone").fetchone()
    finally:
        connection.close()
    code, name, epoch = zone or (0, "", 0)
    return Manifest(__version__, schema, code_text(code), name, epoch, iso(now), sizes)


def _images(copy: Path, folder: Path) -> tuple[list[Path], int]:
    """Files that rows of this database name, and how many of those that they name are not there."""
    connection = sqlite3.connect(copy)
    try:
        known = connection.execute("SELECT count(*) FROM sqlite_schema WHERE name = 'images'").fetchone()[0]
        query = "SELECT data, size FROM images WHERE data <> '' ORDER BY id"
        wanted = [(folder / name, size) for name, size in connection.execute(query)] if known else []
    finally:
        connection.close()
    found = [path for path, size in wanted if path.is_file() and path.stat().st_size == size]
    return found, len(wanted) - len(found)


@contextmanager
def _snapshot(database: Path, copy: Path) -> Iterator[Path]:
    """A consistent copy, made beside writers; private, and gone afterwards. What a crash left is overwritten."""
    descriptor = os.open(copy, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise Conflict("backup-running", f"another backup of {database} is being made; wait for its end") from error
        try:
            os.ftruncate(descriptor, 0)
            _copy(database, copy)
            yield copy
        finally:
            copy.unlink()
    finally:
        os.close(descriptor)


def _copy(database: Path, copy: Path) -> None:
    source = sqlite3.connect(database, isolation_level=None, timeout=10)
    try:
        # One reading transaction: unlike sqlite3's backup(), never begun again because somebody wrote.
        source.execute("VACUUM INTO ?", (str(copy),))
    except sqlite3.DatabaseError as error:
        if error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_FULL:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(copy)) from error
        raise Broken("database-damaged", f"the database {database} can not be copied: {error}") from error
    finally:
        source.close()


def _write(writer: SealedWriter, manifest: Manifest, files: dict[str, Path], images: Sequence[Path]) -> None:
    with tarfile.open(fileobj=cast(IO[bytes], writer), mode="w|", format=tarfile.PAX_FORMAT) as archive:
        described = msgspec.json.encode(manifest)
        archive.addfile(_entry(_MANIFEST, len(described)), BytesIO(described))
        for name, path in files.items():
            with path.open("rb") as file:
                archive.addfile(_entry(name, manifest.files[name]), file)
        for path in images:
            with path.open("rb") as file:
                archive.addfile(_entry(f"{FOLDER}/{path.name}", os.fstat(file.fileno()).st_size), file)
    writer.finish()


def _entry(name: str, size: int) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = size, FILE_MODE
    return entry


def _read(reader: SealedReader, folder: Path | None) -> Manifest:
    """Verifies all of it; with `folder`, writes its files there. Only names that we know are ever written."""
    manifest: Manifest | None = None
    seen: dict[str, int] = {}
    images: dict[str, int] = {}
    try:
        with tarfile.open(fileobj=cast(IO[bytes], reader), mode="r|") as archive:
            for entry in archive:
                content = archive.extractfile(entry)
                if content is None:
                    raise Broken("backup-damaged", f"the backup holds something that is no file: {entry.name!r}")
                if manifest is None:
                    if entry.name != _MANIFEST or entry.size > _MANIFEST_MAX:
                        raise Broken("backup-damaged", "the backup does not begin with its manifest; use another copy")
                    manifest = msgspec.json.decode(content.read(), type=Manifest)
                elif entry.name in _NAMES and entry.name not in seen:
                    seen[entry.name] = entry.size
                    if folder is not None:
                        write_synced(folder / entry.name, iter(partial(content.read, CHUNK), b""))
                elif _IMAGE.match(entry.name) and entry.name not in images:
                    images[entry.name] = entry.size
                    if folder is not None:
                        (folder / FOLDER).mkdir(mode=FOLDER_MODE, exist_ok=True)
                        write_synced(folder / entry.name, iter(partial(content.read, CHUNK), b""))
        reader.drain()
    except (tarfile.TarError, msgspec.DecodeError, EOFError) as error:
        raise Broken("backup-damaged", "the backup's contents can not be read; use another copy of it") from error
    held = len(images), sum(images.values())
    if (
        manifest is None
        or manifest.files != seen
        or (manifest.images, manifest.image_bytes) != held
        or (DATABASE_NAME not in seen)
    ):
        raise Broken("backup-damaged", "the backup does not hold what its manifest names; use another copy")
    if folder is not None and images:
        sync_folder(folder / FOLDER)
    return manifest


def _rise(folder: Path, manifest: Manifest, ids: Ids, now: Wall) -> None:
    """Checks the database and its seal, brings it to this program's schema, and raises the epoch."""
    path = folder / DATABASE_NAME
    look = sqlite3.connect(path)
    try:
        verdict = look.execute("PRAGMA quick_check(1)").fetchone()[0]
    except sqlite3.DatabaseError as error:
        verdict = str(error)
    finally:
        look.close()
    if verdict != "ok":
        raise Broken("backup-damaged", f"the database in the backup is damaged ({verdict}); use an older backup")
    opened = open_database(SqliteFile(path))
    try:
        with opened.writer.connect() as connection, connection.begin():
            rows = unit(connection, seal_from_file(folder / SEAL_NAME, ids))
            rows.keys.check()
            mark_restored(rows, now, manifest.made_at)
    finally:
        opened.dispose()


def mark_restored(rows: Unit, now: Wall, made_at: str) -> None:
    """What a restore changes in a zone's memory, in one unit: the next epoch, and when; with its journal line."""
    own = rows.self_.get()
    if own is None:
        return
    epoch = own.epoch + 1
    rows.self_.put(replace(own, epoch=epoch, restored_at=now))
    text = f"restored from a backup made at {made_at}; the epoch is {epoch} now"
    rows.journal.append(now, Event("zone-restored", own.name, SYSTEM, text, {"made_at": made_at, "epoch": str(epoch)}))


@contextmanager
def _failures_of(file: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise StoreFull(
                "store-full",
                f"there is no room for {error.filename or file}; make room, or choose another place",
                transient=True,
            ) from error
        raise BadInput(
            "bad-backup-file", f"{error.filename or file} can not be read or written ({error.strerror})"
        ) from error
