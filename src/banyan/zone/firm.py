"""Work that is not left half done: what was committed reaches memory, even if the one who asked is cancelled.

A session that ends, or a deadline of the link's, cancels the call that it made of a zone. Between a commit and
the assignment that follows it there is an await; without `firm` a zone would go on with memory older than its store.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import TypeVar

T = TypeVar("T")


async def firm(work: Coroutine[object, object, T]) -> T:
    """The result of `work`, which runs to its end whatever happens; a cancellation is raised after that."""
    task = asyncio.get_running_loop().create_task(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        if not task.done():
            await asyncio.wait((task,))
        if not task.cancelled():
            task.exception()
        raise
