"""The driver takes orders on a real cloud: its duties, one by one, and what it leaves behind, which is nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import pytest

from banyan.core.order import ImageSource
from banyan.core.ports import Driver
from banyan.core.share import OFFER_ALL, Share
from banyan.drivers.openstack import REGISTRATION
from banyan.drivers.orders_contract import OrderContract
from tests.live.clouds import Lab, LiveCloud
from tests.live.figures import Direct
from tests.live.servers import swept


@pytest.fixture(scope="module", autouse=True)
def _projects(clouds: tuple[LiveCloud, ...]) -> Iterator[None]:
    with swept(clouds[0]):
        yield


class TestOrders(OrderContract):
    needs: ClassVar[dict[str, int]] = {"vcpu": 1, "memory_mib": 64, "disk_gib": 1}

    @pytest.fixture(autouse=True)
    def _cloud(self, clouds: tuple[LiveCloud, ...]) -> Iterator[None]:
        self.cloud = clouds[0]
        self.direct = Direct(self.cloud.clouds_file, self.cloud.admin)
        found = self.direct.pages("image", "/images", "images", status="active")[0]
        type(self).image = ImageSource("top", found["name"], f"{found['os_hash_algo']}:{found['os_hash_value']}")
        self.lab: Lab | None = None
        yield
        if self.lab is not None:
            self.lab.call("fault", "--name", self.cloud.lab, "spawn-fail", "0")

    def driver(self, share: Share = OFFER_ALL) -> Driver:
        options = {"cloud": self.cloud.admin, "clouds_file": str(self.cloud.clouds_file), "mode": "place"}
        return REGISTRATION.open(options, self.context(share))

    def failing(self) -> Driver:
        return REGISTRATION.open({"cloud": "nowhere", "clouds_file": "/dev/null", "mode": "place"}, self.context())

    def failing_builds(self) -> Driver | None:
        if not self.cloud.lab:
            return None
        self.lab = Lab()
        self.lab.call("fault", "--name", self.cloud.lab, "spawn-fail", "1")
        return self.driver()


# What a scan owes is looked at in test_driver.py, through the same driver: here it would cost a minute.
for _name in [name for name in dir(TestOrders) if name.startswith("test_") and name[5:7] < "18"]:
    setattr(TestOrders, _name, None)
