"""A stand-in cloud per test, and a driver for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from banyan.core.share import OFFER_ALL, Share
from banyan.drivers.openstack import REGISTRATION, OpenStackDriver
from tests.unit.drivers.fakes import StillClock, context
from tests.unit.drivers.openstack.standin import StandIn

Make = Callable[..., OpenStackDriver]
Placing = Callable[..., OpenStackDriver]


@pytest.fixture
def cloud() -> Iterator[StandIn]:
    standin = StandIn()
    yield standin
    standin.close()


@pytest.fixture
def make(cloud: StandIn, tmp_path: Path) -> Make:
    """Makes a driver for the stand-in; options may be given by name."""

    def made(share: Share = OFFER_ALL, clock: StillClock | None = None, **options: object) -> OpenStackDriver:
        path = cloud.clouds_yaml(tmp_path)
        settings = {"cloud": "standin", "clouds_file": str(path), "timeout": 5.0, **options}
        driver = REGISTRATION.open(settings, context(clock, share=share))
        assert isinstance(driver, OpenStackDriver)
        return driver

    return made


@pytest.fixture
def placing(cloud: StandIn, make: Make) -> Placing:
    """Makes a driver in mode `place` for the stand-in, which has three hosts and nothing on them."""
    for number in (1, 2, 3):
        cloud.add_host(number)
    cloud.add_rest()
    return lambda **options: make(**{"mode": "place", **options})
