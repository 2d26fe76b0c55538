"""A budget of journal lines for strangers, so that what they cause is bounded; and what it left out, in one line.

Ten refusals a minute are written each by itself of one address, twenty of one network, a hundred in all: whoever is
refused without end silences nobody else. When a minute ends in which there were more, one line says how many were not:
a flood shows in the journal as a flood, and costs a hundred and one lines a minute however long it lasts.
"""

from __future__ import annotations

import ipaddress
from collections import Counter
from collections.abc import Callable, Sequence

from banyan.core.ports import Clock, Store
from banyan.core.time import Mono, Wall, iso
from banyan.zone.own import Own

# Refusals that are journalled in full, per minute: of one address, of its network, in all; the rest is only counted.
REFUSALS_PER_MINUTE = 10
OF_A_NETWORK = 20
IN_ALL = 100
MINUTE = 60.0


class Refusals:
    """`where`: what was refused there, for the journal. `unwritten` counts those without a line of their own.

    `full` is called when the first one of a minute is left out.
    """

    def __init__(self, where: str) -> None:
        self.where = where
        self.total = 0
        self.unwritten = 0
        self.full: Callable[[], None] = lambda: None
        self._minute = 0
        self._written = 0
        # Of whom lines were written in this minute, by address and by network: so never more than twice IN_ALL.
        self._of: Counter[str] = Counter()
        # What was left out and not yet told, and in which minute that began.
        self._left_out = 0
        self._since = 0

    def may_write(self, now: Mono, who: str) -> bool:
        """`who`: the address that was refused; a child by any text that is no address."""
        self.total += 1
        minute = int(now // MINUTE)
        if minute != self._minute:
            self._minute, self._written = minute, 0
            self._of.clear()
        one, many = f"one {_network(who, 32, 64)}", f"many {_network(who, 24, 48)}"
        if self._written < IN_ALL and self._of[one] < REFUSALS_PER_MINUTE and self._of[many] < OF_A_NETWORK:
            self._written += 1
            self._of[one] += 1
            self._of[many] += 1
            return True
        self.unwritten += 1
        if not self._left_out:
            self._since = minute
            self.full()
        self._left_out += 1
        return False

    def due(self) -> Mono | None:
        """When there is a line to write of what was left out; None if nothing was."""
        return Mono((self._since + 1) * MINUTE) if self._left_out else None

    def left_out(self) -> tuple[int, Mono]:
        """How many were left out and not yet told, and when their first minute began."""
        return self._left_out, Mono(self._since * MINUTE)

    def told(self, count: int, now: Mono) -> None:
        """So many were told; what came meanwhile is told with the minute that runs now."""
        self._left_out -= count
        self._since = int(now // MINUTE)


def _network(text: str, v4: int, v6: int) -> str:
    """The network of an address, of that length; one host of IPv6 may choose from a /64. Other texts are themselves."""
    try:
        ip = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return text
    if isinstance(ip, ipaddress.IPv6Address) and ip.ipv4_mapped is not None:
        ip = ip.ipv4_mapped
    return str(ipaddress.ip_network(f"{ip}/{v4 if ip.version == 4 else v6}", strict=False))


class RefusalNotes:
    """zone.loop.Activation. Signalled when a budget is full."""

    name = "refusals"

    def __init__(self, own: Own, store: Store, clock: Clock, budgets: Sequence[Refusals]) -> None:
        self._own = own
        self._store = store
        self._clock = clock
        self._budgets = budgets

    async def activate(self, now: Mono) -> Mono | None:
        for budget in self._budgets:
            due = budget.due()
            if due is not None and now >= due:
                await self._tell(budget, now)
        return min((due for budget in self._budgets if (due := budget.due()) is not None), default=None)

    async def _tell(self, budget: Refusals, now: Mono) -> None:
        count, began = budget.left_out()
        since = iso(Wall(self._own.wall() - (now - began)))
        text = (
            f"{count} more refusals at the {budget.where} since {since} have no line of their own: "
            f"{REFUSALS_PER_MINUTE} a minute of one address and {IN_ALL} in all are written, all are counted "
            "(`banyan_strangers_refused_total`)"
        )
        event = self._own.event(
            "refusals-left-out", budget.where, text, outcome="refused", count=str(count), since=since
        )
        await self._store.write("refusals.left-out", lambda unit: self._own.write(unit, event))
        budget.told(count, now)
