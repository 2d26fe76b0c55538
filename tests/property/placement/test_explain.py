"""Explanations merge in any order and lose no count, however little of them is shown."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from banyan.core.order import Ground
from banyan.core.server import Level
from banyan.core.time import Wall
from banyan.placement.explain import MAX_REASONS, Layer, few, layer, layers

counts = st.dictionaries(st.sampled_from([f"trait:T{n}" for n in range(150)]), st.integers(1, 9), max_size=40)
levels = st.lists(
    st.builds(
        lambda path, looked, left_out, chosen: Level(path, Wall(0.0), "o", "r", looked, left_out, tuple(chosen)),
        st.sampled_from(["top", "top/a", "top/b", "top/a/x"]),
        st.integers(0, 50),
        counts,
        st.lists(
            st.tuples(st.text("hijk", min_size=1, max_size=3), st.integers(1, 5), st.sampled_from(Ground)), max_size=30
        ),
    ),
    max_size=8,
)


@given(levels, st.randoms(use_true_random=False))
def test_levels_merge_in_whatever_order_they_come(found: list[Level], random: object) -> None:
    mixed = list(found)
    random.shuffle(mixed)
    assert layers(found) == layers(mixed)
    total = layers(found)
    assert sum(one.looked for one in total) == sum(one.looked for one in found)
    assert sum(one.guests for one in total) == sum(count for one in found for _, count, _ in one.chosen)
    assert sum(sum(one.left_out.values()) for one in total) == sum(sum(one.left_out.values()) for one in found)
    assert sum(one.places for one in total) == sum(len(one.chosen) for one in found)


@given(st.lists(levels.filter(bool).map(lambda found: found[0]), min_size=3, max_size=3))
def test_layers_of_one_depth_add_up_in_any_grouping(found: list[Level]) -> None:
    a, b, c = (Layer(0, *[getattr(layer(one), name) for name in Layer.__slots__[1:]]) for one in found)
    assert (a + b) + c == a + (b + c)
    assert a + b == b + a


@given(st.dictionaries(st.text(max_size=8), st.integers(1, 99), max_size=300))
def test_few_reasons_have_the_same_sum(counts: dict[str, int]) -> None:
    kept = few(counts)
    assert len(kept) <= MAX_REASONS and sum(kept.values()) == sum(counts.values())
    assert all(kept[reason] == counts[reason] for reason in kept if reason != "other")
