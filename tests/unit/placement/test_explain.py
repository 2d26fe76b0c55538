"""Why, in words: the most frequent first, nothing that a newer version says is lost, and never without a bound."""

from __future__ import annotations

from banyan.core.order import Ground, Policy, Reason
from banyan.core.time import Wall
from banyan.placement.explain import MAX_CHOSEN, MAX_REASONS, counts_text, few, layers, level, reason_text


def test_every_reason_and_ground_has_words() -> None:
    for reason in Reason:
        assert reason_text(reason) != reason or reason in ("disabled", "down", "full"), reason
    assert reason_text("trait:CUSTOM_GPU") == "without the trait CUSTOM_GPU"
    assert reason_text("small:memory_mib") == "too small (memory_mib)"
    assert reason_text("spoken:in-a-newer-version") == "spoken:in-a-newer-version"
    for ground in (*Ground, *Policy):
        text = level("z", Wall(1.0), "o", "r", 1, {}, [("h1", 1, ground)]).text
        assert f"({ground})" not in text and text.startswith("1 hosts looked at; chosen: 1 on h1 (")


def test_counts_read_as_a_sentence() -> None:
    counts = {"small:vcpu": 88, "trait:HW_CPU_X86_AVX2": 1_312, **{f"trait:T{n}": 1 for n in range(9)}}
    assert counts_text(counts, 3) == (
        "1,312 without the trait HW_CPU_X86_AVX2, 88 too small (vcpu), 1 without the trait T0, 8 for other reasons"
    )
    assert counts_text({}) == ""


def test_a_level_says_what_one_zone_did() -> None:
    chosen = [(f"h{n:02}", 1 + n % 3, Ground.MOST_ROOM) for n in range(30)]
    one = level("top/north", Wall(5.0), "o", "req-1", 40, {"down": 10}, chosen)
    assert (one.path, one.order, one.request, one.looked, one.left_out) == ("top/north", "o", "req-1", 40, {"down": 10})
    assert len(one.chosen) == MAX_CHOSEN and one.chosen[0] == ("h02", 3, "most-room")
    assert one.text == (
        "40 hosts looked at; left out: 10 down; chosen: 3 on h02 (most room), 3 on h05 (most room), "
        "3 on h08 (most room), 3 on h11 (most room), 3 on h14 (most room), and 25 more"
    )
    nothing = level("top", Wall(5.0), "o", "r", 3, {"disabled": 3}, [], "members")
    assert nothing.text == "3 members looked at; left out: 3 disabled; chosen: none"


def test_levels_of_many_zones_become_one_layer_for_each_depth() -> None:
    found = [level("top", Wall(1.0), "o", "r", 2, {}, [("a", 3, "spread"), ("b", 2, "spread")], "members")]
    for name in "ab":
        found.append(level(f"top/{name}", Wall(1.0), "o", "r", 10, {"down": 4}, [("h1", 2, Ground.MOST_ROOM)]))
    top, below = layers(found[::-1])
    assert (top.depth, top.zones, top.looked, top.guests) == (0, 1, 2, 5)
    assert (below.depth, below.zones, below.paths, below.looked) == (1, 2, ("top/a", "top/b"), 20)
    assert (below.left_out, below.places, below.guests) == ({"down": 8}, 2, 4)
    assert below.chosen == (("top/a/h1", 2, "most-room"), ("top/b/h1", 2, "most-room"))


def test_no_member_can_flood_the_reasons() -> None:
    many = {f"trait:T{n:05}": 1 + n % 7 for n in range(10_000)}
    kept = few({**many, "other": 5})
    assert len(kept) == MAX_REASONS and sum(kept.values()) == sum(many.values()) + 5
    assert few({"down": 1}) == {"down": 1}
