"""A host: what is claimed on. A hypervisor, a machine, a scheduling pool, a simulated host."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from banyan.core.resources import Amount, ResourceClass


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
