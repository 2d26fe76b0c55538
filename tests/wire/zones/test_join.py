"""The main job, as people and scripts see it: zones join by themselves at depth 2, are scanned, counted and shown.

Everything here is the real command line against real processes. The shapes are those that scripts rely on.
"""

from __future__ import annotations

import json
import re
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from banyan.trust import tokens
from tests.wire.zones.processes import STOPPING, Cloud, Zone, banyan, free_port, start, together

pytestmark = pytest.mark.slow

PATHS = ["top/east", "top/north", "top/north/lab"]
ZONE_KEYS = ["name", "path", "code", "state", "health", "admin", "reason", "version", "as_of"]
RESOURCES = {"vcpu", "memory_mib", "disk_gib"}


@dataclass
class Tree:
    top: Zone
    east: Zone
    north: Zone
    lab: Zone
    nothing: dict[str, Any]


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tree]:
    """top ← east (5 hosts, 20 servers), north (no rack) ← lab (7 hosts, 10 servers)."""
    with Cloud(tmp_path_factory.mktemp("tree")) as cloud:
        top = cloud.zone("top").start()
        nothing = top.usage()
        east_code, north_code = together(
            lambda: top.code("--name", "east", "--driver", "sim", "--label", "site=berlin"), top.code
        )
        east = cloud.zone("east", "--option", "guests=20", "--label", "region=eu", code=east_code, hosts=5)
        north = cloud.zone("north", code=north_code)
        start(east, north)
        lab = cloud.zone("lab", "--option", "guests=10", code=north.code(), hosts=7).start()
        for path in PATHS:
            top.wait_for_zone(path, state="ready", health="alive")
        top.wait_until(lambda: top.ask("/v1/usage")[1]["hosts"]["total"] == 12, "to count 12 hosts")
        yield Tree(top, east, north, lab, nothing)


# --- what is shown --------------------------------------------------------------------------------


def test_zone_list_is_the_whole_tree_in_the_documented_shape(tree: Tree) -> None:
    rows = tree.top.cli("zone", "list", "--json").json()
    assert [row["path"] for row in rows] == PATHS
    for row in rows:
        assert list(row)[: len(ZONE_KEYS)] == ZONE_KEYS
        assert (row["state"], row["health"], row["admin"], row["reason"]) == ("ready", "alive", "enabled", "")
        assert row["name"] == row["path"].rpartition("/")[2]
        assert re.fullmatch(r"[0-9a-hjkmnp-tv-z]{8}", row["code"])
        assert re.fullmatch(r"\d+\.\d+\.\d+\S*", row["version"])
        heard = datetime.fromisoformat(row["as_of"].replace("Z", "+00:00"))
        assert abs(time.time() - heard.timestamp()) < 60
    assert len({row["code"] for row in rows}) == 3
    labels = {row["name"]: row["labels"] for row in rows}
    assert labels["east"] == {"site": "berlin", "region": "eu"}, "the zone's own labels, and those of its code"


def test_each_zone_is_asked_for_its_own_subtree(tree: Tree) -> None:
    below_north = tree.north.cli("zone", "list", "--json").json()
    assert [row["path"] for row in below_north] == ["top/north/lab"], "it knows its whole path"
    assert tree.lab.cli("zone", "list", "--json").json() == []
    codes = {row["path"]: row["code"] for row in tree.top.cli("zone", "list", "--json").json()}
    for zone, path in ((tree.east, "top/east"), (tree.north, "top/north"), (tree.lab, "top/north/lab")):
        status = zone.status()
        assert (status["path"], status["code"]) == (path, codes[path])
        [uplink] = status["uplinks"]
        assert (uplink["state"], uplink["path"]) == ("connected", path)
        assert uplink["lease_until"] is not None


def test_usage_is_the_sum_of_all_hosts_in_the_documented_shape(tree: Tree) -> None:
    usage = tree.top.usage()
    assert {"as_of", "zones", "hosts", "guests", "resources", "not_offered", "unknown"} <= set(usage)
    zones = usage["zones"]
    assert {key: zones[key] for key in ("total", "ready", "alive", "suspect", "lost", "disabled")} == {
        "total": 3, "ready": 3, "alive": 3, "suspect": 0, "lost": 0, "disabled": 0,
    }  # fmt: skip
    assert usage["hosts"] == {"total": 12, "up": 12, "disabled": 0}
    hosts = tree.top.cli("host", "list", "--json").json()
    assert len(hosts) == 12
    assert set(usage["resources"]) == RESOURCES
    for name, amount in usage["resources"].items():
        assert amount == {
            part: sum(host["resources"][name][part] for host in hosts) for part in ("physical", "total", "used")
        }
        assert amount["used"] > 0
    assert sum(usage["guests"].values()) == 30
    assert usage["guests"]["active"] > 0
    assert {"zones", "hosts", "guests", "resources"} <= set(usage["unknown"])
    assert (usage["unknown"]["zones"], usage["unknown"]["hosts"], usage["not_offered"]["hosts"]) == (0, 0, 0)


def test_usage_of_a_zone_that_has_nothing_has_the_same_shape(tree: Tree) -> None:
    nothing = tree.nothing
    assert set(nothing) == set(tree.top.usage())
    assert nothing["guests"] == {"active": 0}
    assert nothing["resources"] == {name: {"physical": 0, "total": 0, "used": 0} for name in RESOURCES}
    assert nothing["as_of"] is not None


def test_usage_of_a_part(tree: Tree) -> None:
    under = tree.top.cli("usage", "--under", "north", "--json").json()
    assert (under["path"], under["hosts"]["total"], under["zones"]["total"]) == ("top/north", 7, 1)
    own = tree.lab.usage()
    assert (own["hosts"]["total"], own["zones"]["total"], sum(own["guests"].values())) == (7, 0, 10)
    assert tree.north.usage()["hosts"]["total"] == 7


def test_tables_and_trees_for_people(tree: Tree) -> None:
    drawn = tree.top.cli("zone", "tree").out
    assert [line.strip(" │├└─").split()[0] for line in drawn.splitlines()] == ["top", "east", "north", "lab"]
    assert "ready  alive" in drawn
    table = tree.top.cli("zone", "list").out
    assert all(path in table for path in PATHS)
    shown = tree.top.cli("zone", "show", "lab")
    assert shown.status == 0
    assert "top/north/lab" in shown.out
    by_code = tree.top.cli(
        "zone", "show", tree.top.cli("zone", "show", "lab", "--json").json()["code"], "--json"
    ).json()
    assert by_code["path"] == "top/north/lab"
    assert tree.top.cli("usage").status == 0


def test_lists_of_racks_hosts_and_servers_with_filters(tree: Tree) -> None:
    racks = tree.top.cli("rack", "list", "--json").json()
    assert [(rack["zone"], rack["name"], rack["hosts"], rack["servers"], rack["health"]) for rack in racks] == [
        ("top/east", "sim", 5, 20, "available"),
        ("top/north/lab", "sim", 7, 10, "available"),
    ]
    hosts = tree.top.cli("host", "list", "--under", "lab", "--json").json()
    assert {host["zone"] for host in hosts} == {"top/north/lab"} and len(hosts) == 7
    assert all(host["up"] and not host["disabled"] and host["offered"] for host in hosts)
    assert len(tree.top.cli("host", "list", "--limit", "6", "--json").json()) == 6
    servers = tree.top.cli("server", "list", "--json").json()
    assert len(servers) == 30 and {"id", "name", "zone", "host", "state", "project"} <= set(servers[0])
    listed = tree.top.cli("zone", "list", "--label", "site=berlin", "--json").json()
    assert [row["path"] for row in listed] == ["top/east"]
    busiest = [row["path"] for row in tree.top.cli("zone", "list", "--sort", "-hosts", "--limit", "1", "--json").json()]
    assert len(busiest) == 1
    nothing = tree.top.cli("zone", "list", "--health", "lost", "--json")
    assert (nothing.status, nothing.json()) == (0, [])


def test_the_journal_tells_the_course_of_a_join_on_both_sides(tree: Tree) -> None:
    lines = tree.top.journal()
    of_east = [line["kind"] for line in lines if line["target"] == "east"]
    assert of_east[:2] == ["child-admitted", "child-registered"]
    assert of_east[-1] == "child-ready"
    assert set(of_east) <= {"child-admitted", "child-registered", "child-scanning", "child-counting", "child-ready"}
    assert [line["number"] for line in lines] == list(range(1, len(lines) + 1))
    admitted = next(line for line in lines if line["kind"] == "child-admitted" and line["target"] == "east")
    assert admitted["address"] == "127.0.0.1"
    assert admitted["facts"]["verifier"] == "join-code"
    created = next(line for line in lines if line["kind"] == "code-created")
    assert created["actor"].endswith("@local")
    below = tree.lab.kinds()
    assert below.index("zone-created") < below.index("rack-added") < below.index("joined")
    assert [line["kind"] for line in tree.top.journal(about="east", kind="child-ready")] == ["child-ready"]


def test_what_the_guide_alarms_on_is_measured(tree: Tree) -> None:
    told = re.findall(r"\bbanyan_[a-z_]+", Path("docs/guide/every-day.md").read_text(encoding="utf-8"))
    shown = "".join(zone.metrics() for zone in (tree.top, tree.east))
    assert told and not [name for name in sorted(set(told)) if f"\n{name}" not in shown]
    lines = dict(line.rsplit(" ", 1) for line in tree.east.metrics().splitlines() if not line.startswith("#"))
    assert lines['banyan_rack_available{rack="sim"}'] == "1"
    assert abs(time.time() - float(lines['banyan_rack_scanned_seconds{rack="sim"}'])) < 300
    left = float(lines['banyan_uplink_certificate_end_seconds{parent="top"}']) - time.time()
    assert 23 * 3600 < left <= 24 * 3600
    assert (lines["banyan_restored"], lines['banyan_uplink_connected{parent="top"}']) == ("0", "1")


# --- exit codes -----------------------------------------------------------------------------------


def test_exit_status_2_is_for_what_is_wrong_as_it_stands(tree: Tree, tmp_path: Path) -> None:
    wrong = together(
        lambda: tree.top.cli("zone", "list", "--colour", "red", "--json"),
        lambda: banyan("zone", "list", "--data", "a", "--url", "https://127.0.0.1:1", "--json"),
        lambda: banyan("serve", "--data", str(tmp_path / "x"), "--name", "Top_1", "--log-format", "text"),
        lambda: tree.top.cli("zone", "rename", "lab", "Not A Name", "--json"),
        lambda: tree.top.cli("zone", "disable", "--json"),
    )
    assert [said.status for said in wrong] == [2] * len(wrong)
    assert "--colour" in wrong[0].err
    assert "a zone name is 1 to 63 lower-case letters" in wrong[2].err and "'Top_1'" in wrong[2].err
    assert wrong[3].error()[0] == "bad-name"
    assert all("Traceback" not in said.err for said in wrong)


def test_exit_statuses_3_4_and_5(tree: Tree, tmp_path: Path) -> None:
    refused, nowhere, silent, taken = together(
        lambda: tree.top.cli("zone", "unban", "lab", "--json"),
        lambda: tree.top.cli("zone", "show", "nosuch", "--json"),
        lambda: banyan("zone", "list", "--data", str(tmp_path / "none"), "--json"),
        lambda: banyan("serve", "--data", str(tmp_path / "second"), "--name", "second",
                       "--listen-api", f"127.0.0.1:{tree.top.api}", "--listen-link", "127.0.0.1:0"),
    )  # fmt: skip
    assert refused.status == 3 and refused.error()[0] == "bad-transition"
    assert "that is enabled cannot take unban" in refused.error()[1]
    assert nowhere.status == 4 and nowhere.error()[0] == "no-zone"
    assert silent.status == 5 and silent.error()[0] == "not-running"
    assert "banyan serve --data" in silent.error()[1], "it says what to do"
    assert taken.status == 3 and "another process listens on" in taken.err


def test_a_stranger_with_a_wrong_token_is_refused_and_one_with_a_right_one_served(tree: Tree, tmp_path: Path) -> None:
    made = tree.top.cli("token", "create", "--role", "viewer", "--subject", "ops", "--expires", "1h", "--json")
    token = tmp_path / "token"
    token.write_text(made.json()["token"])
    forged = tmp_path / "forged"
    forged.write_text(made.json()["token"][:-4] + "AAAA")
    where = ["--url", f"https://127.0.0.1:{tree.top.api}", "--ca-file", str(tree.top.data / "api.pem"), "--json"]
    right, wrong, low, untrusted = together(
        lambda: banyan("zone", "list", *where, "--token-file", str(token)),
        lambda: banyan("zone", "list", *where, "--token-file", str(forged)),
        lambda: banyan("code", "create", *where, "--token-file", str(token)),
        lambda: banyan("zone", "list", *where[:2], "--json", "--token-file", str(token)),
    )
    assert [row["path"] for row in right.json()] == PATHS
    assert (wrong.status, wrong.error()[0]) == (3, "bad-token")
    assert (low.status, low.error()[0]) == (3, "forbidden")
    assert (untrusted.status, untrusted.error()[0]) == (3, "not-trusted")


def test_a_word_about_many_is_a_dry_run_until_apply(tree: Tree) -> None:
    plan = tree.top.cli("zone", "retire", "east", "--json").json()
    assert (plan["applied"], plan["action"]) == (False, "retire")
    assert [zone["path"] for zone in plan["zones"]] == ["top/east"]
    plan = tree.top.cli("zone", "disable", "--label", "site=berlin", "--json").json()
    assert [zone["path"] for zone in plan["zones"]] == ["top/east"]
    nobody = tree.top.cli("zone", "ban", "--health", "lost", "--apply", "--json")
    assert nobody.status == 4, "an empty choice means nothing, never all"
    assert {row["admin"] for row in tree.top.zones().values()} == {"enabled"}
    assert not [kind for kind in tree.top.kinds() if kind in ("child-retired", "child-disabled", "child-banned")]


# --- joining, leaving, starting again -------------------------------------------------------------


def test_a_refused_join_ends_serve_with_3_and_says_why(tree: Tree, tmp_path: Path) -> None:
    with Cloud(tmp_path) as cloud:
        used, other_name, other_driver = together(
            lambda: tree.top.code("--name", "east"), lambda: tree.top.code("--name", "west"),
            lambda: tree.top.code("--driver", "openstack"),
        )  # fmt: skip
        taken = cloud.zone("east", code=used)
        named = cloud.zone("eastern", code=other_name)
        driven = cloud.zone("sims", code=other_driver, hosts=1)
        ends = together(taken.run_to_end, named.run_to_end, driven.run_to_end)
        assert [said.status for said in ends] == [3, 3, 3]
        said = [said.err for said in ends]
        assert "a zone named 'east'" in said[0] and "banyan zone replace east" in said[0] and "[name-taken]" in said[0]
        assert "is for zones named 'west', not for 'eastern'" in said[1] and "[name-not-allowed]" in said[1]
        assert "is for driver 'openstack', not for 'sim'" in said[2] and "[driver-not-allowed]" in said[2]
        refusals = tree.top.journal(outcome="refused", kind="join-refused")
        assert {line["facts"]["code"] for line in refusals} >= {"name-taken", "name-not-allowed", "driver-not-allowed"}
        assert sorted(tree.top.zones()) == PATHS
        states = {row["id"]: row["used"] for row in tree.top.cli("code", "list", "--json").json()}
        assert sum(states.values()) == 2, "only east and north have used theirs"


def test_join_enrols_and_ends_and_serve_goes_on(tree: Tree, tmp_path: Path) -> None:
    with Cloud(tmp_path) as cloud:
        south = cloud.zone("south", code=tree.north.code(), hosts=2)
        joined = south.join("--json")
        assert (joined.status, joined.json()) == (0, {"path": "top/north/south"})
        # Its parent shows it from now on; zones above do when it has signed an entry of its own, in its first session.
        row = tree.north.wait_for_zone("top/north/south", state="joining")
        again = south.join("--json")
        assert again.json() == {"path": "top/north/south"}, "a second join changes nothing"
        codes = tree.north.cli("code", "list", "--json").json()
        assert [code["used"] for code in codes if code["used"]] == [1, 1]
        south.code_file = None
        south.start()
        ready = tree.top.wait_for_zone("top/north/south", state="ready", health="alive")
        assert ready["code"] == row["code"]
        assert tree.north.kinds().count("child-admitted") == 2, "lab and south, once each"
        assert south.stop() == 0
        # The code's file may stay in the unit's command line for ever.
        south.give("banyan1." + "A" * 40)
        broken = south.run_to_end()
        assert broken.status == 2 and "[code-mistyped]" in broken.err
        south.give(tree.top.code())
        elsewhere = south.run_to_end()
        assert elsewhere.status == 3 and "a child of north already" in elsewhere.err
        south.code_file = None
        south.start()
        tree.top.wait_for_zone("top/north/south", state="ready", health="alive")
        left = south.cli("leave", "--json").json()
        assert left["applied"] is False
        assert south.cli("leave", "--apply", "--json").json()["applied"] is True
        tree.top.wait_until(lambda: "top/north/south" not in tree.top.seen(), "to forget south")
        assert sorted(tree.top.zones()) == PATHS
        assert south.status()["uplinks"] == []


def test_join_says_so_when_no_parent_answers(tmp_path: Path, tree: Tree) -> None:
    with Cloud(tmp_path) as cloud, socket.create_server(("127.0.0.1", 0)) as nobody:
        code = tokens.parse(tree.top.code())
        port = nobody.getsockname()[1]
        nobody.close()
        lost = replace(code, addresses=(f"127.0.0.1:{port}",)).encode().reveal().decode()
        waiting = cloud.zone("waiting", code=lost)
        said = waiting.join("--patience", "1s", "--json")
        assert said.status == 5
        assert f"127.0.0.1:{port}" in said.error()[1]
        waiting.give(code.encode().reveal().decode())
        assert waiting.join("--json").json() == {"path": "top/waiting"}, "the right address works afterwards"
        assert tree.top.cli("zone", "retire", "waiting", "--apply", "--json").json()["state"] == "retired"


def test_sigterm_ends_in_time_and_leaves_no_process(tmp_path: Path) -> None:
    with Cloud(tmp_path) as cloud:
        top = cloud.zone("top").start()
        east = cloud.zone("east", code=top.code(), hosts=3).start()
        code = top.wait_for_zone("east", state="ready", health="alive")["code"]

        # The child first, then the parent; each time the tree is whole again by itself.
        for stopped in (east, top):
            began = time.monotonic()
            assert stopped.stop() == 0, stopped.tail()
            assert time.monotonic() - began < STOPPING
            assert stopped.running() == []
            assert "zone stopped" in stopped.tail() and "Traceback" not in stopped.tail(400)
            assert not stopped.answers()
            stopped.start()
            row = top.wait_for_zone("east", state="ready", health="alive")
            east.wait_for_uplink("connected")
            assert row["code"] == code
            top.wait_until(lambda: top.ask("/v1/usage")[1]["hosts"]["total"] == 3, "to count 3 hosts")
        kinds = top.kinds()
        assert [kinds.count(kind) for kind in ("child-admitted", "child-registered", "child-ready")] == [1, 1, 1]
        assert "child-lost" not in kinds
        assert east.kinds().count("joined") == 1
        assert east.kinds().count("rack-added") == 1


def test_a_restarted_parent_shows_its_children_before_they_come_back(tmp_path: Path) -> None:
    with Cloud(tmp_path) as cloud:
        top = cloud.zone("top").start()
        east = cloud.zone("east", code=top.code(), hosts=3).start()
        top.wait_for_zone("east", state="ready", health="alive")
        top.wait_until(lambda: top.ask("/v1/usage")[1]["hosts"]["total"] == 3, "to count 3 hosts")
        east.freeze()
        assert top.stop() == 0
        top.start()
        [row] = top.cli("zone", "list", "--json").json()
        assert (row["path"], row["state"], row["health"]) == ("top/east", "ready", "alive")
        assert top.usage()["hosts"]["total"] == 3, "what it last said is remembered"
        east.thaw()
        east.wait_for_uplink("connected")


def test_one_absent_zone_makes_a_list_partial_and_never_fails_it(tmp_path: Path) -> None:
    with Cloud(tmp_path) as cloud:
        terms = "[terms]\nlease = 4.0\ngrace = 2.0\nreport = 1.0\n"
        top = cloud.zone("top", settings=terms).start()
        east = cloud.zone("east", code=top.code("--uses", "2"), hosts=3)
        west = cloud.zone("west", hosts=4).give(east.code_file.read_text() if east.code_file else "")
        start(east, west)
        for name in ("east", "west"):
            top.wait_for_zone(name, state="ready", health="alive")
        east.kill()
        partial = top.cli("host", "list", "--json")
        assert partial.status == 6
        assert {host["zone"] for host in json.loads(partial.out)} == {"top/west"}
        assert "top/east" in partial.err
        row = top.wait_for_zone("east", health="lost")
        assert "last heard at" in row["reason"]
        usage = top.usage()
        assert usage["hosts"]["total"] == 4, "what is lost is not in the live totals"
        assert (usage["unknown"]["zones"], usage["unknown"]["hosts"], usage["unknown_names"]) == (1, 3, ["top/east"])
        assert {key: usage["zones"][key] for key in ("total", "alive", "lost")} == {"total": 2, "alive": 1, "lost": 1}
        assert [line["kind"] for line in top.journal(about="east")][-1] == "child-lost"
        east.start()
        top.wait_for_zone("east", health="alive")
        top.wait_until(lambda: top.ask("/v1/usage")[1]["hosts"]["total"] == 7, "to count 7 hosts")
        assert top.cli("host", "list", "--json").status == 0


def test_a_listed_key_joins_without_a_code_and_follows_its_parent_to_another_address(tmp_path: Path) -> None:
    with Cloud(tmp_path) as cloud:
        top = cloud.zone("top").start()
        pin = top.status()["ca_fingerprint"]
        lab = cloud.zone("lab", hosts=2).start()
        key = lab.status()["public_key"]
        lab.stop()
        there = ("--parent", f"127.0.0.1:{top.link}", "--parent-pin", pin)
        stranger = banyan("join", "--data", str(lab.data), "--name", "lab", *there, "--json")
        assert (stranger.status, stranger.error()[0]) == (3, "key-unknown")
        assert top.cli("key", "add", key, "lab", "--label", "site=berlin", "--mode", "observe").status == 0
        joined = banyan("join", "--data", str(lab.data), "--name", "lab", *there, "--json")
        assert joined.json() == {"path": "top/lab"}
        again = banyan("join", "--data", str(lab.data), "--name", "lab", *there)
        assert again.status == 0 and "nobody was asked" in again.err
        [admitted] = [line for line in top.journal() if line["kind"] == "child-admitted"]
        assert admitted["facts"]["verifier"] == "known-key"
        top.stop()
        top.link = free_port()
        top.start()
        lab.arguments = [*lab.arguments, "--parent", f"127.0.0.1:{top.link}", "--parent-pin", pin]
        lab.start()
        top.wait_for_zone("top/lab", state="ready", health="alive")
        lab.stop()
        elsewhere = banyan("join", "--data", str(lab.data), "--name", "lab", *there[:3], "ab" * 32, "--json")
        assert (elsewhere.status, elsewhere.error()[0]) == (3, "joined-elsewhere")
