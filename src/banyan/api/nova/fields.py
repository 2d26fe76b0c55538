"""Reading the objects of a body: each field is taken out and checked; what is left at the end is refused.

So a body is closed without a second list of its fields, and a field that a microversion does not have is simply not
taken. Refusals name the field and say what it must be. Rules are Nova's (api/validation/parameter_types.py there):
booleans and numbers may come as words, names have printable characters and no blank at either end.
"""

from __future__ import annotations

import base64
import binascii
import ipaddress
import re
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar
from unicodedata import category

from banyan.core.errors import BadInput

T = TypeVar("T")
D = TypeVar("D")

UUID = re.compile(r"[0-9A-Fa-f]{8}-?(?:[0-9A-Fa-f]{4}-?){3}[0-9A-Fa-f]{12}\Z")
_TRUE = frozenset({"true", "1", "on", "yes"})
_FALSE = frozenset({"false", "0", "off", "no"})
_METADATA_KEY = re.compile(r"[a-zA-Z0-9\-_:. ]{1,255}\Z")
_TAG = re.compile(r"[^,/]{1,60}\Z")
_HOSTNAME = re.compile(r"[a-zA-Z0-9]+[a-zA-Z0-9-]*[a-zA-Z0-9]+\Z")
_FQDN = re.compile(r"[a-zA-Z0-9\-._]*\Z")
_DIGITS = re.compile(r"[0-9]+\Z")
_SIGNED = re.compile(r"-?[0-9]+\Z")
MAX_TAGS = 50
MAX_USER_DATA = 65_535


def bad(field: str, why: str, value: object = None) -> BadInput:
    got = "" if value is None else f" Value: {str(value)[:80]!r}."
    return BadInput("bad-field", f"Invalid input for field/attribute {field[:80]}.{got} {why}")


class Fields:
    """One object. `name` is how refusals call it."""

    __slots__ = ("_left", "name")

    def __init__(self, value: object, name: str) -> None:
        if not isinstance(value, dict):
            raise bad(name, "It is not of type 'object'.", _kind(value))
        self._left: dict[str, object] = dict(value)
        self.name = name

    def __contains__(self, field: str) -> bool:
        return field in self._left

    def take(self, field: str, check: Callable[[object, str], T], default: D) -> T | D:
        if field not in self._left:
            return default
        return check(self._left.pop(field), field)

    def need(self, field: str, check: Callable[[object, str], T]) -> T:
        if field not in self._left:
            text = f"Invalid input for field/attribute {self.name}. '{field}' is a required property"
            raise BadInput("bad-field", text)
        return check(self._left.pop(field), field)

    def drop(self, *fields: str) -> None:
        """These may be there, and say nothing to us."""
        for field in fields:
            self._left.pop(field, None)

    def rest(self) -> Mapping[str, object]:
        """What was not taken; it is taken now."""
        left, self._left = self._left, {}
        return left

    def done(self) -> None:
        if self._left:
            names = ", ".join(repr(name[:80]) for name in sorted(self._left)[:10])
            were = "was" if len(self._left) == 1 else "were"
            text = f"Additional properties are not allowed ({names} {were} unexpected)"
            raise BadInput("unknown-field", f"Invalid input for field/attribute {self.name}. {text}")


def inner(body: object, key: str) -> Fields:
    """The object under the only key of a body."""
    outer = Fields(body, "body")
    value = outer.need(key, anything)
    outer.done()
    return Fields(value, key)


def _kind(value: object) -> str:
    if value is None:
        return "null"
    return "a list" if isinstance(value, list) else type(value).__name__


# --- checks of one value ----------------------------------------------------------------------------


def anything(value: object, field: str) -> object:
    return value


def text(least: int = 0, most: int = 255) -> Callable[[object, str], str]:
    def check(value: object, field: str) -> str:
        if not isinstance(value, str):
            raise bad(field, "It is not of type 'string'.", value)
        if len(value) < least:
            raise bad(field, "It is too short.", value)
        if len(value) > most:
            raise bad(field, f"It is too long: at most {most} characters.", value)
        return value

    return check


def or_none(check: Callable[[object, str], T]) -> Callable[[object, str], T | None]:
    def checked(value: object, field: str) -> T | None:
        return None if value is None else check(value, field)

    return checked


_SHORT = text(1, 255)


def printable(value: str) -> bool:
    """As Nova means it: no control, format or unassigned characters, no line separators."""
    if value.isascii():
        return value.isprintable()
    for character in value:
        kind = category(character)
        if kind[0] == "C" or (kind[0] == "Z" and kind != "Zs"):
            return False
    return True


def name(value: object, field: str) -> str:
    found = _SHORT(value, field)
    if not printable(found) or found != found.strip() or not found.strip():
        raise bad(field, "It must be printable characters. Can not start or end with whitespace.", found)
    return found


def zone_name(value: object, field: str) -> str:
    found = name(value, field)
    if ":" in found:
        raise bad(field, "It must be printable characters except :", found)
    return found


def description(value: object, field: str) -> str:
    found = text(0, 255)(value, field)
    if not printable(found):
        raise bad(field, "It must be printable characters.", found)
    return found


def truth(value: object, field: str) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str):
        lowered = value.lower()
        if lowered in _TRUE:
            return True
        if lowered in _FALSE:
            return False
    raise bad(field, "It is none of true and false.", value)


def whole(least: int, most: int) -> Callable[[object, str], int]:
    """An integer, or one in digits."""

    def check(value: object, field: str) -> int:
        number: int | None = None
        if isinstance(value, int) and not isinstance(value, bool):
            number = value
        elif isinstance(value, str) and _SIGNED.match(value) and len(value) <= 20:
            number = int(value)
        if number is None:
            raise bad(field, "It is not of type 'integer', 'string' of digits.", value)
        if number < least:
            raise bad(field, f"It is less than the minimum of {least}.", value)
        if number > most:
            raise bad(field, f"It is greater than the maximum of {most}.", value)
        return number

    return check


def uuid(value: object, field: str) -> str:
    if not isinstance(value, str) or not UUID.match(value):
        raise bad(field, "It is not a 'uuid'.", value)
    return value


def is_uuid(value: str) -> bool:
    return UUID.match(value) is not None


def one_of(*words: str) -> Callable[[object, str], str]:
    def check(value: object, field: str) -> str:
        if not isinstance(value, str) or value not in words:
            raise bad(field, f"It is not one of {list(words)}.", value)
        return value

    return check


def address(version: int = 0) -> Callable[[object, str], str]:
    """An address of IP, of that version if not 0."""

    def check(value: object, field: str) -> str:
        try:
            found = ipaddress.ip_address(value if isinstance(value, str) else "")
        except ValueError:
            found = None
        if found is None or (version and found.version != version):
            raise bad(field, f"It is not an 'ipv{version or 4}' address.", value)
        return str(found)

    return check


def address_or_empty(version: int) -> Callable[[object, str], str]:
    check = address(version)

    def checked(value: object, field: str) -> str:
        return "" if value == "" or value is None else check(value, field)

    return checked


def metadata(value: object, field: str) -> dict[str, str]:
    return {metadata_key(key, field): text(0, 255)(item, key) for key, item in _object(value, field).items()}


def metadata_key(key: str, field: str = "metadata") -> str:
    if not _METADATA_KEY.match(key):
        why = "A key has 1 to 255 letters, digits and - _ : . or blanks."
        raise bad(field, why, key)
    return key


def tag(value: object, field: str) -> str:
    if not isinstance(value, str) or not _TAG.match(value):
        raise bad(field, "A tag has 1 to 60 characters, neither a comma nor a slash.", value)
    return value


def tags(value: object, field: str) -> tuple[str, ...]:
    found = tuple(dict.fromkeys(tag(one, field) for one in items(value, field)))
    if len(found) > MAX_TAGS:
        raise bad(field, f"A server has at most {MAX_TAGS} tags.", len(found))
    return found


def hostname(value: object, field: str) -> str:
    found = text(2, 63)(value, field)
    if not _HOSTNAME.match(found):
        raise bad(field, "It is letters, digits and inner hyphens.", found)
    return found


def fqdn(value: object, field: str) -> str:
    found = _SHORT(value, field)
    if not _FQDN.match(found):
        raise bad(field, "It is letters, digits, hyphens, underscores and dots.", found)
    return found


def user_data(value: object, field: str) -> str:
    found = text(0, MAX_USER_DATA)(value, field)
    try:
        base64.b64decode(found.encode(), validate=False)
    except (binascii.Error, ValueError) as error:
        raise bad(field, "It is not 'base64'.") from error
    return found


def items(value: object, field: str) -> list[object]:
    if not isinstance(value, list):
        raise bad(field, "It is not of type 'array'.", _kind(value))
    return value


def texts(value: object, field: str) -> tuple[str, ...]:
    return tuple(_SHORT(one, field) for one in items(value, field))


def uuids(value: object, field: str) -> tuple[str, ...]:
    """One, or a list of them."""
    if isinstance(value, str):
        return (uuid(value, field),)
    return tuple(uuid(one, field) for one in items(value, field))


def disk_config(value: object, field: str) -> str:
    return one_of("AUTO", "MANUAL")(value, field)


def _object(value: object, field: str) -> dict[str, object]:
    if not isinstance(value, dict):
        raise bad(field, "It is not of type 'object'.", _kind(value))
    return value


def flavor_ref(value: object, field: str) -> str:
    """An id; an address of a flavor's, as old clients write it, ends in one."""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    found = text(1, 1_024)(value, field)
    return found.rsplit("/", 1)[-1]


def digits(value: str) -> int | None:
    """A whole number in a path or query; None if it is none, or too long to be one of ours."""
    return int(value) if _DIGITS.match(value) and len(value) <= 15 else None


def each(check: Callable[[object, str], T], values: Iterable[object], field: str) -> tuple[T, ...]:
    return tuple(check(value, field) for value in values)
