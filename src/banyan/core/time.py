"""Time as values: two kinds of instant, durations in seconds, and corrected time.

`Mono` counts seconds since boot, suspended time included (CLOCK_BOOTTIME): for durations and leases.
`Wall` is seconds since 1970 UTC, *corrected*: for certificates, journal entries and "as of".
Nothing here reads a clock; `serve/clock.py` does.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import NewType

Mono = NewType("Mono", float)
Wall = NewType("Wall", float)

# No certificate or join code of ours can be older than the program that reads it.
BUILD_DATE = Wall(1_790_812_800.0)  # 2026-10-01T00:00:00Z


def iso(instant: float) -> str:
    """RFC 3339 in UTC with milliseconds, for people and JSON."""
    return datetime.fromtimestamp(instant, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


@dataclass(frozen=True, slots=True)
class TimeBasis:
    """How a zone corrects its machine's wall clock.

    `offset` is added to the machine's clock; it comes from a parent's authenticated time proof.
    `floor` is the newest instant known to be past: build date, a join code's issue time, the newest
    instant durably seen. Corrected time never falls below it.
    """

    offset: float = 0.0
    floor: Wall = BUILD_DATE

    def correct(self, machine_wall: float) -> Wall:
        return Wall(max(machine_wall + self.offset, self.floor))

    def raised(self, seen: Wall) -> TimeBasis:
        """With the floor at least at `seen`."""
        return self if seen <= self.floor else replace(self, floor=seen)

    def learned(self, machine_wall: float, proven: Wall, tolerance: float = 2.0) -> TimeBasis:
        """After an authenticated peer said that it is `proven` now.

        An offset within `tolerance` seconds of the present one is left alone, so that network delay
        does not make time wander.
        """
        offset = proven - machine_wall
        return self if abs(offset - self.offset) <= tolerance else replace(self, offset=offset)


@dataclass(frozen=True, slots=True)
class Terms:
    """What a parent grants with each acknowledgement (protocols: two clocks). Seconds.

    `lease` decides suspect, lost and placements. `silence` decides when guests with protection
    stop, and when, never sooner, copies may start. `grace` is how long after the lease a silent
    child is suspect before it is lost. `report` is when the next report is due.
    """

    lease: float = 15.0
    silence: float = 600.0
    grace: float = 15.0
    report: float = 6.0


# A child counts its lease from when it sent the heartbeat; its parent waits longer than that by this
# factor, because two quartz clocks may drift apart by up to 3 % in a virtual machine.
LEASE_DRIFT = 1.03
