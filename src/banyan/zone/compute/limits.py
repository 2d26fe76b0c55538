"""Which limits count for a project: its own, else those that an operator gave to all, else those of the settings."""

from __future__ import annotations

from banyan.core.compute_rows import QuotaRows
from banyan.core.quota import DEFAULTS, Limits

# The limits of all projects that have none of their own are kept under this name; no project has it.
EVERY = ""


def effective(rows: QuotaRows, settings: Limits, project: str) -> Limits:
    """Of every Quota."""
    own = rows.limits(project) if project else {}
    return {**DEFAULTS, **settings, **rows.limits(EVERY), **own}
