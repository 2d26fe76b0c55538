"""Bodies of the image API. Fields of an image are read by name in zone/images/changing.py, since any other name is a
property; here is what stands around them, and both dialects of a change."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

import msgspec

from banyan.core.errors import BadInput
from banyan.core.image import MAX_TEXT, MemberStatus
from banyan.zone.images.changing import Change, Way

Short = Annotated[str, msgspec.Meta(max_length=MAX_TEXT)]
# A new image: field or property → value.
Fields = dict[str, Any]

_NEW, _OLD = "application/openstack-images-v2.1-json-patch", "application/openstack-images-v2.0-json-patch"
PATCHES: Final = (_NEW, _OLD)
# More than an image can have fields to change.
_MOST_CHANGES: Final = 512


class Method(msgspec.Struct, frozen=True):
    name: Short
    uri: str = ""


class ImportBody(msgspec.Struct, frozen=True):
    method: Method
    stores: list[Short] | None = None
    all_stores: bool = False
    all_stores_must_succeed: bool = True


class TaskInput(msgspec.Struct, frozen=True):
    import_from: str
    import_from_format: str
    image_properties: dict[str, Any]


class TaskBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    type: Literal["import"]
    input: TaskInput


class MemberBody(msgspec.Struct, frozen=True):
    member: Short


class AnswerBody(msgspec.Struct, frozen=True):
    status: MemberStatus


def changes(content: bytes, kind: str) -> list[Change]:
    """What a PATCH of that media type asks for, in its order. Raises BadInput("bad-patch")."""
    try:
        items = msgspec.json.decode(content, type=list[dict[str, Any]])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _bad("Request body must be a JSON array of operation objects.") from error
    if len(items) > _MOST_CHANGES:
        raise _bad(f"a change of an image has at most {_MOST_CHANGES} operations, got {len(items)}")
    return [(_old if kind == _OLD else _new)(item) for item in items]


def _new(item: dict[str, Any]) -> Change:
    """{"op": "replace", "path": "/name", "value": …}"""
    return _change(item.get("op"), item.get("path"), item)


def _old(item: dict[str, Any]) -> Change:
    """{"replace": "/name", "value": …}"""
    ways = [way.value for way in Way if way.value in item]
    if len(ways) != 1:
        raise _bad("Operations must contain exactly one of: add, replace, remove.")
    return _change(ways[0], item[ways[0]], item)


def _change(way: object, path: object, item: dict[str, Any]) -> Change:
    if not isinstance(way, str) or way not in set(Way):
        raise _bad(f"Operation must be one of {', '.join(Way)}, got {str(way)[:40]!r}")
    if way != Way.REMOVE and "value" not in item:
        raise _bad(f'Operation "{way}" requires a member named "value".')
    return Change(Way(way), _field(path), item.get("value"))


def _field(path: object) -> str:
    """The field that a JSON pointer (RFC 6901) of one segment names. Of locations, which nobody sets, any depth."""
    if not isinstance(path, str) or not path.startswith("/"):
        raise _bad('Pointer must begin with "/" and name a field.')
    first, *more = path[1:].split("/")
    if not first or (more and first != "locations"):
        raise _bad('Invalid JSON pointer for this resource: it names one field, as in "/name".')
    left = first.replace("~1", "").replace("~0", "")
    if "~" in left:
        raise _bad('Pointer contains "~" not part of a recognized escape sequence.')
    return first.replace("~1", "/").replace("~0", "~")


def _bad(text: str) -> BadInput:
    return BadInput("bad-patch", text)
