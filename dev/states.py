"""Draws every state machine of the house from its table: docs/generated/states.md."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator

from banyan.core.transitions import Table

# The rooms that may hold a table: the decisions. The zone, its adapters and its surfaces follow tables.
ROOMS = ("core", "placement", "health", "trust")


def tables() -> Iterator[tuple[str, str, Table]]:  # type: ignore[type-arg]  # tables of any states and events
    """(module, name, table) of every Table at the top of a module, in order of module and name."""
    seen: set[int] = set()
    for room in ROOMS:
        where = importlib.import_module(f"banyan.{room}").__path__
        for module in pkgutil.walk_packages(where, f"banyan.{room}."):
            for name, value in sorted(vars(importlib.import_module(module.name)).items()):
                if isinstance(value, Table) and id(value) not in seen:
                    seen.add(id(value))
                    yield module.name, name, value


def render() -> str:
    parts = [
        "# State machines\n",
        "Generated from the tables by `make docs`. A move that is not here is refused with the moves that there are.\n",
    ]
    for module, name, table in tables():
        parts.append(f"## {name.replace('_', ' ').capitalize()}: a {table.what}\n")
        parts.append(f"`{module}.{name}`\n")
        parts.append(f"```mermaid\n{table.mermaid()}```\n")
        rows = [f"| {move.before} | {move.event} | {move.after} | {move.why} |" for move in table]
        parts.append("| from | event | to | why |\n| --- | --- | --- | --- |\n" + "\n".join(rows) + "\n")
    return "\n".join(parts)
