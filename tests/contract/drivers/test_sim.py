"""The `sim` driver under the shipped suite, made through the registry as any rack's driver is."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from banyan.core.ports import Driver
from banyan.core.share import OFFER_ALL, Share
from banyan.drivers.orders_contract import OrderContract
from banyan.drivers.registry import Registry


class TestSim(OrderContract):
    options: Mapping[str, object] = {
        "hosts": 60,
        "guests": 2_500,
        "stopped": 0.1,
        "aggregates": ["a", "b"],
        "availability_zones": ["z1", "z2", "z3"],
    }

    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: Path) -> None:
        self.folder = tmp_path / "rack"

    def failing_builds(self) -> Driver:
        script = [{"at": 0, "do": "fail_builds", "chance": 1.0, "reason": "no memory is left"}]
        return Registry.installed().get("sim").open({**self.options, "script": script}, self.context())

    def driver(self, share: Share = OFFER_ALL) -> Driver:
        return Registry.installed().get("sim").open(self.options, self.context(share))

    def failing(self) -> Driver:
        script = [{"at": 0, "do": "fail", "reason": "the API answers 503 to every request"}]
        return Registry.installed().get("sim").open({**self.options, "script": script}, self.context())


class TestSimEmptyOfGuests(TestSim):
    options: Mapping[str, object] = {"hosts": 3}


class TestSimFailingInTheMiddle(TestSim):
    def failing(self) -> Driver:
        script = [{"at": 0, "do": "fail", "reason": "the database went away", "after_batches": 4}]
        return Registry.installed().get("sim").open({**self.options, "script": script}, self.context())
