"""Servers made in a cloud with OpenStack's own client, and removed again: only what was made here is touched."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from time import monotonic, sleep

from tests.live.clouds import LiveCloud, client
from tests.live.figures import Direct

PREFIX = "banyan-live"


def openstack(cloud: LiveCloud, *arguments: str, entry: str = "", timeout: float = 300.0) -> str:
    """What OpenStack's client says."""
    words, environment = client(cloud, entry or cloud.user)
    done = subprocess.run(
        [*words, *arguments],
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    assert done.returncode == 0, f"openstack {' '.join(arguments)}: {done.stderr[-2000:]}"
    return done.stdout


@cache
def smallest(cloud: LiveCloud) -> tuple[str, str]:
    """(flavor, image) to boot from: BANYAN_LIVE_FLAVOR and BANYAN_LIVE_IMAGE, else the smallest and the first."""
    flavors = json.loads(openstack(cloud, "flavor", "list", "-f", "json"))
    images = json.loads(openstack(cloud, "image", "list", "--status", "active", "-f", "json"))
    flavor = os.environ.get("BANYAN_LIVE_FLAVOR") or min(flavors, key=lambda f: (f["RAM"], f["VCPUs"]))["ID"]
    return flavor, os.environ.get("BANYAN_LIVE_IMAGE") or images[0]["ID"]


@contextmanager
def made(cloud: LiveCloud, count: int) -> Iterator[list[str]]:
    """`count` servers that run; deleted, and seen to be gone, at the end. The client takes seconds to start: twice."""
    flavor, image = smallest(cloud)
    name = f"{PREFIX}-{os.getpid()}-{os.urandom(3).hex()}"
    direct = Direct(cloud.clouds_file, cloud.user)
    try:
        openstack(
            cloud,
            *("--os-compute-api-version", "2.79", "server", "create"),
            *("--image", image, "--flavor", flavor, "--nic", "none"),
            *("--min", str(count), "--max", str(count), name),
        )
        yield _running(direct, name, count)
    finally:
        found = [server["id"] for server in _named(direct, name)]
        if found:
            openstack(cloud, "server", "delete", *found)
        _gone(cloud, direct, name, found)


def _named(direct: Direct, name: str) -> list[dict]:
    """The servers whose names begin so; nobody else's do."""
    return direct.pages("compute", "/servers/detail", "servers", "compute 2.79", name=f"^{name}")


def _running(direct: Direct, name: str, count: int) -> list[str]:
    """The ids of the servers, once all of them run."""
    end = monotonic() + 180
    while True:
        servers = _named(direct, name)
        states = [server["status"] for server in servers]
        if states == ["ACTIVE"] * count:
            return [server["id"] for server in servers]
        assert "ERROR" not in states, servers
        assert monotonic() < end, f"{count} servers should run by now: {states}"
        sleep(0.5)


def _gone(cloud: LiveCloud, direct: Direct, name: str, ids: list[str]) -> None:
    """Returns when the servers are gone and placement holds nothing for them."""
    admin = Direct(cloud.clouds_file, cloud.admin)
    end = monotonic() + 120
    while _named(direct, name) or any(admin.placement(f"/allocations/{id}")["allocations"] for id in ids):
        assert monotonic() < end, f"servers {ids} should be gone by now"
        sleep(0.5)


@contextmanager
def swept(cloud: LiveCloud) -> Iterator[None]:
    """Projects that Banyan made in the cloud meanwhile are removed: it keeps them, as others may need them."""
    direct = Direct(cloud.clouds_file, cloud.admin)

    def made_by_banyan() -> set[str]:
        projects = direct.get("identity", "/projects")["projects"]
        return {project["id"] for project in projects if project["name"].startswith("banyan-")}

    before = made_by_banyan()
    try:
        yield
    finally:
        if fresh := made_by_banyan() - before:
            openstack(cloud, "project", "delete", *sorted(fresh), entry=cloud.admin)
