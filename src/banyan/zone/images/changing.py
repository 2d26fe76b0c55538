"""What people may set of an image, and to what: one rule per field, for a new image and for one that is changed.

A change names a field as the API does ("os_hidden"); what is none of ours is a property. Pure: nothing is read or
written here. Who may make an image public, or give it to another project, is the caller's to ask.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from banyan.core.errors import BadInput, Conflict, Refused
from banyan.core.image import (
    CONTAINER_FORMATS,
    DISK_FORMATS,
    MAX_PROPERTIES,
    MAX_PROPERTY_TEXT,
    MAX_TAGS,
    MAX_TEXT,
    Image,
    ImageStatus,
    Visibility,
)
from banyan.zone.images.refusals import OverSize

MAX_NUMBER: Final = 2_147_483_647
# What the service says of an image, and nobody sets.
READ_ONLY: Final = frozenset({
    "id", "status", "created_at", "updated_at", "checksum", "size", "virtual_size", "os_hash_algo", "os_hash_value",
    "file", "schema", "self", "direct_url", "stores",
})  # fmt: skip
# Words of OpenStack's own that no property may be called by.
RESERVED: Final = frozenset({"deleted", "deleted_at", "is_public", "members", "image_id", "locations"})
RESERVED_PREFIX: Final = "os_glance"
# What is shown among the properties and is none. The SDK takes them for properties, and asks for them to be removed
# when somebody sets others: that changes nothing, and is no fault of who asked.
SHOWN: Final = frozenset({"stores", "os_glance_importing_to_stores", "os_glance_failed_import"})


class Way(StrEnum):
    ADD = "add"
    REPLACE = "replace"
    REMOVE = "remove"


@dataclass(frozen=True, slots=True)
class Change:
    """One field or property to `value`, as it came: any JSON."""

    way: Way
    field: str
    value: object = None


def changed(image: Image, change: Change) -> Image:
    """The image with the change made. Raises BadInput for a value that does not fit, Refused for a field that nobody
    sets or that can not be without a value, Conflict for a property that is not there."""
    field = change.field
    if field in SHOWN and change.way is Way.REMOVE:
        return image
    if field in READ_ONLY:
        raise Refused("read-only", f"Attribute '{field}' is read-only.")
    if field in RESERVED or field.startswith(RESERVED_PREFIX):
        raise Refused("reserved", f"Attribute '{field[:MAX_TEXT]}' is reserved.")
    rule = _RULES.get(field)
    if rule is None:
        return replace(image, properties=_properties(image.properties, change))
    if change.way is Way.REMOVE:
        raise Refused("not-removable", f"Property {field} cannot be removed.")
    return rule(image, change.value)


def _properties(held: Mapping[str, str], change: Change) -> Mapping[str, str]:
    name, value = change.field, change.value
    if not name or len(name) > MAX_TEXT or not name.isprintable():
        raise BadInput("bad-property", f"the name of a property has 1 to {MAX_TEXT} printable characters")
    if change.way is not Way.ADD and name not in held:
        raise Conflict("no-property", f"Property {name} does not exist.")
    if change.way is Way.REMOVE:
        return {key: text for key, text in held.items() if key != name}
    if not isinstance(value, str):
        raise _wrong(name, "a string")
    properties = {**held, name: value}
    if len(properties) > MAX_PROPERTIES:
        raise OverSize("too-many-properties", f"an image may have {MAX_PROPERTIES} properties")
    if sum(len(key) + len(text) for key, text in properties.items()) > MAX_PROPERTY_TEXT:
        raise OverSize("large-properties", f"the properties of an image may have {MAX_PROPERTY_TEXT} characters")
    return properties


def _wrong(field: str, expected: str) -> BadInput:
    return BadInput("bad-attribute", f"Invalid value for {field[:MAX_TEXT]}: it must be {expected}")


def _text(field: str, value: object) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str) or len(value) > MAX_TEXT:
        raise _wrong(field, f"a string of at most {MAX_TEXT} characters, or null")
    return value


def _number(field: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MAX_NUMBER:
        raise _wrong(field, f"a whole number from 0 to {MAX_NUMBER}")
    return value


def _truth(field: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise _wrong(field, "true or false")
    return value


def _format(image: Image, field: str, value: object, known: tuple[str, ...]) -> str | None:
    if value is not None and value not in known:
        raise _wrong(field, f"one of {', '.join(known)}, or null")
    if image.status is not ImageStatus.QUEUED:
        raise Refused("not-queued", f"Attribute {field} can be only replaced for a queued image.")
    return None if value is None else str(value)


def _visibility(value: object) -> Visibility:
    known = [one.value for one in Visibility]
    if value not in known:
        raise _wrong("visibility", f"one of {', '.join(known)}")
    return Visibility(str(value))


def check_tag(tag: object) -> str:
    """Raises BadInput("bad-tag")."""
    if not isinstance(tag, str) or not tag or len(tag) > MAX_TEXT:
        raise BadInput("bad-tag", f"a tag is a string of 1 to {MAX_TEXT} characters")
    return tag


def check_tags(tags: object) -> tuple[str, ...]:
    """Each once, in their order. Raises BadInput("bad-tag"), OverSize("too-many-tags")."""
    if not isinstance(tags, list | tuple):
        raise _wrong("tags", "a list of strings")
    found = tuple(dict.fromkeys(check_tag(tag) for tag in tags))
    if len(found) > MAX_TAGS:
        raise OverSize("too-many-tags", f"an image may have {MAX_TAGS} tags")
    return found


_RULES: Mapping[str, Callable[[Image, object], Image]] = {
    "name": lambda image, value: replace(image, name=_text("name", value)),
    "owner": lambda image, value: replace(image, owner=_text("owner", value) or ""),
    "visibility": lambda image, value: replace(image, visibility=_visibility(value)),
    "container_format": lambda image, value: replace(
        image, container_format=_format(image, "container_format", value, CONTAINER_FORMATS)
    ),
    "disk_format": lambda image, value: replace(image, disk_format=_format(image, "disk_format", value, DISK_FORMATS)),
    "min_disk": lambda image, value: replace(image, min_disk=_number("min_disk", value)),
    "min_ram": lambda image, value: replace(image, min_ram=_number("min_ram", value)),
    "protected": lambda image, value: replace(image, protected=_truth("protected", value)),
    "os_hidden": lambda image, value: replace(image, hidden=_truth("os_hidden", value)),
    "tags": lambda image, value: replace(image, tags=check_tags(value)),
}
FIELDS: Final = frozenset(_RULES)
