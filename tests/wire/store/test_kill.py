"""SIGKILL at any moment: what was acknowledged is there, the store opens again, and the folder is free."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from banyan.core.errors import Conflict
from tests.contract.store.conftest import Run, opened


def start(data: Path, location: str | None, *more: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "tests.wire.store.writer", str(data), location or "-", *more]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def acknowledged(process: subprocess.Popen[bytes]) -> set[int]:
    """Kills nothing itself: reads what the process said until its pipe ended."""
    out, error = process.communicate(timeout=60)
    assert process.returncode == -signal.SIGKILL, error.decode()
    return {int(line) for line in out.split() if line.isdigit()}


def kept(run: Run, data: Path, location: str | None) -> set[int]:
    store = opened(data, location)
    try:
        return {child.code for child in run(store.read(lambda u: u.children.page(None, 10_000)))}
    finally:
        run(store.close())


@pytest.fixture(params=["sqlite", "postgresql"])
def where(request: pytest.FixtureRequest) -> str | None:
    if request.param == "sqlite":
        return None
    url: str = request.getfixturevalue("server").new_database()
    return url


def test_every_acknowledged_write_survives_sigkill(run: Run, tmp_path: Path, where: str | None) -> None:
    data = tmp_path / "zone"
    known: set[int] = set()
    for wait_for in (5, 60, 17):
        process = start(data, where)
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(wait_for)]
        process.kill()
        known |= {int(line) for line in lines if line.strip().isdigit()} | acknowledged(process)
        found = kept(run, data, where)
        assert known <= found, "an acknowledged write is lost"
        # A batch that was committed, but not yet answered, may be there as well; no more than that.
        assert len(found - known) <= 8 * 3
    assert len(known) >= 60


@pytest.mark.parametrize(("phase", "there"), [("before", False), ("after", True)])
def test_killed_at_either_side_of_a_commit(
    run: Run, tmp_path: Path, where: str | None, phase: str, there: bool
) -> None:
    data = tmp_path / "zone"
    said = acknowledged(start(data, where, phase, "unit-20"))
    found = kept(run, data, where)
    assert 20 not in said, "nobody is answered before COMMIT returned, nor by a dead process"
    assert said <= found
    assert (20 in found) is there


def test_one_process_per_folder_and_its_death_frees_it(run: Run, tmp_path: Path) -> None:
    data = tmp_path / "zone"
    process = start(data, None)
    assert process.stdout is not None
    assert process.stdout.readline() == b"open\n"
    with pytest.raises(Conflict, match=rf"in use by process {process.pid}") as refused:
        opened(data)
    assert refused.value.code == "folder-in-use"
    process.kill()
    acknowledged(process)
    run(opened(data).close())


def test_a_second_store_of_one_process_is_refused_as_well(run: Run, tmp_path: Path) -> None:
    store = opened(tmp_path / "zone")
    with pytest.raises(Conflict, match=str(os.getpid())):
        opened(tmp_path / "zone")
    run(store.close())
    run(opened(tmp_path / "zone").close())


def test_files_and_folder_are_private(run: Run, tmp_path: Path) -> None:
    data = tmp_path / "a" / "zone"
    store = opened(data)
    run(store.write("x", lambda u: u.uplinks.next_id()))
    modes = {path.name: path.stat().st_mode & 0o777 for path in (data, *data.iterdir())}
    run(store.close())
    assert modes == {
        "zone": 0o700,
        "lock": 0o600,
        "seal.key": 0o600,
        "banyan.db": 0o600,
        "banyan.db-wal": 0o600,
        "banyan.db-shm": 0o600,
    }


def test_a_folder_that_stood_open_is_closed_to_others(run: Run, tmp_path: Path) -> None:
    data = tmp_path / "zone"
    data.mkdir(mode=0o755)
    run(opened(data).close())
    assert data.stat().st_mode & 0o777 == 0o700
