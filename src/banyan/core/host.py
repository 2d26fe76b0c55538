"""A host: what is claimed on. A hypervisor, a machine, a scheduling pool, a simulated host."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import msgspec

from banyan.core.ids import RackCode
from banyan.core.resources import Amount, ResourceClass
from banyan.core.time import Wall

MAX_REASON = 255


@dataclass(frozen=True, slots=True)
class Host:
    """One host as last seen.

    `id` is stable within its rack (a hypervisor's UUID); `up` is whether its own control says it
    runs; `disabled` whether somebody took it out of service below; `offered` whether the rack's
    `share` settings let its zone use it.
    """

    id: str
    name: str
    amounts: Mapping[ResourceClass, Amount]
    up: bool = True
    disabled: bool = False
    disabled_reason: str = ""
    traits: frozenset[str] = frozenset()
    aggregates: tuple[str, ...] = ()
    availability_zone: str = ""
    offered: bool = True
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class HostWord:
    """A person's word about a host. The zone that owns the rack keeps it until it is taken back, whatever scans see.

    `disabled`: it takes no new servers, those that it has stay; `reason` says why. `forced_down`: it counts as down.
    `author` and `said_at`: who said the last of it, and when.
    """

    rack: RackCode
    host: str
    disabled: bool
    reason: str
    forced_down: bool
    author: str
    said_at: Wall


class HostChange(msgspec.Struct, frozen=True, array_like=True):
    """What a person says about a host; None is not said. `reason` belongs to `disabled`."""

    disabled: bool | None = None
    reason: str = ""
    forced_down: bool | None = None


def as_said(host: Host, word: HostWord | None) -> Host:
    """The host as it counts: out of service if its own side says so, or a person does."""
    if word is None:
        return host
    return replace(
        host,
        up=host.up and not word.forced_down,
        disabled=host.disabled or word.disabled,
        disabled_reason=word.reason if word.disabled else host.disabled_reason,
    )
