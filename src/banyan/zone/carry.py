"""Asks the zone that a person means when it lies further down: hop by hop, with the caller.

The direct child on the way is asked over its session; it does the same for the next. What it answers is believed as
its own word, if it can be an answer at all. The other end is Front.answer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from banyan.core.errors import Unreachable, error_of
from banyan.core.identity import Caller
from banyan.core.ids import ZoneCode, code_text
from banyan.core.messages import CallerInfo
from banyan.core.text import shown
from banyan.zone.deadline import check_time
from banyan.zone.patience import READS, while_heard
from banyan.zone.tree import Node
from banyan.zone.zone import Zone

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Target:
    """The zone that a person means: its code, whole path, and the direct child it is reached through."""

    code: ZoneCode
    path: str
    via: Node | None


def beyond(zone: Zone, target: Target) -> str:
    """The target's path relative to the direct child it is reached through."""
    assert target.via is not None
    return target.path.removeprefix(zone.tree.path_of(target.via.code)).strip("/")


async def ask(
    zone: Zone, caller: Caller, target: Target, verb: str, body: bytes, read: Callable[[bytes], T], within: float
) -> T:
    """Asks the direct child on the way to the target, for so many seconds. Raises what it answers, or Unreachable.

    `read` makes of the answer what it says, or raises ValueError: then this is Unreachable("bad-answer").
    """
    assert target.via is not None
    live = zone.roster.live.get(target.via.code)
    session = None if live is None else live.session
    if session is None:
        raise Unreachable(
            "member-unreachable",
            f"{zone.tree.path_of(target.via.code)} has no session now, so {target.path} cannot be asked; "
            "nothing was done",
            transient=True,
        )
    under = "" if caller.under is None else code_text(caller.under)
    info = CallerInfo(
        caller.subject, int(caller.role), caller.issuer, under, caller.token, caller.address, caller.request
    )
    path = zone.tree.path_of(target.via.code)
    question = session.request(verb, body, info, check_time(within, path))
    answer = await (while_heard(live, path, question) if live is not None and verb in READS else question)
    if answer.error:
        raise error_of(answer.status, answer.error, answer.text)
    try:
        return read(answer.body)
    except ValueError as error:
        raise Unreachable(
            "bad-answer",
            f"{zone.tree.path_of(target.via.code)} answered for {target.path} what can be no answer "
            f"({shown(str(error), 200)}); its program is damaged or much older than this one, or it lies. "
            "Whether it acted is not known",
        ) from error
