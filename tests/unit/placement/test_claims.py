"""Claims: what a leaf does with an order, from the first host with room to the last refusal."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from banyan.core.errors import Conflict
from banyan.core.host import Host
from banyan.core.ids import ZoneCode
from banyan.core.order import Claim, Ground, GroupPolicy, GroupScope, Hints, Order, Policy, Refusal, Specification
from banyan.core.resources import DISK_GIB, MEMORY_MIB, VCPU, Amount, ResourceClass, shape
from banyan.placement.claims import MAX_INDEXES, Claims
from banyan.placement.columns import Columns
from banyan.placement.filters import NOBODY, Around, Ask, around, ask
from banyan.placement.fold import Fold
from banyan.placement.score import MAX_COUNT, tie, ties

CORE = shape({VCPU: 1})
SPREAD, PACK = Ask(CORE), Ask(CORE, Policy.PACK)


def host(number: int, cores: int = 4, used: int = 0, **more: bool | frozenset[str] | str) -> Host:
    return Host(f"h{number}", f"h{number}", {VCPU: Amount(cores, cores, used)}, **more)


def claims(*rack: Host, **ceiling: int) -> Claims:
    return Claims(Columns.build([rack]), ceiling={ResourceClass(cls): n for cls, n in ceiling.items()})


def places(got: Claim | Refusal) -> dict[str, int]:
    assert isinstance(got, Claim)
    return dict(zip(got.hosts, got.counts, strict=True))


def test_spread_goes_where_most_fits_and_pack_to_the_fullest_that_suffices() -> None:
    rack = [host(1, 4, 2), host(2, 9), host(3, 20, 15), host(4, 8, 7)]
    assert places(claims(*rack).claim("o", SPREAD)) == {"h2": 1}
    assert places(claims(*rack).claim("o", PACK)) == {"h4": 1}
    assert places(claims(*rack).claim("o", SPREAD, 1, 6)) == {"h2": 5, "h3": 1}
    assert places(claims(*rack).claim("o", PACK, 1, 9)) == {"h4": 1, "h3": 5, "h1": 2, "h2": 1}
    got = claims(*rack).claim("o", PACK, 1, 9)
    assert isinstance(got, Claim) and (got.ground, got.count) == (Ground.LEAST_ROOM, 9)
    assert dict(zip(got.hosts, got.fits, strict=True)) == {"h4": 1, "h3": 5, "h1": 2, "h2": 9}


@pytest.mark.parametrize("policy", Policy)
@pytest.mark.parametrize("scarce", range(4))
def test_a_host_that_lacks_one_class_of_what_is_needed_takes_nothing(policy: Policy, scarce: int) -> None:
    classes = (VCPU, MEMORY_MIB, DISK_GIB, ResourceClass("custom_gpu"))

    def used(rare: int, others: int) -> dict[ResourceClass, Amount]:
        return {cls: Amount(8, 8, rare if number == scarce else others) for number, cls in enumerate(classes)}

    rack = claims(Host("full", "full", used(8, 6)), Host("free", "free", used(5, 3)))
    for needed in (classes, classes[:3]):
        wanted = Ask(shape(dict.fromkeys(needed, 1)), policy)
        got = rack.claim(str(needed), wanted)
        takes = policy is Policy.PACK and classes[scarce] not in needed
        assert places(got) == {"full" if takes else "free": 1}
        rack.cancel(str(needed))
        room = 3 if classes[scarce] in needed else 7
        assert sum(places(rack.claim("all", wanted, 1, 9)).values()) == room
        rack.cancel("all")
        singly = [rack.claim(str(number), wanted) for number in range(9)]
        assert [isinstance(one, Claim) for one in singly] == [True] * room + [False] * (9 - room)
        for number in range(room):
            rack.cancel(str(number))


def test_packing_leaves_hosts_with_something_rare_for_last() -> None:
    gpu = ResourceClass("custom_gpu")
    rack = [host(1, 8), Host("g", "g", {VCPU: Amount(8, 8, 7), gpu: Amount(4, 4)})]
    assert places(claims(*rack).claim("o", PACK)) == {"h1": 1}
    assert places(claims(*rack).claim("o", Ask(shape({gpu: 1, VCPU: 1}), Policy.PACK))) == {"g": 1}


@pytest.mark.parametrize("policy", Policy)
def test_one_by_one_and_at_once_agree_on_a_thousand_hosts(policy: Policy) -> None:
    rack = [host(n, 3 + n % 11) for n in range(1_000)]
    single, bulk = claims(*rack), claims(*rack)
    for number in range(3_000):
        single.claim(str(number), Ask(CORE, policy))
        single.commit(str(number))
    assert bulk.claim("all", Ask(CORE, policy), 3_000, 3_000)
    bulk.commit("all")
    assert np.array_equal(single.columns.amounts, bulk.columns.amounts)


def test_a_host_whose_first_room_comes_late_is_found_when_packing() -> None:
    """Packing, more room is worse, except where there was none: such a host was once overlooked."""
    rack = claims(host(1, 9), host(2, 9, used=9))
    assert places(rack.claim("a", PACK)) == {"h1": 1}
    rack.release("h2", {VCPU: 1})
    assert places(rack.claim("b", PACK)) == {"h2": 1}


def test_pending_claims_hold_room_and_are_in_no_digest() -> None:
    rack = claims(host(1, 2))
    fold = Fold(rack.columns, [CORE])
    rack.claim("a", SPREAD)
    rack.claim("b", SPREAD)
    assert isinstance(rack.claim("c", SPREAD), Refusal)
    assert fold.sums()[0].resources[VCPU].used == 0 and sorted(rack.pending) == ["a", "b"]
    rack.commit("a")
    assert fold.sums()[0].resources[VCPU].used == 1 and fold.fits() == {"vcpu=1": 1}
    assert rack.cancel("b") and not rack.pending
    assert places(rack.claim("c", SPREAD)) == {"h1": 1}
    for gone in ("a", "b", "z"):
        with pytest.raises(KeyError):
            rack.commit(gone)
        assert not rack.cancel(gone)


def test_the_same_order_gets_the_same_claim_and_takes_no_second_place() -> None:
    rack = claims(host(1, 2))
    assert rack.claim("a", SPREAD) is rack.claim("a", SPREAD)
    assert rack.fits(SPREAD) == 1


def test_another_ask_under_the_same_id_is_refused() -> None:
    rack = claims(host(1, 9))
    rack.claim("a", SPREAD, 2, 3)
    near = Around("g", GroupPolicy.ANTI_AFFINITY)
    for other, least, most, beside in (
        (Ask(shape({VCPU: 2})), 2, 3, NOBODY),
        (SPREAD, 1, 1, NOBODY),
        (SPREAD, 4, 9, NOBODY),
        (SPREAD, 2, 3, near),
    ):
        with pytest.raises(Conflict, match="something else"):
            rack.claim("a", other, least, most, beside)
    assert rack.fits(SPREAD) == 6


def test_pending_claims_outlive_a_newer_picture() -> None:
    rack = claims(host(1), host(2))
    rack.claim("a", SPREAD, 6, 6)
    gpu = ResourceClass("custom_gpu")
    newer = [host(3), host(2), Host("h1", "h1", {gpu: Amount(1, 1), VCPU: Amount(4, 4)})]
    rack.adopt(Columns.build([newer]))
    assert rack.fits(SPREAD) == 12 - 6
    rack.commit("a")
    assert rack.fits(SPREAD) == 6 and rack.columns.offered_amount(VCPU).used == 6
    assert places(rack.claim("b", Ask(shape({gpu: 1, VCPU: 1})))) == {"h1": 1}


def test_a_host_that_goes_takes_its_claims_along_and_nobody_elses() -> None:
    rack = claims(host(1), host(2), host(3))
    rack.claim("a", SPREAD, 9, 9)
    rack.columns.remove("h1")
    assert rack.fits(SPREAD) == 2
    rack.commit("a")
    assert rack.fits(SPREAD) == 2 and rack.columns.offered_amount(VCPU) == Amount(8, 8, 6)


@pytest.mark.parametrize("change", [{"up": False}, {"disabled": True}, {"offered": False}, {"cores": 1, "used": 3}])
def test_a_host_that_can_not_take_work_gets_none_and_comes_back(change: dict[str, int | bool]) -> None:
    """The last one: its overcommit was lowered below what it has."""
    rack = claims(host(1, 8), host(2, 4))
    assert places(rack.claim("a", SPREAD)) == {"h1": 1}
    rack.columns.upsert(host(1, **{"cores": 8, **change}))
    assert places(rack.claim("b", SPREAD, 1, 9)) == {"h2": 4}
    rack.columns.upsert(host(1, 8))
    assert places(rack.claim("c", SPREAD, 1, 9)) == {"h1": 7}


def test_a_refusal_counts_every_host_under_its_first_reason() -> None:
    avx = frozenset({"HW_CPU_X86_AVX2"})
    rack = claims(
        *(host(n) for n in range(312)),
        *(host(n, 2, traits=avx) for n in range(312, 400)),
        *(host(n, 8, 6, traits=avx) for n in range(400, 405)),
        host(405, 8, up=False),
        host(406, 8, disabled=True),
        host(407, 8, offered=False),
        host(408, 8, traits=avx, availability_zone="az2"),
        host(409, 8, traits=avx | {"CUSTOM_OLD"}, availability_zone="az1"),
    )
    wanted = Ask(shape({VCPU: 3}, ("HW_CPU_X86_AVX2",)), forbidden=("CUSTOM_OLD",))
    got = rack.claim("o", replace(wanted, availability_zone="az1"))
    assert got == Refusal(
        410, {"availability-zone": 406, "disabled": 1, "down": 1, "forbidden-trait:CUSTOM_OLD": 1, "not-offered": 1}
    )
    rack.columns.remove("h408")
    got = rack.claim("o", wanted)
    assert got == Refusal(
        409,
        {
            "trait:HW_CPU_X86_AVX2": 312,
            "small:vcpu": 88,
            "full:vcpu": 5,
            "disabled": 1,
            "down": 1,
            "forbidden-trait:CUSTOM_OLD": 1,
            "not-offered": 1,
        },
    )
    assert list(got.counts)[:2] == ["trait:HW_CPU_X86_AVX2", "small:vcpu"]
    assert rack.claim("p", Ask(shape({ResourceClass("custom_gpu"): 1, VCPU: 1}))).counts["small:custom_gpu"] == 406


def test_a_refusal_is_counted_again_when_something_changed() -> None:
    rack = claims(host(1, 1, 1), host(2, 1, 1))
    assert rack.claim("a", SPREAD) == rack.claim("b", SPREAD) == Refusal(2, {"full:vcpu": 2})
    rack.columns.upsert(host(2, 1, 1, up=False))
    assert rack.claim("c", SPREAD) == Refusal(2, {"down": 1, "full:vcpu": 1})


def test_too_few_places_are_refused_and_nothing_stays_held() -> None:
    rack = claims(host(1, 2), host(2, 1))
    assert rack.claim("a", SPREAD, 4, 9) == Refusal(2, {"too-few": 2}, fits=3)
    assert rack.fits(SPREAD) == 3
    assert places(rack.claim("b", SPREAD, 3, 9)) == {"h1": 2, "h2": 1}


def test_a_ceiling_binds_pending_claims_too() -> None:
    rack = claims(host(1, 8, 1), host(2, 8), vcpu=4)
    assert rack.fits(SPREAD) == 3
    assert sum(places(rack.claim("a", SPREAD, 1, 2)).values()) == 2
    assert rack.claim("b", SPREAD, 2, 2) == Refusal(2, {"ceiling": 2}, fits=1)
    rack.commit("a")
    assert sum(places(rack.claim("c", SPREAD)).values()) == 1
    assert rack.claim("d", SPREAD) == Refusal(2, {"ceiling": 2})


def test_what_is_released_must_be_known() -> None:
    rack = claims(host(1, 2, 2))
    with pytest.raises(KeyError, match="h9"):
        rack.release("h9", {VCPU: 1})
    with pytest.raises(KeyError, match="memory_mib"):
        rack.release("h1", {MEMORY_MIB: 1})


def test_more_kinds_of_asks_than_are_kept_at_hand_are_served() -> None:
    rack = claims(host(1, 5_000), host(2, 5_000))
    for number in range(2 * MAX_INDEXES):
        assert isinstance(rack.claim(str(number), Ask(shape({VCPU: 1 + number % (MAX_INDEXES + 9)}))), Claim | Refusal)
    assert len(rack._asked) == MAX_INDEXES
    held = sum(1 + number % (MAX_INDEXES + 9) for number in range(2 * MAX_INDEXES) if str(number) in rack.pending)
    assert held + rack.fits(SPREAD) == 10_000


def test_pools_larger_than_any_host_take_what_is_asked() -> None:
    """A bottom cloud seen as one pool may have room for more guests than a key can count."""
    rack = claims(host(1, 2**40), host(2, 2**40))
    assert rack.fits(SPREAD) == MAX_COUNT
    for policy in Policy:
        assert isinstance(rack.claim(f"one {policy}", Ask(CORE, policy)), Claim)
        got = rack.claim(f"many {policy}", Ask(CORE, policy), 2_000, 2_000)
        assert isinstance(got, Claim) and got.count == 2_000


def test_a_group_kept_apart_has_one_guest_to_a_host() -> None:
    rack = claims(host(1, 9), host(2), host(3))
    near = Around("g", GroupPolicy.ANTI_AFFINITY, members={"h2": 1})
    assert places(rack.claim("a", SPREAD, near=near)) == {"h1": 1}
    assert places(rack.claim("b", SPREAD, near=near)) == {"h3": 1}
    assert rack.claim("c", SPREAD, near=near) == Refusal(3, {"group": 3})
    assert rack.cancel("a")
    assert places(rack.claim("d", SPREAD, near=near)) == {"h1": 1}


def test_a_group_kept_together_stays_on_its_host() -> None:
    rack = claims(host(1, 3), host(2, 9), host(3, 9))
    near = Around("g", GroupPolicy.AFFINITY, members={"h1": 1})
    assert places(rack.claim("a", SPREAD, 1, 5, near)) == {"h1": 3}
    assert rack.claim("b", SPREAD, near=near) == Refusal(3, {"group": 2, "full:vcpu": 1})
    soft = replace(near, policy=GroupPolicy.SOFT_AFFINITY)
    assert sum(places(rack.claim("c", SPREAD, near=soft)).values()) == 1


def test_a_new_group_kept_together_gets_a_host_that_takes_all_of_it() -> None:
    rack = claims(host(1, 20, 18), host(2, 10, 5), host(3, 9))
    near = Around("g", GroupPolicy.AFFINITY)
    assert places(rack.claim("a", PACK, 5, 5, near)) == {"h2": 5}
    assert rack.claim("b", PACK, 10, 10, Around("other", GroupPolicy.AFFINITY)).fits == 9


def test_an_order_says_what_it_asks_of_a_host_and_around_it() -> None:
    hints = Hints("g", GroupPolicy.ANTI_AFFINITY, per_host=2)
    specification = Specification(
        "web",
        {"vcpu": 2, "disk_gib": 0},
        required=("B", "A"),
        forbidden=("Z", "Y", "Z"),
        availability_zone="az1",
        aggregates=(("b", "a"), ("a", "b")),
        hints=hints,
    )
    order = Order("o", ZoneCode(1), "p", "u", specification, policy=Policy.PACK)
    assert ask(order) == Ask(shape({VCPU: 2}, ("A", "B")), Policy.PACK, ("Y", "Z"), "az1", (("a", "b"),))
    assert around(order, {"h1": 1}) == Around("g", GroupPolicy.ANTI_AFFINITY, 2, {"h1": 1})
    plain = Order("o", ZoneCode(1), "p", "u", Specification("web", {"vcpu": 1}))
    assert around(plain, {"h1": 1}) == NOBODY and NOBODY.empty
    apart = Specification("web", {"vcpu": 1}, hints=Hints("g", GroupPolicy.AFFINITY, GroupScope.ZONE))
    assert around(Order("o", ZoneCode(1), "p", "u", apart), {"h1": 1}).empty


def test_ties_are_the_same_one_by_one_and_at_once() -> None:
    ids = [f"host-{n}" for n in range(50)]
    for seed in (0, 7, 2**32 - 1, 2**40):
        assert ties(ids, seed).tolist() == [tie(id, row, seed) for row, id in enumerate(ids)]
    assert [t >> 20 for t in ties(ids, 1)] != [t >> 20 for t in ties(ids, 2)]
    assert ties([], 0).shape == (0,)
