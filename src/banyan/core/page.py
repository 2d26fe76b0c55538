"""The page of one kind of event, and texts that many pages share. The pages themselves: pages.py."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from banyan.core.severity import Severity


@dataclass(frozen=True, slots=True)
class Page:
    """`means`: what happened, with `{name}` for what it is about and `{since}` for when it was written. `done`: what
    Banyan did about it. `held`: what it does not do until somebody says so. `next`: the command to go on with."""

    severity: Severity
    means: str
    done: str
    held: str
    next: str

    def filled(self, name: str, since: str) -> Page:
        """With both filled in. Nothing in `name` is taken for a place to fill."""

        def fill(text: str) -> str:
            return since.join(part.replace("{name}", name) for part in text.split("{since}"))

        return Page(self.severity, fill(self.means), fill(self.done), fill(self.held), fill(self.next))


NOTHING: Final = "Nothing."
SHOW: Final = "`banyan zone show {name}`"
ABOUT: Final = "`banyan journal --about {name}`"
STATUS: Final = "`banyan status`"
DURABLE: Final = "It is done, and durable."
ZONES: Final = "`banyan zone list`"
RACKS: Final = "`banyan rack list`"
HOSTS: Final = "`banyan host list`"
SERVER: Final = "`banyan server show {name}`"
RECEIVERS: Final = "`banyan receiver list`"
TEST: Final = "`banyan receiver test {name}`"
