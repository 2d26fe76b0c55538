"""What the entry zone keeps of users: flavors, key pairs, groups, aggregates, migrations, on each store."""

from __future__ import annotations

import asyncio
from dataclasses import fields, replace

import pytest

from banyan.core.compute import (
    Aggregate,
    Flavor,
    FlavorQuery,
    FlavorSort,
    KeyKind,
    KeyPair,
    Migration,
    MigrationKind,
    MigrationState,
    ServerGroup,
)
from banyan.core.compute_rows import Tally
from banyan.core.errors import Conflict
from banyan.core.order import GroupPolicy
from banyan.core.quota import DEFAULTS, UNLIMITED, Limits, Quota, Use
from banyan.core.records import Unit
from banyan.core.time import Wall
from tests.contract.store.conftest import Kept

BIG = 2_147_483_647
FLAVOR = Flavor(
    "42", "m1.Größe", 4, BIG, 80, 10, 512, False, 1.5, "für alle", {"hw:cpu_policy": "dedicated"}, Wall(3.5)
)
KEY = KeyPair("u1", "laptop of Ann", "ssh-ed25519 AAAA ann\n", "aa:bb", KeyKind.X509, Wall(4.0), 1)
GROUP = ServerGroup("g1", "web", GroupPolicy.ANTI_AFFINITY, "p1", "u1", 3, Wall(5.0))
AGGREGATE = Aggregate(1, "a-uuid", "fast", "az1", ("h1", "h2"), {"ssd": "true"}, Wall(6.0), Wall(7.0))
MIGRATION = Migration(
    1, "m-uuid", "s1", MigrationKind.MIGRATION, "p1", "u1", "h1", "1", "2", Wall(8.0), Wall(9.0),
    MigrationState.REVERTED, "h2",
)  # fmt: skip


@pytest.mark.parametrize("record", [FLAVOR, KEY, GROUP, AGGREGATE, MIGRATION])
def test_these_records_leave_no_field_at_its_default(record: object) -> None:
    for field in fields(record):
        assert getattr(record, field.name) != field.default, f"{type(record).__name__}.{field.name}"


def test_every_record_comes_back_whole(kept: Kept) -> None:
    kept.write(lambda u: u.compute.flavors.add(FLAVOR))
    kept.write(lambda u: u.compute.key_pairs.add(KEY))
    kept.write(lambda u: u.compute.groups.add(GROUP))
    assert kept.write(lambda u: u.compute.aggregates.add(AGGREGATE)) == AGGREGATE
    assert kept.write(lambda u: u.compute.migrations.add(MIGRATION)) == 1
    kept.again()
    assert kept.read(lambda u: u.compute.flavors.get("42")) == FLAVOR
    assert kept.read(lambda u: u.compute.key_pairs.get("u1", KEY.name)) == KEY
    assert kept.read(lambda u: u.compute.groups.get("g1")) == GROUP
    assert kept.read(lambda u: u.compute.aggregates.get(1)) == AGGREGATE
    assert kept.read(lambda u: u.compute.migrations.page((), "", "", 0, 10)) == [MIGRATION]


# --- flavors --------------------------------------------------------------------------------------

SIZES = [("b", 512, 10, True), ("a", 1024, 10, True), ("d", 256, 20, False), ("c", 512, 1, False)]


def _flavors(kept: Kept) -> None:
    def work(u):
        for id, memory, disk, public in SIZES:
            assert u.compute.flavors.add(Flavor(id, f"name {id}", 1, memory, disk, public=public))
        assert u.compute.flavors.open("c", "p1")

    kept.write(work)


@pytest.mark.parametrize(
    ("query", "ids"),
    [
        (FlavorQuery(), "ab"),
        (FlavorQuery(project="p1"), "abc"),
        (FlavorQuery(project="p2"), "ab"),
        (FlavorQuery(public=None), "abcd"),
        (FlavorQuery(public=False, project="p1"), "cd"),
        (FlavorQuery(public=None, least_memory=512), "abc"),
        (FlavorQuery(public=None, least_memory=512, least_disk=10), "ab"),
        (FlavorQuery(public=None, sort=FlavorSort.MEMORY), "dbca"),
        (FlavorQuery(public=None, sort=FlavorSort.MEMORY, descending=True), "acbd"),
        (FlavorQuery(public=None, descending=True), "dcba"),
    ],
)
def test_flavors_are_filtered_ordered_and_paged(kept: Kept, query: FlavorQuery, ids: str) -> None:
    _flavors(kept)
    assert [flavor.id for flavor in kept.read(lambda u: u.compute.flavors.query(query, None, 100))] == list(ids)
    walked: list[Flavor] = []
    while page := kept.read(
        lambda u, after=walked[-1:]: u.compute.flavors.query(query, after[0] if after else None, 1)
    ):
        walked += page
    assert [flavor.id for flavor in walked] == list(ids)


def test_an_id_and_a_name_are_a_flavors_own(kept: Kept) -> None:
    assert kept.write(lambda u: u.compute.flavors.add(FLAVOR))
    assert not kept.write(lambda u: u.compute.flavors.add(replace(FLAVOR, name="other")))
    assert not kept.write(lambda u: u.compute.flavors.add(replace(FLAVOR, id="43")))
    assert kept.write(lambda u: u.compute.flavors.add(replace(FLAVOR, id="43", name="other")))


def test_who_a_flavor_is_open_to_goes_with_it(kept: Kept) -> None:
    _flavors(kept)
    assert not kept.write(lambda u: u.compute.flavors.open("c", "p1"))
    kept.write(lambda u: u.compute.flavors.open("c", "p0"))
    assert kept.read(lambda u: (u.compute.flavors.projects("c"), u.compute.flavors.is_open("c", "p1"))) == (
        ["p0", "p1"],
        True,
    )
    assert kept.write(lambda u: u.compute.flavors.close("c", "p0"))
    assert not kept.write(lambda u: u.compute.flavors.close("c", "p0"))
    kept.write(lambda u: u.compute.flavors.delete("c"))
    kept.write(lambda u: u.compute.flavors.add(Flavor("c", "again", 1, 1, public=False)))
    assert not kept.read(lambda u: u.compute.flavors.is_open("c", "p1"))


# --- key pairs ------------------------------------------------------------------------------------


def test_key_pairs_are_by_user_and_name_and_numbered_for_good(kept: Kept) -> None:
    for user, name in (("u1", "b"), ("u1", "a"), ("u2", "a"), ("u1", "A")):
        assert kept.write(lambda u, user=user, name=name: u.compute.key_pairs.add(replace(KEY, user=user, name=name)))
    assert not kept.write(lambda u: u.compute.key_pairs.add(replace(KEY, user="u1", name="a")))
    assert [key.name for key in kept.read(lambda u: u.compute.key_pairs.page("u1", "", 10))] == ["A", "a", "b"]
    assert [key.name for key in kept.read(lambda u: u.compute.key_pairs.page("u1", "A", 1))] == ["a"]
    before = kept.read(lambda u: u.compute.key_pairs.get("u1", "a").number)
    assert kept.write(lambda u: u.compute.key_pairs.delete("u1", "a"))
    assert not kept.write(lambda u: u.compute.key_pairs.delete("u1", "a"))
    kept.write(lambda u: u.compute.key_pairs.add(replace(KEY, user="u1", name="a")))
    assert kept.read(lambda u: u.compute.key_pairs.get("u1", "a").number) > before


# --- aggregates, migrations -----------------------------------------------------------------------


def test_aggregates_have_numbers_and_names_of_their_own(kept: Kept) -> None:
    first = kept.write(lambda u: u.compute.aggregates.add(AGGREGATE))
    assert kept.write(lambda u: u.compute.aggregates.add(AGGREGATE)) is None
    second = kept.write(lambda u: u.compute.aggregates.add(replace(AGGREGATE, name="slow", uuid="b")))
    assert first is not None and second is not None and second.id > first.id
    with pytest.raises(Conflict) as taken:
        kept.write(lambda u: u.compute.aggregates.put(replace(second, name="fast")))
    assert taken.value.code == "name-taken"
    kept.write(lambda u: u.compute.aggregates.put(replace(second, hosts=("h9",))))
    assert [one.hosts for one in kept.read(lambda u: u.compute.aggregates.all())] == [("h1", "h2"), ("h9",)]
    assert kept.write(lambda u: u.compute.aggregates.delete(first.id))
    assert not kept.write(lambda u: u.compute.aggregates.delete(first.id))


def test_migrations_are_listed_newest_first_and_settled_once(kept: Kept) -> None:
    moving = replace(MIGRATION, state=MigrationState.MOVING)
    for n, server in enumerate(("s1", "s2", "s1")):
        kept.write(lambda u, n=n, server=server: u.compute.migrations.add(replace(moving, id=f"m{n}", server=server)))
    kept.write(lambda u: u.compute.migrations.settle("s1", MigrationState.CONFIRMED, Wall(50.0)))
    found = kept.read(lambda u: u.compute.migrations.page((), "p1", "", 0, 10))
    assert [(one.id, one.state) for one in found] == [("m2", "confirmed"), ("m1", "moving"), ("m0", "moving")]
    assert [one.id for one in kept.read(lambda u: u.compute.migrations.page(("s1",), "", "u1", 3, 10))] == ["m0"]
    assert kept.read(lambda u: u.compute.migrations.page((), "p2", "", 0, 10)) == []
    assert kept.read(lambda u: (u.compute.migrations.number("m1"), u.compute.migrations.number("x"))) == (2, None)
    assert kept.write(lambda u: u.compute.migrations.sweep(Wall(10.0), 1)) == 1
    assert kept.write(lambda u: u.compute.migrations.sweep(Wall(10.0), 9)) == 1
    assert [one.id for one in kept.read(lambda u: u.compute.migrations.page((), "", "", 0, 10))] == ["m2"]


# --- limits, ceilings, tallies --------------------------------------------------------------------


def limits(servers: int = UNLIMITED, vcpu: int = UNLIMITED, memory: int = UNLIMITED) -> Limits:
    return {**DEFAULTS, Quota.SERVERS: servers, Quota.VCPU: vcpu, Quota.MEMORY_MIB: memory}


def test_limits_are_a_projects_own_until_they_are_cleared(kept: Kept) -> None:
    kept.write(lambda u: u.compute.quotas.set("p1", {Quota.VCPU: 5, Quota.SERVERS: UNLIMITED}))
    kept.write(lambda u: u.compute.quotas.set("p1", {Quota.VCPU: 6}))
    kept.write(lambda u: u.compute.quotas.set("", {Quota.VCPU: 7}))
    kept.again()
    assert kept.read(lambda u: u.compute.quotas.limits("p1")) == {Quota.VCPU: 6, Quota.SERVERS: -1}
    assert kept.read(lambda u: (u.compute.quotas.limits(""), u.compute.quotas.limits("p2"))) == ({Quota.VCPU: 7}, {})
    kept.write(lambda u: u.compute.quotas.clear("p1"))
    assert kept.read(lambda u: u.compute.quotas.limits("p1")) == {}


def test_nothing_is_taken_from_a_project_without_a_row(kept: Kept) -> None:
    assert not kept.write(lambda u: u.compute.quotas.take("p1", Use(1, 1, 1), limits()))
    assert kept.read(lambda u: u.compute.quotas.use("p1")) is None
    assert kept.write(lambda u: u.compute.quotas.begin("p1", Use(2, 3, 4)))
    assert not kept.write(lambda u: u.compute.quotas.begin("p1", Use(9, 9, 9)))
    assert kept.write(lambda u: u.compute.quotas.take("p1", Use(1, 1, 1), limits()))
    assert kept.read(lambda u: u.compute.quotas.use("p1").use) == Use(3, 4, 5)


@pytest.mark.parametrize(
    ("most", "wanted", "fits"),
    [
        (limits(2, 4, 8), Use(1, 2, 4), True),
        (limits(1, 4, 8), Use(1, 2, 4), False),
        (limits(2, 3, 8), Use(1, 2, 4), False),
        (limits(2, 4, 7), Use(1, 2, 4), False),
        (limits(), Use(1, 2, 4), True),
        (limits(0, 0, 0), Use(0, 0, 0), True),
        (limits(0, 0, UNLIMITED), Use(0, 0, 4), True),
    ],
)
def test_a_take_passes_no_limit_and_is_whole(kept: Kept, most: Limits, wanted: Use, fits: bool) -> None:
    kept.write(lambda u: u.compute.quotas.begin("p1", Use(1, 2, 4)))
    assert kept.write(lambda u: u.compute.quotas.take("p1", wanted, most)) is fits
    assert kept.read(lambda u: u.compute.quotas.use("p1").use) == (Use(1, 2, 4) + wanted if fits else Use(1, 2, 4))


def test_of_many_who_take_at_once_no_more_win_than_there_is_room_for(kept: Kept) -> None:
    kept.write(lambda u: u.compute.quotas.begin("p1", Use()))

    async def race() -> list[bool]:
        def take(u: Unit) -> bool:
            return u.compute.quotas.take("p1", Use(1, 2, 3), limits(servers=7))

        return await asyncio.gather(*(kept.store.write("take", take) for _ in range(40)))

    assert sum(kept.run(race())) == 7
    assert kept.read(lambda u: u.compute.quotas.use("p1").use) == Use(7, 14, 21)


def test_a_ceiling_is_lowered_by_who_counted_last_and_never_below_zero(kept: Kept) -> None:
    kept.write(lambda u: u.compute.quotas.begin("p1", Use(9, 9, 9)))
    kept.write(lambda u: u.compute.quotas.give("p1", Use(1, 0, 20)))
    assert kept.read(lambda u: u.compute.quotas.use("p1").use) == Use(8, 9, 0)
    assert kept.write(lambda u: u.compute.quotas.recount("p1", 1, Use(3, 3, 0)))
    assert not kept.write(lambda u: u.compute.quotas.recount("p1", 1, Use(3, 3, 0))), "counted by another meanwhile"
    row = kept.read(lambda u: u.compute.quotas.use("p1"))
    assert (row.use, row.revision) == (Use(5, 6, 0), 2)


def test_tallies_hold_whoever_counts_at_the_same_time(kept: Kept) -> None:
    async def race() -> list[bool]:
        def tally(u: Unit) -> bool:
            return u.compute.quotas.tally(Tally.KEY_PAIRS, "u1", 3)

        return await asyncio.gather(*(kept.store.write("tally", tally) for _ in range(20)))

    assert sum(kept.run(race())) == 3
    kept.write(lambda u: u.compute.quotas.untally(Tally.KEY_PAIRS, "u1"))
    assert kept.read(lambda u: u.compute.quotas.tallied(Tally.KEY_PAIRS, "u1")) == 2
    assert kept.read(lambda u: u.compute.quotas.tallied(Tally.SERVER_GROUPS, "u1")) == 0
    assert kept.write(lambda u: u.compute.quotas.tally(Tally.KEY_PAIRS, "u1", UNLIMITED))
    kept.write(lambda u: [u.compute.quotas.untally(Tally.KEY_PAIRS, "u2") for _ in range(2)])
    assert kept.read(lambda u: u.compute.quotas.tallied(Tally.KEY_PAIRS, "u2")) == 0
