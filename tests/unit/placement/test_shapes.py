"""Which shapes are counted and announced, where more are known than a digest holds."""

from __future__ import annotations

import pytest

from banyan.core.digest import MAX_NAME, MAX_SHAPES
from banyan.core.resources import ID_SIZE, MAX_NEED, VCPU, ResourceClass, Shape, shape
from banyan.placement.shapes import choose, countable, read_keys, set_hash


def cores(*counts: int) -> list[Shape]:
    return [shape({VCPU: n}) for n in counts]


def test_what_is_known_from_several_sides_is_counted_once() -> None:
    choice = choose([cores(4, 2), cores(2), cores(8, 4)])
    assert choice.counted == tuple(cores(2, 4, 8))
    assert (choice.left_out, choice.reason) == ((), "")


def test_parents_come_first_and_in_each_source_the_smallest_keys() -> None:
    announced, settled, flavors = cores(9), cores(5, 7, 6), cores(1, 2)
    choice = choose([announced, settled, flavors], limit=3)
    assert choice.counted == tuple(cores(5, 6, 9))
    assert choice.left_out == tuple(cores(1, 2, 7))
    assert choose([reversed(announced), settled[::-1], flavors[::-1]], limit=3) == choice


def test_what_is_left_out_is_named() -> None:
    reason = choose([cores(*range(1, MAX_SHAPES + 6))]).reason
    assert f"{MAX_SHAPES + 5} shapes are known and {MAX_SHAPES} are counted" in reason
    assert "vcpu=95, vcpu=96, vcpu=97 and 2 more" in reason
    assert "share.flavors" in reason


def test_what_can_not_stand_in_a_digest_is_not_counted() -> None:
    long = shape({ResourceClass("x" * MAX_NAME): 1})
    nul = shape({ResourceClass("a\0b"): 1})
    huge = shape({VCPU: MAX_NEED + 1})
    assert countable([*cores(3), shape({}), long, nul, huge, *cores(3)]) == tuple(cores(3))


def test_a_set_is_named_by_its_hash_in_whatever_order() -> None:
    assert set_hash(["vcpu=1", "vcpu=2"]) == set_hash(["vcpu=2", "vcpu=1", "vcpu=1"])
    assert len({set_hash([]), set_hash(["vcpu=1"]), set_hash(["vcpu=1", "vcpu=2"]), set_hash(["vcpu=12"])}) == 4
    assert set_hash([])


def test_keys_that_this_version_can_not_read_are_passed_over() -> None:
    assert read_keys(["vcpu=2", "numa:2=1+1", "vcpu", "vcpu=x", "vcpu=²", "", "vcpu=0", "vcpu=1;HW_A"]) == (
        shape({VCPU: 1}, ("HW_A",)),
        shape({VCPU: 2}),
    )


def test_the_id_of_a_shape_is_the_same_for_ever() -> None:
    one = shape({ResourceClass("memory_mib"): 4096, VCPU: 2}, ("HW_CPU_X86_AVX2",))
    assert one.id == Shape.parse(one.key).id == "f70b53731cf1b5a4"
    assert len(one.id) == ID_SIZE
    assert one.id != shape({ResourceClass("memory_mib"): 4096, VCPU: 2}).id


@pytest.mark.parametrize("key", [f"vcpu={MAX_NEED + 1}", f"vcpu={10**400}", "vcpu=-1", "vcpu=1.5", "=1"])
def test_a_need_that_no_host_could_meet_is_malformed(key: str) -> None:
    with pytest.raises(ValueError, match="a shape"):
        Shape.parse(key)
