"""Types in words, for the reference of settings."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal

import msgspec
import pytest

from dev.settings import built_in, described, render


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (int, "whole number"),
        (Annotated[float, msgspec.Meta(gt=0)], "number"),
        (tuple[str, ...], "list of text"),
        (dict[str, float], "table of text → number"),
        (Colour, "`red` or `blue`"),
        (Literal["a", "b"], "`a` or `b`"),
        (str | None, "text"),
        (int | bool, "whole number or true or false"),
    ],
)
def test_a_type_in_words(kind: object, words: str) -> None:
    assert described(kind) == words


def test_every_option_of_every_built_in_driver_is_told() -> None:
    text = render()
    for registration in built_in():
        assert f"## Driver `{registration.kind}`" in text
        for option in registration.option_names():
            assert f"| `{option}` |" in text
