"""Scans: hosts, guests and catalogues are what the last scan saw, in the same order on every database."""

from __future__ import annotations

from dataclasses import replace

from banyan.core.catalogue import Flavor, Image, Network, Project
from banyan.core.guest import Guest, GuestState
from banyan.core.host import Host, HostWord, as_said
from banyan.core.ids import RackCode
from banyan.core.lineage import UseRow
from banyan.core.rack import Rack
from banyan.core.resources import VCPU, Amount
from banyan.core.time import Wall
from tests.contract.store.conftest import Kept

RACK, OTHER = RackCode(1), RackCode((1 << 40) - 1)
HOST = Host(
    "h1",
    "node-1",
    {VCPU: Amount(8, 16, 3)},
    False,
    True,
    "broken fan",
    frozenset({"HW_B", "HW_A"}),
    ("agg",),
    "az1",
    False,
    {"k": "v"},
)
GUEST = Guest("g1", "web", "p1", GuestState.SHELVED, "h1", "m1", 2, 4096, 20, 1.5e9, False, 3, False)
# What sorts differently by locale, case or code point.
NAMES = ["b", "B", "a", "é", "Z", "z-1", "z1", "z_1", "ä", "", "日", "A b", "\U0001f333"]


def test_hosts_and_guests_come_back_whole(kept: Kept) -> None:
    kept.write(lambda u: (u.hosts.put(RACK, 1, [HOST]), u.guests.put(RACK, 1, [GUEST])))
    kept.again()
    assert kept.read(lambda u: u.hosts.page(RACK, None, 10)) == [HOST]
    assert kept.read(lambda u: u.guests.page(RACK, None, 10)) == [GUEST]
    assert kept.read(lambda u: (u.hosts.page(OTHER, None, 10), u.guests.page(OTHER, None, 10))) == ([], [])


def test_what_people_said_about_hosts_goes_with_the_rack_and_not_with_the_host(kept: Kept) -> None:
    words = [HostWord(RACK, f"h{n}", n != 2, "new fan" if n == 1 else "", n == 2, "ann", Wall(n)) for n in range(3)]
    kept.write(lambda u: (u.racks.put(Rack(RACK, "r", "sim", {})), u.hosts.put(RACK, 1, [HOST])))
    kept.write(lambda u: [u.host_words.put(word) for word in (*words, replace(words[0], rack=OTHER))])
    kept.again()
    assert kept.read(lambda u: u.host_words.page(RACK, "", 2)) == words[:2]
    assert kept.read(lambda u: u.host_words.page(RACK, "h1", 2)) == words[2:]
    assert kept.read(lambda u: u.host_words.of(RACK, ["h1", "none", "h2"])) == {"h1": words[1], "h2": words[2]}
    assert kept.read(lambda u: (u.hosts.get(RACK, "h1"), u.hosts.get(OTHER, "h1"))) == (HOST, None)
    assert [as_said(HOST, word).disabled_reason for word in words] == ["", "new fan", "broken fan"]
    kept.write(
        lambda u: (
            u.hosts.sweep(RACK, 2),
            u.host_words.put(replace(words[1], reason="")),
            u.host_words.delete(RACK, "h2"),
        )
    )
    assert kept.read(lambda u: u.host_words.page(RACK, "", 9)) == [words[0], replace(words[1], reason="")]
    kept.write(lambda u: u.racks.delete(RACK))
    assert kept.read(lambda u: u.host_words.page(RACK, "", 9)) == []
    assert len(kept.read(lambda u: u.host_words.page(OTHER, "", 9))) == 1


def test_pages_are_ordered_by_name_then_id_by_bytes(kept: Kept) -> None:
    guests = [replace(GUEST, id=f"{n % 3}-{n}", name=name) for n, name in enumerate(NAMES * 2)]
    hosts = [replace(HOST, id=guest.id, name=guest.name) for guest in guests]
    kept.write(lambda u: (u.guests.put(RACK, 1, guests), u.hosts.put(RACK, 1, hosts)))
    expected = sorted((guest.name, guest.id) for guest in guests)
    for rows in ("guests", "hosts"):
        found: list[tuple[str, str]] = []
        after = None
        while page := kept.read(lambda u, rows=rows, after=after: getattr(u, rows).page(RACK, after, 4)):
            found += [(row.name, row.id) for row in page]
            after = "\x00".join(found[-1])
        assert found == expected


def test_a_sweep_drops_what_the_scan_did_not_see(kept: Kept) -> None:
    first = [replace(GUEST, id=f"g{n}") for n in range(2_500)]
    hosts = [replace(HOST, id=f"h{n}") for n in range(5)]
    kept.write(lambda u: (u.guests.put(RACK, 1, first), u.guests.put(OTHER, 1, first[:3]), u.hosts.put(RACK, 1, hosts)))
    changed = [replace(guest, state=GuestState.ACTIVE) if n % 2 else guest for n, guest in enumerate(first[:2_000])]
    kept.write(lambda u: (u.guests.put(RACK, 2, iter(changed)), u.hosts.put(RACK, 2, hosts[1:])))
    assert kept.write(lambda u: (u.guests.sweep(RACK, 2), u.hosts.sweep(RACK, 2))) == (500, 1)
    assert kept.read(lambda u: u.guests.count_by_state(RACK)) == {("active", False): 1_000, ("shelved", False): 1_000}
    assert kept.read(lambda u: (u.hosts.count(RACK), u.hosts.count(OTHER))) == (4, 0)
    assert sum(kept.read(lambda u: u.guests.count_by_state(OTHER)).values()) == 3
    assert kept.write(lambda u: u.guests.sweep(RACK, 2)) == 0


def test_the_last_of_two_sightings_in_one_batch_stands(kept: Kept) -> None:
    twice = [replace(GUEST, name="first"), replace(GUEST, name="second")]
    kept.write(lambda u: u.guests.put(RACK, 1, twice))
    kept.write(lambda u: u.hosts.put(RACK, 1, [HOST, replace(HOST, name="second")]))
    assert [guest.name for guest in kept.read(lambda u: u.guests.page(RACK, None, 10))] == ["second"]
    assert [host.name for host in kept.read(lambda u: u.hosts.page(RACK, None, 10))] == ["second"]
    kept.write(lambda u: u.guests.put(RACK, 2, [replace(GUEST, name="second"), replace(GUEST, name="third")]))
    kept.write(lambda u: u.guests.sweep(RACK, 2))
    assert [guest.name for guest in kept.read(lambda u: u.guests.page(RACK, None, 10))] == ["third"]


def test_a_changed_sighting_replaces_the_old_one_and_returns(kept: Kept) -> None:
    for scan, name in enumerate(["a", "b", "b", "a"], start=1):
        guest = replace(GUEST, name=name)
        kept.write(lambda u, scan=scan, guest=guest: (u.guests.put(RACK, scan, [guest]), u.guests.sweep(RACK, scan)))
        assert kept.read(lambda u: u.guests.page(RACK, None, 10)) == [guest]


def test_texts_that_no_database_can_hold_are_made_storable(kept: Kept) -> None:
    strange = replace(GUEST, name="nul\x00 half \ud800 é")
    kept.write(lambda u: u.guests.put(RACK, 1, [strange]))
    assert [guest.name for guest in kept.read(lambda u: u.guests.page(RACK, None, 10))] == ["nul\ufffd half ? é"]


def test_use_per_project_is_named_by_the_catalogue(kept: Kept) -> None:
    guests = [replace(GUEST, id=f"g{n}", project=f"p{n % 2}", vcpu=n, memory_mib=10, disk_gib=1) for n in range(6)]
    kept.write(lambda u: u.guests.put(RACK, 1, guests))
    kept.write(lambda u: u.guests.put(OTHER, 1, guests))
    kept.write(lambda u: u.catalogue.replace(RACK, [Flavor("p0", "not a project", {})], [], [], [Project("p1", "web")]))
    assert kept.read(lambda u: u.guests.use_by_project(RACK)) == [
        UseRow(RACK, "p0", "", 3, 6, 30, 3),
        UseRow(RACK, "p1", "web", 3, 9, 30, 3),
    ]
    assert {type(row.vcpu) for row in kept.read(lambda u: u.guests.use_by_project(RACK))} == {int}


def test_a_catalogue_is_replaced_as_a_whole(kept: Kept) -> None:
    flavors = [Flavor("f2", "small", {VCPU: 1}, ("T",), False, False), Flavor("f1", "large", {VCPU: 8})]
    images = [Image("i", "debian", "queued", 5, "md5:00", "private")]
    networks = [Network("n", "net", True, True, "p", ("10.0.0.0/8",), "provider")]
    projects = [Project("p", "web", "default", False, {"vcpu": -1}, False)]
    kept.write(lambda u: u.catalogue.replace(RACK, flavors, images, networks, projects))
    kept.write(lambda u: u.catalogue.replace(OTHER, flavors[:1], [], [], []))
    kept.again()

    def all_of(u):
        c = u.catalogue
        return c.flavors(RACK), c.images(RACK), c.networks(RACK), c.projects(RACK)

    assert kept.read(all_of) == (list(reversed(flavors)), images, networks, projects)
    renamed = replace(flavors[0], name="tiny")
    kept.write(lambda u: u.catalogue.replace(RACK, [renamed], [], networks, []))
    assert kept.read(all_of) == ([renamed], [], networks, [])
    assert kept.read(lambda u: u.catalogue.flavors(OTHER)) == flavors[:1]


def test_deleting_a_rack_deletes_what_was_seen_in_it(kept: Kept) -> None:
    for rack in (RACK, OTHER):
        kept.write(
            lambda u, rack=rack: (
                u.racks.put(Rack(rack, "r", "sim", {})),
                u.hosts.put(rack, 1, [HOST]),
                u.guests.put(rack, 1, [GUEST]),
                u.catalogue.replace(rack, [], [Image("i", "i")], [], []),
            )
        )
    kept.write(lambda u: u.racks.delete(RACK))

    def left(u, rack):
        return u.hosts.count(rack), sum(u.guests.count_by_state(rack).values()), len(u.catalogue.images(rack))

    assert kept.read(lambda u: (left(u, RACK), left(u, OTHER))) == ((0, 0, 0), (1, 1, 1))
