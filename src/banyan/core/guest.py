"""A guest: what runs on a host. At every surface it is called a *server*, as OpenStack's users say."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class GuestState(StrEnum):
    """The states that totals are kept by; finer ones belong to the bottom that has them."""

    ACTIVE = "active"
    BUILDING = "building"
    STOPPED = "stopped"
    PAUSED = "paused"
    SUSPENDED = "suspended"
    SHELVED = "shelved"
    ERROR = "error"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Guest:
    """One guest as last seen. `id` is Banyan's, or the bottom's own (`native`) for what ran there before.

    `host` is the Host.id it runs on, "" if none or hidden from our credentials. `created` is seconds
    since 1970. `move` is its move number (protocols §2).
    """

    id: str
    name: str
    project: str
    state: GuestState
    host: str = ""
    flavor: str = ""
    vcpu: int = 0
    memory_mib: int = 0
    disk_gib: int = 0
    created: float = 0.0
    native: bool = True
    move: int = 0
    offered: bool = True
