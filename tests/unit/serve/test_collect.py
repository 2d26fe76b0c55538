"""Garbage is collected in lots, and what was loaded is left alone."""

from __future__ import annotations

import gc

from banyan.serve.collect import THRESHOLDS, settle


def test_what_is_loaded_is_frozen_and_what_is_young_is_gathered() -> None:
    before = gc.get_threshold()
    try:
        settle()
        assert gc.get_threshold() == THRESHOLDS and gc.get_freeze_count() > 1_000
    finally:
        gc.unfreeze()
        gc.set_threshold(*before)
