"""What a syslog receiver is sent, against the grammar of RFC 5424, 6."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from banyan.core.receiver import Notice
from banyan.core.severity import Severity
from banyan.core.time import Wall
from banyan.serve.syslog import MOST, MOST_DATAGRAM, message

NOTICE = Notice(
    id="0000002d-7-abcd", zone="top/lab", code="0000002d", kind="child-lost", severity=Severity.CRITICAL,
    outcome="done", target="east", text="not heard", at=Wall(1_796_083_207.25), since=Wall(1_796_083_207.25),
    actor="system", facts={"last": 'a "b" \\c'}, first=7, last=7, means="It is lost.", done="Counted apart.",
    held="Its servers.", next="`banyan zone show east`",
)  # fmt: skip

HEADER = re.compile(
    rb"<(?P<pri>\d{1,3})>1 (?P<time>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,6})?Z) (?P<host>[!-~]{1,255}) "
    rb"(?P<app>[!-~]{1,48}) (?P<proc>[!-~]{1,128}) (?P<msgid>[!-~]{1,32}) "
    rb'(?P<data>(?:\[[!-~]{1,32}(?: [!-~]{1,32}="(?:[^"\\\]]|\\["\\\]])*")*\])+) \xef\xbb\xbf(?P<text>.*)\Z',
    re.DOTALL,
)


def read(whole: bytes) -> re.Match[bytes]:
    found = HEADER.match(whole)
    assert found is not None, whole
    found["text"].decode("utf-8")
    return found


@pytest.mark.parametrize(
    ("severity", "number"), [("critical", 2), ("error", 3), ("warning", 4), ("notice", 5), ("info", 6)]
)
def test_the_priority_is_of_facility_and_severity(severity: str, number: int) -> None:
    found = read(message(replace(NOTICE, severity=Severity(severity)), 16, "lab", 42))
    assert int(found["pri"]) == 16 * 8 + number


def test_a_message_is_as_the_rfc_has_it() -> None:
    found = read(message(NOTICE, 3, "lab one\n", 42))
    assert found["time"] == b"2026-12-01T00:00:07.250Z"
    assert (found["host"], found["app"], found["proc"], found["msgid"]) == (
        b"lab_one_",
        b"banyan",
        b"42",
        b"child-lost",
    )
    assert b'[meta sequenceId="7"]' in found["data"]
    text = found["text"].decode()
    for part in ("top/lab: child-lost east: not heard", "It is lost.", "Done: Counted apart.", "Held: Its servers.",
                 "Next: `banyan zone show east`", "id=0000002d-7-abcd", 'last="a \\"b\\" \\\\c"'):  # fmt: skip
        assert part in text


def test_what_is_too_long_is_cut_between_letters() -> None:
    long = replace(NOTICE, text="ä" * 10_000)
    for most in (MOST, MOST_DATAGRAM):
        whole = message(long, 3, "lab", 42, most)
        assert most - 1 <= len(whole) <= most
        read(whole)


def test_nothing_in_a_text_begins_another_message() -> None:
    hostile = replace(
        NOTICE, target="x\n<0>1 - - - - - -", text="a\x00b\r\n\x1b[2J", kind="k k\n", facts={"a\n": "b\n"}
    )
    whole = message(hostile, 3, "lab", 42)
    assert b"\n" not in whole and b"\x00" not in whole and b"\x1b" not in whole
    assert read(whole)["msgid"] == b"k_k_"


def test_a_sequence_begins_at_one_and_fits() -> None:
    for number in (0, 1, 2**31 - 1, 2**31, 2**40):
        found = re.search(rb'sequenceId="(\d+)"', message(replace(NOTICE, last=number), 3, "h", 1))
        assert found is not None and 1 <= int(found[1]) <= 2**31 - 1
