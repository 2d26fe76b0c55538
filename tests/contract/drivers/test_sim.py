"""The `sim` driver under the shipped suite, made through the registry as any rack's driver is."""

from __future__ import annotations

from collections.abc import Mapping

from banyan.core.ports import Driver
from banyan.core.share import OFFER_ALL, Share
from banyan.drivers.contract import DriverContract
from banyan.drivers.registry import Registry


class TestSim(DriverContract):
    options: Mapping[str, object] = {
        "hosts": 60,
        "guests": 2_500,
        "stopped": 0.1,
        "aggregates": ["a", "b"],
        "availability_zones": ["z1", "z2", "z3"],
    }

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
