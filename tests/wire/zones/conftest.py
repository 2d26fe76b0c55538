"""Tests of whole zones mostly wait: for leases to end, for zones to come back. So a few of them run ahead at a time.

A test whose only fixture is a folder of its own begins in a thread as soon as one of this directory runs, and pytest
meets its outcome in the usual place, under its own name. Tests that share a cloud run one after the other as ever.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

# Two cores are busy with so many; more would make each of them late.
AHEAD = 8
HERE = Path(__file__).parent


class Ahead:
    """Outcomes by test, each begun once."""

    def __init__(self, items: list[pytest.Function], folders: pytest.TempPathFactory) -> None:
        self._pool = ThreadPoolExecutor(AHEAD, thread_name_prefix="ahead")
        self._outcomes: dict[str, Future[None]] = {}
        for item in items:
            given = dict(item.callspec.params) if hasattr(item, "callspec") else {}
            folder = folders.mktemp(item.originalname[:40])
            self._outcomes[item.nodeid] = self._pool.submit(item.obj, **given, tmp_path=folder)

    def outcome(self, item: pytest.Function) -> Future[None] | None:
        return self._outcomes.get(item.nodeid)

    def end(self) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)


_AHEAD = pytest.StashKey[Ahead]()


def may_run_ahead(item: pytest.Item) -> bool:
    if not isinstance(item, pytest.Function) or HERE not in item.path.parents:
        return False
    given = set(item.callspec.params) if hasattr(item, "callspec") else set()
    return set(inspect.signature(item.obj).parameters) - given == {"tmp_path"}


@pytest.fixture(scope="session", autouse=True)
def ahead(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    items = [item for item in request.session.items if may_run_ahead(item)]
    running = Ahead([item for item in items if isinstance(item, pytest.Function)], tmp_path_factory)
    request.session.stash[_AHEAD] = running
    yield
    running.end()


def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    running = pyfuncitem.session.stash.get(_AHEAD, None)
    outcome = running.outcome(pyfuncitem) if running is not None else None
    if outcome is None:
        return None
    outcome.result()
    return True
