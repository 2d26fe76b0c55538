"""Limits of what a project may have, and how its use is counted against them.

A *limit* of UNLIMITED is none. What servers use is counted in three resources; the others are bounded when they are
written. *Use* that is counted here is a ceiling: never below what the project's servers in the whole tree hold
(docs/decisions/0011-quota-is-a-ceiling.md). Pure: zone/compute/quotas.py applies it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

import msgspec

UNLIMITED = -1
# What fits the store's columns, and every client's integer.
MAX_LIMIT = 2_147_483_647


class Quota(StrEnum):
    """What is limited. Per project, but KEY_PAIRS, which is per user, and those of a single request or group."""

    SERVERS = "servers"
    VCPU = "vcpu"
    MEMORY_MIB = "memory_mib"
    METADATA_ITEMS = "metadata_items"
    KEY_PAIRS = "key_pairs"
    SERVER_GROUPS = "server_groups"
    GROUP_MEMBERS = "group_members"
    INJECTED_FILES = "injected_files"
    INJECTED_BYTES = "injected_bytes"
    INJECTED_PATH = "injected_path"
    FIXED_IPS = "fixed_ips"
    FLOATING_IPS = "floating_ips"
    SECURITY_GROUPS = "security_groups"
    SECURITY_RULES = "security_rules"


# What servers use; the rest is bounded by the number of rows, or in one request.
COUNTED = (Quota.SERVERS, Quota.VCPU, Quota.MEMORY_MIB)

# Unless the settings or an operator say otherwise. Servers, cores and memory are generous: a cloud that is to be shared
# among strangers sets its own.
DEFAULTS: Mapping[Quota, int] = {
    Quota.SERVERS: 10_000,
    Quota.VCPU: 40_000,
    Quota.MEMORY_MIB: 80_000_000,
    Quota.METADATA_ITEMS: 128,
    Quota.KEY_PAIRS: 100,
    Quota.SERVER_GROUPS: 10,
    Quota.GROUP_MEMBERS: 10,
    Quota.INJECTED_FILES: 5,
    Quota.INJECTED_BYTES: 10_240,
    Quota.INJECTED_PATH: 255,
    Quota.FIXED_IPS: UNLIMITED,
    Quota.FLOATING_IPS: UNLIMITED,
    Quota.SECURITY_GROUPS: UNLIMITED,
    Quota.SECURITY_RULES: UNLIMITED,
}

Limits = Mapping[Quota, int]


class Use(msgspec.Struct, frozen=True, gc=False):
    """What servers hold: how many, vCPUs, MiB of memory."""

    servers: int = 0
    vcpu: int = 0
    memory_mib: int = 0

    def __add__(self, other: Use) -> Use:
        return Use(self.servers + other.servers, self.vcpu + other.vcpu, self.memory_mib + other.memory_mib)

    def __sub__(self, other: Use) -> Use:
        return Use(self.servers - other.servers, self.vcpu - other.vcpu, self.memory_mib - other.memory_mib)

    def __mul__(self, count: int) -> Use:
        return Use(self.servers * count, self.vcpu * count, self.memory_mib * count)

    def covers(self, other: Use) -> bool:
        return self.servers >= other.servers and self.vcpu >= other.vcpu and self.memory_mib >= other.memory_mib

    def above_zero(self) -> Use:
        return Use(max(0, self.servers), max(0, self.vcpu), max(0, self.memory_mib))

    def of(self, quota: Quota) -> int:
        """The part that is counted as `quota`, one of COUNTED."""
        return {Quota.SERVERS: self.servers, Quota.VCPU: self.vcpu, Quota.MEMORY_MIB: self.memory_mib}[quota]


NO_USE = Use()


@dataclass(frozen=True, slots=True)
class UseRow:
    """The ceiling of one project's use, as it is stored. `revision` rises each time that it was counted anew."""

    project: str
    use: Use = field(default_factory=Use)
    revision: int = 1


def over(limits: Limits, used: Use, wanted: Use) -> tuple[Quota, ...]:
    """Those of COUNTED whose limit `used` and `wanted` together would pass. One of which nothing is wanted is not
    among them: who is over a limit that was lowered may still do what costs nothing of it."""
    return tuple(
        quota
        for quota in COUNTED
        if limits[quota] != UNLIMITED and wanted.of(quota) > 0 and used.of(quota) + wanted.of(quota) > limits[quota]
    )


def excess(stored: Use, counted: Use, unsettled: Use) -> Use:
    """How far the stored ceiling lies above what was counted in the tree and what may still come: it may be lowered so.

    `unsettled`: taken from the ceiling before the count began, and not known to be among the servers counted.
    """
    return (stored - counted - unsettled).above_zero()
