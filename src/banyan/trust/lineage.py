"""Who may be reported through which child: each zone's entry is its own word, and no zone is in two places.

An ancestor keeps one row per zone of its lineage. A row is kept if its entry is signed by the key that this code first
came with (or by a new one for which its parent vouches), if the zone names its parent, and if it is neither above us
(a loop) nor already reached through another child (a diamond; the edge that was here first stays). The rest of a row is
its parent's observation, and is believed as such. `sift_rows` keeps the good and names the bad; `judge_rows` refuses a
delta at its first bad row.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from banyan.core.errors import BadInput, BanyanError, Conflict, Refused
from banyan.core.ids import ZoneCode, check_label, check_name, code_text, join_path
from banyan.core.lineage import Entry, Row
from banyan.core.reading import msgpack_reader
from banyan.core.secret import Secret
from banyan.core.time import Wall, iso
from banyan.core.zone import Admin, Child, ChildState, Health
from banyan.trust.chain import LATEST_MS
from banyan.trust.keys import PUBLIC_SIZE, SIGNATURE_SIZE, fingerprint, sign, statement, verify
from banyan.trust.session import check_code

MAX_ENTRY = 32 * 1024
MAX_LABELS = 64
MAX_RACKS = 1_000
MAX_PARENTS = 16
# Deeper trees than this are a loop that was not seen, or somebody's joke.
MAX_DEPTH = 32
# An entry may be this much ahead of us; one from further ahead would never be replaced again.
FUTURE = 86_400.0
_ENTRY = msgpack_reader(Entry)


@dataclass(frozen=True, slots=True)
class RefusedRow:
    row: Row
    error: BanyanError


@dataclass(frozen=True, slots=True)
class Sifted:
    """`kept`: to be stored as they are here; an entry older than the one held is replaced by that."""

    kept: tuple[Row, ...]
    refused: tuple[RefusedRow, ...]


def sign_entry(seed: Secret, entry: bytes) -> bytes:
    """A zone's signature over its own encoded entry, 64 bytes."""
    return sign(seed, statement("lineage entry", entry))


def vouch(parent_seed: Secret, entry: bytes, signature: bytes) -> bytes:
    """The signature as a parent passes it on: it says that this is its child, whose key it has checked.

    With it, ancestors follow a child to a new key (renewed, replaced); 128 bytes. A vouched one is vouched anew.
    """
    return signature[:SIGNATURE_SIZE] + sign(parent_seed, _vouched(entry))


def read_entry(row: Row, *, checked: bool = False) -> Entry:
    """The entry of `row`, signed by the key in it; `checked`: the signature is known to be right.

    Raises BadInput("bad-entry"), Refused("bad-entry-signature", "not-its-entry").
    """
    if len(row.entry) > MAX_ENTRY:
        raise BadInput(
            "bad-entry", f"an entry has at most {MAX_ENTRY} bytes, that of {_zone(row)} has {len(row.entry)}"
        )
    try:
        entry = _ENTRY(row.entry)
    except ValueError as error:
        raise BadInput("bad-entry", f"the entry of {_zone(row)} can not be read") from error
    if len(entry.racks) > MAX_RACKS or len(entry.parents) > MAX_PARENTS:
        raise BadInput("bad-entry", f"{_zone(row)} has over {MAX_RACKS} racks or {MAX_PARENTS} parents")
    if not 0 <= entry.issued <= LATEST_MS:
        raise BadInput("bad-entry", f"the entry of {_zone(row)} was signed at no time that there is")
    if not checked and (
        len(row.signature) not in (SIGNATURE_SIZE, 2 * SIGNATURE_SIZE)
        or not verify(entry.public_key, row.signature[:SIGNATURE_SIZE], statement("lineage entry", row.entry))
    ):
        raise Refused("bad-entry-signature", f"the entry of {_zone(row)} is not signed by the key that it names")
    if entry.code != row.code:
        raise Refused("not-its-entry", f"the row of {_zone(row)} carries the entry of another zone")
    return entry


def judge_rows(
    rows: Sequence[Row],
    *,
    child: Child,
    own: ZoneCode,
    ancestors: Collection[ZoneCode],
    held: Callable[[ZoneCode], Row | None],
    via: Callable[[ZoneCode], ZoneCode | None],
    path: Callable[[ZoneCode], str],
    now: Wall | None = None,
) -> tuple[Row, ...]:
    """`sift_rows`, but raises the error of the first bad row. The rows to store, which may differ from those given."""
    sifted = sift_rows(rows, child=child, own=own, ancestors=ancestors, held=held, via=via, path=path, now=now)
    if sifted.refused:
        raise sifted.refused[0].error
    return sifted.kept


def sift_rows(
    rows: Sequence[Row],
    *,
    child: Child,
    own: ZoneCode,
    ancestors: Collection[ZoneCode],
    held: Callable[[ZoneCode], Row | None],
    via: Callable[[ZoneCode], ZoneCode | None],
    path: Callable[[ZoneCode], str],
    now: Wall | None = None,
) -> Sifted:
    """Sorts rows (none of them `gone`) that came through `child` into those to store, and those refused, with reasons.

    `own`, `ancestors`: our code and those above. `held`: the row kept of a zone, whoever reported it. `via`: the child
    through which a zone is reached, None if it is not. `path`: a known zone's whole path, for texts. Errors: bad-entry,
    bad-entry-signature, not-its-entry, wrong-key, not-named, not-your-lineage, loop, diamond, entry-conflict,
    entry-of-the-future, bad-row, bad-name, bad-label, bad-code.
    """
    sifter = _Sifter({row.code: row for row in rows}, child, own, frozenset(ancestors), held, via, path, now)
    kept: list[Row] = []
    refused: list[RefusedRow] = []
    for row in rows:
        try:
            kept.append(sifter.judge(row))
        except BanyanError as error:
            refused.append(RefusedRow(row, error))
    # What is below a refused row would hang in the air.
    bad = {one.row.code for one in refused}
    while orphans := [row for row in kept if row.parent in bad]:
        for row in orphans:
            why = f"{_zone(row)} lies below a zone that was refused ({_code(row.parent)})"
            refused.append(RefusedRow(row, Refused("parent-refused", why)))
        bad = {row.code for row in orphans}
        kept = [row for row in kept if row.code not in bad]
    return Sifted(tuple(kept), tuple(refused))


@dataclass(frozen=True, slots=True)
class _Sifter:
    batch: Mapping[ZoneCode, Row]
    child: Child
    own: ZoneCode
    ancestors: frozenset[ZoneCode]
    held: Callable[[ZoneCode], Row | None]
    via: Callable[[ZoneCode], ZoneCode | None]
    path: Callable[[ZoneCode], str]
    now: Wall | None

    def judge(self, row: Row) -> Row:
        """The row to store."""
        _check_form(row)
        before = self._before(row.code)
        # What was checked when it was kept is not checked again: a signature costs more than all else here.
        checked = before is not None and (before.entry, before.signature) == (row.entry, row.signature)
        entry = read_entry(row, checked=checked)
        if row.code == self.own or row.code in self.ancestors:
            raise Conflict(
                "loop",
                f"{_zone(row)} was reported at {self._shown(row)}, but it is "
                f"{'this zone' if row.code == self.own else 'above this zone'}: one can not lie below itself. "
                f"Let {row.name!r} leave the lower place (`banyan leave`)",
            )
        if row.code == self.child.code:
            self._check_child(row, entry)
        else:
            self._check_place(row, entry)
            self._check_key(row, entry)
        return self._newest(row, entry)

    def _check_child(self, row: Row, entry: Entry) -> None:
        if len(row.signature) != SIGNATURE_SIZE:
            raise Refused(
                "bad-entry-signature", f"{_zone(row)} added to its signature; only we could vouch for it here"
            )
        if fingerprint(entry.public_key) != self.child.fingerprint:
            raise Refused("wrong-key", f"{_zone(row)} signed its entry by another key than its certificate's")
        if self.own not in entry.parents:
            raise Refused("not-named", f"{_zone(row)} reports here, but does not name this zone among its parents")

    def _check_place(self, row: Row, entry: Entry) -> None:
        carrier = self.child.code
        self._check_named(row, entry)
        if row.parent == self.own or self.via(row.parent) not in (None, carrier):
            raise Refused(
                "not-your-lineage",
                f"{self.child.name} reported {_zone(row)}, whose parent {code_text(row.parent)} is not below it",
            )
        if self.via(row.code) not in (None, carrier):
            raise Conflict(
                "diamond",
                f"{_zone(row)} is reached at {self.path(row.code)} already, and was now reported at "
                f"{self._shown(row)} as well; the older place stays. Let it leave one of them (`banyan leave`)",
            )
        step, seen = row, {row.code}
        while step.parent != carrier:
            if step.parent in seen or len(seen) >= MAX_DEPTH:
                raise Conflict(
                    "loop",
                    f"{_zone(row)} was reported at {self._shown(row)}: that leads round, or over {MAX_DEPTH} deep",
                )
            above = self.batch.get(step.parent) or self._before(step.parent)
            if above is None:
                break  # its parent's row is still to come
            seen.add(step.parent)
            step = above

    def _check_named(self, row: Row, entry: Entry) -> None:
        if row.parent not in entry.parents:
            raise Refused(
                "not-named",
                f"{_zone(row)} was reported at {self._shown(row)}, but does not itself name zone "
                f"{code_text(row.parent)} among its parents",
            )

    def _check_key(self, row: Row, entry: Entry) -> None:
        if not self._follows(row, entry.public_key, 0):
            raise Refused(
                "wrong-key",
                f"{_zone(row)} at {self._shown(row)} came with another key than before, and its parent did not vouch "
                "for that; if it was replaced, its parent must report it anew",
            )

    def _follows(self, row: Row, key: bytes, depth: int) -> bool:
        """Whether `key` is the one that the zone of `row` came with, or one for which the same parent vouches."""
        before = self._before(row.code)
        known = _key(before)
        if before is None or known is None or known == key:
            return True
        return before.parent == row.parent and any(
            verify(above, row.signature[SIGNATURE_SIZE:], _vouched(row.entry))
            for above in self._keys(row.parent, depth)
        )

    def _keys(self, code: ZoneCode, depth: int) -> list[bytes]:
        """The keys by which zone `code` may vouch now: the one held, and a new one that follows it in this delta."""
        here = self.batch.get(code)
        keys = [key for key in (_key(here), _key(self._before(code))) if key is not None]
        if code == self.child.code:
            return [key for key in keys if len(key) == PUBLIC_SIZE and fingerprint(key) == self.child.fingerprint]
        if here is None or depth >= MAX_DEPTH:
            return keys[-1:]
        return [key for key in keys if self._follows(here, key, depth + 1)]

    def _newest(self, row: Row, entry: Entry) -> Row:
        """The row with the newer of both entries; a zone that was restored can not take back what it said since."""
        if self.now is not None and entry.issued / 1000 > self.now + FUTURE:
            raise Refused(
                "entry-of-the-future",
                f"{_zone(row)} signed its entry at {iso(entry.issued / 1000)}; check its clock",
            )
        before = self._before(row.code)
        held = _decoded(before)
        if before is None or held is None or before.entry == row.entry:
            return row
        if held.public_key != entry.public_key or entry.issued > held.issued:
            return row
        if entry.issued == held.issued:
            raise Refused("entry-conflict", f"{_zone(row)} signed two entries for one instant: it runs twice")
        if row.code != self.child.code:
            self._check_named(row, held)
        return msgspec.structs.replace(row, entry=before.entry, signature=before.signature)

    def _before(self, code: ZoneCode) -> Row | None:
        row = self.held(code)
        return None if row is None or row.gone else row

    def _shown(self, row: Row) -> str:
        """Where a row claims to be, as a path."""
        known = row.parent == self.child.code or self.via(row.parent) is not None
        return join_path(self.path(row.parent) if known else f"(zone {_code(row.parent)})", row.name)


def _decoded(row: Row | None) -> Entry | None:
    try:
        return None if row is None else _ENTRY(row.entry)
    except ValueError:
        return None


def _key(row: Row | None) -> bytes | None:
    entry = _decoded(row)
    return None if entry is None else entry.public_key


def _vouched(entry: bytes) -> bytes:
    return statement("lineage vouch", entry)


def _check_form(row: Row) -> None:
    check_code(row.code)
    check_code(row.parent)
    check_name(row.name)
    if len(row.labels) > MAX_LABELS:
        raise BadInput("bad-label", f"{_zone(row)} has over {MAX_LABELS} labels")
    for key, value in row.labels.items():
        check_label(key, value)
    words = ((row.state, ChildState), (row.health, Health), (row.admin, Admin))
    for word, known in words:
        if word not in {str(one) for one in known}:
            raise BadInput(
                "bad-row", f"{_zone(row)} is reported as {word[:40]!r}, which is no {known.__name__} known here"
            )
    if not 0 <= row.as_of <= LATEST_MS:
        raise BadInput("bad-row", f"{_zone(row)} was heard at no time that there is ({row.as_of} ms)")


def _zone(row: Row) -> str:
    return f"zone {row.name[:63]!r} ({_code(row.code)})"


def _code(code: int) -> str:
    return code_text(code) if 0 <= code < 1 << 40 else str(code)[:20]
