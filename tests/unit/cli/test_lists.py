"""Lists and views: the documented shapes with --json, aligned text without, exit statuses."""

from __future__ import annotations

import json

import msgspec
import pytest

from banyan.cli.itself import well
from banyan.core.errors import Broken, Unreachable
from banyan.zone.views import StatusView, UplinkView, UsageView, ZoneView
from tests.api.surface import zone_view
from tests.unit.cli.conftest import Zone

PROMISED = {"name", "path", "code", "state", "health", "admin", "reason", "version", "as_of"}


def test_zone_list_is_a_bare_array_of_zones(zone: Zone) -> None:
    result = zone.say("zone", "list", "--json")
    assert (result.status, result.err) == (0, "")
    items = json.loads(result.out)
    assert [item["path"] for item in items] == [f"top/{path}" for path in sorted(zone.surface.tree)]
    assert all(item.keys() >= PROMISED for item in items)


def test_an_empty_list_is_an_empty_array(zone: Zone) -> None:
    assert zone.say("zone", "list", "--name", "nobody", "--json").out == "[]\n"


def test_an_empty_table_says_so_on_standard_error(zone: Zone) -> None:
    result = zone.say("zone", "list", "--name", "nobody")
    assert (result.status, result.out, result.err) == (0, "", "no zone matches\n")


def test_all_pages_are_followed(zone: Zone) -> None:
    zone.surface.tree = {f"z{n:04}": zone_view(f"z{n:04}") for n in range(2345)}
    assert len(json.loads(zone.say("zone", "list", "--json").out)) == 2345
    assert len(json.loads(zone.say("zone", "list", "--json", "--limit", "1500").out)) == 1500
    lines = zone.say("zone", "list").out.splitlines()
    assert len(lines) == 2346
    assert len({line.index("ready") for line in lines[1:]}) == 1


def test_nothing_is_cut_short_away_from_a_terminal(zone: Zone) -> None:
    long = "-".join(["n" * 20] * 3)
    zone.surface.tree[long] = zone_view(long, reason="r" * 300)
    out = zone.say("zone", "list").out
    assert long in out and "r" * 300 in out
    assert "…" not in out


def test_what_could_not_be_asked_makes_it_partial(zone: Zone) -> None:
    zone.surface.absent = ("top/south/lab3", "top/south")
    for words in (("host", "list"), ("host", "list", "--json"), ("zone", "list", "--json")):
        result = zone.say(*words)
        assert result.status == 6
        assert "2 could not be asked: top/south/lab3, top/south" in result.err
        assert result.out


@pytest.mark.parametrize(
    ("words", "paths"),
    [
        (("--health", "lost"), ["top/south/lab3"]),
        (("--under", "north"), ["top/north/lab1", "top/north/lab2"]),
        (("--label", "site=berlin"), ["top/north/lab1"]),
        (("--name", "lab*", "--sort", "-path"), ["top/south/lab3", "top/north/lab2", "top/north/lab1"]),
        (("--limit", "1"), ["top/north"]),
    ],
)
def test_filters(zone: Zone, words: tuple[str, ...], paths: list[str]) -> None:
    assert [item["path"] for item in json.loads(zone.say("zone", "list", "--json", *words).out)] == paths


@pytest.mark.parametrize("words", [("rack", "list"), ("host", "list"), ("server", "list"), ("use",), ("journal",)])
def test_other_lists_in_both_forms(zone: Zone, words: tuple[str, ...]) -> None:
    assert isinstance(json.loads(zone.say(*words, "--json").out), list)
    table = zone.say(*words)
    assert table.status == 0
    assert len(table.out.splitlines()) > 1


def test_zone_show_and_status_are_objects(zone: Zone) -> None:
    shown = msgspec.json.decode(zone.say("zone", "show", "lab1", "--json").out, type=ZoneView)
    assert shown.path == "top/north/lab1"
    assert "top/north/lab1" in zone.say("zone", "show", "north/lab1").out
    assert msgspec.json.decode(zone.say("status", "--json").out, type=StatusView).name == "top"
    assert "lines" in zone.say("status").out


def test_status_says_at_which_parent_a_zone_is_not_whole(zone: Zone) -> None:
    found = msgspec.json.decode(zone.say("status", "--json").out, type=StatusView)
    up = UplinkView("top", ("top:1",), "connected", "", True, "top/x", None, None, 0, 0)
    replace = msgspec.structs.replace
    assert well(replace(found, ready=True, uplinks=(up,))) == "yes"
    cut = replace(up, state="cut", reason="banned: zone x is banned here")
    assert well(replace(found, ready=True, uplinks=(cut,))) == "yes; cut at its parent top"
    unknown = replace(up, parent="", state="joining")
    assert well(replace(found, ready=False, reason="scan: broke", uplinks=(unknown,))) == (
        "no: scan: broke; joining at its parent top:1"
    )


def test_a_zone_that_is_not_there(zone: Zone) -> None:
    result = zone.say("zone", "show", "nowhere")
    assert result.status == 4
    assert result.err == "banyan: no zone 'nowhere' below top [no-zone]\n"
    result = zone.say("zone", "show", "nowhere", "--json")
    assert json.loads(result.err) == {"error": {"code": "no-zone", "text": "no zone 'nowhere' below top"}}
    assert result.out == ""


def test_a_name_never_becomes_another_address(zone: Zone) -> None:
    assert zone.say("zone", "show", "../status").status == 4
    assert zone.say("zone", "show", "..").status == 2
    assert zone.say("zone", "show", "a?under=b#c").status == 4


def test_usage_is_the_object_of_the_contract(zone: Zone) -> None:
    usage = msgspec.json.decode(zone.say("usage", "--json").out, type=UsageView)
    assert usage.resources["vcpu"].used == 1200
    raw = json.loads(zone.say("usage", "--json").out)
    assert set(raw["zones"]) >= {"total", "ready", "alive", "suspect", "lost", "disabled"}
    assert set(raw["unknown"]) >= {"zones", "hosts", "guests", "resources"}


def test_usage_as_a_picture_keeps_the_unknown_apart(zone: Zone) -> None:
    out = zone.say("usage").out
    assert "█" in out
    assert "1,200" in out
    unknown = next(line for line in out.splitlines() if line.startswith("unknown"))
    assert "50 hosts" in unknown and "top/south/lab3" in unknown and "as of 2026-11-30T12:00:00Z" in unknown


def test_the_tree_is_drawn(zone: Zone) -> None:
    drawn = zone.say("zone", "tree").out.splitlines()
    wanted = ["top", "├── north", "│   ├── lab1", "│   └── lab2", "└── south", "    └── lab3"]
    assert [line[: len(start)] for line, start in zip(drawn, wanted, strict=True)] == wanted


@pytest.mark.parametrize(
    ("error", "status"), [(Unreachable("member-unreachable", "away"), 5), (Broken("sick", "sick"), 1)]
)
def test_what_fails_at_the_zone_has_its_exit_status(zone: Zone, error: Exception, status: int) -> None:
    def fail(name: str) -> None:
        raise error

    zone.surface.before = fail
    result = zone.say("zone", "list")
    assert result.status == status
    assert "(request req-" in result.err


def test_no_zone_runs_there(zone: Zone) -> None:
    result = zone.say("zone", "list", "--data", "/nowhere/at-all", data=False)
    assert result.status == 5
    assert "banyan serve --data /nowhere/at-all" in result.err


def test_a_host_is_taken_out_of_service_and_back(zone: Zone) -> None:
    result = zone.say("host", "disable", "host-north/lab1", "--reason", "new fan", "--under", "north/lab1", "--down")
    assert (result.status, "disabled" in result.out, "new fan" in result.out) == (0, True, True)
    back = json.loads(
        zone.say("host", "enable", "host-north/lab1", "--rack", "sim", "--id", "id-north/lab1", "--json").out
    )
    assert (back["disabled"], back["up"]) == (False, True)
    assert [said[1:] for said in zone.surface.said] == [
        ("host.said", "host-north/lab1", {"reason": "new fan"}),
        ("host.said", "host-north/lab1", {"reason": ""}),
    ]
    assert zone.say("host", "disable", "none").status == 4
