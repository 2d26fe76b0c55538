"""What a flavor asks of a host: resources, and traits that it must or must not have. Pure.

Extra specs and image properties follow Nova (docs.openstack.org/nova/latest/configuration/extra-specs.html):
`resources:CLASS=N` replaces what the flavor's size says, `trait:NAME=required|forbidden` binds. Disk counts root,
ephemeral and swap, the last rounded up to a GiB.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from banyan.core.errors import BadInput
from banyan.core.order import FlavorSnapshot
from banyan.core.resources import DISK_GIB, MEMORY_MIB, VCPU

_CLASSES = {"VCPU": VCPU, "MEMORY_MB": MEMORY_MIB, "DISK_GB": DISK_GIB}
_NAMES: dict[str, str] = {ours: theirs for theirs, ours in _CLASSES.items()}
_CLASS = re.compile(r"[A-Z0-9_]{1,255}\Z")
_TRAIT = re.compile(r"[A-Z0-9_]{1,255}\Z")
MAX_AMOUNT = 2_147_483_647


@dataclass(frozen=True, slots=True)
class Needs:
    """`amounts` per resource class, nothing of what is zero."""

    amounts: dict[str, int]
    required: tuple[str, ...] = ()
    forbidden: tuple[str, ...] = ()


def of_flavor(flavor: FlavorSnapshot, image: Mapping[str, str] | None = None) -> Needs:
    """`image`: its properties. Raises BadInput("bad-extra-spec") that names the one that can not be meant."""
    disk = flavor.disk_gib + flavor.ephemeral_gib + -(-flavor.swap_mib // 1024)
    amounts: dict[str, int] = {VCPU: flavor.vcpu, MEMORY_MIB: flavor.memory_mib, DISK_GIB: disk}
    traits: dict[str, str] = {}
    for source in (flavor.extra_specs, image or {}):
        for key, value in source.items():
            prefix, _, name = key.partition(":")
            if prefix == "trait":
                traits[trait(name, key)] = demand(value, key)
            elif prefix == "resources" and source is flavor.extra_specs:
                amounts[resource_class(name, key)] = amount(value, key)
    return Needs(
        {name: count for name, count in amounts.items() if count > 0},
        tuple(sorted(name for name, word in traits.items() if word == "required")),
        tuple(sorted(name for name, word in traits.items() if word == "forbidden")),
    )


def trait(name: str, key: str) -> str:
    if not _TRAIT.match(name):
        raise bad(key, "a trait's name is of upper-case letters, digits and _")
    return name


def demand(value: str, key: str) -> str:
    if value not in ("required", "forbidden"):
        raise bad(key, f"a trait is required or forbidden, got {value[:80]!r}")
    return value


def resource_class(name: str, key: str) -> str:
    if not _CLASS.match(name):
        raise bad(key, "a resource class is of upper-case letters, digits and _")
    return our_class(name)


def our_class(name: str) -> str:
    return _CLASSES.get(name, name.lower())


def class_name(name: str) -> str:
    """The other way: a class of ours as placement writes it."""
    return _NAMES.get(name, name.upper())


def amount(value: str, key: str) -> int:
    if not (value.isascii() and value.isdigit() and len(value) <= 10 and int(value) <= MAX_AMOUNT):
        raise bad(key, f"an amount is a whole number from 0 to {MAX_AMOUNT}, got {value[:80]!r}")
    return int(value)


def bad(key: str, why: str) -> BadInput:
    return BadInput("bad-extra-spec", f"Validation failed; extra spec '{key[:255]}' can not be meant: {why}")
