"""Regular expressions that strangers may send: found anywhere in a text, in time that grows with its length only.

Python's `re` tries one way after the other, and `(a+)+$` on a name of 40 letters takes it years. Here all ways are
followed at once (Thompson, Regular Expression Search Algorithm, 1968): sets of states of a nondeterministic automaton,
each set worked out once and kept for all letters that the pattern does not tell apart. What that cannot do is refused
by name: back references, look-around, flags. A text of n letters takes n times the states at most, which is much for
many texts: `Pattern.steps` says what was spent, and whoever matches for strangers ends at a bound of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from banyan.core.errors import BadInput

MAX_PATTERN: Final = 255
# States of the automaton, so that a pattern of single letters has room; `(a{100}){100}` would need 10,000.
MAX_STATES: Final = 300
# Steps between sets of states that are kept, and letters; beyond it all are forgotten and begun anew.
MAX_SETS: Final = 500
MAX_LETTERS: Final = 2_000

_SPECIAL = frozenset("\\^$.|?*+()[]{}")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "v": "\v", "0": "\0"}
Fits = Callable[[str], bool]
# The letter itself, behind a backslash.
_ITSELF = frozenset(" !\"#%&',-/:;<=>@_`~") | _SPECIAL


def _any(char: str) -> bool:
    return char != "\n"


def _word(char: str) -> bool:
    return char.isalnum() or char == "_"


_CLASSES: dict[str, Fits] = {"d": str.isdecimal, "w": _word, "s": str.isspace}


@dataclass(slots=True)
class _State:
    """`char` leads to `to[0]` if it fits; without it `to` is reached at once. `anchor`: "^" or "$" must hold first."""

    char: Fits | None = None
    anchor: str = ""
    to: list[int] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Part:
    """A piece of automaton: where it begins, and the states whose `to` still lacks what comes after."""

    start: int
    ends: tuple[int, ...]


def literal(text: str) -> tuple[str, bool] | None:
    """What stands for itself in a pattern, and whether that is the whole text (`^web-1$`); None if there is more to it.

    So a database can look for it: a name that a pattern is found in contains it, or is it.
    """
    whole = text.startswith("^") and text.endswith("$") and not text.endswith("\\$")
    left, found = text[1:-1] if whole else text, []
    at = 0
    while at < len(left):
        escaped = left[at] == "\\"
        at += escaped
        char = left[at : at + 1]
        if not char or (char not in _ITSELF if escaped else char in _SPECIAL):
            return None
        found.append(char)
        at += 1
    return "".join(found), whole


class Pattern:
    """Raises BadInput("bad-pattern") that names the place. `steps`: states looked at so far, of all texts."""

    def __init__(self, text: str) -> None:
        if len(text) > MAX_PATTERN:
            raise BadInput("bad-pattern", f"a pattern has at most {MAX_PATTERN} characters, got {len(text)}")
        self.steps = 0
        self._literal = literal(text)
        if self._literal is not None:
            return
        parser = _Parser(text)
        part = parser.whole()
        self._states = parser.states
        self._final = parser.add(_State())
        parser.join(part, self._final)
        self._start = part.start
        self._first = self._close((self._start,), at_start=True, at_end=False)
        self._later = self._close((self._start,), at_start=False, at_end=False)
        self._tests = [state.char for state in self._states if state.char is not None]
        # Letters by which tests they pass; those of one kind are the same to the pattern.
        self._kinds: dict[str, bytes] = {}
        self._next: dict[tuple[frozenset[int], bytes], frozenset[int]] = {}

    def found_in(self, text: str) -> bool:
        if self._literal is not None:
            known, whole = self._literal
            return text == known if whole else known in text
        states = self._first
        self.steps += len(text)
        for char in text:
            if self._final in states:
                return True
            key = (states, self._kinds.get(char) or self._kind(char))
            after = self._next.get(key)
            if after is None:
                if len(self._next) >= MAX_SETS:
                    self._next.clear()
                after = self._next[key] = self._step(states, char)
            states = after
        return self._final in states or self._final in self._close(states, at_start=not text, at_end=True)

    def _kind(self, char: str) -> bytes:
        if len(self._kinds) >= MAX_LETTERS:
            self._kinds.clear()
        self.steps += len(self._tests)
        # With a byte before, so that it is never empty.
        kind = self._kinds[char] = bytes([1, *(fits(char) for fits in self._tests)])
        return kind

    def _step(self, states: frozenset[int], char: str) -> frozenset[int]:
        self.steps += 2 * len(states)
        moved = [to for n in states if (s := self._states[n]).char is not None and s.char(char) for to in s.to]
        # A match may begin at any place.
        return self._close(moved, at_start=False, at_end=False) | self._later

    def _close(self, states: Iterable[int], *, at_start: bool, at_end: bool) -> frozenset[int]:
        """These states, and what is reached from them without a character. One that waits for the end stays."""
        found: set[int] = set()
        waiting = list(states)
        while waiting:
            number = waiting.pop()
            if number in found:
                continue
            found.add(number)
            state = self._states[number]
            if state.char is not None or (state.anchor == "^" and not at_start) or (state.anchor == "$" and not at_end):
                continue
            waiting.extend(state.to)
        return frozenset(found)


class _Parser:
    """Alternatives of sequences of repeated pieces, as usual."""

    def __init__(self, text: str) -> None:
        self.states: list[_State] = []
        self._text = text
        self._at = 0
        self._depth = 0

    def add(self, state: _State) -> int:
        if len(self.states) >= MAX_STATES:
            raise self._bad("it is too large; repeat less")
        self.states.append(state)
        return len(self.states) - 1

    def join(self, part: _Part, to: int) -> None:
        for end in part.ends:
            self.states[end].to.append(to)

    def whole(self) -> _Part:
        part = self._alternatives()
        if self._at < len(self._text):
            raise self._bad(f"{self._text[self._at]!r} closes nothing")
        return part

    def _alternatives(self) -> _Part:
        self._depth += 1
        if self._depth > 30:
            raise self._bad("groups are nested too deeply")
        parts = [self._sequence()]
        while self._peek() == "|":
            self._at += 1
            parts.append(self._sequence())
        self._depth -= 1
        if len(parts) == 1:
            return parts[0]
        fork = self.add(_State(to=[part.start for part in parts]))
        return _Part(fork, tuple(end for part in parts for end in part.ends))

    def _sequence(self) -> _Part:
        empty = self.add(_State())
        whole = _Part(empty, (empty,))
        while (char := self._peek()) and char not in "|)":
            piece = self._repeated()
            self.join(whole, piece.start)
            whole = _Part(whole.start, piece.ends)
        return whole

    def _repeated(self) -> _Part:
        begin = self._at
        part = self._one()
        end = self._at
        while (char := self._peek()) and char in "*+?{":
            least, most = self._times()
            part = self._times_of(begin, end, part, least, most)
            if self._peek() == "?":
                # As few as possible: the same texts.
                self._at += 1
            end = self._at
            if self._peek() and self._peek() in "*+{":
                raise self._bad("what is repeated is repeated again; use a group")
        return part

    def _times(self) -> tuple[int, int | None]:
        char = self._text[self._at]
        self._at += 1
        if char != "{":
            return {"*": (0, None), "+": (1, None), "?": (0, 1)}[char]
        close = self._text.find("}", self._at)
        least, comma, most = self._text[self._at : close].partition(",") if close >= 0 else ("", "", "")
        if not least.isdecimal() or (most and not most.isdecimal()) or len(least) > 3 or len(most) > 3:
            raise self._bad("a count is {n}, {n,} or {n,m}, up to 999")
        self._at = close + 1
        last = int(most) if most else None if comma else int(least)
        if last is not None and last < int(least):
            raise self._bad("a count {n,m} rises")
        return int(least), last

    def _times_of(self, begin: int, end: int, part: _Part, least: int, most: int | None) -> _Part:
        """`part`, and copies of it that are parsed anew, so often."""
        after = self._at
        parts = [part]
        while len(parts) < max(least, most or 0, 1):
            self._at = begin
            parts.append(self._one())
            if self._at != end:
                raise self._bad("what is repeated is repeated again; use a group")
        self._at = after
        out = self.add(_State())
        start = out
        for number in range(len(parts) - 1, -1, -1):
            here = parts[number]
            optional = number >= least
            if most is None and number == len(parts) - 1:
                loop = self.add(_State(to=[here.start, out]))
                self.join(here, loop)
                start = loop if optional else here.start
            else:
                self.join(here, start)
                start = self.add(_State(to=[here.start, out])) if optional else here.start
        return _Part(start if most != 0 else out, (out,))

    def _one(self) -> _Part:
        char = self._text[self._at]
        self._at += 1
        if char == "(":
            if self._text.startswith("?:", self._at):
                self._at += 2
            elif self._peek() == "?":
                raise self._bad("only plain groups and (?:…) are known")
            part = self._alternatives()
            if self._peek() != ")":
                raise self._bad("a group is not closed")
            self._at += 1
            return part
        if char in "^$":
            state = self.add(_State(anchor=char))
            return _Part(state, (state,))
        if char in "*+?":
            raise self._bad(f"{char!r} repeats nothing")
        fits = _any if char == "." else self._set() if char == "[" else self._escape() if char == "\\" else _same(char)
        state = self.add(_State(fits))
        return _Part(state, (state,))

    def _escape(self) -> Fits:
        char = self._peek()
        if not char:
            raise self._bad("a backslash is followed by something")
        self._at += 1
        if char in _CLASSES:
            return _CLASSES[char]
        if char.lower() in _CLASSES:
            return _not(_CLASSES[char.lower()])
        if char in _ESCAPES:
            return _same(_ESCAPES[char])
        if char.isalnum():
            raise self._bad(f"\\{char} is not known here")
        return _same(char)

    def _set(self) -> Fits:
        negated = self._peek() == "^"
        self._at += negated
        tests: list[Fits] = []
        first = True
        while (char := self._peek()) != "]" or first:
            if not char:
                raise self._bad("a set [ is not closed")
            first = False
            self._at += 1
            if char == "\\":
                tests.append(self._escape())
            elif self._peek() == "-" and self._text[self._at + 1 : self._at + 2] not in ("]", ""):
                high = self._text[self._at + 1]
                self._at += 2
                if high < char:
                    raise self._bad(f"the range {char}-{high} is empty")
                tests.append(_between(char, high))
            else:
                tests.append(_same(char))
        self._at += 1
        return _not(_either(tests)) if negated else _either(tests)

    def _peek(self) -> str:
        return self._text[self._at : self._at + 1]

    def _bad(self, what: str) -> BadInput:
        return BadInput("bad-pattern", f"{self._text!r} is no pattern that can be matched here: {what} (at {self._at})")


def _same(char: str) -> Fits:
    return lambda other: other == char


def _not(fits: Fits) -> Fits:
    return lambda other: not fits(other)


def _between(low: str, high: str) -> Fits:
    return lambda other: low <= other <= high


def _either(tests: list[Fits]) -> Fits:
    return lambda other: any(fits(other) for fits in tests)
