"""API tokens: JWTs signed by a zone's token key, verified offline at an explicit instant (protocols §11).

Claims are a closed record, of type banyan+jwt. The signature tells that the zone made a token; whether it still stands
is told by the record that the zone keeps of it (`state_of`), and one without a record does not. user_tokens.py is the
same for the users of the cloud.
Verification costs about 0.1 ms: callers may keep an answer by the token's digest until it expires.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import floor

import msgspec

from banyan.core.errors import BadInput, Refused, Unauthenticated
from banyan.core.identity import Role
from banyan.core.ids import ZoneCode, code_text, parse_code
from banyan.core.policy import TokenRecord, TokenState
from banyan.core.secret import Secret
from banyan.core.time import Wall, iso
from banyan.trust.jwt import SKEW, NotSigned, TokenKey, UnknownKey, opened, sign

MAX_TOKEN = 2048
MAX_SUBJECT = 128
_TYPE = "banyan+jwt"
_ROLES = {role.name.lower(): role for role in Role}
_BAD = "expected a token as `banyan token create` prints it; this one is not whole, or not one of ours"


class _Claims(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    iss: str
    sub: str
    role: str
    under: str
    jti: str
    iat: int
    nbf: int
    exp: int


@dataclass(frozen=True, slots=True)
class TokenClaims:
    """What a valid token says. `under`: the zone, at or below the issuer, that it is good for; None is all."""

    issuer: ZoneCode
    subject: str
    role: Role
    under: ZoneCode | None
    id: str
    issued: Wall
    expires: Wall


def issue(seed: Secret, claims: TokenClaims) -> Secret:
    """The token, as ASCII, within MAX_TOKEN. Raises BadInput: bad-subject, bad-token-id, bad-lifetime."""
    if not 1 <= len(claims.subject) <= MAX_SUBJECT or not claims.subject.isprintable():
        raise BadInput("bad-subject", f"a token's subject has 1 to {MAX_SUBJECT} printable characters")
    if not 1 <= len(claims.id) <= 64 or not claims.id.isascii() or not claims.id.isprintable():
        raise BadInput("bad-token-id", "a token's id has 1 to 64 printable ASCII characters")
    if claims.expires <= claims.issued:
        raise BadInput("bad-lifetime", "a token must end after it is made; give a time to come (`--expires`)")
    issued = floor(claims.issued)
    body = _Claims(
        iss=code_text(claims.issuer),
        sub=claims.subject,
        role=claims.role.name.lower(),
        under="" if claims.under is None else code_text(claims.under),
        jti=claims.id,
        iat=issued,
        nbf=issued,
        exp=floor(claims.expires),
    )
    return sign(seed, _TYPE, body)


def verify(token: str, keys: Iterable[TokenKey], now: Wall) -> TokenClaims:
    """What `token` says, if one of `keys` signed it and it holds at `now`.

    Raises Unauthenticated: bad-token, token-unknown-key, token-of-another-zone, token-early, token-expired. Of a token
    that no key of ours signed nothing is repeated.
    """
    try:
        key, payload = opened(token, _TYPE, keys, MAX_TOKEN)
        claims = msgspec.json.decode(payload, type=_Claims)
        issuer = ZoneCode(parse_code(claims.iss))
        role = _ROLES[claims.role]
        under = ZoneCode(parse_code(claims.under)) if claims.under else None
    except UnknownKey:
        raise Unauthenticated(
            "token-unknown-key",
            "this token was signed by a key that is not known here: by another zone, or before this one was set up "
            "anew; make one here (`banyan token create`)",
        ) from None
    except (NotSigned, msgspec.MsgspecError, BadInput, KeyError, ValueError):
        raise Unauthenticated("bad-token", _BAD) from None
    if issuer != key.issuer:
        # Our own key signed it, under the code that this zone had until it adopted another's (zone/own.py).
        raise Unauthenticated(
            "token-of-another-zone",
            f"this token was made for zone {code_text(issuer)}, which this zone was until it took the place of zone "
            f"{code_text(key.issuer)} (`banyan zone replace` at its parent); it is good for nothing any more: at the "
            "zone's machine, `banyan token create` makes a new one",
        )
    # Our own comparison, at the given instant: joserfc's would ask the machine's clock.
    if now < claims.nbf - SKEW:
        raise Unauthenticated(
            "token-early", f"this token holds from {iso(claims.nbf)}, and it is {iso(now)}; check this machine's clock"
        )
    if now >= claims.exp:
        raise Unauthenticated(
            "token-expired", f"this token ended at {iso(claims.exp)}, and it is {iso(now)}; make another one"
        )
    return TokenClaims(issuer, claims.sub, role, under, claims.jti, Wall(claims.iat), Wall(claims.exp))


def state_of(record: TokenRecord, *, now: Wall, epoch: int, issuer: ZoneCode, listed: bool) -> TokenState:
    """What the token of this record is worth now. `epoch`, `issuer`: the zone's own, and its code; `listed`:
    `record.under` is still here."""
    if record.revoked:
        return TokenState.REVOKED
    if now >= record.expires:
        return TokenState.EXPIRED
    if record.issuer not in (None, issuer):
        return TokenState.OF_ANOTHER_ZONE
    if record.epoch != epoch:
        return TokenState.BEFORE_RESTORE
    return TokenState.GOOD if listed else TokenState.ZONE_GONE


def check_good(record: TokenRecord, state: TokenState) -> None:
    """Raises Unauthenticated: token-revoked, token-expired, token-of-another-zone, token-before-restore,
    token-zone-gone."""
    match state:
        case TokenState.REVOKED:
            raise Unauthenticated("token-revoked", f"token {record.id} was revoked; ask for a new one")
        case TokenState.EXPIRED:
            raise Unauthenticated(
                "token-expired", f"token {record.id} ended at {iso(record.expires)}; make another one"
            )
        case TokenState.OF_ANOTHER_ZONE:
            raise Unauthenticated(
                "token-of-another-zone",
                f"token {record.id} was made before this zone took the place of another, and is good for nothing any "
                "more; at the zone's machine, `banyan token create` makes a new one",
            )
        case TokenState.BEFORE_RESTORE:
            raise Unauthenticated(
                "token-before-restore",
                f"token {record.id} was made before this zone was restored from a backup, and may have been revoked "
                f"since that was made; at the zone's machine, `banyan token affirm {record.id}` makes it good again, "
                "and `banyan token create` a new one",
            )
        case TokenState.ZONE_GONE:
            raise Unauthenticated(
                "token-zone-gone",
                f"token {record.id} is good for zone {record.path} and what lies below it, and that zone is no longer "
                "below this one: it was retired, or left; ask for a token for another zone",
            )


def unknown(id: str) -> Unauthenticated:
    """A token that we signed and keep no record of."""
    return Unauthenticated(
        "token-unknown",
        f"token {id} is not kept here: it was made after the backup from which this zone was restored; "
        "make a new one (`banyan token create`)",
    )


def check_maker(maker: TokenRecord, expires: Wall) -> None:
    """Raises Refused("token-outlives-maker") if a token that `maker`'s gives would end after it."""
    if expires > maker.expires:
        raise Refused(
            "token-outlives-maker",
            f"token {maker.id} ends at {iso(maker.expires)}, and can not give one that ends later, at {iso(expires)}; "
            "give a shorter `--expires` or none, or ask an admin at the zone's machine",
        )
