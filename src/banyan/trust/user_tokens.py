"""Tokens of the cloud's users: JWTs as signed_tokens.py has them for operators, of another type, with other claims.

The signature says that a zone made the token, and for whom; whether the user is still let in, and with which roles, is
asked of the directory (zone/identity/gate.py), so that a password that was changed, a user that was disabled or a grant
that was taken back counts at once. `roles` are those at the time of issue, for a zone that has only the key.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from banyan.core.errors import BadInput, Unauthenticated
from banyan.core.ids import ZoneCode, code_text, parse_code
from banyan.core.principal import ScopeKind, UserClaims
from banyan.core.secret import Secret
from banyan.core.time import Wall
from banyan.trust.jwt import SKEW, NotSigned, TokenKey, UnknownKey, opened, sign

MAX_TOKEN = 4096
_TYPE = "banyan-user+jwt"
# Names of roles go into a token as long as they fit; who has more is asked about at the issuer.
MAX_ROLES = 1536
_BAD = "This is not a valid token."


class _Claims(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`ud`, `pd`: domains of user and project; `scp`: kind and id of the scope; `ep`: epochs of zone and user."""

    iss: str
    sub: str
    ud: str
    scp: tuple[ScopeKind, str]
    pd: str
    rol: tuple[str, ...]
    amr: tuple[str, ...]
    jti: str
    org: str
    iat: float
    exp: float
    ep: tuple[int, int]
    acr: str


def issue(seed: Secret, claims: UserClaims) -> Secret:
    """The token, as ASCII, at most MAX_TOKEN characters. Instants are kept to the microsecond."""
    roles = claims.roles if sum(len(name.encode()) + 3 for name in claims.roles) <= MAX_ROLES else ()
    body = _Claims(
        iss=code_text(claims.issuer),
        sub=claims.user,
        ud=claims.user_domain,
        scp=(claims.scope, claims.target),
        pd=claims.project_domain,
        rol=roles,
        amr=claims.methods,
        jti=claims.audit,
        org=claims.origin,
        iat=round(claims.issued, 6),
        exp=round(claims.expires, 6),
        ep=(claims.epoch, claims.user_epoch),
        acr=claims.application_credential,
    )
    return sign(seed, _TYPE, body)


def verify(token: str, keys: Iterable[TokenKey], now: Wall) -> UserClaims:
    """What `token` says, if one of `keys` signed it and it holds at `now`.

    Raises Unauthenticated: bad-token, token-unknown-key, token-early, token-expired. Nothing of the token is repeated.
    """
    try:
        key, payload = opened(token, _TYPE, keys, MAX_TOKEN)
        claims = msgspec.json.decode(payload, type=_Claims)
        issuer = ZoneCode(parse_code(claims.iss))
    except UnknownKey:
        raise Unauthenticated("token-unknown-key", _BAD) from None
    except (NotSigned, msgspec.MsgspecError, BadInput, ValueError):
        raise Unauthenticated("bad-token", _BAD) from None
    if issuer != key.issuer:
        raise Unauthenticated("bad-token", _BAD, detail="the key does not speak for the zone in the token")
    check_time(Wall(claims.iat), Wall(claims.exp), now)
    return UserClaims(
        issuer=issuer,
        user=claims.sub,
        user_domain=claims.ud,
        scope=claims.scp[0],
        target=claims.scp[1],
        project_domain=claims.pd,
        roles=claims.rol,
        methods=claims.amr,
        audit=claims.jti,
        origin=claims.org,
        issued=Wall(claims.iat),
        expires=Wall(claims.exp),
        epoch=claims.ep[0],
        user_epoch=claims.ep[1],
        application_credential=claims.acr,
    )


def check_time(issued: Wall, expires: Wall, now: Wall) -> None:
    """Raises Unauthenticated: token-early, token-expired. Our own comparison: joserfc's asks the machine's clock."""
    if now < issued - SKEW:
        raise Unauthenticated("token-early", _BAD)
    if now >= expires:
        raise Unauthenticated("token-expired", _BAD)
