"""Which lines of the journal a receiver is told, and what becomes of a storm: lines in, notices out. See receiver.py.

The same lines make the same notices with the same ids, whenever and however often: an id has the digest of a line in
it, which no other line has, not even the one of the same number after a restore.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Final

from banyan.core.ids import ZoneCode, code_text
from banyan.core.journal import Line
from banyan.core.pages import page
from banyan.core.receiver import Notice, ReceiverSpec
from banyan.core.text import shown
from banyan.core.time import Wall, iso

# Lines of one kind that have a notice each when they are told together; more of them are one notice.
STORM: Final = 10
# Subjects that the notice of a storm names.
NAMED: Final = 20
# Characters of a text, of a fact and of a name; facts of one line.
TEXT, FACT, NAME, FACTS = 2_000, 500, 255, 32
# What is not told to the receiver that it is about: it would never come to an end.
_OF_ITSELF: Final = frozenset({"receiver-added", "receiver-tested", "receiver-dead", "receiver-back", "receiver-gone"})


def wanted(spec: ReceiverSpec, kind: str) -> bool:
    """Whether a receiver is told events of that kind, by its severity and its patterns."""
    return (
        page(kind).severity.at_least(spec.severity)
        and any(fnmatchcase(kind, pattern) for pattern in spec.include)
        and not any(fnmatchcase(kind, pattern) for pattern in spec.exclude)
    )


@dataclass(slots=True)
class _Group:
    """The lines of one kind: how many, the first few, and what a notice of all of them says."""

    first: Line
    last: Line
    count: int = 0
    lines: list[Line] = field(default_factory=list)
    subjects: dict[str, None] = field(default_factory=dict)

    def add(self, line: Line) -> None:
        self.last = line
        self.count += 1
        if len(self.lines) <= STORM:
            self.lines.append(line)
        if len(self.subjects) < NAMED:
            self.subjects[shown(line.target, NAME)] = None


class Folder:
    """Takes the lines after the one numbered `after`, in their order, and keeps a bounded part of them. `path`, `code`:
    of the zone whose journal it is."""

    def __init__(self, spec: ReceiverSpec, path: str, code: ZoneCode, after: int) -> None:
        self._spec = spec
        self._path = path
        self._code = code_text(code)
        self._wanted: dict[str, bool] = {}
        self._groups: dict[str, _Group] = {}
        self.after = after
        self.upto = after
        self.oldest: Wall | None = None
        self.newest: Wall | None = None

    def add(self, line: Line) -> None:
        self.upto = line.number
        if line.kind not in self._wanted:
            self._wanted[line.kind] = wanted(self._spec, line.kind)
        always = line.kind == "receiver-skipped"
        if line.target == self._spec.name and (line.kind in _OF_ITSELF or always):
            if not always:
                return
        elif not self._wanted[line.kind]:
            return
        if self.oldest is None:
            self.oldest = line.at
        self.newest = line.at
        group = self._groups.get(line.kind)
        if group is None:
            group = self._groups[line.kind] = _Group(line, line)
        group.add(line)

    @property
    def kinds(self) -> Collection[str]:
        """Those of the lines that are to be told."""
        return self._groups.keys()

    @property
    def count(self) -> int:
        """Lines that are to be told."""
        return sum(group.count for group in self._groups.values())

    def storms(self, known: Collection[str] = ()) -> tuple[str, ...]:
        """Kinds that are folded: of too many lines, or of several and among the `known`, which are storms already."""
        found = [
            kind for kind, group in self._groups.items() if group.count > (1 if kind in known else STORM)
        ]  # fmt: skip
        return tuple(sorted(found))

    def notices(self, storms: Collection[str]) -> list[Notice]:
        """In the order of their first lines. `storms`: the kinds to fold; every kind of more than STORM lines is."""
        found: list[Notice] = []
        for kind, group in self._groups.items():
            if kind in storms or group.count > STORM:
                found.append(self._storm(kind, group))
            else:
                found += [self._single(line) for line in group.lines]
        return sorted(found, key=lambda notice: notice.first)

    def _single(self, line: Line) -> Notice:
        name, told = shown(line.target, NAME), iso(line.at)
        about = page(line.kind).filled(name, told)
        facts = {shown(key, NAME): shown(value, FACT) for key, value in list(line.facts.items())[:FACTS]}
        return Notice(
            id=f"{self._code}-{line.number}-{line.digest[:4].hex()}",
            zone=self._path,
            code=self._code,
            kind=line.kind,
            severity=about.severity,
            outcome=line.outcome,
            target=name,
            text=shown(line.text, TEXT),
            at=line.at,
            since=line.at,
            actor=shown(line.actor, NAME),
            facts=facts,
            first=line.number,
            last=line.number,
            subjects=(name,),
            means=about.means,
            done=about.done,
            held=about.held,
            next=about.next,
        )

    def _storm(self, kind: str, group: _Group) -> Notice:
        first, last = group.first, group.last
        subjects = tuple(group.subjects)
        more = group.count - len(subjects)
        named = ", ".join(subjects) + (f" and {more:,} more" if more > 0 else "")
        short = subjects[0] + (f" and {group.count - 1:,} more" if group.count > 1 else "")
        about = page(kind).filled(short, iso(first.at))
        command = f"banyan journal --kind {kind} --after {first.number - 1} --limit {group.count}"
        return Notice(
            id=f"{self._code}-{first.number}-{last.number}-{last.digest[:4].hex()}",
            zone=self._path,
            code=self._code,
            kind=kind,
            severity=about.severity,
            outcome=first.outcome,
            target=short,
            text=shown(f"{group.count:,} events of this kind from {iso(first.at)} to {iso(last.at)}: {named}", TEXT),
            at=last.at,
            since=first.at,
            count=group.count,
            subjects=subjects,
            first=first.number,
            last=last.number,
            command=command,
            means=about.means,
            done=about.done,
            held=about.held,
            next=f"`{command}`",
        )
