"""One well-formed message of each kind."""

from __future__ import annotations

from typing import get_args

import msgspec

from banyan.core.ids import RackCode, ZoneCode
from banyan.core.lineage import Delta, Ledger, RackEntry, Row, UseRow
from banyan.core.messages import (
    Ack,
    Admitted,
    Answer,
    Beat,
    BeatAck,
    Bye,
    CallerInfo,
    DigestPart,
    Enrol,
    EpochProof,
    Evidence,
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

CODE = ZoneCode(0x1234567890)
GRANT = Grant(15_000, 600_000, 6_000, 3)
CALLER = CallerInfo("root@socket", 3, CODE, "", "", "192.0.2.1", "r-1")
RENEW = Renew(bytes(32), bytes(64))
ROW = Row(CODE, ZoneCode(1), "east", b"entry", bytes(64), "ready", "alive", "enabled", "", 1_800_000_000_000)
PROOF = EpochProof(3, bytes(range(32)), bytes(range(64)), 2)
USE = UseRow(int(RackCode(7)), "p1", "demo", 1, 2, 4096, 20)
RACK = RackEntry(RackCode(7), "r1", "sim")

SAMPLES: dict[type, Message] = {
    Greet: Greet(1, 1, bytes(16), "session"),
    Welcome: Welcome(1, CODE, "top", 1_800_000_000_000, bytes(16), (b"leaf", b"ca"), (b"cross",), bytes(64)),
    Renew: RENEW,
    Enrol: Enrol(
        Evidence("join-code", b"proof"),
        CODE,
        "east",
        bytes(32),
        bytes(64),
        "sim",
        {"site": "b"},
        "place",
        "1",
        True,
    ),
    Admitted: Admitted(b"certificate", (b"ca",), "east", "top/east", {"site": "b"}, "observe", True),
    Hello: Hello(CODE, "1", 1, b"mark", b"next", Generations(1, 2, 3), RENEW),
    HelloAck: HelloAck(GRANT, Generations(1, 2, 3), "east", "top/east", True, b"certificate", (ZoneCode(1),)),
    Report: Report(
        1,
        "available",
        "",
        False,
        True,
        DigestPart(0, 1, {"lh": 3}),
        Delta(0, 1, (ROW,), True),
        Ledger(0, 1, (USE,)),
    ),
    Beat: Beat(1),
    Ack: Ack(1, GRANT, Generations(1, 2, 3)),
    BeatAck: BeatAck(1, 6_000),
    Renewed: Renewed(b"certificate", (b"ca",)),
    Request: Request(1, "page", b"body", 5_000, CALLER),
    Answer: Answer(1, b"body"),
    Bye: Bye("busy", "come again", 1_000),
}
# As later programs write them: with all that was appended since to version 1.
GROWN: dict[type, Message] = {
    Hello: msgspec.structs.replace(SAMPLES[Hello], proof=PROOF, crosses=(b"cross",)),
    HelloAck: msgspec.structs.replace(SAMPLES[HelloAck], proof=PROOF, shapes=b"hash"),
    Report: msgspec.structs.replace(SAMPLES[Report], heard=1_800_000_000_000, shapes=b"hash"),
    Beat: Beat(1, 1_800_000_000_000),
    Ack: msgspec.structs.replace(SAMPLES[Ack], shapes=ShapeSet(b"hash", ("vcpu=1",))),
}
assert set(SAMPLES) == set(get_args(Message))
