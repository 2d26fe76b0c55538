"""Who was restored from a backup, or cloned: the child, by its marks; the parent, by its epoch (protocols §8).

A child stores a fresh mark before the session that first sends it, and keeps it until that is acknowledged; a hello
says (last acknowledged, fresh). The parent stores the fresh one when it acknowledges. So of an honest child the
parent holds one of the two. A copy fits as long as nobody has moved on; from then on one of them never fits again.
"""

from __future__ import annotations

from enum import StrEnum

from banyan.core.errors import BadInput, Refused

MARK_SIZE = 16


class MarkVerdict(StrEnum):
    OK = "ok"
    ROLLED_BACK = "rolled-back"


class EpochVerdict(StrEnum):
    OK = "ok"
    PARENT_ROLLED_BACK = "parent-rolled-back"


def judge_marks(*, held: bytes, last: bytes, new: bytes) -> MarkVerdict:
    """`held`: what the parent acknowledged last, b"" since the child was (again) admitted. Raises BadInput("bad-mark").

    A parent that was itself restored must not judge by marks, until each child was heard once.
    """
    if len(new) != MARK_SIZE or len(last) not in (0, MARK_SIZE):
        raise BadInput("bad-mark", f"a mark has {MARK_SIZE} bytes, got {len(last)} and {len(new)}")
    if not held or held in (last, new):
        return MarkVerdict.OK
    return MarkVerdict.ROLLED_BACK


def judge_epoch(*, own: int, seen: int) -> EpochVerdict:
    """At the parent: `seen` is the highest epoch of ours that a child has met."""
    return EpochVerdict.PARENT_ROLLED_BACK if seen > own else EpochVerdict.OK


def check_epoch(*, known: int, granted: int, parent: str) -> None:
    """At the child: raises Refused("old-epoch") if the parent grants less than was granted before."""
    if granted < known:
        raise Refused(
            "old-epoch",
            f"parent {parent} grants epoch {granted}, but epoch {known} was granted before: it was restored from a "
            "backup, or another controller took over; it must take a higher epoch before it is obeyed",
        )
