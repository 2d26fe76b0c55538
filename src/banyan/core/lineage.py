"""Lineage: which zones and racks lie below, and in what state (protocols §4, §6, §10).

Each zone signs its own *entry*; what its parent observes of it travels beside the entry, unsigned.
An ancestor keeps one row per zone of its lineage and checks: the entry's signature by the key that
this code first came with; that the zone it comes through is named in the entry; no loop, no diamond.
"""

from __future__ import annotations

import msgspec

from banyan.core.ids import RackCode, ZoneCode


class RackEntry(msgspec.Struct, frozen=True, array_like=True):
    code: RackCode
    name: str
    driver: str


class Entry(msgspec.Struct, frozen=True, array_like=True):
    """What a zone says of itself; encoded with MessagePack, these bytes are what is signed.

    `parents` are the codes of the zones it is enrolled at, the home parent first. `issued` is
    milliseconds of corrected time; a newer entry replaces an older one, never the other way round.
    """

    code: ZoneCode
    public_key: bytes  # Ed25519, 32 bytes
    parents: tuple[ZoneCode, ...]
    issued: int
    racks: tuple[RackEntry, ...] = ()
    version: str = ""


class Row(msgspec.Struct, frozen=True, array_like=True):
    """One zone below, as it travels upwards. `parent` is the zone that observed the rest.

    `state`, `health`, `admin` are the words of core.zone. `as_of` is milliseconds of the parent's
    corrected time when it last heard the zone. `gone` drops the row above.
    """

    code: ZoneCode
    parent: ZoneCode
    name: str
    entry: bytes
    signature: bytes
    state: str
    health: str
    admin: str
    reason: str
    as_of: int
    labels: dict[str, str] = {}
    gone: bool = False


class Delta(msgspec.Struct, frozen=True, array_like=True):
    """Rows that changed after generation `since` up to `until`; `since` 0 begins a whole.

    At most MAX_ROWS rows. `more` says that another page follows, whose `since` is this one's `until`
    (in a whole a bookmark, above all generations); at the last page of a whole, what was in none of
    its pages is dropped.
    """

    since: int
    until: int
    rows: tuple[Row, ...]
    more: bool = False


# Each new row costs its receiver a signature check, about 0.2 ms: a page must not hold the loop for long.
MAX_ROWS = 64


class UseRow(msgspec.Struct, frozen=True, array_like=True):
    """The ledger: what one project uses in the reporting zone and below. `issuer` is a zone's or rack's code."""

    issuer: int
    project: str
    name: str
    guests: int
    vcpu: int
    memory_mib: int
    disk_gib: int


class Ledger(msgspec.Struct, frozen=True, array_like=True):
    """Changed projects after generation `since`, in pages as Delta; a row with no guests drops the project."""

    since: int
    until: int
    rows: tuple[UseRow, ...]
    more: bool = False
