"""What is left out is found, whatever way it was left out."""

from __future__ import annotations

import pytest

from dev.gaps import LEFT_OUT, Gap, left_out, marked, render


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("@pytest.mark.skip(reason='no disk')\ndef test_a(): ...", "skip: no disk"),
        ("@pytest.mark.skipif(True, reason='old')\ndef test_a(): ...", "skipif: old"),
        ("@pytest.mark.xfail\ndef test_a(): ...", "xfail: no reason given"),
        ("def test_a():\n    pytest.skip('not here')", "skip: not here"),
        ("def test_a():\n    pytest.importorskip('libvirt')", "importorskip: libvirt"),
        ("@unittest.skipUnless(False, 'x')\ndef test_a(): ...", "skipUnless: x"),
    ],
)
def test_every_way_to_leave_a_test_out_is_found(text: str, what: str) -> None:
    assert [(gap.kind, gap.what) for gap in left_out(text, "t.py")] == [(LEFT_OUT, what)]


def test_a_gap_names_the_function_it_is_in() -> None:
    text = "class TestA:\n    def test_b(self):\n        pytest.skip('c')"
    assert [gap.where for gap in left_out(text, "t.py")] == ["t.py TestA.test_b"]


def test_other_things_called_skip_are_none() -> None:
    assert not list(left_out("def f(rows):\n    rows.skip(3)\n    skip = 1", "t.py"))


def test_marks_in_comments_are_found() -> None:
    text = """
x = 1  # gap: no retries yet
# stand-in: a file for the bus
<!-- not-offered: IPv4 only -->
# a gap: no
`# gap: …` is how it is written
"""
    assert [(gap.kind, gap.what) for gap in marked(text, "x.py")] == [
        ("not done yet", "no retries yet"),
        ("stands in for a real part", "a file for the bus"),
        ("not offered", "IPv4 only"),
    ]


def test_the_count_comes_first() -> None:
    text = render([Gap("not done yet", "a.py", "b"), Gap(LEFT_OUT, "t.py", "skip: c")])
    assert "2 in all: 1 not done yet, 0 not offered, 0 stands in for a real part, 1 left out of the tests." in text
    assert "- `a.py`: b" in text
