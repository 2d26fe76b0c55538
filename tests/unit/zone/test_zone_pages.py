"""Pages of the list of zones: whole in every order, and each page makes only the views that it shows."""

from __future__ import annotations

import random
from types import SimpleNamespace

import msgspec
import pytest

from banyan.core.errors import BadInput
from banyan.core.ids import ZoneCode
from banyan.core.time import BUILD_DATE, Mono, Terms, Wall
from banyan.core.zone import Admin, Child, ChildState, Health
from banyan.simulate.clock import VirtualClock
from banyan.simulate.loop import VirtualLoop
from banyan.zone import zone_list
from banyan.zone.inbox import Inbox
from banyan.zone.live import Live
from banyan.zone.members import Members
from banyan.zone.roster_rows import node_of_child
from banyan.zone.tree import Node, Tree
from banyan.zone.views import PageView, ZoneView
from banyan.zone.zone_pages import ZonePages

TOP = ZoneCode(1)
HEALTHS = (Health.ALIVE, Health.ALIVE, Health.UNAVAILABLE, Health.LOST)


class Counting(ZonePages):
    """Counts the views that are made."""

    made = 0

    def view(self, node: Node) -> ZoneView:
        self.made += 1
        return super().view(node)


class Below:
    """Some children with hosts, and below some of them zones of which only the tree knows."""

    def __init__(self, children: int) -> None:
        self.loop = VirtualLoop()
        clock = VirtualClock(self.loop, "top")
        chance = random.Random(7)
        self.tree, self.members = Tree(TOP, "top"), Members()
        live: dict[ZoneCode, Live] = {}
        for number in range(children):
            code = ZoneCode(100 + number)
            health = HEALTHS[number % len(HEALTHS)]
            at = Wall(BUILD_DATE + chance.randrange(50))
            name = f"z{chance.randrange(10**6)}-{number}"
            child = Child(code, name, b"", ChildState.READY, health=health, heard_at=at)
            live[code] = Live(child, Inbox(code), Mono(0.0), Terms())
            self.tree.put(node_of_child(child, TOP, 1))
            self.members.put_child(child)
            cores = chance.randrange(1, 20)
            digest = {"lh": chance.randrange(1, 9), "lr:vcpu:t": cores, "lr:vcpu:u": chance.randrange(cores)}
            self.members.put_digest(code, {**digest, "lg:active": chance.randrange(1, 4)} if number % 5 else {})
            if number % 3 == 0:
                deep = ZoneCode(10_000 + number)
                self.tree.put(
                    Node(deep, code, code, "leaf", ChildState.READY, Health.ALIVE, Admin.ENABLED, "", "1", 5.0)
                )
        zone = SimpleNamespace(
            tree=self.tree,
            members=self.members,
            roster=SimpleNamespace(live=live),
            clock=clock,
            own=SimpleNamespace(wall=lambda: Wall(BUILD_DATE + 100)),
        )
        self.pages = Counting(zone)

    def page(self, sort: str, marker: str, limit: int, **filters: str) -> PageView:
        return self.loop.run_task(self.pages.page(TOP, filters, sort, marker, limit), 100.0)

    def listed(self, sort: str, limit: int, **filters: str) -> list[ZoneView]:
        rows: list[ZoneView] = []
        marker = ""
        while True:
            page = self.page(sort, marker, limit, **filters)
            assert len(page.items) <= limit
            rows += [msgspec.json.decode(item, type=ZoneView) for item in page.items]
            if not page.marker:
                return rows
            marker = page.marker


def by(view: ZoneView, key: str) -> tuple[bool, float | str, list[str]]:
    value = {
        "path": None,
        "used": view.used_share,
        "hosts": view.hosts,
        "servers": view.servers,
        "as_of": view.as_of,
        "health": view.health,
    }[key]
    return value is not None, value if value is not None else 0.0, view.path.split("/")


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("key", zone_list.SORTS)
def test_every_zone_comes_once_and_in_order(key: str, turned: bool) -> None:
    below = Below(60)
    rows = below.listed(f"{'-' if turned else ''}{key}", 7)
    assert len(rows) == len(below.tree) == len({row.code for row in rows})
    assert rows == sorted(rows, key=lambda row: by(row, key), reverse=turned)
    # A view for each row that is shown, and none besides.
    assert below.pages.made == len(rows)
    below.loop.close()


def test_filters_narrow_before_the_limit_counts() -> None:
    below = Below(60)
    lost = below.listed("-used", 4, health="lost")
    assert {row.health for row in lost} == {"lost"}
    assert len(lost) == sum(row.health == "lost" for row in below.listed("path", 100))
    below.loop.close()


def test_a_page_of_many_makes_only_its_own_views() -> None:
    below = Below(1500)
    page = below.page("-used", "", 10)
    assert (len(page.items), below.pages.made) == (10, 10)
    # The zone that the marker names goes, and the list goes on where it was.
    following = below.page("-used", page.marker, 10)
    last = msgspec.json.decode(page.items[-1], type=ZoneView)
    below.tree.remove(below.tree.resolve(last.path))
    assert below.page("-used", page.marker, 10) == following
    below.loop.close()


@pytest.mark.parametrize("marker", ["x", "top/z1", "-used", "1"])
def test_a_marker_of_something_else_is_refused(marker: str) -> None:
    below = Below(3)
    if marker == "-used":
        marker = below.page("used", "", 1).marker
    for sort in ("path", "-used", "health"):
        with pytest.raises(BadInput) as refused:
            below.page(sort, marker, 10)
        assert refused.value.code == "bad-marker"
    below.loop.close()
