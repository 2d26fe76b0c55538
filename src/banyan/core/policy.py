"""Policy: which verified stranger becomes which child. A table, first match wins, no match refuses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from banyan.core.ids import ZoneCode
from banyan.core.time import Wall
from banyan.core.zone import Mode


class Verdict(StrEnum):
    ADMIT = "admit"
    QUARANTINE = "quarantine"
    REFUSE = "refuse"


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule; patterns are shell patterns (fnmatch) on whole values, "*" matches any.

    Conditions: `verifier` (a registered kind or "*"), `name`, `driver`, `labels` (each key's pattern).
    Outcome: `verdict`, `set_labels` added to the child's, `mode` granted at most, `reason` shown to
    the refused. `priority`: lower first, then by id.
    """

    id: str
    priority: int = 100
    verifier: str = "*"
    name: str = "*"
    driver: str = "*"
    labels: Mapping[str, str] = field(default_factory=dict)
    verdict: Verdict = Verdict.ADMIT
    set_labels: Mapping[str, str] = field(default_factory=dict)
    mode: Mode = Mode.PLACE
    reason: str = ""


@dataclass(frozen=True, slots=True)
class CodeRecord:
    """What a parent keeps of a join code: a hash of its secret (trust.tokens.secret_hash, 32 bytes), and its bounds.

    `uses` left before it is used up; None is unlimited until `expires`. `replace` lets a new key take
    a name that is taken. `issued` and `expires` are corrected wall time. `epoch` is the zone's own
    epoch at issue, so that a restored parent refuses codes made before its backup.
    """

    id: str
    secret_hash: bytes
    issued: Wall
    expires: Wall
    uses: int | None = 1
    used: int = 0
    name: str = "*"
    driver: str = "*"
    labels: Mapping[str, str] = field(default_factory=dict)
    mode: Mode = Mode.PLACE
    replace: bool = False
    revoked: bool = False
    created_by: str = ""
    epoch: int = 1


class CodeState(StrEnum):
    """What a join code is worth to a key that did not use it yet. Each but OPEN is a reason to refuse it; the first
    that holds is the one that is shown."""

    OPEN = "open"
    REVOKED = "revoked"
    BEFORE_RESTORE = "before-restore"
    EXPIRED = "expired"
    USED_UP = "used-up"


@dataclass(frozen=True, slots=True)
class KnownKey:
    """A key listed beforehand, as an ownership voucher: SHA-256 of SubjectPublicKeyInfo, and what it becomes."""

    fingerprint: bytes
    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    mode: Mode = Mode.PLACE
    replace: bool = False
    created_by: str = ""


class TokenState(StrEnum):
    """What a token is worth. Each but GOOD is a reason to refuse it; the first that holds is the one that is shown."""

    GOOD = "good"
    REVOKED = "revoked"
    EXPIRED = "expired"
    BEFORE_RESTORE = "before-restore"
    ZONE_GONE = "zone-gone"
    OF_ANOTHER_ZONE = "of-another-zone"


@dataclass(frozen=True, slots=True)
class TokenRecord:
    """What is kept of an API token: never the token itself. A token without its record is good for nothing.

    `under` is the zone that it is good for, with all below it; None is everything. `path` is what that zone was called
    when the token was made, to tell people of it when it is gone. `epoch` is the zone's own at issue, or when an
    operator affirmed the token, so that a restored zone refuses what may have been revoked since its backup. `issuer`
    is the zone's own code when it was made; None (made by an earlier version) is the code that it has now.
    """

    id: str
    subject: str
    role: str
    under: ZoneCode | None
    path: str
    issued: Wall
    expires: Wall
    revoked: bool = False
    created_by: str = ""
    epoch: int = 1
    issuer: ZoneCode | None = None
