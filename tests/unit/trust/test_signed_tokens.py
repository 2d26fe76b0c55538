from __future__ import annotations

import base64
import json
from dataclasses import replace

import pytest

from banyan.core.errors import BadInput, Unauthenticated
from banyan.core.identity import Role
from banyan.core.ids import code_text
from banyan.core.time import Wall
from banyan.trust import signed_tokens
from banyan.trust.keys import fingerprint, sign
from banyan.trust.signed_tokens import TokenClaims, TokenKey
from tests.unit.trust.world import EAST, HOUR, NOW, TOP, WEST, public, seed

CLAIMS = TokenClaims(TOP, "ops@example.org", Role.OPERATOR, "north/lab7", "t1", Wall(NOW), Wall(NOW + HOUR))
KEY = TokenKey(TOP, public("tokens"))


def token(claims: TokenClaims = CLAIMS, key: str = "tokens") -> str:
    return signed_tokens.issue(seed(key), claims).reveal().decode()


def code_of(text: str, now: Wall = NOW, keys: tuple[TokenKey, ...] = (KEY,)) -> str:
    with pytest.raises(Unauthenticated) as error:
        signed_tokens.verify(text, keys, now)
    assert text[:20] not in error.value.text or len(text) < 5
    return error.value.code


def b64(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def forged(header: dict[str, object], claims: object, key: str = "tokens") -> str:
    """A token with any header and claims, truly signed by the key."""
    head = b64(json.dumps(header).encode()) + "." + b64(json.dumps(claims).encode())
    return head + "." + b64(sign(seed(key), head.encode()))


HEADER = {"alg": "Ed25519", "kid": KEY.id, "typ": "banyan+jwt"}
BODY = {
    "iss": code_text(TOP),
    "sub": "x",
    "role": "viewer",
    "under": "",
    "jti": "t",
    "iat": int(NOW),
    "nbf": int(NOW),
    "exp": int(NOW) + 60,
}


def test_a_token_says_what_was_put_into_it() -> None:
    assert signed_tokens.verify(token(), [TokenKey(EAST, public("east")), KEY], NOW) == CLAIMS
    assert KEY.id == fingerprint(public("tokens")).hex()[:16]
    assert token() == token()


def test_times_are_judged_at_the_given_instant() -> None:
    assert signed_tokens.verify(token(), [KEY], Wall(NOW + HOUR - 0.001)).id == "t1"
    assert code_of(token(), Wall(NOW + HOUR)) == "token-expired"
    assert signed_tokens.verify(token(), [KEY], Wall(NOW - 60)).id == "t1"
    assert code_of(token(), Wall(NOW - 61)) == "token-early"
    far = replace(CLAIMS, issued=Wall(NOW + 9e8), expires=Wall(NOW + 9e8 + 10))
    assert signed_tokens.verify(token(far), [KEY], Wall(NOW + 9e8)).expires == NOW + 9e8 + 10


def test_keys() -> None:
    assert code_of(token(key="another")) == "token-unknown-key"
    assert code_of(token(), keys=()) == "token-unknown-key"
    # A key that is believed, but for another zone's tokens.
    assert code_of(token(), keys=(TokenKey(WEST, public("tokens")),)) == "bad-token"
    # The right key's id over another key's signature.
    assert code_of(forged(HEADER, BODY, key="another")) == "bad-token"
    assert signed_tokens.verify(forged(HEADER, BODY), [KEY], NOW).role is Role.VIEWER


@pytest.mark.parametrize(
    "changes",
    [
        {"alg": "none"},
        {"alg": "EdDSA"},
        {"alg": "HS256"},
        {"typ": "JWT"},
        {"typ": None},
        {"crit": ["b64"], "b64": False},
        {"jwk": {"kty": "OKP"}},
        {"kid": 1},
    ],
)
def test_only_one_header_is_read(changes: dict[str, object]) -> None:
    header = {k: v for k, v in (HEADER | changes).items() if v is not None}
    assert code_of(forged(header, BODY)) == "bad-token"


@pytest.mark.parametrize(
    "changes",
    [{"role": "root"}, {"role": 3}, {"exp": "never"}, {"exp": 1e300}, {"nbf": None}, {"iss": "x"}, {"aud": "y"}],
)
def test_claims_are_a_closed_record(changes: dict[str, object]) -> None:
    assert code_of(forged(HEADER, BODY | changes)) == "bad-token"
    assert code_of(forged(HEADER, [1])) == "bad-token"


@pytest.mark.parametrize("text", ["", ".", "..", "...", "a.b.c", "x" * 3000, "é.é.é", token() + ".", " "])
def test_what_is_no_token(text: str) -> None:
    assert code_of(text) == "bad-token"


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"subject": ""}, "bad-subject"),
        ({"subject": "x" * 129}, "bad-subject"),
        ({"subject": "a\nb"}, "bad-subject"),
        ({"id": ""}, "bad-token-id"),
        ({"expires": NOW}, "bad-lifetime"),
        ({"under": "North"}, "bad-name"),
        ({"under": "/".join(["a" * 63] * 40)}, "bad-subject"),
    ],
)
def test_tokens_that_are_not_made(changes: dict[str, object], code: str) -> None:
    with pytest.raises(BadInput) as error:
        token(replace(CLAIMS, **changes))  # type: ignore[arg-type]
    assert error.value.code == code


def test_a_token_does_not_show() -> None:
    made = signed_tokens.issue(seed("tokens"), CLAIMS)
    assert made.reveal().decode() not in f"{made} {made!r}"
