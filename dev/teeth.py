"""Plants known faults, one at a time, and sees the tests go red: `python dev/teeth.py [--seen-green] [NAME ...]`.

Each tests/teeth/NAME.patch begins with two lines, then a unified diff from the root of the tree:

    # fault: what a careless change would do
    # tests: tests/unit/room/test_it.py -k the_one_that_guards_it

The files of tests that are named run once in a scratch copy of the tree as it is: they must be green; a single test
that is named (`tests/scenario/test_plays.py::test_play[join]`) runs without the rest of its file; `--seen-green` leaves
this out, for a tree whose whole suite was just seen green. Then each fault is
applied to a copy and its tests run: red is a kill, green a survivor. Survivors, patches that no longer apply, and
tests that do not run at all end with status 1.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue

ROOT = Path(__file__).resolve().parent.parent
PATCHES = ROOT / "tests" / "teeth"
PARALLEL = int(os.environ.get("BANYAN_TEETH_PARALLEL", "2"))
TIMEOUT = 300.0
BASELINE_TIMEOUT = 3600.0

KILLED = "killed"


@dataclass(frozen=True, slots=True)
class Fault:
    name: str
    says: str
    tests: tuple[str, ...]
    path: Path

    @property
    def files(self) -> tuple[str, ...]:
        """The files (or folders) of tests, without what selects in them."""
        return tuple(argument.partition("::")[0] for argument in self.named)

    @property
    def named(self) -> tuple[str, ...]:
        """Files, folders and single tests, as they are named."""
        return tuple(argument for argument in self.tests if argument.startswith("tests/"))


def read(path: Path) -> Fault:
    """Raises ValueError if the two header lines are not there."""
    header = {}
    for line in path.read_text(encoding="utf-8").splitlines()[:2]:
        key, _, value = line.removeprefix("# ").partition(": ")
        header[key] = value.strip()
    if not header.get("fault") or not header.get("tests"):
        raise ValueError(f"{path.name}: the first two lines are `# fault: …` and `# tests: …`")
    return Fault(path.stem, header["fault"], tuple(shlex.split(header["tests"])), path)


def copy_tree(target: Path) -> None:
    """The tracked and the new files as they are now; nothing that is ignored."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    for name in set(listed.stdout.decode().split("\0")) - {""}:
        source = ROOT / name
        if source.is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target / name)


def apply(tree: Path, fault: Fault, *flags: str) -> str:
    """Applies the patch; the error text if it does not fit."""
    # The copy may lie below some other repository, in which git would look for the files.
    environment = {**os.environ, "GIT_CEILING_DIRECTORIES": str(tree.parent)}
    done = subprocess.run(
        ["git", "apply", "--recount", *flags, str(fault.path)],
        cwd=tree,
        env=environment,
        check=False,
        capture_output=True,
        text=True,
    )
    return "" if done.returncode == 0 else done.stderr.strip() or f"git apply ended with {done.returncode}"


def compile_tree(tree: Path) -> None:
    """Byte code that is believed by its source's hash: a fault of equal length within the same second is still seen."""
    command = [sys.executable, "-m", "compileall", "-q", "--invalidation-mode", "checked-hash", str(tree / "src")]
    subprocess.run(command, check=True, capture_output=True)


def run(
    tree: Path, tests: Sequence[str], flags: Sequence[str] = ("-x",), timeout: float = TIMEOUT
) -> tuple[int | None, str]:
    """(pytest's exit status or None when it took too long, what it printed)."""
    # No byte code is written but by compile_tree: what a fault made would be found by the next one.
    environment = {**os.environ, "PYTHONPATH": str(tree / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *flags, *tests]
    try:
        done = subprocess.run(
            command, cwd=tree, env=environment, check=False, capture_output=True, text=True, timeout=timeout
        )
    except subprocess.TimeoutExpired:
        return None, ""
    return done.returncode, done.stdout + done.stderr


def judge(tree: Path, fault: Fault) -> str:
    """`killed`, or what is wrong with the tests or with the patch."""
    stale = apply(tree, fault)
    if stale:
        return f"stale: {stale}"
    try:
        status, output = run(tree, fault.tests)
    finally:
        apply(tree, fault, "--reverse")
    match status:
        case 1:
            return KILLED
        case 0:
            return "survived"
        case None:
            return f"hung for {TIMEOUT:g} s: name a narrower test"
        case _:
            return f"its tests did not run (status {status}):\n{output[-1500:]}"


def main(arguments: list[str]) -> int:
    seen_green = "--seen-green" in arguments
    wanted = [argument.removesuffix(".patch") for argument in arguments if argument != "--seen-green"]
    faults = [read(path) for path in sorted(PATCHES.glob("*.patch")) if not wanted or path.stem in wanted]
    unknown = set(wanted) - {fault.name for fault in faults}
    if unknown or not faults:
        print(f"teeth: no such fault: {', '.join(sorted(unknown)) or PATCHES}", file=sys.stderr)
        return 1
    begin = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="banyan-teeth-") as scratch:
        trees: SimpleQueue[Path] = SimpleQueue()
        for number in range(min(PARALLEL, len(faults))):
            tree = Path(scratch) / str(number)
            copy_tree(tree)
            compile_tree(tree)
            trees.put(tree)

        def turn(fault: Fault) -> tuple[Fault, str]:
            tree = trees.get()
            try:
                return fault, judge(tree, fault)
            finally:
                trees.put(tree)

        # What files stand on within themselves stays in one process, as in `make test`.
        beside = ("-n", str(PARALLEL), "--dist", "loadfile") if PARALLEL > 1 and len(faults) > 1 else ()
        every = sorted({name for fault in faults for name in fault.named})
        status: int | None = 0
        output = ""
        if not seen_green:
            tree = trees.get()
            status, output = run(tree, every, beside, BASELINE_TIMEOUT)
            trees.put(tree)
        if status != 0:
            print(f"teeth: the tests are not green without any fault (status {status}):\n{output[-3000:]}")
            return 1
        bad = 0
        with ThreadPoolExecutor(PARALLEL) as pool:
            for fault, verdict in pool.map(turn, faults):
                bad += verdict != KILLED
                print(f"{'ok ' if verdict == KILLED else 'BAD'} {fault.name}: {fault.says}: {verdict}", flush=True)
    print(f"teeth: {len(faults)} faults, {len(faults) - bad} killed, {bad} not, {time.monotonic() - begin:.0f} s")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
