"""The openstack driver does its numbered duties, on a stand-in cloud."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import pytest

from banyan.core.ports import Driver
from banyan.core.share import OFFER_ALL, Share
from banyan.drivers.contract import DriverContract
from banyan.drivers.openstack import REGISTRATION
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
