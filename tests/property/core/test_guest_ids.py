"""Guests' ids: they say when and where they were made, sort by that, and never come twice from one process."""

from __future__ import annotations

from uuid import RFC_4122, UUID, uuid5

import pytest
from hypothesis import given
from hypothesis import strategies as st

from banyan.core.ids import GuestIdParts, GuestIds, RackCode, guest_id, read_guest_id

instants = st.integers(0, 2**48 - 1)
racks = st.integers(0, 2**40 - 1).map(RackCode)
sequences = st.integers(0, 2**34 - 1)
parts = st.builds(GuestIdParts, instants, racks, sequences)


@given(parts, parts)
def test_an_id_is_a_version_8_uuid_that_says_its_parts_and_sorts_by_them(a: GuestIdParts, b: GuestIdParts) -> None:
    first = guest_id(a.milliseconds, a.rack, a.sequence)
    second = guest_id(b.milliseconds, b.rack, b.sequence)
    assert str(UUID(first)) == first
    assert (UUID(first).version, UUID(first).variant) == (8, RFC_4122)
    assert read_guest_id(first) == a == read_guest_id(first.upper())
    in_turn = (a.milliseconds, a.rack, a.sequence) < (b.milliseconds, b.rack, b.sequence)
    assert (first < second) == in_turn


@given(racks, sequences, st.lists(st.tuples(instants, st.integers(1, 5)), max_size=8))
def test_ids_rise_whatever_the_clock_does(rack: RackCode, start: int, draws: list[tuple[int, int]]) -> None:
    source, seen, newest = GuestIds(rack, 1_000, start), [], 1_000
    for now, count in draws:
        ids = source.draw(now, count)
        newest = max(newest, now)
        assert source.ceiling == newest
        for text in ids:
            read = read_guest_id(text)
            assert read is not None and (read.milliseconds, read.rack) == (newest, rack)
        seen += ids
    assert len(set(seen)) == len(seen) == sum(count for _, count in draws)
    first = read_guest_id(seen[0]) if seen else None
    assert first is None or first.sequence == start


def test_a_sequence_goes_round() -> None:
    ids = GuestIds(RackCode(2**40 - 1), 0, 2**34 - 1).draw(5, 2)
    assert [read_guest_id(text) for text in ids] == [
        GuestIdParts(5, RackCode(2**40 - 1), 2**34 - 1),
        GuestIdParts(5, RackCode(2**40 - 1), 0),
    ]


@pytest.mark.parametrize(
    "text",
    ["", "x", str(uuid5(UUID(int=0), "a")), "00000000-0000-4000-8000-000000000000", guest_id(1, RackCode(1), 1) + "\n"],
)
def test_ids_of_others_name_no_rack(text: str) -> None:
    assert read_guest_id(text) is None


def test_parts_that_do_not_fit_are_an_error() -> None:
    for milliseconds, rack, sequence in ((2**48, 0, 0), (-1, 0, 0), (0, 2**40, 0), (0, 0, 2**34)):
        with pytest.raises(ValueError, match="a guest's id has"):
            guest_id(milliseconds, RackCode(rack), sequence)
