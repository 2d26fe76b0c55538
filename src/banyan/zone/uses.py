"""The ledger: what each project uses, summed over this zone's racks and children (protocols §4).

Holds what every member said, per (issuer, project), and the exact sum over members. At most
MAX_PROJECTS projects have a row of their own; what is over is summed in one row named `*`, so that no
guest is lost from the totals. Memory only: a rack's use comes from its guests, a child's from LedgerRows.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from banyan.core.digest import MAX_COUNTER
from banyan.core.ids import ZoneCode
from banyan.core.lineage import UseRow

Project = tuple[int, str]

MAX_PROJECTS = 50_000
OTHERS = "*"
MAX_TEXT = 255


def project(row: UseRow) -> Project:
    return row.issuer, row.project


@dataclass(slots=True)
class _Total:
    name: str = ""
    members: int = 0
    guests: int = 0
    vcpu: int = 0
    memory_mib: int = 0
    disk_gib: int = 0

    def add(self, row: UseRow, sign: int) -> None:
        self.members += sign
        self.guests += sign * row.guests
        self.vcpu += sign * row.vcpu
        self.memory_mib += sign * row.memory_mib
        self.disk_gib += sign * row.disk_gib
        if sign > 0 and row.name:
            self.name = row.name[:MAX_TEXT].replace("\0", "")


class Uses:
    """`code`: our own, the issuer of the row of others. A member is a rack's or a child's code."""

    def __init__(self, code: ZoneCode, limit: int = MAX_PROJECTS) -> None:
        self._others: Project = (code, OTHERS)
        self._limit = limit
        self._members: dict[int, dict[Project, tuple[UseRow, Project]]] = {}
        self._totals: dict[Project, _Total] = {}
        self._sorted: list[Project] | None = []

    def __len__(self) -> int:
        return len(self._totals)

    def held(self, member: int) -> set[Project]:
        """The projects that this member uses."""
        return set(self._members.get(member, ()))

    def holds(self, member: int, key: Project) -> bool:
        """Whether this member uses anything of that project, as far as it counts each by itself."""
        mine = self._members.get(member, {})
        return key in mine or (member, OTHERS) in mine

    def put(self, member: int, rows: Iterable[UseRow]) -> set[Project]:
        """A member's changed rows; one without guests drops its project. The projects whose sums may have changed."""
        mine = self._members.setdefault(member, {})
        touched: set[Project] = set()
        for row in rows:
            key = project(row)
            before = mine.get(key)
            if before is not None and before[0] == row:
                continue
            if before is not None:
                self._totals[before[1]].add(before[0], -1)
                touched.add(before[1])
                del mine[key]
                self._tidy(before[1])
            if row.guests > 0:
                counted = key if self._has_room(key) else self._others
                if counted not in self._totals:
                    self._totals[counted] = _Total()
                    self._sorted = None
                self._totals[counted].add(row, 1)
                mine[key] = (row, counted)
                touched.add(counted)
        if not mine:
            del self._members[member]
        return touched

    def replace(self, member: int, rows: Sequence[UseRow]) -> set[Project]:
        """All of a member's rows; what is not among them is dropped."""
        gone = self.held(member) - {project(row) for row in rows}
        return self.put(member, [*(empty(key) for key in gone), *rows])

    def total(self, key: Project) -> UseRow:
        """The project's sum; without guests when nobody uses it."""
        total = self._totals.get(key)
        if total is None:
            return empty(key)
        name = "all other projects" if key == self._others else total.name
        counts = (min(n, MAX_COUNTER) for n in (total.guests, total.vcpu, total.memory_mib, total.disk_gib))
        return UseRow(*key, name, *counts)

    def page(self, after: Project | None, limit: int) -> list[UseRow]:
        """Sums ordered by (issuer, project)."""
        if self._sorted is None:
            self._sorted = sorted(self._totals)
        start = bisect_right(self._sorted, after) if after is not None else 0
        return [self.total(key) for key in self._sorted[start : start + limit]]

    def _has_room(self, key: Project) -> bool:
        """A project of its own row: there is room, and its id may travel (link/codec.py: no long text, no NUL)."""
        return key in self._totals or (
            len(self._totals) < self._limit and len(key[1]) <= MAX_TEXT and "\0" not in key[1]
        )

    def _tidy(self, key: Project) -> None:
        if not self._totals[key].members:
            del self._totals[key]
            self._sorted = None


def empty(key: Project) -> UseRow:
    """The row that drops a project."""
    return UseRow(*key, "", 0, 0, 0, 0)
