"""banyan support-bundle: what somebody who helps has to see of a zone, in one file, without secrets.

Each part is asked of the zone as any command asks it, bounded, and laid down as it came, but for what looks like a
secret: that is cut out of every text, whatever it stands in. A part that could not be had is named, and costs nothing
of the others.
"""

from __future__ import annotations

import io
import os
import platform
import re
import sys
import tarfile
from collections.abc import Callable, Iterator
from importlib import metadata
from itertools import islice
from pathlib import Path
from typing import Annotated, Final
from urllib.parse import urlsplit

import msgspec
from cyclopts import App, Parameter

from banyan import __version__
from banyan.cli.client import Client, Query
from banyan.cli.doctor import diagnose, read_metrics
from banyan.cli.session import OK, PARTIAL, session
from banyan.cli.target import HERE, Target
from banyan.cli.values import default_folder
from banyan.core.errors import BadInput, BanyanError, Conflict
from banyan.core.time import iso
from banyan.zone.views import StatusView

# So much of each list at most: the bundle of a zone with a million servers is to fit into a mail.
ROWS: Final = 5_000
LINES: Final = 2_000
_SECRET_NAME = re.compile(r"secret|password|passphrase|token|credential|private|auth", re.IGNORECASE)

File = Annotated[Path, Parameter(metavar="FILE", help="A new file: NAME.tar.gz.")]


class Part(msgspec.Struct, frozen=True):
    """One file of the bundle. `rows`: of a list, None of others. `missing`: why it is not there, or not whole."""

    file: str
    rows: int | None = None
    missing: str = ""


class Contents(msgspec.Struct, frozen=True):
    """`contents.json`, and what the command prints with --json. `made_at`: by this machine's clock, RFC 3339."""

    made_at: str
    program: str
    parts: tuple[Part, ...]
    file: str = ""


def support_bundle(file: File, /, *, target: Target = HERE) -> int:
    """Write what a helper needs to one file: state, what is not well, metrics, lists, journal, settings. No secrets.

    Names of zones, hosts, servers, projects, people and their addresses are in it. Exit status 6 if some of it could
    not be had.
    """
    from banyan.serve.clock import SystemClock

    with session(target) as s:
        _check(file)
        pieces, parts = gather(s.client, None if target.url else _settings(target))
        now = SystemClock().wall()
        contents = Contents(iso(now), __version__, tuple(parts), str(file))
        _write(file, {"contents.json": encode(contents), **pieces}, now)
        missing = [one for one in parts if one.missing]
        if s.screen.json:
            s.screen.one(contents)
        else:
            for one in missing:
                s.screen.note(f"{one.file}: {one.missing}")
            s.screen.note(
                f"{file} holds {len(pieces)} files; what looks like a secret was cut out. Look before you send it"
            )
        return PARTIAL if missing else OK


def gather(client: Client, settings: Callable[[], object] | None) -> tuple[dict[str, bytes], list[Part]]:
    """The files by name, and what is said of each. `settings`: of a zone on this machine."""
    pieces: dict[str, bytes] = {}
    parts: list[Part] = []

    def put(name: str, make: Callable[[], tuple[object, int | None, str]]) -> None:
        try:
            value, rows, short = make()
        except BanyanError as error:
            parts.append(Part(name, None, f"{error.text} [{error.code}]"))
            return
        pieces[name] = value if isinstance(value, bytes) else encode(value)
        parts.append(Part(name, rows, short))

    def plain(value: object) -> tuple[object, None, str]:
        return value, None, ""

    def listed(path: str, query: Query | None = None, most: int = ROWS) -> tuple[object, int, str]:
        client.absent.clear()
        rows = list(islice(client.raw_pages(path, most + 1, query or {}), most + 1))
        short = f"only the first {most:,} are in it" if len(rows) > most else ""
        if client.absent:
            short = f"{len(client.absent)} zones could not be asked, {client.absent[0]} first"
        return rows[:most], min(len(rows), most), short

    def findings() -> tuple[object, None, str]:
        status = client.get("/v1/status", StatusView)
        return plain(list(diagnose(status, read_metrics(client.text("/metrics")), 7.0)))

    def journal() -> tuple[object, int, str]:
        last = client.get("/v1/status", StatusView).journal
        return listed("/v1/journal", {"marker": str(max(0, last - LINES))}, LINES)

    put("status.json", lambda: plain(client.get("/v1/status", msgspec.Raw)))
    put("doctor.json", findings)
    put("metrics.txt", lambda: plain(masked(client.text("/metrics")).encode()))
    put("usage.json", lambda: plain(client.get("/v1/usage", msgspec.Raw)))
    for name in ("zones", "racks", "hosts"):
        put(f"{name}.json", lambda name=name: listed(f"/v1/{name}"))  # type: ignore[misc]  # mypy infers no type beside a default
    put("journal.json", journal)
    if settings is not None:
        put("settings.json", lambda: plain(without_secrets(msgspec.to_builtins(settings()))))
    pieces["machine.json"] = encode(machine())
    parts.append(Part("machine.json"))
    return pieces, parts


def encode(value: object) -> bytes:
    """As JSON, without what looks like a secret."""
    return masked(msgspec.json.format(msgspec.json.encode(value), indent=1).decode()).encode()


def masked(text: str) -> str:
    """Without what looks like a join code or a token of ours."""
    from banyan.serve.observe import cut_secrets

    return cut_secrets(text)


def without_secrets(value: object, name: str = "") -> object:
    """Settings with the values of telling names cut out, and names and passwords cut out of addresses."""
    if isinstance(value, dict):
        return {key: without_secrets(below, str(key)) for key, below in value.items()}
    if isinstance(value, list | tuple):
        return [without_secrets(below, name) for below in value]
    if not isinstance(value, str) or not value:
        return value
    if _SECRET_NAME.search(name) and not name.endswith(("_file", "file")):
        return "…"
    try:
        parts = urlsplit(value)
    except ValueError:
        # An address that can not be read: where a password in it would stand is not known either.
        return "…"
    if parts.scheme and "@" in parts.netloc:
        return value.replace(parts.netloc, f"…@{parts.netloc.rpartition('@')[2]}")
    return value


def machine() -> dict[str, object]:
    """What the program runs on."""
    return {
        "banyan": __version__,
        "python": sys.version,
        "platform": platform.platform(),
        "cpus": os.cpu_count(),
        "load": os.getloadavg(),
        "packages": dict(sorted(_packages())),
    }


def _packages() -> Iterator[tuple[str, str]]:
    for one in metadata.distributions():
        if (name := one.metadata["Name"]) is not None:
            yield name, one.version


def _settings(target: Target) -> Callable[[], object]:
    def read() -> object:
        from banyan.serve.config import load

        return load(None, {"data": str(target.folder(default_folder()))})

    return read


def _check(file: Path) -> None:
    if file.exists():
        raise Conflict("file-exists", f"{file} is there already; a bundle is a new file")
    if not file.absolute().parent.is_dir():
        raise BadInput("bad-file", f"there is no folder {file.absolute().parent} for {file.name}")


def _write(file: Path, pieces: dict[str, bytes], now: float) -> None:
    try:
        handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise BadInput("bad-file", f"cannot make {file}: {error.strerror}") from error
    folder = file.name.removesuffix(".gz").removesuffix(".tar").removesuffix(".tgz")
    try:
        with os.fdopen(handle, "wb") as opened, tarfile.open(fileobj=opened, mode="w:gz") as tar:
            for name, content in pieces.items():
                entry = tarfile.TarInfo(f"{folder}/{name}")
                entry.size, entry.mode, entry.mtime = len(content), 0o600, int(now)
                tar.addfile(entry, io.BytesIO(content))
    except OSError as error:
        file.unlink(missing_ok=True)
        raise BadInput("bad-file", f"cannot write {file}: {error.strerror}") from error


def register(app: App) -> None:
    app.command(support_bundle)
