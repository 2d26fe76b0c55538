"""How a process that serves collects garbage: what it loaded is left alone, what is young is looked at in larger lots.

Nearly all that a request makes is freed as its last name goes; the collector only looks for cycles among what is left.
By Python's own numbers it looks each time that 700 objects more were made than freed, which is every create or two.
"""

from __future__ import annotations

import gc
from typing import Final

# Objects more than were freed, then how many collections of the younger generation for one of the older.
THRESHOLDS: Final = (10_000, 10, 10)


def settle() -> None:
    """To be called once all is loaded. What is there stays: a collection that walks it would hold the loop for longer
    than a heartbeat."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)
