"""Sealing: bound to key and name, and never readable."""

from __future__ import annotations

from pathlib import Path

import pytest

from banyan.core.errors import Broken
from banyan.core.secret import Secret
from banyan.store.keys import Seal, seal_from_file
from tests.contract.store.fakes import SeededIds

SECRET = Secret(b"thirty-two bytes of a key's seed")


def seal(key: bytes = bytes(32), seed: int = 1) -> Seal:
    return Seal(Secret(key), SeededIds(seed), "the file seal.key")


def test_what_is_sealed_opens_again_and_shows_nothing() -> None:
    sealed = seal().close("ca-1", SECRET)
    assert SECRET.reveal() not in sealed
    assert seal(seed=2).open("ca-1", sealed) == SECRET
    assert seal().close("empty", Secret(b"")) != b""


def test_two_sealings_of_one_secret_differ() -> None:
    one = seal()
    assert one.close("ca-1", SECRET) != one.close("ca-1", SECRET)


@pytest.mark.parametrize("name", ["ca-2", "ca-1 ", "CA-1", ""])
def test_a_sealed_row_under_another_name_does_not_open(name: str) -> None:
    sealed = seal().close("ca-1", SECRET)
    with pytest.raises(Broken) as refused:
        seal().open(name, sealed)
    assert refused.value.code == "seal-key-wrong"


def test_another_key_does_not_open_it_and_is_named() -> None:
    sealed = seal().close("ca-1", SECRET)
    with pytest.raises(Broken, match="'ca-1'.*seal.key"):
        seal(b"\x01" * 32).open("ca-1", sealed)


@pytest.mark.parametrize("at", [0, 1, 12, 13, -1])
def test_one_changed_byte_is_noticed(at: int) -> None:
    sealed = bytearray(seal().close("ca-1", SECRET))
    sealed[at] ^= 1
    with pytest.raises(Broken):
        seal().open("ca-1", bytes(sealed))


@pytest.mark.parametrize("sealed", [b"", b"\x01", b"\x01" + bytes(12), bytes(60)])
def test_what_was_never_sealed_does_not_open(sealed: bytes) -> None:
    with pytest.raises(Broken):
        seal().open("ca-1", sealed)


@pytest.mark.parametrize("size", [0, 16, 31, 33])
def test_a_seal_key_has_exactly_32_bytes(tmp_path: Path, size: int) -> None:
    (tmp_path / "k").write_bytes(bytes(size))
    with pytest.raises(Broken, match=f"exactly 32 bytes, it holds {size}") as refused:
        seal_from_file(tmp_path / "k", SeededIds())
    assert refused.value.code == "seal-key-wrong"


def test_a_missing_seal_key_is_named(tmp_path: Path) -> None:
    with pytest.raises(Broken, match="No such file") as refused:
        seal_from_file(tmp_path / "k", SeededIds())
    assert refused.value.code == "seal-key-missing"
