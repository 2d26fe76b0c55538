from __future__ import annotations

import base64
import json
from dataclasses import replace

import pytest

from banyan.core.errors import BadInput, Refused, Unauthenticated
from banyan.core.identity import Role
from banyan.core.ids import code_text
from banyan.core.policy import TokenRecord, TokenState
from banyan.core.time import Wall
from banyan.trust import signed_tokens
from banyan.trust.keys import fingerprint, sign
from banyan.trust.signed_tokens import TokenClaims, TokenKey
from tests.unit.trust.world import EAST, HOUR, NOW, TOP, WEST, public, seed

CLAIMS = TokenClaims(TOP, "ops@example.org", Role.OPERATOR, EAST, "t1", Wall(NOW), Wall(NOW + HOUR))
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


def test_a_token_of_any_size_that_is_made_is_read() -> None:
    longest = replace(CLAIMS, subject="\U0001f9ff" * signed_tokens.MAX_SUBJECT, id='"' * 64)
    assert signed_tokens.verify(token(longest), [KEY], NOW) == longest


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
    assert code_of(token(), keys=(TokenKey(WEST, public("tokens")),)) == "token-of-another-zone"
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
    [
        {"role": "root"},
        {"role": 3},
        {"exp": "never"},
        {"exp": 1e300},
        {"nbf": None},
        {"iss": "x"},
        {"aud": "y"},
        {"under": "north/lab7"},
        {"under": None},
    ],
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
    ],
)
def test_tokens_that_are_not_made(changes: dict[str, object], code: str) -> None:
    with pytest.raises(BadInput) as error:
        token(replace(CLAIMS, **changes))
    assert error.value.code == code


RECORD = TokenRecord("t1", "ops", "viewer", EAST, "top/east", NOW, Wall(NOW + HOUR), created_by="root@local", epoch=3)


def state(record: TokenRecord = RECORD, now: Wall = NOW, epoch: int = 3, listed: bool = True) -> TokenState:
    return signed_tokens.state_of(record, now=now, epoch=epoch, issuer=TOP, listed=listed)


def test_what_a_token_is_worth() -> None:
    assert state() is TokenState.GOOD
    assert state(now=Wall(NOW + HOUR - 0.001)) is TokenState.GOOD
    assert state(now=Wall(NOW + HOUR)) is TokenState.EXPIRED
    assert state(listed=False) is TokenState.ZONE_GONE
    # Of another epoch, be it higher or lower.
    assert {state(epoch=2), state(epoch=4)} == {TokenState.BEFORE_RESTORE}
    assert state(replace(RECORD, revoked=True), Wall(NOW + HOUR), 4, False) is TokenState.REVOKED
    assert state(now=Wall(NOW + HOUR), epoch=4) is TokenState.EXPIRED
    assert state(epoch=4, listed=False) is TokenState.BEFORE_RESTORE
    assert state(replace(RECORD, issuer=TOP)) is TokenState.GOOD
    assert state(replace(RECORD, issuer=EAST), epoch=4, listed=False) is TokenState.OF_ANOTHER_ZONE


@pytest.mark.parametrize(
    ("found", "code", "words"),
    [
        (TokenState.REVOKED, "token-revoked", ["t1", "revoked", "ask for a new one"]),
        (TokenState.EXPIRED, "token-expired", ["t1", "ended at", "make another"]),
        (TokenState.OF_ANOTHER_ZONE, "token-of-another-zone", ["t1", "place of another", "token create"]),
        (TokenState.BEFORE_RESTORE, "token-before-restore", ["t1", "restored from a backup", "token affirm t1"]),
        (TokenState.ZONE_GONE, "token-zone-gone", ["t1", "top/east", "retired", "another zone"]),
    ],
)
def test_a_token_that_is_good_for_nothing_is_refused_and_why(found: TokenState, code: str, words: list[str]) -> None:
    signed_tokens.check_good(RECORD, TokenState.GOOD)
    with pytest.raises(Unauthenticated) as error:
        signed_tokens.check_good(RECORD, found)
    assert error.value.code == code
    assert [word for word in words if word not in error.value.text] == []


def test_every_state_but_good_is_refused() -> None:
    for found in set(TokenState) - {TokenState.GOOD}:
        with pytest.raises(Unauthenticated):
            signed_tokens.check_good(RECORD, found)


def test_a_token_gives_none_that_ends_later() -> None:
    signed_tokens.check_maker(RECORD, RECORD.expires)
    with pytest.raises(Refused, match=r"t1 ends at .*--expires") as error:
        signed_tokens.check_maker(RECORD, Wall(RECORD.expires + 1))
    assert error.value.code == "token-outlives-maker"


def test_a_token_does_not_show() -> None:
    made = signed_tokens.issue(seed("tokens"), CLAIMS)
    assert made.reveal().decode() not in f"{made} {made!r}"


def test_a_token_of_before_this_zone_took_anothers_place_says_whose_it_is_and_how_to_make_a_new_one() -> None:
    with pytest.raises(Unauthenticated) as error:
        signed_tokens.verify(token(), (TokenKey(WEST, public("tokens")),), NOW)
    for word in (code_text(TOP), code_text(WEST), "took the place", "banyan zone replace", "banyan token create"):
        assert word in error.value.text
    # Not by a signature that nobody here made: of that nothing is repeated.
    with pytest.raises(Unauthenticated) as error:
        signed_tokens.verify(token(key="another"), (TokenKey(WEST, public("tokens")),), NOW)
    assert code_text(TOP) not in error.value.text
