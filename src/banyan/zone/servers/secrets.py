"""Passwords on their way to a guest: from the zone that was asked to the one that has its rack, and to the driver.

They travel within the link's TLS and are in no row on the way. At the leaf one is stored sealed, with the action that
it is for, in one commit: what was acknowledged is done, also after a kill. It goes with the end of that action, however
that ends.
"""

from __future__ import annotations

from typing import Final

from banyan.core.records import Unit
from banyan.core.secret import Secret
from banyan.core.server import Server, Task

WITH_PASSWORD: Final = frozenset({Task.SETTING_PASSWORD, Task.REBUILDING, Task.RESCUING})


def accepted(unit: Unit, before: Server, after: Server, password: Secret | None) -> None:
    """With the action that made `after` of `before`, in its commit."""
    over(unit, before)
    if password is not None and after.task in WITH_PASSWORD:
        unit.keys.put(_key(after.id), password)


def over(unit: Unit, server: Server) -> None:
    """What it was for has ended, or something else is done now."""
    if server.task in WITH_PASSWORD:
        unit.keys.delete(_key(server.id))


def kept(unit: Unit, server: Server) -> Secret | None:
    return unit.keys.get(_key(server.id)) if server.task in WITH_PASSWORD else None


def _key(server: str) -> str:
    return f"guest-password.{server}"
