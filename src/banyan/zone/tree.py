"""The zones below, as one tree in memory: direct children, and what they reported of theirs.

Answers three questions without touching the store: which path has a zone, which zone does a person
mean, and through which child does one reach it. It holds no capacity (zone/members.py does) and never
decides: a row that may not be here was refused before (trust/lineage.py).

Siblings are kept in the order of their names as they come and go, so that a page of a list costs what is on it,
wherever it begins: nothing ever sorts the whole tree.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from itertools import islice
from typing import TypeAlias, TypeVar

from banyan.core.errors import BadInput, Conflict, NotFound
from banyan.core.ids import CODE_MARK, ZoneCode, coded_text, join_path, parse_code
from banyan.core.zone import Admin, ChildState, Health

K = TypeVar("K")
Sibling: TypeAlias = tuple[str, ZoneCode]

UNHEARD = (Health.SUSPECT, Health.LOST)

# How many candidates an "ambiguous" refusal names.
NAMED = 5


@dataclass(frozen=True, slots=True)
class Node:
    """One zone below. `via` is the direct child through which it is reached (itself, for a direct child).

    `as_of` is when its parent last heard it (corrected wall seconds), None for never. `below`: while it is not heard,
    since when at least those below it were last known to be heard; None where that is not known.
    """

    code: ZoneCode
    parent: ZoneCode
    via: ZoneCode
    name: str
    state: ChildState
    health: Health
    admin: Admin
    reason: str
    version: str
    as_of: float | None
    labels: tuple[tuple[str, str], ...] = ()
    racks: int = 0
    below: float | None = None


class Tree:
    """`root` is this zone's own code, `path` its own whole path ("top/north"), as far as it is known."""

    def __init__(self, root: ZoneCode, path: str) -> None:
        self.root = root
        self.path = path
        self._nodes: dict[ZoneCode, Node] = {}
        self._below: dict[ZoneCode, dict[str, ZoneCode]] = {}
        self._names: dict[str, set[ZoneCode]] = {}
        self._via: dict[ZoneCode, set[ZoneCode]] = {}
        self._unheard: set[ZoneCode] = set()
        self._ordered: dict[ZoneCode, list[Sibling]] = {}
        # Zones that are named as parents, and are not here (yet).
        self._holes: set[ZoneCode] = set()

    def move(self, root: ZoneCode, path: str) -> None:
        """Takes another own code or path; the zones below keep their places."""
        if root != self.root:
            if self._below.get(self.root):
                raise ValueError("a zone that has children keeps its code")
            self.root = root
            self._holes.discard(root)
        self.path = path

    def __len__(self) -> int:
        return len(self._nodes)

    def __contains__(self, code: object) -> bool:
        return code in self._nodes

    def get(self, code: ZoneCode) -> Node | None:
        return self._nodes.get(code)

    def put(self, node: Node) -> None:
        """Inserts or replaces the zone of that code."""
        old = self._nodes.get(node.code)
        (self._unheard.add if node.health in UNHEARD else self._unheard.discard)(node.code)
        if old is not None:
            if old == node:
                return
            if (old.name, old.parent, old.via) != (node.name, node.parent, node.via):
                self._unlink(old)
                self._link(node)
            self._nodes[node.code] = node
            return
        self._nodes[node.code] = node
        self._holes.discard(node.code)
        self._link(node)

    def remove(self, code: ZoneCode) -> None:
        """Forgets the zone; a direct child takes along what was reached through it."""
        node = self._nodes.pop(code, None)
        if node is None:
            return
        self._unlink(node)
        self._unheard.discard(code)
        if code in self._ordered:
            self._holes.add(code)
        if node.via == code:
            for below in list(self._via.get(code, ())):
                self.remove(below)

    def unheard(self) -> set[ZoneCode]:
        """Zones that are suspect or lost, or that are reached through one that is."""
        found: set[ZoneCode] = set()
        for code in self._unheard:
            found.add(code)
            if self._nodes[code].via == code:
                found |= self._via.get(code, set())
            else:
                found.update(other for other in self._via[self._nodes[code].via] if self._lies_below(other, code))
        return found

    def _lies_below(self, code: ZoneCode, above: ZoneCode) -> bool:
        return any(node.code == above for node in self.chain(code))

    def carries(self, via: ZoneCode) -> bool:
        """Whether zones beside the direct child itself are reached through it."""
        return any(code != via for code in self._via.get(via, ()))

    def through(self, via: ZoneCode) -> Iterable[ZoneCode]:
        """All zones reached through this direct child, the child itself included."""
        return tuple(self._via.get(via, ()))

    def _link(self, node: Node) -> None:
        self._below.setdefault(node.parent, {})[node.name] = node.code
        insort(self._ordered.setdefault(node.parent, []), (node.name, node.code))
        if node.parent != self.root and node.parent not in self._nodes:
            self._holes.add(node.parent)
        self._names.setdefault(node.name, set()).add(node.code)
        self._via.setdefault(node.via, set()).add(node.code)

    def _unlink(self, node: Node) -> None:
        siblings = self._below.get(node.parent, {})
        if siblings.get(node.name) == node.code:
            del siblings[node.name]
        ordered = self._ordered[node.parent]
        del ordered[bisect_left(ordered, (node.name, node.code))]
        if not ordered:
            del self._ordered[node.parent]
            self._holes.discard(node.parent)
        discard(self._names, node.name, node.code)
        discard(self._via, node.via, node.code)

    def path_of(self, code: ZoneCode) -> str:
        """The whole path; a chain with a hole ends at the hole with the code in its place."""
        names: list[str] = []
        seen: set[ZoneCode] = set()
        while code != self.root and code not in seen:
            seen.add(code)
            node = self._nodes.get(code)
            if node is None:
                names.append(coded_text(code))
                break
            names.append(node.name)
            code = node.parent
        return join_path(self.path, *reversed(names))

    def depth(self, code: ZoneCode) -> int:
        return sum(1 for _ in self.chain(code))

    def chain(self, code: ZoneCode) -> Iterator[Node]:
        """The zone and its ancestors below us, nearest first; stops at a hole or a loop."""
        seen: set[ZoneCode] = set()
        while code != self.root and code not in seen:
            seen.add(code)
            node = self._nodes.get(code)
            if node is None:
                return
            yield node
            code = node.parent

    def effective(self, node: Node) -> Node:
        """As it must be shown here: what lies below a zone that we cannot hear is not known to live."""
        if node.health is Health.GONE:
            return node
        for above in self.chain(node.parent):
            if above.health in (Health.SUSPECT, Health.LOST):
                worst = Health.LOST if Health.LOST in (above.health, node.health) else Health.SUSPECT
                reason = f"not heard through {above.name}, which is {above.health}"
                node = replace(node, health=worst, reason=node.reason if node.health is worst else reason)
            elif above.admin is not Admin.ENABLED and not node.reason:
                node = replace(node, reason=f"below {above.name}, which is {above.admin}")
        return node

    def all(self) -> list[tuple[str, Node]]:
        """(path, node), ordered by the names of the path."""
        return list(self._walk_below(self.root, self.path, ()))

    def slice(self, start: ZoneCode, after: str, count: int) -> list[tuple[str, Node]]:
        """At most `count` rows of `all` that lie below the zone `start` and come after the path `after`, "" for any.

        That path may be gone by now. Costs what it returns, not what is there.
        """
        top = self.path_of(start)
        names: tuple[str, ...] = ()
        if after:
            own, parts = top.split("/"), after.split("/")
            if parts[: len(own)] == own:
                names = tuple(parts[len(own) :])
            elif parts > own:
                return []
        return list(islice(self._walk_below(start, top, names), count))

    def children(self, name: str, count: int) -> list[Node]:
        """At most `count` of our own children, by name, from `name` on."""
        ordered = self._ordered.get(self.root, [])
        start = bisect_left(ordered, (name, ZoneCode(0)))
        return [self._nodes[code] for _, code in ordered[start : start + count]]

    def _walk_below(self, code: ZoneCode, path: str, after: tuple[str, ...]) -> Iterator[tuple[str, Node]]:
        """All below a zone, in order, whose names below it come after `after`. For use while the tree stands still."""
        siblings: Sequence[Sibling] = self._ordered.get(code, ())
        if code == self.root and self._holes:
            # What hangs below a zone that is not here stands where `path_of` says: at that zone's code.
            siblings = sorted([*siblings, *((coded_text(hole), hole) for hole in self._holes)])
        start = bisect_left(siblings, (after[0], ZoneCode(0))) if after else 0
        for at in range(start, len(siblings)):
            name, below = siblings[at]
            entered = after[1:] if after and name == after[0] else ()
            here, node = join_path(path, name), self._nodes.get(below)
            if node is not None and (not after or name > after[0]):
                yield here, node
            yield from self._walk_below(below, here, entered)

    def resolve(self, text: str) -> ZoneCode:
        """The zone that a person means: "" for this one, a whole path, an unambiguous last part, a code.

        A code means the zone that has it, and a whole path, as every list shows it, that zone and no other (but for a
        top of one word that is spelled as the code of a zone below: then that word may mean either). Else what
        can be read from here downwards, with the end of our own path in front or without, goes before what ends so
        further down. Where a zone is named as another's code is spelled, the word alone may mean either; with `code:`
        in front it is the code.

        Raises NotFound("no-zone"), or Conflict("ambiguous-zone") naming candidates: a last part that we share with a
        zone below is never taken for us, which would give a command, or a token, the whole tree.
        """
        wanted = text.strip().strip("/")
        if wanted in ("", "."):
            return self.root
        parts = tuple(wanted.split("/"))
        own = tuple(self.path.split("/"))
        coded = self._coded(wanted)
        whole = self._walk(parts[len(own) :]) if parts[: len(own)] == own else None
        if whole is not None and coded is None:
            return whole
        starts = [n for n in range(min(len(own), len(parts)) + 1) if own[len(own) - n :] == parts[:n]]
        read = (self._walk(parts[n:]) for n in starts)
        candidates = {code for code in read if code is not None}
        if not candidates or self.root in candidates:
            candidates |= {c for c in self._names.get(parts[-1], ()) if self._ends_with(c, parts)}
        if coded is not None:
            candidates.add(coded)
        if len(candidates) == 1:
            return candidates.pop()
        if candidates:
            names = sorted(self.path_of(c) + (f" ({coded_text(c)})" if c == coded else "") for c in candidates)
            shown = ", ".join(names[:NAMED]) + (f" and {len(names) - NAMED} more" if len(names) > NAMED else "")
            advice = "give more of the path"
            if self.root in candidates:
                # Of a top there may be no more.
                advice += f"; `.` or {coded_text(self.root)} is {self.path} itself"
            raise Conflict("ambiguous-zone", f"{text!r} may mean {shown}; {advice}")
        near = sorted(n for n in self._names if fnmatchcase(n, f"*{parts[-1][:20]}*") or n.startswith(parts[-1][:3]))
        hint = f"; did you mean {', '.join(near[:NAMED])}?" if near else "; `banyan zone list` shows all"
        raise NotFound("no-zone", f"there is no zone {text[:200]!r} at or below {self.path}{hint}")

    def _coded(self, text: str) -> ZoneCode | None:
        """The zone here whose code this is, letters that look alike forgiven."""
        try:
            code = ZoneCode(parse_code(text.lower().removeprefix(CODE_MARK)))
        except BadInput:
            return None
        return code if code == self.root or code in self._nodes else None

    def _walk(self, names: tuple[str, ...]) -> ZoneCode | None:
        code = self.root
        for name in names:
            below = self._below.get(code, {}).get(name)
            if below is None:
                return None
            code = below
        return code

    def _ends_with(self, code: ZoneCode, parts: tuple[str, ...]) -> bool:
        return tuple(self.path_of(code).split("/"))[-len(parts) :] == parts


def discard(index: dict[K, set[ZoneCode]], key: K, code: ZoneCode) -> None:
    """Takes `code` out of one set of an index; an empty set goes."""
    members = index.get(key)
    if members is not None:
        members.discard(code)
        if not members:
            del index[key]
