"""`python -m banyan.simulate`: perform or rewrite plays, run chaos from a seed, probe how much a large world costs."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from banyan.simulate import chaos, play
from banyan.simulate.probe import probe
from banyan.simulate.script import ScriptError


def main(arguments: list[str] | None = None) -> int:
    """The exit status: 0 when all held, 1 when something broke, 2 for a wrong call."""
    parser = argparse.ArgumentParser(prog="python -m banyan.simulate", description=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True)
    plays = verbs.add_parser("play", help="perform plays; --rewrite writes their outputs as they come now")
    plays.add_argument("files", nargs="+", type=Path)
    plays.add_argument("--rewrite", action="store_true")
    plays.add_argument("--log", action="store_true", help="show what the zones log, on standard error")
    storm = verbs.add_parser("chaos", help="random faults from a seed, or from `--seeds` of them")
    storm.add_argument("--seed", type=int, default=1)
    storm.add_argument("--seeds", type=int, default=1, help="how many, from --seed on")
    storm.add_argument("--zones", type=int, default=8)
    storm.add_argument("--hours", type=float, default=2.0)
    storm.add_argument("--depth", type=int, default=3)
    storm.add_argument("--hosts", type=int, default=4)
    storm.add_argument("--keep", type=Path, help="write the lines of the (last) run here, as a play")
    cost = verbs.add_parser("probe", help="memory and CPU time of a world of many zones per virtual hour")
    cost.add_argument("--zones", type=int, default=1000)
    cost.add_argument("--hours", type=float, default=1.0)
    chosen = parser.parse_args(arguments)
    match chosen.verb:
        case "play":
            return _plays(chosen.files, rewrite=chosen.rewrite, log=chosen.log)
        case "chaos":
            return _chaos(chosen)
        case _:
            print(probe(chosen.zones, chosen.hours))
            return 0


def _plays(files: list[Path], *, rewrite: bool, log: bool) -> int:
    status = 0
    for path in files:
        try:
            if rewrite:
                print(f"{path}: {'rewritten' if play.rewrite(path) else 'unchanged'}")
                continue
            read = play.read(path)
            for depth in read.depths or (None,):
                done = play.perform(read, depth, say=_to_stderr if log else None)
                at = "" if depth is None else f" at depth {depth}"
                print(
                    f"{path}{at}: {done.happenings} happenings in {done.virtual_seconds:.0f} virtual s, {done.digest}"
                )
        except ScriptError as error:
            print(error, file=sys.stderr)
            status = 1
    return status


def _to_stderr(line: str) -> None:
    print(line, file=sys.stderr)


def _chaos(chosen: argparse.Namespace) -> int:
    status = 0
    for seed in range(chosen.seed, chosen.seed + chosen.seeds):
        outcome = chaos.run(chaos.Plan(seed, chosen.zones, chosen.hours, chosen.depth, chosen.hosts))
        if chosen.keep:
            lines = [f"# Chaos of seed {seed}.", f"@seed {seed}", "", *outcome.play]
            chosen.keep.write_text("\n".join(lines) + "\n", encoding="utf-8")
        if outcome.broken:
            print(outcome.report(), file=sys.stderr)
            status = 1
        else:
            print(
                f"seed {seed}: {len(outcome.play)} steps, {outcome.happenings} happenings, "
                f"settled {outcome.settled_in:.0f} s after the storm, {outcome.digest}"
            )
    return status


if __name__ == "__main__":
    sys.exit(main())
