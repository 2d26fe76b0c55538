"""What a client did, step by step. Only the standard library: this is run in the environments of the clients too."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass

PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"
WHY_AT_MOST = 600  # characters of a reason that are kept


@dataclass(frozen=True, slots=True)
class Step:
    """One thing that was asked of the cloud, in the client's words, and how it went; `why` if it did not pass."""

    name: str
    verdict: str
    why: str = ""


class Wrong(Exception):
    """The cloud answered, and the answer is not what the step wants."""


@contextmanager
def step(name: str) -> Iterator[None]:
    """Says how the block went, as a line of JSON on standard output. A failed step does not end the scenario."""
    try:
        yield
    except Exception as error:  # noqa: BLE001 - whatever a client raises is its verdict
        say(Step(name, FAILED, f"{type(error).__name__}: {error}"[:WHY_AT_MOST]))
    else:
        say(Step(name, PASSED))


def say(one: Step) -> None:
    print(json.dumps(asdict(one)), flush=True)


def want(holds: object, told: object) -> None:
    """Raises Wrong with what was told unless something holds."""
    if not holds:
        raise Wrong(f"not as wanted: {told}")


def heard(text: str) -> list[Step]:
    """The steps that a scenario said; lines that are none are passed on to standard error."""
    found = []
    for line in text.splitlines():
        try:
            told = json.loads(line)
            found.append(Step(str(told["name"]), told["verdict"], told["why"]))
        except (ValueError, KeyError, TypeError):
            print(line, file=sys.stderr)
    return found


def summary(client: str, version: str, steps: Sequence[Step]) -> str:
    """The one line of a client."""
    count = Counter(one.verdict for one in steps)
    return f"{client} {version}: {count[PASSED]} steps passed, {count[FAILED]} failed, {count[SKIPPED]} skipped"
