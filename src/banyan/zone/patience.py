"""How long a question waits for a child: as long as it is heard, if the question changes nothing.

A session may stand for a lease after its child has fallen silent. A list that waited so long for one would be slow for
all; so whoever only wants to know gives up on a child whose report is overdue (health/suspicion.py), soon after that:
it may still answer. What may have an effect waits to the end of its time: giving up early would leave more in doubt.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Final

from banyan.core.errors import Unreachable
from banyan.core.messages import Answer
from banyan.core.zone import Health
from banyan.zone.live import Live

# Seconds that one which is overdue still has to answer, and between two looks at whether it is.
GRACE: Final = 1.5
LOOK: Final = 0.5
READS: Final = frozenset({"page", "usage", "servers", "look", "actions", "console", "why"})
OVERDUE: Final = (Health.SUSPECT, Health.LOST)


async def while_heard(live: Live, path: str, question: Coroutine[Any, Any, Answer]) -> Answer:
    """The answer. Raises what the question raises, and Unreachable("member-silent") for a child that is overdue."""
    clock = asyncio.get_running_loop().time
    task = asyncio.ensure_future(question)
    overdue: float | None = None
    try:
        while not task.done():
            await asyncio.wait({task}, timeout=LOOK)
            if live.child.health not in OVERDUE:
                overdue = None
            elif overdue is None:
                overdue = clock()
            elif not task.done() and clock() - overdue >= GRACE:
                text = f"{path} has not been heard for longer than it should be; it was not waited for any longer"
                raise Unreachable("member-silent", text, transient=True)
        return task.result()
    finally:
        task.cancel()
