"""Clocks that were set wrong, by months and by seconds, on real processes; and a parent that stood still.

A child's machine may believe what it likes: it learns the time from its parent's proof, and judges certificates by
that. A process that was stopped for longer than any lease blames nobody for it.
"""

from __future__ import annotations

import time
from datetime import datetime
from pathlib import Path

import pytest

from banyan.trust.issued import read_issued
from tests.wire.zones.processes import Cloud, Zone, start
from tests.wire.zones.stores import look

pytestmark = pytest.mark.slow

DAY = 86_400.0
SHORT = "[terms]\nlease = 4.0\ngrace = 2.0\nreport = 2.0\n"


def wrong(zone: Zone, seconds: float) -> Zone:
    """The zone, on a machine whose clock is off by so much."""
    zone.program, zone.environment = "doomed", {"SHIFT": str(seconds)}
    return zone


def instant(text: str) -> float:
    return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


def off(zone: Zone) -> float:
    """How far a zone's idea of the time is from the truth, seconds."""
    return abs(instant(zone.status()["time"]) - time.time())


@pytest.mark.parametrize("seconds", [-150 * DAY, 150 * DAY, -30.0, 30.0, -7200.0], ids="{:g} s".format)
def test_a_child_whose_clock_is_wrong_joins_and_knows_the_time(tmp_path: Path, seconds: float) -> None:
    with Cloud(tmp_path) as cloud:
        top = cloud.zone("top").start()
        lab = wrong(cloud.zone("lab", code=top.code("--expires", "1h"), hosts=2), seconds).start()
        top.wait_for_zone("lab", state="ready", health="alive", hosts=2)
        status = lab.status()
        assert off(lab) < 10
        assert abs(status["time_offset"] + seconds) < 10, "it says by how much it corrects"
        assert abs(instant(status["uplinks"][0]["certificate_until"]) - time.time() - DAY) < 600
        joined = next(line for line in lab.journal() if line["kind"] == "joined")
        assert abs(instant(joined["at"]) - time.time()) < 120, "and writes its journal by that time"
        assert top.usage()["as_of"] is not None and abs(instant(top.usage()["as_of"]) - time.time()) < 120
        # The battery is changed: the same zone, with the right time from now on.
        lab.kill()
        lab.environment = {}
        lab.start()
        lab.wait_for_uplink("connected")
        top.wait_for_zone("lab", state="ready", health="alive")
        assert off(lab) < 10 and abs(lab.status()["time_offset"]) < 10
        assert [line["text"] for line in top.journal(outcome="refused")] == []


@pytest.mark.parametrize("seconds", [-150 * DAY, 150 * DAY], ids="{:g} s".format)
def test_a_clock_that_goes_wrong_after_the_join(tmp_path: Path, seconds: float) -> None:
    """By its own clock its certificate, and its parent's, would be over or would not have begun."""
    with Cloud(tmp_path) as cloud:
        top = cloud.zone("top").start()
        lab = cloud.zone("lab", code=top.code(), hosts=1).start()
        top.wait_for_zone("lab", state="ready", health="alive")
        lab.kill()
        wrong(lab, seconds).start()
        lab.wait_for_uplink("connected")
        assert off(lab) < 10
        top.wait_for_zone("lab", state="ready", health="alive")
        assert "child-recovered" not in top.kinds(), "nothing had run out"
        assert [line["text"] for line in top.journal(outcome="refused")] == []
        lab.kill()
        [uplink] = look(lab.data, lambda unit: unit.uplinks.all())
        until = read_issued(uplink.certificate).not_after
        assert abs(until - time.time() - DAY) < 600


def test_a_parent_whose_clock_is_ahead_is_believed_by_new_children_and_not_by_old_ones_when_it_goes_back(
    tmp_path: Path,
) -> None:
    """The parent's time is its tree's time. What was proved past stays past: a parent set back by days is refused."""
    with Cloud(tmp_path) as cloud:
        top = wrong(cloud.zone("top"), 20 * DAY).start()
        lab = cloud.zone("lab", code=top.code(), hosts=1).start()
        top.wait_for_zone("lab", state="ready", health="alive")
        assert abs(lab.status()["time_offset"] - 20 * DAY) < 10
        top.kill()
        top.environment = {}
        top.start()
        # A zone remembers the newest instant that it has seen, so its own clock does not lead it back either.
        lab.wait_for_uplink("connected")
        assert instant(top.status()["time"]) > time.time() + 19 * DAY
        top.wait_for_zone("lab", state="ready", health="alive")


def test_a_certificate_that_ran_out_while_cut_off(tmp_path: Path) -> None:
    """Its parent is back after two days, and then after a hundred: renewed with nobody's help, and then not."""
    with Cloud(tmp_path) as cloud:
        top = cloud.zone("top").start()
        lab = cloud.zone("lab", code=top.code("--uses", "2"), hosts=1).start()
        before = top.wait_for_zone("lab", state="ready", health="alive")
        lab.kill()
        top.kill()
        wrong(top, 2 * DAY).start()
        lab.start()
        lab.wait_for_uplink("connected")
        assert top.wait_for_zone("lab", state="ready", health="alive")["code"] == before["code"]
        until = instant(lab.status()["uplinks"][0]["certificate_until"])
        assert abs(until - time.time() - 3 * DAY) < 600, "a day from the time that the parent proves"
        assert top.kinds().count("child-recovered") == 1

        lab.kill()
        top.kill()
        wrong(top, 100 * DAY).start()
        lab.start()
        lab.wait_until(lambda: "certificate-expired" in lab.uplink().get("reason", ""), "to be refused")
        assert "join it again with a new code" in lab.uplink()["reason"], "it names the way back"
        lab.kill()
        lab.give(top.code()).start()
        lab.wait_for_uplink("connected")
        assert top.wait_for_zone("lab", state="ready", health="alive")["code"] == before["code"]


# --- standing still -------------------------------------------------------------------------------


@pytest.mark.parametrize("together", [False, True], ids=["the parent alone", "all of them"])
def test_a_parent_that_was_stopped_declares_nobody_lost(tmp_path: Path, together: bool) -> None:
    """Alone, it finds its children's words waiting; when all stood still with it, as a machine that was suspended, it
    finds nothing, and gives everybody a full term."""
    with Cloud(tmp_path) as cloud:
        top = cloud.zone("top", settings=SHORT).start()
        code = top.code("--uses", "2")
        children = [cloud.zone(name, code=code, hosts=1) for name in ("east", "west")]
        start(*children)
        for child in children:
            top.wait_for_zone(child.name, state="ready", health="alive")
        before = len(top.journal(limit="1000"))
        still = [*children, top] if together else [top]
        for zone in still:
            zone.freeze()
        # Longer than lease and grace together, and than all that is added for drift and lateness.
        time.sleep(4.0 * 1.03 + 2.0 + 4.0)
        top.thaw()
        end = time.monotonic() + 2.0
        while time.monotonic() < end:
            assert {row["health"] for row in top.seen().values()} == {"alive"}
            time.sleep(0.05)
        for child in children:
            child.thaw()
        for child in children:
            child.wait_for_uplink("connected")
        kinds = [line["kind"] for line in top.journal(limit="1000")[before:]]
        assert "child-lost" not in kinds and "child-suspect" not in kinds


def test_a_child_that_was_stopped_is_suspect_then_lost_then_back(tmp_path: Path) -> None:
    """The other half: with the same terms a child that stands still is noticed in time, and told of when it is back."""
    with Cloud(tmp_path) as cloud:
        top = cloud.zone("top", settings=SHORT).start()
        lab = cloud.zone("lab", code=top.code(), hosts=2).start()
        top.wait_for_zone("lab", state="ready", health="alive", hosts=2)
        lab.freeze()
        began = time.monotonic()
        row = top.wait_for_zone("lab", health="lost")
        took = time.monotonic() - began
        assert 4.0 < took < 30.0
        assert "last heard at" in row["reason"] and row["state"] == "ready"
        usage = top.usage()
        assert usage["hosts"]["total"] == 0 and usage["unknown"]["hosts"] == 2
        lab.thaw()
        top.wait_for_zone("lab", health="alive")
        top.wait_until(lambda: top.ask("/v1/usage")[1]["hosts"]["total"] == 2, "to count it again")
        kinds = [line["kind"] for line in top.journal(about="lab")]
        assert kinds[-3:] == ["child-suspect", "child-lost", "child-alive"]


def test_usage_answers_at_once_when_every_child_stands_still(tmp_path: Path) -> None:
    with Cloud(tmp_path) as cloud:
        top = cloud.zone("top").start()
        code = top.code("--uses", "3")
        children = [cloud.zone(f"z{n}", code=code, hosts=1) for n in range(3)]
        for child in children:
            child.spawn()
        for child in children:
            top.wait_for_zone(child.name, state="ready", health="alive")
        for child in children:
            child.freeze()
        began = time.monotonic()
        status, usage = top.ask("/v1/usage")
        assert status == 200 and usage["zones"]["total"] == 3
        status, _ = top.ask("/v1/zones?limit=100")
        assert status == 200
        assert time.monotonic() - began < 2.0, "nobody below is asked for it"
        for child in children:
            child.thaw()
