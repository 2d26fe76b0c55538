"""Values as people type them: durations, labels, options, and where the per-user data folder is."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable
from pathlib import Path

from banyan.core.errors import BadInput
from banyan.core.ids import check_label

_DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*(s|m|h|d|w|)\Z")
_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}


def seconds(text: str) -> float:
    """Seconds of `90`, `90s`, `15m`, `24h`, `7d`, `2w`. Raises BadInput("bad-duration")."""
    found = _DURATION.match(text.strip().lower())
    if found is None:
        raise BadInput("bad-duration", f"a duration is a number with s, m, h, d or w, as in 24h, got {text[:40]!r}")
    return float(found.group(1)) * _UNITS[found.group(2)]


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
