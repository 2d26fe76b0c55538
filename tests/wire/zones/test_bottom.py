"""A rack whose own control fails, answers slowly, or answers again: what its zone and the zones above say of it.

The rack is simulated, the zones are real. What an OpenStack cloud's API may do is tried in the driver's own tests.
"""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.wire.zones.processes import Cloud, Zone

pytestmark = pytest.mark.slow


def settings(*steps: str, interval: float = 1.0) -> str:
    script = ", ".join(f"{{ {step} }}" for step in steps)
    return f"""
[terms]
lease = 6.0
grace = 3.0
report = 1.0

[scan]
interval = {interval}
probe_interval = 1.0

[[rack]]
name = "cage"
driver = "sim"
options = {{ hosts = 4, guests = 8, script = [{script}] }}
"""


def hosts_of(top: Zone) -> tuple[int, int]:
    """Live and unknown."""
    usage = top.ask("/v1/usage")[1]
    return usage["hosts"]["total"], usage["unknown"]["hosts"]


def test_a_rack_that_fails_makes_its_zone_unavailable_and_says_why(tmp_path: Path) -> None:
    with Cloud(tmp_path) as cloud:
        top = cloud.zone("top").start()
        steps = ('at = 6, do = "fail", reason = "401: the password of nova ended"', 'at = 14, do = "recover"')
        lab = cloud.zone("lab", code=top.code(), settings=settings(*steps, interval=600.0)).start()
        top.wait_for_zone("lab", state="ready", health="alive", hosts=4)
        row = top.wait_for_zone("lab", health="unavailable")
        assert "401: the password of nova ended" in row["reason"]
        assert (row["state"], row["admin"]) == ("ready", "enabled"), "it is ill, and neither lost nor decided upon"
        assert lab.uplink()["state"] == "connected"
        top.wait_until(lambda: hosts_of(top) == (0, 4), "to show its hosts as unknown")
        usage = top.usage()
        assert usage["zones"]["unavailable"] == 1 and usage["zones"]["lost"] == 0
        assert usage["unknown"]["resources"]["vcpu"]["used"] > 0, "what it last had is kept apart, and not forgotten"
        [rack] = top.cli("rack", "list", "--json").json()
        assert rack["health"] == "unavailable" and "401: the password of nova ended" in rack["reason"]
        assert top.cli("host", "list", "--json").status == 0

        # The next scan is ten minutes away; a probe that succeeds calls for one now.
        top.wait_for_zone("lab", health="alive", reason="")
        top.wait_until(lambda: hosts_of(top) == (4, 0), "to count its hosts again")
        kinds = [line["kind"] for line in top.journal(about="lab")]
        assert kinds[-2:] == ["child-unavailable", "child-alive"]
        assert [line["kind"] for line in lab.journal(about="cage")] == [
            "rack-added", "rack-scanned", "rack-unavailable", "rack-available",
        ]  # fmt: skip


def test_a_rack_that_is_never_read_joins_all_the_same_and_is_not_ready(tmp_path: Path) -> None:
    with Cloud(tmp_path) as cloud:
        top = cloud.zone("top").start()
        steps = ('at = 0, do = "fail", reason = "nothing answers at the auth URL"', 'at = 8, do = "recover"')
        lab = cloud.zone("lab", code=top.code(), settings=settings(*steps)).start()
        row = top.wait_for_zone("lab", health="unavailable")
        assert row["state"] != "ready" and "nothing answers at the auth URL" in row["reason"]
        assert lab.uplink()["state"] == "connected"
        top.wait_for_zone("lab", state="ready", health="alive", hosts=4)


def test_a_slow_rack_keeps_nobody_waiting_above(tmp_path: Path) -> None:
    """Its scan takes longer than a lease; heartbeats do not wait for it."""
    with Cloud(tmp_path) as cloud:
        top = cloud.zone("top").start()
        slow = settings('at = 3, do = "slow", latency = 12.0')
        lab = cloud.zone("lab", code=top.code(), settings=slow).start()
        top.wait_for_zone("lab", state="ready", health="alive", hosts=4)
        before = len(top.journal(limit="1000"))
        assert states(lab, 12.0) == {"connected"}
        assert top.seen()["top/lab"]["health"] == "alive"
        assert {line["kind"] for line in top.journal(limit="1000")[before:]} <= {"child-ready"}
        assert hosts_of(top) == (4, 0)


def states(zone: Zone, seconds: float) -> set[str]:
    """The states of its uplink, seen over so many seconds."""
    end = time.monotonic() + seconds
    seen = set()
    while time.monotonic() < end:
        seen.add(str(zone.uplink().get("state")))
        time.sleep(0.2)
    return seen
