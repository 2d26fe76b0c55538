"""Kinds of events that only say what users and operators of the cloud asked for, and that it was done. See pages.py."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

# What a thing is called → what is done with it, as both stand in the kind.
_THINGS = {
    "access-rule": "deleted",
    "aggregate": "changed created deleted",
    "application-credential": "created deleted",
    "credential": "created deleted updated",
    "domain": "created deleted updated",
    "endpoint": "created deleted updated",
    "flavor": "changed closed created deleted opened",
    "floating-ip": "changed created deleted",
    "floatingip": "tagged",
    "group": "created deleted joined left updated",
    "image": "abandoned changed created deactivated deleted filled import-begun imported interrupted reactivated "
    "received reserved share-answered shared unshared",
    "key-pair": "created deleted",
    "network": "changed created deleted tagged",
    "network-quota": "cleared set",
    "password": "changed",
    "port": "changed created deleted tagged",
    "project": "created deleted tagged updated",
    "quota": "cleared set",
    "region": "created deleted updated",
    "role": "created deleted granted implied taken updated",
    "router": "changed created deleted interface-added interface-removed tagged",
    "security-group": "changed created deleted tagged",
    "security-rule": "created deleted",
    "server-group": "created deleted",
    "service": "created deleted updated",
    "subnet": "changed created deleted tagged",
    "subnet-pool": "changed created deleted",
    "subnetpool": "tagged",
    "user": "created deleted updated",
}  # fmt: skip


def _words(name: str) -> str:
    return name.replace("-", " ").replace("_", " ")


ASKED: Final[Mapping[str, str]] = {
    f"{thing}-{verb}": f"As was asked at {{since}}: {_words(thing)} {{name}}, {_words(verb)}."
    for thing, verbs in _THINGS.items()
    for verb in verbs.split()
}

_ACTIONS = """attach confirm_resize delete detach lock migrate offload pause reboot reboot_hard rebuild
rescue reset resize resume revert_resize set_password shelve snapshot start stop suspend
unlock unpause unrescue unshelve"""

SERVER_ACTIONS: Final[Mapping[str, str]] = {
    f"server-{action}": f"A user asked at {{since}} for the server {{name}}: {_words(action)}."
    for action in _ACTIONS.split()
}
