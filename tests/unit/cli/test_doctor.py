"""What `banyan doctor` calls not well: one fault at a time in a zone that is well, and nothing else is named."""

from __future__ import annotations

import json
from collections.abc import Mapping

import msgspec
import pytest

from banyan.cli.doctor import diagnose, read_metrics
from banyan.zone.views import RackView, StatusView, UplinkView, ZoneTotals
from tests.unit.cli.conftest import Zone

NOW = 1_796_000_000.0  # 2026-11-29T23:33:20Z
TIME = "2026-11-29T23:33:20Z"
DAY = 86_400.0

RACK = RackView("top/lab", "sim", "c0de", "sim", "available", "", "exclusive", "hosts", 4, 9, 1, TIME, {})
UPLINK = UplinkView("top", ("top:8781",), "connected", "", True, "top/lab", None, "2026-11-30T20:00:00Z", 10, 20)
STATUS = StatusView(
    name="lab",
    path="top/lab",
    code="a6t85p2n",
    version="1",
    epoch=1,
    time=TIME,
    time_offset=0.1,
    uplinks=(UPLINK,),
    children=ZoneTotals(3, 3, 3, 0, 0, 0),
    racks=(RACK,),
    ca_fingerprint="ab",
    ca_until="2036-11-29T00:00:00Z",
    public_key="k",
    journal=5,
)
METRICS = {
    "banyan_loop_held_seconds": 0.01,
    "banyan_loop_lag_seconds": 0.0,
    'banyan_api_queue_depth{door="public"}': 0,
    'banyan_api_queue_limit{door="public"}': 256,
    'banyan_api_queue_refused_total{door="public"}': 0,
    "banyan_store_waiting": 0,
    'banyan_deeds_unanswered_total{rack="sim"}': 0,
    'banyan_deeds_waiting{rack="sim"}': 0,
    "banyan_orders_held": 0,
    "banyan_orders_held_seconds": 0,
    "banyan_members_owed_a_word": 0,
    'banyan_activation_failing{name="inventory",rack="c0de"}': 0,
    'banyan_scan_interval_seconds{rack="sim"}': 60,
    'banyan_receiver_failing{receiver="pager"}': 0,
    'banyan_receiver_backlog{receiver="pager"}': 12,
    "banyan_disk_free_bytes": 50 << 30,
    "banyan_database_growth_bytes_per_day": 1 << 20,
    "banyan_backup_made_seconds": NOW - DAY,
}


def found(status: StatusView = STATUS, metrics: Mapping[str, float] = METRICS, days: float = 7.0) -> dict[str, str]:
    """What is not well, by what was looked at."""
    text = "# TYPE banyan_x gauge\n" + "".join(f"{name} {value}\n" for name, value in metrics.items())
    looked = list(diagnose(status, read_metrics(text), days))
    assert all(one.remedy for one in looked if not one.ok), "what is not well has something to do"
    assert len({one.what for one in looked}) == len(looked)
    return {one.what: one.found for one in looked if not one.ok}


def test_a_zone_that_is_well_has_nothing_to_do() -> None:
    assert found() == {}


CASES: dict[str, tuple[dict[str, object], dict[str, float]]] = {
    "zone": ({"ready": False, "reason": "the store is away"}, {}),
    "restore": ({"restored_at": TIME}, {}),
    "zones below": ({"children": ZoneTotals(3, 3, 2, 0, 1, 0)}, {}),
    "clock": ({"time_offset": -31.0}, {}),
    "CA": ({"ca_until": "2027-01-01T00:00:00Z"}, {}),
    "event loop": ({}, {"banyan_loop_held_seconds": 1.5}),
    "requests (public)": ({}, {'banyan_api_queue_depth{door="public"}': 200}),
    "store": ({}, {"banyan_store_waiting": 2000}),
    "deeds (sim)": ({}, {'banyan_deeds_waiting{rack="sim"}': 20_000}),
    "orders": ({}, {"banyan_orders_held": 3, "banyan_orders_held_seconds": 4000}),
    "activities": ({}, {'banyan_activation_failing{name="inventory",rack="c0de"}': 1}),
    "receiver pager": ({}, {'banyan_receiver_failing{receiver="pager"}': 1}),
    "disk": ({}, {"banyan_disk_free_bytes": 100 << 20}),
    "backup": ({}, {"banyan_backup_made_seconds": NOW - 8 * DAY}),
}


@pytest.mark.parametrize("what", CASES)
def test_each_fault_is_named_alone(what: str) -> None:
    status, metrics = CASES[what]
    assert list(found(msgspec.structs.replace(STATUS, **status), {**METRICS, **metrics})) == [what]


def test_a_parent_that_is_away_says_why_and_one_whose_certificate_ends_says_when() -> None:
    def of(**changes: str) -> dict[str, str]:
        return found(msgspec.structs.replace(STATUS, uplinks=(msgspec.structs.replace(UPLINK, **changes),)))

    assert of(state="cut", reason="no route") == {"parent top": "cut: no route"}
    assert "good for 60 minutes more" in of(certificate_until="2026-11-30T00:33:20Z")["parent top"]
    assert "is over" in of(certificate_until="2026-11-29T23:33:19Z")["parent top"]


def test_a_scan_is_late_by_its_own_interval() -> None:
    old = msgspec.structs.replace(RACK, scanned_at="2026-11-29T23:28:20Z")  # 300 s
    status = msgspec.structs.replace(STATUS, racks=(old,))
    assert "5 minutes ago" in found(status)["rack sim"]
    assert not found(status, {**METRICS, 'banyan_scan_interval_seconds{rack="sim"}': 300})
    never = msgspec.structs.replace(STATUS, racks=(msgspec.structs.replace(RACK, scanned_at=None),))
    assert "not scanned yet" in found(never)["rack sim"]


def test_a_disk_that_will_be_full_is_named_before_it_is() -> None:
    grows = {**METRICS, "banyan_database_growth_bytes_per_day": 10 << 30}
    assert "full in 5 days" in found(STATUS, grows)["disk"]
    assert not found(STATUS, {**METRICS, "banyan_database_growth_bytes_per_day": -5.0})


def test_what_is_not_told_is_never_called_well_where_it_matters() -> None:
    less = {name: value for name, value in METRICS.items() if not name.startswith(("banyan_disk", "banyan_backup"))}
    assert set(found(STATUS, less)) == {"disk", "backup"}
    assert set(found(STATUS, less, days=0)) == {"disk"}


def test_the_command_ends_with_1_if_something_is_not_well(zone: Zone) -> None:
    result = zone.say("doctor", "--json")
    rows = json.loads(result.out)
    assert result.status == 1
    assert {row["what"] for row in rows if not row["ok"]} >= {"disk", "backup"}
    assert "banyan backup" in zone.say("doctor").out


def test_lines_of_metrics_that_are_none_are_left_out() -> None:
    assert read_metrics('a{x="1",y="z\\"q"} 2\nnonsense\n# c\nb 1e3\n') == {
        "a": {(("x", "1"), ("y", 'z\\"q')): 2.0},
        "b": {(): 1000.0},
    }
