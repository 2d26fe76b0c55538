"""For drivers that only look: what they say when they are asked to do something all the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from banyan.core.deed import Deed, DeedFailed, Operation, Sighting
from banyan.core.server import Server


class Observing:
    """The part of core.ports.Driver that takes orders, refused. A zone places nothing on such a rack."""

    operations: frozenset[Operation] = frozenset()
    at_once = 0

    async def perform(self, deed: Deed) -> Sighting | None:
        raise _only_observes(str(deed.operation))

    async def sight(self, guests: Sequence[str]) -> Mapping[str, Sighting]:
        return {}

    async def console(self, server: Server, lines: int | None) -> str:
        raise _only_observes("show a console")


def _only_observes(what: str) -> DeedFailed:
    return DeedFailed("only-observes", f"the driver of this rack only observes: it cannot {what}")
