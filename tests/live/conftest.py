"""Two clouds for the whole run, and the line that it ends with."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.live.clouds import Lab, LiveCloud, two_clouds
from tests.live.tally import TALLY, Tally

Pair = tuple[tuple[LiveCloud, ...], Lab | None]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "tests/live" in item.nodeid:
            item.add_marker("live")


@pytest.fixture(scope="session")
def pair(pytestconfig: pytest.Config) -> Iterator[Pair]:
    capture = pytestconfig.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled():
        manager = two_clouds()
        found = manager.__enter__()
    TALLY.clouds = len(found[0])
    yield found
    with capture.global_and_fixture_disabled():
        manager.__exit__(None, None, None)


@pytest.fixture(scope="session")
def clouds(pair: Pair) -> tuple[LiveCloud, ...]:
    return pair[0]


@pytest.fixture(scope="session")
def lab(pair: Pair) -> Lab:
    if pair[1] is None:
        pytest.skip("nobody's own cloud is broken on purpose")
    return pair[1]


@pytest.fixture(scope="session")
def tally() -> Tally:
    return TALLY


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    skipped = len(terminalreporter.stats.get("skipped", ()))
    terminalreporter.write_line(f"live: {TALLY.clouds} clouds, {TALLY.compared} figures compared, {skipped} skipped")
