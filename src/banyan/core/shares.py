"""What a zone keeps of an order that it shares out, and of a request that its caller may repeat (protocols §5).

A *share* is what one member was asked for: a child zone, or a rack of this zone. Its row says who decides about it, and
once that is decided, which word is still owed to the member. Pure data; zone/servers/shares.py and retries.py keep it.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from hashlib import sha256
from typing import Final, TypeAlias

import msgspec

from banyan.core.ids import ZoneCode
from banyan.core.server import Created
from banyan.core.time import Wall

# The member of rows that are marks: the order was cancelled, or confirmed, here, by whoever sent it.
HERE: Final = 0
# The header that carries a retry key (draft-ietf-httpapi-idempotency-key-header), by every API; in lower case.
RETRY_HEADER: Final = "idempotency-key"
# A retry key is good for so long, seconds (protocols §5.1).
KEY_LIFE: Final = 86_400.0
# Characters of a retry key, and keys of one project that are kept at a time.
MAX_KEY: Final = 255
MAX_KEYS: Final = 10_000

ShareKey: TypeAlias = tuple[int, str]
"""(member, the id under which it was asked)."""


class ShareState(StrEnum):
    """`ASKED`: this zone decides, and has not: one that nobody works on any more is cancelled. `HELD`: the zone decides
    that sent the order here; it never ends by time. `CONFIRM`, `CANCEL`: decided, and said to the member until it
    acknowledges."""

    ASKED = "asked"
    HELD = "held"
    CONFIRM = "confirm"
    CANCEL = "cancel"


class ShareRow(msgspec.Struct, frozen=True, array_like=True):
    """`member`: code of a child or of an own rack, HERE for a mark. `id`: under which it was asked; `order`: of which
    order, by its id here; `group`: of which server group, if a hard rule binds it."""

    member: int
    id: str
    order: str
    state: ShareState
    at: Wall
    group: str = ""

    @property
    def key(self) -> ShareKey:
        return self.member, self.id


class RetryRow(msgspec.Struct, frozen=True, array_like=True):
    """A request with a retry key. `id`: core.order.order_id; `order`: the id of the order made for it last;
    `arguments`: a digest for each by name; `created`: the answer, None while there is none."""

    id: str
    issuer: ZoneCode
    project: str
    at: Wall
    order: str
    arguments: dict[str, bytes]
    created: Created | None = None


def digests(arguments: Mapping[str, object]) -> dict[str, bytes]:
    """8 bytes for each argument: what was asked can be told apart, and not be read. Values as msgspec encodes them."""
    return {name: sha256(_ENCODE(value)).digest()[:8] for name, value in arguments.items()}


def differing(one: Mapping[str, bytes], other: Mapping[str, bytes]) -> list[str]:
    """Names of arguments that are not the same, by name. What one program does not know counts as left out there."""
    return sorted(name for name in {*one, *other} if one.get(name) != other.get(name))


# Equal requests give equal bytes whatever the order in which a client wrote them.
_ENCODE: Final = msgspec.msgpack.Encoder(order="deterministic").encode
