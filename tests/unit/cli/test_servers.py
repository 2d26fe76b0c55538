"""banyan server: ordered, listed, shown, explained and deleted, for people and for scripts."""

from __future__ import annotations

import json

from tests.api.surface import SERVER
from tests.unit.cli.conftest import Zone


def test_an_order_says_where_each_server_went_and_why(zone: Zone) -> None:
    result = zone.say("server", "create", "web", "--project", "p1", "--count", "3", "--vcpu", "2")
    assert result.status == 0
    assert result.out.count("top/north") == 3
    assert "most-room" in result.out
    assert "3 members looked at" in result.err
    made = json.loads(zone.say("server", "create", "web", "--project", "p1", "--json").out)
    assert [server["zone"] for server in made["servers"]] == ["top/north"]
    assert zone.surface.placed[made["servers"][0]["id"]].project == "p1"


def test_an_order_may_be_said_again_under_a_key_of_ones_own(zone: Zone) -> None:
    assert zone.say("server", "create", "web", "--project", "p1", "--retry-key", "deploy-17").status == 0
    assert zone.say("server", "create", "web", "--project", "p1").status == 0
    assert zone.surface.retry_keys == ["deploy-17", ""]


def test_no_room_is_a_refusal_with_the_counts(zone: Zone) -> None:
    result = zone.say("server", "create", "web", "--project", "p1", "--count", "101")
    assert (result.status, result.out) == (3, "")
    assert "312 looked at" in result.err
    assert "[no-valid-host]" in result.err


def test_fewer_than_all_must_be_fewer(zone: Zone) -> None:
    assert zone.say("server", "create", "web", "--project", "p1", "--count", "2", "--least", "3").status == 2


def test_servers_are_listed_shown_and_explained(zone: Zone) -> None:
    assert SERVER in zone.say("server", "placed", "--project", "p0").out
    assert "no server was made" in zone.say("server", "placed", "--project", "p9").err
    shown = zone.say("server", "show", SERVER)
    assert (shown.status, "building spawning" in shown.out) == (0, True)
    assert json.loads(zone.say("server", "show", SERVER, "--json").out)["id"] == SERVER
    assert "3 members looked at" in zone.say("server", "why", SERVER).out
    assert json.loads(zone.say("server", "why", SERVER, "--json").out)["levels"][0]["left_out"] == {"full": 2}
    assert zone.say("server", "show", "nobody").status == 4


def test_a_list_that_lacks_a_zone_says_so(zone: Zone) -> None:
    zone.surface.absent = ("top/south",)
    result = zone.say("server", "placed")
    assert (result.status, "top/south" in result.err) == (6, True)


def test_several_are_deleted_and_what_is_not_there_is_named(zone: Zone) -> None:
    result = zone.say("server", "delete", SERVER, "nobody")
    assert (result.status, f"{SERVER} deleting" in result.out, "nobody" in result.err) == (6, True, True)
    assert [one["task"] for one in json.loads(zone.say("server", "delete", SERVER, "--json").out)] == ["deleting"]
