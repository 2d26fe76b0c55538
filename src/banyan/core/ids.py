"""Identities: codes, names, paths. Ids are types; text is for people and wires.

A *code* is a random 40-bit number, fixed for the life of a zone or a rack and never given again.
Its text is eight characters of Crockford's base 32, lower case (no i, l, o, u).
A *name* is a DNS label (RFC 1035, lower case): unique among the children of one parent. It may be spelled as a code
is; where either is meant, `coded_text` is a code and nothing else.
A *path* joins names with "/", from the zone that is asked downwards: `top/north/lab7`.
A guest's *id* is a version-8 UUID that says when it was made and in which rack (protocols §2).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, NewType

from banyan.core.errors import BadInput

ZoneCode = NewType("ZoneCode", int)
RackCode = NewType("RackCode", int)

CODE_BITS = 40
# In front of a code where a name could stand as well.
CODE_MARK: Final = "code:"
_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_VALUE = {c: i for i, c in enumerate(_ALPHABET)} | {"o": 0, "i": 1, "l": 1}
_NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\Z")
_LABEL_KEY = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_./-]{0,62}[A-Za-z0-9])?\Z")


def code_text(code: int) -> str:
    """Eight characters for a 40-bit code."""
    if not 0 <= code < 1 << CODE_BITS:
        raise ValueError(f"a code has {CODE_BITS} bits, got {code:#x}")
    return "".join(_ALPHABET[(code >> shift) & 31] for shift in range(35, -5, -5))


def parse_code(text: str) -> int:
    """The code that `text` spells; look-alike letters (o, i, l) and case are forgiven.

    Raises BadInput("bad-code") for anything else.
    """
    lowered = text.strip().lower().replace("-", "")
    if len(lowered) != 8 or any(c not in _VALUE for c in lowered):
        raise BadInput("bad-code", f"a code is eight letters and digits such as 7k3m9qxz, got {text!r}")
    value = 0
    for c in lowered:
        value = value << 5 | _VALUE[c]
    return value


def coded_text(code: int) -> str:
    """The code as `code:7k3m9qxz`, which no name is spelled as."""
    return CODE_MARK + code_text(code)


def check_name(text: str, what: str = "zone name") -> str:
    """`text` if it is a lower-case DNS label; else BadInput("bad-name") that says what to change."""
    if _NAME.match(text):
        return text
    hint = ""
    if _NAME.match(text.lower()):
        hint = f"; did you mean {text.lower()!r}?"
    elif not text.isascii():
        hint = "; letters outside a-z are refused because names that look alike must not differ"
    raise BadInput(
        "bad-name",
        f"a {what} is 1 to 63 lower-case letters, digits and inner hyphens, got {text[:80]!r}{hint}",
    )


def check_label(key: str, value: str) -> tuple[str, str]:
    """A label's key and value, checked: key as in `site` or `example.org/site`, value up to 255 printable."""
    if not _LABEL_KEY.match(key):
        raise BadInput("bad-label", f"a label's key is 1 to 64 letters, digits and _ . / -, got {key[:80]!r}")
    if len(value) > 255 or not value.isprintable():
        raise BadInput("bad-label", f"the value of label {key!r} must be at most 255 printable characters")
    return key, value


def split_path(text: str) -> tuple[str, ...]:
    """The names of a path, each checked. A leading or trailing slash is forgiven."""
    return tuple(check_name(part) for part in text.strip("/").split("/")) if text.strip("/") else ()


def join_path(*names: str) -> str:
    return "/".join(name for name in names if name)


def under(path: str, subtree: str) -> bool:
    """True if `path` is `subtree` or lies below it, by whole names (`zone1xyz` is not under `zone1`)."""
    return subtree in ("", "/") or path == subtree or path.startswith(subtree.rstrip("/") + "/")


# --- ids of guests ------------------------------------------------------------------------------

MILLISECOND_BITS: Final = 48
SEQUENCE_BITS: Final = 34
_SEQUENCES: Final = 1 << SEQUENCE_BITS
_GUEST_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}\Z")


@dataclass(frozen=True, slots=True)
class GuestIdParts:
    """`milliseconds`: of corrected time since 1970. `rack`: where it was first claimed; it routes the id for life."""

    milliseconds: int
    rack: RackCode
    sequence: int


def guest_id(milliseconds: int, rack: RackCode, sequence: int) -> str:
    """The version-8 UUID (RFC 9562, 5.8) of these parts; texts sort as (milliseconds, rack, sequence).

    Layout: 48 bits of milliseconds, the version, 12 bits of the rack, the variant, 28 bits of the rack, 34
    of the sequence. Raises ValueError for a part that does not fit.
    """
    if not 0 <= milliseconds < 1 << MILLISECOND_BITS:
        raise ValueError(f"a guest's id has {MILLISECOND_BITS} bits of milliseconds, got {milliseconds}")
    if not (0 <= rack < 1 << CODE_BITS and 0 <= sequence < _SEQUENCES):
        raise ValueError(f"a guest's id has a rack code and {SEQUENCE_BITS} bits of sequence, got {rack}, {sequence}")
    value = milliseconds << 80 | 8 << 76 | rack >> 28 << 64 | 2 << 62 | (rack & 0xFFF_FFFF) << 34 | sequence
    text = f"{value:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def read_guest_id(text: str) -> GuestIdParts | None:
    """The parts of an id of ours; None for any other text, such as the id that a bottom cloud gave (version 4)."""
    text = text.lower()
    if not _GUEST_ID.match(text):
        return None
    value = int(text.replace("-", ""), 16)
    rack = (value >> 64 & 0xFFF) << 28 | value >> 34 & 0xFFF_FFFF
    return GuestIdParts(value >> 80, RackCode(rack), value & _SEQUENCES - 1)


class GuestIds:
    """Draws ids for one rack: rising in time, also when the clock steps back.

    `ceiling`: the newest milliseconds that were stored as given out, 0 if none; `start`: a random
    sequence, so that two processes that both believe to own the rack rarely clash. Who draws stores
    `ceiling` in the transaction that stores the guests; on a clash of the unique key it draws again.
    """

    def __init__(self, rack: RackCode, ceiling: int, start: int) -> None:
        self.ceiling = ceiling
        self._rack = rack
        self._sequence = start % _SEQUENCES

    def draw(self, milliseconds: int, count: int) -> list[str]:
        """`count` new ids at that corrected time, or at `ceiling` if that is later."""
        self.ceiling = max(self.ceiling, milliseconds)
        # All but the last twelve digits are the same for all of them, and those hold the whole sequence.
        first = guest_id(self.ceiling, self._rack, 0)
        head, tail = first[:24], int(first[24:], 16)
        ids = [f"{head}{tail | (self._sequence + n) % _SEQUENCES:012x}" for n in range(count)]
        self._sequence = (self._sequence + count) % _SEQUENCES
        return ids


# --- ids of what is found by its id and written in the order of time ----------------------------

# Random bytes of such an id.
RISING_CHANCE: Final = 10


def rising_id(seconds: float, chance: bytes) -> str:
    """32 hexadecimal digits: 48 bits of milliseconds since 1970, then `chance`, RISING_CHANCE random bytes (as a UUID
    of version 7, RFC 9562, without its version).

    Rows with such ids that are written together stand together: of wholly random ones each has a page of its own in
    every index, which is read, changed and written for it.
    """
    return f"{int(seconds * 1000) & (1 << MILLISECOND_BITS) - 1:012x}{chance.hex()}"
