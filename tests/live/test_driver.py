"""The driver on real clouds, through a proxy that writes down each request: exact, read-only, down to Train, cheap."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from banyan.core.rack import Basis, RackHealth
from banyan.drivers.openstack import REGISTRATION, OpenStackDriver
from banyan.drivers.registry import DriverContext
from banyan.serve.clock import SystemClock, SystemIds
from tests.live.clouds import Lab, LiveCloud
from tests.live.figures import Direct, Figures, figures
from tests.live.proxy import Proxy
from tests.live.servers import made
from tests.live.tally import Tally
from tests.unit.drivers.openstack.seen import Seen, refused, seen

# The most requests of one scan of these clouds, whatever the hosts and servers: 13 lists, Keystone's version and token,
# two version documents, and the limits of a few projects.
MOST_REQUESTS = 17 + 20


@dataclass
class Route:
    """A driver's way to one cloud."""

    cloud: LiveCloud
    proxy: Proxy
    path: Path

    def driver(self, entry: str = "", **options: object) -> OpenStackDriver:
        context = DriverContext(self.cloud.name, SystemClock(), SystemIds(), requests_per_second=200.0)
        settings = {"cloud": entry or self.cloud.admin, "clouds_file": str(self.path), **options}
        driver = REGISTRATION.open(settings, context)
        assert isinstance(driver, OpenStackDriver)
        return driver

    def scan(self, entry: str = "", **options: object) -> Seen:
        async def whole() -> Seen:
            driver = self.driver(entry, **options)
            try:
                return await seen(driver)
            finally:
                await driver.close()

        return asyncio.run(whole())


@pytest.fixture(scope="module", params=["as it is", "as old as Train"])
def routes(
    request: pytest.FixtureRequest, clouds: tuple[LiveCloud, ...], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[list[Route]]:
    with ExitStack() as stack:
        found = []
        for cloud in clouds:
            proxy = Proxy(cloud, train=request.param != "as it is")
            stack.callback(proxy.close)
            path = tmp_path_factory.mktemp("clouds") / "clouds.yaml"
            found.append(Route(cloud, proxy, proxy.clouds_yaml(path, cloud.admin, cloud.user)))
        yield found


def compare(tally: Tally, route: Route) -> None:
    """Our scan against the cloud's own word, which must be the same before and after it."""
    for _ in range(5):
        theirs = figures(route.cloud)
        result = route.scan()
        if figures(route.cloud) == theirs:
            break
    else:
        pytest.fail(f"cloud {route.cloud.name} never stood still for one scan")
    agree(tally, route.cloud.name, result, theirs)


def agree(tally: Tally, name: str, result: Seen, theirs: Figures) -> None:
    assert result.end.basis is Basis.HOSTS
    for cls, amounts in theirs.amounts.items():
        ours = result.total(cls)
        for kind, mine, own in zip(
            ("physical", "total", "used"), (ours.physical, ours.total, ours.used), amounts, strict=True
        ):
            tally.same(f"{name}: {cls} {kind}", mine, own)
    hosts = result.hosts.values()
    tally.same(f"{name}: hosts", len(hosts), theirs.hosts)
    tally.same(f"{name}: hosts up", sum(host.up for host in hosts), theirs.up)
    tally.same(f"{name}: hosts disabled", sum(host.disabled for host in hosts), theirs.disabled)
    tally.each(f"{name}: guests", dict(Counter(str(guest.state) for guest in result.guests)), theirs.guests)
    tally.each(f"{name}: ", {kind: len(getattr(result.end, kind)) for kind in theirs.catalogue}, theirs.catalogue)
    use: dict[str, tuple[int, int, int]] = {}
    for guest in result.guests:
        before = use.get(guest.project, (0, 0, 0))
        use[guest.project] = (before[0] + 1, before[1] + guest.vcpu, before[2] + guest.memory_mib)
    tally.each(f"{name}: use of project", use, theirs.projects)


def test_what_the_driver_counts_is_what_the_clouds_report(routes: list[Route], tally: Tally) -> None:
    for route in routes:
        compare(tally, route)


def test_and_so_it_is_after_servers_were_made_and_removed(routes: list[Route], tally: Tally) -> None:
    for number, route in enumerate(routes, 2):
        with made(route.cloud, number) as ids:
            compare(tally, route)
            guests = {guest.id: guest for guest in route.scan().guests}
            assert guests.keys() >= set(ids)
            assert all(guests[id].host for id in ids)
        compare(tally, route)


def test_microversions_are_what_the_cloud_offers(routes: list[Route]) -> None:
    for route in routes:
        route.scan()
        assert route.proxy.versions("compute") == {"compute 2.79" if route.proxy.train else "compute 2.87"}
        newest = "1.36" if route.proxy.train else "1.39"
        assert route.proxy.versions("placement") == {f"placement {newest}"}


def test_the_check_is_well(routes: list[Route]) -> None:
    async def whole(driver: OpenStackDriver) -> None:
        try:
            findings = await driver.check()
            assert [finding for finding in findings if not finding.ok] == []
            assert await driver.probe() == (RackHealth.AVAILABLE, "")
        finally:
            await driver.close()

    for route in routes:
        asyncio.run(whole(route.driver()))


def test_credentials_of_a_project_count_its_quota(routes: list[Route], tally: Tally, lab: Lab) -> None:
    for route in routes:
        limits = Direct(route.cloud.clouds_file, route.cloud.user).compute("/limits")["limits"]["absolute"]
        result = route.scan(route.cloud.user)
        assert result.end.basis is Basis.QUOTA
        assert result.end.facts["capacity"] == "quota"
        for cls, most, used in (
            ("vcpu", "maxTotalCores", "totalCoresUsed"),
            ("memory_mib", "maxTotalRAMSize", "totalRAMUsed"),
        ):
            ours = result.total(cls)
            whole = limits[used] if limits[most] < 0 else limits[most]
            tally.same(f"{route.cloud.name}: quota of {cls}", ours.total, whole)
            tally.same(f"{route.cloud.name}: used of quota of {cls}", ours.used, limits[used])


def test_a_scan_costs_few_requests(routes: list[Route]) -> None:
    for route in routes:
        before = len(route.proxy.log)
        result = route.scan()
        assert len(route.proxy.log) - before == result.end.requests <= MOST_REQUESTS


def test_nothing_but_get_and_token_requests_was_sent(routes: list[Route]) -> None:
    """Last in its module: all that the others did went through these proxies."""
    for route in routes:
        assert len(route.proxy.log) > 50
        assert route.proxy.writes() == []


# --- faults ---------------------------------------------------------------------------------------


def direct(cloud: LiveCloud) -> OpenStackDriver:
    context = DriverContext(cloud.name, SystemClock(), SystemIds(), requests_per_second=200.0)
    settings = {"cloud": cloud.admin, "clouds_file": str(cloud.clouds_file), "timeout": 5.0}
    driver = REGISTRATION.open(settings, context)
    assert isinstance(driver, OpenStackDriver)
    return driver


@pytest.mark.parametrize(
    ("breaks", "heals", "target", "words"),
    [
        ("freeze", "thaw", "nova-api", ("Nova did not answer", "within 5 s")),
        ("freeze", "thaw", "placement", ("Placement did not answer", "within 5 s")),
        ("kill", "start", "keystone", ("Keystone", "cannot be reached", "connection refused")),
        ("kill", "start", "cloud", ("Keystone", "cannot be reached", "connection refused")),
    ],
)
def test_a_broken_cloud_is_unavailable_says_why_and_comes_back(
    lab: Lab, clouds: tuple[LiveCloud, ...], breaks: str, heals: str, target: str, words: tuple[str, ...]
) -> None:
    cloud = clouds[1]

    async def story() -> None:
        driver = direct(cloud)
        try:
            before = await seen(driver)
            await asyncio.to_thread(lab.fault, cloud.lab, breaks, target)
            try:
                # A token that was had before is good for a while: what a restart of ours would meet is looked at here.
                driver._cloud.forget()
                error = await refused(driver)
                for word in words:
                    assert word in error.text
                health, reason = await driver.probe()
                assert health is RackHealth.UNAVAILABLE
                assert reason
            finally:
                await asyncio.to_thread(lab.fault, cloud.lab, heals, target)
            async with asyncio.timeout(60):
                while (await driver.probe())[0] is not RackHealth.AVAILABLE:
                    await asyncio.sleep(0.5)
            assert (await seen(driver)).hosts.keys() == before.hosts.keys()
        finally:
            await driver.close()

    asyncio.run(story())
