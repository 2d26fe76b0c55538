"""The journal: the append-only, hash-chained history of a zone's decisions."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from banyan.core.identity import Caller
from banyan.core.time import Wall


@dataclass(frozen=True, slots=True)
class Event:
    """What is to be written. `kind` is kebab-case and stable ("child-disabled"); `target` names the thing.

    `facts` are short texts, never a secret. `outcome` is "done", "refused" or "failed".
    """

    kind: str
    target: str
    caller: Caller
    text: str
    facts: Mapping[str, str]
    outcome: str = "done"


@dataclass(frozen=True, slots=True)
class Line:
    """What was written. `digest` = SHA-256 over the previous line's digest and this line's content."""

    number: int
    at: Wall
    kind: str
    target: str
    actor: str
    token: str
    address: str
    request: str
    text: str
    facts: Mapping[str, str]
    outcome: str
    digest: bytes


def chain(previous: bytes, number: int, at: Wall, event: Event) -> bytes:
    """The digest of the next line; `previous` is b"" for the first.

    The content is MessagePack of an array in the order of Line's fields, `facts` sorted by key.
    """
    caller = event.caller
    content = msgspec.msgpack.encode(
        [
            number,
            float(at),  # a whole second may come as an integer, and is read back as a float
            event.kind,
            event.target,
            caller.subject,
            caller.token,
            caller.address,
            caller.request,
            event.text,
            sorted(event.facts.items()),
            event.outcome,
        ]
    )
    return hashlib.sha256(previous + content).digest()
