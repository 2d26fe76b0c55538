"""Each action of a server has a cell for each driver: either the suite judges it, or a decision says why it is not."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from banyan.core.deed import Operation
from banyan.drivers.orders_contract import JUDGED
from banyan.drivers.registry import DriverContext
from banyan.serve.clock import SystemClock, SystemIds
from dev.matrix import drivers

ROOT = Path(__file__).resolve().parents[2]
KINDS = {kind.kind: kind for kind in drivers()}


def test_every_operation_is_judged_by_a_duty() -> None:
    assert set(JUDGED) == set(Operation)
    text = (ROOT / "docs" / "contracts" / "driver.md").read_text(encoding="utf-8")
    for duty in set(JUDGED.values()):
        assert f"| {duty} |" in text


@pytest.mark.parametrize("kind", KINDS)
def test_an_empty_cell_names_its_decision(kind: str) -> None:
    driver = KINDS[kind]
    assert not driver.operations & set(driver.without), "what it does needs no excuse"
    for operation in set(Operation) - driver.operations:
        why = driver.without.get(operation, "")
        found = re.search(r"decision (\d+)", why)
        assert found, f"{kind} is not asked to {operation}: say why, and which decision says so"
        assert list((ROOT / "docs" / "decisions").glob(f"{int(found.group(1)):04}-*.md"))


def test_a_driver_takes_the_orders_that_its_registration_promises() -> None:
    """Of ours: made with the options by which they take orders."""
    asked = {"sim": {}, "openstack": {"cloud": "none", "mode": "place"}}
    assert set(asked) == set(KINDS)
    for kind, options in asked.items():
        context = DriverContext("rack", SystemClock(), SystemIds())
        assert KINDS[kind].open(options, context).operations == KINDS[kind].operations  # type: ignore[attr-defined]  # a Kind that is a Registration
