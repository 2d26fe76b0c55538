"""Values as people type them: durations, labels, options, and where the per-user data folder is."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable
from pathlib import Path

from banyan.core.errors import BadInput
from banyan.core.ids import check_label

_DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*(s|m|h|d|w|)\Z")
# What the API takes, so that a command can say it by the name of its option. Seconds, and sizes in MiB or GiB.
DAY = 86_400.0
MAX_CODE_LIFE, MAX_TOKEN_LIFE, MAX_REPLACE_LIFE = 90 * DAY, 366 * DAY, 30 * DAY
MAX_MAINTENANCE = MAX_PATIENCE = 366 * DAY
MAX_USES = MAX_PRIORITY = 1_000_000
MAX_SERVERS, MAX_VCPU, MAX_SIZE = 2_000, 2**20, 2**40
MAX_LINE = 10**18 - 1
_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}


def seconds(text: str) -> float:
    """Seconds of `90`, `90s`, `15m`, `24h`, `7d`, `2w`. Raises BadInput("bad-duration")."""
    found = _DURATION.match(text.strip().lower())
    if found is None:
        raise BadInput("bad-duration", f"a duration is a number with s, m, h, d or w, as in 24h, got {text[:40]!r}")
    return float(found.group(1)) * _UNITS[found.group(2)]


def duration(text: str, option: str, least: float, most: float) -> float:
    """As `seconds`, of an option that has bounds, in seconds. Raises BadInput("bad-duration") naming all three."""
    try:
        found = seconds(text)
    except BadInput:
        found = -1.0
    if not least <= found <= most:
        raise BadInput(
            "bad-duration",
            f"{option} is a duration from {spoken(least)} to {spoken(most)}, as in 90s, 15m, 24h, 7d or 2w, "
            f"got {text[:40]!r}",
        )
    return found


def spoken(length: float) -> str:
    """Seconds as a person types them, in the largest unit that needs no fraction: 90s, 1h, 90d."""
    for unit in ("d", "h", "m"):
        if length >= _UNITS[unit] and length % _UNITS[unit] == 0:
            return f"{length / _UNITS[unit]:.0f}{unit}"
    return f"{length:g}s"


def number(value: int, option: str, least: int, most: int) -> int:
    """`value` if it lies within bounds. Raises BadInput("bad-number") naming the option and both."""
    if not least <= value <= most:
        raise BadInput("bad-number", f"{option} is a whole number from {least:,} to {most:,}, got {str(value)[:40]}")
    return value


def labels(given: Iterable[str]) -> dict[str, str]:
    """KEY=VALUE texts, each key once. Raises BadInput("bad-label")."""
    found: dict[str, str] = {}
    for text in given:
        key, equals, value = text.partition("=")
        if not equals:
            raise BadInput("bad-label", f"a label is KEY=VALUE, got {text[:80]!r}")
        check_label(key, value)
        if key in found:
            raise BadInput("bad-label", f"the label {key!r} is given twice")
        found[key] = value
    return found


def options(given: Iterable[str]) -> dict[str, object]:
    """KEY=VALUE texts for a driver. A value that TOML can read (5, true, [1, 2]) is that, all others are text."""
    found: dict[str, object] = {}
    for text in given:
        key, equals, value = text.partition("=")
        if not (equals and key.strip()):
            raise BadInput("bad-option", f"a driver's option is KEY=VALUE, got {text[:80]!r}")
        try:
            read: object = tomllib.loads(f"value = {value}")["value"]
        except tomllib.TOMLDecodeError:
            read = value
        found[key.strip()] = read if isinstance(read, bool | int | float | str | list | dict) else value
    return found


def default_folder() -> Path:
    """The per-user data folder."""
    from banyan.serve.config import default_data_folder

    return default_data_folder()
