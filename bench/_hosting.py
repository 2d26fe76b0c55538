"""Many whole zones in one process: `python -m bench._hosting FOLDER CODE_FILE FIRST COUNT HOSTS AT_ONCE`.

Each is what `banyan serve` assembles (serve/run.py, `build`): its own data folder, SQLite store with its threads, keys,
driver, and TLS connection. What is missing is its API and its listener for children, which nobody would ask.
All are made first; then it says "made", waits for a line, and lets them run, at most AT_ONCE of them still without a
session. SIGTERM ends it.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import signal
import sys
import time
from contextlib import AsyncExitStack
from pathlib import Path

import uvloop

from banyan.serve.assemble import Assembled
from banyan.serve.config import load
from banyan.serve.observe import configure
from banyan.serve.run import build
from bench._meters import memory_of, more_files

FILES_PER_ZONE = 24
LOOK = 0.02  # seconds


def say(**words: object) -> None:
    print(json.dumps(words), flush=True)


async def make(stack: AsyncExitStack, folder: Path, name: str, code: str, hosts: int) -> Assembled:
    rack = {"name": "sim", "driver": "sim", "options": {"hosts": hosts}}
    settings = load(None, {"data": str(folder / name), "zone.name": name, "rack": [rack]})
    built = await build(settings, stack)
    await built.zone.accept_code(code)
    return built


async def connected(built: Assembled) -> None:
    """Returns when the zone has a session with its parent."""
    (up,) = built.zone.ups.values()
    while up.side.state != "connected":
        await asyncio.sleep(LOOK)


async def host(folder: Path, code: str, first: int, count: int, hosts: int, at_once: int) -> None:
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    async with AsyncExitStack() as stack:
        empty = memory_of(os.getpid())
        zones = [await make(stack, folder, f"child-{number:05}", code, hosts) for number in range(first, first + count)]
        gc.collect()
        gc.freeze()
        say(word="made", empty_mib=empty)
        await asyncio.to_thread(sys.stdin.readline)
        tasks = []
        begun: dict[str, float] = {}
        room = asyncio.Semaphore(at_once)

        async def begin(built: Assembled) -> None:
            async with room:
                begun[built.zone.own.name] = time.time()
                tasks.append(asyncio.create_task(built.zone.run(), name=built.zone.own.name))
                await connected(built)

        await asyncio.gather(*map(begin, zones))
        say(word="joined", begun=begun)
        await stop.wait()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def main(arguments: list[str]) -> None:
    folder, code_file, *numbers = arguments
    first, count, hosts, at_once = map(int, numbers)
    configure("error", "text")
    more_files(FILES_PER_ZONE * count + 200)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(host(Path(folder), Path(code_file).read_text(), first, count, hosts, at_once))


if __name__ == "__main__":
    main(sys.argv[1:])
