from __future__ import annotations

import pickle
import string
import traceback

import pytest

from banyan.core.errors import BadInput, Refused
from banyan.core.secret import Secret
from banyan.core.time import Wall
from banyan.trust import tokens
from banyan.trust.keys import fingerprint, public_key
from tests.unit.trust.world import ADDRESSES, HOUR, NOW, chance, minted, seed


def text(code: tokens.JoinCode) -> str:
    return code.encode().reveal().decode()


def code_of(bad: str) -> str:
    with pytest.raises(BadInput) as error:
        tokens.parse(bad)
    return error.value.code


def test_a_code_survives_its_string() -> None:
    code, record = minted()
    assert tokens.parse(text(code)) == code
    assert code.addresses == ADDRESSES
    assert record.id == code.id == chance("code id", 8).hex()
    assert len(text(code)) < 300


def test_pasted_white_space_is_forgiven() -> None:
    whole = text(minted()[0])
    wrapped = "\r\n  " + "\n\t".join(whole[i : i + 40] for i in range(0, len(whole), 40)) + " \n\ufeff"
    assert tokens.parse(wrapped) == tokens.parse(whole)


def test_every_mistyped_character_is_named_as_such() -> None:
    whole = text(minted()[0])
    for i in range(len(tokens.PREFIX), len(whole)):
        for wrong in ("A" if whole[i] != "A" else "B", "!", ""):
            assert code_of(whole[:i] + wrong + whole[i + 1 :]) == "code-mistyped"
    swapped = whole[:30] + whole[31] + whole[30] + whole[32:]
    assert code_of(swapped) == "code-mistyped"
    assert code_of(whole[:-1]) == "code-mistyped"
    assert code_of(whole.upper()) == "code-mistyped"


@pytest.mark.parametrize("length", [1, 2, 3])
def test_the_last_character_is_mistyped_as_well_where_base64_leaves_bits_open(length: int) -> None:
    whole = text(minted(addresses=("h" * length + ":1",))[0])
    for wrong in set(string.ascii_letters + string.digits + "-_") - {whole[-1]}:
        assert code_of(whole[:-1] + wrong) == "code-mistyped"


@pytest.mark.parametrize(
    ("bad", "code"),
    [
        ("", "code-empty"),
        (" \n", "code-empty"),
        ("hello", "code-mistyped"),
        ("banyan2.abcd", "code-version"),
        ("banyan1.", "code-mistyped"),
        ("banyan1.ü", "code-mistyped"),
        ("banyan1." + "A" * 9000, "code-mistyped"),
    ],
)
def test_what_is_no_code(bad: str, code: str) -> None:
    assert code_of(bad) == code


def test_neither_a_code_nor_an_error_about_one_shows_the_secret() -> None:
    code, record = minted()
    whole = text(code)
    for shown in (repr(code), str(code), f"{code}", repr(code.encode()), repr(record)):
        assert whole[-40:-8] not in shown
        assert code.secret.reveal().hex() not in shown
        assert repr(code.secret.reveal()) not in shown
    try:
        tokens.parse(whole[:-3] + "zzz")
    except BadInput as error:
        trace = "".join(traceback.format_exception(error)) + repr(error.__dict__)
        assert whole[20:40] not in trace
    with pytest.raises(TypeError):
        pickle.dumps(code)


def test_the_parent_keeps_a_hash_that_is_of_no_use_to_join() -> None:
    code, record = minted()
    assert record.secret_hash == fingerprint(public_key(tokens.signing_seed(code.secret)))
    for guess in (code.secret, Secret(record.secret_hash)):
        assert fingerprint(public_key(guess)) != record.secret_hash


@pytest.mark.parametrize(
    "address",
    ["h:1", "a.b-c.example:65535", "192.0.2.1:8781", "[::1]:80", "[2001:db8::1]:8781", "my_host:80", "127.0.0.1:1"],
)
def test_addresses(address: str) -> None:
    assert tokens.check_address(address) == address


@pytest.mark.parametrize(
    "address",
    ["", "h", "h:", ":1", "h:0", "h:65536", "h:-1", "h:1x", "h:٣", "2001:db8::1:80", "[2001:db8::1]", "[h]:1",
     "[1.2.3.4]:80", "[fe80::1%eth0]:1", "127.1:80", "1.2.3.4.5:80", "a..b:1", "-a:1", "a-:1", "a b:1", "ü:1",
     "x" * 64 + ":1", "h:000001", "user@h:1", "http://h:1"],
)  # fmt: skip
def test_addresses_that_are_none(address: str) -> None:
    with pytest.raises(BadInput) as error:
        tokens.check_address(address)
    assert error.value.code == "bad-address"


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"addresses": ()}, "bad-address"),
        ({"addresses": ("h:1",) * 9}, "bad-address"),
        ({"addresses": ("h",)}, "bad-address"),
        ({"uses": 0}, "bad-uses"),
        ({"expires": NOW}, "bad-lifetime"),
        ({"pin": b"short"}, "bad-code-body"),
        ({"labels": {"": "x"}}, "bad-label"),
        ({"replace": True}, "replace-needs-name"),
        ({"replace": True, "name": "east-*"}, "replace-needs-name"),
    ],
)
def test_codes_that_are_not_made(changes: dict[str, object], code: str) -> None:
    with pytest.raises(BadInput) as error:
        minted(**changes)
    assert error.value.code == code


def test_the_longest_code_fits_its_bound() -> None:
    host = ".".join(["x" * 63] * 3) + "." + "y" * 20
    assert len(text(minted(addresses=(f"{host}:65535",) * 6)[0])) <= tokens.MAX_CODE
    with pytest.raises(BadInput):
        minted(addresses=(f"{host}:65535",) * 8)[0].encode()


def test_why_a_code_is_of_no_use() -> None:
    from dataclasses import replace

    _, record = minted()

    def why(**changes: object) -> str:
        with pytest.raises(Refused) as error:
            tokens.check_usable(replace(record, **changes), NOW, 1)
        return error.value.code

    tokens.check_usable(record, Wall(NOW + HOUR), 1)
    tokens.check_usable(replace(record, uses=None, used=999), NOW, 1)
    assert why(expires=Wall(NOW - 1)) == "code-expired"
    assert why(used=1) == "code-used"
    assert why(revoked=True) == "code-revoked"
    assert why(epoch=2) == "code-before-restore"
    assert why(revoked=True, used=1, expires=Wall(0), epoch=0) == "code-revoked"


@pytest.mark.parametrize(
    ("changes", "state"),
    [
        ({}, "open"),
        ({"uses": None, "used": 999}, "open"),
        ({"used": 1}, "used-up"),
        ({"expires": Wall(NOW - 1), "used": 1}, "expired"),
        ({"epoch": 2, "expires": Wall(NOW - 1), "used": 1}, "before-restore"),
        ({"revoked": True, "used": 1, "expires": Wall(0), "epoch": 0}, "revoked"),
    ],
)
def test_what_a_list_says_of_a_code_is_what_a_stranger_would_be_told(changes: dict[str, object], state: str) -> None:
    from dataclasses import replace

    record = replace(minted()[1], **changes)
    assert tokens.state_of(record, NOW, 1) == state
    if state == "open":
        tokens.check_usable(record, NOW, 1)
        return
    with pytest.raises(Refused) as error:
        tokens.check_usable(record, NOW, 1)
    assert error.value.code == f"code-{state.removesuffix('-up')}"


def test_codes_with_one_secret_differ_by_nothing_secret() -> None:
    first, _ = minted()
    second, _ = minted(secret=seed("another"))
    assert first != second
    assert repr(first) == repr(second)
