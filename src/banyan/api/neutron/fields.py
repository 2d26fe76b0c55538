"""Reading the objects of a body: each attribute is taken out and checked; what is left at the end is refused.

Refusals are worded as Neutron words them ("Invalid input for mtu. Reason: …"), and name the attribute. An attribute
that may not be said at all (by its name in `refused`) is told apart from one that nobody knows.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from banyan.core import addresses
from banyan.core.errors import BadInput
from banyan.core.network import Route, Span

T = TypeVar("T")
D = TypeVar("D")
Check = Callable[[object, str], T]

_UUID = re.compile(r"[0-9A-Fa-f]{8}-?(?:[0-9A-Fa-f]{4}-?){3}[0-9A-Fa-f]{12}\Z")
_INTEGER = re.compile(r"-?[0-9]{1,18}\Z")
_TRUE, _FALSE = frozenset({"true", "1", "t", "yes", "on"}), frozenset({"false", "0", "f", "no", "off"})
MAX_ITEMS = 1_000


def bad(name: str, why: str) -> BadInput:
    return BadInput("bad-field", f"Invalid input for {name[:80]}. Reason: {why}")


def shown(value: object) -> str:
    """A value as a refusal shows it."""
    return repr(value)[:80] if isinstance(value, str) else f"'{str(value)[:78]}'"


class Attributes:
    """One object, whose attributes are taken one by one."""

    __slots__ = ("_left", "name")

    def __init__(self, value: object, name: str) -> None:
        if not isinstance(value, dict):
            raise bad(name, f"{shown(value)} is not a dictionary.")
        self._left: dict[str, object] = dict(value)
        self.name = name

    def __contains__(self, name: str) -> bool:
        return name in self._left

    def take(self, name: str, check: Check[T], default: D) -> T | D:
        if name not in self._left:
            return default
        return check(self._left.pop(name), name)

    def need(self, name: str, check: Check[T]) -> T:
        if name not in self._left:
            raise BadInput("bad-field", f"Failed to parse request. Required attribute '{name}' not specified")
        return check(self._left.pop(name), name)

    def changes(self, known: Sequence[tuple[str, str, Check[object]]]) -> dict[str, object]:
        """What is said of these attributes, by the record's field: (attribute, field, check) each."""
        return {column: check(self._left.pop(name), name) for name, column, check in known if name in self._left}

    def project(self) -> str:
        """project_id, or its older name; both may be said if they agree."""
        new = self.take("project_id", or_none(text(0, 255)), None)
        old = self.take("tenant_id", or_none(text(0, 255)), None)
        if new is not None and old is not None and new != old:
            raise bad("project_id", "'project_id' and 'tenant_id' do not match.")
        return new or old or ""

    def done(self, refused: tuple[str, ...] = ()) -> None:
        """`refused`: attributes that there are, and that can not be said here."""
        for name in refused:
            if name in self._left:
                raise BadInput("read-only", f"Attribute '{name}' not allowed here: it cannot be set or changed")
        if self._left:
            names = ", ".join(repr(name[:80]) for name in sorted(self._left)[:10])
            raise BadInput("unknown-field", f"Unrecognized attribute(s) {names}")


def inner(body: object, key: str) -> Attributes:
    """The object under the only key of a body."""
    if not isinstance(body, dict) or set(body) != {key}:
        raise BadInput("bad-body", f"Unable to find '{key}' in request body: it is an object with this one key")
    return Attributes(body[key], key)


def several(body: object, one: str, many: str) -> tuple[list[Attributes], bool]:
    """The objects of a body that makes one or many, and whether it is many."""
    if isinstance(body, dict) and set(body) == {many}:
        found = items(body[many], many)
        if not found:
            raise BadInput("bad-body", f"Resources required: '{many}' is empty")
        return [Attributes(value, one) for value in found], True
    return [inner(body, one)], False


# --- checks of one value --------------------------------------------------------------------------


def text(least: int = 0, most: int = 255) -> Check[str]:
    def check(value: object, name: str) -> str:
        if not isinstance(value, str):
            raise bad(name, f"{shown(value)} is not a valid string.")
        if len(value) < least:
            raise bad(name, f"it has at least {least} characters, got {len(value)}.")
        if len(value) > most:
            raise bad(name, f"'{value[:40]}…' exceeds maximum length of {most}.")
        if not value.isprintable() and any(ord(one) < 32 and one not in "\t\n\r" for one in value):
            raise bad(name, "it holds a control character.")
        return value

    return check


def or_none(check: Check[T]) -> Check[T | None]:
    def checked(value: object, name: str) -> T | None:
        return None if value is None else check(value, name)

    return checked


def or_empty(check: Check[str]) -> Check[str]:
    """null is nothing."""

    def checked(value: object, name: str) -> str:
        return "" if value is None or value == "" else check(value, name)

    return checked


def truth(value: object, name: str) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, int) and value in (0, 1):
        return bool(value)
    if isinstance(value, str):
        found = truth_of(value)
        if found is not None:
            return found
    raise bad(name, f"{shown(value)} cannot be converted to boolean.")


def truth_of(word: str) -> bool | None:
    lowered = word.strip().lower()
    return True if lowered in _TRUE else False if lowered in _FALSE else None


def whole(least: int, most: int) -> Check[int]:
    def check(value: object, name: str) -> int:
        number: int | None = None
        if isinstance(value, int) and not isinstance(value, bool):
            number = value
        elif isinstance(value, str) and _INTEGER.match(value):
            number = int(value)
        if number is None:
            raise bad(name, f"{shown(value)} is not an integer.")
        if not least <= number <= most:
            raise bad(name, f"'{number}' is not in range {least} to {most}.")
        return number

    return check


def uuid(value: object, name: str) -> str:
    if not isinstance(value, str) or not _UUID.match(value):
        raise bad(name, f"{shown(value)} is not a valid UUID.")
    return value


def one_of(*words: str) -> Check[str]:
    def check(value: object, name: str) -> str:
        if not isinstance(value, str) or value not in words:
            raise bad(name, f"{shown(value)} is not in {list(words)}.")
        return value

    return check


def items(value: object, name: str, most: int = MAX_ITEMS) -> list[object]:
    if not isinstance(value, list):
        raise bad(name, f"{shown(value)} is not a list.")
    if len(value) > most:
        raise bad(name, f"it has at most {most} items, got {len(value)}.")
    return value


def each(check: Check[T], most: int = MAX_ITEMS) -> Check[tuple[T, ...]]:
    """A list; null is an empty one."""

    def checked(value: object, name: str) -> tuple[T, ...]:
        return () if value is None else tuple(check(one, name) for one in items(value, name, most))

    return checked


def distinct(check: Check[T], most: int = MAX_ITEMS) -> Check[tuple[T, ...]]:
    def checked(value: object, name: str) -> tuple[T, ...]:
        found = each(check, most)(value, name)
        if len(set(found)) < len(found):
            raise bad(name, "it has the same item twice.")
        return found

    return checked


def address(value: object, name: str) -> str:
    found = addresses.address(value) if isinstance(value, str) else None
    if found is None:
        raise bad(name, f"{shown(value)} is not a valid IP address.")
    return str(found)


def prefix(value: object, name: str) -> str:
    found = addresses.prefix(value) if isinstance(value, str) else None
    if found is None:
        raise bad(name, f"{shown(value)} is not a valid IP subnet.")
    return str(found)


def cidr(value: object, name: str) -> str:
    """A prefix that says its length, and has no bits below it."""
    found = prefix(value, name)
    if not isinstance(value, str) or "/" not in value:
        raise bad(name, f"{shown(value)} isn't a recognized IP subnet cidr, '{found}' is recommended.")
    given = addresses.address(value.partition("/")[0])
    if str(given) != found.partition("/")[0]:
        raise bad(name, f"{shown(value)} isn't a recognized IP subnet cidr, '{found}' is recommended.")
    return found


def mac(value: object, name: str) -> str:
    found = addresses.mac(value) if isinstance(value, str) else None
    if found is None:
        raise bad(name, f"{shown(value)} is not a valid MAC address.")
    return found


def span(value: object, name: str) -> Span:
    given = Attributes(value, name)
    found = Span(given.need("start", address), given.need("end", address))
    given.done()
    return found


def route(value: object, name: str) -> Route:
    given = Attributes(value, name)
    found = Route(given.need("destination", prefix), given.need("nexthop", address))
    given.done()
    return found


def mapping(most: int) -> Check[Mapping[str, object]]:
    """An object of a few plain values."""

    def check(value: object, name: str) -> Mapping[str, object]:
        if value is None:
            return {}
        if not isinstance(value, dict):
            raise bad(name, f"{shown(value)} is not a dictionary.")
        if len(str(value)) > most:
            raise bad(name, f"it is larger than {most} characters.")
        return value

    return check
