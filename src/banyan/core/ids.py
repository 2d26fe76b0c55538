"""Identities: codes, names, paths. Ids are types; text is for people and wires.

A *code* is a random 40-bit number, fixed for the life of a zone or a rack and never given again.
Its text is eight characters of Crockford's base 32, lower case (no i, l, o, u).
A *name* is a DNS label (RFC 1035, lower case): unique among the children of one parent.
A *path* joins names with "/", from the zone that is asked downwards: `top/north/lab7`.
"""

from __future__ import annotations

import re
from typing import NewType

from banyan.core.errors import BadInput

ZoneCode = NewType("ZoneCode", int)
RackCode = NewType("RackCode", int)

CODE_BITS = 40
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


def is_code(text: str) -> bool:
    """True if `text` has the form of a code (a name may have it as well; names win)."""
    lowered = text.lower()
    return len(lowered) == 8 and all(c in _VALUE for c in lowered)


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
