"""Claims: whatever came before, the index finds what a look at every host finds, and nothing is promised twice."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from banyan.core.host import Host
from banyan.core.order import Claim, Refusal
from banyan.core.rack import Capacity
from banyan.placement import index, room
from banyan.placement.claims import Claims
from banyan.placement.columns import Columns
from banyan.placement.filters import Ask
from tests.property.placement.paper import HOSTS, Paper, asks, hosts, racks


@pytest.fixture(autouse=True, scope="module")
def _small_bounds() -> Iterator[None]:
    """Bounds that a rack of seven hosts reaches: candidates at hand, looks one by one, changes remembered."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(index, "NEAR", 2)
        patch.setattr(index, "_MANY", 3)
        patch.setattr(room, "MAX_LOG", 5)
        patch.setattr(room, "_MANY", 4)
        yield


@dataclass(frozen=True)
class Wanted:
    ask: int  # of the asks of this run
    least: int
    most: int


@dataclass(frozen=True)
class Commit:
    which: int


@dataclass(frozen=True)
class Cancel:
    which: int


@dataclass(frozen=True)
class Release:
    which: int


@dataclass(frozen=True)
class Adopt:
    turn: int


Event = Wanted | Commit | Cancel | Release | Adopt | Host | str

which = st.integers(0, 9)
wanted = st.one_of(
    st.builds(Wanted, st.integers(0, 2), st.just(1), st.just(1)),
    st.integers(1, 9).flatmap(lambda most: st.builds(Wanted, st.integers(0, 2), st.integers(1, most), st.just(most))),
)
events = st.lists(
    st.one_of(
        wanted,
        wanted,
        wanted,
        st.builds(Commit, which),
        st.builds(Cancel, which),
        st.builds(Release, which),
        st.builds(Adopt, which),
        hosts,
        st.sampled_from(HOSTS),
    ),
    min_size=5,
    max_size=40,
)


class World:
    """A rack by its claims, and on paper."""

    def __init__(self, seed: int, rack: list[Host], asks: list[Ask]) -> None:
        self.paper = Paper(seed, {host.id: host for host in rack})
        self.claims = Claims(Columns.build([rack]), Capacity.EXCLUSIVE, seed)
        self.asks = asks
        self.number = 0
        self.committed: list[tuple[str, Ask]] = []
        self.asked: dict[str, Ask] = {}

    def happen(self, event: Event) -> None:
        paper, claims = self.paper, self.claims
        match event:
            case Wanted(number, least, most):
                self.want(self.asks[number % len(self.asks)], least, most)
            case Commit(which) if paper.pending:
                order = sorted(paper.pending)[which % len(paper.pending)]
                claims.commit(order)
                spots, needs = paper.pending.pop(order)
                for host, count in spots.items():
                    paper.use(host, needs, count)
                    self.committed += [(host, self.asked[order])] * count
            case Cancel(which) if paper.pending:
                order = sorted(paper.pending)[which % len(paper.pending)]
                assert claims.cancel(order)
                assert not claims.cancel(order)
                del paper.pending[order]
            case Release(which) if self.committed:
                host, ask = self.committed.pop(which % len(self.committed))
                if host in paper.hosts:
                    known = {cls: n for cls, n in ask.shape.needs if cls in paper.hosts[host].amounts}
                    claims.release(host, known)
                    paper.use(host, ask.shape.needs, -1)
            case Adopt(turn):
                rack = list(paper.hosts.values())
                turn %= len(rack) or 1
                claims.adopt(Columns.build([rack[turn:] + rack[:turn]]))
            case Host():
                paper.hosts[event.id] = event
                claims.columns.upsert(event)
            case str():
                assert claims.columns.remove(event) == (paper.hosts.pop(event, None) is not None)

    def want(self, ask: Ask, least: int, most: int) -> None:
        self.number += 1
        order = f"o{self.number:03}"
        by_hand = self.paper.one_by_one(ask, most)
        fits = {id: self.paper.fits(ask, id) for id in by_hand}
        got = self.claims.claim(order, ask, least, most)
        if sum(by_hand.values()) < least:
            assert isinstance(got, Refusal)
            assert got.looked == sum(got.counts.values()) == len(self.paper.hosts)
            assert got.fits == sum(by_hand.values())
            return
        assert isinstance(got, Claim)
        assert dict(zip(got.hosts, got.counts, strict=True)) == by_hand
        assert dict(zip(got.hosts, got.fits, strict=True)) == fits
        assert self.claims.claim(order, ask, least, most) == got
        for host, count in by_hand.items():
            for _ in range(count):
                self.paper.hold(order, ask, host)
            for cls, _ in ask.shape.needs:
                assert self.paper.free(host, cls) >= 0
        self.asked[order] = ask

    def check(self) -> None:
        """Nothing was lost, nothing is there twice: claimed and free make up what the hosts have."""
        columns = self.claims.columns
        for ask in self.asks:
            assert self.claims.fits(ask) == sum(self.paper.fits(ask, id) for id in self.paper.hosts)
        for id, host in self.paper.hosts.items():
            row = columns.row(id)
            assert row is not None
            for cls, amount in host.amounts.items():
                number = columns.class_index(cls)
                assert number is not None
                assert columns.amounts[:, number, row].tolist() == [amount.physical, amount.total, amount.used]
                assert self.claims._room.free()[number, row] == self.paper.free(id, cls)
        assert {order: claim.count for order, claim in self.claims.pending.items()} == {
            order: sum(spots.values()) for order, (spots, _) in self.paper.pending.items()
        }


@settings(max_examples=150)
@given(st.integers(0, 9), racks(hosts), st.lists(asks, min_size=1, max_size=3), events, st.integers(1, 3))
def test_claims_are_as_on_paper_whatever_happens(
    seed: int, rack: list[Host], asks: list[Ask], what: list[Event], every: int
) -> None:
    world = World(seed, rack, asks)
    for number, event in enumerate(what):
        world.happen(event)
        if number % every == 0:
            world.check()
    world.check()


@given(st.integers(0, 9), racks(hosts), st.lists(asks, min_size=1, max_size=3), st.lists(wanted, max_size=12))
def test_the_same_seed_gives_the_same_places_in_whatever_rows_the_hosts_stand(
    seed: int, rack: list[Host], asks: list[Ask], what: list[Wanted]
) -> None:
    def places(rack: list[Host]) -> list[Claim | Refusal]:
        claims = Claims(Columns.build([rack]), Capacity.EXCLUSIVE, seed)
        got = [claims.claim(str(n), asks[w.ask % len(asks)], w.least, w.most) for n, w in enumerate(what)]
        return [
            Claim(c.order, *zip(*sorted(zip(c.hosts, c.counts, c.fits, strict=True)), strict=True), c.ground)
            if isinstance(c, Claim)
            else c
            for c in got
        ]

    assert places(rack) == places(rack[::-1])


@given(racks(hosts), asks, st.lists(wanted, min_size=1, max_size=8))
def test_on_shared_capacity_claims_are_debits_until_a_scan_has_seen_them(
    rack: list[Host], ask: Ask, what: list[Wanted]
) -> None:
    claims, paper = Claims(Columns.build([rack]), Capacity.SHARED, 3), Paper(3, {host.id: host for host in rack})
    for number, event in enumerate(what):
        got = claims.claim(str(number), ask, event.least, event.most)
        if isinstance(got, Claim):
            for host, count in zip(got.hosts, got.counts, strict=True):
                for _ in range(count):
                    paper.hold(got.order, ask, host)
            claims.commit(got.order)
            assert not claims.cancel(got.order)
    assert set(claims.debits) == set(paper.pending) and not claims.pending
    # A newer scan has seen the first half of them, and says what is used; the others are added to it.
    for order in sorted(paper.pending)[: len(paper.pending) // 2]:
        spots, needs = paper.pending.pop(order)
        for host, count in spots.items():
            paper.use(host, needs, count)
    unseen = set(paper.pending)
    claims.adopt(Columns.build([list(paper.hosts.values())]), unseen)
    assert set(claims.debits) == unseen
    assert claims.fits(ask) == sum(paper.fits(ask, id) for id in paper.hosts)
    for order in unseen:
        spots, needs = paper.pending.pop(order)
        for host, count in spots.items():
            paper.use(host, needs, count)
    claims.adopt(Columns.build([list(paper.hosts.values())]))
    assert not claims.debits
    assert claims.fits(ask) == sum(paper.fits(ask, id) for id in paper.hosts)


@given(
    racks(hosts), st.lists(asks, min_size=1, max_size=2), st.integers(0, 30), st.lists(wanted, min_size=1, max_size=12)
)
def test_a_ceiling_is_never_passed(rack: list[Host], asks: list[Ask], most: int, what: list[Wanted]) -> None:
    cls = asks[0].shape.needs[0][0]
    claims = Claims(Columns.build([rack]), ceiling={cls: most})
    offered = claims.columns.offered_amount(cls)
    held = 0
    for number, event in enumerate(what):
        ask = asks[event.ask % len(asks)]
        need = dict(ask.shape.needs).get(cls, 0)
        got = claims.claim(str(number), ask, event.least, event.most)
        if isinstance(got, Claim):
            held += need * got.count
            assert not need or offered.used + held <= min(most, offered.total)
            if number % 2:
                claims.commit(got.order)
        else:
            assert sum(got.counts.values()) == len(rack)
    assert claims.fits(asks[0]) * dict(asks[0].shape.needs)[cls] <= max(
        0, min(most, offered.total) - offered.used - held
    )


@given(st.integers(0, 9), racks(hosts), asks, wanted)
def test_a_refusal_names_the_first_reason_against_each_host(
    seed: int, rack: list[Host], ask: Ask, want: Wanted
) -> None:
    want = replace(want, least=want.most)
    claims, paper = Claims(Columns.build([rack]), Capacity.EXCLUSIVE, seed), Paper(seed, {h.id: h for h in rack})
    got = claims.claim("o", ask, want.least, want.most)
    if isinstance(got, Claim):
        return
    assert sum(got.counts.values()) == len(rack)
    assert got.counts.get("too-few", 0) == sum(paper.fits(ask, id) > 0 for id in paper.hosts)
    assert got.counts.get("not-offered", 0) == sum(not host.offered for host in rack)
    assert got.counts.get("down", 0) == sum(host.offered and not host.up for host in rack)
    assert got.counts.get("disabled", 0) == sum(host.offered and host.up and host.disabled for host in rack)
