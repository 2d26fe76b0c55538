"""The one form of JWT that is made and read here: compact, Ed25519 (RFC 9864), a type per purpose (RFC 8725 §3.11).

The header holds an algorithm, a key id and a type and nothing else; the three parts are canonical base64url, so that a
token has one spelling, and may be remembered by its digest. What the payload says, and until when it holds, is the
caller's: signed_tokens.py (operators), user_tokens.py (the cloud's users). No clock is asked.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable
from dataclasses import dataclass

import msgspec
from joserfc import jws
from joserfc.errors import JoseError
from joserfc.jwk import OKPKey

from banyan.core.ids import ZoneCode
from banyan.core.secret import Secret
from banyan.trust.keys import fingerprint, public_key

# A controller's clock may be this much behind the one that signed, seconds.
SKEW = 60
_ALGORITHM = "Ed25519"


class NotSigned(Exception):
    """Not whole, of another type, or not signed by the key that it names."""


class UnknownKey(Exception):
    """Signed by a key that is not among those that are believed."""


class _Header(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    alg: str
    kid: str
    typ: str


@dataclass(frozen=True, slots=True)
class TokenKey:
    """A key that tokens are believed from, and the zone that it speaks for."""

    issuer: ZoneCode
    public: bytes

    @property
    def id(self) -> str:
        return key_id(self.public)


def key_id(public: bytes) -> str:
    """The first 16 hexadecimal digits of the key's fingerprint."""
    return fingerprint(public).hex()[:16]


def sign(seed: Secret, kind: str, claims: msgspec.Struct) -> Secret:
    """A token of type `kind`, as ASCII."""
    public = public_key(seed)
    key = OKPKey.import_key({"kty": "OKP", "crv": "Ed25519", "x": _text(public), "d": _text(seed.reveal())})
    header = {"alg": _ALGORITHM, "kid": key_id(public), "typ": kind}
    return Secret(jws.serialize_compact(header, msgspec.json.encode(claims), key, algorithms=[_ALGORITHM]).encode())


def opened(token: str, kind: str, keys: Iterable[TokenKey], most: int) -> tuple[TokenKey, bytes]:
    """The key that signed `token`, and its payload. Raises NotSigned, UnknownKey."""
    header = _header(token, most)
    if (header.alg, header.typ) != (_ALGORITHM, kind):
        raise NotSigned
    key = next((key for key in keys if key.id == header.kid), None)
    if key is None:
        raise UnknownKey
    try:
        public = OKPKey.import_key({"kty": "OKP", "crv": "Ed25519", "x": _text(key.public)})
        return key, jws.deserialize_compact(token, public, algorithms=[_ALGORITHM]).payload or b""
    except (JoseError, ValueError):
        raise NotSigned from None


def _header(token: str, most: int) -> _Header:
    parts = token.split(".") if len(token) <= most else []
    try:
        raw = [base64.b64decode(part + "=" * (-len(part) % 4), altchars=b"-_", validate=True) for part in parts]
        if len(parts) == 3 and [_text(part) for part in raw] == parts:
            return msgspec.json.decode(raw[0], type=_Header)
    except (binascii.Error, msgspec.MsgspecError, ValueError):
        pass  # whatever is wrong with it, a stranger hears one word
    raise NotSigned


def _text(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()
