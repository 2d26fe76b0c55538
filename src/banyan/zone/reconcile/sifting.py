"""What a child reports of the zones below it: which rows are stored, which are refused, and what goes along with those.

Pages come one by one, so a zone may be here before what is above it. When that turns out to be another child's, the
zone goes, and all below it: it is refused afterwards, as it would have been had it come later.
"""

from __future__ import annotations

from collections.abc import Collection, KeysView

import msgspec

from banyan.core.errors import Refused
from banyan.core.ids import ZoneCode, code_text
from banyan.core.lineage import Row
from banyan.core.text import shown
from banyan.core.zone import Child
from banyan.trust.lineage import RefusedRow, Sifted, sift_rows
from banyan.zone.inbox import RowsStep
from banyan.zone.own import Own
from banyan.zone.roster import Roster
from banyan.zone.tree import Tree
from banyan.zone.two_carriers import astray


def sift_step(
    step: RowsStep[ZoneCode, Row],
    child: Child,
    own: Own,
    ancestors: Collection[ZoneCode],
    roster: Roster,
    tree: Tree,
) -> tuple[Sifted, KeysView[ZoneCode]]:
    """The rows of `step`, sorted, and which zones are dropped: those of the step, and what is not this child's."""
    sifted = sift_rows(
        step.put,
        child=child,
        own=own.code,
        ancestors=ancestors,
        held=roster.known_row,
        via=roster.carrier,
        path=tree.path_of,
        now=own.wall(),
    )
    kept = {row.code: msgspec.structs.replace(row, reason=shown(row.reason, 500)) for row in sifted.kept}
    # Looked for only where something was refused: a look costs as many steps as the child has zones.
    gone = astray(tree, roster.carrier, child.code) if sifted.refused else {}
    refused = [*sifted.refused, *(_below_refused(row) for code in gone if (row := roster.known_row(code)) is not None)]
    bad = set(gone)
    while bad:
        bad = {row.code for row in kept.values() if row.code in bad or row.parent in bad}
        refused += [_below_refused(row) for code in bad if (row := kept.pop(code)).code not in gone]
    return Sifted(tuple(kept.values()), tuple(refused)), dict.fromkeys((*step.drop, *gone)).keys()


def _below_refused(row: Row) -> RefusedRow:
    where = f"zone {row.name!r} ({code_text(row.code)}) lies below a zone that was refused ({code_text(row.parent)})"
    return RefusedRow(row, Refused("parent-refused", where))
