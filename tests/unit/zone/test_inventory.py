"""A rack's inventory: only complete scans count, blips are no verdicts, death at any instant loses nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
import structlog

from banyan.core.digest import Digest
from banyan.core.errors import Conflict
from banyan.core.guest import GuestState
from banyan.core.rack import RackHealth
from banyan.core.records import StoreFull
from banyan.core.resources import VCPU
from banyan.core.zone import Condition
from tests.unit.zone.lab import RACK, SETTINGS, Killed, Lab, guest, host


@pytest.fixture
def lab() -> Iterator[Lab]:
    lab = Lab()
    lab.driver.hosts = [host(n) for n in range(3)]
    lab.driver.guests = [guest(1, 0), guest(2, 1, "p2"), guest(3, 1, "p2", GuestState.ERROR)]
    yield lab
    lab.close()


def kinds(lab: Lab) -> list[str]:
    return [line.kind for line in lab.journal()]


def test_before_the_first_scan_nothing_counts(lab: Lab) -> None:
    assert lab.members.scanning
    assert lab.fold() == Digest()


def test_the_first_scan_counts_and_is_told(lab: Lab) -> None:
    began = lab.clock.wall()
    lab.activate()
    assert lab.members.scanned
    live = lab.fold().live
    assert (live.hosts, live.resources[VCPU].total) == (3, 24)
    assert live.guests == {"active": 2, "error": 1}
    assert live.fits == {"memory_mib=1024,vcpu=1": 24}
    assert lab.fold().as_of == pytest.approx(began, abs=0.001)
    rack = lab.rack()
    assert (rack.health, rack.scanned_at, rack.generation) == (RackHealth.AVAILABLE, lab.fold().as_of, 1)
    assert kinds(lab) == ["rack-scanned"]
    assert lab.journal()[0].facts["hosts"] == "3"
    assert [(row.project, row.guests) for row in lab.streams.uses.page(None, 10)] == [("p1", 1), ("p2", 2)]


def test_the_next_scan_replaces_the_picture_and_says_nothing(lab: Lab) -> None:
    lab.activate()
    lab.driver.hosts = [host(0, used=5), host(9)]
    lab.driver.guests = [guest(1, 0)]
    lab.go_on(70.0)
    live = lab.fold().live
    assert (live.hosts, live.resources[VCPU].used) == (2, 5)
    assert live.guests == {"active": 1}
    assert lab.stored_hosts() == ["h0", "h9"]
    assert [row.project for row in lab.streams.uses.page(None, 10)] == ["p1"]
    assert kinds(lab) == ["rack-scanned"]


def test_it_scans_by_its_interval_and_looks_between(lab: Lab) -> None:
    lab.go_on(600.0)
    assert 9 <= lab.driver.scans <= 12
    assert 20 <= lab.driver.probes <= 50


def test_an_operator_may_ask_for_a_scan_now(lab: Lab) -> None:
    lab.activate()
    lab.activate()
    assert lab.driver.scans == 1
    lab.inventory.rescan()
    lab.activate()
    assert lab.driver.scans == 2


def test_a_scan_that_fails_half_way_changes_no_total(lab: Lab) -> None:
    lab.activate()
    before = lab.fold()
    lab.driver.hosts = [host(5), host(6), host(7)]
    lab.driver.fails_after = 2
    lab.inventory.rescan()
    lab.activate()
    assert lab.fold() == before
    assert lab.rack().health is RackHealth.AVAILABLE
    assert lab.driver.closed == lab.driver.scans


def test_the_second_failed_scan_makes_it_unavailable_and_says_why(lab: Lab) -> None:
    lab.activate()
    before = lab.fold()
    lab.driver.fails_after = 1
    with structlog.testing.capture_logs() as logs:
        lab.go_on(200.0)
    rack = lab.rack()
    # Who follows the log is told as well, once and not with each scan.
    assert [line["reason"] for line in logs if line["event"] == "a rack is unavailable"] == [rack.reason]
    assert rack.health is RackHealth.UNAVAILABLE
    assert rack.reason == "GET /os-hypervisors answered 401; renew the credentials"
    assert lab.members.condition is Condition.UNAVAILABLE
    assert lab.members.reason == f"rack lab: {rack.reason}"
    assert lab.fold() == before.as_unknown()
    assert kinds(lab) == ["rack-scanned", "rack-unavailable"]
    assert lab.journal()[1].outcome == "failed"


def test_failing_scans_come_less_and_less_often(lab: Lab) -> None:
    lab.activate()
    lab.driver.fails_after = 1
    lab.go_on(3_600.0)
    assert lab.driver.scans < 12
    assert kinds(lab) == ["rack-scanned", "rack-unavailable"]


def test_one_missed_probe_is_a_blip(lab: Lab) -> None:
    lab.activate()
    lab.driver.answers = False
    lab.loop.run_until(20.0)
    wake = lab.activate()
    assert wake - lab.clock.now() < 6.0
    assert lab.rack().health is RackHealth.AVAILABLE
    lab.driver.answers = True
    lab.go_on(100.0)
    assert kinds(lab) == ["rack-scanned"]


def test_two_missed_probes_are_not_and_it_is_read_when_it_answers(lab: Lab) -> None:
    lab.activate()
    lab.driver.answers = False
    lab.go_on(40.0)
    assert lab.rack().reason == "no route to keystone"
    assert lab.fold().live.hosts == 0
    assert lab.fold().unknown.hosts == 3
    scans = lab.driver.scans
    lab.go_on(600.0)
    assert lab.driver.scans == scans
    lab.driver.answers = True
    lab.driver.hosts.append(host(8))
    lab.go_on(20.0)
    assert lab.driver.scans == scans + 1
    assert lab.fold().live.hosts == 4
    assert lab.rack().reason == ""
    assert kinds(lab) == ["rack-scanned", "rack-unavailable", "rack-available"]


def test_one_that_never_answered_is_unavailable_at_once(lab: Lab) -> None:
    lab.driver.answers = False
    lab.activate()
    assert lab.rack().health is RackHealth.UNAVAILABLE
    assert lab.members.scanning
    assert lab.fold() == Digest()
    lab.driver.answers = True
    lab.go_on(20.0)
    assert lab.members.scanned


def test_a_scan_that_hangs_is_given_up(lab: Lab) -> None:
    lab.activate()
    lab.driver.hangs = True
    lab.inventory.rescan()
    began = lab.clock.now()
    lab.activate()
    assert SETTINGS.deadline <= lab.clock.now() - began <= SETTINGS.deadline + 40
    lab.go_on(1_000.0)
    assert "did not" in lab.rack().reason or "no answer" in lab.rack().reason
    assert lab.fold().unknown.hosts == 3
    assert lab.driver.closed == lab.driver.scans


def test_a_scan_without_its_last_word_is_half_a_picture(lab: Lab) -> None:
    lab.activate()
    before = lab.fold()
    lab.driver.cut = True
    lab.driver.hosts = [host(5)]
    lab.inventory.rescan()
    lab.activate()
    assert lab.fold() == before
    assert "h0" in lab.stored_hosts()


def test_an_error_of_the_driver_itself_is_the_loops_and_shows_in_time(lab: Lab) -> None:
    lab.activate()
    lab.driver.error = KeyError("a bug")
    lab.inventory.rescan()
    for _ in range(2):
        with pytest.raises(KeyError):
            lab.activate()
    with pytest.raises(KeyError):
        lab.activate()
    assert lab.rack().health is RackHealth.UNAVAILABLE
    assert "error of its own" in lab.rack().reason


def test_a_full_disk_is_not_the_racks_fault(lab: Lab) -> None:
    lab.activate()
    before = lab.fold()
    for _ in range(3):
        lab.inventory.rescan()
        lab.store.fail(StoreFull)
        with pytest.raises(StoreFull):
            lab.activate()
    assert lab.fold() == before
    lab.inventory.rescan()
    lab.activate()
    assert lab.rack().health is RackHealth.AVAILABLE


def test_a_rack_that_another_took_over_is_not_written(lab: Lab) -> None:
    lab.activate()
    lab.takes_the_rack()
    lab.inventory.rescan()
    with pytest.raises(Conflict) as refusal:
        lab.activate()
    assert refusal.value.code == "rack-moved"
    assert lab.rack().generation == 1


def test_a_ceiling_bounds_what_is_offered() -> None:
    lab = Lab(settings=replace(SETTINGS, ceiling={VCPU: 10}))
    lab.driver.hosts = [host(n) for n in range(3)]
    lab.activate()
    assert lab.fold().live.resources[VCPU].total == 10
    assert lab.fold().not_offered.resources[VCPU].total == 14
    assert lab.fold().live.fits == {"memory_mib=1024,vcpu=1": 10}
    lab.close()


def test_a_restart_shows_the_same_picture_before_any_scan(lab: Lab) -> None:
    lab.activate()
    before, uses = lab.fold(), lab.streams.uses.page(None, 10)
    lab.restart()
    assert lab.fold() == before
    assert lab.streams.uses.page(None, 10) == uses
    member = lab.members.racks[RACK]
    assert member.fold is not None
    assert len(member.fold.columns) == 3


def instants(lab: Lab) -> list[str]:
    """All instants of the store's writes in one scan."""
    seen: list[str] = []
    lab.pause = seen.append
    lab.inventory.rescan()
    lab.activate()
    lab.pause = lambda _: None
    return [f"{name} {seen[: at + 1].count(name)}" for at, name in enumerate(seen) if not name.endswith("read")]


def test_death_at_any_instant_of_a_scan_leaves_one_whole_picture_or_the_other() -> None:
    first = [host(n) for n in range(3)]
    second = [host(0, used=4), host(7, cores=64)]
    probe = Lab()
    probe.driver.hosts, probe.driver.guests = first, [guest(1, 0)]
    probe.activate()
    whole = {0: probe.fold().live}
    probe.driver.hosts, probe.driver.guests = second, [guest(2, 7)]
    when = instants(probe)
    whole[1] = probe.fold().live
    probe.close()
    assert {name.split()[1] for name in when} >= {"rack.scan-begun", "rack.batch", "rack.swept", "rack.scanned"}
    pictures = []
    for instant in when:
        lab = Lab()
        lab.driver.hosts, lab.driver.guests = first, [guest(1, 0)]
        lab.activate()
        lab.driver.hosts, lab.driver.guests = second, [guest(2, 7)]
        lab.inventory.rescan()
        name, _, nth = instant.rpartition(" ")
        left = [int(nth)]

        def dies(at: str, name: str = name, left: list[int] = left) -> None:
            if at == name:
                left[0] -= 1
                if left[0] == 0:
                    raise Killed

        lab.pause = dies
        with pytest.raises(Killed):
            lab.activate()
        lab.restart()
        assert lab.fold().live in whole.values(), instant
        pictures.append(lab.fold().live == whole[1])
        # What the cut scan had seen and is not there any more does not stay.
        lab.driver.hosts = [host(9)]
        lab.driver.guests = []
        lab.activate()
        assert lab.stored_hosts() == ["h9"], instant
        assert lab.fold().live.hosts == 1
        lab.close()
    # The new picture counts from the commit of the last unit on, and not before.
    assert pictures == sorted(pictures)
    assert pictures[-1]
    assert not pictures[-2]


def test_a_scans_ledger_does_not_travel_before_its_digest(lab: Lab) -> None:
    """Else the totals above would wait until the next report may follow the one that took the ledger."""
    news = lab.streams.subscribe()
    before = lab.streams.generations().ledger
    lab.activate()
    assert lab.streams.generations().ledger > before
    assert not news.is_set()
    lab.streams.publish_digest(lab.members.counters())
    assert news.is_set()
