"""What a verifier is given, and what it says. See the package for the registry."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from banyan.core.policy import CodeRecord, KnownKey
from banyan.core.zone import Mode
from banyan.trust.session import Session


class CodeLookup(Protocol):
    """core.records.CodeRows is one; a dict is another."""

    def get(self, id: str, /) -> CodeRecord | None: ...


class KnownKeyLookup(Protocol):
    """core.records.KnownKeyRows is one; a dict is another."""

    def get(self, fingerprint: bytes, /) -> KnownKey | None: ...


@dataclass(frozen=True, slots=True)
class Context:
    """What evidence is judged by: the session it came in, the key that is to be certified, what is listed here."""

    session: Session
    public_key: bytes
    codes: CodeLookup
    known_keys: KnownKeyLookup


@dataclass(frozen=True, slots=True)
class Verified:
    """What was proved, as attributes for policy. Nothing is admitted by it yet.

    `kind`: the verifier's. `reference`: for the journal (a code's id, a key's short fingerprint). `name`, `driver`:
    patterns that the child must match. `labels`: set on the child. `mode`: granted at most. `replace`: may take
    a taken name. `code`: the join code's record as it was read.
    """

    kind: str
    reference: str
    name: str = "*"
    driver: str = "*"
    labels: Mapping[str, str] = field(default_factory=dict)
    mode: Mode = Mode.PLACE
    replace: bool = False
    code: CodeRecord | None = None


class Verifier(Protocol):
    """`verify` is pure: it may read through the context's look-ups and does nothing else.

    It raises Refused with a code that says what was wrong, whatever the bytes are, and nothing else.
    """

    @property
    def kind(self) -> str: ...

    def verify(self, body: bytes, context: Context) -> Verified: ...
