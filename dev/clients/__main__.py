"""Clients that people have, against a tree of ours whose servers lie two levels down: `python -m dev.clients [CLIENT]`.

Each client gets an environment of its own, made at its first run in ~/.cache/banyan-clients ($BANYAN_CLIENTS for
another place), and runs one scenario. What did not pass is printed, and for each client one line:

    CLIENT VERSION: N steps passed, N failed, N skipped

A client that can not be had on this machine is named, with the reason. Status 1 if anything failed, or nothing ran.
SIGTERM ends it as Ctrl-C does: the client, then the tree.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
from pathlib import Path
from typing import NoReturn

from dev.clients.kinds import CLIENTS, NotToBeHad, Ran
from dev.clients.steps import FAILED, PASSED, summary
from dev.clients.tree import CLOUD, tree
from dev.demo import DemoFailed


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m dev.clients", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "clients", nargs="*", metavar="CLIENT", help=f"one or more of {', '.join(CLIENTS)}; default all"
    )
    parser.add_argument(
        "--clouds", type=Path, help="ask the cloud `top` of this clouds.yaml instead of a tree of its own"
    )
    given = parser.parse_args(arguments)
    unknown = [name for name in given.clients if name not in CLIENTS]
    if unknown:
        parser.error(f"there is no client {unknown[0]!r}; there are {', '.join(CLIENTS)}")
    signal.signal(signal.SIGTERM, ended)
    ready = {}
    for name in given.clients or CLIENTS:
        try:
            ready[name] = CLIENTS[name].prepare()
        except NotToBeHad as reason:
            print(f"{name}: not to be had on this machine: {reason}", flush=True)
    if given.clouds:
        return ask_all(ready, given.clouds.resolve())
    try:
        with tree() as (_, clouds):
            return ask_all(ready, clouds)
    except DemoFailed as error:
        print(f"clients: {error}", file=sys.stderr)
        return 1


def ended(number: int, _: object) -> NoReturn:
    """Once: a second one must not cut off the end of the zones, which have sessions of their own and would stay."""
    signal.signal(number, signal.SIG_IGN)
    sys.exit(128 + number)


def ask_all(ready: dict[str, str], clouds: Path) -> int:
    """Runs each client that is ready, with its version; 1 if a step failed, or none passed."""
    lines, failed, passed = [], 0, 0
    for name, version in ready.items():
        with tempfile.TemporaryDirectory(prefix="banyan-client-") as folder:
            steps = CLIENTS[name].run(Ran(clouds, CLOUD, Path(folder)))
        for one in steps:
            if one.verdict != PASSED:
                print(f"{one.verdict}  {name}: {one.name}: {one.why}", flush=True)
        failed += sum(one.verdict == FAILED for one in steps)
        passed += sum(one.verdict == PASSED for one in steps)
        lines.append(summary(name, version, steps))
        print(lines[-1], flush=True)
    print("\n".join(lines) if len(lines) > 1 else "", flush=True)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
