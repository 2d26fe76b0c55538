"""What people said about one rack's hosts, as its columns go by it. The rows are the truth: core.host.HostWord.

A scan makes columns of what the hosts' own side says; the words are put on them before they count. A word that is
taken back shows the host as its own side has it again.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from banyan.core.host import Host, HostWord, as_said
from banyan.core.ids import RackCode
from banyan.core.records import Unit
from banyan.placement.columns import Columns

# Rows read at once.
_PAGE: Final = 1_000


class Said:
    """By host id: at most one for each host that somebody took out of service."""

    def __init__(self, words: Iterable[HostWord] = ()) -> None:
        self._words = {word.host: word for word in words}

    def put_on(self, columns: Columns) -> None:
        """On columns of what the hosts' own side says."""
        for id, word in self._words.items():
            row = columns.row(id)
            if row is not None:
                up, disabled = bool(columns.up[row]), bool(columns.disabled[row])
                columns.set_state(id, up=up and not word.forced_down, disabled=disabled or word.disabled)

    def say(self, host: Host, word: HostWord | None, shown: Iterable[Columns]) -> None:
        """From now on. `host`: as its own side has it; `shown`: columns that count already, or are about to."""
        if word is None:
            self._words.pop(host.id, None)
        else:
            self._words[host.id] = word
        now = as_said(host, word)
        for columns in shown:
            columns.set_state(host.id, up=now.up, disabled=now.disabled)


def read_words(unit: Unit, rack: RackCode) -> Said:
    found: list[HostWord] = []
    while True:
        page = unit.host_words.page(rack, found[-1].host if found else "", _PAGE)
        found += page
        if len(page) < _PAGE:
            return Said(found)
