"""Whose word a session still is, by the row of its child."""

from __future__ import annotations

from dataclasses import replace

import pytest

from banyan.core.errors import Refused
from banyan.core.zone import ChildState
from banyan.zone.live import check_key
from tests.contract.store.test_records import CHILD


@pytest.mark.parametrize("row", [None, replace(CHILD, state=ChildState.RETIRED), replace(CHILD, fingerprint=b"other")])
def test_a_word_of_whoever_lost_its_place_is_refused(row: object) -> None:
    with pytest.raises(Refused) as refused:
        check_key(row, {CHILD.fingerprint})
    assert refused.value.code == "replaced"


def test_a_word_of_whoever_has_its_place_is_taken() -> None:
    check_key(replace(CHILD, state=ChildState.READY), {CHILD.fingerprint, b"newer"})
