"""What binds a proof to one session: both nonces, the parent's code, the server certificate that TLS proved.

A signature over this can not be shown to another parent, nor again. Both ends build it from the same two
messages; neither sends it. Next: chain.verify_parent, attest, enrol.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from banyan.core.errors import BadInput
from banyan.core.ids import CODE_BITS, ZoneCode
from banyan.core.messages import Greet, Welcome
from banyan.trust.keys import statement

NONCE_SIZE = 16


@dataclass(frozen=True, slots=True)
class Session:
    """`leaf`: the server certificate (DER) that the wire showed, at the parent its own."""

    greet_nonce: bytes
    welcome_nonce: bytes
    parent: ZoneCode
    leaf: bytes

    @staticmethod
    def of(greet: Greet, welcome: Welcome, leaf: bytes) -> Session:
        """Raises BadInput("bad-nonce", "bad-code")."""
        check_nonce(greet.nonce)
        check_nonce(welcome.nonce)
        check_code(welcome.code)
        return Session(greet.nonce, welcome.nonce, welcome.code, leaf)

    def binding(self) -> bytes:
        """32 bytes that no other session has."""
        return hashlib.sha256(
            statement(
                "session",
                self.greet_nonce,
                self.welcome_nonce,
                self.parent.to_bytes(8, "big"),
                hashlib.sha256(self.leaf).digest(),
            )
        ).digest()


def check_nonce(nonce: bytes) -> bytes:
    if len(nonce) != NONCE_SIZE:
        raise BadInput("bad-nonce", f"a nonce has {NONCE_SIZE} random bytes, got {len(nonce)}; the other end is broken")
    return nonce


def check_code(code: ZoneCode) -> ZoneCode:
    """A zone code as it came from a wire."""
    if not 0 <= code < 1 << CODE_BITS:
        raise BadInput("bad-code", f"a zone code has {CODE_BITS} bits, got {code}")
    return code
