"""A person's word that a restored zone may go by what it knew at its backup: `banyan release`.

Nothing is done until it is said with `apply`: before, the answer shows what is held back until then, and which children
were not heard since the restore. What was decided about those, nobody here can know (Own.check_released).
"""

from __future__ import annotations

from banyan.core.identity import Caller
from banyan.zone import present
from banyan.zone.own import Own
from banyan.zone.roster import Roster
from banyan.zone.views import ReleaseView

# Names of unheard children in an answer: there may be 20,000.
MAX_NAMED = 100
# What a zone does again once it is released. Each is held back by Own.check_released, or by who asks for it.
HELD_BACK = (
    "listed keys let zones in, as they were listed at the backup: one that was unlisted or banned since may come in",
    "zones that it knows as retired, banned or in quarantine may be replaced, unbanned and let in",
    "zones that it knows may be retired; it may leave its parent, and replace a CA that leaked",
    "a maintenance that was on at the backup ends by itself, also where it was prolonged since",
    "servers of its racks are created, stopped and deleted as its own rows say",
)


async def release(own: Own, roster: Roster, caller: Caller, apply: bool) -> ReleaseView:
    """`caller` has been authorised. A zone that holds nothing back is asked for nothing: `restored_at` is None."""
    restored_at = own.row.restored_at
    unheard = roster.unheard_since(restored_at)
    if apply and restored_at is not None:
        await own.release(caller, unheard)
    return ReleaseView(
        applied=apply,
        restored_at=present.when(restored_at),
        held_back=HELD_BACK if restored_at is not None else (),
        children=len(roster.live),
        unheard=len(unheard),
        unheard_names=tuple(unheard[:MAX_NAMED]),
    )
