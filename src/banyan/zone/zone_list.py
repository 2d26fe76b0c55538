"""The list of zones below: which, in what order, and from where a page goes on. Pure; zone_pages.py makes the pages."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import TypeAlias

import msgspec

from banyan.core.errors import BadInput
from banyan.core.reading import msgpack_reader
from banyan.zone.lists import bad_marker
from banyan.zone.tree import Node

FILTERS = ("health", "state", "admin", "version", "name")
SORTS = ("path", "used", "hosts", "servers", "as_of", "health")

# (whether the value is known, the value, the path with NUL for "/", the zone's code): a whole order, ties by path. With
# NUL, texts sort as lists of names do.
Key: TypeAlias = tuple[bool, float | str, str, int]


class _Marker(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The last row of the page before: what the list was sorted by, and the row's key there."""

    sort: str
    known: bool
    value: float | str
    path: str
    code: int


_MARKER = msgpack_reader(_Marker)


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


def key_of(path: str, code: int, value: float | str | None) -> Key:
    """Where a zone stands among those sorted by `value`: one that is not known comes before all others."""
    return value is not None, value if value is not None else 0.0, path.replace("/", "\0"), code


def path_in(key: Key) -> str:
    return key[2].replace("\0", "/")


def encode_marker(sort: str, key: Key) -> str:
    return base64.urlsafe_b64encode(msgspec.msgpack.encode(_Marker(sort, *key))).rstrip(b"=").decode()


def decode_marker(sort: str, text: str) -> Key:
    """Raises BadInput("bad-marker"), also for the marker of another sort."""
    try:
        marker = _MARKER(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
    except ValueError as error:
        raise bad_marker() from error
    worded = sort.removeprefix("-") == "health"
    if marker.sort != sort or (marker.known and isinstance(marker.value, str) is not worded):
        raise BadInput("bad-marker", "the marker is of a list that is sorted otherwise; begin again without marker")
    return marker.known, marker.value if marker.known else 0.0, marker.path, marker.code
