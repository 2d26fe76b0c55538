"""Servers in zones that can not be asked, in the words of compute."""

from __future__ import annotations

import pytest

from banyan.api.nova.versions import HISTORY
from banyan.core.errors import Unreachable
from banyan.core.ids import read_guest_id
from tests.api.nova.cloud import Cloud, run

OLD = "f0000000-0000-4000-8000-000000000000"


def away() -> Unreachable:
    return Unreachable("member-unreachable", "server is in top/leaf, which can not be asked now", transient=True)


@pytest.mark.parametrize("version", ["2.69", "2.96"])
def test_a_server_whose_zone_is_away_is_shown_as_far_as_its_id_tells(version: str) -> None:
    async def play(c: Cloud) -> None:
        id = await c.server()
        whole = (await c.ok("GET", f"/servers/{id}", version=version))["server"]
        c.servers.away = away()
        server = (await c.ok("GET", f"/servers/{id}", version=version))["server"]
        assert set(server) == {"id", "status", "created", "links"}
        assert server["status"] == "UNKNOWN" != whole["status"]
        assert [server[key] for key in ("id", "created", "links")] == [whole[key] for key in ("id", "created", "links")]
        assert read_guest_id(id) is not None

    run(play)


def test_before_2_69_and_for_whatever_else_is_asked_the_answer_names_the_zone() -> None:
    async def play(c: Cloud) -> None:
        id = await c.server()
        c.servers.away = away()
        for version, path in (("2.68", ""), ("2.1", ""), ("2.96", "/metadata"), ("2.96", "/os-interface")):
            answer = await c.ask("GET", f"/servers/{id}{path}", version=version)
            assert answer.status_code == 503, (version, path, answer.text)
            assert "top/leaf" in answer.text
            assert answer.headers["Retry-After"]
        for error in (Unreachable("store-busy", "the store is busy", transient=True), away()):
            c.servers.away = error
            unknown = OLD if error.code == "member-unreachable" else id
            assert (await c.ask("GET", f"/servers/{unknown}", version="2.96")).status_code == 503

    run(play)


def test_lists_name_the_zones_that_are_away_and_are_whole_otherwise() -> None:
    async def play(c: Cloud) -> None:
        id = await c.server()
        c.servers.absent = ("top/leaf",)
        for path in ("/servers", "/servers/detail"):
            answer = await c.ask("GET", path, version="2.96")
            assert (answer.status_code, [one["id"] for one in answer.json()["servers"]]) == (200, [id])
            assert answer.headers["X-Banyan-Absent"] == "top/leaf"
        assert "X-Banyan-Absent" in HISTORY[69]

    run(play)
