"""A child looks at the certificate that its parent gave it, before it relies on it.

A parent's slip (another key, another kind, a time that is over) is named at once, not at the next handshake.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from banyan.core.errors import Refused
from banyan.core.ids import ZoneCode
from banyan.core.time import Wall, iso
from banyan.trust.certificate import read
from banyan.trust.keys import short


@dataclass(frozen=True, slots=True)
class Issued:
    """`code` is this zone's from now on: one that replaces another, or was reinstalled, inherits it."""

    code: ZoneCode
    fingerprint: bytes
    not_before: Wall
    not_after: Wall


@lru_cache(maxsize=64)  # asked before each report, for a certificate that changes once a day
def read_issued(certificate: bytes) -> Issued:
    """Raises BadInput("bad-certificate"), Refused("bad-issue")."""
    found = read(certificate, "certificate from the parent")
    if not found.client or found.child is None:
        raise _wrong("it does not name a child zone")
    return Issued(found.child, found.fingerprint, found.not_before, found.not_after)


def check_issued(certificate: bytes, public: bytes, authorities: Sequence[bytes], now: Wall) -> Issued:
    """What was issued, if it is for the key `public`, by a CA among `authorities` (DER), and valid at `now`.

    Raises BadInput("bad-certificate"), Refused("bad-issue").
    """
    issued = read_issued(certificate)
    found = read(certificate)
    if found.public != public:
        raise _wrong(f"it is for another key ({short(found.fingerprint)}) than this zone's")
    signers = [ca for ca in map(read, authorities) if ca.authority and ca.fingerprint == found.issuer]
    if not any(found.signed_by(ca.public) and ca.zone == found.issuer_zone for ca in signers):
        raise _wrong(f"it is signed by {short(found.issuer)}, which is no CA of the parent's")
    if not found.not_before <= now <= found.not_after:
        raise _wrong(f"it holds from {iso(found.not_before)} to {iso(found.not_after)}, and it is {iso(now)}")
    return issued


def _wrong(why: str) -> Refused:
    return Refused(
        "bad-issue", f"the parent issued a certificate that this zone can not use: {why}; upgrade or ask there"
    )
