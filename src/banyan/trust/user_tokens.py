"""Tokens of the cloud's users: JWTs as signed_tokens.py has them for operators, of another type, with other claims.

The signature says that a zone made the token, and for whom; whether the user is still let in, and with which roles, is
asked of the directory (zone/identity/gate.py), so that a password that was changed, a user that was disabled or a grant
that was taken back counts at once. `roles` are those at the time of issue, for a zone that has only the key.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable

import msgspec
from joserfc import jws
from joserfc.errors import JoseError
from joserfc.jwk import OKPKey

from banyan.core.errors import BadInput, Unauthenticated
from banyan.core.ids import ZoneCode, code_text, parse_code
from banyan.core.principal import ScopeKind, UserClaims
from banyan.core.secret import Secret
from banyan.core.time import Wall
from banyan.trust.keys import public_key
from banyan.trust.signed_tokens import SKEW, TokenKey, key_id

MAX_TOKEN = 4096
_ALGORITHM = "Ed25519"
_TYPE = "banyan-user+jwt"
# Names of roles go into a token as long as they fit; who has more is asked about at the issuer.
MAX_ROLES = 1536
_BAD = "This is not a valid token."


class _Header(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    alg: str
    kid: str
    typ: str


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
    public = public_key(seed)
    key = OKPKey.import_key({"kty": "OKP", "crv": "Ed25519", "x": _text(public), "d": _text(seed.reveal())})
    header = {"alg": _ALGORITHM, "kid": key_id(public), "typ": _TYPE}
    return Secret(jws.serialize_compact(header, msgspec.json.encode(body), key, algorithms=[_ALGORITHM]).encode())


def verify(token: str, keys: Iterable[TokenKey], now: Wall) -> UserClaims:
    """What `token` says, if one of `keys` signed it and it holds at `now`.

    Raises Unauthenticated: bad-token, token-unknown-key, token-early, token-expired. Nothing of the token is repeated.
    """
    kid = _key_of(token)
    key = next((key for key in keys if key.id == kid), None)
    if key is None:
        raise Unauthenticated("token-unknown-key", _BAD)
    try:
        public = OKPKey.import_key({"kty": "OKP", "crv": "Ed25519", "x": _text(key.public)})
        signed = jws.deserialize_compact(token, public, algorithms=[_ALGORITHM])
        claims = msgspec.json.decode(signed.payload or b"", type=_Claims)
        issuer = ZoneCode(parse_code(claims.iss))
    except (JoseError, msgspec.MsgspecError, BadInput, ValueError):
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


def _key_of(token: str) -> str:
    """The key's id, if the token has the one form that is read; its three parts are canonical base64url."""
    parts = token.split(".") if len(token) <= MAX_TOKEN else []
    try:
        raw = [base64.b64decode(part + "=" * (-len(part) % 4), altchars=b"-_", validate=True) for part in parts]
        if len(parts) == 3 and [_text(part) for part in raw] == parts:
            header = msgspec.json.decode(raw[0], type=_Header)
            if (header.alg, header.typ) == (_ALGORITHM, _TYPE):
                return header.kid
    except (binascii.Error, msgspec.MsgspecError, ValueError):
        pass
    raise Unauthenticated("bad-token", _BAD)


def _text(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()
