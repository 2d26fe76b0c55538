"""Same seed, same trace: in one process, in two, and whatever the interpreter's hash seed; and no thread, no socket."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

from banyan.simulate import chaos
from banyan.simulate.play import perform, read

PLAYS = Path(__file__).parent / "plays"
COMMANDS = (
    ["play", str(PLAYS / "join.play"), str(PLAYS / "cut_and_heal.play")],
    ["chaos", "--seed", "11", "--zones", "3", "--hours", "0.15"],
)


def output(arguments: list[str], hash_seed: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "banyan.simulate", *arguments],
        env={"PYTHONHASHSEED": hash_seed, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    return done.stdout


def test_two_hash_seeds_give_the_same_trace() -> None:
    for arguments in COMMANDS:
        first, second = (output(arguments, seed) for seed in ("1", "4242"))
        assert first == second
        assert "happenings" in first


def test_two_runs_in_one_process_give_the_same_trace() -> None:
    play = read(PLAYS / "subtree_lost.play")
    assert perform(play).digest == perform(play).digest


def test_another_seed_gives_another_trace() -> None:
    first, second = (chaos.run(chaos.Plan(seed, zones=2, hours=0.1)) for seed in (1, 2))
    assert first.digest != second.digest


def test_a_world_uses_no_thread_and_no_file() -> None:
    before = (threading.active_count(), len(os.listdir("/proc/self/fd")))
    perform(read(PLAYS / "restart_everything.play"))
    assert (threading.active_count(), len(os.listdir("/proc/self/fd"))) == before
