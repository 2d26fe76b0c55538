"""Codes and names that must not open the door: each is refused by name, says what to do, and costs nothing.

Used, expired, revoked, forged, mistyped codes; one code and two keys at one instant; taken names and those that look
like them; a zone that would become its own descendant.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from banyan.core.messages import Admitted, Bye, Message
from banyan.core.secret import Secret
from banyan.trust import tokens
from banyan.trust.keys import fingerprint, public_key
from tests.wire.zones.processes import Cloud, Said, Zone, banyan, start, together
from tests.wire.zones.stores import look, secret
from tests.wire.zones.stranger import IDS, Stranger

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def top(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Zone]:
    with Cloud(tmp_path_factory.mktemp("top")) as cloud:
        yield cloud.zone("top").start()


def reference(code: str) -> str:
    return tokens.parse(code).id


def address(zone: Zone) -> str:
    return f"127.0.0.1:{zone.link}"


# --- codes ----------------------------------------------------------------------------------------


@dataclass
class Tried:
    """What became of a join with a wrong code, and what its error must say."""

    text: str
    said: Said
    status: int
    error: str
    words: tuple[str, ...]


@pytest.fixture(scope="module")
def tried(top: Zone, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Tried]]:
    used, expired, revoked, good, other = (top.code("--expires", "1h") for _ in range(5))
    soon = top.code("--expires", "1s")
    assert top.cli("code", "revoke", reference(revoked)).status == 0
    parsed = tokens.parse(good)
    forged = replace(parsed, secret=Secret(IDS.token(32))).encode().reveal().decode()
    unknown = replace(parsed, id=IDS.token(8).hex()).encode().reveal().decode()
    letter = "A" if good[60] != "A" else "B"
    cases: dict[str, tuple[str, int, str, tuple[str, ...]]] = {
        "used": (used, 3, "code-used", (reference(used), "1 of 1 times", "banyan code create")),
        "expired": (soon, 3, "code-expired", (reference(soon), "ended at", "banyan code create")),
        "revoked": (revoked, 3, "code-revoked", (reference(revoked), "ask for a new one")),
        "forged": (forged, 3, "code-forged", (parsed.id, "use it as it was made")),
        "unknown": (unknown, 3, "code-unknown", (reference(unknown), "banyan code create")),
        "mistyped": (good[:60] + letter + good[61:], 2, "code-mistyped", ("Copy it again as a whole",)),
        "cut short": (good[:-7], 2, "code-mistyped", ("Copy it again as a whole",)),
        "of another version": ("banyan2." + good[8:], 2, "code-version", ("another version",)),
        "something else": ("correct-horse-battery-staple", 2, "code-mistyped", ("was the whole of it copied?",)),
        "nothing": ("", 2, "bad-file", ("must hold a join code",)),
    }
    with Cloud(tmp_path_factory.mktemp("tried")) as cloud:
        assert cloud.zone("first", code=used).join().status == 0
        time.sleep(1.2)

        def attempt(number: int, code: str) -> Said:
            return cloud.zone(f"wrong{number}", code=code).join("--patience", "2s", "--json")

        calls = [lambda n=n, code=case[0]: attempt(n, code) for n, case in enumerate(cases.values())]
        said = together(*calls)
        found = {name: Tried(case[0], one, *case[1:]) for (name, case), one in zip(cases.items(), said, strict=True)}
        yield found
        # What was refused beside it has cost the good code nothing, and a good one lets the same folder in.
        assert cloud.zone("wrong3").give(good).join("--json").json() == {"path": "top/wrong3"}
        assert cloud.zone("wrong0").give(other).join("--json").json() == {"path": "top/wrong0"}
        assert cloud.zone("wrong1").give(expired).join("--json").json() == {"path": "top/wrong1"}


@pytest.mark.parametrize(
    "name",
    [
        "used", "expired", "revoked", "forged", "unknown", "mistyped", "cut short", "of another version",
        "something else", "nothing",
    ],
)  # fmt: skip
def test_a_wrong_code_is_named_and_not_repeated(tried: dict[str, Tried], name: str) -> None:
    one = tried[name]
    assert one.said.status == one.status, one.said.err
    code, text = one.said.error()
    assert code == one.error, text
    for word in one.words:
        assert word in text
    assert one.text[8:32] not in one.said.err or not one.text, "no part of a code comes back on the screen"


def test_refused_codes_leave_nothing_but_lines_in_the_journal(tried: dict[str, Tried], top: Zone) -> None:
    assert sorted(top.zones()) == ["top/first"]
    refusals = top.journal(kind="join-refused")
    codes = [line["facts"]["code"] for line in refusals]
    assert sorted(codes) == ["code-expired", "code-forged", "code-revoked", "code-unknown", "code-used"]
    assert {line["outcome"] for line in refusals} == {"refused"}
    assert {line["address"] for line in refusals} == {"127.0.0.1"}
    assert sum(row["used"] for row in top.cli("code", "list", "--json").json()) == 1


def test_one_code_and_two_keys_at_the_same_instant(top: Zone, tmp_path: Path, tried: dict[str, Tried]) -> None:
    """Two processes, and then a few more pairs with nothing between them and the wire: one of each pair wins."""
    code = top.code()
    with Cloud(tmp_path) as cloud:
        pair = [cloud.zone(name, code=code) for name in ("castor", "pollux")]
        said = together(*(zone.join for zone in pair))
        assert sorted(one.status for one in said) == [0, 3]
        loser = next(one for one in said if one.status == 3)
        assert "[code-used]" in loser.err and reference(code) in loser.err
    codes = [top.code() for _ in range(4)]

    async def race(number: int, code: str) -> list[Message]:
        strangers = [Stranger(address(top), f"racer{number}{side}") for side in "ab"]
        opened = [await one.open_enrolment() for one in strangers]
        return await asyncio.gather(
            *(one.send_request(wire, code) for one, wire in zip(strangers, opened, strict=True))
        )

    async def races() -> list[list[Message]]:
        return [await race(number, code) for number, code in enumerate(codes)]

    for answers in asyncio.run(races()):
        assert sorted((type(answer) for answer in answers), key=str) == [Admitted, Bye]
        [no] = [answer for answer in answers if isinstance(answer, Bye)]
        assert no.code == "code-used" and no.retry_after == -1
    rows = {row["id"]: row for row in top.cli("code", "list", "--json").json()}
    assert all(rows[reference(one)]["used"] == 1 for one in (code, *codes))


def test_the_same_key_may_ask_twice_and_takes_one_use(top: Zone) -> None:
    code = top.code()

    async def twice() -> tuple[Message, Message]:
        asking = Stranger(address(top), "twice")
        first = await asking.ask(code)
        again = Stranger(address(top), "twice", asking.code, asking.seed)
        return first, await again.ask(code)

    first, second = asyncio.run(twice())
    assert isinstance(first, Admitted) and isinstance(second, Admitted)
    assert (first.path, first.name) == (second.path, second.name) == ("top/twice", "twice")
    [row] = [row for row in top.cli("code", "list", "--json").json() if row["id"] == reference(code)]
    assert row["used"] == 1
    assert [line["kind"] for line in top.journal(about="twice")] == ["child-admitted", "child-admitted-again"]


# --- names ----------------------------------------------------------------------------------------

LOOKALIKES = [
    "ZONE1",
    "Zone1",
    "z\u043ene1",  # a Cyrillic o
    "zone\u0661",  # an Arabic digit
    "zone\uff11",  # a full-width digit
    "zone1\u200b",  # nothing that can be seen
    "\u202ezone1",
    "zone1.",
    "zone1/",
    "zone1 ",
    "zone1\n",
    "zone_1",
    "-zone1",
    "zone1-",
    "",
    ".",
    "..",
    "z" * 64,
]


def test_a_name_that_looks_like_another_is_refused_by_the_parent_as_well(top: Zone) -> None:
    code = top.code("--uses", "any")

    async def all_of_them() -> dict[str, Message]:
        await Stranger(address(top), "zone1").join(code)
        return {name: await Stranger(address(top), name).ask(code) for name in LOOKALIKES}

    for name, answer in asyncio.run(all_of_them()).items():
        assert isinstance(answer, Bye) and answer.code == "bad-name", f"{name!r}: {answer}"
        assert "lower-case letters, digits and inner hyphens" in answer.text
        assert answer.retry_after == -1
    assert [path for path in top.zones() if "zone" in path] == ["top/zone1"]


@pytest.mark.parametrize(("name", "hint"), [("ZONE1", "did you mean 'zone1'?"), ("z\u043ene1", "letters outside a-z")])
def test_a_zone_does_not_even_start_under_such_a_name(tmp_path: Path, name: str, hint: str) -> None:
    said = banyan("serve", "--data", str(tmp_path / "data"), "--name", name)
    assert said.status == 2
    assert "[bad-name]" in said.err and hint in said.err
    assert not (tmp_path / "data").exists(), "nothing was made"


def test_names_are_compared_whole(top: Zone) -> None:
    """`edge1` is not `edge1wxyz`, in codes, in rows and in certificates."""
    only, pattern = top.code("--name", "edge1", "--uses", "any"), top.code("--name", "edge1?", "--uses", "any")

    async def ask(name: str, code: str) -> Message:
        return await Stranger(address(top), name).ask(code)

    async def all_of_them() -> list[Message]:
        return [
            await ask("edge1wxyz", only), await ask("edge", only), await ask("edge1", pattern),
            await ask("edge1wxyz", pattern), await ask("edge1", only), await ask("edge1x", pattern),
        ]  # fmt: skip

    answers = asyncio.run(all_of_them())
    for answer in answers[:4]:
        assert isinstance(answer, Bye) and answer.code == "name-not-allowed"
        assert re.search(r"is for zones named 'edge1\??', not for 'edge", answer.text)
    assert all(isinstance(answer, Admitted) for answer in answers[4:])
    shown = top.cli("zone", "show", "edge1", "--json").json()
    assert shown["path"] == "top/edge1"
    assert top.cli("zone", "show", "edge", "--json").status == 4


def test_a_taken_name_leaves_the_first_one_untouched(top: Zone, tmp_path: Path) -> None:
    with Cloud(tmp_path) as cloud:
        first = cloud.zone("mine", code=top.code(), hosts=1).start()
        before = top.wait_for_zone("mine", state="ready", health="alive")
        (tmp_path / "other").mkdir()
        second = Zone("mine", tmp_path / "other")
        second.give(top.code())
        said = second.join("--json")
        assert said.status == 3
        code, text = said.error()
        assert code == "name-taken"
        assert before["code"] in text and "banyan zone replace mine" in text
        after = top.seen()["top/mine"]
        assert {key: after[key] for key in ("code", "state", "health", "joined_at")} == {
            key: before[key] for key in ("code", "state", "health", "joined_at")
        }
        assert first.uplink()["state"] == "connected"
        first.kill()
        key = public_key(secret(first.data, "zone"))
        first.start()
        first.wait_for_uplink("connected")
        assert first.status()["public_key"] == fingerprint(key).hex(), "and comes back with the key it had"


def test_a_zone_cannot_join_its_own_descendant(tmp_path: Path) -> None:
    with Cloud(tmp_path) as cloud:
        upper = cloud.zone("upper").start()
        middle = cloud.zone("middle", code=upper.code()).start()
        upper.wait_for_zone("middle", state="ready")
        lower = cloud.zone("lower", code=middle.code()).start()
        upper.wait_for_zone("upper/middle/lower", state="ready", health="alive")
        codes = {"lower": lower.code(), "middle": middle.code()}
        upper.stop()
        for name, code in codes.items():
            said = upper.give(code).join("--json")
            assert said.status == 3, said.err
            error, text = said.error()
            assert error == "loop", text
            assert upper.name in text or "above" in text, name
        # The top is a top as before.
        upper.code_file = None
        upper.start()
        upper.wait_for_zone("upper/middle/lower", state="ready", health="alive")
        assert upper.status()["uplinks"] == []
        assert [row["name"] for row in lower.cli("zone", "list", "--json").json()] == []
        [line] = lower.journal(kind="join-refused")
        assert line["facts"]["code"] == "loop"


def test_two_zones_that_would_be_each_others_parent(tmp_path: Path) -> None:
    """Neither knows of the other's step: whoever comes second is refused, and runs on as it was."""
    with Cloud(tmp_path) as cloud:
        left, right = cloud.zone("left"), cloud.zone("right")
        start(left, right)
        left_code, right_code = left.code(), right.code()
        left.stop()
        right.stop()
        # Enrolled both ways while neither served the other: a loop that only sessions can see.
        left.give(right_code)
        right.start()
        assert left.join().status == 0
        right.stop()
        left.start()
        said = right.give(left_code).join("--json")
        assert said.status == 3
        assert said.error()[0] == "loop"
        right.code_file = None
        right.start()
        left.wait_for_uplink("connected")
        assert right.wait_for_zone("left", state="ready")["path"] == "right/left"
        assert look_for_uplinks(left) == 1


def look_for_uplinks(zone: Zone) -> int:
    zone.kill()
    return len(look(zone.data, lambda unit: unit.uplinks.all()))
