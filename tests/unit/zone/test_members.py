"""What a zone holds of its members, and how it counts as they join, fall silent, are disabled and go."""

from __future__ import annotations

from dataclasses import replace

import pytest

from banyan.core.catalogue import Flavor
from banyan.core.digest import MAX_SHAPES, Digest, Sums, ZoneCounts, diff, flatten, merge, unflatten
from banyan.core.host import Host
from banyan.core.ids import RackCode, ZoneCode
from banyan.core.rack import Rack, RackHealth
from banyan.core.resources import VCPU, Amount, Shape, shape
from banyan.core.time import BUILD_DATE, Wall
from banyan.core.zone import Admin, Child, ChildState, Condition, Health
from banyan.placement.columns import Columns
from banyan.placement.fold import Fold
from banyan.placement.standing import child_counts, child_standing, placed, rack_standing
from banyan.zone.members import Members, same_but_time
from banyan.zone.reconcile.inventory import offered_shapes

NOW = Wall(BUILD_DATE)
ONE, TWO = shape({VCPU: 1}), shape({VCPU: 2})


def child(number: int) -> Child:
    return Child(ZoneCode(number), f"z{number}", b"", ChildState.READY)


def reported(hosts: int, below: int = 0, at: float = 5.0) -> dict[str, int]:
    return flatten(
        Digest(
            Sums(hosts, hosts, 0, {VCPU: Amount(hosts, hosts, 1)}, {"active": hosts}, {"vcpu=1": hosts}),
            zones=ZoneCounts(total=below, ready=below, alive=below),
            as_of=Wall(NOW + at),
        )
    )


def rack(number: int = 1, health: RackHealth = RackHealth.AVAILABLE) -> Rack:
    return Rack(RackCode(number), f"r{number}", "sim", {}, scanned_at=NOW, health=health)


def picture(members: Members, number: int, cores: int, *shapes: Shape) -> None:
    hosts = [Host(f"h{number}", "h", {VCPU: Amount(cores, cores, 0)})]
    wanted = members.wanted(RackCode(number), shapes)
    members.put_picture(rack(number), Fold(Columns.build([hosts]), wanted), {("active", True): 2}, shapes)
    catch_up(members)


def catch_up(members: Members) -> None:
    """As reconcile/shapes.py does, without turns of a loop."""
    while (behind := members.lagging()) is not None:
        assert behind.fold is not None
        behind.fold.watch(members.shapes.counted)
        members.counted(behind.rack.code, behind.fold)


def test_a_leaf_zone_sums_its_racks() -> None:
    members = Members()
    picture(members, 1, 4, ONE)
    picture(members, 2, 8, ONE)
    digest = members.fold()
    assert digest.live == Sums(2, 2, 0, {VCPU: Amount(12, 12, 0)}, {"active": 4}, {"vcpu=1": 12}, {ONE.id: 2})
    assert digest.as_of == NOW
    assert digest.zones == ZoneCounts()


def test_every_rack_counts_the_shapes_of_all() -> None:
    members = Members(["vcpu=4"])
    picture(members, 1, 4, ONE)
    assert members.fold().live.fits == {"vcpu=1": 4, "vcpu=4": 1}
    picture(members, 2, 8, TWO)
    assert members.fold().live.fits == {"vcpu=1": 12, "vcpu=2": 6, "vcpu=4": 3}
    members.drop_rack(RackCode(2))
    catch_up(members)
    assert members.fold().live.fits == {"vcpu=1": 4, "vcpu=4": 1}


def test_what_parents_announce_is_counted_until_none_does() -> None:
    told: list[int] = []
    members = Members(reshaped=lambda: told.append(1))
    picture(members, 1, 4, ONE)
    members.announced([[TWO], [shape({VCPU: 4})]])
    assert told
    # Known, and not yet counted: not the same as none.
    digest = members.fold().live
    assert (digest.fits, digest.uncounted("vcpu=1"), digest.uncounted("vcpu=2")) == ({"vcpu=1": 4}, 0, 1)
    catch_up(members)
    digest = members.fold().live
    assert (digest.fits, digest.uncounted("vcpu=2")) == ({"vcpu=1": 4, "vcpu=2": 2, "vcpu=4": 1}, 0)
    assert members.announcement.keys == ("vcpu=1", "vcpu=2", "vcpu=4")
    # One of two parents goes, or no longer announces it.
    members.announced([[TWO]])
    assert members.announcement.keys == ("vcpu=1", "vcpu=2")
    catch_up(members)
    assert members.fold().live.fits == {"vcpu=1": 4, "vcpu=2": 2}
    members.announced([])
    catch_up(members)
    assert members.fold().live.fits == {"vcpu=1": 4}
    assert members.shapes.counted == (ONE,)


def test_what_is_counted_meanwhile_does_not_stand_for_a_newer_picture() -> None:
    members = Members()
    picture(members, 1, 4, ONE)
    members.announced([[TWO]])
    behind = members.lagging()
    assert behind is not None
    assert behind.fold is not None
    old = behind.fold
    picture(members, 1, 16, ONE)
    old.watch(members.shapes.counted)
    members.counted(RackCode(1), old)
    assert members.fold().live.fits == {"vcpu=1": 16, "vcpu=2": 8}


def test_a_shape_that_one_child_does_not_count_is_unknown_there_and_not_none() -> None:
    members = Members(["vcpu=1"])
    members.put_child(child(1))
    members.put_digest(ZoneCode(1), {**reported(10), f"lk:{ONE.id}": 10})
    # A child of the version before counts what it knows, and does not say where.
    members.put_child(child(2))
    members.put_digest(ZoneCode(2), reported(5))
    members.put_child(child(3))
    members.put_digest(ZoneCode(3), {"lh": 7, f"lk:{ONE.id}": 7})
    live = members.fold().live
    assert (live.hosts, live.fits, live.uncounted("vcpu=1")) == (22, {"vcpu=1": 15}, 5)
    members.put_child(replace(child(2), health=Health.LOST))
    assert members.fold().live.uncounted("vcpu=1") == 0
    members.put_child(replace(child(1), admin=Admin.DISABLED))
    live = members.fold().live
    assert (live.hosts, live.fits, live.counted) == (7, {}, {ONE.id: 7})


def test_children_can_not_crowd_out_what_is_announced() -> None:
    members = Members(["vcpu=999"])
    for number in range(MAX_SHAPES + 5):
        members.put_child(child(number + 1))
        one = shape({VCPU: number + 1})
        members.put_digest(ZoneCode(number + 1), {"lh": 1, f"lf:{one.key}": 1, f"lk:{one.id}": 1})
    last = ZoneCode(MAX_SHAPES + 9)
    members.put_child(replace(child(int(last))))
    members.put_digest(last, {"lh": 2, "lf:vcpu=999": 4, f"lk:{shape({VCPU: 999}).id}": 2})
    live = members.fold().live
    assert len(live.fits) == len(live.counted) == MAX_SHAPES
    assert live.fits["vcpu=999"] == 4
    assert live.counted[shape({VCPU: 999}).id] == 2
    assert all(live.uncounted(key) < live.hosts for key in live.fits)


def test_a_rack_that_does_not_answer_stands_apart() -> None:
    members = Members()
    picture(members, 1, 4, ONE)
    before = members.fold()
    members.put_rack(replace(rack(1, RackHealth.UNAVAILABLE), reason="credentials refused"))
    assert members.fold() == before.as_unknown()
    assert members.condition is Condition.UNAVAILABLE
    assert members.reason == "rack r1: credentials refused"
    picture(members, 2, 8, ONE)
    assert members.condition is Condition.AVAILABLE
    assert members.fold().live.hosts == 1
    members.put_rack(rack(1))
    assert members.fold().live.hosts == 2


def test_the_reason_of_many_racks_is_short() -> None:
    members = Members()
    for number in range(50):
        members.put_rack(replace(rack(number, RackHealth.UNAVAILABLE), reason="x" * 1_000))
    assert len(members.reason) < 1_024
    assert members.reason.endswith("and 47 more")


def test_a_zone_without_racks_is_available_and_scanned() -> None:
    members = Members()
    assert (members.condition, members.scanned, members.driver) == (Condition.AVAILABLE, True, "")
    members.put_rack(replace(rack(), scanned_at=None))
    assert members.scanning
    assert members.driver == "sim"


def test_children_count_themselves_and_what_is_below() -> None:
    members = Members()
    members.put_child(child(1))
    members.put_digest(ZoneCode(1), reported(10, below=3))
    members.put_child(replace(child(2), state=ChildState.SCANNING))
    digest = members.fold()
    assert digest.zones == ZoneCounts(total=5, ready=4, alive=5)
    assert digest.live.hosts == 10
    assert digest.unknown_zones == 0


def test_what_is_below_a_lost_child_is_not_known_either() -> None:
    members = Members()
    members.put_child(child(1))
    members.put_digest(ZoneCode(1), reported(10, below=3))
    members.put_child(child(2))
    members.put_digest(ZoneCode(2), reported(1, at=9.0))
    members.put_child(replace(child(1), health=Health.LOST))
    digest = members.fold()
    assert digest.live.hosts == 1
    assert digest.unknown.hosts == 10
    assert digest.unknown_as_of == NOW + 5.0
    assert digest.as_of == NOW + 9.0
    assert digest.zones == ZoneCounts(total=5, ready=5, alive=1, lost=4)
    assert digest.unknown_zones == 4
    members.put_child(child(1))
    assert members.fold().live.hosts == 11
    assert members.fold().as_of == NOW + 5.0
    assert members.fold().unknown_zones == 0


def test_disabled_and_unready_children_are_heard_but_not_offered() -> None:
    members = Members()
    members.put_child(replace(child(1), admin=Admin.DISABLED))
    members.put_digest(ZoneCode(1), reported(10))
    members.put_child(replace(child(2), state=ChildState.COUNTING))
    members.put_digest(ZoneCode(2), reported(5))
    digest = members.fold()
    assert digest.live == Sums()
    assert digest.not_offered.hosts == 15
    assert not digest.not_offered.fits
    assert digest.zones.disabled == 1
    assert digest.as_of == NOW + 5.0


def test_a_retired_child_leaves_no_trace() -> None:
    members = Members()
    members.put_child(child(1))
    members.put_digest(ZoneCode(1), reported(10, below=3))
    members.put_child(replace(child(1), state=ChildState.RETIRED))
    assert members.fold() == Digest()
    members.drop_child(ZoneCode(1))
    assert members.fold() == Digest()
    assert members.child_counters(ZoneCode(1)) == {}


def test_changes_of_a_digest_are_enough() -> None:
    members = Members()
    members.put_child(child(1))
    members.put_digest(ZoneCode(1), reported(10))
    members.patch_digest(ZoneCode(1), diff(reported(10), reported(7, at=6.0)))
    assert members.child_counters(ZoneCode(1)) == reported(7, at=6.0)
    assert members.child_digest(ZoneCode(1)) == unflatten(reported(7, at=6.0))
    assert members.fold().live.hosts == 7


def test_a_digest_of_a_child_that_is_not_here_is_an_error() -> None:
    with pytest.raises(KeyError):
        Members().put_digest(ZoneCode(1), reported(1))


def test_changes_are_told_and_what_changes_nothing_is_not() -> None:
    told = []
    members = Members(changed=lambda: told.append(1))
    members.put_child(child(1))
    members.put_digest(ZoneCode(1), reported(10))
    assert len(told) == 2
    # A row that counts the same, and no news.
    members.put_child(replace(child(1), heard_at=NOW, version="2"))
    members.patch_digest(ZoneCode(1), {})
    assert len(told) == 2
    assert members.children[ZoneCode(1)].version == "2"


def test_the_sum_equals_the_merge_from_scratch() -> None:
    members = Members()
    picture(members, 1, 4, ONE)
    members.put_rack(rack(1, RackHealth.UNKNOWN))
    healths, admins = tuple(Health), tuple(Admin)
    for number in range(40):
        one = replace(child(number), health=healths[number % 5], admin=admins[number % 4])
        members.put_child(one)
        members.put_digest(one.code, reported(number, below=number % 3, at=number))
    parts = [placed(unflatten(members.rack_counters(RackCode(1))), rack_standing(members.racks[RackCode(1)].rack))]
    for code, one in members.children.items():
        parts.append(placed(unflatten(members.child_counters(code)), child_standing(one)))
        parts.append(unflatten(child_counts(one)))
    assert members.counters() == flatten(merge(parts))


def test_flavors_that_are_not_offered_are_no_shapes() -> None:
    small = Flavor("1", "small", {VCPU: 1})
    assert offered_shapes((small, replace(small, id="2", offered=False, needs={VCPU: 2}), small)) == (ONE,)


def test_a_digest_that_differs_in_time_only_is_no_news() -> None:
    assert same_but_time({"lh": 1, "at": 5}, {"lh": 1, "at": 6, "uat": 2})
    assert not same_but_time({"lh": 1}, {"lh": 1, "lhu": 1})
