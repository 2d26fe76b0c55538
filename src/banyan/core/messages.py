"""The words on a link (protocols §6, §7). MessagePack arrays, tagged by a small integer.

A frame is an array of messages. Fields are only ever appended, with defaults; a receiver ignores
array items that it does not know, so that versions N and N-1 talk. Instants are milliseconds of
corrected time, durations milliseconds. docs/contracts/link.md is the prose of this file.

Opening, child's words left, parent's right:

    Greet         →
                  ←  Welcome      the parent proves itself and the time
    Hello | Enrol →               nothing of the child's leaves before the welcome was checked
                  ←  HelloAck | Admitted | Bye
    then, in a session: Report | Beat | Renew | Answer → and ← Ack | Renewed | Request | Bye
"""

from __future__ import annotations

import msgspec

from banyan.core.ids import ZoneCode
from banyan.core.lineage import Delta, Ledger

# The versions this program speaks. A parent answers with the highest that both know.
PROTOCOL_FLOOR = 1
PROTOCOL_CEILING = 1

# One frame, all of its messages. A stranger (before HelloAck) gets far less.
MAX_FRAME = 256 * 1024
MAX_STRANGER_FRAME = 16 * 1024


class Generations(msgspec.Struct, frozen=True, array_like=True):
    """The generation of each stream; 0 is "nothing yet"."""

    digest: int = 0
    lineage: int = 0
    ledger: int = 0


class Greet(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """The first words. `nonce`: 16 random bytes, for the time proof. `purpose`: "session" or "enrol"."""

    floor: int
    ceiling: int
    nonce: bytes
    purpose: str


class Welcome(msgspec.Struct, frozen=True, array_like=True, tag=2):
    """The parent proves who it is and what time it is.

    `chain`: its server certificate, then its CA's (DER). `bundle`: cross certificates between its
    CAs, old and new (DER). `proof`: signature of the CA's key over the greeting's nonce, `time` and
    the server certificate (trust.chain.time_proof). `nonce`: for the child's own proof.
    """

    version: int
    code: ZoneCode
    name: str
    time: int
    nonce: bytes
    chain: tuple[bytes, ...]
    bundle: tuple[bytes, ...]
    proof: bytes


class Evidence(msgspec.Struct, frozen=True, array_like=True):
    """Why a stranger should be let in: a registered verifier's kind and what that verifier reads."""

    kind: str
    body: bytes


class Renew(msgspec.Struct, frozen=True, array_like=True, tag=3):
    """Asks for a new certificate over `public_key` (Ed25519, 32 bytes), proved by `signature`."""

    public_key: bytes
    signature: bytes


class Enrol(msgspec.Struct, frozen=True, array_like=True, tag=4):
    """A stranger asks to join. `signature` proves the key (trust.enrol.possession) over this session.

    `has_children`: zones below it hold certificates that say its code, so that it can take no other.
    """

    evidence: Evidence
    code: ZoneCode
    name: str
    public_key: bytes
    signature: bytes
    driver: str = ""
    labels: dict[str, str] = {}
    mode: str = "observe"
    version: str = ""
    has_children: bool = False


class Admitted(msgspec.Struct, frozen=True, array_like=True, tag=5):
    """The stranger is now a child. `path`: its path from the parent's own root downwards, as far as known."""

    certificate: bytes
    bundle: tuple[bytes, ...]
    name: str
    path: str
    labels: dict[str, str]
    mode: str
    quarantined: bool = False


class EpochProof(msgspec.Struct, frozen=True, array_like=True):
    """A parent's word to itself, kept by the child: "I granted this child that epoch" (trust/epochs.py).

    `authority`: the public key (Ed25519, 32 bytes) of the CA that signed it. `own`: the parent's own epoch when it
    signed, 0 from a parent of the version before, which signed none.
    """

    epoch: int
    authority: bytes
    signature: bytes
    own: int = 0


class Hello(msgspec.Struct, frozen=True, array_like=True, tag=6):
    """A child opens a session. `mark`: last acknowledged; `next_mark`: stored before this was sent (§8).

    `epoch`: the highest that it was granted, `proof` what the parent signed of it. `crosses`: certificates (DER) from
    the CA that signed to the one that the parent shows now, if they differ. `renew` rides along when the certificate
    is past two thirds of its life, or over.
    """

    code: ZoneCode
    version: str
    epoch: int
    mark: bytes
    next_mark: bytes
    offers: Generations
    renew: Renew | None = None
    proof: EpochProof | None = None
    crosses: tuple[bytes, ...] = ()


class ShapeSet(msgspec.Struct, frozen=True, array_like=True):
    """The shapes that a parent announces: `hash` of the set (placement/shapes.py), `keys` as `Shape.key` spells them.

    The hash is the parent's own: the child says it back, and is sent the set when it is not the present one.
    """

    hash: bytes = b""
    keys: tuple[str, ...] = ()


class Grant(msgspec.Struct, frozen=True, array_like=True):
    """What an acknowledgement grants, milliseconds (core.time.Terms). `report`: when the next is due."""

    lease: int
    silence: int
    report: int
    epoch: int


class HelloAck(msgspec.Struct, frozen=True, array_like=True, tag=7):
    """The session stands. `known`: what the parent holds of each stream, so that only the rest is sent.

    `read_only`: the child was rolled back (§8): connected, no lease, until a person decides.
    `ancestors`: codes of the zones above, the parent first, for the child's own loop check.
    `proof`: of the grant's epoch, to be kept and shown in the next hello.
    `shapes`: the hash of the shapes that the parent announces; empty from a parent that announces none ever.
    """

    grant: Grant
    known: Generations
    name: str
    path: str
    read_only: bool = False
    certificate: bytes = b""
    ancestors: tuple[ZoneCode, ...] = ()
    max_frame: int = MAX_FRAME
    proof: EpochProof | None = None
    shapes: bytes = b""


class DigestPart(msgspec.Struct, frozen=True, array_like=True):
    """Counters that changed (core.digest.diff) since generation `since`; 0 is a whole digest."""

    since: int
    until: int
    counters: dict[str, int]


class Report(msgspec.Struct, frozen=True, array_like=True, tag=8):
    """The heartbeat that has news. `condition` and `reason`: the child of itself (core.zone.Condition).

    `scanning`: a first scan is under way; `scanned`: every rack was read at least once.
    `heard`: as in Beat. `shapes`: the hash of the announced shapes that the child holds; empty from a child that
    takes none. `partial`: the child's ledger may lack servers of zones below it that told it nothing since they took
    orders, or since it started.
    """

    seq: int
    condition: str
    reason: str
    scanning: bool
    scanned: bool
    digest: DigestPart | None = None
    lineage: Delta | None = None
    ledger: Ledger | None = None
    heard: int = -1
    shapes: bytes = b""
    partial: bool = False


class Beat(msgspec.Struct, frozen=True, array_like=True, tag=9):
    """The heartbeat with no news since the report or beat before.

    `heard`: every zone below the child that it reports as alive, and all between as well, was heard by its own parent
    at that instant (milliseconds of corrected time) or later; 0 if there is none, -1 if the child does not say.
    """

    seq: int
    heard: int = -1


class Ack(msgspec.Struct, frozen=True, array_like=True, tag=10):
    """Means "received", nothing more. `known` after it; `resend`: a delta did not fit what is held.

    `shapes`: what the parent announces now, when the child holds another set; else None.
    """

    seq: int
    grant: Grant
    known: Generations
    resend: bool = False
    shapes: ShapeSet | None = None


class BeatAck(msgspec.Struct, frozen=True, array_like=True, tag=11):
    """Answers a Beat: the last Grant again, with the next report due in `report` milliseconds."""

    seq: int
    report: int


class Renewed(msgspec.Struct, frozen=True, array_like=True, tag=12):
    certificate: bytes
    bundle: tuple[bytes, ...]


class CallerInfo(msgspec.Struct, frozen=True, array_like=True):
    """core.identity.Caller on the wire: for the journal below, and checked there again. No bearer token.

    `under`: the code, as text, of the zone that the caller is limited to; "" is all of the issuer's.
    """

    subject: str
    role: int
    issuer: ZoneCode
    under: str
    token: str
    address: str
    request: str


class Request(msgspec.Struct, frozen=True, array_like=True, tag=13):
    """The parent asks something of the child; answered by id, never replayed by the link.

    `verb` names the body's type (core.messages: PageQuery for "page", …), `body` is its MessagePack.
    `deadline` is milliseconds from receipt: what is left of the asker's own time, less what it keeps to answer in
    (zone/deadline.py).
    """

    id: int
    verb: str
    body: bytes
    deadline: int
    caller: CallerInfo


class Answer(msgspec.Struct, frozen=True, array_like=True, tag=14):
    """`error` is a BanyanError's code, "" when well; then `text` and `status` (HTTP) describe it."""

    id: int
    body: bytes = b""
    error: str = ""
    text: str = ""
    status: int = 200


class Bye(msgspec.Struct, frozen=True, array_like=True, tag=15):
    """The last word of either side: an error's code and public text. `retry_after` in milliseconds, -1 never."""

    code: str
    text: str
    retry_after: int


Message = (
    Greet
    | Welcome
    | Renew
    | Enrol
    | Admitted
    | Hello
    | HelloAck
    | Report
    | Beat
    | Ack
    | BeatAck
    | Renewed
    | Request
    | Answer
    | Bye
)


# --- the bodies of requests ---------------------------------------------------------------------


class PageQuery(msgspec.Struct, frozen=True, array_like=True):
    """One page of `kind` ("hosts", "racks", "servers", "journal") of the zone at `target` and below.

    `target` is relative to the receiver ("" is itself). Ordered by (zone path, name, id). `marker`
    is opaque, from the page before. `filters` as in docs/contracts/lists.md.
    """

    kind: str
    target: str
    filters: dict[str, str]
    marker: str
    limit: int
    deep: bool = True


class Page(msgspec.Struct, frozen=True, array_like=True):
    """`rows` are JSON objects (UTF-8). `marker` "" is the end. `absent`: paths that could not be asked."""

    rows: tuple[bytes, ...]
    marker: str = ""
    absent: tuple[str, ...] = ()


class UsageQuery(msgspec.Struct, frozen=True, array_like=True):
    """The digest of the zone at `target`, relative to the receiver."""

    target: str


class UsageReply(msgspec.Struct, frozen=True, array_like=True):
    counters: dict[str, int]


class CommandCall(msgspec.Struct, frozen=True, array_like=True):
    """A person's word for a child of the zone at `target` (relative to the receiver): "zone.disable", …"""

    name: str
    target: str
    arguments: dict[str, str]


class CommandReply(msgspec.Struct, frozen=True, array_like=True):
    """A JSON object (UTF-8)."""

    body: bytes
