"""Members: who is asked, by what is known of them; what an order says when it goes on; what was sent before."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from msgspec.structs import replace as changed

from banyan.core.errors import BadInput
from banyan.core.ids import RackCode, ZoneCode
from banyan.core.order import (
    Ground,
    GroupPolicy,
    GroupScope,
    Hints,
    NamedHost,
    Order,
    Policy,
    Reason,
    Refusal,
    Specification,
)
from banyan.core.rack import Rack, RackHealth
from banyan.core.resources import MEMORY_MIB, VCPU, ResourceClass, shape
from banyan.core.time import Wall
from banyan.core.zone import Admin, Child, ChildState, Health, Mode
from banyan.placement.candidates import Candidates, Key, Member, closed_child, closed_rack, room_of, want
from banyan.placement.choose import Share, Sharing, for_member
from banyan.placement.debits import MAX_DEBITS, Debits, displaced
from banyan.placement.filters import ask

CORE = shape({VCPU: 1})
READY = Child(ZoneCode(1), "north", b"", ChildState.READY, mode=Mode.PLACE)


class Seeded:
    def __init__(self, seed: int) -> None:
        self._random = Random(seed)

    def below(self, bound: int) -> int:
        return self._random.randrange(bound)


def order(hints: Hints | None = None, least: int = 1, most: int = 1, policy: Policy = Policy.SPREAD) -> Order:
    specification = Specification("web", {"vcpu": 1}, hints=hints or Hints())
    return Order("o", ZoneCode(1), "p", "u", specification, least, most, policy)


def table(*rooms: int) -> Candidates:
    found = Candidates(lambda key: {"lh": 2, f"lf:{CORE.key}": rooms[key[1]], f"lk:{CORE.id}": 2})
    for number in range(len(rooms)):
        found.put(Member(("child", number), f"z{number}"))
    return found


@pytest.mark.parametrize(
    ("child", "reason"),
    [
        (READY, ""),
        (replace(READY, mode=Mode.PROTECT), ""),
        (replace(READY, mode=Mode.OBSERVE), "read-only"),
        (replace(READY, rolled_back=True), "read-only"),
        (replace(READY, quarantined=True), "quarantined"),
        (replace(READY, admin=Admin.DISABLED), "disabled"),
        (replace(READY, admin=Admin.BANNED), "disabled"),
        (replace(READY, admin=Admin.MAINTENANCE), "maintenance"),
        (replace(READY, health=Health.SUSPECT), "unreachable"),
        (replace(READY, health=Health.LOST, admin=Admin.DISABLED), "unreachable"),
        (replace(READY, health=Health.UNAVAILABLE), "unavailable"),
        (replace(READY, state=ChildState.COUNTING), "not-ready"),
    ],
)
def test_a_child_takes_orders_only_while_all_speaks_for_it(child: Child, reason: str) -> None:
    assert closed_child(child) == reason


def test_a_rack_takes_orders_once_it_was_scanned_and_while_it_answers() -> None:
    rack = Rack(RackCode(1), "r1", "sim", {}, health=RackHealth.AVAILABLE)
    assert closed_rack(rack) == "not-ready"
    assert closed_rack(replace(rack, scanned_at=Wall(1.0))) == ""
    assert closed_rack(replace(rack, scanned_at=Wall(1.0), health=RackHealth.UNAVAILABLE)) == "unavailable"


def test_what_is_not_known_of_a_member_does_not_speak_against_it() -> None:
    asked = want(order(Hints(path="north/lab7", labels={"site": "b"}, drivers=("sim",))))
    asked = changed(asked, availability_zone="az1", shape=shape({VCPU: 1}, ("CUSTOM_GPU",)))
    vague = Member(("child", 1), "north")
    assert asked.against(vague) == ""
    known: list[tuple[Member, str]] = [
        (replace(vague, closed=Reason.DISABLED), "disabled"),
        (replace(vague, name="south"), "path"),
        (replace(vague, key=("rack", 1)), "path"),
        (replace(vague, labels={"site": frozenset({"a", "c"})}), "label"),
        (replace(vague, labels={"site": frozenset({"a", "b"})}), ""),
        (replace(vague, drivers=frozenset({"openstack"})), "driver"),
        (replace(vague, availability_zones=frozenset({"az2"})), "availability-zone"),
        (replace(vague, traits=frozenset({"HW_CPU_X86_AVX2"})), "trait:CUSTOM_GPU"),
    ]
    for member, reason in known:
        assert asked.against(member) == reason
    with pytest.raises(BadInput, match="zone name"):
        want(order(Hints(path="North Pole")))


def test_an_order_that_goes_on_keeps_the_hints_that_still_bind() -> None:
    hints = Hints("g", GroupPolicy.ANTI_AFFINITY, path="north/lab7", labels={"site": "b", "floor": "2"})
    share = Share(("child", 1), "other", 3, 7, 1)
    onward = for_member(order(hints, 2, 9), "north", {"site": "b", "floor": "1"}, share)
    assert (onward.id, onward.least, onward.most, onward.first) == ("other", 1, 3, 7)
    assert onward.specification.hints == changed(hints, path="lab7", labels={"floor": "2"})
    assert for_member(onward, "lab7", {"floor": "2"}, share).specification.hints == changed(hints, path="", labels={})
    apart = changed(hints, scope=GroupScope.ZONE)
    assert for_member(order(apart), "north", {}, share).specification.hints.group == "g", "its servers are of the group"
    together = changed(hints, policy=GroupPolicy.AFFINITY)
    assert for_member(order(together, 3, 9), "north", {}, share).least == 3
    assert for_member(order(None, 2, 9), "north", {}, share, least=2).least == 2


def test_hosts_that_an_order_names_lead_to_their_members_and_are_named_there_as_they_are_there() -> None:
    named = (NamedHost("", "a"), NamedHost("north", "b"), NamedHost("north/lab", "c"), NamedHost("south", "b"))
    asked = want(order(Hints(hosts=named)))
    north, east = (Member(("child", n), name) for n, name in enumerate(("north", "east")))
    rack = Member(("rack", 1), "east", availability_zones=frozenset({"az"}))
    assert [asked.against(one) for one in (north, east, rack)] == ["", "not-named", ""]
    assert want(order(Hints(hosts=named[1:]))).against(rack) == "not-named"
    zoned = order(Hints(hosts=named))
    zoned = changed(zoned, specification=changed(zoned.specification, availability_zone="made"))
    assert want(zoned).against(rack) == "" and ask(zoned).availability_zone == "", "these hosts are that zone"

    def below(kind: str, name: str) -> tuple[NamedHost, ...]:
        share = Share((kind, 1), "other", 1, 0, 1)
        return for_member(order(Hints(hosts=named)), name, {}, share).specification.hints.hosts

    assert below("child", "north") == (NamedHost("", "b"), NamedHost("lab", "c"))
    assert below("child", "east") == ()
    assert below("rack", "north") == named, "a rack takes those of its own zone"


def test_a_guest_has_a_number_in_its_name_if_it_is_one_of_several() -> None:
    alone = Sharing(table(4, 4), order(None, 1, 1), Seeded(3))
    (share,) = alone.next()
    alone.refused(share.member, Refusal(2, {"down": 2}))
    (share,) = alone.next()
    assert share.first == 1
    assert not for_member(order(None, 1, 1), "z", {}, share).numbered
    (share, *_) = Sharing(table(1, 1), order(None, 1, 2), Seeded(3)).next()
    below = for_member(order(None, 1, 2), "z", {}, share)
    assert (share.count, below.most, below.numbered) == (1, 1, True)
    assert for_member(below, "y", {}, share).numbered


def test_room_that_was_not_counted_everywhere_is_bounded_by_what_is_free() -> None:
    wanted = shape({VCPU: 2, MEMORY_MIB: 4})
    free = {"lh": 10, "lr:vcpu:t": 100, "lr:vcpu:u": 20, "lr:memory_mib:t": 100, "lr:memory_mib:u": 40}
    assert room_of(free, wanted) == (15, False)
    half = {**free, f"lf:{wanted.key}": 3, f"lk:{wanted.id}": 5}
    assert room_of(half, wanted) == (3 + 8, False)
    assert room_of({**half, f"lk:{wanted.id}": 10}, wanted) == (3, True)
    assert room_of(free, shape({ResourceClass("custom_gpu"): 1})) == (0, False)
    assert room_of({}, wanted) == (0, True)


def test_a_new_flavor_is_sent_where_most_is_free_before_anybody_counted_it() -> None:
    found = Candidates(lambda key: {"lh": 2, "lr:vcpu:t": 8, "lr:vcpu:u": 8 - key[1]})
    for number in range(3):
        found.put(Member(("child", number), f"z{number}"))
    assert found.room(CORE).tolist() == [0, 1, 2]
    assert Sharing(found, order(policy=Policy.PACK), Seeded(0)).next()[0].member == ("child", 1)


def test_one_guest_goes_by_chance_in_proportion_to_the_room() -> None:
    found, times = table(1, 6, 3, 0), dict.fromkeys(range(4), 0)
    for seed in range(2_000):
        (share,) = Sharing(found, order(), Seeded(seed)).next()
        times[share.member[1]] += 1
        found.answered(share.member, share.order, 0)
    assert times[3] == 0
    assert abs(times[0] - 200) < 60 and abs(times[1] - 1_200) < 120 and abs(times[2] - 600) < 100


def test_who_refused_is_not_asked_again_and_the_rest_goes_to_others() -> None:
    sharing = Sharing(table(4, 4, 2), order(None, 1, 8), Seeded(3))
    first = {share.member[1]: share for share in sharing.next()}
    assert sum(share.count for share in first.values()) == 8 and sharing.left == 0 and not sharing.next()
    sharing.refused(("child", 0), Refusal(2, {"down": 2}))
    sharing.placed(("child", 1), first[1].count)
    sharing.undecided(("child", 2))
    second = sharing.next()
    assert [share.member for share in second] == [("child", 1)] and second[0].count == 4 - first[1].count
    assert second[0].order not in ("o", "") and second[0].first == 8
    sharing.placed(("child", 1), second[0].count)
    assert not sharing.next() and not sharing.waiting and sharing.enough and sharing.left == 4
    assert sharing.chosen == [("z1", 4, "spread")]
    assert sharing.left_out() == {"refused": 1, "undecided": 1}
    assert sharing.refusal() == Refusal(6, {"down": 2, "too-few": 2, "undecided": 2}, 4)


def test_racks_of_one_zone_are_asked_under_different_ids() -> None:
    """They keep their orders in one table."""
    found = Candidates(lambda key: {"lh": 1, f"lf:{CORE.key}": 4, f"lk:{CORE.id}": 1})
    for number in range(3):
        found.put(Member(("rack", 7 + number), f"r{number}"))
    sharing = Sharing(found, order(None, 1, 12), Seeded(1))
    shares = sharing.next()
    assert len({share.order for share in shares}) == len(shares) == 3
    assert "o" in {share.order for share in shares}, "the first has the order's own, by which it is found"


def test_what_nobody_takes_whole_is_asked_of_several_and_numbered_from_the_start() -> None:
    sharing = Sharing(table(4, 3, 9), order(None, 6, 6), Seeded(1), whole=True)
    (share,) = sharing.next()
    assert (share.member, share.count) == (("child", 2), 6)
    sharing.refused(share.member, Refusal(2, {"full": 2}, fits=1))
    assert not sharing.next() and sharing.whole
    sharing.split()
    shares = sharing.next()
    assert sum(share.count for share in shares) == 6 and len(shares) > 1
    assert min(share.first for share in shares) == 0
    assert (share.member, share.order) not in {(one.member, one.order) for one in shares}
    alone = Sharing(table(4, 0), order(None, 3, 6), Seeded(1), whole=True)
    assert [share.count for share in alone.next()] == [4], "there is nobody else, and it is enough"
    assert not Sharing(table(4, 1), order(None, 3, 6), Seeded(1), whole=True).next(), "together there is more room"


def test_a_group_that_lives_in_a_member_that_is_gone_has_no_place() -> None:
    wanted = order(Hints("g", GroupPolicy.AFFINITY))
    assert not Sharing(table(4, 4), wanted, Seeded(0), {("child", 9): 1}).next()
    (share,) = Sharing(table(4, 4), wanted, Seeded(0), {("child", 1): 1}).next()
    assert share.member == ("child", 1)


def test_a_group_that_stays_together_is_asked_of_one_member_that_can() -> None:
    wanted = order(Hints("g", GroupPolicy.AFFINITY), 3, 5)
    sharing = Sharing(table(9, 4, 2), wanted, Seeded(0))
    (share,) = sharing.next()
    assert (share.member, share.count) == (("child", 0), 5)
    sharing.refused(share.member, Refusal(2, {"too-few": 2}))
    (share,) = sharing.next()
    assert (share.member, share.count) == (("child", 1), 4)
    sharing.refused(share.member, Refusal(2, {"too-few": 2}))
    assert not sharing.next()
    assert sharing.left_out() == {"refused": 2, "group": 1}


def test_zones_of_a_group_are_kept_apart_and_softly_kept_even() -> None:
    hints = Hints("g", GroupPolicy.ANTI_AFFINITY, GroupScope.ZONE)
    shares = Sharing(table(9, 9, 9, 9), order(hints, 1, 9), Seeded(0), {("child", 2): 1}).next()
    assert {share.member[1]: share.count for share in shares} == {0: 1, 1: 1, 3: 1}
    soft = changed(hints, policy=GroupPolicy.SOFT_ANTI_AFFINITY)
    shares = Sharing(table(9, 9, 9, 2), order(soft, 1, 10), Seeded(0), {("child", 2): 3}).next()
    counts = {share.member[1]: share.count for share in shares}
    assert sum(counts.values()) == 10 and counts[3] == 2 and counts[2] == min(counts.values())
    assert Sharing(table(1), order(soft), Seeded(0)).next()


def test_members_that_hints_name_are_the_only_ones() -> None:
    sharing = Sharing(table(9, 9, 0), order(), Seeded(0), only=frozenset({("child", 2), ("child", 7)}))
    assert not sharing.next()
    assert sharing.left_out() == {"not-named": 2, "full": 1}


def test_the_reason_of_a_choice_names_the_group() -> None:
    sharing = Sharing(table(9), order(Hints("g", GroupPolicy.SOFT_AFFINITY)), Seeded(0))
    sharing.placed(sharing.next()[0].member, 1)
    assert sharing.chosen == [("z0", 1, Ground.WITH_GROUP)]


# --- debits -------------------------------------------------------------------------------------


def test_debits_count_until_a_digest_names_a_higher_number() -> None:
    debits: Debits[Key] = Debits()
    member = ("child", 1)
    assert [debits.add(member, name, CORE, 2) for name in "abc"] == [1, 2, 3]
    debits.included(member, 1)
    assert debits.against(member, CORE) == 6
    debits.included(member, 3)
    assert (debits.against(member, CORE), debits.count(member)) == (2, 1)
    debits.answered(member, "c", 1)
    debits.answered(member, "a", 0)
    assert debits.against(member, CORE) == 1
    debits.forget(member)
    assert debits.against(member, CORE) == 0 and debits.add(member, "d", CORE, 1) == 4
    debits.drop(member)
    assert debits.count(member) == 0 and debits.against(("child", 2), CORE) == 0


def test_a_member_that_never_answers_is_owed_a_bounded_number() -> None:
    debits: Debits[Key] = Debits()
    for number in range(MAX_DEBITS + 50):
        debits.add(("child", 1), str(number), CORE, 1)
    assert debits.count(("child", 1)) == MAX_DEBITS == debits.against(("child", 1), CORE)


def test_guests_displace_as_many_of_another_shape_as_its_scarcest_class_holds() -> None:
    large = shape({VCPU: 4, MEMORY_MIB: 100})
    assert displaced({VCPU: 12, MEMORY_MIB: 300}, CORE) == 12
    assert displaced({VCPU: 3}, large) == 1
    assert displaced({VCPU: 12, MEMORY_MIB: 300}, large) == 3
    assert displaced({MEMORY_MIB: 5}, CORE) == 0
    assert displaced({MEMORY_MIB: 300, VCPU: 1}, large) == 3
    debits: Debits[Key] = Debits()
    debits.add(("child", 1), "a", large, 3)
    debits.add(("child", 1), "b", CORE, 2)
    assert (debits.against(("child", 1), CORE), debits.against(("child", 1), large)) == (14, 4)
