"""The tree of zones as lines of text. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rich.text import Text

from banyan.cli.output import STYLES
from banyan.core.text import printable
from banyan.zone.views import ZoneView


def draw(top: str, zones: Iterable[ZoneView]) -> Iterator[Text]:
    """`top` and the zones below it, each under its parent, siblings by name. Whoever lacks a parent is at the top.

    Works through a stack of its own, so that depth is no matter.
    """
    by_path = {zone.path: zone for zone in zones}
    below: dict[str, list[ZoneView]] = {}
    for path in sorted(by_path):
        zone = by_path[path]
        below.setdefault(zone.parent if zone.parent in by_path else "", []).append(zone)
    if top:
        yield Text(printable(top), style="bold")
    stack = [("", zone, i == 0) for i, zone in enumerate(reversed(below.get("", ())))]
    while stack:
        indent, zone, last = stack.pop()
        yield _line(indent + ("└── " if last else "├── "), zone)
        deeper = indent + ("    " if last else "│   ")
        stack += [(deeper, child, i == 0) for i, child in enumerate(reversed(below.get(zone.path, ())))]


def _line(indent: str, zone: ZoneView) -> Text:
    line = Text(indent, style="dim").append(printable(zone.name), style="bold")
    for word in (zone.state, zone.health, *([zone.admin] if zone.admin != "enabled" else [])):
        line.append("  ").append(printable(word), style=STYLES.get(word, ""))
    if zone.hosts is not None:
        line.append(f"  {zone.hosts:,} hosts", style="dim")
    if zone.used_share is not None:
        line.append(f"  {zone.used_share * 100:.0f} % used", style="dim")
    if zone.reason:
        line.append(f"  {printable(zone.reason)}", style="dim")
    return line
