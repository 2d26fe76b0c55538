"""Codes, names, shapes and state tables: what is written is read again, everything else is refused with a reason."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from banyan.core.errors import BadInput, Conflict
from banyan.core.ids import check_name, code_text, coded_text, join_path, parse_code, split_path, under
from banyan.core.resources import Shape, shape
from banyan.core.transitions import E, S, Table
from banyan.core.zone import ADMINISTRATION, ENROLMENT, Admin, AdminEvent, ChildState, EnrolEvent
from tests.property.core.strategies import shapes

codes = st.integers(0, 2**40 - 1)
names = st.from_regex(r"\A[a-z0-9]([a-z0-9-]{0,20}[a-z0-9])?\Z")


@given(codes)
def test_a_code_is_read_as_it_was_written(code: int) -> None:
    text = code_text(code)
    assert len(text) == 8
    assert parse_code(text) == code
    assert parse_code(f" {text[:4]}-{text[4:]}".upper().replace("0", "O").replace("1", "L")) == code


@given(codes)
def test_a_name_may_be_spelled_as_a_code_but_not_as_one_with_its_mark(code: int) -> None:
    assert check_name(code_text(code)) == code_text(code)
    with pytest.raises(BadInput, match="lower-case letters, digits and inner hyphens"):
        check_name(coded_text(code))


@pytest.mark.parametrize("name", ["edge0001", "braggart", "helsinki", "zone0001", "east", "edge-0001"])
def test_an_ordinary_name_is_good(name: str) -> None:
    assert check_name(name) == name


@given(st.text(max_size=12))
def test_any_text_is_a_code_or_bad_input(text: str) -> None:
    refused = ""
    try:
        assert 0 <= parse_code(text) < 2**40
    except BadInput as error:
        refused = error.code
    assert refused in ("", "bad-code")


@given(st.text(max_size=80))
def test_any_text_is_a_name_or_bad_input(text: str) -> None:
    refused = ""
    try:
        assert check_name(text) == text
        assert text == text.lower()
        assert text.isascii()
    except BadInput as error:
        refused = error.code
    assert refused in ("", "bad-name")


@pytest.mark.parametrize("text", ["zone1\n", "Zone1", "zöne", "-a", "a-", "", "a" * 64, "a.b", "zone\u20101", "ａ"])
def test_look_alikes_are_no_names(text: str) -> None:
    with pytest.raises(BadInput):
        check_name(text)


@given(st.lists(names, min_size=1, max_size=5))
def test_a_path_comes_apart_as_it_was_joined(parts: list[str]) -> None:
    assert list(split_path(join_path(*parts))) == parts


@given(st.lists(names, min_size=1, max_size=4), st.lists(names, max_size=3), names)
def test_below_is_by_whole_names(above: list[str], below: list[str], tail: str) -> None:
    top = join_path(*above)
    assert under(join_path(top, *below), top)
    assert not under(top + tail, top)
    assert under(top, "")


@given(shapes)
def test_a_shape_is_read_as_it_was_written(one: Shape) -> None:
    # ":" in a class name is fine here; "," and "=" are not in any that placement allows.
    assert Shape.parse(one.key) == one
    assert Shape.parse(one.key).key == one.key


@given(shapes)
def test_a_shape_has_one_spelling(one: Shape) -> None:
    assert shape(dict(reversed(one.needs)), [*reversed(one.traits), *one.traits]) == one


@given(st.text(alphabet="vcpu=1,;T0²", max_size=16))
def test_any_text_is_a_shape_or_a_value_error(text: str) -> None:
    try:
        one = Shape.parse(text)
    except ValueError:
        return
    assert Shape.parse(one.key) == one if one.needs else True


def walk(table: Table[S, E]) -> None:
    for before, event in product(table.states, table.events):
        if table.allows(before, event):
            assert table.after(before, event) in table.states
            continue
        with pytest.raises(Conflict) as refusal:
            table.after(before, event)
        assert refusal.value.code == "bad-transition"
        assert str(before) in refusal.value.text
        assert str(event) in refusal.value.text
    assert all(move.why for move in table)


def test_every_pair_of_the_enrolment_is_a_move_or_an_explained_refusal() -> None:
    walk(ENROLMENT)


def test_every_pair_of_the_administration_is_a_move_or_an_explained_refusal() -> None:
    walk(ADMINISTRATION)


def test_an_enrolment_ends_only_by_retiring() -> None:
    assert ENROLMENT.allowed(ChildState.RETIRED) == []
    for state in ChildState:
        if state is not ChildState.RETIRED:
            assert ENROLMENT.after(state, EnrolEvent.RETIRED) is ChildState.RETIRED


def test_an_enrolment_never_goes_back_but_by_joining_again() -> None:
    order = list(ChildState)
    for move in ENROLMENT:
        if move.event is not EnrolEvent.JOINED_AGAIN:
            assert order.index(move.after) >= order.index(move.before)


def test_a_ban_is_lifted_by_nothing_but_unban_and_that_does_not_enable() -> None:
    leaving = [m for m in ADMINISTRATION if m.before is Admin.BANNED and m.after is not Admin.BANNED]
    assert [(m.event, m.after) for m in leaving] == [(AdminEvent.UNBAN, Admin.DISABLED)]


def test_two_moves_for_one_pair_are_refused() -> None:
    moves = list(ENROLMENT)
    with pytest.raises(ValueError, match="two moves"):
        Table("child zone", ChildState, EnrolEvent, [*moves, moves[0]])
