"""Evidence by known key: the child's key was listed beforehand by its fingerprint, as an ownership voucher.

The evidence is empty: that the stranger holds the key is proved by the signature every enrolment carries
(trust.enrol.check_request), and by nothing here.
"""

from __future__ import annotations

from banyan.core.errors import Refused
from banyan.core.messages import Evidence
from banyan.trust.attest.contract import Context, Verified
from banyan.trust.keys import fingerprint, short

KIND = "known-key"


def evidence() -> Evidence:
    """The child's side."""
    return Evidence(KIND, b"")


class KnownKeyVerifier:
    """Raises Refused: bad-evidence, key-unknown."""

    kind = KIND

    def verify(self, body: bytes, context: Context) -> Verified:
        if body:
            raise Refused("bad-evidence", "the evidence for a known key is empty: its signature proves it")
        shown = fingerprint(context.public_key)
        known = context.known_keys.get(shown)
        if known is None or known.fingerprint != shown:
            raise Refused(
                "key-unknown",
                f"key {short(shown)} is not listed here; list its whole fingerprint at the parent, or use a join code",
            )
        return Verified(
            kind=KIND,
            reference=short(shown),
            name=known.name,
            labels=known.labels,
            mode=known.mode,
            replace=known.replace,
        )
