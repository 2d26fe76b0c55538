"""A receiver as it is shown. Beside zone/views.py, and by its rules: fields are added, never renamed."""

from __future__ import annotations

import msgspec


class ReceiverView(msgspec.Struct, frozen=True):
    """`where`: scheme, host and port. `state`: well, failing (since when is `since`), dead (for so long that it was
    journalled), gone (it wants nothing any more). `number`: the line of the journal up to which it was told; `backlog`:
    lines after it that were not looked at for it, or not taken. `told`, `failed` (attempts), `folded`, `skipped`
    (events): since the zone's start."""

    name: str
    kind: str
    where: str
    severity: str
    include: tuple[str, ...]
    exclude: tuple[str, ...]
    state: str
    since: str | None
    last_error: str
    last_sent: str | None
    number: int
    backlog: int
    told: int
    failed: int
    folded: int
    skipped: int
