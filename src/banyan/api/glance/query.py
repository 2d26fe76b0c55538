"""What a list of images may be asked: filters, order, page. A parameter that is none of these is a property's value."""

from __future__ import annotations

import csv
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import urlencode

from banyan.api.openstack.call import Call, truth
from banyan.core.errors import BadInput
from banyan.core.image import Between, ImageQuery, ImageSort, MemberStatus, Visibility
from banyan.core.time import Wall

PAGE: Final = 25
MOST: Final = 1_000
_PAGING: Final = frozenset({"limit", "marker", "sort", "sort_key", "sort_dir"})
_LISTS: Final = {
    "id": "ids", "name": "names", "status": "statuses", "container_format": "container_formats",
    "disk_format": "disk_formats",
}  # fmt: skip
_NUMBERS: Final = frozenset({"size", "min_disk", "min_ram"})
_TEXTS: Final = {"checksum": "checksum", "os_hash_algo": "hash_algo", "os_hash_value": "hash_value"}
_MOST_SORTED: Final = 8
_FIRST: Final = Wall(-1e12)


def limit(call: Call) -> int:
    return call.limit(MOST) if call.one("limit") else PAGE


def images(call: Call) -> ImageQuery:
    """The query, but for whose it is. Raises BadInput."""
    found: dict[str, Any] = {}
    exact: dict[str, str | int | bool] = {}
    properties: dict[str, str] = {}
    for name, values in call.query.items():
        if name in _PAGING:
            continue
        if name == "tag":
            found["tags"] = values
            continue
        text = call.one(name)
        if name in _LISTS:
            found[_LISTS[name]] = _list(text)
        elif name in _NUMBERS:
            exact[name] = _number(name, text)
        elif name in _TEXTS:
            exact[_TEXTS[name]] = text
        elif name in ("size_min", "size_max"):
            found[name] = _number(name, text)
        elif name == "protected":
            exact[name] = truth(name, text)
        elif name == "os_hidden":
            found["hidden"] = truth(name, text)
        elif name == "owner":
            found[name] = text
        elif name == "visibility":
            found |= _visibility(text)
        elif name == "member_status":
            found[name] = _member_status(text)
        elif name in ("created_at", "updated_at"):
            found[name.removesuffix("_at")] = (_between(name, text),)
        else:
            properties[name] = text
    return ImageQuery(exact=exact, properties=properties, sort=_sort(call), **found)


def page(call: Call, path: str, key: str, shown: list[dict[str, object]], asked: int) -> dict[str, object]:
    """A page of `shown`, with links to the first one and to the next one if there may be one. Relative to the service's
    root, as clients expect them."""
    pairs = [(name, value) for name, values in call.query.items() if name != "marker" for value in values]
    first = f"{path}?{urlencode(pairs)}" if pairs else path
    answer: dict[str, object] = {key: shown, "first": first, "schema": f"/v2/schemas/{key}"}
    if shown and len(shown) >= asked:
        answer["next"] = f"{path}?{urlencode([*pairs, ('marker', str(shown[-1]['id']))])}"
    return answer


def _list(text: str) -> tuple[str, ...]:
    """One value, or `in:a,b,"c,d"`."""
    if not text.startswith("in:"):
        return (text,)
    try:
        (row,) = csv.reader([text[3:]], strict=True)
    except (csv.Error, ValueError) as error:
        raise BadInput("bad-parameter", 'a list of values is in:a,b,"c,d"') from error
    return tuple(row)


def _number(name: str, text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise BadInput("bad-parameter", f"{name} must be a whole number from 0, got {text[:40]!r}")
    return int(text)


def _visibility(text: str) -> dict[str, object]:
    if text == "all":
        return {"community": True}
    if text not in set(Visibility):
        raise BadInput("bad-parameter", f"Invalid visibility value: {text[:40]!r}")
    return {"visibility": Visibility(text)}


def _member_status(text: str) -> MemberStatus | None:
    if text == "all":
        return None
    if text not in set(MemberStatus):
        raise BadInput("bad-parameter", f"Invalid status: {text[:40]!r}; it is pending, accepted, rejected or all")
    return MemberStatus(text)


def _between(name: str, text: str) -> Between:
    """`gte:2026-11-30T19:00:00Z` and its like; an instant is as long as the second that is shown of it."""
    word, colon, rest = text.partition(":")
    if not colon or word not in ("eq", "neq", "gt", "gte", "lt", "lte"):
        word, rest = "eq", text
    try:
        at = datetime.fromisoformat(rest)
        since = Wall(float(int((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp())))
    except (ValueError, OverflowError) as error:
        raise BadInput("bad-parameter", f"{name} must be an instant as in gte:2026-11-30T19:00:00Z") from error
    after = Wall(since + 1.0)
    match word:
        case "gt":
            return Between(least=after)
        case "gte":
            return Between(least=since)
        case "lt":
            return Between(below=since)
        case "lte":
            return Between(below=after)
    return Between(since, after, outside=word == "neq")


def _sort(call: Call) -> tuple[tuple[ImageSort, bool], ...]:
    keys, ways = call.query.get("sort_key", ()), call.query.get("sort_dir", ())
    if "sort" in call.query:
        if keys or ways:
            raise BadInput("bad-parameter", "Old and new sorting syntax cannot be combined")
        pairs = [part.partition(":") for part in call.one("sort").split(",")]
        wanted = [(key.strip(), way.strip() or "desc") for key, _, way in pairs]
    else:
        if not keys and ways:
            keys = ("created_at",)
        if len(ways) > 1 and len(ways) != len(keys):
            raise BadInput("bad-parameter", "Number of sort dirs does not match the number of sort keys")
        wanted = [(key, ways[at] if len(ways) > 1 else (*ways, "desc")[0]) for at, key in enumerate(keys)]
    found: dict[ImageSort, bool] = {}
    for key, way in wanted:
        if key not in set(ImageSort):
            raise BadInput("bad-parameter", f"Invalid sort key: {key[:40]!r}; known are: {', '.join(ImageSort)}")
        if way not in ("asc", "desc"):
            raise BadInput("bad-parameter", f"Invalid sort direction: {way[:40]!r}; it is asc or desc")
        found.setdefault(ImageSort(key), way == "desc")
    if len(found) > _MOST_SORTED:
        raise BadInput("bad-parameter", f"images are sorted by at most {_MOST_SORTED} keys")
    return tuple(found.items())
