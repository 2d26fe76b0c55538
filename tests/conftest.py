"""What holds for every test of the house."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
import structlog


@pytest.fixture(autouse=True)
def log_of_its_own() -> Iterator[None]:
    """A test that starts a whole program in this process sets up its log, on a standard error that ends with the test.

    The next one would write to a closed file, and which test that is depends on the order they run in.
    """
    before = structlog.get_config()
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    structlog.configure(**before)
    root.handlers[:] = handlers
    root.setLevel(level)
