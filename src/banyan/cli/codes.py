"""banyan code …: join codes. A code is printed once, when it is made, or written to a file that only its user reads."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from cyclopts import App, Parameter

from banyan.cli import values
from banyan.cli.client import segment
from banyan.cli.output import Column, instant, pairs
from banyan.cli.session import OK, Limit, each, session
from banyan.cli.target import HERE, Target
from banyan.core.errors import BadInput
from banyan.zone.views import CodeCreated, CodeView

app = App(name="code", help="Join codes: what a new zone shows to be let in.")

COLUMNS: tuple[Column[CodeView], ...] = (
    Column("ID", lambda c: c.id),
    Column("STATE", lambda c: c.state),
    Column("USES", lambda c: f"{c.used}/{'any' if c.uses is None else c.uses}", right=True),
    Column("NAME", lambda c: c.name),
    Column("DRIVER", lambda c: c.driver),
    Column("MODE", lambda c: c.mode),
    Column("LABELS", lambda c: pairs(c.labels)),
    Column("EXPIRES", lambda c: instant(c.expires)),
    Column("BY", lambda c: c.created_by),
)

Out = Annotated[
    Path | None,
    Parameter(help="Write it to this new file (mode 0600) instead of the screen.", metavar="F", show_default=False),
]


class Written(msgspec.Struct, frozen=True):
    """With --out: where the secret went, instead of the secret."""

    id: str
    expires: str
    file: str


@app.command
def create(
    *,
    name: Annotated[str, Parameter(help="The zone's name must match this pattern.", metavar="PATTERN")] = "*",
    driver: Annotated[str, Parameter(help="Its driver must match this pattern.", metavar="PATTERN")] = "*",
    label: Annotated[
        tuple[str, ...],
        Parameter(negative="", help="Labels that it is given; may be given again.", metavar="K=V", show_default=False),
    ] = (),
    uses: Annotated[str, Parameter(help="How many zones may use it: a number, or 'any'.", metavar="N")] = "1",
    expires: Annotated[str, Parameter(help="How long it is good for: 1s to 90d.", metavar="TIME")] = "24h",
    mode: Annotated[
        Literal["observe", "place", "protect"], Parameter(help="The most that it lets this zone do there.")
    ] = "place",
    replace: Annotated[
        bool, Parameter(negative="", help="A new key may take a name that is taken.", show_default=False)
    ] = False,
    out: Out = None,
    target: Target = HERE,
) -> int:
    """Make a join code. It is shown this once: hand it on as a file, never on a command line."""
    plain = uses.isascii() and uses.isdigit() and len(uses) < 10
    if uses != "any" and not (plain and 1 <= int(uses) <= values.MAX_USES):
        raise BadInput("bad-option", f"--uses is a number from 1 to {values.MAX_USES:,}, or 'any', got {uses[:20]!r}")
    body = {
        "name": name,
        "driver": driver,
        "labels": values.labels(label),
        "uses": None if uses == "any" else int(uses),
        "expires": values.duration(expires, "--expires", 1, values.MAX_CODE_LIFE),
        "mode": mode,
        "replace": replace,
    }
    served = "any number of zones" if uses == "any" else "one zone" if uses == "1" else f"{uses} zones"
    return make_code("/v1/codes", body, served, out, target)


def make_code(path: str, body: Mapping[str, object], served: str, out: Path | None, target: Target) -> int:
    """Has a code made and shows it this once, or writes it to `out`."""
    with session(target) as s:
        if out is not None:
            check_new(out)
        made = s.client.post(path, body, CodeCreated)
        if out is not None:
            write_secret(out, made.code)
        if s.screen.json:
            s.screen.one(made if out is None else Written(made.id, made.expires, str(out)))
            return OK
        if out is None:
            s.screen.line(made.code)
        s.screen.note(
            f"code {made.id} lets in {served} until {instant(made.expires)}"
            + (f"; it is in {out}" if out else "; keep it in a file: `banyan serve --join-code-file F`")
        )
        return OK


@app.command(name="list")
def list_(*, limit: Limit = None, target: Target = HERE) -> int:
    """The join codes that were made, without their secrets; those that ended for 30 days more.

    STATE is open, or why a code lets nobody new in: revoked, before-restore (made before the zone was restored from a
    backup: make a new one), expired, used-up.
    """
    with session(target) as s:
        return s.list("/v1/codes", CodeView, COLUMNS, "no join code was made", limit)


@app.command
def revoke(
    *ids: Annotated[str, Parameter(help="Ids, as `code list` shows them.", metavar="ID")],
    target: Target = HERE,
) -> int:
    """Make join codes useless. Zones that are in stay in."""
    return remove("/v1/codes", "revoked", ids, target)


class Removed(msgspec.Struct, frozen=True):
    removed: tuple[str, ...]


def remove(path: str, word: str, ids: tuple[str, ...], target: Target) -> int:
    """Deletes each of `ids` below `path`; the JSON answer is {"removed": [ids]}."""
    if not ids:
        raise BadInput("bad-option", "name at least one, as the list of them shows it")
    with session(target) as s:

        def delete(id: str) -> str:
            s.client.delete(f"{path}/{segment(id)}")
            return id

        done, status = each(s, ids, delete)
        if s.screen.json:
            s.screen.one(Removed(tuple(done)))
        for id in done if not s.screen.json else ():
            s.screen.line(f"{id} {word}")
        return status


def check_new(file: Path) -> None:
    """Raises BadInput if something is there: a secret must not be made and then have no place to go."""
    if file.exists():
        raise BadInput("file-exists", f"{file} is there already; name a new file, or remove it first")
    if not file.absolute().parent.is_dir():
        raise BadInput("no-folder", f"the folder of {file} does not exist; make it first")


def write_secret(file: Path, secret: str) -> None:
    """A new file with mode 0600 from its first instant."""
    import os

    try:
        handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as error:
        raise BadInput("no-file", f"cannot write {file}: {error.strerror}; the secret is lost, revoke it") from error
    with os.fdopen(handle, "w", encoding="ascii") as stream:
        stream.write(secret + "\n")
