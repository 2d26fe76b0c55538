"""What a zone is told at its start. `serve/config.py` fills it from file and flags; worlds fill it in code."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from banyan.core.ports import RackSpec
from banyan.core.receiver import ReceiverSpec
from banyan.core.time import Terms
from banyan.core.zone import Mode


@dataclass(frozen=True, slots=True)
class ZoneSettings:
    """Durations in seconds.

    `addresses`: host:port of our link listener as children shall dial it; they go into join codes.
    `mode`: the most that our parent may do here. `code_life`: of a join code unless asked otherwise.
    `replies`: how long a member may take to answer a request of ours. `flush`: how often the newest
    digests of children are written down, so that a restart shows them at once.
    """

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    racks: tuple[RackSpec, ...] = ()
    addresses: tuple[str, ...] = ()
    mode: Mode = Mode.OBSERVE
    terms: Terms = Terms()
    certificate_life: float = 86_400.0
    code_life: float = 86_400.0
    scan_interval: float = 60.0
    probe_interval: float = 15.0
    scan_deadline: float = 900.0
    replies: float = 20.0
    flush: float = 30.0
    link_budget: int = 65_536
    shapes: tuple[str, ...] = ()
    receivers: tuple[ReceiverSpec, ...] = ()
