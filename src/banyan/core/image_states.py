"""What may happen to an image in which status, and where it leads: a table and nothing else."""

from __future__ import annotations

from enum import StrEnum

from banyan.core.image import ImageStatus
from banyan.core.transitions import Move, Table


class ImageEvent(StrEnum):
    UPLOAD = "upload"
    STAGE = "stage"
    STAGED = "staged"
    IMPORT = "import"
    DONE = "done"
    FAIL = "fail"
    FILL = "fill"
    DEACTIVATE = "deactivate"
    REACTIVATE = "reactivate"


_S, _E = ImageStatus, ImageEvent

IMAGE: Table[ImageStatus, ImageEvent] = Table(
    "image",
    ImageStatus,
    ImageEvent,
    (
        Move(_S.QUEUED, _E.UPLOAD, _S.SAVING, "its data is being sent"),
        Move(_S.QUEUED, _E.STAGE, _S.UPLOADING, "its data is being sent, to be imported later"),
        Move(_S.UPLOADING, _E.STAGED, _S.UPLOADING, "its data is on the disk, and may be imported"),
        Move(_S.UPLOADING, _E.IMPORT, _S.IMPORTING, "what was staged becomes its data"),
        Move(_S.QUEUED, _E.IMPORT, _S.IMPORTING, "its data is fetched from an address"),
        Move(_S.SAVING, _E.DONE, _S.ACTIVE, "its data is on the disk"),
        Move(_S.IMPORTING, _E.DONE, _S.ACTIVE, "its data is on the disk"),
        Move(_S.SAVING, _E.FAIL, _S.QUEUED, "what came of its data was thrown away"),
        Move(_S.UPLOADING, _E.FAIL, _S.QUEUED, "what came of its data was thrown away"),
        Move(_S.IMPORTING, _E.FAIL, _S.QUEUED, "what came of its data was thrown away"),
        Move(_S.QUEUED, _E.FAIL, _S.QUEUED, "nothing had come"),
        Move(_S.QUEUED, _E.FILL, _S.ACTIVE, "a server's disk was kept as this image"),
        Move(_S.ACTIVE, _E.FILL, _S.ACTIVE, "it was filled before"),
        Move(_S.ACTIVE, _E.DEACTIVATE, _S.DEACTIVATED, "nobody but an admin gets its data"),
        Move(_S.DEACTIVATED, _E.DEACTIVATE, _S.DEACTIVATED, "it was before"),
        Move(_S.DEACTIVATED, _E.REACTIVATE, _S.ACTIVE, "its data may be had again"),
        Move(_S.ACTIVE, _E.REACTIVATE, _S.ACTIVE, "it could be had before"),
    ),
)
