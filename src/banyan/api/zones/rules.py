"""Policy rules: which verified stranger becomes which child. First match wins, no match refuses."""

from __future__ import annotations

from typing import Annotated

import msgspec

from banyan.api.context import Context
from banyan.api.intake import NoBody, NoQuery
from banyan.api.paging import PageQuery
from banyan.core.ids import check_label, check_name
from banyan.core.policy import Verdict
from banyan.core.zone import Mode
from banyan.zone.views import PageView, RuleView

Text = Annotated[str, msgspec.Meta(max_length=255)]
Map = Annotated[dict[str, str], msgspec.Meta(max_length=64)]


class RuleBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Conditions are patterns on whole values; `set_labels`, `mode` and `reason` are the outcome.

    The rule with the lowest `priority` is tried first.
    """

    priority: Annotated[int, msgspec.Meta(ge=0, le=1_000_000)] = 100
    verifier: Text = "*"
    name: Text = "*"
    driver: Text = "*"
    labels: Map = {}
    verdict: Verdict = Verdict.ADMIT
    set_labels: Map = {}
    mode: Mode = Mode.PLACE
    reason: Annotated[str, msgspec.Meta(max_length=500)] = ""


async def list_rules(context: Context, query: PageQuery, body: NoBody) -> PageView:
    return await context.surface.rules(context.caller, query.marker, query.limit)


async def put(context: Context, query: NoQuery, body: RuleBody) -> RuleView:
    id = check_name(context.params["id"], "rule id")
    for key, value in (*body.labels.items(), *body.set_labels.items()):
        check_label(key, value)
    rule = RuleView(
        id=id,
        priority=body.priority,
        verifier=body.verifier,
        name=body.name,
        driver=body.driver,
        labels=body.labels,
        verdict=body.verdict.value,
        set_labels=body.set_labels,
        mode=body.mode.value,
        reason=body.reason,
    )
    return await context.surface.put_rule(context.caller, rule)


async def delete(context: Context, query: NoQuery, body: NoBody) -> None:
    await context.surface.delete_rule(context.caller, context.params["id"])
