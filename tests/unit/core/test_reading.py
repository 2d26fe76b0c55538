"""Whatever bytes come, a reader reads them or says one kind of no."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from banyan.core.messages import PageQuery
from banyan.core.reading import Reader, json_reader, msgpack_reader
from banyan.zone.views import HostView

QUERY = PageQuery("hosts", "", {}, "", 10)
HOST = HostView("top", "r", "1", "h1", True, False, True, {})
PACKED, WRITTEN = msgspec.msgpack.encode(QUERY), msgspec.json.encode(HOST)
LEVELS = 100_000


def longer(packed: bytes, further: bytes) -> bytes:
    """The array with one more item, as a newer version may write it."""
    return bytes((packed[0] + 1,)) + packed[1:] + further


def test_what_a_newer_version_adds_is_passed_over() -> None:
    assert msgpack_reader(PageQuery)(longer(PACKED, b"\x91\x91\x01")) == QUERY
    assert json_reader(HostView)(WRITTEN[:-1] + b',"new":[[1]]}') == HOST


@pytest.mark.parametrize(
    ("read", "content"),
    [
        (msgpack_reader(PageQuery), longer(PACKED, b"\x91" * LEVELS + b"\x01")),
        (msgpack_reader(PageQuery), longer(PACKED, b"\x91" * LEVELS)),
        (msgpack_reader(PageQuery), longer(PACKED, b"\x81\xa1k" * LEVELS + b"\x01")),
        (json_reader(HostView), WRITTEN[:-1] + b',"new":' + b"[" * LEVELS + b"]" * LEVELS + b"}"),
        (json_reader(HostView), WRITTEN[:-1] + b',"new":' + b'{"k":' * LEVELS),
        (msgpack_reader(PageQuery), b""),
        (json_reader(HostView), b"\xff\xfe"),
        (json_reader(HostView), b'{"zone": "\xff"}'),
        (msgpack_reader(PageQuery), b"\x96\xa1\xff\xa0\x80\xa0\x0a\xc3"),
    ],
)
def test_what_can_not_be_read_is_one_error(read: Reader[object], content: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        read(content)


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(content: bytes) -> None:
    for read in (msgpack_reader(PageQuery), json_reader(HostView)):
        refused = False
        try:
            read(content)
        except msgspec.DecodeError:
            refused = True
        assert refused or content
