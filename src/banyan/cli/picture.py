"""Usage as a picture: totals with bars; what is not offered and what is unknown apart, each with its age. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from banyan.cli.output import instant
from banyan.core.text import printable
from banyan.zone.views import AmountView, PartView, UsageView

BAR = 30
# From this share on a bar is shown as nearly full, then as full.
HIGH, FULL = 0.75, 0.9
_TITLES = {"vcpu": "vCPU", "memory_mib": "memory", "disk_gib": "disk"}
_FIRST = ("vcpu", "memory_mib", "disk_gib")
_NAMED = 10
_SHAPES = 12


def picture(usage: UsageView | None, trouble: str = "") -> RenderableType:
    """`trouble` says why this is not fresh; without any usage yet it is all there is."""
    parts: list[RenderableType] = []
    if trouble:
        parts.append(Text(f"not fresh: {printable(trouble)}", style="bold red"))
    if usage is not None:
        parts += [_head(usage), _counts(usage), _resources(usage.resources)]
        parts += _apart(usage)
        parts += _fits(usage)
    return Group(*parts)


def _head(usage: UsageView) -> Text:
    return Text(printable(usage.path) or "usage", style="bold").append(f"   as of {instant(usage.as_of)}", style="dim")


def _counts(usage: UsageView) -> Table:
    zones, hosts = usage.zones, usage.hosts
    table = Table.grid(padding=(0, 2))
    table.add_row(
        Text("zones", style="bold"),
        Text(f"{zones.total:,}"),
        _list([(zones.ready, "ready", ""), (zones.alive, "alive", "green"), (zones.suspect, "suspect", "yellow"),
               (zones.lost, "lost", "bold red"), (zones.unavailable, "unavailable", "bold red"),
               (zones.disabled, "disabled", "yellow")]),
    )  # fmt: skip
    table.add_row(
        Text("hosts", style="bold"),
        Text(f"{hosts.total:,}"),
        _list([(hosts.up, "up", "green"), (hosts.disabled, "disabled", "yellow")]),
    )
    table.add_row(
        Text("servers", style="bold"),
        Text(f"{sum(usage.guests.values()):,}"),
        _list([(count, state, "") for state, count in sorted(usage.guests.items())]),
    )
    return table


def _list(counts: list[tuple[int, str, str]]) -> Text:
    text = Text()
    for count, word, style in counts:
        if count:
            text.append(", " if text else "").append(f"{count:,} {printable(word)}", style=style)
    return text


def _resources(resources: Mapping[str, AmountView]) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_row("", *(Text(title, style="dim", justify="right") for title in ("used", "total", "physical")), "", "")
    rest = sorted(set(resources) - set(_FIRST))
    for name in (*_FIRST, *rest):
        amount = resources.get(name)
        if amount is None:
            continue
        part = amount.used / amount.total if amount.total else 0.0
        table.add_row(
            Text(_TITLES.get(name, printable(name)), style="bold"),
            *(Text(quantity(name, n), justify="right") for n in (amount.used, amount.total, amount.physical)),
            _bar(part),
            Text(f"{part * 100:.1f} %", justify="right"),
        )
    return table


def _bar(part: float) -> Text:
    filled = min(BAR, round(part * BAR))
    style = "bold red" if part >= FULL else "yellow" if part >= HIGH else "green"
    return Text("█" * filled, style=style).append("░" * (BAR - filled), style="dim")


def quantity(name: str, count: int) -> str:
    """A count of a resource class in the unit that reads best."""
    for unit, ending in (("_mib", ("MiB", "GiB", "TiB", "PiB")), ("_gib", ("GiB", "TiB", "PiB", "EiB"))):
        if name.endswith(unit):
            value = float(count)
            for step in ending[:-1]:
                if value < 1024:
                    return f"{value:,.0f} {step}" if value == int(value) else f"{value:,.1f} {step}"
                value /= 1024
            return f"{value:,.1f} {ending[-1]}"
    return f"{count:,}"


def _apart(usage: UsageView) -> list[RenderableType]:
    found: list[RenderableType] = []
    if _anything(usage.not_offered):
        found.append(Text("not offered  ", style="bold").append(_sentence(usage.not_offered)))
    if _anything(usage.unknown):
        line = Text("unknown      ", style="bold red").append(_sentence(usage.unknown))
        if usage.unknown_names:
            more = len(usage.unknown_names) - _NAMED
            names = ", ".join(usage.unknown_names[:_NAMED]) + (f" and {more} more" if more > 0 else "")
            line.append(f": {printable(names)}")
        found.append(line)
    return found


def _fits(usage: UsageView) -> list[RenderableType]:
    """How many more of each shape would fit; "at least" where some hosts were not counted for it."""
    if not usage.fits:
        return []
    table = Table.grid(padding=(0, 2))
    table.add_row(Text("would fit", style="bold"))
    for key, count in sorted(usage.fits.items())[:_SHAPES]:
        unknown = usage.fits_unknown.get(key, 0)
        note = f"at least; not counted on {unknown:,} hosts" if unknown else ""
        table.add_row(Text(key), Text(f"{count:,}", justify="right"), Text(note, style="yellow"))
    if len(usage.fits) > _SHAPES:
        table.add_row(Text(f"and {len(usage.fits) - _SHAPES} more shapes: --json shows all", style="dim"))
    return [table]


def _anything(part: PartView) -> bool:
    return bool(part.zones or part.hosts or part.guests or any(a.total for a in part.resources.values()))


def _sentence(part: PartView) -> str:
    counts = [
        f"{n:,} {word}" for n, word in ((part.zones, "zones"), (part.hosts, "hosts"), (part.guests, "servers")) if n
    ]
    for name in _FIRST:
        amount = part.resources.get(name)
        if amount is not None and amount.total:
            counts.append(f"{_TITLES[name]} {quantity(name, amount.used)} of {quantity(name, amount.total)} used")
    return f"{', '.join(counts)} (as of {instant(part.as_of)})"
