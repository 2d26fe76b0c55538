"""Password hashes: Argon2id (RFC 9106), with the salt as an argument. Takes some 20 ms and 19 MiB: not for a loop.

    hashed("correct horse", salt)   →  $argon2id$v=19$m=19456,t=2,p=1$…
    matches("correct horse", that)  →  True

Secrets that we drew ourselves (application credentials) have 256 bits: a plain digest keeps them, `sha256$…`.
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass

from argon2.exceptions import Argon2Error, InvalidHashError
from argon2.low_level import Type, hash_secret, verify_secret

from banyan.core.secret import Secret

SALT_SIZE = 16
# What a password may have, in bytes of UTF-8. Argon2 itself takes 4 GiB.
MAX_PASSWORD = 4096
_DIGEST = "sha256$"


@dataclass(frozen=True, slots=True)
class Cost:
    """Argon2's parameters. `memory` in KiB. The default is OWASP's recommendation for Argon2id (2025)."""

    memory: int = 19_456
    passes: int = 2
    lanes: int = 1


DEFAULT_COST = Cost()


def hashed(password: Secret, salt: bytes, cost: Cost = DEFAULT_COST) -> str:
    return hash_secret(
        password.reveal(), salt, cost.passes, cost.memory, cost.lanes, hash_len=32, type=Type.ID
    ).decode()


def matches(password: Secret, kept: str) -> bool:
    """False also for a hash that can not be read, and for none: nobody logs in with a password that is not kept."""
    if kept.startswith(_DIGEST):
        return hmac.compare_digest(digest(password), kept)
    try:
        return verify_secret(kept.encode(), password.reveal(), Type.ID)
    except (Argon2Error, InvalidHashError):
        return False


def digest(secret: Secret) -> str:
    """What is kept of a secret that nobody could guess."""
    return _DIGEST + hashlib.sha256(secret.reveal()).hexdigest()


def is_digest(kept: str) -> bool:
    """True if `matches` is cheap for it."""
    return kept.startswith(_DIGEST)
