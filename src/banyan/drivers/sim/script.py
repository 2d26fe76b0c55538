"""What happens to a simulated rack, and when: a schedule of steps, and the rack's condition at an instant. Pure.

Seconds count from when the driver was made. A step holds from `at` on; a later step about the same thing
replaces it. In TOML:

    [[rack.options.script]]
    at = 60
    do = "down"
    hosts = "1-20,33"
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import msgspec

MAX_STEPS = 200

# A host number is at most seven digits, so that a range is checked before it is believed.
_MAX_NUMBER = 9_999_999


class _Step(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="do"):
    at: float


class Down(_Step, frozen=True, tag="down"):
    """These hosts stop answering their control. `hosts` are numbers from 1, as in "1-20,33"; "*" is all."""

    hosts: str = "*"


class Up(_Step, frozen=True, tag="up"):
    """These hosts answer again."""

    hosts: str = "*"


class Disable(_Step, frozen=True, tag="disable"):
    """Somebody takes these hosts out of service at the bottom."""

    hosts: str = "*"
    reason: str = "disabled by the script"


class Enable(_Step, frozen=True, tag="enable"):
    """These hosts are in service again."""

    hosts: str = "*"


class Fail(_Step, frozen=True, tag="fail"):
    """The rack's own control fails: probes say so, scans break off after that many batches."""

    reason: str = "the script says that the bottom fails"
    after_batches: int = 0


class Recover(_Step, frozen=True, tag="recover"):
    """The control answers again."""


class Slow(_Step, frozen=True, tag="slow"):
    """Each request takes this many seconds from now on."""

    latency: float


class Grow(_Step, frozen=True, tag="grow"):
    """That many further hosts appear, empty."""

    hosts: int


class Fill(_Step, frozen=True, tag="fill"):
    """The rack holds this many guests from now on."""

    guests: int


class Churn(_Step, frozen=True, tag="churn"):
    """That many guests per second are deleted and made anew from now on."""

    rate: float


class FailBuilds(_Step, frozen=True, tag="fail_builds"):
    """Builds on these hosts fail from now on: with this chance, and every so-manieth (0: not by number)."""

    hosts: str = "*"
    chance: float = 0.0
    every: int = 0
    reason: str = "the script says that this build fails"


class PassBuilds(_Step, frozen=True, tag="pass_builds"):
    """Builds go well again."""


class SlowBuilds(_Step, frozen=True, tag="slow_builds"):
    """Each build takes this many seconds from now on."""

    seconds: float


Step = Down | Up | Disable | Enable | Fail | Recover | Slow | Grow | Fill | Churn | FailBuilds | PassBuilds | SlowBuilds


def check_script(steps: Sequence[Step]) -> None:
    """Raises ValueError naming the step that is wrong."""
    if len(steps) > MAX_STEPS:
        raise ValueError(f"a script has at most {MAX_STEPS} steps, got {len(steps)}")
    before = 0.0
    for number, step in enumerate(steps, 1):
        if not before <= step.at < 1e9:
            raise ValueError(f"script step {number}: steps come in order of `at`, 0 or later; got {step.at:g}")
        before = step.at
        try:
            _check_step(step)
        except ValueError as error:
            raise ValueError(f"script step {number} at {step.at:g} s: {error}") from error


def _check_step(step: Step) -> None:
    match step:
        case Down() | Up() | Disable() | Enable():
            parse_hosts(step.hosts)
        case Fail(after_batches=value) | Grow(hosts=value) | Fill(guests=value):
            if not 0 <= value <= 60_000_000:
                raise ValueError(f"a count is from 0 to 60,000,000, got {value}")
        case FailBuilds(chance=chance, every=every):
            parse_hosts(step.hosts)
            if not 0 <= chance <= 1 or not 0 <= every <= 1_000_000:
                raise ValueError(f"a chance is from 0 to 1, every from 0 to 1,000,000; got {chance:g} and {every}")
        case Slow(latency=value) | Churn(rate=value) | SlowBuilds(seconds=value):
            if not 0 <= value <= 100_000:
                raise ValueError(f"seconds or a rate are from 0 to 100,000, got {value:g}")
        case Recover() | PassBuilds():
            pass


def parse_hosts(text: str) -> tuple[tuple[int, int], ...]:
    """The inclusive ranges of "1-20,33"; "*" is every host. Raises ValueError."""
    if text == "*":
        return ((1, _MAX_NUMBER),)
    ranges = []
    for part in text.split(","):
        first, dash, last = (piece.strip() for piece in part.partition("-"))
        if not first.isdecimal() or (dash and not last.isdecimal()) or len(first) > 7 or len(last) > 7:
            raise ValueError(f'hosts are "*" or numbers from 1 such as "1-20,33", got {text[:60]!r}')
        low, high = int(first), int(last or first)
        if not 1 <= low <= high:
            raise ValueError(f"a range of hosts rises and starts at 1 or more, got {part.strip()!r}")
        ranges.append((low, high))
    return tuple(ranges)


@dataclass(frozen=True, slots=True)
class Segment:
    """A stretch of steady churn: from `start` on, guests are replaced `rate` times a second."""

    start: float
    rate: float


@dataclass(frozen=True, slots=True)
class Condition:
    """A simulated rack at one instant. `marks`: the steps about single hosts that apply, in order, with ranges.

    `build_seconds` None: as the options say.
    """

    elapsed: float
    hosts: int
    guests: int
    latency: float
    churned: int
    segments: tuple[Segment, ...]
    failure: Fail | None
    marks: tuple[tuple[Down | Up | Disable | Enable, tuple[tuple[int, int], ...]], ...]
    fails: FailBuilds | None = None
    build_seconds: float | None = None

    def host(self, number: int) -> tuple[bool, str]:
        """(up, why it is disabled, or "" if it is not) of host `number`, counted from 1."""
        up, disabled = True, ""
        for step, ranges in self.marks:
            if any(low <= number <= high for low, high in ranges):
                match step:
                    case Down():
                        up = False
                    case Up():
                        up = True
                    case Disable(reason=reason):
                        disabled = reason or "disabled"
                    case Enable():
                        disabled = ""
        return up, disabled

    def build_fails(self, number: int, built: int, draw: float) -> str:
        """Why a build on host `number`, counted from 1, fails; "" if it does not. `built`: which build of the rack it
        is, from 1; `draw` in [0, 1)."""
        step = self.fails
        if step is None or not any(low <= number <= high for low, high in parse_hosts(step.hosts)):
            return ""
        by_number = step.every > 0 and built % step.every == 0
        return step.reason if by_number or draw < step.chance else ""

    def replaced_at(self, event: int) -> float:
        """When the replacement number `event` (from 0) happened, in seconds of the script."""
        done = 0.0
        for index, segment in enumerate(self.segments):
            end = self.segments[index + 1].start if index + 1 < len(self.segments) else self.elapsed
            made = segment.rate * (end - segment.start)
            if segment.rate and done + made >= event + 1:
                return segment.start + (event + 1 - done) / segment.rate
            done += made
        return self.elapsed


def condition(
    steps: Iterable[Step], *, elapsed: float, hosts: int, guests: int, churn: float, latency: float
) -> Condition:
    """What the rack is like `elapsed` seconds after its driver was made; the other values are what it starts with."""
    failure: Fail | None = None
    marks: list[tuple[Down | Up | Disable | Enable, tuple[tuple[int, int], ...]]] = []
    segments = [Segment(0.0, churn)]
    fails: FailBuilds | None = None
    build_seconds: float | None = None
    for step in steps:
        if step.at > elapsed:
            break
        match step:
            case Down() | Up() | Disable() | Enable():
                marks.append((step, parse_hosts(step.hosts)))
            case Fail():
                failure = step
            case Recover():
                failure = None
            case Slow():
                latency = step.latency
            case Grow():
                hosts += step.hosts
            case Fill():
                guests = step.guests
            case Churn():
                segments.append(Segment(step.at, step.rate))
            case FailBuilds():
                fails = step
            case PassBuilds():
                fails = None
            case SlowBuilds():
                build_seconds = step.seconds
    ends = [segment.start for segment in segments[1:]] + [elapsed]
    churned = sum(segment.rate * (end - segment.start) for segment, end in zip(segments, ends, strict=True))
    return Condition(
        elapsed,
        hosts,
        guests,
        latency,
        int(churned + 1e-9),
        tuple(segments),
        failure,
        tuple(marks),
        fails,
        build_seconds,
    )
