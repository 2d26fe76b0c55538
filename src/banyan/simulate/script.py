"""The language of plays: what a `*.play` file says, as steps. Parsing only; play.py performs them.

    # The first comment is the title.
    @depth 1 2 3                      the play is run once for each; {parent}, {child} name the lowest pair
    @pace 10                          leases, reports and scans are ten times as long (plays of many days)
    tree 1x10
    cut top/z1
    within 60s zone top/z1 health=lost
    trace
    ----
    00:01:03.000 top  child-lost z1   the output a step must have, up to the next empty line

A step is one line: a verb, then words and key=value settings (quotes as in a shell). The output under
`----` is compared exactly, and rewritten by `python -m banyan.simulate play --rewrite FILE`. Every error
names file and line. docs/contracts/scenarios.md lists the verbs.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass, field, replace
from pathlib import Path

_DURATION = re.compile(r"([+-]?)(\d+(?:\.\d+)?)(ms|s|m|h|d|w)")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0, "w": 604_800.0}
_SETTING = re.compile(r"([A-Za-z_][A-Za-z0-9_.:-]*)(=|!=|>=|<=|~)(.*)", re.DOTALL)
_SEPARATOR = "----"


class ScriptError(Exception):
    """A play that can not be read or did not go as written. `where` is file:line."""

    def __init__(self, where: str, text: str) -> None:
        super().__init__(f"{where}: {text}")
        self.where = where
        self.text = text


@dataclass(frozen=True, slots=True)
class Setting:
    """`key OP value`; settings of verbs use "=" alone, expectations all five."""

    key: str
    op: str
    value: str

    def holds(self, found: object) -> bool:
        """Compares as numbers where both sides are, else as text; None is the text "none"."""
        left, right = _plain(found), self.value
        if self.op in (">=", "<="):
            try:
                a, b = float(left), float(right)
            except ValueError:
                return False
            return a >= b if self.op == ">=" else a <= b
        if self.op == "~":
            return right in left
        return (left == right) == (self.op == "=")

    def __str__(self) -> str:
        return f"{self.key}{self.op}{self.value}"


@dataclass(frozen=True, slots=True)
class Step:
    """One line of a play. `output` is None where none is written below it."""

    where: str
    text: str
    verb: str
    words: tuple[str, ...]
    settings: tuple[Setting, ...] = ()
    output: tuple[str, ...] | None = None

    def setting(self, key: str, default: str | None = None) -> str | None:
        return next((s.value for s in self.settings if s.key == key and s.op == "="), default)

    def word(self, index: int, what: str) -> str:
        if index >= len(self.words):
            raise ScriptError(self.where, f"`{self.verb}` needs {what}")
        return self.words[index]

    def rest(self) -> Step:
        """The step that follows this one's verb in the same line, as in `within 60s zone top …`."""
        if not self.words:
            raise ScriptError(self.where, f"`{self.verb}` needs what it applies to")
        return replace(self, verb=self.words[0], words=self.words[1:])


@dataclass(frozen=True, slots=True)
class Play:
    """A parsed file. `depths` is empty for a play that is run once as it stands."""

    path: Path
    title: str
    steps: tuple[Step, ...]
    depths: tuple[int, ...] = ()
    seed: int = 1
    pace: int = 1
    lines: tuple[str, ...] = field(default=(), repr=False)

    def at(self, depth: int | None) -> Play:
        """With {parent}, {child}, {name} replaced for a lowest zone `depth` levels below the top."""
        if depth is None:
            return self
        parent = "/".join(["top", *(f"m{n}" for n in range(1, depth))])
        names = {"{parent}": parent, "{child}": f"{parent}/east", "{name}": "east", "{depth}": str(depth)}
        return replace(self, steps=tuple(_substituted(step, names) for step in self.steps))


def parse(path: Path, text: str) -> Play:
    """The play in `text`. Raises ScriptError with file:line."""
    lines = tuple(text.splitlines())
    title, seed, pace = "", 1, 1
    depths: tuple[int, ...] = ()
    steps: list[Step] = []
    number = 0
    while number < len(lines):
        line = lines[number].strip()
        where = f"{path}:{number + 1}"
        number += 1
        if not line or line.startswith("#"):
            if line and not title:
                title = line.lstrip("# ")
            continue
        if line.startswith("@"):
            name, _, value = line[1:].partition(" ")
            try:
                numbers = tuple(int(word) for word in value.split())
            except ValueError:
                raise ScriptError(where, f"@{name} takes numbers, got {value!r}") from None
            if name == "depth" and numbers:
                depths = numbers
            elif name == "seed" and len(numbers) == 1:
                seed = numbers[0]
            elif name == "pace" and len(numbers) == 1:
                pace = numbers[0]
            else:
                raise ScriptError(where, f"a directive is `@depth N…`, `@seed N` or `@pace N`, got {line!r}")
            continue
        step = read_step(where, line)
        if number < len(lines) and lines[number].strip() == _SEPARATOR:
            end = number + 1
            while end < len(lines) and lines[end].strip():
                end += 1
            step = replace(step, output=tuple(lines[number + 1 : end]))
            number = end
        steps.append(step)
    if depths and any(step.output is not None for step in steps):
        raise ScriptError(str(path), "a play with @depth has no fixed output: use expectations instead")
    return Play(path, title, tuple(steps), depths, seed, pace, lines)


def rewritten(play: Play, outputs: dict[str, tuple[str, ...]]) -> str:
    """The file's text with the output of each step (by its `where`) as it came now."""
    result: list[str] = []
    number = 0
    while number < len(play.lines):
        where = f"{play.path}:{number + 1}"
        result.append(play.lines[number])
        number += 1
        if number < len(play.lines) and play.lines[number].strip() == _SEPARATOR:
            while number < len(play.lines) and play.lines[number].strip():
                number += 1
        if where in outputs:
            result += [_SEPARATOR, *outputs[where]]
            if number < len(play.lines) and play.lines[number].strip():
                result.append("")
    return "\n".join(result) + "\n"


def duration(text: str, where: str = "") -> float:
    """Seconds of `90s`, `5m`, `1h30m`, `+90d`, `-250ms`. Raises ScriptError."""
    parts = list(_DURATION.finditer(text))
    if not parts or "".join(part.group(0) for part in parts) != text or any(p.group(1) for p in parts[1:]):
        raise ScriptError(where or text, f"a duration is written 90s, 1h30m, -250ms, 2w; got {text!r}")
    total = sum(float(part.group(2)) * _SECONDS[part.group(3)] for part in parts)
    return -total if parts[0].group(1) == "-" else total


def clock_text(seconds: float) -> str:
    """Virtual time as a trace shows it: `3d 04:05:06.789`."""
    milliseconds = round(seconds * 1000)
    days, rest = divmod(milliseconds, 86_400_000)
    hours, rest = divmod(rest, 3_600_000)
    minutes, rest = divmod(rest, 60_000)
    text = f"{hours:02}:{minutes:02}:{rest // 1000:02}.{rest % 1000:03}"
    return f"{days}d {text}" if days else text


def read_step(where: str, line: str) -> Step:
    """One line of a play. Raises ScriptError."""
    try:
        tokens = shlex.split(line, comments=True)
    except ValueError as error:
        raise ScriptError(where, f"{error}: {line!r}") from None
    words: list[str] = []
    settings: list[Setting] = []
    for token in tokens[1:]:
        match = _SETTING.fullmatch(token)
        if match is None:
            words.append(token)
        else:
            settings.append(Setting(*match.groups()))
    return Step(where, line, tokens[0], tuple(words), tuple(settings))


def _substituted(step: Step, names: dict[str, str]) -> Step:
    def fill(text: str) -> str:
        for name, value in names.items():
            text = text.replace(name, value)
        return text

    return replace(
        step,
        text=fill(step.text),
        words=tuple(fill(word) for word in step.words),
        settings=tuple(replace(s, value=fill(s.value)) for s in step.settings),
    )


def _plain(value: object) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)
