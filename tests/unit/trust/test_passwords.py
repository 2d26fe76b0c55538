"""Hashes of passwords and of secrets that nobody could guess."""

from __future__ import annotations

import pytest

from banyan.core.secret import Secret
from banyan.trust import passwords
from banyan.trust.passwords import Cost

QUICK = Cost(memory=8, passes=1)


def secret(text: str) -> Secret:
    return Secret(text.encode())


@pytest.mark.parametrize("text", ["x", "ünïcödé ☃", "a\x00b", " ", "x" * 4096])
def test_a_password_matches_its_hash_and_no_other(text: str) -> None:
    kept = passwords.hashed(secret(text), b"s" * 16, QUICK)
    assert kept.startswith("$argon2id$") and text not in kept
    assert passwords.matches(secret(text), kept)
    assert not passwords.matches(secret(text + "x"), kept) and not passwords.matches(secret(""), kept)


def test_the_salt_makes_equal_passwords_different() -> None:
    one, other = (passwords.hashed(secret("x"), salt * 16, QUICK) for salt in (b"a", b"b"))
    assert one != other and passwords.hashed(secret("x"), b"a" * 16, QUICK) == one


@pytest.mark.parametrize(
    "kept", ["", "x", "$argon2id$", "$argon2i$v=19$m=8,t=1,p=1$c2FsdHNhbHQ$xx", "sha256$", "$2b$04$abc"]
)
def test_what_is_no_hash_matches_nothing(kept: str) -> None:
    assert not passwords.matches(secret(""), kept) and not passwords.matches(secret("x"), kept)


def test_a_drawn_secret_is_kept_as_a_digest() -> None:
    kept = passwords.digest(secret("drawn"))
    assert passwords.is_digest(kept) and not passwords.is_digest(passwords.hashed(secret("x"), b"a" * 16, QUICK))
    assert passwords.matches(secret("drawn"), kept) and not passwords.matches(secret("other"), kept)


def test_the_default_cost_is_what_is_recommended() -> None:
    """OWASP: at least 19 MiB, two passes, one lane."""
    assert (passwords.DEFAULT_COST.memory, passwords.DEFAULT_COST.passes, passwords.DEFAULT_COST.lanes) == (
        19_456,
        2,
        1,
    )
    assert passwords.matches(secret("x"), passwords.hashed(secret("x"), b"a" * 16))
