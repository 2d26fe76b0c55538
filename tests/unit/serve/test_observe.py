"""What may stand in a log, whoever said it."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
import structlog

from banyan.serve.observe import configure


@pytest.fixture
def _own_logging() -> Iterator[None]:
    before, root = structlog.get_config(), logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    structlog.configure(**before)
    root.handlers[:] = handlers
    root.setLevel(level)


@pytest.mark.usefixtures("_own_logging")
@pytest.mark.parametrize("style", ["text", "json"])
def test_a_log_is_steered_by_nobody(style: str, capsys: pytest.CaptureFixture[str]) -> None:
    nasty = "gone\x1b]0;owned\x07\x9b1A\u202e\rend"
    configure("info", style)
    structlog.get_logger("test").warning("link.ended", reason=nasty, number=3)
    logging.getLogger("some.library").warning("it said %s", nasty)
    try:
        raise ValueError(nasty)
    except ValueError:
        structlog.get_logger("test").warning("failed", exc_info=True)
    text = capsys.readouterr().err
    assert text.count("owned") >= 3
    assert "Traceback" in text
    assert all(line.isprintable() for line in text.split("\n")), repr(text)
    assert "\\x1b" not in text
    assert "\\u001b" not in text


@pytest.mark.usefixtures("_own_logging")
def test_a_secret_is_masked_before_anything_else_is_done_to_it(capsys: pytest.CaptureFixture[str]) -> None:
    configure("info", "text")
    code = "banyan1." + "A" * 40
    structlog.get_logger("test").warning("said", reason=f"bad\x1b {code}", password="swordfish")
    text = capsys.readouterr().err
    assert code not in text
    assert "swordfish" not in text
