"""What the hints of an order may find out about a rack."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from msgspec.structs import replace as with_fields

from banyan.core.ids import ZoneCode
from banyan.core.order import Hints, Order
from banyan.core.server import NoValidHost
from banyan.simulate.world import World
from tests.scenario.leaves import SPEC, TOP, Client


@pytest.fixture
def client() -> Iterator[Client]:
    with World() as world:
        yield Client(world)


@pytest.mark.parametrize(("issuer", "project"), [(TOP, "p2"), (ZoneCode(99), "p1")])
def test_a_hint_says_nothing_of_another_projects_server(client: Client, issuer: ZoneCode, project: str) -> None:
    theirs = client.one()

    def order(**hint: tuple[str, ...]) -> list[str]:
        one = Order(f"o{hint}", issuer, project, "u2", with_fields(SPEC, hints=Hints(**hint)), 1, 1)
        taken = client.site.servers(lambda servers, caller: servers.order(caller, one))
        return [id for place in taken.order.placed for id in place.ids]

    with pytest.raises(NoValidHost):
        order(same_host=(theirs,))
    # As an id that is not there.
    assert order(different_host=(theirs,))
    client.settle()
