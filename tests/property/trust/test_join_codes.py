"""Join codes: what is encoded is parsed back, whatever is pasted around it; nothing else is ever read."""

from __future__ import annotations

import base64
import contextlib
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from banyan.core.errors import BadInput
from banyan.core.secret import Secret
from banyan.core.time import Wall
from banyan.trust import tokens
from banyan.trust.tokens import JoinCode

LABEL = st.from_regex(r"[a-z0-9]([a-z0-9-]{0,20}[a-z0-9])?", fullmatch=True).filter(lambda s: not s.isdigit())
PORT = st.integers(1, 65535)
ADDRESS = st.one_of(
    st.builds(lambda names, port: f"{'.'.join(names)}:{port}", st.lists(LABEL, min_size=1, max_size=4), PORT),
    st.builds(lambda ip, port: f"{ip}:{port}", st.ip_addresses(v=4), PORT),
    st.builds(lambda ip, port: f"[{ip}]:{port}", st.ip_addresses(v=6), PORT),
)
INSTANT = st.integers(0, 253_402_300_798)
CODES = st.builds(
    lambda addresses, pin, times, id, secret: JoinCode(
        tuple(addresses), pin, Wall(min(times)), Wall(max(times) + 1), id.hex(), Secret(secret)
    ),
    st.lists(ADDRESS, min_size=1, max_size=8),
    st.binary(min_size=32, max_size=32),
    st.tuples(INSTANT, INSTANT),
    st.binary(min_size=8, max_size=8),
    st.binary(min_size=32, max_size=32),
)
BLANK = st.text(" \t\r\n\u00a0\u200b\ufeff", max_size=3)


@given(CODES)
def test_a_code_survives_its_string(code: JoinCode) -> None:
    text = code.encode().reveal().decode()
    assert tokens.parse(text) == code
    assert set(text) <= set(string.ascii_letters + string.digits + "-_.")
    assert len(text) <= tokens.MAX_CODE


@given(CODES, st.data())
def test_white_space_anywhere_is_forgiven(code: JoinCode, data: st.DataObject) -> None:
    text = code.encode().reveal().decode()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=5)))
    for cut in reversed(cuts):
        text = text[:cut] + data.draw(BLANK) + text[cut:]
    assert tokens.parse(text) == code


@given(CODES, st.data())
def test_one_wrong_character_is_a_mistyped_code(code: JoinCode, data: st.DataObject) -> None:
    text = code.encode().reveal().decode()
    at = data.draw(st.integers(len(tokens.PREFIX), len(text) - 1))
    wrong = data.draw(st.sampled_from(string.printable.replace(text[at], "").strip()))
    secret = text[len(text) // 2 : len(text) // 2 + 12]
    for bad in (text[:at] + wrong + text[at + 1 :], text[:at] + text[at + 1 :], text[:at] + wrong + text[at:]):
        if bad == text:
            continue
        with pytest.raises(BadInput) as error:
            tokens.parse(bad)
        assert error.value.code == "code-mistyped"
        assert secret not in str(error.value) + repr(error.value) + error.value.detail


@given(st.text() | st.text(string.ascii_letters + "-_=. ").map(lambda s: "banyan1." + s))
def test_any_text_is_a_code_or_bad_input(text: str) -> None:
    try:
        code = tokens.parse(text)
    except BadInput:
        return
    assert code.encode().reveal().decode() == "".join(text.split())


@given(st.binary(max_size=400))
def test_a_right_checksum_over_any_content_is_bad_input(body: bytes) -> None:
    text = base64.urlsafe_b64encode(body + tokens._checksum(body)).rstrip(b"=").decode()
    with contextlib.suppress(BadInput):
        tokens.parse(tokens.PREFIX + text)


@given(st.text())
def test_any_text_is_an_address_or_bad_input(text: str) -> None:
    try:
        checked = tokens.check_address(text)
    except BadInput:
        return
    assert checked == text
