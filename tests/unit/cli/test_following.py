"""usage --watch and journal --follow: over and over, across a zone that goes and comes back."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import Iterator

import pytest

from banyan.cli.client import Client, Event, read_events
from banyan.cli.journal import TRIES, stream
from banyan.cli.output import Screen
from banyan.cli.session import Session
from banyan.cli.usage import follow
from banyan.core.errors import Refused, Unreachable
from banyan.zone.views import JournalView, UsageView
from tests.api.surface import NOW, usage_view
from tests.unit.cli.conftest import Zone


def line(number: int) -> Event:
    view = JournalView(number, NOW, "k", "t", "a", "", "", "", "x", {}, "done", "")
    return Event("line", str(number), json.dumps({f: getattr(view, f) for f in view.__struct_fields__}).encode())


class Scripted(Client):
    """Answers from a script; an exception in it is raised."""

    def __init__(self, script: list[object]) -> None:
        self.script = script
        self.asked: list[str] = []
        self.absent = []

    def get(self, path: str, into: type[object], **query: object) -> object:
        step = self.script.pop(0)
        if isinstance(step, Exception):
            raise step
        return step

    def events(self, path: str, last: str, query: object) -> Iterator[Event]:
        self.asked.append(last)
        step = self.script.pop(0)
        if isinstance(step, Exception):
            raise step
        assert isinstance(step, list)
        yield from step


def test_usage_is_shown_again_and_again_and_says_when_it_is_not_fresh() -> None:
    out = io.StringIO()
    client = Scripted([usage_view(), Unreachable("not-running", "no zone runs there"), usage_view()])
    waits: list[float] = []
    assert follow(Session(client, Screen(json=False, out=out, err=io.StringIO())), "", 2.0, waits.append, rounds=3) == 0
    shown = out.getvalue()
    assert shown.count("1,200") == 3
    assert shown.count("not fresh: no zone runs there") == 1
    assert waits == [2.0, 2.0]


def test_a_refusal_ends_watching() -> None:
    client = Scripted([usage_view(), Refused("forbidden", "no more")])
    with pytest.raises(Refused):
        follow(Session(client, Screen(json=False, out=io.StringIO())), "", 2.0, lambda _: None, rounds=3)


def test_watching_is_for_people(zone: Zone) -> None:
    assert zone.say("usage", "--watch", "--json").status == 2
    assert zone.say("usage", "--watch", "--interval", "0").status == 2


def test_a_journal_is_followed_over_cuts_from_the_last_number() -> None:
    client = Scripted(
        [[line(4), line(5)], Unreachable("connection-lost", "x"), [line(6)], [], Refused("forbidden", "x")]
    )
    seen: list[JournalView] = []
    with pytest.raises(Refused):
        seen.extend(stream(client, {}, 3, lambda _: None))
    assert [one.number for one in seen] == [4, 5, 6]
    assert client.asked == ["3", "5", "5", "6", "6"]


def test_following_has_a_budget_that_a_line_renews() -> None:
    gone = Unreachable("not-running", "x")
    client = Scripted([*[gone] * (TRIES - 1), [line(1)], *[gone] * TRIES])
    waits: list[float] = []
    with pytest.raises(Unreachable):
        list(stream(client, {}, 0, waits.append))
    assert not client.script
    assert len(waits) == 2 * TRIES - 1


def test_the_zones_last_word_ends_following() -> None:
    end = Event("end", "", b'{"error":{"code":"token-revoked","text":"revoked","request":"r"}}')
    with pytest.raises(Refused) as caught:
        list(stream(Scripted([[line(1), end]]), {}, 0, lambda _: None))
    assert caught.value.code == "token-revoked"


def test_events_are_read_as_the_standard_says() -> None:
    lines = [": hello", "id: 7", "event: line", "data: {}", "", "data:x", "", "event: only", "", "id: 8", "data: y", ""]
    assert list(read_events(iter(lines))) == [
        Event("line", "7", b"{}"), Event("message", "7", b"x"), Event("message", "8", b"y"),
    ]  # fmt: skip


def test_a_stream_over_the_socket(zone: Zone) -> None:
    from banyan.cli.client import connect
    from banyan.cli.target import Socket

    with connect(Socket(zone.folder)) as client:
        lines = stream(client, {"kind": "zone-*"}, 3, lambda _: None)
        asyncio.run_coroutine_threadsafe(zone.surface.grow("other", "x"), zone.loop).result(5)
        asyncio.run_coroutine_threadsafe(zone.surface.grow("zone-banned", "north"), zone.loop).result(5)
        assert next(lines).number == 5
        lines.close()


def test_the_journals_last_lines_and_those_after_a_number(zone: Zone) -> None:
    for n in range(80):
        zone.surface.write("tick" if n % 2 else "tock", f"t{n}")

    def numbers(*words: str) -> list[int]:
        return [one["number"] for one in json.loads(zone.say("journal", "--json", *words).out)]

    assert numbers() == list(range(34, 84))
    assert numbers("--limit", "2") == [82, 83]
    assert numbers("--after", "1", "--limit", "3") == [2, 3, 4]
    assert numbers("--kind", "tick", "--limit", "2") == [81, 83]
    assert numbers("--about", "t0") == [4]


def test_what_a_request_left_is_looked_for_in_all_journals(zone: Zone) -> None:
    found = json.loads(zone.say("journal", "--json", "--request", "req-12").out)
    assert len({one["zone"] for one in found}) > 1
    assert {one["request"] for one in found} == {"req-12"}
    shown = zone.say("journal", "--request", "req-12").out
    assert "ZONE" in shown and found[0]["zone"] in shown
    refused = zone.say("journal", "--request", "req-12", "--kind", "x")
    assert refused.status == 2 and "--request" in refused.err
    assert zone.say("journal", "--request", "a/b").status == 2


def test_a_picture_without_capacity_is_drawn_too() -> None:
    from banyan.cli.picture import picture, quantity

    empty = UsageView(
        **{f: getattr(usage_view(), f) for f in UsageView.__struct_fields__} | {"resources": {}, "guests": {}}
    )
    Screen(json=False, out=io.StringIO()).render(picture(empty))
    Screen(json=False, out=io.StringIO()).render(picture(None, "away"))
    assert quantity("memory_mib", 3 * 1024 * 1024) == "3 TiB"
    assert quantity("memory_mib", 1536) == "1.5 GiB"
    assert quantity("disk_gib", 5) == "5 GiB"
    assert quantity("custom_gpu", 1234) == "1,234"
