"""Servers, their actions and orders: the same rows, sums and pages on every database."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import pytest
from msgspec.structs import replace

from banyan.core.errors import BadInput, Conflict
from banyan.core.ids import RackCode, ZoneCode, guest_id
from banyan.core.order import FlavorSnapshot, Ground, Hints, ImageSource, KeySnapshot, Placed, Specification
from banyan.core.server import (
    Action,
    ActionRecord,
    Address,
    Arguments,
    EventRecord,
    Fault,
    Holding,
    Level,
    Nic,
    OrderState,
    PendingResize,
    Power,
    Server,
    ServerQuery,
    Sort,
    SortKey,
    StoredOrder,
    Task,
    VmState,
)
from banyan.core.time import Wall
from tests.contract.store.conftest import Kept

RACK, OTHER = RackCode(7), RackCode((1 << 40) - 1)
TOP = ZoneCode(1)
SPEC = Specification(
    "web",
    {"vcpu": 2, "memory_mib": 4096},
    required=("HW_A",),
    flavor=FlavorSnapshot("f1", "small", 2, 4096),
    image=ImageSource("i1", "debian"),
    key=KeySnapshot("k", "ssh-ed25519 AAAA"),
    metadata={"role": "web"},
    tags=("blue", "green"),
    user_data="c2VjcmV0",
)
SMALL = Specification("db", {"vcpu": 1}, flavor=FlavorSnapshot("f2", "tiny", 1, 512))
NIC = Nic("port-1", "fa:16:3e:00:00:01", "net-1", (Address("10.0.0.7"), Address("fd00::7", 6)))


def made(n: int, **fields: object) -> Server:
    """Server number n, made in second n."""
    at = Wall(1_800_000_000 + n)
    whole = {
        "id": guest_id(round(at * 1000), RACK, n),
        "issuer": TOP,
        "project": "p1",
        "user": "u1",
        "name": f"web-{n}",
        "rack": RACK,
        "host": f"h{n % 3}",
        "spec": SPEC,
        "created": at,
        "updated": at,
        "order": "o1",
        "index": n,
        "request": "req-1",
        **fields,
    }
    return Server(**whole)


def lean(server: Server) -> Server:
    return replace(server, spec=replace(server.spec, user_data=""))


def listed(kept: Kept, **conditions: object) -> list[str]:
    """Names, by following pages of three to the end."""
    query = ServerQuery(**{"issuer": TOP, "project": "p1", "limit": 3, **conditions})
    names: list[str] = []
    while True:
        page = kept.read(lambda u, query=query: u.servers.page(query))
        names += [server.name for server in page.servers]
        assert len(page.servers) <= query.limit
        if not page.after:
            return names
        query = replace(query, after=page.after)


def test_a_server_comes_back_whole(kept: Kept) -> None:
    resize = PendingResize(SMALL, "h9", "node-9", VmState.STOPPED, 1, Wall(3.0))
    full = made(
        1,
        description="",
        hostname="web",
        host_name="node-1",
        availability_zone="az1",
        state=VmState.RESIZED,
        task=Task.CONFIRMING,
        power=Power.RUNNING,
        wanted=VmState.STOPPED,
        locked=True,
        locked_by="u1",
        locked_reason="why \x00not",
        fault=Fault(500, "broke", Wall(2.0), "detail"),
        nics=(NIC,),
        resize=resize,
        launched=Wall(4.0),
        terminated=Wall(5.0),
        move=3,
        revision=9,
        progress=40,
    )
    plain = made(2)
    kept.write(lambda u: u.servers.insert([full, plain]))
    kept.again()
    assert kept.read(lambda u: u.servers.get(full.id)) == full
    assert kept.read(lambda u: u.servers.get(plain.id)) == plain
    assert kept.read(lambda u: u.servers.get(guest_id(1, RACK, 1))) is None
    assert kept.read(lambda u: u.servers.many([full.id, "x", plain.id])) == {
        full.id: lean(full),
        plain.id: lean(plain),
    }
    assert kept.read(lambda u: u.servers.newest()) == plain.id


def test_an_id_is_given_once(kept: Kept) -> None:
    kept.write(lambda u: u.servers.insert([made(1)]))
    with pytest.raises(Conflict) as refused:
        kept.write(lambda u: u.servers.insert([made(2), made(1, name="other")]))
    assert (refused.value.code, refused.value.transient) == ("id-taken", True)
    assert listed(kept) == ["web-1"]


CHANGES: dict[str, Callable[[Server], Server]] = {
    "a step": lambda s: replace(s, state=VmState.ACTIVE, task=Task.NONE, power=Power.RUNNING, revision=2),
    "shown only": lambda s: replace(s, description="new", fault=Fault(500, "no", Wall(1.0))),
    "another host": lambda s: replace(s, host="h9", move=2),
    "what was ordered": lambda s: replace(s, spec=replace(SMALL, user_data="bmV3")),
    "user data": lambda s: replace(s, spec=replace(s.spec, user_data="")),
    "a resize": lambda s: replace(s, resize=PendingResize(SMALL, "h9", "", VmState.ACTIVE, 1, Wall(1.0))),
    "the end": lambda s: replace(s, state=VmState.DELETED, task=Task.NONE, deleted_at=Wall(9.0), host=""),
    "nothing": lambda s: s,
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_an_update_changes_what_differs(kept: Kept, change: Callable[[Server], Server]) -> None:
    before, after = made(1), change(made(1))
    kept.write(lambda u: u.servers.insert([before, made(2)]))
    kept.write(lambda u: u.servers.update((before, after)))
    assert kept.read(lambda u: u.servers.get(before.id)) == after
    assert kept.read(lambda u: u.servers.get(made(2).id)) == made(2)


def test_what_was_read_without_user_data_keeps_it(kept: Kept) -> None:
    kept.write(lambda u: u.servers.insert([made(1)]))
    read = kept.read(lambda u: u.servers.many([made(1).id]))[made(1).id]
    kept.write(lambda u: u.servers.update((read, replace(read, name="new", locked=True))))
    found = kept.read(lambda u: u.servers.get(read.id))
    assert found == replace(made(1), name="new", locked=True)


def test_a_step_is_taken_from_the_row_that_it_was_worked_out_from(kept: Kept) -> None:
    kept.write(lambda u: u.servers.insert([made(n) for n in range(4)]))
    steps = [(made(n), made(n, state=VmState.ACTIVE, task=Task.NONE, launched=Wall(2.0), revision=2)) for n in range(3)]
    assert kept.write(lambda u: u.servers.step(*steps[:2]))
    assert [kept.read(lambda u, n=n: u.servers.get(made(n).id)) for n in range(4)] == [
        *(after for _, after in steps[:2]),
        made(2),
        made(3),
    ]
    assert not kept.write(lambda u: u.servers.step(*steps)), "the first two were taken"
    assert kept.write(lambda u: u.servers.step())
    with pytest.raises(ValueError, match="more than a step"):
        kept.write(lambda u: u.servers.step((made(3), made(3, name="new", revision=2))))


def test_what_says_whose_it_is_never_changes(kept: Kept) -> None:
    kept.write(lambda u: u.servers.insert([made(1)]))
    with pytest.raises(ValueError, match="project"):
        kept.write(lambda u: u.servers.update((made(1), made(1, project="p2"))))


# --- pages --------------------------------------------------------------------------------------


def filled(kept: Kept) -> None:
    rows = [made(n) for n in range(7)]
    rows[1] = made(1, state=VmState.ACTIVE, task=Task.NONE, nics=(NIC,), locked=True)
    rows[2] = made(2, spec=SMALL, host="", user="u2")
    rows[3] = made(3, state=VmState.DELETED, deleted_at=Wall(5.0), updated=Wall(1_900_000_000))
    rows[4] = made(4, updated=Wall(1_900_000_001), availability_zone="az1", power=Power.RUNNING)
    rows[5] = made(5, unconfirmed=True)
    other = made(10, project="p2", name="other", spec=replace(SPEC, hints=Hints(group="g1"), metadata={"a": "b"}))
    kept.write(lambda u: u.servers.insert([*rows, other]))


def test_a_page_is_the_newest_first_and_of_one_project(kept: Kept) -> None:
    filled(kept)
    assert listed(kept) == ["web-6", "web-4", "web-2", "web-1", "web-0"]
    assert listed(kept, limit=1) == listed(kept, limit=1000)
    assert listed(kept, project="p2") == ["other"]
    assert listed(kept, issuer=ZoneCode(2)) == []
    assert listed(kept, project="") == []
    assert listed(kept, project="", every_project=True) == ["other", *listed(kept)]
    page = kept.read(lambda u: u.servers.page(ServerQuery(TOP, "p1", limit=1)))
    assert page.servers[0].spec.user_data == ""


ALL = ["web-6", "web-4", "web-2", "web-1", "web-0"]
FILTERS: dict[str, tuple[dict[str, object], list[str]]] = {
    "ids": ({"ids": (made(1).id, made(6).id, made(3).id, "x")}, ["web-6", "web-1"]),
    "name": ({"name": "^web-[12]$"}, ["web-2", "web-1"]),
    "state": ({"states": (VmState.ACTIVE,)}, ["web-1"]),
    "task": ({"tasks": (Task.NONE,)}, ["web-1"]),
    "flavor": ({"flavor": "f2"}, ["web-2"]),
    "image": ({"image": "i1"}, ["web-6", "web-4", "web-1", "web-0"]),
    "host": ({"host": "h1"}, ["web-4", "web-1"]),
    "zone": ({"availability_zone": "az1"}, ["web-4"]),
    "user": ({"user": "u2"}, ["web-2"]),
    "address": ({"address": "^10\\.0\\."}, ["web-1"]),
    "address6": ({"address6": "fd00"}, ["web-1"]),
    "no address": ({"address": "fd00"}, []),
    "deleted": ({"deleted": True}, ["web-3"]),
    "changed since": ({"changed_since": Wall(1_900_000_000)}, ["web-4", "web-3"]),
    "changed before": ({"changed_before": Wall(1_800_000_001)}, ["web-1", "web-0"]),
    "locked": ({"locked": True}, ["web-1"]),
    "power": ({"power": Power.RUNNING}, ["web-4"]),
    "tags": ({"tags": ("blue", "green")}, ["web-6", "web-4", "web-1", "web-0"]),
    "tags of which one is missing": ({"tags": ("blue", "red")}, []),
    "any tag": ({"tags_any": ("blue", "red")}, ["web-6", "web-4", "web-1", "web-0"]),
    "not all tags": ({"not_tags": ("blue", "green")}, ["web-2"]),
    "none of the tags": ({"not_tags_any": ("blue", "red")}, ["web-2"]),
    "metadata": ({"metadata": {"role": "web"}}, ["web-6", "web-4", "web-1", "web-0"]),
    "group": ({"group": "g1", "project": "p2"}, ["other"]),
    "key": ({"key_name": "k", "name": "4"}, ["web-4"]),
}


@pytest.mark.parametrize(("conditions", "names"), FILTERS.values(), ids=FILTERS)
def test_a_page_is_filtered(kept: Kept, conditions: dict[str, object], names: list[str]) -> None:
    filled(kept)
    assert listed(kept, **conditions) == names


@pytest.mark.parametrize("key", SortKey)
@pytest.mark.parametrize("descending", [True, False])
def test_pages_in_any_order_hold_each_server_once(kept: Kept, key: SortKey, descending: bool) -> None:
    kept.write(
        lambda u: u.servers.insert(
            [made(n, name="Bäa"[n % 3], launched=Wall(5.0) if n % 2 else None) for n in range(8)]
        )
    )
    query = ServerQuery(TOP, "p1", sort=(Sort(key, descending),), limit=3)
    ids: list[str] = []
    values: list[object] = []
    while True:
        page = kept.read(lambda u, query=query: u.servers.page(query))
        ids += [server.id for server in page.servers]
        for server in page.servers:
            found = {SortKey.FLAVOR: "f1", SortKey.IMAGE: "i1"}.get(key) or getattr(server, key.value)
            values.append(0.0 if found is None else found)
        if not page.after:
            break
        query = replace(query, after=page.after)
    assert sorted(ids) == [made(n).id for n in range(8)]
    for a, b in pairwise(values):
        assert a >= b if descending else a <= b


def test_a_marker_of_another_list_is_refused(kept: Kept) -> None:
    filled(kept)
    page = kept.read(lambda u: u.servers.page(ServerQuery(TOP, "p1", limit=1)))
    for query in (
        ServerQuery(TOP, "p1", after="nonsense"),
        ServerQuery(TOP, "p1", after=page.after, sort=(Sort(SortKey.NAME),)),
    ):
        with pytest.raises(BadInput) as refused:
            kept.read(lambda u, query=query: u.servers.page(query))
        assert refused.value.code == "bad-marker"


def test_what_few_match_is_looked_at_in_bounded_steps(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("banyan.store.server_pages.MAX_LOOKED_AT", 20)
    monkeypatch.setattr("banyan.store.server_pages._STEP", 20)
    kept.write(lambda u: u.servers.insert([made(n, name="needle" if n == 1 else "hay") for n in range(50)]))
    page = kept.read(lambda u: u.servers.page(ServerQuery(TOP, "p1", name="need.e", limit=5)))
    assert (page.servers, bool(page.after)) == ((), True)
    assert listed(kept, name="need.e") == ["needle"]


@pytest.mark.parametrize("conditions", [{"name": "[a-z]{0,9}Z"}, {"description": "[a-z]{0,9}Z"}])
def test_patterns_end_a_page_and_the_next_one_goes_on(
    kept: Kept, conditions: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("banyan.store.server_pages.MAX_STEPS", 1_000)
    text = ["abcdefghijklmnopqrstuvwxyz" * 2, "aZ"]
    kept.write(lambda u: u.servers.insert([made(n, name=text[n == 3], description=text[n == 3]) for n in range(30)]))
    pages, found, after = 0, 0, ""
    while True:
        query = ServerQuery(TOP, "p1", limit=5, after=after, **conditions)
        page = kept.read(lambda u, query=query: u.servers.page(query))
        pages, found, after = pages + 1, found + len(page.servers), page.after
        if not after:
            break
    assert found == 1 and 1 < pages <= 30


def test_a_name_that_stands_for_itself_is_looked_for_by_the_database(
    kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of however many there are, so that who asks for a server by its name has it on the first page."""
    monkeypatch.setattr("banyan.store.server_pages.MAX_LOOKED_AT", 20)
    monkeypatch.setattr("banyan.store.server_pages._STEP", 20)
    names = ["web", "Web", "web-1", "a%b", "aXb", "a_b", "a.b", "ä", *("hay" for _ in range(50))]
    kept.write(lambda u: u.servers.insert([made(n, name=name) for n, name in enumerate(names)]))
    for pattern, found in (
        ("web", ["web-1", "web"]),
        ("^web$", ["web"]),
        ("^Web$", ["Web"]),
        ("a%b", ["a%b"]),
        ("^a_b$", ["a_b"]),
        (r"^a\.b$", ["a.b"]),
        ("ä", ["ä"]),
        ("Ä", []),
    ):
        page = kept.read(lambda u, pattern=pattern: u.servers.page(ServerQuery(TOP, "p1", name=pattern, limit=5)))
        assert ([server.name for server in page.servers], page.after) == (found, ""), pattern
    assert listed(kept, name="w\x00") == []


# --- sums ---------------------------------------------------------------------------------------


def test_what_is_held_is_summed(kept: Kept) -> None:
    resize = PendingResize(SMALL, "h9", "", VmState.ACTIVE, 1, Wall(1.0))
    rows = [
        made(1, host="h1"),
        made(2, host="h1"),
        made(3, host="h1", state=VmState.RESIZED, resize=resize),
        made(4, host="", state=VmState.ERROR),
        made(5, host="h2", unconfirmed=True),
        made(6, host="h2", state=VmState.DELETED, deleted_at=Wall(1.0)),
    ]
    kept.write(lambda u: u.servers.insert([*rows, made(7, rack=OTHER)]))
    big, small = SPEC.shape.key, SMALL.shape.key
    found = kept.read(lambda u: u.servers.holdings(RACK))
    assert sorted(found, key=lambda h: (h.host, h.state, h.kept)) == [
        Holding("", TOP, "p1", VmState.ERROR, big, 1),
        Holding("h1", TOP, "p1", VmState.BUILDING, big, 2),
        Holding("h1", TOP, "p1", VmState.RESIZED, big, 1),
        Holding("h2", TOP, "p1", VmState.BUILDING, big, 1, unconfirmed=True),
        Holding("h9", TOP, "p1", VmState.RESIZED, small, 1, kept=True),
    ]


def test_what_lives_and_is_confirmed_is_counted_whosever_it_is(kept: Kept) -> None:
    assert kept.read(lambda unit: unit.servers.count()) == 0
    gone = made(4, state=VmState.DELETED, deleted_at=Wall(2e9))
    rows = [made(1), made(2, rack=OTHER, issuer=ZoneCode(9)), made(3, unconfirmed=True), gone]
    kept.write(lambda unit: unit.servers.insert(rows))
    assert kept.read(lambda unit: unit.servers.count()) == 2


def test_members_of_a_group_are_counted_by_rack(kept: Kept) -> None:
    grouped = replace(SPEC, hints=Hints(group="g1"))
    rows = [made(n, spec=grouped, rack=RACK if n < 2 else OTHER, unconfirmed=n == 3) for n in range(5)]
    rows += [made(5, spec=grouped, host=""), made(6), made(7, spec=grouped, issuer=ZoneCode(2))]
    kept.write(lambda u: u.servers.insert(rows))
    assert kept.read(lambda u: u.servers.group_racks(TOP, "g1")) == {RACK: 2, OTHER: 3}
    assert not kept.read(lambda u: u.servers.group_racks(TOP, ""))


def test_members_of_a_group_are_counted_by_host(kept: Kept) -> None:
    grouped = replace(SPEC, hints=Hints(group="g1"))
    rows = [made(n, spec=grouped, host=f"h{n % 2}") for n in range(5)]
    rows.append(made(5, spec=grouped, host="h1", deleted_at=Wall(1.0), state=VmState.DELETED))
    kept.write(lambda u: u.servers.insert([*rows, made(6), made(7, spec=grouped, issuer=ZoneCode(2))]))
    assert kept.read(lambda u: dict(u.servers.members(TOP, "g1"))) == {"h0": 3, "h1": 2}
    assert kept.read(lambda u: dict(u.servers.members(TOP, ""))) == {}


def test_what_is_under_way_is_found_again(kept: Kept) -> None:
    rows = [made(n, task=Task.NONE if n % 2 else Task.SPAWNING) for n in range(6)]
    kept.write(lambda u: u.servers.insert([*rows, made(8, unconfirmed=True), made(9, rack=OTHER)]))
    first = kept.read(lambda u: u.servers.busy(RACK, "", 2))
    assert list(first) == [rows[0], rows[2]]
    assert list(kept.read(lambda u: u.servers.busy(RACK, first[-1].id, 2))) == [rows[4]]


def test_deleted_rows_are_swept_the_oldest_first_with_their_actions(kept: Kept) -> None:
    rows = [made(n, state=VmState.DELETED, deleted_at=Wall(100.0 + n)) for n in range(5)]
    acts = [action(server.id, "r1") for server in rows]
    kept.write(lambda u: (u.servers.insert([*rows, made(9)]), [u.actions.put(one) for one in acts]))
    assert kept.write(lambda u: u.servers.sweep(Wall(104.0), 3)) == 3
    assert kept.write(lambda u: u.servers.sweep(Wall(104.0), 3)) == 1
    assert kept.write(lambda u: u.servers.sweep(Wall(104.0), 3)) == 0
    assert listed(kept, deleted=True) == ["web-4"]
    assert kept.read(lambda u: [len(u.actions.of(server.id, 10)) for server in rows]) == [0, 0, 0, 0, 1]
    kept.write(lambda u: u.servers.drop([made(9).id]))
    assert listed(kept) == []


# --- actions and orders -------------------------------------------------------------------------


def action(server: str, request: str, started: float = 1.0) -> ActionRecord:
    return ActionRecord(server, request, Action.STOP, TOP, "p1", "u1", Wall(started), Wall(started))


def test_actions_come_the_newest_first(kept: Kept) -> None:
    full = replace(
        action("s1", "r2", 2.0),
        message="Error",
        events=(EventRecord("stop", Wall(1.0), Wall(2.0), "error", "h1", "x"),),
        arguments=Arguments(image=ImageSource("i2"), metadata={"a": "b"}),
        number=4,
    )
    kept.write(lambda u: [u.actions.put(one) for one in (action("s1", "r1"), full, action("s2", "r1"))])
    kept.again()
    assert list(kept.read(lambda u: u.actions.of("s1", 10))) == [full, action("s1", "r1")]
    assert list(kept.read(lambda u: u.actions.of("s1", 1))) == [full]
    assert kept.read(lambda u: u.actions.get("s1", "r2")) == full
    assert kept.read(lambda u: u.actions.get("s1", "r3")) is None
    kept.write(lambda u: u.actions.put(replace(full, message="")))
    assert kept.read(lambda u: u.actions.get("s1", "r2")) == replace(full, message="")


def order(id: str, state: OrderState = OrderState.CONFIRMED, at: float = 1.0, request: str = "r1") -> StoredOrder:
    level = Level("top/a", Wall(at), id, request, 3, {"full:vcpu": 2}, (("h1", 1, "most-room"),))
    return StoredOrder(id, state, Wall(at), request, RACK, b"d", (Placed(("s1",), "h1", Ground.MOST_ROOM, 4),), level)


def test_an_order_is_kept_once(kept: Kept) -> None:
    assert kept.write(lambda u: dict(u.orders.insert(order("a")))) == {}
    again = [order("a", OrderState.CANCELLED), order("c")]
    assert kept.write(lambda u: dict(u.orders.insert(*again))) == {"a": order("a")}
    kept.again()
    assert kept.read(lambda u: u.orders.get("a")) == order("a")
    assert kept.read(lambda u: u.orders.get("b")) is None
    kept.write(lambda u: u.orders.put(order("a", OrderState.CANCELLED)))
    assert kept.read(lambda u: u.orders.get("a")) == order("a", OrderState.CANCELLED)


def test_unconfirmed_orders_never_end_by_time(kept: Kept) -> None:
    orders = [order(f"o{n}", OrderState.CLAIMED if n % 2 else OrderState.CANCELLED, float(n)) for n in range(6)]
    kept.write(lambda u: [u.orders.insert(one) for one in orders])
    assert [o.id for o in kept.read(lambda u: u.orders.unconfirmed("", 2))] == ["o1", "o3"]
    assert [o.id for o in kept.read(lambda u: u.orders.unconfirmed("o3", 2))] == ["o5"]
    assert kept.write(lambda u: u.orders.sweep(Wall(4.0), 1)) == 1
    assert kept.write(lambda u: u.orders.sweep(Wall(4.0), 10)) == 1
    assert [o.id for o in kept.read(lambda u: u.orders.of_request("r1", 10))] == ["o1", "o3", "o4", "o5"]
    assert not kept.read(lambda u: u.orders.of_request("r2", 10))
