"""The tree of zones below: paths, what a person means, and what is shown of what cannot be heard."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from banyan.core.errors import Conflict, NotFound
from banyan.core.ids import ZoneCode, code_text, coded_text
from banyan.core.zone import Admin, ChildState, Health
from banyan.zone.tree import Node, Tree

TOP, NORTH, EAST, LAB, LAB_EAST, DEEP = (ZoneCode(n) for n in range(1, 7))


def node(code: ZoneCode, parent: ZoneCode, via: ZoneCode, name: str, health: Health = Health.ALIVE) -> Node:
    return Node(code, parent, via, name, ChildState.READY, health, Admin.ENABLED, "", "1", 0.0)


def tree() -> Tree:
    made = Tree(TOP, "top")
    for one in (
        node(NORTH, TOP, NORTH, "north"),
        node(EAST, TOP, EAST, "east"),
        node(LAB, NORTH, NORTH, "lab"),
        node(LAB_EAST, EAST, EAST, "lab"),
        node(DEEP, LAB, NORTH, "deep"),
    ):
        made.put(one)
    return made


def test_paths_are_whole_and_listed_by_their_names() -> None:
    paths = [path for path, _ in tree().all()]
    assert paths == ["top/east", "top/east/lab", "top/north", "top/north/lab", "top/north/lab/deep"]


def test_names_sort_by_parts_not_by_characters() -> None:
    made = tree()
    made.put(node(ZoneCode(9), TOP, ZoneCode(9), "east-2"))
    assert [path for path, _ in made.all()][:3] == ["top/east", "top/east/lab", "top/east-2"]


def test_what_hangs_below_a_zone_that_is_not_here_is_listed_all_the_same() -> None:
    made = tree()
    hole = ZoneCode(77)
    made.put(node(ZoneCode(9), hole, NORTH, "orphan"))
    assert f"top/{coded_text(hole)}/orphan" in [path for path, _ in made.all()]
    assert made.resolve(f"top/{coded_text(hole)}/orphan") == ZoneCode(9)
    made.put(node(hole, NORTH, NORTH, "late"))
    assert [path for path, _ in made.all()][-2:] == ["top/north/late", "top/north/late/orphan"]
    made.remove(hole)
    made.remove(ZoneCode(9))
    assert made.all() == tree().all()


def test_two_zones_that_are_called_the_same_for_a_moment_are_both_listed() -> None:
    made = tree()
    made.put(node(ZoneCode(9), NORTH, NORTH, "lab"))
    assert [path for path, _ in made.all()].count("top/north/lab") == 2
    made.remove(LAB)
    made.put(node(ZoneCode(9), NORTH, NORTH, "lab-2"))
    assert [path for path, _ in made.all()][-1] == "top/north/lab-2"


codes = st.integers(2, 12).map(ZoneCode)
names = st.sampled_from(["a", "ab", "a-b", "b", "c"])


@given(st.lists(st.tuples(codes, st.integers(1, 12).map(ZoneCode), names, st.booleans()), max_size=30), st.data())
def test_slices_are_the_sorted_tree_whatever_came_and_went(
    events: list[tuple[ZoneCode, ZoneCode, str, bool]], data: st.DataObject
) -> None:
    made = Tree(TOP, "world/top")
    for code, parent, name, stays in events:
        if stays and parent < code:  # no loops: they are refused before
            made.put(node(code, parent, code if parent == TOP else parent, name))
        else:
            made.remove(code)
    rows = made.all()
    assert [path for path, _ in rows] == sorted((path for path, _ in rows), key=lambda path: path.split("/"))
    assert {one.code for _, one in rows} == {code for code in map(ZoneCode, range(2, 13)) if code in made}
    assert all(path == made.path_of(one.code) for path, one in rows)
    after = data.draw(st.sampled_from(["", *(path for path, _ in rows), "world/top/a/zz", "world/top/b", "aaa", "zzz"]))
    rest = [row for row in rows if not after or row[0].split("/") > after.split("/")]
    assert made.slice(TOP, after, 100) == rest
    assert made.slice(TOP, after, 2) == rest[:2]
    start = data.draw(st.sampled_from([TOP, *(one.code for _, one in rows)]))
    if [path for path, _ in rows].count(made.path_of(start)) < 2:
        below = [row for row in rest if start == TOP or start in (one.code for one in made.chain(row[1].parent))]
        assert made.slice(start, after, 100) == below
    mine = sorted((one.name, one.code) for _, one in rows if one.parent == TOP)
    assert [(one.name, one.code) for one in made.children("ab", 3)] == [row for row in mine if row[0] >= "ab"][:3]


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", TOP),
        ("top", TOP),
        ("top/north", NORTH),
        ("/top/north/", NORTH),
        ("north/lab", LAB),
        ("deep", DEEP),
        ("lab/deep", DEEP),
        (code_text(LAB), LAB),
        ("east", EAST),
    ],
)
def test_a_person_may_say_a_path_a_last_part_or_a_code(text: str, code: ZoneCode) -> None:
    assert tree().resolve(text) == code


def test_an_ambiguous_name_names_its_candidates() -> None:
    with pytest.raises(Conflict, match="top/east/lab, top/north/lab"):
        tree().resolve("lab")


def test_a_prefix_is_no_name() -> None:
    with pytest.raises(NotFound, match="no zone 'nor'"):
        tree().resolve("nor")


SAME, BELOW = ZoneCode(9), ZoneCode(10)


def namesakes(own: str, child: bool = True) -> Tree:
    """As `tree`, with zones below that are called as we are: a child, and one below north."""
    made = tree()
    made.move(TOP, own)
    if child:
        made.put(node(SAME, TOP, SAME, "top"))
        made.put(node(BELOW, SAME, SAME, "north"))
    else:
        made.put(node(SAME, NORTH, NORTH, "top"))
    return made


def test_a_whole_path_means_that_zone_whatever_is_called_so_below() -> None:
    made = namesakes("top")
    assert made.resolve("top") == TOP
    assert made.resolve("top/top") == SAME
    assert made.resolve("top/north") == NORTH
    assert made.resolve("top/top/north") == BELOW
    deeper = namesakes("world/top")
    assert [deeper.resolve(path) for path in ("world/top", "world/top/top", "world/top/north")] == [TOP, SAME, NORTH]


@pytest.mark.parametrize("child", [True, False])
def test_a_last_part_that_we_share_with_a_zone_below_is_not_taken_for_us(child: bool) -> None:
    made = namesakes("world/top", child)
    with pytest.raises(Conflict) as refused:
        made.resolve("top")
    assert refused.value.code == "ambiguous-zone"
    assert f"world/top, {made.path_of(SAME)}" in refused.value.text
    for text in ("", ".", "world/top", code_text(TOP)):
        assert made.resolve(text) == TOP


def test_our_own_name_in_front_does_not_hide_a_child_of_that_name() -> None:
    made = namesakes("world/top")
    with pytest.raises(Conflict, match="world/top/north, world/top/top/north"):
        made.resolve("top/north")
    made.remove(SAME)
    assert made.resolve("top/north") == NORTH
    assert made.resolve("top") == TOP


def test_the_end_of_our_own_path_names_us() -> None:
    made = tree()
    made.move(TOP, "wide/world/top")
    assert [made.resolve(text) for text in ("top", "world/top")] == [TOP, TOP]
    assert made.resolve("world/top/north/lab") == LAB


def test_below_a_lost_zone_nothing_is_shown_alive() -> None:
    made = tree()
    made.put(node(NORTH, TOP, NORTH, "north", Health.LOST))
    deep = made.get(DEEP)
    assert deep is not None
    shown = made.effective(deep)
    assert shown.health is Health.LOST
    assert "north" in shown.reason
    assert made.unheard() == {NORTH, LAB, DEEP}


def test_unheard_below_a_grandchild_are_those_below_it_only() -> None:
    made = tree()
    made.put(node(LAB, NORTH, NORTH, "lab", Health.SUSPECT))
    assert made.unheard() == {LAB, DEEP}


def test_removing_a_direct_child_takes_along_what_it_reported() -> None:
    made = tree()
    made.remove(NORTH)
    assert {path for path, _ in made.all()} == {"top/east", "top/east/lab"}
    assert made.unheard() == set()


def test_renaming_moves_the_subtree() -> None:
    made = tree()
    made.put(node(NORTH, TOP, NORTH, "nord"))
    assert made.path_of(DEEP) == "top/nord/lab/deep"
    with pytest.raises(NotFound):
        made.resolve("top/north")


def test_another_own_path_moves_everything() -> None:
    made = tree()
    made.move(TOP, "world/top")
    assert made.path_of(LAB) == "world/top/north/lab"
    assert made.resolve("world/top/north") == NORTH
    assert made.resolve("top/north") == NORTH


def test_a_chain_with_a_hole_or_a_loop_ends() -> None:
    made = Tree(TOP, "top")
    made.put(node(LAB, NORTH, NORTH, "lab"))
    assert made.path_of(LAB) == f"top/{coded_text(NORTH)}/lab"
    made.put(node(NORTH, LAB, NORTH, "north"))
    assert made.path_of(LAB).count("/") == 2
    assert made.depth(LAB) == 2


def impostor(deep: bool) -> Tree:
    """As `tree`, with a zone that is called as the code of EAST: a sibling of it, or far below another."""
    made = tree()
    made.put(node(SAME, LAB if deep else TOP, NORTH if deep else SAME, code_text(EAST)))
    return made


@pytest.mark.parametrize("deep", [True, False])
@pytest.mark.parametrize("spelled", [str, str.upper, lambda code: f"{code[:4]}-{code[4:]}"])
def test_a_zone_named_as_the_code_of_another_never_stands_for_it(deep: bool, spelled: Callable[[str], str]) -> None:
    made, text = impostor(deep), spelled(code_text(EAST))
    if text != code_text(EAST):
        # No name is spelled so, a code is.
        assert made.resolve(text) == EAST
        return
    with pytest.raises(Conflict) as refused:
        made.resolve(text)
    assert refused.value.code == "ambiguous-zone"
    assert made.path_of(SAME) in refused.value.text
    assert f"top/east ({coded_text(EAST)})" in refused.value.text
    assert made.resolve(coded_text(EAST)) == EAST
    assert made.resolve(made.path_of(SAME)) == SAME
    assert made.resolve("top/east") == EAST


def test_what_lies_below_a_zone_that_is_not_here_is_not_shown_below_one_named_as_its_code() -> None:
    """The one that is named so may be anybody's, and so may the one that is gone."""
    made, hole = tree(), ZoneCode(78)
    made.put(node(SAME, TOP, SAME, code_text(hole)))
    made.put(node(ZoneCode(11), SAME, SAME, "lab"))
    made.put(node(ZoneCode(12), hole, NORTH, "lab"))
    paths = [path for path, _ in made.all()]
    assert len(set(paths)) == len(paths)
    assert made.resolve(f"top/{code_text(hole)}/lab") == ZoneCode(11)
    assert made.resolve(f"top/{coded_text(hole)}/lab") == ZoneCode(12)


def test_with_its_mark_a_code_is_no_name() -> None:
    made = tree()
    made.put(node(SAME, NORTH, NORTH, "edge0001"))
    assert made.resolve("edge0001") == SAME
    with pytest.raises(NotFound):
        made.resolve("code:edge0001")
    assert made.resolve(f"code:{code_text(EAST).upper()}") == EAST


def test_our_own_code_is_ours_whatever_is_called_so_below() -> None:
    made = tree()
    made.put(node(SAME, NORTH, NORTH, code_text(TOP)))
    with pytest.raises(Conflict, match="may mean"):
        made.resolve(code_text(TOP))
    assert made.resolve(".") == TOP
