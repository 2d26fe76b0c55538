from __future__ import annotations

from typing import get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from banyan.core.errors import BadInput
from banyan.core.ids import ZoneCode
from banyan.core.lineage import MAX_ROWS, Delta, Ledger
from banyan.core.messages import (
    MAX_FRAME,
    MAX_STRANGER_FRAME,
    Ack,
    Admitted,
    Answer,
    Beat,
    Bye,
    DigestPart,
    Enrol,
    Evidence,
    Generations,
    Greet,
    Hello,
    HelloAck,
    Message,
    Report,
    Request,
    ShapeSet,
    Welcome,
)
from banyan.link.codec import SESSION, STRANGER, Limits, decode, encode, join
from tests.unit.link.words import CALLER, GRANT, GROWN, PROOF, ROW, SAMPLES, USE

pack = msgspec.msgpack.encode


def frame(*messages: Message) -> bytes:
    return join([encode(m) for m in messages])


def refused(data: bytes, limits: Limits = SESSION) -> str:
    with pytest.raises(BadInput) as caught:
        decode(data, limits)
    assert caught.value.code == "bad-frame"
    return caught.value.text


@pytest.mark.parametrize("kind", get_args(Message), ids=lambda kind: kind.__name__)
def test_each_message_survives_the_way(kind: type) -> None:
    assert decode(frame(SAMPLES[kind]), SESSION).messages == (SAMPLES[kind],)


@pytest.mark.parametrize("kind", GROWN, ids=lambda kind: kind.__name__)
def test_what_was_appended_to_a_message_survives_the_way(kind: type) -> None:
    assert decode(frame(GROWN[kind]), STRANGER).messages == (GROWN[kind],)


def test_many_messages_keep_their_order_with_every_form_of_header() -> None:
    for count in (1, 15, 16, 255):
        beats = [Beat(n) for n in range(count)]
        assert decode(frame(*beats), SESSION).messages == tuple(beats)


def test_fields_that_a_newer_version_appends_are_ignored() -> None:
    longer = [*msgspec.msgpack.decode(encode(Beat(7))), "new", {"nested": [1, 2]}]
    assert decode(pack([longer]), STRANGER).messages == (Beat(7),)
    report = msgspec.msgpack.decode(encode(SAMPLES[Report]))
    report[7][2][0].append("a new field of a row inside")
    assert decode(pack([report]), SESSION).messages == (SAMPLES[Report],)


def test_messages_that_a_newer_version_adds_are_skipped_and_counted_inside_a_session() -> None:
    data = pack([[99, "new"], [9, 5], [1000, {}]])
    decoded = decode(data, SESSION)
    assert decoded.messages == (Beat(5),)
    assert decoded.unknown == 2


def test_unknown_messages_of_a_stranger_are_refused() -> None:
    refused(pack([[99, "new"]]), STRANGER)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x90",  # no message
        b"\x09",  # a number
        b"\x81\x01\x02",  # a map
        b"hello, is this HTTP?",
        b"\xdd\xff\xff\xff\xff",  # four thousand million messages
        b"\xdc\x00",  # a cut header
        b"\x91\x92\x09",  # a cut message
        b"\x91\x92\x09\x01trailing",
        pack([["9", 1]]),  # a tag that is a text
        pack([[9, "1"]]),  # a known tag, a wrong field
        pack([[-3, 1]]),
        pack([[0, 1]]),
        pack([[]]),
        pack([{"9": 1}]),
        b"\x91" * 20_000,  # deeper than any stack
        b"\x91\x92\x09" + b"\x91" * 15_000 + b"\x01",
        b"\x91\x93\x09\x01" + b"\x91" * 15_000 + b"\x01",  # deep inside an ignored field
        b"\x91\x92\x09\xcf" + b"\xff" * 8,  # a number of 64 bits
        b"\x91\xd9\xff",
    ],
    ids=lambda data: data[:12].hex(),
)
def test_what_is_no_frame_is_refused(data: bytes) -> None:
    refused(data)


def test_a_frame_may_be_as_long_as_the_limit_and_no_longer() -> None:
    def of(size: int) -> bytes:
        body = size - len(frame(Answer(1, bytes(70_000)))) + 70_000
        return frame(Answer(1, bytes(body)))

    assert decode(of(MAX_FRAME), SESSION).messages
    assert str(MAX_FRAME) in refused(of(MAX_FRAME + 1))


def test_a_stranger_gets_less() -> None:
    big = frame(Answer(1, bytes(MAX_STRANGER_FRAME)))
    assert decode(big, SESSION).messages
    refused(big, STRANGER)
    refused(frame(Beat(1), Beat(2)), STRANGER)
    refused(frame(*(Beat(n) for n in range(257))), SESSION)


def changed(kind: type, **fields: object) -> Message:
    message: Message = msgspec.structs.replace(SAMPLES[kind], **fields)
    return message


@pytest.mark.parametrize(
    "message",
    [
        changed(Greet, nonce=bytes(15)),
        changed(Greet, floor=-1),
        changed(Greet, purpose="x" * 256),
        changed(Welcome, code=ZoneCode(1 << 40)),
        changed(Welcome, chain=(bytes(5000),)),
        changed(Welcome, bundle=(b"",) * 17),
        changed(Welcome, time=1 << 50),
        changed(Enrol, name="a\0b"),
        changed(Enrol, public_key=bytes(31)),
        changed(Enrol, signature=bytes(65)),
        changed(Enrol, evidence=Evidence("join-code", bytes(9000))),
        changed(Enrol, labels={str(n): "" for n in range(65)}),
        changed(Enrol, labels={"k": "v" * 256}),
        changed(Admitted, path="x" * 5000),
        changed(Hello, code=ZoneCode(-1)),
        changed(Hello, offers=Generations(-1, 0, 0)),
        changed(Hello, mark=bytes(256)),
        changed(Hello, proof=msgspec.structs.replace(PROOF, epoch=-1)),
        changed(Hello, proof=msgspec.structs.replace(PROOF, epoch=1 << 63)),
        changed(Hello, proof=msgspec.structs.replace(PROOF, own=-1)),
        changed(Hello, proof=msgspec.structs.replace(PROOF, own=1 << 63)),
        changed(Hello, proof=msgspec.structs.replace(PROOF, authority=bytes(33))),
        changed(Hello, proof=msgspec.structs.replace(PROOF, signature=bytes(63))),
        changed(Hello, crosses=(b"",) * 17),
        changed(Hello, crosses=(bytes(4097),)),
        changed(HelloAck, grant=msgspec.structs.replace(GRANT, lease=-1)),
        changed(HelloAck, max_frame=100),
        changed(HelloAck, proof=msgspec.structs.replace(PROOF, epoch=-1)),
        changed(HelloAck, proof=msgspec.structs.replace(PROOF, signature=bytes(65))),
        changed(Report, reason="x" * 1025),
        changed(Report, digest=DigestPart(0, 1, {"lh": -1})),
        changed(Report, digest=DigestPart(0, 1, {"lh": 1 << 62})),
        changed(Report, digest=DigestPart(0, 1, {str(n): 1 for n in range(5000)})),
        changed(Report, lineage=Delta(0, 1, (ROW,) * (MAX_ROWS + 1))),
        changed(Report, lineage=Delta(0, 1, (msgspec.structs.replace(ROW, entry=bytes(40_000)),))),
        changed(Report, lineage=Delta(0, 1, (msgspec.structs.replace(ROW, name="a\0"),))),
        changed(Report, ledger=Ledger(0, 1, (USE,) * 5001)),
        changed(Report, ledger=Ledger(0, 1, (msgspec.structs.replace(USE, vcpu=-1),))),
        changed(Report, heard=-2),
        changed(Report, shapes=bytes(65)),
        changed(Beat, heard=1 << 60),
        changed(HelloAck, shapes=bytes(65)),
        changed(Ack, shapes=ShapeSet(bytes(65))),
        changed(Ack, shapes=ShapeSet(b"", ("vcpu=1",) * 301)),
        changed(Ack, shapes=ShapeSet(b"", ("x" * 257,))),
        changed(Ack, shapes=ShapeSet(b"", ("vcpu=1\0",))),
        changed(Request, id=-1),
        changed(Request, caller=msgspec.structs.replace(CALLER, subject="x" * 300)),
        changed(Answer, status=1000),
        changed(Bye, retry_after=-2),
        changed(Bye, text="x" * 5000),
    ],
    ids=lambda message: type(message).__name__,
)
def test_every_list_text_and_number_is_bounded(message: Message) -> None:
    refused(frame(message))


def test_no_content_of_a_refused_frame_is_repeated() -> None:
    secret = "swordfish"
    text = refused(pack([[4, [secret, secret], secret, secret]]))
    assert secret not in text


def decoded_or_refused(data: bytes, limits: Limits) -> None:
    code = ""
    count = 1
    try:
        decoded = decode(data, limits)
        count = len(decoded.messages) + decoded.unknown
    except BadInput as error:
        code = error.code
    assert code in ("", "bad-frame")
    assert 1 <= count <= limits.messages


@given(st.binary(max_size=300))
def test_any_bytes_are_decoded_or_refused(data: bytes) -> None:
    for limits in (STRANGER, SESSION):
        decoded_or_refused(data, limits)


json_like = st.recursive(
    st.none() | st.booleans() | st.integers(-(1 << 63), (1 << 64) - 1) | st.binary(max_size=70) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=20,
)


@given(st.lists(st.tuples(st.integers(0, 20), st.lists(json_like, max_size=10)), min_size=1, max_size=3))
def test_any_words_are_decoded_or_refused(words: list[tuple[int, list[object]]]) -> None:
    data = pack([[tag, *fields] for tag, fields in words])
    decoded_or_refused(data, SESSION)


@given(st.sampled_from(list(SAMPLES.values())), st.data())
def test_a_damaged_message_is_decoded_or_refused(message: Message, data: st.DataObject) -> None:
    good = bytearray(frame(message))
    for _ in range(data.draw(st.integers(1, 4))):
        good[data.draw(st.integers(0, len(good) - 1))] = data.draw(st.integers(0, 255))
    decoded_or_refused(bytes(good), SESSION)
