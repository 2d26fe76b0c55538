"""banyan key …: keys listed beforehand, as ownership vouchers; a zone that holds one joins without a code."""

from __future__ import annotations

from typing import Annotated, Literal

from cyclopts import App, Parameter

from banyan.cli import values
from banyan.cli.client import segment
from banyan.cli.codes import remove
from banyan.cli.output import Column, pairs, words
from banyan.cli.session import OK, Limit, session
from banyan.cli.target import HERE, Target
from banyan.zone.views import KnownKeyView

app = App(name="key", help="Known keys: zones that may join by the key that they hold.")

COLUMNS: tuple[Column[KnownKeyView], ...] = (
    Column("FINGERPRINT", lambda k: k.fingerprint),
    Column("NAME", lambda k: k.name),
    Column("LABELS", lambda k: pairs(k.labels)),
    Column("MODE", lambda k: k.mode),
    Column("REPLACES", lambda k: words(k.replace)),
    Column("BY", lambda k: k.created_by),
)


@app.command(name="list")
def list_(*, limit: Limit = None, target: Target = HERE) -> int:
    """The keys that are listed."""
    with session(target) as s:
        return s.list("/v1/known-keys", KnownKeyView, COLUMNS, "no key is listed", limit)


@app.command
def add(
    fingerprint: Annotated[
        str, Parameter(help="SHA-256 of its public key: `public key` of `banyan status` there.", metavar="FINGERPRINT")
    ],
    name: Annotated[str, Parameter(help="The name that its zone must have.", metavar="NAME")],
    /,
    *,
    label: Annotated[
        tuple[str, ...],
        Parameter(negative="", help="A label it is given; may be given again.", metavar="K=V", show_default=False),
    ] = (),
    mode: Annotated[Literal["observe", "place", "protect"], Parameter(help="The most it is granted.")] = "place",
    replace: Annotated[
        bool, Parameter(negative="", help="It may take a name that is taken.", show_default=False)
    ] = False,
    target: Target = HERE,
) -> int:
    """List a key beforehand, or change what it becomes."""
    body = {"name": name, "labels": values.labels(label), "mode": mode, "replace": replace}
    with session(target) as s:
        key = s.client.put(f"/v1/known-keys/{segment(fingerprint)}", body, KnownKeyView)
        if s.screen.json:
            s.screen.one(key)
        else:
            s.screen.table(COLUMNS, [key], "")
        return OK


@app.command(name="remove")
def remove_(
    *fingerprints: Annotated[str, Parameter(help="As `key list` shows them.", metavar="FINGERPRINT")],
    target: Target = HERE,
) -> int:
    """Take keys off the list. Zones that are in stay in."""
    return remove("/v1/known-keys", "removed", fingerprints, target)
