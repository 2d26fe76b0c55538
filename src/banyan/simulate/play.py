"""Performs a play: each step on one world, invariants after every step, output compared or rewritten.

`perform` is what a test runs, `rewrite` what a person runs after a change that was meant. The verbs are in
verbs.py, what `expect` can look at in expect.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from banyan.core.errors import BanyanError
from banyan.simulate.invariants import Invariants
from banyan.simulate.loop import DeadlockError, LivelockError, OutsideError, OverdueError
from banyan.simulate.script import Play, ScriptError, parse, rewritten
from banyan.simulate.verbs import Stage, run_step
from banyan.simulate.world import World

# How much of the trace an error shows.
TAIL = 25


@dataclass(frozen=True, slots=True)
class Performance:
    """What came of one run: each written or printed output by its step, and the digest of the whole trace."""

    outputs: dict[str, tuple[str, ...]]
    digest: str
    happenings: int
    virtual_seconds: float


def read(path: Path) -> Play:
    """The play in a file. Raises ScriptError."""
    return parse(path, path.read_text(encoding="utf-8"))


def perform(
    play: Play, depth: int | None = None, *, compare: bool = True, say: Callable[[str], None] | None = None
) -> Performance:
    """Runs the play at `depth`. Raises ScriptError naming the step, with the last of the trace.

    `say` hears the logs of all zones.
    """
    acts = play.at(depth)
    with World(seed=play.seed, pace=play.pace, rehearse=play.pace == 1) as world:
        world.say = say
        invariants = Invariants(world)
        stage = Stage(world, invariants)
        outputs: dict[str, tuple[str, ...]] = {}
        for step in acts.steps:
            try:
                output = run_step(stage, step)
                broken = world.failures() + invariants.broken(settled=False)
            except ScriptError as error:
                raise ScriptError(error.where, f"{error.text}{_tail(world)}") from error
            except BanyanError as error:
                raise ScriptError(step.where, f"`{step.text}`: {error.code}: {error.text}{_tail(world)}") from error
            except (DeadlockError, LivelockError, OutsideError, OverdueError) as error:
                raise ScriptError(step.where, f"`{step.text}`: {error}{_tail(world)}") from error
            if broken:
                raise ScriptError(step.where, f"after `{step.text}`: {'; '.join(broken)}{_tail(world)}")
            if output is not None:
                outputs[step.where] = output
            if compare and (output or ()) != (step.output or ()):
                raise ScriptError(step.where, _difference(step.text, step.output, output))
        return Performance(outputs, world.trace.digest, world.trace.count, world.loop.time())


def rewrite(path: Path) -> bool:
    """Runs the play in a file and writes its outputs as they came; True if the file changed."""
    play = read(path)
    before = path.read_text(encoding="utf-8")
    after = rewritten(play, perform(play, compare=False).outputs) if not play.depths else before
    if after != before:
        path.write_text(after, encoding="utf-8")
    return after != before


def _tail(world: World) -> str:
    lines = [f"    {happening}" for happening in world.trace.tail(TAIL)]
    return "\n  the last that happened:\n" + "\n".join(lines) if lines else ""


def _difference(text: str, written: tuple[str, ...] | None, came: tuple[str, ...] | None) -> str:
    if written is None:
        return f"`{text}` has an output but none is written below it; run `python -m banyan.simulate play --rewrite`"
    lines = [f"`{text}` gave another output than is written (- written, + came):"]
    shared = 0
    for a, b in zip(written, came or (), strict=False):
        if a != b:
            break
        shared += 1
    lines += [f"      {line}" for line in written[max(0, shared - 3) : shared]]
    lines += [f"    - {line}" for line in written[shared : shared + 10]]
    lines += [f"    + {line}" for line in (came or ())[shared : shared + 10]]
    return "\n".join(lines)
