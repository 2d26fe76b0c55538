"""The contract of plays lists every verb and subject, in their own words; verbs refuse what they cannot read."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from banyan.core.errors import BanyanError
from banyan.simulate.expect import SUBJECTS
from banyan.simulate.invariants import Invariants
from banyan.simulate.mischief import MISCHIEF
from banyan.simulate.script import ScriptError, read_step
from banyan.simulate.verbs import VERBS, Stage, run_step
from banyan.simulate.world import World

CONTRACT = Path(__file__).parents[3] / "docs" / "contracts" / "scenarios.md"


@pytest.fixture
def stage() -> Iterator[Stage]:
    with World() as world:
        yield Stage(world, Invariants(world))


def do(stage: Stage, line: str) -> object:
    return run_step(stage, read_step("a.play:1", line))


def test_the_contract_lists_every_verb_as_it_is() -> None:
    rows = re.findall(r"^\| `(.+?)` \| (.+?) \|$", CONTRACT.read_text(encoding="utf-8"), re.MULTILINE)
    written = {usage.replace("\\|", "|"): meaning for usage, meaning in rows}
    assert written == {verb.usage: verb.meaning for verb in VERBS.values()}


def test_the_contract_names_every_subject_and_mischief() -> None:
    text = CONTRACT.read_text(encoding="utf-8")
    assert [name for name in (*SUBJECTS, *MISCHIEF) if f"`{name}`" not in text] == []


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("fly top", "there is no verb `fly`"),
        ("cut top/x", "no zone 'top/x' was made"),
        ("advance soon", "a duration is written"),
        ("tree 3xmany", "a tree is written 3x4x50"),
        ("expect moon top", "nothing to look at is called `moon`"),
        ("backup top at x", "`backup` is written"),
        ("zone top hosts=many", "hosts is a number"),
        ("restore top from nowhere", "no backup 'nowhere'"),
        ("tamper top gently", "no mischief 'gently'"),
    ],
)
def test_mistakes_name_the_line_and_what_there_is(stage: Stage, line: str, what: str) -> None:
    if line.split(maxsplit=1)[0] not in ("fly", "cut", "zone"):
        do(stage, "zone top")
    with pytest.raises(ScriptError, match=re.escape(what)) as caught:
        do(stage, line)
    assert caught.value.where == "a.play:1"


def test_an_expectation_says_what_was_found(stage: Stage) -> None:
    do(stage, "tree 1x3")
    do(stage, "expect zone top/z1 state=ready hosts=3 as_of~2026")
    do(stage, "expect no zone top/z9")
    do(stage, "expect no journal top child-lost")
    with pytest.raises(ScriptError, match=r"health is 'alive'"):
        do(stage, "expect zone top/z1 health=lost")
    with pytest.raises(ScriptError, match=r"zone shows .*admin"):
        do(stage, "expect zone top/z1 mood=good")
    with pytest.raises(ScriptError, match=r"there is no zone top/z9"):
        do(stage, "expect zone top/z9 health=alive")
    with pytest.raises(ScriptError, match=r"expected no zone top/z1"):
        do(stage, "expect no zone top/z1")


def test_fails_wants_the_code_that_is_named(stage: Stage) -> None:
    do(stage, "tree 1x3")
    do(stage, "fails bad-transition unban top/z1")
    with pytest.raises(ScriptError, match="was to fail as other, failed as bad-transition"):
        do(stage, "fails other unban top/z1")
    with pytest.raises(ScriptError, match="but went well"):
        do(stage, "fails other disable top/z1")
    with pytest.raises(BanyanError):
        do(stage, "unban top/z1")


def test_a_site_that_does_not_run_cannot_be_asked_but_its_disk_can_be_read(stage: Stage) -> None:
    do(stage, "tree 1x3")
    do(stage, "crash top/z1")
    with pytest.raises(BanyanError, match="does not run"):
        do(stage, "zones top/z1")
    assert stage.world["top/z1"].peek(lambda unit: unit.journal.last()) is not None
    do(stage, "expect process top/z1 state=crashed starts=1")
