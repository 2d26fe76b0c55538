"""Shares among members: they add up, follow the room, come to an end, and every member is accounted for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from banyan.core.ids import ZoneCode
from banyan.core.order import GroupPolicy, GroupScope, Hints, Order, Policy, Reason, Refusal, Specification
from banyan.core.resources import MEMORY_MIB, VCPU, ResourceClass, Shape, shape
from banyan.placement.candidates import Candidates, Key, Member, Want, room_of
from banyan.placement.choose import MAX_TRIES, Chance, Sharing, pack_shares, spread_shares
from banyan.placement.debits import displaced

rooms = st.lists(st.integers(0, 12), max_size=9).map(lambda found: np.array(found, dtype=np.int64))
CORE, LARGE = shape({VCPU: 1}), shape({VCPU: 3, MEMORY_MIB: 2})


class Given(Chance):
    def __init__(self, value: int) -> None:
        self.value = value

    def below(self, bound: int) -> int:
        return self.value % bound


class Seeded(Chance):
    def __init__(self, seed: int) -> None:
        self._random = Random(seed)

    def below(self, bound: int) -> int:
        return self._random.randrange(bound)


@given(rooms, st.integers(1, 40), st.integers(0, 200))
def test_shares_of_a_spread_add_up_and_are_in_proportion(room: np.ndarray, n: int, chance: int) -> None:
    shares, total = spread_shares(room, n, Given(chance)), int(room.sum())
    assert int(shares.sum()) == min(n, total)
    assert (shares >= 0).all() and (shares <= room).all()
    if n < total:
        assert all(
            n * r // total <= s <= -(-n * r // total) for s, r in zip(shares.tolist(), room.tolist(), strict=True)
        )


@given(rooms, st.integers(1, 30))
def test_each_member_gets_its_proportion_on_average(room: np.ndarray, n: int) -> None:
    total = int(room.sum())
    if n < total:
        summed = sum(spread_shares(room, n, Given(start)) for start in range(total))
        assert summed.tolist() == (room * n).tolist()


@given(st.lists(st.integers(0, 2**48), min_size=1, max_size=6), st.integers(1, 2_000), st.integers(0, 2**50))
def test_rooms_of_any_size_are_shared(room: list[int], n: int, chance: int) -> None:
    shares = spread_shares(np.array(room, dtype=np.int64), n, Given(chance))
    assert int(shares.sum()) == min(n, sum(room))
    assert all(0 <= s <= r for s, r in zip(shares.tolist(), room, strict=True))


@given(rooms, st.integers(1, 40))
def test_packing_takes_the_smallest_that_suffices_and_as_few_as_possible(room: np.ndarray, n: int) -> None:
    shares = pack_shares(room, n)
    assert int(shares.sum()) == min(n, int(room.sum()))
    assert (shares >= 0).all() and (shares <= room).all()
    enough = room[room >= n]
    if enough.size:
        assert room[np.argmax(shares)] == enough.min() and np.count_nonzero(shares) == 1
    else:
        largest, needed = sorted(room.tolist(), reverse=True), 0
        while sum(largest[:needed]) < shares.sum():
            needed += 1
        assert np.count_nonzero(shares) == needed


@given(
    st.integers(0, 12),
    st.sampled_from([*Policy]),
    st.tuples(st.integers(1, 6), st.integers(0, 6)),
    st.booleans(),
    st.booleans(),
    st.sampled_from(["", "", Reason.DISABLED]),
    st.lists(st.integers(1, 4), max_size=3),
    st.sampled_from(["fresh", "placed some", "refused", "waits"]),
    st.sampled_from([None, frozenset({("rack", 1)}), frozenset({("rack", 2)})]),
)
def test_the_only_member_gets_what_it_would_among_several(
    room: int,
    policy: Policy,
    guests: tuple[int, int],
    whole: bool,
    believed: bool,
    closed: str,
    owed: list[int],
    before: str,
    only: frozenset[Key] | None,
) -> None:
    """It is told without arrays, by the same rules."""
    counters = {f"lf:{CORE.key}": room, "lh": 1, f"lk:{CORE.id}": 1}
    table = Candidates(lambda key: counters)
    table.put(Member(("rack", 1), "r", closed))
    for number, count in enumerate(owed):
        table.sent(("rack", 1), f"other-{number}", CORE, count)
    least, more = guests
    order = Order("o", ZoneCode(1), "p", "u", Specification("web", {VCPU: 1}), least, least + more, policy)
    sharing = Sharing(table, order, Given(3), only=only, whole=whole)
    if before != "fresh":
        for share in sharing.next():
            if before == "placed some":
                sharing.placed(share.member, max(1, share.count - 1))
            elif before == "refused":
                sharing.refused(share.member, Refusal(1, {Reason.FULL: 1}, 0))
    if not believed:
        sharing.disregard_debits()
    for n in range(1, least + more + 1):
        assert sharing._of_one(n) == int(sharing._shares(sharing._room(), n).sum())


# --- the table of members -----------------------------------------------------------------------

KEYS: tuple[Key, ...] = tuple(("child" if n % 3 else "rack", n) for n in range(6))
keys = st.sampled_from(KEYS)
some = st.one_of(st.none(), st.frozensets(st.sampled_from("ab"), max_size=2))
members = st.builds(
    Member,
    keys,
    st.sampled_from(["north", "south"]),
    st.sampled_from(["", "", "", Reason.DISABLED, Reason.UNREACHABLE]),
    st.one_of(st.none(), st.dictionaries(st.just("site"), st.frozensets(st.sampled_from("ab"), max_size=2))),
    some,
    some,
    some,
)
wants = st.builds(
    Want,
    st.sampled_from([CORE, shape({VCPU: 1}, ("a",))]),
    st.sampled_from([(), (), ("north",), ("north", "rack")]),
    st.sampled_from([(), (("site", "a"),)]),
    st.sampled_from([(), ("a",)]),
    st.sampled_from(["", "a"]),
)


def counters(cores: int, used: int, counted: int) -> dict[str, int]:
    return {
        "lh": 4,
        "lr:vcpu:t": cores,
        "lr:vcpu:u": used,
        f"lf:{CORE.key}": max(0, cores - used) * counted // 4,
        f"lk:{CORE.id}": counted,
    }


digests = st.builds(counters, st.integers(0, 30), st.integers(0, 20), st.integers(0, 4))


@dataclass(frozen=True)
class Counted:
    key: Key
    counters: dict[str, int]
    named: bool


@dataclass(frozen=True)
class Drop:
    key: Key


@dataclass(frozen=True)
class Sent:
    key: Key
    order: str
    large: bool
    count: int


@dataclass(frozen=True)
class Answered:
    key: Key
    order: str
    count: int


@dataclass(frozen=True)
class Included:
    key: Key
    below: int


orders = st.sampled_from("opq")
events = st.lists(
    st.one_of(
        members,
        st.builds(Counted, keys, digests, st.booleans()),
        st.builds(Drop, keys),
        st.builds(Sent, keys, orders, st.booleans(), st.integers(1, 4)),
        st.builds(Answered, keys, orders, st.integers(0, 4)),
        st.builds(Included, keys, st.integers(0, 5)),
    ),
    max_size=25,
)


@dataclass
class OnPaper:
    members: dict[Key, Member] = field(default_factory=dict)
    counters: dict[Key, dict[str, int]] = field(default_factory=dict)
    debits: dict[Key, list[tuple[int, str, Shape, int]]] = field(default_factory=dict)
    numbers: dict[Key, int] = field(default_factory=dict)

    def room(self, key: Key, one: Shape) -> int:
        owed: dict[ResourceClass, int] = {}
        for _, _, other, count in self.debits.get(key, []):
            for cls, need in other.needs:
                owed[cls] = owed.get(cls, 0) + need * count
        fits, _ = room_of(self.counters.get(key, {}), one)
        return max(0, fits - displaced(owed, one))


@settings(max_examples=150)
@given(st.lists(wants, min_size=1, max_size=2), events, st.integers(1, 4))
def test_a_repaired_table_says_what_one_made_anew_would(asked: list[Want], what: list[object], every: int) -> None:
    paper = OnPaper()
    table = Candidates(lambda key: paper.counters.get(key, {}))
    for number, event in enumerate(what):
        match event:
            case Member():
                paper.members[event.key] = event
                table.put(event)
            case Counted(key, counters, named):
                before = paper.counters.get(key, {})
                changed = [name for name in {*before, *counters} if before.get(name, 0) != counters.get(name, 0)]
                paper.counters[key] = counters
                table.counted(key, changed if named else None)
            case Drop(key):
                if paper.members.pop(key, None) is not None:
                    paper.debits.pop(key, None)
                    paper.numbers.pop(key, None)
                table.drop(key)
            case Sent(key, order, large, count) if key in paper.members:
                paper.numbers[key] = paper.numbers.get(key, 0) + 1
                owed = paper.debits.setdefault(key, [])
                owed[:] = [debit for debit in owed if debit[1] != order]
                one = LARGE if large else CORE
                owed.append((paper.numbers[key], order, one, count))
                assert table.sent(key, order, one, count) == paper.numbers[key]
            case Answered(key, order, count) if key in paper.debits:
                paper.debits[key] = [
                    (n, o, s, count if o == order else c) for n, o, s, c in paper.debits[key] if o != order or count
                ]
                table.answered(key, order, count)
            case Included(key, below) if key in paper.debits:
                paper.debits[key] = [debit for debit in paper.debits[key] if debit[0] >= below]
                table.included(key, below)
        if number % every == 0:
            table.room(CORE), table.able(asked[0]), table.hosts()
    assert len(table) == len(paper.members)
    for one in asked:
        able, (codes, reasons), room = table.able(one), table.reasons(one), table.room(one.shape)
        assert np.count_nonzero(able) == sum(not one.against(member) for member in paper.members.values())
        assert int(room.sum()) == sum(paper.room(key, one.shape) for key in paper.members)
        for key, member in paper.members.items():
            row = table.row(key)
            assert row is not None and table.member(row) == member
            assert room[row] == paper.room(key, one.shape)
            assert able[row] == (not one.against(member))
            assert (reasons[codes[row] - 1] if codes[row] else "") == one.against(member)
            assert table.hosts()[row] == paper.counters.get(key, {}).get("lh", 0)


# --- an order among its members -----------------------------------------------------------------


@dataclass(frozen=True)
class Truth:
    """What a member says, what it has, and whether its answer arrives."""

    says: int
    has: int
    answers: bool
    closed: bool


truths = st.lists(
    st.builds(
        Truth,
        st.integers(0, 8),
        st.integers(0, 8),
        st.sampled_from([True, True, True, False]),
        st.sampled_from([False, False, True]),
    ),
    max_size=7,
)
hints = st.builds(
    lambda policy, scope, per_host: Hints("g" if policy else "", policy, scope, per_host),
    st.sampled_from([None, None, *GroupPolicy]),
    st.sampled_from(GroupScope),
    st.integers(1, 3),
)
groups = st.dictionaries(st.integers(0, 6), st.integers(0, 2), max_size=4)


def candidates(found: list[Truth]) -> Candidates:
    table = Candidates(lambda key: {"lh": 5, f"lf:{CORE.key}": found[key[1]].says, f"lk:{CORE.id}": 5})
    for number, truth in enumerate(found):
        table.put(Member(("child", number), f"z{number}", Reason.DISABLED if truth.closed else ""))
    return table


def order(hints: Hints, least: int, most: int, policy: Policy) -> Order:
    specification = Specification("web", {"vcpu": 1}, hints=hints)
    return Order("o", ZoneCode(1), "p", "u", specification, least, most, policy)


def play(sharing: Sharing, found: list[Truth]) -> set[Key]:
    """Answers all shares as the members would; whom it asked."""
    asked: set[Key] = set()
    out: set[Key] = set()
    ids: set[tuple[Key, str]] = set()
    while shares := sharing.next():
        for share in shares:
            assert share.member not in out and (share.member, share.order) not in ids
            assert (share.order == "o") == (share.member not in asked)
            asked.add(share.member)
            ids.add((share.member, share.order))
            truth = found[share.member[1]]
            left = truth.has - sharing.placements.get(share.member, 0)
            assert not truth.closed and 0 < share.count <= truth.says
            assert sharing.waiting[share.member] == share
            if left < share.count or not truth.answers:
                out.add(share.member)
            if not truth.answers:
                sharing.undecided(share.member)
            elif left:
                sharing.placed(share.member, min(left, share.count))
            else:
                sharing.refused(share.member, Refusal(5, {"full:vcpu": 3, "down": 2}))
    assert not sharing.waiting
    return asked


@settings(max_examples=200)
@given(truths, hints, groups, st.integers(1, 9), st.integers(1, 12), st.sampled_from(Policy), st.integers(0, 99))
def test_an_order_is_shared_until_it_is_placed_or_nobody_is_left(
    found: list[Truth], hints: Hints, group: Mapping[int, int], least: int, more: int, policy: Policy, seed: int
) -> None:
    table, wanted = candidates(found), order(hints, least, least + more - 1, policy)
    before = {("child", n): count for n, count in group.items()}
    sharing = Sharing(table, wanted, Seeded(seed), before)
    asked = play(sharing, found)
    assert sharing.count == sum(sharing.placements.values()) <= wanted.most
    assert all(count <= found[key[1]].has for key, count in sharing.placements.items())
    # Every member is accounted for once, and every host of a refusal.
    assert sum(sharing.left_out().values()) + len(sharing.placements) == len(found)
    assert sorted(sharing.chosen) == sorted(
        (f"z{key[1]}", n, sharing.chosen[0][2]) for key, n in sharing.placements.items()
    )
    refusal = sharing.refusal()
    assert refusal.looked == sum(refusal.counts.values()) == 5 * len(found)
    assert refusal.fits == sharing.count
    inside = {key for key, count in before.items() if count}
    match hints.policy:
        case None:
            if sharing.left:
                assert asked == {("child", n) for n, truth in enumerate(found) if truth.says and not truth.closed}
            if all(truth.has >= truth.says and truth.answers for truth in found):
                said = sum(truth.says for truth in found if not truth.closed)
                assert sharing.count == min(wanted.most, said)
        case GroupPolicy.AFFINITY:
            assert len(sharing.placements) <= 1
            assert not inside or set(sharing.placements) <= inside
        case GroupPolicy.ANTI_AFFINITY if hints.scope is GroupScope.ZONE:
            for key, count in sharing.placements.items():
                assert count + before.get(key, 0) <= hints.per_host
        case GroupPolicy.SOFT_AFFINITY if sharing.placements and not set(sharing.placements) <= inside:
            for n, truth in enumerate(found):
                assert truth.closed or not truth.says or ("child", n) not in inside or ("child", n) in asked


@given(truths, st.integers(1, 9), st.sampled_from(Policy), st.integers(0, 99))
def test_the_same_seed_gives_the_same_shares(found: list[Truth], most: int, policy: Policy, seed: int) -> None:
    def played() -> Sharing:
        sharing = Sharing(candidates(found), order(Hints(), 1, most, policy), Seeded(seed))
        play(sharing, found)
        return sharing

    assert played().placements == played().placements


@given(truths, st.integers(1, 20), st.sampled_from(Policy), st.integers(0, 99))
def test_orders_one_after_the_other_do_not_believe_the_same_room_twice(
    found: list[Truth], most: int, policy: Policy, seed: int
) -> None:
    """No digest came in between: what was sent before counts, until one says that it is included."""
    table, said = candidates(found), sum(truth.says for truth in found if not truth.closed)
    sent = 0
    for number in range(4):
        wanted = order(Hints(), 1, most, policy)
        sharing = Sharing(
            table, Order(f"o{number}", *[getattr(wanted, f) for f in wanted.__struct_fields__[1:]]), Seeded(seed)
        )
        for share in sharing.next():
            sent += share.count
            sharing.placed(share.member, share.count)
        assert sent <= said
        assert int(table.room(CORE).sum()) == sum(truth.says for truth in found) - sent
    for number in range(len(found)):
        table.included(("child", number), 10)
    assert int(table.room(CORE).sum()) == sum(truth.says for truth in found)


def test_a_tree_that_refuses_is_not_asked_without_end() -> None:
    found = [Truth(says=5, has=0, answers=True, closed=False)] * 200
    sharing = Sharing(candidates(found), order(Hints(), 1, 1, Policy.SPREAD), Seeded(1))
    asked = play(sharing, found)
    assert len(asked) == MAX_TRIES + 1
    assert sharing.left_out() == {"not-asked": 200 - len(asked), "refused": len(asked)}
    assert sharing.refusal() == Refusal(
        1_000, {"not-asked": 5 * (200 - len(asked)), "full:vcpu": 3 * len(asked), "down": 2 * len(asked)}
    )
