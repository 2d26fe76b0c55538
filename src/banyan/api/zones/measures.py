"""Health and metrics, for machines that watch: /healthz asks nothing of the caller and tells nothing."""

from __future__ import annotations

import math

from starlette.responses import Response

from banyan.api.context import Context
from banyan.api.intake import NoBody, NoQuery

PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"
SPECIAL = {"inf": "+Inf", "-inf": "-Inf", "nan": "NaN"}


async def health(context: Context, query: NoQuery, body: NoBody) -> Response:
    return Response(b"ok\n", media_type="text/plain; charset=utf-8")


async def metrics(context: Context, query: NoQuery, body: NoBody) -> Response:
    measured = {**context.surface.metrics(context.caller), **context.measured()}
    return Response(exposition(measured), media_type=PROMETHEUS)


def exposition(measured: dict[str, float]) -> str:
    """Prometheus' text format. Names that end in _total are counters, all others gauges.

    `measured` is by name, labels in braces; a family's samples are kept together, as the format demands.
    """
    families: dict[str, list[str]] = {}
    for name in sorted(measured):
        family = name.partition("{")[0]
        value = measured[name]
        whole = math.isfinite(value) and value == int(value) and abs(value) < 1e15
        text = str(int(value)) if whole else SPECIAL.get(repr(float(value)), repr(float(value)))
        families.setdefault(family, []).append(f"{name} {text}")
    lines: list[str] = []
    for family, samples in families.items():
        lines.append(f"# TYPE {family} {'counter' if family.endswith('_total') else 'gauge'}")
        lines += samples
    return "\n".join(lines) + "\n"
