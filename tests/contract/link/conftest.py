"""What the files of this suite share: a transport for each test, and a few words."""

from __future__ import annotations

import pytest

from tests.contract.link.transports import TRANSPORTS, Transport


@pytest.fixture(params=sorted(TRANSPORTS))
def transport(request: pytest.FixtureRequest) -> Transport:
    made: Transport = TRANSPORTS[request.param]()
    return made
