"""What an API process and its zone say to each other: docs/contracts/queue.md.

A frame is a length of four bytes, big-endian, and a MessagePack array whose first item says its kind. Items that are
not known are ignored, so that N and N-1 talk. `n` numbers a request within its connection; the process chooses it.
"""

from __future__ import annotations

from typing import TypeVar

import msgspec

from banyan.core.errors import BadInput, BanyanError

VERSION = 1
# Bytes of a piece of a body, and of a whole frame with the head of a request in it.
PIECE = 64 * 1024
MAX_FRAME = 256 * 1024
# Bytes of one body that may be on their way, each way, before the reader has taken them.
WINDOW = 256 * 1024
# Seconds between beats; and after which an end that heard nothing takes the other for gone.
BEAT = 2.0
SILENCE = 15.0

Lines = list[tuple[bytes, bytes]]


class Hello(msgspec.Struct, frozen=True, array_like=True, tag="hello"):
    """First from the process. `name` is for the zone's figures and log; versions of this protocol from and to."""

    floor: int
    ceiling: int
    name: str
    program: str


class Welcome(msgspec.Struct, frozen=True, array_like=True, tag="welcome"):
    """The zone's answer. `requests` and `streams` at a time from this process, `deadline` seconds for one answer.

    `public_url`, `region`: as the zone's own documents have them; `services`: whether OpenStack's are offered.
    `certificate` and `key` (PEM) are the zone's own for its API, told on the local socket only; else empty.
    """

    version: int
    program: str
    zone: str
    requests: int
    streams: int
    deadline: float
    services: bool
    public_url: str
    region: str
    certificate: bytes = b""
    key: bytes = b""


class Refused(msgspec.Struct, frozen=True, array_like=True, tag="refused"):
    """The zone's last word to a process that it does not take."""

    code: str
    text: str


class Open(msgspec.Struct, frozen=True, array_like=True, tag="open"):
    """A request. `target`: path and query as they were sent; `host`, `port`: the caller's, as its connection says;
    `request`: its id. `body` is all of it unless `more`; then it is empty, and pieces follow as the zone gives
    credit for them: none before it wants the first."""

    n: int
    method: str
    target: bytes
    headers: Lines
    host: str
    port: int
    scheme: str
    request: str
    body: bytes
    more: bool


class Head(msgspec.Struct, frozen=True, array_like=True, tag="head"):
    """An answer begins; `body` is all of it unless `more`."""

    n: int
    status: int
    headers: Lines
    body: bytes
    more: bool


class Piece(msgspec.Struct, frozen=True, array_like=True, tag="piece"):
    """More of a request's or an answer's body; the last unless `more`."""

    n: int
    body: bytes
    more: bool


class Credit(msgspec.Struct, frozen=True, array_like=True, tag="credit"):
    """The reader of a body has taken so many bytes: as many more may come."""

    n: int
    size: int


class Gone(msgspec.Struct, frozen=True, array_like=True, tag="gone"):
    """From the process: the caller went. From the zone: the answer ends here, and is not whole."""

    n: int


class Beat(msgspec.Struct, frozen=True, array_like=True, tag="beat"):
    """From the zone: its corrected time, and whose tokens it believes."""

    wall: float
    code: int
    epoch: int
    token_public: bytes


class Figures(msgspec.Struct, frozen=True, array_like=True, tag="figures"):
    """A process's beat: its own figures, by name."""

    values: dict[str, float]


class Revoked(msgspec.Struct, frozen=True, array_like=True, tag="revoked"):
    """Audit ids of users' tokens that ended before their time, each with the instant at which it had ended anyway."""

    rows: list[tuple[str, float]]


class Turned(msgspec.Struct, frozen=True, array_like=True, tag="turned"):
    """A process has turned a stranger away: from where, at what, with which error. For the zone's journal."""

    address: str
    what: str
    code: str


FromProcess = Hello | Open | Piece | Credit | Gone | Figures | Turned
FromZone = Welcome | Refused | Head | Piece | Credit | Gone | Beat | Revoked
F = TypeVar("F")


class BadFrame(Exception):
    """What came is no frame of this protocol; the connection ends."""


class Splitter:
    """Bytes as they come, whole frames out. Raises BadFrame for one that is too long."""

    def __init__(self) -> None:
        self._held = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        held = self._held
        held += data
        at, found = 0, []
        while len(held) - at >= 4:
            size = int.from_bytes(held[at : at + 4], "big")
            if size > MAX_FRAME:
                raise BadFrame(f"a frame has at most {MAX_FRAME} bytes, got one of {size}")
            if len(held) - at - 4 < size:
                break
            found.append(bytes(held[at + 4 : at + 4 + size]))
            at += 4 + size
        if at:
            del held[:at]
        return found


_ENCODER = msgspec.msgpack.Encoder()


def framed(frame: msgspec.Struct) -> bytes:
    content = _ENCODER.encode(frame)
    return len(content).to_bytes(4, "big") + content


def bad_version(hello: Hello) -> BanyanError | None:
    """Why a process of these versions can not be served, if it can not."""
    if hello.floor <= VERSION <= hello.ceiling:
        return None
    return BadInput(
        "queue-version",
        f"this zone speaks version {VERSION} of the queue, the API process versions {hello.floor} to {hello.ceiling}; "
        "bring both to neighbouring releases",
    )
