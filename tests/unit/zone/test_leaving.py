"""What `leave` says of what stays: it claims nothing that it did not look at."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

from banyan.zone.front import Front
from tests.unit.zone.household import ADMIN, Household


def test_a_rack_stays_with_the_servers_that_banyan_may_have_made_in_it() -> None:
    house = Household()
    house.zone.racks[1] = SimpleNamespace(name="sim")
    admin = replace(ADMIN, issuer=house.zone.own.code)
    page = house.run(Front(house.zone).leave(admin, False))
    said = b" ".join(bytes(item) for item in page.items).decode()
    house.zone.racks.clear()
    house.close()
    assert "every server in it" in said
    assert "nothing" not in said
