"""A look into the store of a zone that is not running, by the store's own means."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from banyan.core.records import Unit
from banyan.core.secret import Secret
from banyan.serve.clock import SystemClock, SystemIds
from banyan.store.journal import verify
from banyan.store.open import open_store

T = TypeVar("T")


def look(data: Path, work: Callable[[Unit], T]) -> T:
    """The result of `work` in one snapshot."""

    async def read() -> T:
        store = open_store(data, ids=SystemIds(), clock=SystemClock())
        try:
            return await store.read(work)
        finally:
            await store.close()

    return asyncio.run(read())


def change(data: Path, work: Callable[[Unit], T]) -> T:
    """The result of `work` in one committed unit: for making a past that no command makes."""

    async def write() -> T:
        store = open_store(data, ids=SystemIds(), clock=SystemClock())
        try:
            return await store.write("test", work)
        finally:
            await store.close()

    return asyncio.run(write())


def secret(data: Path, name: str) -> Secret:
    found = look(data, lambda unit: unit.keys.get(name))
    assert found is not None, f"no key {name} in {data}"
    return found


def check_journal(unit: Unit) -> None:
    """The chain holds from the first line to the last."""
    broken = verify(unit.journal)
    assert broken is None, f"line {broken.number}: {broken.why}" if broken else ""
