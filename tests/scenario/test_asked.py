"""What a parent of another version, or one that went mad, may ask of its child: each is answered, and nothing ends."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import msgspec
import pytest

from banyan.core.ids import ZoneCode, parse_code
from banyan.core.messages import CallerInfo, CommandCall, Page, PageQuery, UsageQuery
from banyan.simulate.site import Site
from banyan.simulate.world import World

pack = msgspec.msgpack.encode


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with World() as made:
        top = made.add("top")
        top.start()
        top.wait()
        east = made.add("top/east", hosts=2)
        code = top.ask(
            lambda surface, caller: surface.create_code(
                caller, name="*", driver="*", labels={}, uses=1, expires=3600.0, mode="place", replace=False
            )
        )
        east.start(join_code=code.code)
        made.advance(30.0)
        yield made


def caller(top: Site, **changes: object) -> CallerInfo:
    plain = CallerInfo("ann@local", 3, ZoneCode(parse_code(top.code)), "", "", "192.0.2.9", "r-1")
    return msgspec.structs.replace(plain, **changes)


QUERY = PageQuery("hosts", "", {}, "", 10)


def query(**changes: object) -> bytes:
    return pack(msgspec.structs.replace(QUERY, **changes))


def command(name: str, **arguments: str) -> bytes:
    return pack(CommandCall(name, "", arguments))


BODIES: list[tuple[str, bytes, str]] = [
    ("", b"", "bad-verb"),
    ("migrate", pack({"server": 7}), "bad-verb"),
    ("\x1b[2J" * 40, b"", "bad-verb"),
    ("page", b"", "bad-request"),
    ("page", b"\xc1", "bad-request"),
    ("page", b"\x91" * 200_000, "bad-request"),
    ("page", b"\x97" + pack(QUERY)[1:] + b"\x91" * 200_000, "bad-request"),
    ("page", pack(["hosts", "", {"a": 1}, "", 10]), "bad-request"),
    ("page", pack(["hosts", "", {}, "", 2**64 - 1, "deep"]), "bad-request"),
    ("page", query(limit=0), "bad-limit"),
    ("page", query(limit=-(2**63)), "bad-limit"),
    ("page", query(kind="volumes"), "bad-kind"),
    ("page", query(filters={"no-such": "x"}), "bad-filter"),
    ("page", query(marker="not a marker"), "bad-marker"),
    ("page", query(target="no/such/zone"), "no-zone"),
    ("page", query(target="../\x1b[2J\x00"), "no-zone"),
    ("page", query(target="a/" * 5_000), "no-zone"),
    ("usage", b"", "bad-request"),
    ("usage", pack([[]]), "bad-request"),
    ("usage", pack(UsageQuery("no/such")), "no-zone"),
    ("command", b"\x90", "bad-request"),
    ("command", command("zone.explode"), "bad-command"),
    ("command", command("zone.disable", fuel="much"), "bad-command"),
    ("command", command("zone.disable"), "own-zone"),
]


@pytest.mark.parametrize(("verb", "body", "code"), BODIES, ids=count())
def test_what_can_not_be_answered_ends_only_itself(world: World, verb: str, body: bytes, code: str) -> None:
    top, east = world["top"], world["top/east"]
    zone = ZoneCode(parse_code(east.code))
    answer = top.request(zone, verb, body, caller(top))
    assert (answer.error, 400 <= answer.status < 500) == (code, True), answer
    assert answer.text
    assert len(answer.text) < 1_000
    assert answer.text.isprintable()
    # The same session goes on, and answers what it knows.
    good = top.request(zone, "page", pack(QUERY), caller(top))
    assert len(msgspec.msgpack.decode(good.body, type=Page).rows) == 2
    assert east.uplink.dials <= 2  # one to enrol, one for the session
    assert (east.state, east.starts) == ("running", 1)
    assert world.failures() == []


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"role": 99}, "bad-request"),
        ({"role": -1}, "bad-request"),
        ({"issuer": ZoneCode(77)}, "unknown-issuer"),
        ({"role": 1}, "forbidden"),
    ],
    ids=count(),
)
def test_a_caller_that_can_not_be_is_refused(world: World, changes: dict[str, object], code: str) -> None:
    top, east = world["top"], world["top/east"]
    zone = ZoneCode(parse_code(east.code))
    answer = top.request(zone, "command", command("zone.disable"), caller(top, **changes))
    assert answer.error == code, answer
    assert east.starts == 1
    assert world.failures() == []
