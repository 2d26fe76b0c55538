"""When a certificate is renewed, and how a zone changes its CA without its children joining again.

Old and new CA sign each other's key: by "old signs new" a child that holds the old pin reaches the new CA, by
"new signs old" one that holds the new pin reaches a parent restored from before. Both live as long as an expired
child may still be renewed. A CA that leaked is neither crossed nor announced: children join again.
Next: `chain` follows the paths, `authority` writes the certificates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from banyan.core.errors import BadInput
from banyan.core.records import AuthorityRow
from banyan.core.secret import Secret
from banyan.core.time import Wall
from banyan.trust.authority import CA_LIFE, SERIAL_SIZE, Issuer, ca_certificate, cross_certificate
from banyan.trust.certificate import read
from banyan.trust.chain import MAX_CERTIFICATES

RENEW_AT = 2 / 3
# The jitter reaches this much of the life further: of 24 h, renewals spread over two, and six are left to retry.
RENEW_SPREAD = 1 / 12


@dataclass(frozen=True, slots=True)
class Rotation:
    """The rows to store in one unit: the CA before, and the one that signs from now on."""

    before: AuthorityRow
    present: AuthorityRow


def renewal_at(not_before: Wall, not_after: Wall, jitter: float) -> Wall:
    """When to ask for the next certificate; `jitter` in [0, 1) is drawn once per certificate."""
    return Wall(not_before + (not_after - not_before) * (RENEW_AT + RENEW_SPREAD * jitter))


def should_renew(not_before: Wall, not_after: Wall, now: Wall, jitter: float) -> bool:
    return now >= renewal_at(not_before, not_after, jitter)


def should_rotate_authority(row: AuthorityRow, now: Wall) -> bool:
    """A CA changes at two thirds of its life, so that no certificate of its outlives it."""
    return row.current and now >= renewal_at(row.created_at, row.not_after, 0.0)


def rotate(
    before: AuthorityRow, before_seed: Secret, new: Issuer, *, key: str, serials: bytes, now: Wall, leaked: bool = False
) -> Rotation:
    """A new CA with the key of `new`, to be stored under the name `key`. `serials`: 48 random bytes.

    `leaked`: the seed of the one before may be in other hands: nothing is crossed, and it vouches for nobody any more.
    """
    if len(serials) != 3 * SERIAL_SIZE:
        raise BadInput("bad-serial", f"a rotation needs {3 * SERIAL_SIZE} random bytes, got {len(serials)}")
    first, second, third = (serials[i : i + SERIAL_SIZE] for i in range(0, 3 * SERIAL_SIZE, SERIAL_SIZE))
    present = AuthorityRow(
        fingerprint=new.fingerprint,
        certificate=ca_certificate(new, serial=first, now=now),
        key=key,
        created_at=now,
        not_after=Wall(now + CA_LIFE),
    )
    if leaked:
        return Rotation(replace(before, current=False, leaked=True), present)
    old = Issuer(new.code, before_seed)
    old_signs_new = cross_certificate(old, new.public, serial=second, now=now)
    new_signs_old = cross_certificate(new, old.public, serial=third, now=now)
    return Rotation(
        replace(before, current=False, cross=(*before.cross, new_signs_old)),
        replace(present, cross=(old_signs_new,)),
    )


def bundle(rows: Sequence[AuthorityRow], now: Wall) -> tuple[bytes, ...]:
    """What a welcome carries: cross certificates that are not over, none of them for or by a CA that leaked.

    The newest first, at most MAX_CERTIFICATES.
    """
    leaked = {row.fingerprint for row in rows if row.leaked}
    found = [read(der, "cross certificate") for row in rows if not row.leaked for der in row.cross]
    valid = [c for c in found if c.not_after > now and c.issuer not in leaked and c.fingerprint not in leaked]
    valid.sort(key=lambda c: (-c.not_after, c.der))
    return tuple(c.der for c in valid[:MAX_CERTIFICATES])
