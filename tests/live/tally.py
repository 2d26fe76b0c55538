"""Counts the figures that were compared, for the last line of a live run."""

from __future__ import annotations


class Tally:
    """`same` is an assertion that counts."""

    def __init__(self) -> None:
        self.compared = 0
        self.clouds = 0

    def same(self, what: str, ours: object, theirs: object) -> None:
        assert ours == theirs, f"{what}: Banyan says {ours}, the cloud itself {theirs}"
        self.compared += 1

    def each(self, what: str, ours: dict, theirs: dict) -> None:
        """Compares two maps value by value; what one side lacks counts as nothing."""
        for key in sorted({*ours, *theirs}):
            self.same(f"{what} {key}", ours.get(key, 0), theirs.get(key, 0))


TALLY = Tally()
