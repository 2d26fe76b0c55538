"""Rows of uplinks, and under which names their secrets are kept: how they are read, and known again."""

from __future__ import annotations

from banyan.core.records import Unit
from banyan.core.zone import Uplink


def read_uplinks(unit: Unit) -> list[tuple[Uplink, bool]]:
    """Each uplink, and whether a join code for it waits to be used."""
    return [(row, unit.keys.get(code_key(row.id)) is not None) for row in unit.uplinks.all()]


def stands(unit: Unit, row: Uplink) -> bool:
    """Whether the row is there as it was written."""
    return unit.uplinks.get(row.id) == row


def used_key(uplink: int) -> str:
    """The name under which the id of the code that let us in is kept, so that it may be given again at each start."""
    return f"uplink.{uplink}.used"


def code_key(uplink: int) -> str:
    """The name under which a join code is sealed in the store until it was used."""
    return f"uplink.{uplink}.code"
