"""Two real clouds join one top over the real link, by the real command line; the top's totals are the clouds' sum."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

import pytest
import yaml

from tests.live.clouds import Lab, LiveCloud
from tests.live.figures import Figures, figures
from tests.live.proxy import Proxy
from tests.live.servers import made
from tests.live.tally import Tally
from tests.live.zones import Zone


@dataclass
class Tree:
    """A top and one zone beside each cloud. Each zone reaches its cloud through a proxy that writes down."""

    top: Zone
    zones: list[Zone]
    clouds: tuple[LiveCloud, ...]
    proxies: list[Proxy]
    codes: list[str]
    joined_after: float

    def usage(self, zone: Zone | None = None) -> dict:
        found = (zone or self.top).ask("usage")
        assert isinstance(found, dict), f"usage must always answer; {self.top.tail()}"
        return found

    def listed(self) -> dict[str, dict]:
        found = self.top.ask("zone", "list")
        return {zone["name"]: zone for zone in found} if isinstance(found, list) else {}


@pytest.fixture(scope="module", params=["as it is", "as old as Train"])
def tree(
    request: pytest.FixtureRequest, clouds: tuple[LiveCloud, ...], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Tree]:
    folder = tmp_path_factory.mktemp("zones")
    with ExitStack() as stack:
        top = Zone(folder, "top")
        top.start()
        stack.callback(ended, top)
        top.until("the top is up", lambda: top.ask("status"))
        began = monotonic()
        zones, proxies, codes = [], [], []
        for cloud in clouds:
            proxy = Proxy(cloud, train=request.param != "as it is")
            stack.callback(proxy.close)
            proxies.append(proxy)
            path = proxy.clouds_yaml(folder / f"{cloud.name}-clouds.yaml", cloud.admin)
            code = top.ask("code", "create")
            assert isinstance(code, dict)
            codes.append(code["code"])
            code_file = folder / f"{cloud.name}.code"
            code_file.touch(mode=0o600)
            code_file.write_text(code["code"] + "\n")
            arguments = ("--join-code-file", str(code_file), "--driver", "openstack", "--cloud", cloud.admin)
            zone = Zone(folder, cloud.name, arguments, {"OS_CLIENT_CONFIG_FILE": str(path)})
            zone.start()
            stack.callback(ended, zone)
            zones.append(zone)
        tree = Tree(top, zones, clouds, proxies, codes, 0.0)

        def all_ready() -> bool | None:
            states = [zone["state"] for zone in tree.listed().values()]
            return True if states == ["ready"] * len(clouds) else None

        top.until("both clouds are ready, with no hand on them", all_ready)
        tree.joined_after = monotonic() - began
        yield tree


def ended(zone: Zone) -> None:
    assert zone.stop() == 0, zone.tail()


def total(all: list[Figures]) -> dict:
    """The sum, in the form of `banyan usage`."""
    resources = {
        cls: {kind: sum(f.amounts[cls][index] for f in all) for index, kind in enumerate(("physical", "total", "used"))}
        for cls in all[0].amounts
    }
    guests: Counter[str] = Counter()
    for f in all:
        guests.update(f.guests)
    counts = {
        "total": sum(f.hosts for f in all),
        "up": sum(f.up for f in all),
        "disabled": sum(f.disabled for f in all),
    }
    return {"resources": resources, "hosts": counts, "guests": dict(guests)}


def standing(usage: dict, classes: object) -> dict:
    """The part of `banyan usage` that is compared; states without guests are left out."""
    return {
        "resources": {cls: usage["resources"].get(cls, {}) for cls in classes},
        "hosts": usage["hosts"],
        "guests": {state: count for state, count in usage["guests"].items() if count},
    }


def compare(tree: Tree, tally: Tally, live: list[LiveCloud] | None = None) -> dict:
    """Waits until the top shows the sum of these clouds' own figures, and compares it figure by figure."""
    shown: dict = {}

    def agreed() -> bool | None:
        nonlocal shown
        theirs = total([figures(cloud) for cloud in live or tree.clouds])
        shown = tree.usage()
        return True if standing(shown, theirs["resources"]) == theirs else None

    # Which figure differs, if one does, is told below.
    with suppress(AssertionError):
        tree.top.until("the top shows what the clouds report", agreed, 60)
    theirs = total([figures(cloud) for cloud in live or tree.clouds])
    ours = standing(tree.usage(), theirs["resources"])
    for cls, amounts in theirs["resources"].items():
        tally.each(f"top: {cls}", ours["resources"][cls], amounts)
    tally.each("top: hosts", ours["hosts"], theirs["hosts"])
    tally.each("top: guests", ours["guests"], theirs["guests"])
    return shown


def test_both_joined_by_themselves(tree: Tree, tally: Tally) -> None:
    print(f"\nlive: both ready {tree.joined_after:.1f} s after their codes were made")
    listed = tree.listed()
    for zone in tree.zones:
        row = listed[zone.name]
        assert (row["state"], row["health"], row["admin"]) == ("ready", "alive", "enabled")
        assert row["path"] == f"top/{zone.name}"
    zones = tree.usage()["zones"]
    assert (zones["total"], zones["ready"], zones["alive"]) == (2, 2, 2)


def test_the_tops_totals_are_the_sum_of_what_the_clouds_report(tree: Tree, tally: Tally) -> None:
    usage = compare(tree, tally)
    assert usage["as_of"]
    assert usage["unknown"]["hosts"] == 0
    for zone, cloud in zip(tree.zones, tree.clouds, strict=True):
        theirs = total([figures(cloud)])
        own = standing(tree.usage(zone), theirs["resources"])
        for cls, amounts in theirs["resources"].items():
            tally.each(f"{zone.name}: {cls}", own["resources"][cls], amounts)
        tally.each(f"{zone.name}: hosts", own["hosts"], theirs["hosts"])


def test_and_after_servers_were_made_there_and_after_they_went(tree: Tree, tally: Tally) -> None:
    with made(tree.clouds[0], 2) as some, made(tree.clouds[1], 3) as more:
        compare(tree, tally)
        servers = tree.top.ask("server", "list", "--limit", "1000")
        assert isinstance(servers, list)
        assert {server["id"] for server in servers} >= {*some, *more}
        rows = tree.top.ask("use", "--limit", "1000")
        assert isinstance(rows, list)
        ours = {row["project"]: (row["servers"], row["vcpu"], row["memory_mib"]) for row in rows}
        for cloud in tree.clouds:
            theirs = figures(cloud).projects
            tally.each(f"{cloud.name}: use", {project: ours.get(project) for project in theirs}, theirs)
    compare(tree, tally)


def test_a_rack_says_what_it_is(tree: Tree) -> None:
    racks = tree.top.ask("rack", "list")
    assert isinstance(racks, list)
    assert len(racks) == 2
    for rack in racks:
        assert (rack["driver"], rack["health"], rack["capacity"], rack["basis"]) == (
            "openstack",
            "available",
            "shared",
            "hosts",
        )


@pytest.mark.parametrize("tree", ["as it is"], indirect=True)
def test_a_dead_cloud_is_unknown_not_summed_and_comes_back(tree: Tree, tally: Tally, lab: Lab) -> None:
    cloud, zone = tree.clouds[1], tree.zones[1]
    held = total([figures(cloud)])
    lab.fault(cloud.lab, "kill", "cloud")
    try:

        def unavailable() -> dict | None:
            row = tree.listed().get(zone.name, {})
            return row if row.get("health") == "unavailable" else None

        row = tree.top.until("the dead cloud is unavailable", unavailable, 60)
        assert "Keystone" in row["reason"] or "Nova" in row["reason"]
        compare(tree, tally, [tree.clouds[0]])
        unknown = tree.usage()["unknown"]
        tally.same("unknown hosts", unknown["hosts"], held["hosts"]["total"])
        for cls, amounts in held["resources"].items():
            tally.each(f"unknown {cls}", unknown["resources"][cls], amounts)
        assert unknown["as_of"]
    finally:
        lab.fault(cloud.lab, "start", "cloud")

    def back() -> bool | None:
        return True if tree.listed().get(zone.name, {}).get("health") == "alive" else None

    tree.top.until("the cloud is back", back, 90)
    compare(tree, tally)
    assert tree.usage()["unknown"]["hosts"] == 0


def test_only_get_and_token_requests_were_sent(tree: Tree) -> None:
    for proxy in tree.proxies:
        assert len(proxy.log) > 50
        assert proxy.writes() == []


def test_no_secret_is_left_behind(tree: Tree) -> None:
    """Neither the cloud's password nor a join code's text: in no log, no data folder, no command line."""
    secrets = list(tree.codes)
    for cloud in tree.clouds:
        secrets.append(yaml.safe_load(cloud.clouds_file.read_text())["clouds"][cloud.admin]["auth"]["password"])
    for zone in (tree.top, *tree.zones):
        assert zone.process is not None
        places = [zone.log, Path(f"/proc/{zone.process.pid}/cmdline")]
        places += [path for path in zone.data.rglob("*") if path.is_file()]
        for place in places:
            content = place.read_bytes()
            assert not [secret for secret in secrets if secret.encode() in content], place
