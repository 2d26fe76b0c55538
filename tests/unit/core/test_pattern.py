"""Patterns of strangers: what Python's own would find, in bounded time, and refusals that say what is wrong."""

from __future__ import annotations

import random
import re
from time import perf_counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from banyan.core.errors import BadInput
from banyan.core.pattern import MAX_PATTERN, MAX_STATES, Pattern, literal

# What the judge takes for one way of writing a pattern and we for another is left out: it is few.
ATOMS = ["a", "b", "ab", ".", "[ab]", "[^a]", "[a-c]", "\\.", "\\d", "\\w", "\\S", "^", "$", "(a|b)", "(?:ab|c)", "-"]
TIMES = ["", "", "", "*", "+", "?", "{2}", "{1,2}", "{0,1}", "{2,}", "*?", "{0}"]


@st.composite
def patterns(draw: st.DrawFn, depth: int = 2) -> str:
    parts = []
    for _ in range(draw(st.integers(1, 4))):
        atom = draw(st.sampled_from(ATOMS))
        if depth and draw(st.booleans()):
            atom = f"({draw(patterns(depth=depth - 1))})"
        parts.append(atom if atom in ("^", "$") else atom + draw(st.sampled_from(TIMES)) if len(atom) != 2 else atom)
    text = "".join(parts)
    return f"{text}|{draw(patterns(depth=0))}" if depth and draw(st.booleans()) else text


@given(patterns(), st.text("abc.d1- ", max_size=12))
def test_it_finds_what_the_standard_library_finds(pattern: str, text: str) -> None:
    assert Pattern(pattern).found_in(text) == bool(re.search(pattern, text)), pattern


def test_names_with_nothing_special_are_looked_for_as_they_are() -> None:
    assert Pattern("web server-1 ü").found_in("my web server-1 ünder")
    assert not Pattern("Web").found_in("web")
    assert Pattern("").found_in("anything")


@pytest.mark.parametrize("pattern", ["(a+)+$", "(a|aa)+$", "(a*)*b", "(.*)*x", "(a?){30}a{30}$"])
def test_no_pattern_takes_long(pattern: str) -> None:
    # First a length at which trying all ways takes some seconds, and not years.
    for length in (25, 255):
        began = perf_counter()
        Pattern(pattern).found_in("a" * length + "!")
        assert perf_counter() - began < 1.0


@pytest.mark.parametrize(
    ("pattern", "least"),
    [(".{0,90}Z", 4_000), ("(.*[a-m]){20}.*Z", 250), ("([a-z]{0,9}[a-m]){9}Z", 20_000), ("(a?){30}a{30}$", 250)],
)
def test_what_a_pattern_takes_is_bounded_and_told(pattern: str, least: int) -> None:
    """In steps, since a test must not go by the clock: states times letters, twice at most, and each letter once."""
    draw = random.Random(3)
    found = Pattern(pattern)
    for n in range(1, 6):
        found.found_in("".join(draw.choice("abcdefghijklmnopqrstuvwxyzé") for _ in range(250)))
        assert least + 250 * (n - 1) <= found.steps <= n * (250 * (2 * MAX_STATES + 1) + 27 * MAX_STATES)


def test_letters_that_a_pattern_does_not_tell_apart_are_one() -> None:
    """So that many long names cost hardly more than the first few."""
    draw = random.Random(3)
    found, steps = Pattern(".{0,90}Z"), []
    for _ in range(40):
        found.found_in("".join(draw.choice("abcdefghijklmnopqrstuvwxyz") for _ in range(250)))
        steps.append(found.steps)
    assert steps[-1] - steps[-2] == 250 < steps[0]


def test_a_long_name_is_no_large_pattern() -> None:
    name = "web-1-" * 40
    assert Pattern(f"^{name}.*$").found_in(name + "x") and Pattern(f"^{name}$").found_in(name)


@pytest.mark.parametrize(
    ("pattern", "says"),
    [
        (".{0,320}Z", "too large"),
        ("(a", "not closed"),
        ("a)", "closes nothing"),
        ("[a", "not closed"),
        ("*a", "repeats nothing"),
        ("(?=a)", "only plain groups"),
        (r"(a)\1", "not known"),
        ("a{1000}", "up to 999"),
        ("a{3,2}", "rises"),
        ("((a{99}){99})", "too large"),
        ("[z-a]", "is empty"),
        ("a\\", "followed by something"),
        ("(" * 40 + ")" * 40, "too deeply"),
        ("a" * (MAX_PATTERN + 1), "at most 255"),
    ],
)
def test_what_it_cannot_match_is_refused_by_name(pattern: str, says: str) -> None:
    with pytest.raises(BadInput) as refused:
        Pattern(pattern)
    assert refused.value.code == "bad-pattern"
    assert says in refused.value.text


@pytest.mark.parametrize(
    ("pattern", "known"),
    [
        ("web", ("web", False)),
        ("^web-1$", ("web-1", True)),
        (r"^web\-1\.example\.org$", ("web-1.example.org", True)),
        ("^$", ("", True)),
        ("^web", None),
        ("web$", None),
        (r"^web\$", None),
        (r"^web\\$", None),
        (r"\d", None),
        (r"\n", None),
        ("a.b", None),
        ("a|b", None),
        ("a\\", None),
        ("^", None),
    ],
)
def test_what_stands_for_itself_is_known_without_matching(pattern: str, known: tuple[str, bool] | None) -> None:
    assert literal(pattern) == known


@pytest.mark.parametrize("pattern", ["a", "^a$", r"^a\.b$", r"a\-", "ab", r"\^a"])
def test_whatever_a_pattern_is_found_in_holds_what_stands_for_itself(pattern: str) -> None:
    known = literal(pattern)
    assert known is not None
    text, whole = known
    for name in ("", "a", "A", "ab", "a.b", "a-b", "^a", "a$", "xa.bx"):
        assert Pattern(pattern).found_in(name) == (name == text if whole else text in name), name
