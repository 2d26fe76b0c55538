"""Texts that came from elsewhere, made fit to show: nothing in them steers a terminal or a log."""

from __future__ import annotations


def printable(text: str) -> str:
    """`text` as one line: whatever is not printable (controls, line ends, turns of direction) becomes "\ufffd"."""
    return text if text.isprintable() else "".join(c if c.isprintable() else "\ufffd" for c in text)


def printable_lines(text: str) -> str:
    """`text` with its line ends, each line made printable."""
    return text if text.isprintable() else "\n".join(map(printable, text.split("\n")))


def shown(text: str, limit: int) -> str:
    """At most `limit` characters of `text`, made printable."""
    return printable(text[:limit])
