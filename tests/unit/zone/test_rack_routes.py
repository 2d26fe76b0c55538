"""Ids find their way by the rack that is in them; nobody takes another's."""

from __future__ import annotations

import time

from banyan.core.ids import RackCode, ZoneCode
from banyan.zone.rack_routes import RackRoutes

A, B = ZoneCode(1), ZoneCode(2)
R, S = RackCode(10), RackCode(11)


def test_a_rack_is_its_zones_until_that_names_it_no_more() -> None:
    routes = RackRoutes()
    routes.put(A, [R, S])
    assert (routes.owner(R), routes.owner(S), routes.owner(RackCode(12))) == (A, A, None)
    routes.put(A, [S])
    assert (routes.owner(R), routes.owner(S), len(routes)) == (None, A, 1)
    routes.drop(A)
    assert len(routes) == 0


def test_who_names_a_rack_of_another_gets_it_only_when_that_lets_it_go() -> None:
    routes = RackRoutes()
    routes.put(A, [R])
    routes.put(B, [R])
    assert routes.owner(R) == A
    routes.drop(A)
    assert routes.owner(R) == B
    routes.drop(B)
    assert (routes.owner(R), len(routes)) == (None, 0)


def test_any_number_of_zones_may_name_one_rack_and_leave() -> None:
    """All come through one child, which may be retired: the loop that serves the others must not stand for minutes."""
    routes, rack = RackRoutes(), RackCode(7)
    zones = [ZoneCode(number) for number in range(1, 30_001)]
    began = time.process_time()
    for zone in zones:
        routes.put(zone, [rack])
    for zone in zones:
        routes.drop(zone)
    assert time.process_time() - began < 3.0
    assert len(routes) == 0
