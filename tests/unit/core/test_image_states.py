"""What may happen to an image, in each status."""

from __future__ import annotations

import pytest

from banyan.core.errors import Conflict
from banyan.core.image import ImageStatus
from banyan.core.image_states import IMAGE, ImageEvent


@pytest.mark.parametrize("event", list(ImageEvent))
@pytest.mark.parametrize("status", list(ImageStatus))
def test_each_pair_leads_somewhere_or_is_refused_with_what_is_possible(status: ImageStatus, event: ImageEvent) -> None:
    if IMAGE.allows(status, event):
        assert IMAGE.after(status, event) in ImageStatus
        return
    with pytest.raises(Conflict, match=f"image that is {status} cannot take {event}") as refused:
        IMAGE.after(status, event)
    assert refused.value.code == "bad-transition"


def test_an_image_is_active_only_through_its_data() -> None:
    ways = {(move.before, move.event) for move in IMAGE if move.after is ImageStatus.ACTIVE}
    came = {event for before, event in ways if before not in (ImageStatus.ACTIVE, ImageStatus.DEACTIVATED)}
    assert came == {ImageEvent.DONE, ImageEvent.FILL}


def test_whatever_waits_for_data_can_fail() -> None:
    for status in (ImageStatus.SAVING, ImageStatus.UPLOADING, ImageStatus.IMPORTING):
        assert IMAGE.after(status, ImageEvent.FAIL) is ImageStatus.QUEUED
