"""How much each child has its parent remember of the zones below it: bytes and racks, a few numbers for each zone.

One zone may have a thousand racks and a large entry, and a child may report a hundred thousand zones: each within its
bounds, all of them together would be more than a machine has. Fed by the roster as lineage rows come and go.
"""

from __future__ import annotations

from collections.abc import Collection

from banyan.core.ids import ZoneCode
from banyan.core.lineage import Entry, Row
from banyan.core.reading import msgpack_reader

_ENTRY = msgpack_reader(Entry)


class Weights:
    def __init__(self) -> None:
        # Of each child, of each zone that it reports: bytes times SHIFT, and racks.
        self._rows: dict[ZoneCode, dict[ZoneCode, int]] = {}
        self._sums: dict[ZoneCode, int] = {}

    def after(self, child: ZoneCode, put: Collection[Row], drop: Collection[ZoneCode]) -> tuple[int, int]:
        """Bytes and racks of all that the child reports, once these rows were put, and those zones dropped."""
        held = self._rows.get(child, {})
        total = self._sums.get(child, 0) - sum(held.get(code, 0) for code in {*drop, *(row.code for row in put)})
        return divmod(total + sum(map(weight, put)), _SHIFT)

    def keep(self, child: ZoneCode, put: Collection[Row], drop: Collection[ZoneCode]) -> None:
        held = self._rows.setdefault(child, {})
        total = self._sums.get(child, 0)
        for code in drop:
            total -= held.pop(code, 0)
        for row in put:
            heavy = weight(row)
            total += heavy - held.get(row.code, 0)
            held[row.code] = heavy
        self._sums[child] = total
        if not held:
            self.leave(child)

    def leave(self, child: ZoneCode) -> None:
        self._rows.pop(child, None)
        self._sums.pop(child, None)


# More racks than all children together may have.
_SHIFT = 1 << 40


def weight(row: Row) -> int:
    texts = sum(len(key) + len(value) for key, value in row.labels.items()) + len(row.name) + len(row.reason)
    try:
        racks = len(entry_of(row).racks)
    except ValueError:
        racks = 0  # such a row is refused before it is kept
    return (len(row.entry) + len(row.signature) + texts) * _SHIFT + racks


def entry_of(row: Row) -> Entry:
    """The signed entry in a row. Raises ValueError."""
    return _ENTRY(row.entry)
