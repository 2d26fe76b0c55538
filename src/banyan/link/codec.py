"""Frames: MessagePack arrays of tagged messages (core.messages), and the limits on what a peer may send.

`decode` does work bounded by the frame's length, and hands on only messages whose every list, text and
number is bounded too; what lies beyond is BadInput("bad-frame"). It never interprets a message: that is
for `session`. docs/contracts/link.md lists the limits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Sized
from dataclasses import dataclass
from typing import get_args

import msgspec

from banyan.core.digest import MAX_INSTANT, MAX_NAME, MAX_SHAPES
from banyan.core.errors import BadInput
from banyan.core.ids import CODE_BITS
from banyan.core.lineage import MAX_ROWS, Delta, Ledger
from banyan.core.messages import (
    MAX_FRAME,
    MAX_STRANGER_FRAME,
    Ack,
    Admitted,
    Answer,
    Beat,
    BeatAck,
    Bye,
    CallerInfo,
    Enrol,
    EpochProof,
    Generations,
    Grant,
    Greet,
    Hello,
    HelloAck,
    Message,
    Renew,
    Renewed,
    Report,
    Request,
    ShapeSet,
    Welcome,
)

NONCE = 16
KEY = 32
SIGNATURE = 64
MAX_CERTIFICATE = 4096
MAX_CERTIFICATES = 16
MAX_LABELS = 64
MAX_DEPTH = 64
MAX_COUNTERS = 4096
MAX_LEDGER_ROWS = 5000
MAX_EVIDENCE = 8192
MAX_ENTRY = 32 * 1024
MAX_HASH = 64
MAX_TEXT = 255
MAX_REASON = 1024
MAX_PATH = 4096
MAX_NUMBER = (1 << 63) - 1  # what a signed 64-bit column holds
MAX_COUNT = 1 << 48  # the sum over 32,768 members still fits in MAX_NUMBER
MAX_DURATION = 1 << 40  # milliseconds; 34 years


@dataclass(frozen=True, slots=True)
class Limits:
    """What one frame may hold: bytes, messages; `strict` refuses a message of an unknown tag instead of skipping it."""

    frame: int
    messages: int
    strict: bool


STRANGER = Limits(MAX_STRANGER_FRAME, 1, strict=True)
SESSION = Limits(MAX_FRAME, 256, strict=False)


@dataclass(frozen=True, slots=True)
class Decoded:
    """A frame's messages in order; `unknown` counts those that only a newer version understands."""

    messages: tuple[Message, ...]
    unknown: int = 0


_ENCODER = msgspec.msgpack.Encoder()
_PARTS: msgspec.msgpack.Decoder[list[msgspec.Raw]] = msgspec.msgpack.Decoder(list[msgspec.Raw])
_MESSAGE: msgspec.msgpack.Decoder[Message] = msgspec.msgpack.Decoder(Message)
_TAGS = frozenset(kind.__struct_config__.tag for kind in get_args(Message))


def encode(message: Message) -> bytes:
    """One message, to be joined with others by `join`."""
    return _ENCODER.encode(message)


def join(parts: Sequence[bytes]) -> bytes:
    """A frame of encoded messages, in this order; at most 65,535."""
    count = len(parts)
    if count < 16:
        return bytes((0x90 | count,)) + b"".join(parts)
    return b"\xdc" + count.to_bytes(2, "big") + b"".join(parts)


def decode(frame: bytes, limits: Limits) -> Decoded:
    """The frame's messages. Raises BadInput("bad-frame") that says what was wrong, never what was in it."""
    if len(frame) > limits.frame:
        raise _bad(f"a frame may have {limits.frame} bytes here, this one has {len(frame)}")
    count = _count(frame)
    if not 1 <= count <= limits.messages:
        raise _bad(f"a frame may hold {limits.messages} message(s) here, this one holds {count}")
    messages = []
    unknown = 0
    try:
        for part in _PARTS.decode(frame):
            try:
                message = _MESSAGE.decode(part)
            except msgspec.ValidationError:
                if limits.strict or not _is_unknown(part):
                    raise
                unknown += 1
                continue
            check = _CHECKS.get(type(message))
            if check is not None:
                check(message)
            messages.append(message)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise _bad(f"not a message of this protocol: {str(error)[:200]}") from error
    return Decoded(tuple(messages), unknown)


def _count(frame: bytes) -> int:
    """The length that a MessagePack array announces, read before anything is built from it."""
    first = frame[0] if frame else 0
    if first & 0xF0 == 0x90:
        return first & 0x0F
    if first == 0xDC:
        return int.from_bytes(frame[1:3], "big")
    if first == 0xDD:
        return int.from_bytes(frame[1:5], "big")
    raise _bad("a frame is a MessagePack array of messages")


def _is_unknown(part: msgspec.Raw) -> bool:
    """True if `part` has the form of a message, under a tag that this version does not know."""
    try:
        items = _PARTS.decode(part)
        tag = msgspec.msgpack.decode(items[0], type=int) if items else 0
    except (msgspec.MsgspecError, RecursionError):
        return False
    return tag > 0 and tag not in _TAGS


def _bad(text: str) -> BadInput:
    return BadInput("bad-frame", text)


# --- limits of each message -----------------------------------------------------------------------


def _text(value: str, limit: int, what: str) -> None:
    # PostgreSQL's text holds no NUL: better refused here than at the first store that is not SQLite.
    if len(value) > limit or "\0" in value:
        raise _bad(f"{what} is a text of at most {limit} characters without NUL")


def _size(value: Sized, limit: int, what: str) -> None:
    if len(value) > limit:
        raise _bad(f"{what} may have a length of {limit}, got {len(value)}")


def _exact(value: bytes, size: int, what: str) -> None:
    if len(value) != size:
        raise _bad(f"{what} has {size} bytes, got {len(value)}")


def _number(value: int, limit: int, what: str) -> None:
    if not 0 <= value <= limit:
        raise _bad(f"{what} is between 0 and {limit}")


def _code(value: int, what: str) -> None:
    if value >> CODE_BITS:
        raise _bad(f"{what} is a number of {CODE_BITS} bits")


def _certificates(values: Sequence[bytes], what: str) -> None:
    _size(values, MAX_CERTIFICATES, what)
    for value in values:
        _size(value, MAX_CERTIFICATE, f"a certificate in {what}")


def _labels(values: Mapping[str, str]) -> None:
    _size(values, MAX_LABELS, "labels")
    for key, value in values.items():
        _text(key, MAX_TEXT, "a label's key")
        _text(value, MAX_TEXT, "a label's value")


def _codes(values: Sequence[int], what: str) -> None:
    _size(values, MAX_DEPTH, what)
    for value in values:
        _code(value, what)


def _generations(value: Generations) -> None:
    for number in (value.digest, value.lineage, value.ledger):
        _number(number, MAX_NUMBER, "a generation")


def _grant(value: Grant) -> None:
    for duration in (value.lease, value.silence, value.report):
        _number(duration, MAX_DURATION, "a duration")
    _number(value.epoch, MAX_NUMBER, "epoch")


def _epoch_proof(value: EpochProof) -> None:
    _number(value.epoch, MAX_NUMBER, "a proved epoch")
    _number(value.own, MAX_NUMBER, "the parent's epoch in a proof")
    _exact(value.authority, KEY, "the key of a proof")
    _exact(value.signature, SIGNATURE, "the signature of a proof")


def _greet(m: Greet) -> None:
    _number(m.floor, MAX_NUMBER, "floor")
    _number(m.ceiling, MAX_NUMBER, "ceiling")
    _exact(m.nonce, NONCE, "nonce")
    _text(m.purpose, MAX_TEXT, "purpose")


def _welcome(m: Welcome) -> None:
    _code(m.code, "code")
    _text(m.name, MAX_TEXT, "name")
    _number(m.time, MAX_COUNT, "time")
    _exact(m.nonce, NONCE, "nonce")
    _certificates(m.chain, "chain")
    _certificates(m.bundle, "bundle")
    _size(m.proof, MAX_TEXT, "proof")


def _renew(m: Renew) -> None:
    _exact(m.public_key, KEY, "public_key")
    _exact(m.signature, SIGNATURE, "signature")


def _enrol(m: Enrol) -> None:
    _text(m.evidence.kind, MAX_TEXT, "evidence")
    _size(m.evidence.body, MAX_EVIDENCE, "evidence")
    _code(m.code, "code")
    _text(m.name, MAX_TEXT, "name")
    _exact(m.public_key, KEY, "public_key")
    _exact(m.signature, SIGNATURE, "signature")
    for value, what in ((m.driver, "driver"), (m.mode, "mode"), (m.version, "version")):
        _text(value, MAX_TEXT, what)
    _labels(m.labels)


def _admitted(m: Admitted) -> None:
    _size(m.certificate, MAX_CERTIFICATE, "certificate")
    _certificates(m.bundle, "bundle")
    _text(m.name, MAX_TEXT, "name")
    _text(m.path, MAX_PATH, "path")
    _text(m.mode, MAX_TEXT, "mode")
    _labels(m.labels)


def _hello(m: Hello) -> None:
    _code(m.code, "code")
    _text(m.version, MAX_TEXT, "version")
    _number(m.epoch, MAX_NUMBER, "epoch")
    _size(m.mark, MAX_TEXT, "mark")
    _size(m.next_mark, MAX_TEXT, "next_mark")
    _generations(m.offers)
    if m.renew is not None:
        _renew(m.renew)
    if m.proof is not None:
        _epoch_proof(m.proof)
    _certificates(m.crosses, "crosses")


def _hello_ack(m: HelloAck) -> None:
    _grant(m.grant)
    _generations(m.known)
    _text(m.name, MAX_TEXT, "name")
    _text(m.path, MAX_PATH, "path")
    _size(m.certificate, MAX_CERTIFICATE, "certificate")
    _codes(m.ancestors, "ancestors")
    if not MAX_STRANGER_FRAME <= m.max_frame <= MAX_NUMBER:
        raise _bad(f"max_frame is at least {MAX_STRANGER_FRAME}")
    if m.proof is not None:
        _epoch_proof(m.proof)
    _size(m.shapes, MAX_HASH, "the hash of shapes")


def _shapes(value: ShapeSet) -> None:
    _size(value.hash, MAX_HASH, "the hash of shapes")
    _size(value.keys, MAX_SHAPES, "shapes")
    for key in value.keys:
        _text(key, MAX_NAME, "a shape")


def _heard(value: int) -> None:
    if not -1 <= value <= MAX_INSTANT:
        raise _bad("heard is -1, or an instant in milliseconds")


def _report(m: Report) -> None:
    _number(m.seq, MAX_NUMBER, "seq")
    _text(m.condition, MAX_TEXT, "condition")
    _text(m.reason, MAX_REASON, "reason")
    if m.digest is not None:
        _span(m.digest.since, m.digest.until)
        _counters(m.digest.counters)
    if m.lineage is not None:
        _lineage(m.lineage)
    if m.ledger is not None:
        _ledger(m.ledger)
    _heard(m.heard)
    _size(m.shapes, MAX_HASH, "the hash of shapes")


def _span(since: int, until: int) -> None:
    _number(since, MAX_NUMBER, "since")
    _number(until, MAX_NUMBER, "until")


def _counters(values: Mapping[str, int]) -> None:
    _size(values, MAX_COUNTERS, "counters")
    for key, value in values.items():
        _text(key, MAX_PATH, "a counter's name")
        _number(value, MAX_COUNT, "a counter")


def _lineage(delta: Delta) -> None:
    _span(delta.since, delta.until)
    _size(delta.rows, MAX_ROWS, "lineage rows")
    for row in delta.rows:
        _code(row.code, "code")
        _code(row.parent, "parent")
        _size(row.entry, MAX_ENTRY, "an entry")
        _size(row.signature, MAX_TEXT, "signature")
        for value in (row.name, row.state, row.health, row.admin):
            _text(value, MAX_TEXT, "a word of a lineage row")
        _text(row.reason, MAX_REASON, "reason")
        _number(row.as_of, MAX_COUNT, "as_of")
        _labels(row.labels)


def _ledger(ledger: Ledger) -> None:
    _span(ledger.since, ledger.until)
    _size(ledger.rows, MAX_LEDGER_ROWS, "ledger rows")
    for row in ledger.rows:
        _code(row.issuer, "issuer")
        _text(row.project, MAX_TEXT, "project")
        _text(row.name, MAX_TEXT, "a project's name")
        for count in (row.guests, row.vcpu, row.memory_mib, row.disk_gib):
            _number(count, MAX_COUNT, "use")


def _beat(m: Beat) -> None:
    _number(m.seq, MAX_NUMBER, "seq")
    _heard(m.heard)


def _ack(m: Ack) -> None:
    _number(m.seq, MAX_NUMBER, "seq")
    _grant(m.grant)
    _generations(m.known)
    if m.shapes is not None:
        _shapes(m.shapes)


def _beat_ack(m: BeatAck) -> None:
    _number(m.seq, MAX_NUMBER, "seq")
    _number(m.report, MAX_DURATION, "report")


def _renewed(m: Renewed) -> None:
    _size(m.certificate, MAX_CERTIFICATE, "certificate")
    _certificates(m.bundle, "bundle")


def _caller(m: CallerInfo) -> None:
    _code(m.issuer, "issuer")
    for value in (m.subject, m.token, m.address, m.request):
        _text(value, MAX_TEXT, "a word of the caller")
    _text(m.under, MAX_PATH, "under")


def _request(m: Request) -> None:
    _number(m.id, MAX_NUMBER, "id")
    _text(m.verb, MAX_TEXT, "verb")
    _number(m.deadline, MAX_DURATION, "deadline")
    _caller(m.caller)


def _answer(m: Answer) -> None:
    _number(m.id, MAX_NUMBER, "id")
    _text(m.error, MAX_TEXT, "error")
    _text(m.text, MAX_PATH, "text")
    _number(m.status, 999, "status")


def _bye(m: Bye) -> None:
    _text(m.code, MAX_TEXT, "code")
    _text(m.text, MAX_PATH, "text")
    if not -1 <= m.retry_after <= MAX_DURATION:
        raise _bad("retry_after is -1 or a duration in milliseconds")


# Each function takes exactly the type that it stands beside; a dict's value type cannot say so.
_CHECKS: Mapping[type, Callable[..., None]] = {
    Greet: _greet,
    Welcome: _welcome,
    Renew: _renew,
    Enrol: _enrol,
    Admitted: _admitted,
    Hello: _hello,
    HelloAck: _hello_ack,
    Report: _report,
    Beat: _beat,
    Ack: _ack,
    BeatAck: _beat_ack,
    Renewed: _renewed,
    Request: _request,
    Answer: _answer,
    Bye: _bye,
}
