"""What became of a commit whose fate is not known: the store is asked, and its answer is what counts (protocols §5.8).

A store that loses its connection, or its disk, in a COMMIT raises StoreUnknown: the change was kept, or not. Memory may
follow neither by guess. The rows are read again, in a unit that writes: it begins when the lost one is over.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from banyan.core.errors import BanyanError, Unreachable
from banyan.core.ports import Clock, Ids, Store
from banyan.core.records import StoreUnknown, Unit
from banyan.core.time import Mono

T = TypeVar("T")

# How often somebody who waits for an answer has the store asked, and how long before the first time; each pause is
# twice the one before, and spread, since all that shared a commit ask at once. Seconds: about six in all.
LOOKS = 5
FIRST_PAUSE = 0.2
SPREAD = (0.5, 1.5)


class Again:
    """For one store. Remembers nothing: who is left in doubt does (zone/roster.py, zone/own.py)."""

    def __init__(self, store: Store, clock: Clock, ids: Ids) -> None:
        self._store = store
        self._clock = clock
        self._ids = ids

    async def ask(self, what: str, look: Callable[[Unit], T]) -> T:
        """What `look` finds once the store answers. Raises StoreUnknown("store-unknown") if it does not for long;
        `what`, for the text, is what was to be done."""
        for turn in range(LOOKS):
            pause = FIRST_PAUSE * 2**turn * self._ids.uniform(*SPREAD)
            await self._clock.sleep_until(Mono(self._clock.now() + pause))
            try:
                return await self._store.write("again", look)
            except BanyanError as error:
                last = error
        raise StoreUnknown(
            "store-unknown",
            f"whether {what} was kept is not known, since the store does not answer; it is read again by itself. Say "
            "it again when the store is well: what was done already is not done twice",
            detail=last.text,
            transient=True,
            retry_after=5.0,
        ) from last

    async def write(
        self,
        name: str,
        work: Callable[[Unit], T],
        stands: Callable[[Unit, T], bool],
        unsure: Callable[[], None] = lambda: None,
    ) -> T:
        """As Store.write; where the commit's fate is not known, `stands` says whether what `work` gave is there. Before
        the store is asked `unsure` is called: from then on nobody is to rely on what was there before.

        Raises Unreachable("not-stored") if it is not, StoreUnknown if the store did not say.
        """
        made: list[T] = []

        def noted(unit: Unit) -> T:
            made[:] = [work(unit)]
            return made[0]

        try:
            return await self._store.write(name, noted)
        except StoreUnknown as error:
            unsure()
            if await self.ask(name, lambda unit: bool(made) and stands(unit, made[0])):
                return made[0]
            raise not_stored(name) from error


def not_stored(name: str) -> Unreachable:
    return Unreachable(
        "not-stored",
        f"the store failed during {name}, and nothing of it was kept: nothing has changed; say it again",
        transient=True,
        retry_after=1.0,
    )
