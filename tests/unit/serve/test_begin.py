"""A start that is refused leaves nothing behind."""

from __future__ import annotations

from pathlib import Path

import pytest

from banyan.core.errors import BadInput
from banyan.serve.begin import check_start
from banyan.serve.clock import SystemClock, SystemIds
from banyan.serve.config import Settings, load


def settings(data: Path, **flags: object) -> Settings:
    named = {key.replace("__", "."): value for key, value in flags.items()}
    return load(None, {"data": str(data), "zone.name": "lab", **named})


def start(found: Settings, *, listens: bool = False) -> None:
    check_start(found, None, SystemClock(), SystemIds(), listens=listens)


def test_a_new_zone_is_not_called_as_a_code_looks_and_one_that_is_there_starts(tmp_path: Path) -> None:
    named = settings(tmp_path, zone__name="h4kmsy1t")
    with pytest.raises(BadInput, match="reads as the code of a zone"):
        start(named)
    assert not list(tmp_path.iterdir())
    (tmp_path / "banyan.db").touch()
    start(named)
