"""Two clouds for the whole run, and the line that it ends with."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.live.clouds import Lab, LiveCloud, two_clouds
from tests.live.tally import TALLY, Tally

Pair = tuple[tuple[LiveCloud, ...], Lab | None]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """A plain `pytest` starts no clouds: the folder or the marker must be asked for."""
    mine = [item for item in items if "tests/live" in item.nodeid]
    for item in mine:
        item.add_marker("live")
    if mine and not any("live" in word for word in config.invocation_params.args):
        config.hook.pytest_deselected(items=mine)
        items[:] = [item for item in items if item not in mine]


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


_last_line = pytest.StashKey[str]()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    stats = terminalreporter.stats
    failed = len(stats.get("failed", ())) + len(stats.get("error", ()))
    broken = f", {failed} FAILED" if failed else ""
    skipped = len(stats.get("skipped", ()))
    if TALLY.clouds:
        line = f"live: {TALLY.clouds} clouds, {TALLY.compared} figures compared, {skipped} skipped{broken}"
        config.stash[_last_line] = line


def pytest_unconfigure(config: pytest.Config) -> None:
    """The very last line of a run."""
    if line := config.stash.get(_last_line, ""):
        print(line, flush=True)
