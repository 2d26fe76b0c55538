"""What servers hold, kept up change by change, is what their rows add up to."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from banyan.core.ids import RackCode, ZoneCode, guest_id
from banyan.core.order import Specification
from banyan.core.server import Holding, PendingResize, Server, VmState
from banyan.core.time import Wall
from banyan.zone.servers.held import Held

SPECS = [Specification("a", {"vcpu": n, "memory_mib": 512 * n, "custom_gpu": n - 1}) for n in (1, 2)]
HOSTS = ["", "h1", "h2"]


@st.composite
def servers(draw: st.DrawFn, number: int = 0) -> Server:
    at = Wall(1.0)
    resize = None
    if draw(st.booleans()):
        resize = PendingResize(
            draw(st.sampled_from(SPECS)), draw(st.sampled_from(HOSTS[1:])), "", VmState.ACTIVE, 1, at
        )
    return Server(
        guest_id(1_800_000_000_000 + number, RackCode(1), number),
        ZoneCode(1),
        draw(st.sampled_from(["p1", "p2"])),
        "u1",
        "web",
        RackCode(1),
        draw(st.sampled_from(HOSTS)),
        draw(st.sampled_from(SPECS)),
        at,
        at,
        draw(st.sampled_from(VmState)),
        resize=resize,
        unconfirmed=draw(st.booleans()),
    )


def summed(rows: list[Server]) -> Held:
    """As the store sums them."""
    counts: Counter[tuple[object, ...]] = Counter()
    for row in rows:
        if row.state is VmState.DELETED:
            continue
        counts[row.host, row.project, row.state, row.spec.shape.key, False, row.unconfirmed] += 1
        if row.resize is not None:
            counts[row.resize.host, row.project, row.state, row.resize.spec.shape.key, True, False] += 1
    held = Held()
    held.load(
        Holding(host, ZoneCode(1), project, state, shape, n, kept, waiting)
        for (host, project, state, shape, kept, waiting), n in counts.items()
    )
    return held


def same(held: Held, rows: list[Server]) -> None:
    other = summed(rows)
    assert dict(held.hosts()) == dict(other.hosts())
    assert held.guests() == other.guests()
    assert held.uses() == other.uses()
    waiting = {row.project for row in rows if row.unconfirmed and row.state is not VmState.DELETED}
    assert held.waits(0, "") == other.waits(0, "") == bool(waiting)
    for project in waiting:
        assert held.waits(1, project) and not held.waits(2, project)
    for host in HOSTS[1:]:
        on = [row for row in rows if row.holds and row.host == host]
        assert held.on(host) == other.on(host) == len(on)


@given(st.lists(st.tuples(st.integers(0, 4), servers()), max_size=30))
def test_change_by_change_is_what_the_rows_add_up_to(changes: list[tuple[int, Server]]) -> None:
    held, rows = Held(), dict[int, Server]()
    for number, server in changes:
        before = rows.get(number)
        after = replace(server, project=before.project) if before is not None else server
        held.change(before, after)
        rows[number] = after
        same(held, list(rows.values()))
    for row in rows.values():
        held.change(row, None)
    same(held, [])
    assert held.servers == 0


@given(st.lists(servers(), min_size=1, max_size=8))
def test_what_was_taken_and_given_up_adds_up_to_what_is_held(steps: list[Server]) -> None:
    """A change tells each place that it took or gave up, so that columns can follow."""
    held, columns = Held(), dict[tuple[str, str], int]()
    before: Server | None = None
    for after in [*steps, None]:
        for place in held.change(before, replace(after, project="p1") if after is not None else None):
            for cls, need in place.needs:
                columns[place.host, cls] = columns.get((place.host, cls), 0) + need * place.count
        before = replace(after, project="p1") if after is not None else None
        flat = {(host, str(cls)): n for host, needs in held.hosts() for cls, n in needs.items()}
        assert {key: n for key, n in columns.items() if n} == flat


def test_servers_of_one_order_are_counted_together() -> None:
    base = [replace(s, host=host) for host in ("h1", "h2", "h1") for s in [_one()]]
    together, alone = Held(), Held()
    assert together.placed(base, base[0].spec.shape.needs) == {"h1": 2, "h2": 1}
    for server in base:
        alone.change(None, server)
    assert dict(together.hosts()) == dict(alone.hosts())
    assert (together.guests(), together.uses()) == (alone.guests(), alone.uses())
    assert [together.on(host) for host in HOSTS] == [alone.on(host) for host in HOSTS]


def _one() -> Server:
    at = Wall(1.0)
    id = guest_id(1_800_000_000_000, RackCode(1), 1)
    return Server(id, ZoneCode(1), "p1", "u1", "web", RackCode(1), "h1", SPECS[1], at, at)
