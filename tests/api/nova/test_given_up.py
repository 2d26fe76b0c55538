"""What is not had whole: orders that are taken back or cut to the quota, lists that end before their end."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from banyan.core.errors import Unreachable
from banyan.core.quota import DEFAULTS, Quota
from banyan.core.server import ServerPage, ServerQuery, VmState
from tests.api.nova.cloud import Cloud, run
from tests.api.nova.fakes import IMAGE

SERVER = {"name": "web", "imageRef": IMAGE, "flavorRef": "1"}


def test_servers_without_addresses_go_again_also_those_that_can_not_be_asked() -> None:
    """Each by itself might be in a zone that is away: the order is taken back as a whole, and is stored as that."""

    async def play(c: Cloud) -> None:
        async def away(*arguments: Any, **more: Any) -> Any:
            raise Unreachable("member-unreachable", "its zone is away", transient=True)

        c.networks.full = True
        c.servers.act = away
        many = {**SERVER, "networks": "auto", "min_count": 3, "max_count": 3}
        headers = {"Idempotency-Key": "k1"}
        answer = await c.ask("POST", "/servers", {"server": many}, version="2.37", headers=headers)
        assert answer.status_code == 409
        assert all(server.state is VmState.DELETED for server in c.servers.rows.values()) and len(c.servers.rows) == 3
        c.networks.full = False
        await c.ok("POST", "/servers", {"server": many}, version="2.37", headers=headers)
        assert len(c.servers.rows) == 6, "the key does not answer with servers that are gone"

    run(play)


def test_servers_that_could_not_be_taken_back_are_named() -> None:
    async def play(c: Cloud) -> None:
        async def away(*arguments: Any, **more: Any) -> Any:
            raise Unreachable("order-undecided", "the store does not answer", transient=True)

        c.networks.full = True
        c.servers.withdraw = away
        many = {**SERVER, "networks": "auto", "min_count": 3, "max_count": 3}
        answer = await c.ask("POST", "/servers", {"server": many}, version="2.37")
        assert answer.status_code == 503
        assert all(id in answer.text for id in c.servers.rows)

    run(play)


def test_as_many_are_made_as_the_quota_lets_between_the_least_and_the_most() -> None:
    """As Nova does (nova/compute/utils.py, check_num_instances_quota): the headroom, if it is at least the least."""

    async def play(c: Cloud) -> None:
        async def order(least: int, most: int) -> int:
            fields = {**SERVER, "networks": "none", "min_count": least, "max_count": most}
            answer = await c.ask("POST", "/servers", {"server": fields}, version="2.37")
            return answer.status_code

        assert await order(1, 10) == 202 and len(c.servers.rows) == 5
        assert await order(1, 10) == 403
        for id in list(c.servers.rows)[:3]:
            await c.ok("DELETE", f"/servers/{id}")
        assert await order(4, 9) == 403 and await order(2, 9) == 202
        assert len(c.servers.rows) == 8

    run(play, {**DEFAULTS, Quota.SERVERS: 7, Quota.VCPU: 5})


def test_a_list_that_was_given_up_nowhere_is_an_error() -> None:
    async def play(c: Cloud) -> None:
        async def nowhere(who: Any, query: ServerQuery, within: float | None = None) -> ServerPage:
            return ServerPage((), "no place")

        c.servers.page = nowhere
        assert (await c.ask("GET", "/servers?name=web")).status_code == 503

    run(play)


@pytest.mark.parametrize("restarted", [False, True])
def test_a_list_that_was_given_up_goes_on_and_is_not_taken_for_an_empty_one(restarted: bool) -> None:
    """The tree's page may be empty and still go on (zone/servers/listing.py), and there is an end to asking."""

    async def play(c: Cloud) -> None:
        wanted = await c.server(name="needle")
        for n in range(8):
            await c.server(name=f"hay{n}")
        real, looked = c.servers.page, 0

        async def few(who: Any, query: ServerQuery, within: float | None = None) -> ServerPage:
            nonlocal looked
            looked += 1
            page = await real(who, replace(query, name="", limit=2))
            return replace(page, servers=tuple(one for one in page.servers if query.name in one.name))

        c.servers.page = few
        c.compute.lists.most = 2
        path, pages, found = "/servers?name=needle", 0, []
        while path:
            page = await c.ok("GET", path)
            found += [one["id"] for one in page["servers"]]
            links = page.get("servers_links")
            path = links[0]["href"].split("/v2.1", 1)[1] if links else ""
            pages += 1
            if restarted:
                c.compute.lists._places.clear()
        assert found == [wanted] and pages == 3 and looked == 5

    run(play)
