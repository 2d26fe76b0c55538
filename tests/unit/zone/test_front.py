"""What a zone's surface tells whom: to a caller of one subtree the rest of the tree is as if it were not."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator

import msgspec
import pytest

from banyan.core.errors import BanyanError, Unreachable
from banyan.core.identity import Caller, Role
from banyan.core.ids import code_text
from banyan.core.messages import Answer, CommandReply, Page, UsageReply
from banyan.zone.front import Front
from banyan.zone.views import HostView
from tests.unit.zone.household import Household, Kid, delta

pack = msgspec.msgpack.encode
NONSENSE = "no-such-zone"


class Estate:
    """top, with north (lab1, twin) and south (lab3, twin); `caller` may do all in north, and nothing elsewhere."""

    def __init__(self) -> None:
        self.house = Household()
        self.front = Front(self.house.zone)
        self.south = self._branch("south", "lab3", "twin")
        self.north = self._branch("north", "lab1", "twin")
        local = self.front.local("ann", "r-1")
        run = self.house.run
        made = run(self.front.create_token(local, "north-only", Role.ADMIN, "north", 600.0))
        self.caller = run(self.front.authenticate(made.token, "192.0.2.9", "r-2"))

    def _branch(self, name: str, *below: str) -> Kid:
        kid = self.house.kid(name)
        kid.open()
        kid.report(lineage=delta([kid.itself(), *(self.house.stranger(name).row(kid.code) for name in below)]))
        return kid

    def said(self, question: Callable[[Front, Caller, str], Awaitable[object]], text: str) -> str:
        async def ask() -> None:
            await question(self.front, self.caller, text)

        with pytest.raises(BanyanError) as error:
            self.house.run(ask())
        assert error.value.code == "no-zone"
        assert error.value.status == 404
        return error.value.text.replace(repr(text), "WHAT WAS ASKED")


@pytest.fixture(scope="module")
def estate() -> Iterator[Estate]:
    made = Estate()
    yield made
    made.house.close()


QUESTIONS: dict[str, Callable[[Front, Caller, str], Awaitable[object]]] = {
    "zone": lambda front, caller, text: front.zone(caller, text),
    "usage": lambda front, caller, text: front.usage(caller, text),
    "zones": lambda front, caller, text: front.zones(caller, text, {}, "path", "", 10),
    "page": lambda front, caller, text: front.page(caller, "hosts", text, {}, "", 10),
    "command": lambda front, caller, text: front.command(caller, "zone.disable", text, {}),
    "token": lambda front, caller, text: front.create_token(caller, "x", Role.VIEWER, text, 60.0),
}


@pytest.mark.parametrize("question", QUESTIONS.values(), ids=QUESTIONS)
@pytest.mark.parametrize(
    "text",
    ["south", "top/south", "south/lab3", "lab3", "top", "south/twin", "sout", "souths", "lab2", "lab33", "lab", "twin"],
)
def test_what_is_not_theirs_is_told_as_what_is_not(
    estate: Estate, question: Callable[[Front, Caller, str], Awaitable[object]], text: str
) -> None:
    """No hint of a similar name, no candidates of an ambiguous one: word for word what nonsense is told."""
    assert estate.said(question, text) == estate.said(question, NONSENSE)


def test_neither_does_a_code_tell_that_there_is_such_a_zone(estate: Estate) -> None:
    there, nowhere = code_text(estate.south.code), code_text(estate.house.stranger("x").code)
    for question in QUESTIONS.values():
        assert estate.said(question, there) == estate.said(question, nowhere)


def test_what_is_theirs_is_found_and_the_local_administrator_gets_hints(estate: Estate) -> None:
    run, front = estate.house.run, estate.front
    assert run(front.zone(estate.caller, "north/twin")).path == "top/north/twin"
    assert run(front.zone(estate.caller, "lab1")).path == "top/north/lab1"
    local = front.local("ann", "r-3")
    for text, hint in (("souths", "did you mean south"), ("twin", "top/south/twin")):
        with pytest.raises(BanyanError, match=hint):
            run(front.zone(local, text))


# --- what children answer ---------------------------------------------------------------------------


def host(zone: str) -> bytes:
    return msgspec.json.encode(HostView(zone, "r", "1", "h1", True, False, False, {}))


DEEP = b"\x91" * 100_000 + b"\x01"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\xc1",
        b"\x92\x80" + DEEP,
        pack(UsageReply({"lh": -1})),
        pack(UsageReply({"lh": 1 << 60})),
        pack(Page((host("top/south"),))),
        pack(Page((host("top/north"),))),
        pack(Page((host("top/north/lab11"),))),
        pack(Page((b"{}",))),
        pack(Page((host("top/north/lab1")[:-1] + b',"new":' + b"[" * 90_000,))),
        pack(Page((), "m" * 100_000)),
        pack(Page((host("top/north/lab1"),) * 11)),
        pack(CommandReply(b"{}")),
        pack(CommandReply(b"[" * 100_000)),
    ],
    ids=range(14),
)
def test_an_answer_that_can_be_none_is_told_as_such(estate: Estate, body: bytes) -> None:
    """Whichever it was to answer: the zone that gave it is named, and nothing of it is shown."""
    assert estate.north.wire is not None
    estate.north.wire.answer = lambda verb, _: Answer(1, body)
    local = estate.front.local("ann", "r-4")
    for ask in (
        lambda: estate.front.usage(local, "north/lab1"),
        lambda: estate.front.page(local, "hosts", "north/lab1", {}, "", 10),
        lambda: estate.front.command(local, "zone.disable", "north/lab1", {}),
    ):
        with pytest.raises(Unreachable, match="^top/north answered for top/north/lab1 what can be no answer") as error:
            estate.house.run(ask())
        assert error.value.code == "bad-answer"
        assert len(error.value.text) < 500


def test_an_answer_is_believed_about_the_zone_that_was_asked(estate: Estate) -> None:
    assert estate.north.wire is not None
    rows = (host("top/north/lab1"), host("top/north/lab1/deeper"))
    estate.north.wire.answer = lambda verb, _: Answer(1, pack(Page(rows, "next", ("top/north/lab1/gone", "top/south"))))
    local = estate.front.local("ann", "r-5")
    page = estate.house.run(estate.front.page(local, "hosts", "north/lab1", {}, "", 10))
    assert tuple(bytes(item) for item in page.items) == rows
    assert (page.marker, page.absent) == ("next", ("top/north/lab1/gone",))
