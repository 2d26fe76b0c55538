"""Logs: a constant message, fields for the rest, one line each, on standard error. Secrets are masked, controls too.

Text for people, JSON for machines (`log.format`). Nothing below `serve` configures logging.
"""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import MutableMapping

import structlog

from banyan.core.errors import BadInput
from banyan.core.text import printable_lines

# What a join code or a token of ours looks like. Neither should ever get as far as a log; if one does,
# it is cut here rather than kept for ever.
_SECRET_TEXT = re.compile(r"banyan1\.[A-Za-z0-9_-]{16,}|eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}")
_SECRET_KEY = re.compile(r"secret|password|passphrase|bearer|authorization", re.IGNORECASE)

LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40}


def cut_secrets(text: str) -> str:
    """`text` without what looks like a join code or a token of ours."""
    return _SECRET_TEXT.sub("…", text)


def mask(_: object, __: str, event: MutableMapping[str, object]) -> MutableMapping[str, object]:
    """A structlog processor that masks values under telling keys, and texts that look like our secrets."""
    for key, value in event.items():
        if _SECRET_KEY.search(key):
            event[key] = "…"
        elif isinstance(value, str):
            event[key] = cut_secrets(value)
    return event


def tame(_: object, __: str, event: MutableMapping[str, object]) -> MutableMapping[str, object]:
    """A structlog processor: what a peer or a bottom said shall steer no terminal that follows the log."""
    for key, value in event.items():
        if isinstance(value, str) and not value.isprintable():
            event[key] = printable_lines(value)
    return event


def configure(level: str, style: str) -> None:
    """Sets up structlog and the standard library's logging. Raises BadInput for an unknown level or style."""
    if level not in LEVELS:
        raise BadInput("bad-setting", f"log.level is one of {', '.join(LEVELS)}, got {level!r}")
    if style not in ("text", "json"):
        raise BadInput("bad-setting", f"log.format is text or json, got {style!r}")
    renderer: structlog.typing.Processor = (
        structlog.processors.JSONRenderer()
        if style == "json"
        else structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), pad_event_to=0)
    )
    shared: list[structlog.typing.Processor] = [
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
        mask,
        tame,
    ]
    structlog.configure(
        processors=[*shared, renderer],
        wrapper_class=structlog.make_filtering_bound_logger(LEVELS[level]),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(structlog.stdlib.ProcessorFormatter(processor=renderer, foreign_pre_chain=shared))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    # Libraries speak only when something is wrong: their information would drown ours.
    root.setLevel(max(LEVELS[level], logging.WARNING))
