"""Where each child and rack counts: every combination of its four truths, by table."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest

from banyan.core.ids import RackCode, ZoneCode
from banyan.core.rack import Rack, RackHealth
from banyan.core.time import BUILD_DATE, Wall
from banyan.core.zone import Admin, Child, ChildState, Health
from banyan.placement.standing import Standing, child_counts, child_standing, rack_standing

READY = Child(ZoneCode(1), "z", b"", ChildState.READY)
RACK = Rack(RackCode(1), "r", "sim", {}, scanned_at=Wall(BUILD_DATE), health=RackHealth.AVAILABLE)


@pytest.mark.parametrize(
    ("child", "standing"),
    [
        (READY, Standing.LIVE),
        (replace(READY, health=Health.SUSPECT), Standing.LIVE),
        (replace(READY, health=Health.UNAVAILABLE), Standing.LIVE),
        (replace(READY, health=Health.LOST), Standing.UNKNOWN),
        (replace(READY, health=Health.LOST, admin=Admin.DISABLED), Standing.UNKNOWN),
        (replace(READY, health=Health.LOST, admin=Admin.MAINTENANCE), Standing.UNKNOWN),
        (replace(READY, admin=Admin.DISABLED), Standing.NOT_OFFERED),
        (replace(READY, admin=Admin.MAINTENANCE), Standing.NOT_OFFERED),
        (replace(READY, admin=Admin.BANNED), Standing.UNKNOWN),
        (replace(READY, quarantined=True), Standing.NOT_OFFERED),
        (replace(READY, rolled_back=True), Standing.NOT_OFFERED),
        (replace(READY, state=ChildState.COUNTING), Standing.NOT_OFFERED),
        (replace(READY, health=Health.GONE), Standing.DROPPED),
        (replace(READY, state=ChildState.RETIRED, admin=Admin.BANNED), Standing.DROPPED),
    ],
)
def test_where_a_child_counts(child: Child, standing: Standing) -> None:
    assert child_standing(child) is standing


def test_a_child_is_counted_once_in_each_sense() -> None:
    for state, health, admin in product(ChildState, Health, Admin):
        child = replace(READY, state=state, health=health, admin=admin)
        counts = child_counts(child)
        standing = child_standing(child)
        if standing is Standing.DROPPED:
            assert counts == {}
            continue
        assert counts["z:total"] == 1
        assert sum(counts.get(f"z:{word}", 0) for word in ("alive", "suspect", "lost", "unavailable")) == 1
        assert counts.get("z:ready", 0) == (state is ChildState.READY)
        assert counts.get("z:disabled", 0) == (admin is not Admin.ENABLED)
        assert counts.get("uz", 0) == (standing is Standing.UNKNOWN)


@pytest.mark.parametrize(
    ("rack", "standing"),
    [
        (RACK, Standing.LIVE),
        (replace(RACK, health=RackHealth.UNAVAILABLE), Standing.UNKNOWN),
        (replace(RACK, health=RackHealth.UNKNOWN), Standing.UNKNOWN),
        (replace(RACK, scanned_at=None), Standing.DROPPED),
        (replace(RACK, scanned_at=None, health=RackHealth.UNAVAILABLE), Standing.DROPPED),
    ],
)
def test_where_a_rack_counts(rack: Rack, standing: Standing) -> None:
    assert rack_standing(rack) is standing
