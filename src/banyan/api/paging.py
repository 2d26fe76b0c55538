"""Lists: what a caller may ask of one, and the filters that the zone is handed.

A list is a page: at most 1,000 items, an opaque marker for the next page, and the names of what could not be
asked. docs/contracts/lists.md is the prose; the zone's side is zone/surface.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Annotated

import msgspec

from banyan.core.errors import BadInput
from banyan.core.ids import check_label

DEFAULT_LIMIT = 100
MAX_LIMIT = 1000

Limit = Annotated[int, msgspec.Meta(ge=1, le=MAX_LIMIT, description="Most items in the answer.")]
Marker = Annotated[str, msgspec.Meta(max_length=4096, description="Where the page before ended: its marker.")]
Under = Annotated[
    str,
    msgspec.Meta(
        max_length=1024, description="A zone: whole path, unambiguous last part, or code. Only what lies there."
    ),
]
Pattern = Annotated[str, msgspec.Meta(max_length=255, description="A shell pattern; * matches any.")]
Exact = Annotated[str, msgspec.Meta(max_length=255, description="The whole value.")]
Label = Annotated[str, msgspec.Meta(max_length=330)]
Labels = Annotated[
    tuple[Label, ...], msgspec.Meta(max_length=16, description="KEY=PATTERN; all that are given must match.")
]
Instant = Annotated[str, msgspec.Meta(max_length=40)]


class PageQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The part that all lists have."""

    marker: Marker = ""
    limit: Limit = DEFAULT_LIMIT


def filters(query: msgspec.Struct, names: Sequence[str]) -> Mapping[str, str]:
    """The filters that were given, as the zone takes them: name → text, labels as label.KEY."""
    found: dict[str, str] = {}
    for name in names:
        value: object = getattr(query, name)
        match value:
            case None | "" | ():
                continue
            case Enum():
                found[name] = str(value.value)
            case tuple():
                found.update(labels(value))
            case _:
                found[name] = str(value)
    return found


def labels(given: Sequence[object]) -> Mapping[str, str]:
    """`KEY=PATTERN` texts as label.KEY → pattern."""
    found: dict[str, str] = {}
    for text in given:
        key, equals, value = str(text).partition("=")
        if not equals:
            raise BadInput("bad-label", f"a label filter is KEY=PATTERN, got {str(text)[:80]!r}")
        check_label(key, value)
        found[f"label.{key}"] = value
    return found
