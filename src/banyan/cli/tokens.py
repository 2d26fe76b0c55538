"""banyan token …: API tokens. A token is printed once, when it is made, or written to a file only its user reads."""

from __future__ import annotations

from typing import Annotated, Literal

from cyclopts import App, Parameter

from banyan.cli import values
from banyan.cli.codes import Out, Written, check_new, remove, write_secret
from banyan.cli.output import Column, instant
from banyan.cli.session import OK, Limit, session
from banyan.cli.target import HERE, Target
from banyan.zone.views import TokenCreated, TokenView

app = App(name="token", help="API tokens: what a program or a person shows to use the API from elsewhere.")

COLUMNS: tuple[Column[TokenView], ...] = (
    Column("ID", lambda t: t.id),
    Column("SUBJECT", lambda t: t.subject),
    Column("ROLE", lambda t: t.role),
    Column("UNDER", lambda t: t.under),
    Column("STATE", lambda t: "revoked" if t.revoked else "issued"),
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
    expires: Annotated[str, Parameter(help="How long it is good for.", metavar="TIME")] = "24h",
    out: Out = None,
    target: Target = HERE,
) -> int:
    """Make a token, never for more than one has oneself. It is shown this once: keep it in a file."""
    body = {"role": role, "subject": subject, "under": under, "expires": values.seconds(expires)}
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
    """The tokens that were made, without their secrets."""
    with session(target) as s:
        return s.list("/v1/tokens", TokenView, COLUMNS, "no token was made", limit)


@app.command
def revoke(
    *ids: Annotated[str, Parameter(help="Ids, as `token list` shows them.", metavar="ID")], target: Target = HERE
) -> int:
    """Make tokens useless, at once."""
    return remove("/v1/tokens", "revoked", ids, target)
