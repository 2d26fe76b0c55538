"""The tree that the clients talk to: a top, a zone below it that only passes on, and a leaf with simulated hosts."""

from __future__ import annotations

import json
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dev.demo import END_WITHIN, READY_WITHIN, DemoFailed, Zone, free_ports, must, simulated

CLOUD = "top"
HOSTS = 4


@contextmanager
def tree(base: Path | None = None) -> Iterator[tuple[Zone, Path]]:
    """The top and the clouds.yaml of its administrator, once every host of the leaf is counted; ended at the end.

    Raises DemoFailed if the tree does not come up. The folder's path is short: a unix socket in it may have 107 bytes.
    """
    folder = base or Path(tempfile.mkdtemp(prefix="banyan-"))
    ports = iter(free_ports(6))

    def zone(name: str, *options: str) -> Zone:
        return Zone(name, folder / name, next(ports), next(ports), options)

    rack = simulated(HOSTS, guests=0, build_seconds=0.2)
    top, mid, leaf = zones = [zone("top"), zone("mid"), zone("leaf", *rack, "--option", 'availability_zones=["edge"]')]
    try:
        top.start()
        for parent, child in ((top, mid), (mid, leaf)):
            code = folder / f"{child.name}.code"
            must(parent, "code", "create", "--out", str(code))
            child.start(code)
        wait_whole(zones)
        clouds = folder / "clouds.yaml"
        must(top, "credentials", "--cloud-name", CLOUD, "--out", str(clouds))
        yield top, clouds
    finally:
        until = time.monotonic() + END_WITHIN
        for one in reversed(zones):
            one.stop()
        for one in reversed(zones):
            one.wait(until)
        if base is None:
            shutil.rmtree(folder, ignore_errors=True)


def wait_whole(zones: list[Zone]) -> None:
    """Until the top counts every host below it."""
    until = time.monotonic() + READY_WITHIN
    while True:
        told = json.loads(must(zones[0], "usage", "--json"))
        if (told.get("hosts") or {}).get("total") == HOSTS:
            return
        for zone in zones:
            zone.check()
        if time.monotonic() > until:
            words = "\n".join(f"--- {zone.name}\n{zone.last_words()}" for zone in zones)
            raise DemoFailed(f"the tree was not whole after {READY_WITHIN:g} s\n{words}")
        time.sleep(0.3)
