"""Whether a host may be used, as the zone that is asked sees it: its share, its rack, and every zone on the way."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import cast

import msgspec
import pytest

from banyan.core.errors import Unreachable
from banyan.core.host import Host
from banyan.core.identity import Caller
from banyan.core.ids import RackCode, ZoneCode
from banyan.core.lineage import Ledger
from banyan.core.messages import Answer, DigestPart, Page, PageQuery, UsageQuery, UsageReply
from banyan.core.principal import Principal, ScopeKind
from banyan.core.rack import Rack, RackHealth
from banyan.core.records import Unit
from banyan.core.resources import VCPU, Amount
from banyan.core.time import Wall
from banyan.core.zone import Health
from banyan.simulate.loop import VirtualLoop
from banyan.zone.compute.desk import Desk
from banyan.zone.compute.hosts import Hosts
from banyan.zone.front import Front
from banyan.zone.servers.surface import Servers
from banyan.zone.views import HostView, PageView, UsageView
from tests.unit.zone.household import Household, Kid, delta

RACK = Rack(RackCode(7), "r", "sim", {}, health=RackHealth.AVAILABLE, scanned_at=Wall(1.0))
AMOUNT = {VCPU: Amount(4, 4, 1)}


def row(zone: str, name: str, offered: bool | None) -> bytes:
    return msgspec.json.encode(HostView(zone, "r", name, name, True, False, offered, {}))


class Answering:
    """A child with hosts: what it is asked, and what it answers."""

    def __init__(self, house: Household, ready: bool = True) -> None:
        self.asked: list[PageQuery] = []
        self.kid: Kid = house.kid("lab")
        self.kid.open()
        inner = house.stranger("inner")
        rows = [self.kid.itself(), inner.row(self.kid.code)]
        counted = DigestPart(0, 1, {"lh": 2, "lhu": 2, "at": 1_000})
        self.kid.report(lineage=delta(rows), digest=counted, ledger=Ledger(0, 1, ()), scanned=ready)
        assert self.kid.wire is not None
        self.kid.wire.answer = self._answer

    def _answer(self, verb: str, body: bytes) -> Answer:
        if verb == "usage":
            assert msgspec.msgpack.decode(body, type=UsageQuery).target == "inner"
            return Answer(1, msgspec.msgpack.encode(UsageReply({"lh": 3, "lhu": 3, "at": 1_000})))
        query = msgspec.msgpack.decode(body, type=PageQuery)
        self.asked.append(query)
        rows = [row("top/lab/inner", name, offered) for name, offered in (("a", True), ("b", False), ("c", None))]
        words = {True: "yes", False: "no", None: "unknown"}
        wanted = query.filters.get("offered")
        chosen = [one for one in rows if wanted in (None, words[msgspec.json.decode(one, type=HostView).offered])]
        return Answer(1, msgspec.msgpack.encode(Page(tuple(chosen))))


@pytest.fixture
def house() -> Iterator[Household]:
    one = Household()
    yield one
    one.close()


def hosts(house: Household, path: str = "", **filters: str) -> list[tuple[str, bool | None]]:
    front = Front(house.zone)
    page = house.run(front.page(front.local("ann", "r"), "hosts", path, filters, "", 10))
    assert page.absent == ()
    return [(one.name, one.offered) for one in (msgspec.json.decode(item, type=HostView) for item in page.items)]


def usage(house: Household, path: str) -> UsageView:
    front = Front(house.zone)
    return house.run(front.usage(front.local("ann", "r"), path))


def say(house: Household, word: str) -> None:
    front = Front(house.zone)
    house.run(front.command(front.local("ann", "r"), word, "lab", {"until": "600"} if "maint" in word else {}))


PATHS = ["", "lab", "lab/inner"]


@pytest.mark.parametrize("path", PATHS)
def test_of_a_zone_that_is_in_service_each_host_is_as_it_says(house: Household, path: str) -> None:
    child = Answering(house)
    assert hosts(house, path) == [("a", True), ("b", False), ("c", None)]
    assert hosts(house, path, offered="yes") == [("a", True)]
    assert child.asked[-1].filters == {"offered": "yes"}


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("word", ["zone.disable", "zone.maintenance"])
def test_of_a_zone_that_is_out_of_service_no_host_is_offered(house: Household, path: str, word: str) -> None:
    child = Answering(house)
    say(house, word)
    assert hosts(house, path) == [("a", False), ("b", False), ("c", False)]
    assert hosts(house, path, offered="no") == [("a", False), ("b", False), ("c", False)]
    before = len(child.asked)
    assert hosts(house, path, offered="yes") == hosts(house, path, offered="unknown") == []
    assert len(child.asked) == before, "it has none that could match"
    say(house, "zone.enable")
    assert hosts(house, path) == [("a", True), ("b", False), ("c", None)]


def test_of_a_zone_that_is_not_counted_yet_no_host_is_offered(house: Household) -> None:
    Answering(house, ready=False)
    assert hosts(house) == [("a", False), ("b", False), ("c", False)]


def test_the_totals_of_a_zone_below_one_that_is_out_of_service_are_not_offered(house: Household) -> None:
    Answering(house)
    assert usage(house, "lab/inner").hosts.total == 3
    say(house, "zone.disable")
    assert (usage(house, "lab").hosts.total, usage(house, "lab").not_offered.hosts) == (0, 2)
    assert (usage(house, "lab/inner").hosts.total, usage(house, "lab/inner").not_offered.hosts) == (0, 3)


def test_of_a_banned_zone_no_host_is_told(house: Household) -> None:
    Answering(house)
    say(house, "zone.ban")
    front = Front(house.zone)
    page = house.run(front.page(front.local("ann", "r"), "hosts", "", {}, "", 10))
    assert (page.items, page.absent) == ((), ("top/lab",))


@pytest.mark.parametrize("filters", [{}, {"offered": "yes"}, {"offered": "unknown"}, {"offered": "no"}])
@pytest.mark.parametrize("path", ["lab", "lab/inner"])
@pytest.mark.parametrize("seen", ["banned", "lost"])
def test_of_a_zone_that_nobody_sees_no_filter_makes_an_empty_list(
    house: Household, path: str, filters: dict[str, str], seen: str
) -> None:
    child = Answering(house)
    if seen == "banned":
        say(house, "zone.ban")
    else:
        live = house.zone.roster.live[child.kid.code]
        house.zone.members.put_child(replace(live.child, health=Health.LOST))
    before = len(child.asked)
    front = Front(house.zone)
    local = front.local("ann", "r")
    with pytest.raises(Unreachable, match="top/lab") as refused:
        house.run(front.page(local, "hosts", path, filters, "", 10))
    assert refused.value.code == "member-unreachable"
    whole = house.run(front.page(local, "hosts", "", filters, "", 10))
    assert (whole.items, whole.absent) == ((), ("top/lab",))
    assert len(child.asked) == before


@pytest.mark.parametrize(
    ("rack", "found"),
    [
        (RACK, [("a", True), ("b", False)]),
        (replace(RACK, health=RackHealth.UNAVAILABLE, reason="no answer"), [("a", None), ("b", False)]),
        (replace(RACK, health=RackHealth.UNKNOWN), [("a", None), ("b", False)]),
    ],
)
def test_of_a_rack_that_does_not_answer_it_is_not_known(
    house: Household, rack: Rack, found: list[tuple[str, bool | None]]
) -> None:
    def work(unit: Unit) -> None:
        unit.racks.put(rack)
        unit.hosts.put(rack.code, 1, [Host("a", "a", AMOUNT), Host("b", "b", AMOUNT, offered=False)])

    house.run(house.store.write("racked", work))
    house.zone.members.put_rack(rack)
    words = {True: "yes", False: "no", None: "unknown"}
    assert hosts(house) == found
    for name, offered in found:
        assert hosts(house, offered=words[offered]) == [(name, offered)]


def test_a_zone_below_one_that_is_out_of_service_says_so_in_the_list(house: Household) -> None:
    Answering(house)
    front = Front(house.zone)
    local = front.local("ann", "r")
    assert house.run(front.zone(local, "lab/inner")).reason == ""
    say(house, "zone.disable")
    shown = house.run(front.zone(local, "lab/inner"))
    assert (shown.admin, shown.reason) == ("enabled", "below lab, which is disabled")


def test_an_availability_zone_is_available_if_a_host_in_it_may_be_used() -> None:
    class Inventory:
        async def page(
            self, caller: Caller, kind: str, path: str, filters: Mapping[str, str], marker: str, limit: int
        ) -> PageView:
            views = [
                HostView("top", "r", "a", "a", True, False, False, {}, availability_zone="out"),
                HostView("top", "r", "b", "b", True, False, None, {}, availability_zone="unheard"),
                HostView("top", "r", "c", "c", True, False, True, {}, availability_zone="in"),
            ]
            return PageView(tuple(msgspec.Raw(msgspec.json.encode(view)) for view in views))

        async def usage(self, caller: Caller, path: str) -> UsageView:
            raise AssertionError("not asked here")

    admin = Principal(ZoneCode(1), "u", "root", "d", ScopeKind.SYSTEM, frozenset({"admin", "reader"}), Wall(9e9))
    hosts = Hosts(cast("Desk", SimpleNamespace(mono=lambda: 0.0)), Inventory(), cast("Servers", None))
    found = VirtualLoop().run_task(hosts.zones(admin), within=10.0)
    assert dict(found.up) == {"in": True, "out": False, "unheard": False}
