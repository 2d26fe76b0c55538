"""Tokens of the cloud's users: what they say, who is believed, and for how long."""

from __future__ import annotations

from dataclasses import replace

import pytest

from banyan.core.errors import Unauthenticated
from banyan.core.principal import ScopeKind, UserClaims
from banyan.core.time import Wall
from banyan.trust import signed_tokens, user_tokens
from banyan.trust.jwt import TokenKey
from tests.unit.trust.world import EAST, NOW, TOP, public, seed

KEY = TokenKey(TOP, public("top"))
CLAIMS = UserClaims(
    issuer=TOP,
    user="u1",
    user_domain="d1",
    scope=ScopeKind.PROJECT,
    target="p1",
    project_domain="d2",
    roles=("member", "reader"),
    methods=("password",),
    audit="a1",
    origin="a0",
    issued=Wall(NOW + 0.123456),
    expires=Wall(NOW + 60.5),
    epoch=3,
    user_epoch=4,
)


def token(claims: UserClaims = CLAIMS, signer: str = "top") -> str:
    return user_tokens.issue(seed(signer), claims).reveal().decode()


def code(text: str, now: float = NOW + 1, keys: tuple[TokenKey, ...] = (KEY,)) -> str:
    with pytest.raises(Unauthenticated) as refused:
        user_tokens.verify(text, keys, Wall(now))
    assert len(text) < 20 or text[:20] not in refused.value.text
    return refused.value.code


def test_a_token_says_what_was_put_in() -> None:
    assert user_tokens.verify(token(), (TokenKey(EAST, public("east")), KEY), Wall(NOW + 1)) == CLAIMS
    assert len(token()) < 700


def test_it_is_believed_in_its_time_only() -> None:
    assert code(token(), NOW + 60.5) == "token-expired"
    assert code(token(), NOW + 10_000) == "token-expired"
    assert code(token(), NOW - 60) == "token-early"
    user_tokens.verify(token(), (KEY,), Wall(NOW + 60.4))
    user_tokens.verify(token(), (KEY,), Wall(NOW - 59))


def test_only_the_issuers_key_is_believed() -> None:
    assert code(token(signer="east")) == "token-unknown-key"
    assert code(token(), keys=()) == "token-unknown-key"
    # The key of another zone speaks for that zone only.
    assert code(token(signer="east"), keys=(KEY, TokenKey(EAST, public("east")))) == "bad-token"
    assert code(token(replace(CLAIMS, issuer=EAST))) == "bad-token"


@pytest.mark.parametrize("part", [0, 1, 2])
def test_a_changed_character_is_found(part: int) -> None:
    parts = token().split(".")
    for at in (0, len(parts[part]) // 2, len(parts[part]) - 2):
        other = "A" if parts[part][at] != "A" else "B"
        changed = [*parts]
        changed[part] = parts[part][:at] + other + parts[part][at + 1 :]
        assert code(".".join(changed)) in ("bad-token", "token-unknown-key")


def test_an_operators_token_is_none_and_the_other_way_round() -> None:
    from banyan.core.identity import Role

    claims = signed_tokens.TokenClaims(TOP, "x", Role.ADMIN, None, "t1", NOW, Wall(NOW + 60))
    assert code(signed_tokens.issue(seed("top"), claims).reveal().decode()) == "bad-token"
    with pytest.raises(Unauthenticated) as refused:
        signed_tokens.verify(token(), (KEY,), Wall(NOW + 1))
    assert refused.value.code == "bad-token"


@pytest.mark.parametrize("text", ["", ".", "..", "a.b.c", "x" * 10_000, "é.é.é"])
def test_what_is_no_token_is_told_so(text: str) -> None:
    assert code(text) == "bad-token"


def test_many_roles_do_not_make_it_longer_than_a_header_may_be() -> None:
    many = replace(CLAIMS, roles=tuple(f"role-{n}-" + "ü" * 100 for n in range(50)))
    held = user_tokens.verify(token(many), (KEY,), Wall(NOW + 1))
    assert held.roles == () and len(token(many)) <= user_tokens.MAX_TOKEN


def test_a_principal_has_its_scope() -> None:
    who = CLAIMS.principal("ann", frozenset({"reader"}))
    assert (who.project, who.project_domain, who.domain, who.audit) == ("p1", "d2", "", "a1")
    who = replace(CLAIMS, scope=ScopeKind.DOMAIN, target="d9").principal("ann", frozenset())
    assert (who.project, who.domain) == ("", "d9")
