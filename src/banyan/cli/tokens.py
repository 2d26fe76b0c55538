"""banyan token …: API tokens. A token is printed once, when it is made, or written to a file only its user reads."""

from __future__ import annotations

from typing import Annotated, Literal

from cyclopts import App, Parameter

from banyan.cli import values
from banyan.cli.client import segment
from banyan.cli.codes import Out, Written, check_new, remove, write_secret
from banyan.cli.output import Column, instant
from banyan.cli.session import OK, Limit, each, session
from banyan.cli.target import HERE, Target
from banyan.core.errors import BadInput
from banyan.zone.views import TokenCreated, TokenView

app = App(name="token", help="API tokens: what a program or a person shows to use the API from elsewhere.")

COLUMNS: tuple[Column[TokenView], ...] = (
    Column("ID", lambda t: t.id),
    Column("SUBJECT", lambda t: t.subject),
    Column("ROLE", lambda t: t.role),
    Column("UNDER", lambda t: t.under or "everything"),
    Column("STATE", lambda t: t.state),
    Column("ISSUED", lambda t: instant(t.issued)),
    Column("EXPIRES", lambda t: instant(t.expires)),
    Column("BY", lambda t: t.created_by),
)


@app.command
def create(
    *,
    role: Annotated[
        Literal["viewer", "operator", "admin"],
        Parameter(help="viewer reads; operator disables, enables, makes join codes; admin does all."),
    ],
    subject: Annotated[str, Parameter(help="Who holds it, for the journal.", metavar="NAME")] = "cli",
    under: Annotated[
        str, Parameter(help="Good for this zone and below only (default: all).", metavar="PATH", show_default=False)
    ] = "",
    expires: Annotated[
        str | None,
        Parameter(
            help="How long it is good for: 1s to 366d (default: 24h, or what is left of the token that makes it).",
            metavar="TIME",
            show_default=False,
        ),
    ] = None,
    out: Out = None,
    target: Target = HERE,
) -> int:
    """Make a token, never for more than one has oneself, nor for longer. It is shown this once: keep it in a file."""
    body: dict[str, object] = {"role": role, "subject": subject, "under": under}
    if expires is not None:
        body["expires"] = values.duration(expires, "--expires", 1, values.MAX_TOKEN_LIFE)
    with session(target) as s:
        if out is not None:
            check_new(out)
        made = s.client.post("/v1/tokens", body, TokenCreated)
        if out is not None:
            write_secret(out, made.token)
        if s.screen.json:
            s.screen.one(made if out is None else Written(made.id, made.expires, str(out)))
            return OK
        if out is None:
            s.screen.line(made.token)
        where = f"it is in {out}" if out else "keep it in a file"
        s.screen.note(
            f"token {made.id}, {made.role} of {made.under or 'everything'}, until {instant(made.expires)}; {where}: "
            "`--token-file F` or BANYAN_TOKEN_FILE"
        )
        return OK


@app.command(name="list")
def list_(*, limit: Limit = None, target: Target = HERE) -> int:
    """The tokens that were made, without their secrets; those that ended for 30 days more.

    STATE is good, or why a token is good for nothing: revoked, expired, of-another-zone (this zone took another's place
    since), before-restore (`token affirm`), zone-gone (the zone it was for was retired, or left).
    """
    with session(target) as s:
        return s.list("/v1/tokens", TokenView, COLUMNS, "no token was made", limit)


@app.command
def affirm(
    *ids: Annotated[str, Parameter(help="Ids, as `token list` shows them.", metavar="ID")], target: Target = HERE
) -> int:
    """Make tokens good again that are from before the zone was restored from a backup.

    Which of them were revoked after that backup was made, the zone can not know: look first (`banyan token list`).
    """
    if not ids:
        raise BadInput("bad-option", "name at least one, as the list of them shows it")
    with session(target) as s:
        done, status = each(s, ids, lambda id: s.client.post(f"/v1/tokens/{segment(id)}/affirm", {}, TokenView))
        if s.screen.json:
            s.screen.array(done)
        else:
            s.screen.table(COLUMNS, done, "")
        return status


@app.command
def revoke(
    *ids: Annotated[str, Parameter(help="Ids, as `token list` shows them.", metavar="ID")], target: Target = HERE
) -> int:
    """Make tokens useless, at once."""
    return remove("/v1/tokens", "revoked", ids, target)
