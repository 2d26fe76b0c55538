"""banyan rule …: the policy, which says which verified stranger becomes which child."""

from __future__ import annotations

from typing import Annotated, Literal

from cyclopts import App, Parameter

from banyan.cli import values
from banyan.cli.client import segment
from banyan.cli.codes import remove
from banyan.cli.output import Column, pairs
from banyan.cli.session import OK, Limit, session
from banyan.cli.target import HERE, Target
from banyan.zone.views import RuleView

app = App(name="rule", help="Policy: which zones may join, and as what. First match wins, no match refuses.")

COLUMNS: tuple[Column[RuleView], ...] = (
    Column("PRIORITY", lambda r: str(r.priority), right=True),
    Column("ID", lambda r: r.id),
    Column("VERIFIER", lambda r: r.verifier),
    Column("NAME", lambda r: r.name),
    Column("DRIVER", lambda r: r.driver),
    Column("LABELS", lambda r: pairs(r.labels)),
    Column("VERDICT", lambda r: r.verdict),
    Column("SETS", lambda r: pairs(r.set_labels)),
    Column("MODE", lambda r: r.mode),
    Column("REASON", lambda r: r.reason),
)


@app.command(name="list")
def list_(*, limit: Limit = None, target: Target = HERE) -> int:
    """The rules, in the order in which they are tried."""
    with session(target) as s:
        return s.list("/v1/rules", RuleView, COLUMNS, "there is no rule: nothing may join but by join code", limit)


@app.command
def add(
    id: Annotated[str, Parameter(help="A name for the rule; one that is there is replaced.", metavar="ID")],
    /,
    *,
    priority: Annotated[int, Parameter(help="Lower is tried first.", metavar="N")] = 100,
    verifier: Annotated[
        str, Parameter(help="How it proved itself: join-code, known-key, or * for any.", metavar="KIND")
    ] = "*",
    name: Annotated[str, Parameter(help="Its name.", metavar="PATTERN")] = "*",
    driver: Annotated[str, Parameter(help="Its driver.", metavar="PATTERN")] = "*",
    label: Annotated[
        tuple[str, ...],
        Parameter(negative="", help="A label it has; may be given again.", metavar="K=PATTERN", show_default=False),
    ] = (),
    verdict: Annotated[Literal["admit", "quarantine", "refuse"], Parameter(help="What then.")] = "admit",
    set_label: Annotated[
        tuple[str, ...],
        Parameter(negative="", help="A label it is given; may be given again.", metavar="K=V", show_default=False),
    ] = (),
    mode: Annotated[Literal["observe", "place", "protect"], Parameter(help="The most it is granted.")] = "place",
    reason: Annotated[str, Parameter(help="Shown to the refused.", show_default=False)] = "",
    target: Target = HERE,
) -> int:
    """Add or replace a rule."""
    body = {
        "priority": values.number(priority, "--priority", 0, values.MAX_PRIORITY),
        "verifier": verifier, "name": name, "driver": driver, "labels": values.labels(label),
        "verdict": verdict, "set_labels": values.labels(set_label), "mode": mode, "reason": reason,
    }  # fmt: skip
    with session(target) as s:
        rule = s.client.put(f"/v1/rules/{segment(id)}", body, RuleView)
        if s.screen.json:
            s.screen.one(rule)
        else:
            s.screen.table(COLUMNS, [rule], "")
        return OK


@app.command(name="remove")
def remove_(
    *ids: Annotated[str, Parameter(help="Ids, as `rule list` shows them.", metavar="ID")], target: Target = HERE
) -> int:
    """Remove rules. Zones that are in stay in."""
    return remove("/v1/rules", "removed", ids, target)
