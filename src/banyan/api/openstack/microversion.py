"""Microversions: what a client asks for in a header, and what it gets (OpenStack's API guidelines, "Microversions").

    OpenStack-API-Version: compute 2.79          of several services, comma-separated; else
    X-OpenStack-Nova-API-Version: 2.79           compute's older name for it

No header is the oldest version, "latest" the newest. What is out of range is 406, what is malformed 400.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, NamedTuple

from banyan.core.errors import BadInput

HEADER = "OpenStack-API-Version"
_HEADER = HEADER.lower()
_VERSION = re.compile(r"([1-9]\d{0,2})\.(0|[1-9]\d{0,2})\Z")


class Version(NamedTuple):
    major: int
    minor: int

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"


# Of a service that has no microversions.
UNVERSIONED = Version(0, 0)


class OutOfRange(BadInput):
    """A version that is not served."""

    status: ClassVar[int] = 406


def parse(text: str) -> Version:
    """Raises BadInput("bad-microversion")."""
    found = _VERSION.match(text)
    if found is None:
        raise BadInput("bad-microversion", f"a microversion is two numbers such as 2.79, or latest; got {text[:40]!r}")
    return Version(int(found.group(1)), int(found.group(2)))


@dataclass(frozen=True, slots=True)
class Microversions:
    """The range of one service. `word` is its word in the header; `legacy` an older header of its own, or ""."""

    word: str
    first: Version
    last: Version
    legacy: str = ""

    def negotiate(self, headers: Mapping[str, str]) -> Version:
        """The version of one request; header names are lower case. Raises BadInput or OutOfRange."""
        return _negotiated(self, headers.get(_HEADER, ""), headers.get(self.legacy.lower(), "") if self.legacy else "")

    def asked(self, header: str, legacy: str) -> str:
        for entry in header.split(","):
            word, _, version = entry.strip().partition(" ")
            if word.lower() == self.word:
                return version.strip().lower()
        return legacy.strip().lower()

    def answered(self, version: Version) -> tuple[tuple[bytes, bytes], ...]:
        """The header lines that say which version it was."""
        return _answered(self, version)

    def lines(self, version: Version) -> tuple[tuple[bytes, bytes], ...]:
        names = [HEADER, *([self.legacy] if self.legacy else [])]
        lines = [(HEADER.lower().encode(), f"{self.word} {version}".encode())]
        if self.legacy:
            lines.append((self.legacy.lower().encode(), str(version).encode()))
        return (*lines, (b"vary", ", ".join(names).encode()))


# One client asks for one version, again and again. What is refused is not kept.
@lru_cache(maxsize=1024)
def _negotiated(versions: Microversions, header: str, legacy: str) -> Version:
    asked = versions.asked(header, legacy)
    if not asked:
        return versions.first
    if asked == "latest":
        return versions.last
    version = parse(asked)
    if not versions.first <= version <= versions.last:
        raise OutOfRange(
            "version-not-served",
            f"Version {version} is not supported by the API. Minimum is {versions.first} and maximum is "
            f"{versions.last}.",
        )
    return version


@lru_cache(maxsize=1024)
def _answered(versions: Microversions, version: Version) -> tuple[tuple[bytes, bytes], ...]:
    return versions.lines(version)
