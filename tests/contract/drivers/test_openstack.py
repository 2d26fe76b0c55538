"""The openstack driver does its numbered duties, on a stand-in cloud."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import pytest

from banyan.core.order import ImageSource
from banyan.core.ports import Driver
from banyan.core.share import OFFER_ALL, Share
from banyan.drivers.contract import DriverContract
from banyan.drivers.openstack import REGISTRATION
from banyan.drivers.orders_contract import OrderContract
from tests.unit.drivers.openstack.standin import PASSWORD, TOKEN, StandIn
from tests.unit.drivers.openstack.test_scan import filled


class TestOpenStack(DriverContract):
    secrets: ClassVar[tuple[str, ...]] = (PASSWORD, TOKEN)

    @pytest.fixture(autouse=True)
    def _cloud(self, tmp_path: Path):
        self.standin = StandIn()
        filled(self.standin, hosts=300, servers=40)
        self.path = self.standin.clouds_yaml(tmp_path)
        self.nowhere = tmp_path / "nowhere.yaml"
        self.nowhere.write_text(self.path.read_text().replace(self.standin.url, "http://127.0.0.1:1"))
        yield
        self.standin.close()

    def driver(self, share: Share = OFFER_ALL) -> Driver:
        return REGISTRATION.open({"cloud": "standin", "clouds_file": str(self.path)}, self.context(share))

    def failing(self) -> Driver:
        return REGISTRATION.open({"cloud": "standin", "clouds_file": str(self.nowhere)}, self.context())


@pytest.mark.parametrize("projects", ["own", "shared"])
class TestOrders(OrderContract):
    """In mode `place`, with few hosts: each duty of orders scans several times."""

    secrets: ClassVar[tuple[str, ...]] = (PASSWORD, TOKEN, "of-the-bottom")
    image: ClassVar[ImageSource | None] = ImageSource("top-image", "tiny", "sha512:2d23")

    @pytest.fixture(autouse=True)
    def _cloud(self, tmp_path: Path, projects: str):
        self.standin = StandIn()
        filled(self.standin, hosts=3, servers=4)
        self.path = self.standin.clouds_yaml(tmp_path)
        self.nowhere = tmp_path / "nowhere.yaml"
        self.nowhere.write_text(self.path.read_text().replace(self.standin.url, "http://127.0.0.1:1"))
        self.projects = projects
        yield
        self.standin.close()

    def _open(self, path: Path, share: Share = OFFER_ALL) -> Driver:
        options = {"cloud": "standin", "clouds_file": str(path), "mode": "place", "projects": self.projects}
        return REGISTRATION.open({**options, "deed_requests_per_second": 1_000}, self.context(share))

    def driver(self, share: Share = OFFER_ALL) -> Driver:
        return self._open(self.path, share)

    def failing(self) -> Driver:
        return self._open(self.nowhere)

    def failing_builds(self) -> Driver:
        self.standin.build_fails = lambda host: f"Build of instance on {host} aborted: no space left"
        return self.driver()
