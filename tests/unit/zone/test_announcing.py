"""Who is told the shapes: whoever holds another set, so many in a second, and nobody who takes none."""

from __future__ import annotations

from banyan.core.ids import ZoneCode
from banyan.core.time import Mono, Terms
from banyan.core.zone import Child
from banyan.placement.shapes import set_hash
from banyan.simulate.clock import VirtualClock
from banyan.simulate.loop import VirtualLoop
from banyan.zone.announcing import RATE, Announcing
from banyan.zone.inbox import Inbox
from banyan.zone.live import Live
from banyan.zone.members import Members


def child(number: int, shapes: bytes) -> Live:
    code = ZoneCode(number)
    return Live(Child(code, f"z{number}", b""), Inbox(code), Mono(0.0), Terms(), shapes=shapes)


def test_who_holds_another_set_is_told_and_nobody_else() -> None:
    loop = VirtualLoop()
    members = Members(["vcpu=1"])
    announcing = Announcing(VirtualClock(loop, "m"), members)
    fresh = announcing.due(child(1, set_hash(())))
    assert fresh is not None
    assert (fresh.hash, fresh.keys) == (announcing.hash, ("vcpu=1",))
    assert announcing.due(child(1, fresh.hash)) is None
    # A child of the version before says nothing of shapes.
    assert announcing.due(child(1, b"")) is None
    loop.close()


def test_a_zone_without_shapes_takes_back_what_it_told() -> None:
    loop = VirtualLoop()
    announcing = Announcing(VirtualClock(loop, "m"), Members())
    assert announcing.due(child(1, set_hash(()))) is None
    taken_back = announcing.due(child(1, set_hash(["vcpu=1"])))
    assert taken_back is not None
    assert taken_back.keys == ()
    loop.close()


def test_a_change_is_no_storm() -> None:
    loop = VirtualLoop()
    announcing = Announcing(VirtualClock(loop, "m"), Members(["vcpu=1"]))
    herd = [child(n, set_hash(())) for n in range(3 * RATE)]
    told = [live for live in herd if announcing.due(live) is not None]
    assert len(told) == RATE
    loop.run_until(loop.time() + 1.0)
    told += [live for live in herd[RATE:] if announcing.due(live) is not None]
    assert len(told) == 2 * RATE
    loop.close()
