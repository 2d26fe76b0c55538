"""What a person may set for a rack of simulated hosts. Values that are wrong together are refused here, by name."""

from __future__ import annotations

import msgspec

from banyan.core.resources import DISK_GIB, MEMORY_MIB, VCPU
from banyan.drivers.sim.script import Step, check_script

MAX_HOSTS = 1_000_000
MAX_GUESTS = 60_000_000

_BUILT_IN = ("vcpu", "memory_mib", "disk_gib")


class HostClass(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One model of host. `weight` is its share among the classes; `resources` are further classes (custom_gpu = 4)."""

    name: str
    weight: int = 1
    vcpu: int = 64
    memory_mib: int = 262_144
    disk_gib: int = 4_000
    resources: dict[str, int] = {}
    traits: tuple[str, ...] = ()

    def physical(self) -> dict[str, int]:
        return {VCPU: self.vcpu, MEMORY_MIB: self.memory_mib, DISK_GIB: self.disk_gib, **self.resources}


class SimFlavor(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What one guest takes."""

    name: str
    vcpu: int = 1
    memory_mib: int = 1_024
    disk_gib: int = 10
    traits: tuple[str, ...] = ()


CLASSES = (
    HostClass(name="general", weight=6, traits=("HW_CPU_X86_AVX2",)),
    HostClass(name="compute", weight=3, vcpu=128, traits=("HW_CPU_X86_AVX2", "HW_CPU_X86_AVX512F")),
    HostClass(name="memory", weight=1, memory_mib=1_048_576, traits=("HW_CPU_X86_AVX2",)),
)

FLAVORS = (
    SimFlavor(name="tiny", vcpu=1, memory_mib=512, disk_gib=5),
    SimFlavor(name="small", vcpu=1, memory_mib=2_048, disk_gib=20),
    SimFlavor(name="medium", vcpu=2, memory_mib=4_096, disk_gib=40),
    SimFlavor(name="large", vcpu=4, memory_mib=8_192, disk_gib=80),
    SimFlavor(name="xlarge", vcpu=8, memory_mib=16_384, disk_gib=160),
)


class SimOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of the `sim` driver. The same options, rack code and clock give the same rack, to the last id.

    `overcommit` and `reserved` are per resource class; `stopped` is the share of guests that are shut down;
    `churn` how many guests per second are deleted and made anew; `latency` the seconds that the simulated
    bottom takes for each request (a batch of a scan, a probe). A server that Banyan orders is built in `build_seconds`,
    anything else is done to it in `act_seconds`; `at_once` is how many of these the rack works on at the same time.
    """

    hosts: int = 10
    seed: int = 0
    guests: int = 0
    projects: int = 8
    stopped: float = 0.0
    churn: float = 0.0
    latency: float = 0.0
    build_seconds: float = 0.3
    act_seconds: float = 0.05
    at_once: int = 1_000
    name: str = "sim"
    classes: tuple[HostClass, ...] = CLASSES
    flavors: tuple[SimFlavor, ...] = FLAVORS
    aggregates: tuple[str, ...] = ()
    availability_zones: tuple[str, ...] = ("sim",)
    overcommit: dict[str, float] = msgspec.field(default_factory=lambda: {"vcpu": 4.0})
    reserved: dict[str, int] = {}
    script: tuple[Step, ...] = ()

    def __post_init__(self) -> None:
        _between("hosts", self.hosts, 0, MAX_HOSTS)
        _between("guests", self.guests, 0, MAX_GUESTS)
        _between("projects", self.projects, 1, 100_000)
        _between("stopped", self.stopped, 0, 1)
        _between("churn", self.churn, 0, 100_000)
        for name in ("latency", "build_seconds", "act_seconds"):
            _between(name, getattr(self, name), 0, 3_600)
        _between("at_once", self.at_once, 1, 100_000)
        _some("classes", self.classes, 100)
        _some("flavors", self.flavors, 300)
        _some("availability_zones", self.availability_zones, 1_000)
        if len(self.aggregates) > 1_000:
            raise ValueError(f"aggregates are at most 1000, got {len(self.aggregates)}")
        _named_once("classes", [host_class.name for host_class in self.classes])
        _named_once("flavors", [flavor.name for flavor in self.flavors])
        for host_class in self.classes:
            _check_class(host_class)
        for flavor in self.flavors:
            if min(flavor.vcpu, flavor.memory_mib, flavor.disk_gib) < 0 or not flavor.name:
                raise ValueError(f"flavor {flavor.name!r} needs a name and amounts of 0 or more")
        for resource, ratio in self.overcommit.items():
            _between(f"overcommit.{resource}", ratio, 0.01, 1_000)
        for resource, amount in self.reserved.items():
            _between(f"reserved.{resource}", amount, 0, 1 << 50)
        check_script(self.script)


def _check_class(host_class: HostClass) -> None:
    if not host_class.name:
        raise ValueError("a host class needs a name")
    _between(f"classes.{host_class.name}.weight", host_class.weight, 1, 1_000_000)
    if len(host_class.resources) > 50 or any(name in _BUILT_IN for name in host_class.resources):
        raise ValueError(
            f"class {host_class.name!r}: resources are up to 50 classes other than {', '.join(_BUILT_IN)}, "
            "which have fields of their own"
        )
    for resource, amount in host_class.physical().items():
        if resource != resource.lower():
            raise ValueError(f"class {host_class.name!r}: resource classes are lower case, got {resource!r}")
        _between(f"classes.{host_class.name}.{resource}", amount, 0, 1 << 50)


def _between(what: str, value: float, low: float, high: float) -> None:
    if not low <= value <= high:
        raise ValueError(f"{what} is from {low:,} to {high:,}, got {value:,}")


def _some(what: str, values: tuple[object, ...], most: int) -> None:
    if not 1 <= len(values) <= most:
        raise ValueError(f"{what} needs 1 to {most} entries, got {len(values)}")


def _named_once(what: str, names: list[str]) -> None:
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"{what} must have different names, got twice: {', '.join(twice)}")
