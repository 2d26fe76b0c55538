"""The list of zones below: which, in what order, and from where. Pure over the tree; `Front` makes the views."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase

from banyan.core.errors import BadInput
from banyan.zone.tree import Node
from banyan.zone.views import ZoneView

FILTERS = ("health", "state", "admin", "version", "name")
SORTS = ("path", "used", "hosts", "servers", "as_of", "health")


def check_sort(sort: str) -> tuple[str, bool]:
    """The key and whether it is turned round. Raises BadInput("bad-sort")."""
    key = sort.removeprefix("-") or "path"
    if key not in SORTS:
        raise BadInput("bad-sort", f"zones can be sorted by {', '.join(SORTS)}, got {sort[:40]!r}")
    return key, sort.startswith("-")


def inside(path: str, subtree: str) -> bool:
    """True if `path` lies below `subtree`, itself not."""
    return path.startswith(subtree + "/")


def check_filters(filters: Mapping[str, str]) -> None:
    """Raises BadInput("bad-filter") for one that is not known."""
    for key in filters:
        if key not in FILTERS and not key.startswith("label."):
            raise BadInput(
                "bad-filter", f"zones can be filtered by {', '.join(FILTERS)} and label.KEY, not by {key[:40]!r}"
            )


def after(rows: Sequence[tuple[str, Node]], marker: str) -> int:
    """Where the page after path `marker` begins in rows ordered by path; that path may be gone by now."""
    return bisect_right(rows, marker.split("/"), key=lambda row: row[0].split("/")) if marker else 0


def matches(node: Node, filters: Mapping[str, str]) -> bool:
    """Whether all filters, checked before, hold for a node as it is shown."""
    labels = dict(node.labels)
    for key, wanted in filters.items():
        match key:
            case "health" | "state" | "admin" | "version":
                if str(getattr(node, key)) not in wanted.split(","):
                    return False
            case "name":
                if not fnmatchcase(node.name, wanted):
                    return False
            case _:
                label = key.removeprefix("label.")
                if label not in labels or not fnmatchcase(labels[label], wanted):
                    return False
    return True


def begin(views: Sequence[ZoneView], marker: str) -> int:
    """Where the page after `marker` (the last path of the page before) begins."""
    if not marker:
        return 0
    for index, view in enumerate(views):
        if view.path == marker:
            return index + 1
    raise BadInput("bad-marker", "the zone that the marker names is no longer listed; begin again without marker")


def sort_key(view: ZoneView, key: str) -> tuple[bool, float | str, list[str]]:
    """None sorts before all values; ties by path."""
    value = {
        "path": "",
        "used": view.used_share,
        "hosts": view.hosts,
        "servers": view.servers,
        "as_of": view.as_of,
        "health": view.health,
    }[key]
    return value is not None, value if value is not None else 0, view.path.split("/")
