"""Texts that came from another zone, made fit to show: no control characters, no more than there is room for."""

from __future__ import annotations


def shown(text: str, limit: int) -> str:
    """At most `limit` characters of `text`, each printable: what would steer a terminal or a log becomes "�"."""
    text = text[:limit]
    return text if text.isprintable() else "".join(c if c.isprintable() else "\ufffd" for c in text)
