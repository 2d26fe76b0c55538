"""SIGKILL of a real zone while it places and builds servers: its simulated hosts go on, and it finds them again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from banyan.core.server import Power
from banyan.core.time import Mono
from banyan.drivers.sim.book import FileBook
from banyan.drivers.sim.machines import Machines
from tests.wire.zones.processes import Cloud, Zone
from tests.wire.zones.stores import check_journal, look
from tests.wire.zones.test_kill import doomed, reborn, wait_for_death

pytestmark = pytest.mark.slow

RACK = ("--driver", "sim", "--hosts", "3", "--option", "build_seconds=0.6")


def placed(zone: Zone) -> list[dict[str, Any]]:
    said = zone.cli("server", "placed", "--json")
    assert said.status == 0, said
    return list(said.json())


def active(zone: Zone, count: int) -> bool:
    return [server["state"] for server in placed(zone)] == ["active"] * count


def machines(zone: Zone) -> Machines:
    """The simulated hosts' own memory, which no zone keeps."""
    (path,) = zone.data.glob("racks/*/machines")
    found = Machines(FileBook(path))
    found.open(Mono(0.0))
    return found


def check(zone: Zone, count: int) -> None:
    """So many servers, each built once, counted once; all of it in a whole journal."""
    zone.wait_until(lambda: active(zone, count), f"to have {count} active servers")
    zone.wait_until(lambda: zone.usage()["resources"]["vcpu"]["used"] == count, "to count what is used")
    assert zone.usage()["guests"]["active"] == count
    zone.stop()
    hosts = machines(zone)
    assert len(hosts) == count
    for guest in hosts.guests():
        machine = hosts.get(guest, Mono(1e12))
        assert machine is not None
        assert (machine.copy.power, machine.copy.boots, machine.copy.move) == (Power.RUNNING, 1, 1)
    look(zone.data, check_journal)


@pytest.mark.parametrize("step", ["order.claimed", "server.done"])
@pytest.mark.parametrize("phase", ["before", "after"])
def test_a_zone_that_is_killed_loses_no_server_and_builds_none_twice(tmp_path: Path, step: str, phase: str) -> None:
    with Cloud(tmp_path) as cloud:
        zone = doomed(cloud.zone("leaf", *RACK), f"{phase}:{step}").start()
        zone.wait_until(lambda: zone.usage()["hosts"]["total"] == 3, "to be scanned")
        said = zone.cli("server", "create", "web", "--project", "p1", "--count", "4", "--json")
        wait_for_death(zone)
        told = said.json()["servers"] if said.status == 0 else None
        reborn(zone).start()
        kept = placed(zone)
        # What was acknowledged is there; what was not may be there as well, found like any other.
        assert told is None or len(kept) == len(told) == 4
        check(zone, len(kept))


def test_guests_live_while_no_zone_looks_after_them(tmp_path: Path) -> None:
    with Cloud(tmp_path) as cloud:
        zone = cloud.zone("leaf", *RACK).start()
        zone.wait_until(lambda: zone.usage()["hosts"]["total"] == 3, "to be scanned")
        said = zone.cli("server", "create", "web", "--project", "p1", "--count", "3")
        assert said.status == 0, said
        zone.kill()
        assert len(machines(zone)) == 3
        zone.start()
        check(zone, 3)
