"""A start that is refused leaves nothing behind."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from banyan.core.errors import BadInput, Conflict
from banyan.serve.begin import check_start
from banyan.serve.check import listening
from banyan.serve.clock import SystemClock, SystemIds
from banyan.serve.config import Settings, load


def settings(data: Path, **flags: object) -> Settings:
    named = {key.replace("__", "."): value for key, value in flags.items()}
    return load(None, {"data": str(data), "zone.name": "lab", **named})


def start(found: Settings, *, listens: bool = False) -> None:
    check_start(found, None, SystemClock(), SystemIds(), listens=listens)


def test_a_bad_name_of_a_new_zone_leaves_nothing_behind_and_an_ordinary_one_is_good(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="a zone name is"):
        start(settings(tmp_path, zone__name="edge_001"))
    assert not list(tmp_path.iterdir())
    start(settings(tmp_path, zone__name="edge0001"))


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


@pytest.mark.parametrize("link", ["127.0.0.1", "0.0.0.0", "localhost"])
def test_api_and_link_on_one_port_are_refused_by_both_names_before_anything_is_written(
    tmp_path: Path, link: str
) -> None:
    port = free_port()
    same = settings(tmp_path, api__listen=f"127.0.0.1:{port}", link__listen=f"{link}:{port}")
    with pytest.raises(BadInput, match=r"api\.listen .* and link\.listen .* one port"):
        start(same, listens=True)
    assert not all(one.ok for one in listening(same))
    assert not list(tmp_path.iterdir())
    apart = settings(tmp_path, api__listen=f"127.0.0.1:{port}", link__listen=f"{link}:{free_port()}")
    start(apart, listens=True)
    assert all(one.ok for one in listening(apart))


def test_a_port_that_another_process_has_is_not_called_ours(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        at = f"127.0.0.1:{taken.getsockname()[1]}"
        same = settings(tmp_path, api__listen=at, link__listen=at)
        with pytest.raises(Conflict, match="another process listens"):
            start(same, listens=True)
