"""Whatever is lost on the way, a parent ends with what its child holds: no row too many, none missing."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from banyan.core.digest import Counters, patch
from banyan.core.ids import ZoneCode
from banyan.core.lineage import Delta, Ledger, Row, UseRow
from banyan.core.messages import Generations
from banyan.core.time import BUILD_DATE, Wall
from banyan.zone.feed import Feed
from banyan.zone.inbox import Inbox
from banyan.zone.streams import Streams, gone
from banyan.zone.uses import Project, project

CHILD = ZoneCode(7)
NOW = Wall(BUILD_DATE)


def row(code: int, reason: str) -> Row:
    return Row(ZoneCode(code), CHILD, f"z{code}", b"e", b"s", "ready", "alive", "enabled", reason, 5)


def use(key: int, guests: int) -> UseRow:
    return UseRow(9, f"p{key}", "", guests, guests * 2, 0, 0)


@dataclass
class Parent:
    """What a parent keeps of one child: `stored` as in its database, `inbox` in memory."""

    rows: dict[ZoneCode, Row] = field(default_factory=dict)
    uses: dict[Project, UseRow] = field(default_factory=dict)
    counters: Counters = field(default_factory=dict)
    digest: int = 0
    stored: tuple[int, int] = (0, 0)
    inbox: Inbox = field(default_factory=lambda: Inbox(CHILD))

    def restart(self) -> None:
        self.inbox = Inbox(CHILD, self.digest, *self.stored)

    def hear(self, streams: Streams, known: Generations, budget: int, commit: bool) -> None:
        part = streams.digest_since(known.digest)
        delta = streams.lineage_since(known.lineage, budget)
        ledger = streams.ledger_since(known.ledger, budget)
        if part is not None:
            step = self.inbox.digest(part, self.counters, NOW)
            if step is not None and commit:
                self.counters = dict(step.counters) if step.whole else patch(self.counters, step.counters)
                self.inbox.accept_digest(step)
                self.digest = step.generation
        if delta is not None:
            self.take_rows(delta, commit)
        if ledger is not None:
            self.take_uses(ledger, commit)

    def take_rows(self, delta: Delta, commit: bool) -> None:
        step = self.inbox.lineage(delta, self.rows.keys())
        if step is not None and commit:
            self.rows.update((r.code, r) for r in step.put)
            for code in step.drop:
                self.rows.pop(code, None)
            self.stored = (step.stored, self.stored[1])
            self.inbox.accept_lineage(step)

    def take_uses(self, ledger: Ledger, commit: bool) -> None:
        step = self.inbox.ledger(ledger, self.uses.keys())
        if step is not None and commit:
            self.uses.update((project(r), r) for r in step.put)
            for key in step.drop:
                self.uses.pop(key, None)
            self.stored = (self.stored[0], step.stored)
            self.inbox.accept_ledger(step)


events = st.lists(
    st.one_of(
        st.tuples(st.just("row"), st.integers(1, 6), st.sampled_from("ab")),
        st.tuples(st.just("gone"), st.integers(1, 6), st.just("")),
        st.tuples(st.just("use"), st.integers(1, 4), st.sampled_from("012")),
        st.tuples(st.just("digest"), st.integers(0, 3), st.just("")),
        st.tuples(st.just("report"), st.integers(1, 200), st.sampled_from(["heard", "failed", "stale"])),
        st.tuples(st.just("parent-restarts"), st.just(0), st.just("")),
        st.tuples(st.just("child-restarts"), st.just(0), st.just("")),
    ),
    min_size=12,
    max_size=50,
)


@given(events)
def test_a_parent_ends_with_what_its_child_holds(what: list[tuple[str, int, str]]) -> None:
    start = 1_000
    streams, parent = Streams(CHILD, start), Parent()
    rows: dict[ZoneCode, Row] = {}
    uses: dict[int, int] = {}
    counters: Counters = {}
    known = Generations()
    for kind, number, word in what:
        match kind:
            case "row":
                rows[ZoneCode(number)] = row(number, word)
                streams.put_rows([rows[ZoneCode(number)]])
            case "gone":
                rows.pop(ZoneCode(number), None)
                streams.drop_rows([ZoneCode(number)])
            case "use":
                uses[number] = int(word)
                streams.put_uses(3, [use(number, int(word))])
            case "digest":
                counters = {"lh": number} if number else {}
                streams.publish_digest(counters)
            case "report":
                if word != "stale":  # an answer was lost: the child goes on from what it knew before
                    known = parent.inbox.known
                parent.hear(streams, known, number, commit=word != "failed")
            case "parent-restarts":
                parent.restart()
            case "child-restarts":
                start += 1_000_000
                streams = Streams(CHILD, start)
                streams.put_rows(rows.values())
                streams.put_uses(3, [use(key, guests) for key, guests in uses.items()])
                streams.publish_digest(counters)
    for _ in range(30):
        parent.hear(streams, parent.inbox.known, 40, commit=True)
    assert parent.inbox.known == streams.generations()
    assert parent.inbox.whole
    assert parent.rows == rows
    assert parent.uses == {project(use(k, n)): use(k, n) for k, n in uses.items() if n}
    assert parent.counters == counters
    assert parent.stored == (streams.generations().lineage, streams.generations().ledger)


@settings(max_examples=200)
@given(
    st.lists(st.tuples(st.integers(1, 5), st.booleans(), st.sampled_from([0, 0, 0, 1, 2])), min_size=10, max_size=40)
)
def test_a_reader_that_missed_forgotten_tombstones_starts_over_and_ends_right(
    what: list[tuple[int, bool, int]],
) -> None:
    feed: Feed[ZoneCode, Row] = Feed(1_000, lambda _: 1, tombstones=1)
    parent = Parent()
    held: dict[ZoneCode, Row] = {}
    for number, present, pages in what:
        code = ZoneCode(number)
        if present:
            held[code] = row(number, "")
            feed.put(code, held[code])
        else:
            held.pop(code, None)
            feed.drop(code, gone(code, CHILD))
        read(feed, parent, pages)
    read(feed, parent, 30)
    assert feed.since(parent.inbox.known.lineage, 1, 1) is None
    assert parent.rows == held
    assert len(feed) == len(held)


def read(feed: Feed[ZoneCode, Row], parent: Parent, pages: int) -> None:
    for _ in range(pages):
        found = feed.since(parent.inbox.known.lineage, 1, 100)
        if found is None:
            return
        parent.take_rows(Delta(found.since, found.until, found.values, found.more), commit=True)


@given(
    st.lists(
        st.tuples(st.integers(1, 3), st.integers(1, 6), st.integers(0, 5), st.booleans()),
        max_size=40,
    ),
    st.integers(1, 6),
)
def test_a_ledger_of_few_rows_still_counts_every_guest(what: list[tuple[int, int, int, bool]], limit: int) -> None:
    streams = Streams(CHILD, 1_000)
    streams.uses._limit = limit
    held: dict[int, dict[Project, UseRow]] = {}
    for member, key, guests, whole in what:
        one = use(key, guests)
        if whole:
            streams.replace_uses(member, [one])
            held[member] = {project(one): one}
        else:
            streams.put_uses(member, [one])
            held.setdefault(member, {})[project(one)] = one
    page = streams.uses.page(None, 100)
    assert sum(r.guests for r in page) == sum(r.guests for rows in held.values() for r in rows.values())
    assert sum(r.vcpu for r in page) == sum(r.vcpu for rows in held.values() for r in rows.values())
    assert len(page) <= limit + 1
    assert [project(r) for r in page] == sorted(project(r) for r in page)
    parent = Parent()
    for _ in range(20):
        parent.hear(streams, parent.inbox.known, 10_000, commit=True)
    assert sorted(parent.uses) == [project(r) for r in page]
