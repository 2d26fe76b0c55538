"""A cloud that is slow, failing, closed, lying or gone: unavailable, with a reason a person understands, and back."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from banyan.core.rack import RackHealth
from banyan.core.records import DriverUnavailable
from banyan.drivers.openstack import REGISTRATION, OpenStackDriver, asking
from tests.unit.drivers.fakes import StillClock, context
from tests.unit.drivers.openstack.conftest import Make
from tests.unit.drivers.openstack.seen import refusal, refused, scan, scans, seen
from tests.unit.drivers.openstack.serving import Fault
from tests.unit.drivers.openstack.standin import PASSWORD, TOKEN, Json, StandIn
from tests.unit.drivers.openstack.test_scan import filled


def ends(driver: OpenStackDriver, act: Callable[[], Awaitable[object]]) -> None:
    asyncio.run(asyncio.wait_for(_all(driver, act), 30))


async def _all(driver: OpenStackDriver, act: Callable[[], Awaitable[object]]) -> None:
    try:
        await act()
    finally:
        await driver.close()


def told(error: DriverUnavailable, *words: str) -> None:
    """The text names the rack and the cloud, holds these words, says what to do, and no secret."""
    for word in ("rack 'lab'", "cloud 'standin'", *words):
        assert word in error.text
    assert PASSWORD not in error.text + error.detail
    assert TOKEN not in error.text + error.detail
    assert len(error.text) < 900


def test_nobody_listens(cloud: StandIn, make: Make) -> None:
    driver = make()
    cloud.close()
    told(refusal(driver), "Keystone", "cannot be reached", "connection refused")


def test_one_service_is_down(cloud: StandIn, make: Make) -> None:
    filled(cloud)
    cloud.fail("/compute", Fault(cut=True))
    error = refusal(make())
    assert error.code == "openstack-unreachable"
    told(error, "Nova", "closes connections without an answer")


def test_a_connection_that_was_cut_is_made_again(cloud: StandIn, make: Make) -> None:
    """uWSGI and many a proxy close idle connections without a word."""
    filled(cloud)
    cloud.fail("/compute", Fault(cut=True, times=1))
    assert len(scan(make()).hosts) == 3


def test_a_name_that_does_not_resolve(cloud: StandIn, make: Make) -> None:
    driver = make()
    cloud.clouds_yaml(Path(driver._options.clouds_file).parent, auth_url="http://keystone.invalid:5000/v3")
    told(refusal(driver), "Keystone", "cannot be resolved")


def test_a_wrong_password(cloud: StandIn, make: Make) -> None:
    cloud.password = "another"
    error = refusal(make())
    assert error.code == "openstack-credentials"
    told(error, "Keystone refused the credentials", "requires authentication", "clouds.yaml")


def test_credentials_that_stop_working_and_come_back(cloud: StandIn, make: Make) -> None:
    filled(cloud)
    driver = make()

    async def story() -> None:
        await seen(driver)
        cloud.password = "another"
        cloud.revoke_tokens()
        assert (await refused(driver)).code == "openstack-credentials"
        health, reason = await driver.probe()
        assert health is RackHealth.UNAVAILABLE
        assert "refused the credentials" in reason
        # The operator puts the new password into clouds.yaml: no restart is needed.
        cloud.clouds_yaml(Path(driver._options.clouds_file).parent, password="another")
        assert len((await seen(driver)).hosts) == 3
        assert await driver.probe() == (RackHealth.AVAILABLE, "")

    ends(driver, story)


def test_a_token_that_ran_out_is_replaced(cloud: StandIn, make: Make) -> None:
    filled(cloud)
    driver = make()

    async def story() -> None:
        await seen(driver)
        cloud.revoke_tokens()
        assert len((await seen(driver)).guests) == 4

    ends(driver, story)
    assert sum(1 for method, *_ in cloud.log if method == "POST") == 2


def test_a_service_that_trusts_no_token(cloud: StandIn, make: Make) -> None:
    filled(cloud)
    cloud.fail("/os-hypervisors", Fault(401, b'{"error": {"message": "The request you have made"}}'))
    error = refusal(make())
    assert error.code == "openstack-token-refused"
    told(error, "Nova refused a token", "keystone_authtoken")


@pytest.mark.parametrize(
    ("path", "call"),
    [
        ("/compute/v2.1/os-services", "GET /os-services"),
        ("/compute/v2.1/servers", "GET /servers/detail"),
        ("/placement/allocation_candidates", "GET /allocation_candidates"),
        ("/placement/resource_providers", "GET /resource_providers"),
    ],
)
def test_one_role_is_missing(cloud: StandIn, make: Make, path: str, call: str) -> None:
    filled(cloud)
    cloud.denied.add(path)
    error = refusal(make())
    assert error.code == "openstack-role"
    told(error, call, "403", "Policy doesn't allow")


def test_a_role_that_lists_projects_may_be_missing(cloud: StandIn, make: Make) -> None:
    filled(cloud)
    cloud.denied.add("/identity/v3/projects")
    assert "only our own" in scan(make()).end.facts["projects"]


def test_a_service_that_hangs_is_late(cloud: StandIn, make: Make) -> None:
    filled(cloud)
    cloud.fail("/servers/detail", Fault(hang=True))
    error = refusal(make(timeout=1.0))
    assert error.code == "openstack-timeout"
    told(error, "Nova did not answer GET /servers/detail within 1 s", "hangs")


def test_a_keystone_that_hangs_is_late(cloud: StandIn, make: Make) -> None:
    cloud.fail("/identity", Fault(hang=True))
    error = refusal(make(timeout=1.0))
    assert error.code == "openstack-timeout"
    told(error, "Keystone", "within 1 s")


def test_an_answer_that_never_ends_has_a_deadline(cloud: StandIn, make: Make) -> None:
    filled(cloud)
    cloud.fail("/os-aggregates", Fault(drip=True))
    error = refusal(make(timeout=1.0))
    assert error.code == "openstack-timeout"


def test_an_answer_that_is_too_big_is_cut(cloud: StandIn, make: Make) -> None:
    filled(cloud)
    cloud.fail("/os-aggregates", Fault(200, b" " * (1 << 20) + b'{"aggregates": []}'))
    error = refusal(make(max_response_mib=1))
    assert error.code == "openstack-too-big"
    told(error, "1 MiB", "max_response_mib")


@pytest.mark.parametrize("status", [429, 502, 503, 504])
def test_a_busy_service_is_asked_again(cloud: StandIn, make: Make, status: int) -> None:
    filled(cloud)
    cloud.fail("/os-aggregates", Fault(status, b"busy", "text/plain", {"Retry-After": "7"}, times=2))
    clock = StillClock()
    assert len(scan(make(clock=clock)).hosts) == 3
    assert cloud.asked("/os-aggregates") == 3
    assert clock.elapsed >= 14


def test_retry_after_is_bounded(cloud: StandIn, make: Make) -> None:
    filled(cloud)
    cloud.fail("/os-aggregates", Fault(503, headers={"Retry-After": "86400"}, times=1))
    clock = StillClock()
    scan(make(clock=clock))
    assert 30 <= clock.elapsed < 60


def test_a_service_that_stays_busy_is_failing(cloud: StandIn, make: Make) -> None:
    filled(cloud)
    cloud.fail("/os-aggregates", Fault(503, b"<html>Service Unavailable</html>", "text/html"))
    error = refusal(make())
    assert error.code == "openstack-failing"
    assert error.transient
    told(error, "503 4 times", "Nova's log")
    assert cloud.asked("/os-aggregates") == 4


def test_one_scan_has_one_budget_of_retries(cloud: StandIn, make: Make) -> None:
    filled(cloud, servers=40)
    # Every page of servers is refused twice before it comes: 3 tries a page, until the budget is spent.
    fault = Fault(503, times=2)

    def again(path: str) -> None:
        if path.endswith("/servers/detail"):
            fault.times = 2

    cloud.after = again
    cloud.fail("/servers/detail", fault)
    assert refusal(make(page_size=1)).code == "openstack-failing"
    assert cloud.asked("/servers/detail") == 10 * 3 + 1


def test_a_server_error_is_told_in_its_own_words(cloud: StandIn, make: Make) -> None:
    filled(cloud)
    cloud.fail("/os-hypervisors", Fault(500))
    error = refusal(make())
    told(error, "Nova fails", "500", "it broke")
    # What is broken is not asked again in the same scan.
    assert cloud.asked("/os-hypervisors/detail") == 1


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b"<html><body>Welcome to nginx!</body></html>", "text/html"),
        (b"", "application/json"),
        (b'{"hypervisors": [{"id": 7}]}', "application/json"),
        (b'{"hypervisors": "many"}', "application/json"),
        (b'{"hypervisors": [', "application/json"),
        (b"\xff\xfe\x00", "application/json"),
        (b"[]", "application/json"),
        (b"null", "application/json"),
    ],
)
def test_nonsense_is_called_nonsense(cloud: StandIn, make: Make, body: bytes, kind: str) -> None:
    filled(cloud)
    cloud.fail("/os-hypervisors", Fault(200, body, kind))
    error = refusal(make())
    assert error.code == "openstack-nonsense"
    told(error, "Nova answered GET /os-hypervisors/detail with something else")


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/resource_providers", b'{"resource_providers": [{"uuid": 7}]}'),
        ("/allocation_candidates", b'{"provider_summaries": {"00000000-0000-4000-8000-000000000001": []}}'),
    ],
)
def test_nonsense_inside_a_long_list(cloud: StandIn, make: Make, path: str, body: bytes) -> None:
    filled(cloud)
    cloud.fail(path, Fault(200, body))
    error = refusal(make())
    assert error.code == "openstack-nonsense"
    told(error, "Placement")


def test_nonsense_of_keystone(cloud: StandIn, make: Make) -> None:
    cloud.fail("/auth/tokens", Fault(200, b"<html>captive portal</html>", "text/html"))
    told(refusal(make()), "no token")


def test_a_page_that_comes_twice_ends_the_scan(cloud: StandIn, make: Make) -> None:
    filled(cloud)
    cloud._page = lambda items, query: (items[:1], "x")
    error = refusal(make())
    assert error.code == "openstack-nonsense"
    told(error, "same page")


def test_a_token_is_not_sent_on(cloud: StandIn, make: Make) -> None:
    filled(cloud)
    headers = {"Location": "http://elsewhere.invalid/os-aggregates"}
    cloud.fail("/os-aggregates", Fault(302, b"", headers=headers))
    error = refusal(make())
    assert error.code == "openstack-redirect"
    told(error, "elsewhere.invalid", "never sent on")


def test_a_cloud_older_than_train(cloud: StandIn, make: Make) -> None:
    filled(cloud)
    cloud.compute = ("2.1", "2.72")
    error = refusal(make())
    assert error.code == "openstack-too-old"
    told(error, "2.72", "2.79 (Train)")


def test_a_cloud_without_placement(cloud: StandIn, make: Make) -> None:
    filled(cloud)
    cloud.absent.add("placement")
    error = refusal(make())
    assert error.code == "openstack-no-service"
    told(error, "placement", "'public'", "'Here'")


def test_an_entry_that_is_not_there(cloud: StandIn, make: Make, tmp_path: Path) -> None:
    path = cloud.clouds_yaml(tmp_path)
    driver = REGISTRATION.open({"cloud": "other", "clouds_file": str(path)}, context())
    assert isinstance(driver, OpenStackDriver)
    error = refusal(driver)
    assert error.code == "openstack-config"
    assert f"{path} has no entry 'other', it has 'standin'; name one of these" in error.text


def test_an_entry_among_very_many(cloud: StandIn, make: Make, tmp_path: Path) -> None:
    path = tmp_path / "clouds.yaml"
    path.write_text(json.dumps({"clouds": {f"c{n:03}\n": {"auth": {}} for n in range(500)}}))
    driver = REGISTRATION.open({"cloud": "other", "clouds_file": str(path)}, context())
    assert isinstance(driver, OpenStackDriver)
    error = refusal(driver)
    assert "c000" in error.text and "c019" in error.text and "480 more" in error.text
    assert "c020" not in error.text and error.text.isprintable()


def test_no_file_anywhere_says_where_it_was_looked_for(
    cloud: StandIn, make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("openstack.config.loader.CONFIG_FILES", [str(tmp_path / "clouds.yaml"), "/nowhere/clouds.yaml"])
    monkeypatch.delenv("OS_CLIENT_CONFIG_FILE", raising=False)
    driver = REGISTRATION.open({"cloud": "other"}, context())
    assert isinstance(driver, OpenStackDriver)
    error = refusal(driver)
    assert error.code == "openstack-config"
    assert f"there is no clouds.yaml in {tmp_path}, /nowhere; put one there" in error.text
    assert "$OS_CLIENT_CONFIG_FILE" in error.text and "clouds_file" in error.text


def test_a_check_says_which_entries_there_are(cloud: StandIn, make: Make, tmp_path: Path) -> None:
    path = cloud.clouds_yaml(tmp_path)
    driver = REGISTRATION.open({"cloud": "other", "clouds_file": str(path)}, context())
    (one,) = asyncio.run(driver.check())
    assert not one.ok and "it has 'standin'" in one.found
    assert one.remedy == "name one of these with `cloud` (--cloud), or add the entry (`clouds_file` names another file)"


@pytest.mark.parametrize("text", [None, "", "clouds: [", "clouds: 7", "- a", '{"clouds": {"standin": {"auth": {}}}}'])
def test_a_file_that_is_none(make: Make, tmp_path: Path, text: str | None) -> None:
    driver = make()
    path = tmp_path / "clouds.yaml"
    if text is None:
        path.unlink()
    else:
        path.write_text(text)
    error = refusal(driver)
    assert error.code == "openstack-config"
    assert "clouds.yaml" in error.text


def test_a_failed_scan_heals(cloud: StandIn, make: Make) -> None:
    filled(cloud)
    driver = make()

    async def story() -> None:
        for part in ("/identity", "/compute", "/placement"):
            cloud.fail(part, Fault(500))
            await refused(driver)
            health, reason = await driver.probe()
            assert health is RackHealth.UNAVAILABLE, part
            assert "500" in reason
            cloud.heal()
            assert await driver.probe() == (RackHealth.AVAILABLE, "")
            assert len((await seen(driver)).hosts) == 3

    ends(driver, story)


def test_a_probe_looks_where_it_hurt(cloud: StandIn, make: Make) -> None:
    filled(cloud)
    driver = make()

    async def story() -> None:
        await seen(driver)
        cloud.fail("/placement", Fault(500))
        await refused(driver)
        # Nova is well, so a look at Nova would call the cloud available again, only for the next scan to fail.
        assert (await driver.probe())[0] is RackHealth.UNAVAILABLE

    ends(driver, story)


def test_a_cloud_that_is_down_is_a_finding(cloud: StandIn, make: Make) -> None:
    filled(cloud)
    cloud.fail("/placement", Fault(500))
    driver = make()

    async def story() -> None:
        findings = {finding.what: finding for finding in await driver.check()}
        assert not findings["resource providers"].ok
        assert findings["hypervisors"].ok
        assert all(finding.remedy for finding in findings.values() if not finding.ok)

    ends(driver, story)


def test_a_check_of_project_credentials_is_well(cloud: StandIn, make: Make) -> None:
    filled(cloud)
    cloud.admin = False
    cloud.limits = {"maxTotalCores": 1}
    driver = make()

    async def story() -> None:
        findings = await driver.check()
        assert all(finding.ok for finding in findings)
        assert any("quota" in finding.found for finding in findings)

    ends(driver, story)


def test_the_loop_never_waits(cloud: StandIn, make: Make) -> None:
    """A cloud that hangs for a second costs the event loop no turn."""
    filled(cloud)
    cloud.fail("/os-hypervisors", Fault(hang=True))
    driver = make(timeout=1.0)

    async def story() -> None:
        loop = asyncio.get_running_loop()
        longest = 0.0
        task = asyncio.ensure_future(refused(driver))
        last = loop.time()
        while not task.done():
            await asyncio.wait({task}, timeout=0.01)
            now = loop.time()
            longest, last = max(longest, now - last), now
        assert (await task).code == "openstack-timeout"
        assert longest < 0.9

    ends(driver, story)


def test_a_closed_driver_says_so(cloud: StandIn, make: Make) -> None:
    driver = make()

    async def story() -> None:
        await driver.close()
        assert (await refused(driver)).code == "driver-closed"

    ends(driver, story)


def test_lists_that_go_in_a_circle_end_with_the_pages_of_a_scan(
    cloud: StandIn, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(cloud)
    monkeypatch.setattr(asking, "MOST_PAGES", 20)
    turns = itertools.cycle([0, 1])

    def circle(items: list[Json], query: dict[str, str]) -> tuple[list[Json], str]:
        at = next(turns)
        return items[at : at + 1] or items[:1], "x"

    cloud._page = circle
    error = refusal(make())
    assert error.code == "openstack-endless"
    told(error, "Nova", "/os-hypervisors/detail", "20 pages", "page_size")


def test_all_lists_of_a_scan_share_its_pages_and_the_next_one_has_its_own(
    cloud: StandIn, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(cloud)
    asked: list[object] = []
    page = cloud._page

    def counted(items: list[Json], query: dict[str, str]) -> tuple[list[Json], str]:
        asked.append(query)
        return page(items, query)

    cloud._page = counted
    facts = scan(make()).end.facts
    needed = len(asked)
    monkeypatch.setattr(asking, "MOST_PAGES", needed)
    assert [one.end.facts for one in scans(make(), 2)] == [facts, facts]
    monkeypatch.setattr(asking, "MOST_PAGES", needed - 1)
    assert "pages of all its lists" in str(scan(make()).end.facts)
    monkeypatch.setattr(asking, "MOST_PAGES", 2)
    told(refusal(make()), "Nova", "2 pages of all its lists")
