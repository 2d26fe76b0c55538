"""A receiver's place in the journal is one row, whole, and goes when it is deleted."""

from __future__ import annotations

from dataclasses import replace

from banyan.core.receiver import ReceiverRow
from banyan.core.time import Wall
from tests.contract.store.conftest import Kept

FRESH = ReceiverRow("pager", 7, "ab" * 32)
BUSY = ReceiverRow(
    "siem",
    2**40,
    "cd" * 32,
    2**40 + 20_000,
    ("child-lost", "server-failed"),
    Wall(1.5),
    True,
    True,
    "it hangs",
    Wall(2.5),
)


def test_a_row_is_kept_whole_and_replaced_by_name(kept: Kept) -> None:
    kept.write(lambda u: [u.receivers.put(row) for row in (BUSY, FRESH)])
    kept.again()
    assert kept.read(lambda u: list(u.receivers.all())) == [FRESH, BUSY]
    assert kept.read(lambda u: u.receivers.get("siem")) == BUSY
    assert kept.read(lambda u: u.receivers.get("SIEM")) is None
    later = replace(BUSY, number=BUSY.upto, upto=0, storms=(), failing_since=None, dead=False)
    kept.write(lambda u: u.receivers.put(later))
    assert kept.read(lambda u: u.receivers.get("siem")) == later


def test_a_row_that_is_deleted_is_gone_and_no_other(kept: Kept) -> None:
    kept.write(lambda u: [u.receivers.put(row) for row in (BUSY, FRESH)])
    kept.write(lambda u: [u.receivers.delete(name) for name in ("siem", "nobody")])
    assert kept.read(lambda u: list(u.receivers.all())) == [FRESH]
