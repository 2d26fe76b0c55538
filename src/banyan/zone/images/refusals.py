"""How the image service refuses where HTTP has a status of its own for it."""

from __future__ import annotations

from typing import ClassVar

from banyan.core.errors import BadInput, NotFound, Refused


class OverSize(Refused):
    """More data, or more of something, than one image or one project may have."""

    status: ClassVar[int] = 413


class Gone(NotFound):
    """The image was deleted while its data was being sent."""

    status: ClassVar[int] = 410


class SlowData(BadInput):
    """Data that comes too slowly for the place that it keeps."""

    status: ClassVar[int] = 408


class BadRange(BadInput):
    """A part of the data that there is not."""

    status: ClassVar[int] = 416


class Unfit(BadInput):
    """The image, or the data, is not of a kind that this can be done with."""

    status: ClassVar[int] = 415


def no_image(id: str) -> NotFound:
    return NotFound("no-image", f"No image found with ID {id[:255]}")
