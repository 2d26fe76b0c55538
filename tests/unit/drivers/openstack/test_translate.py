"""OpenStack's words in Banyan's: states, amounts, flavors as Nova's scheduler understands them. Recorded shapes."""

from __future__ import annotations

import msgspec
import pytest

from banyan.core.guest import GuestState
from banyan.core.resources import Amount, ResourceClass
from banyan.core.share import OFFER_ALL, Share
from banyan.drivers.openstack import shapes, translate
from tests.unit.drivers.openstack.standin import flavor

# As Nova 34 answers at compute 2.87.
HYPERVISOR = b"""{"id": "a90e81ef-23f4-50ca-842d-860318cfa2fe", "hypervisor_hostname": "east-c0005", "state": "up",
"status": "enabled", "hypervisor_type": "fake", "hypervisor_version": 1000, "host_ip": "127.0.0.1",
"service": {"id": "2b59b00b-3c53-4896-915d-a39cdf9bd6c7", "host": "east-c0005", "disabled_reason": null},
"vcpus": 64, "memory_mb": 262144, "local_gb": 4000, "vcpus_used": 0, "memory_mb_used": 0, "local_gb_used": 0,
"free_ram_mb": 262144, "free_disk_gb": 4000, "current_workload": 0, "running_vms": 0, "disk_available_least": 0,
"cpu_info": {"arch": "x86_64", "features": ["pge"]}}"""

# What Nova shows of a server whose cell does not answer (compute 2.69 and later).
PARTIAL_SERVER = b"""{"id": "5b3e8a2c", "status": "UNKNOWN", "tenant_id": "c2019bd7", "created": "2018-06-29T15:07:29Z",
"links": []}"""


def decoded(kind: type[shapes.Server], **changes: object) -> shapes.Server:
    body = {
        "id": "s1",
        "name": "web",
        "tenant_id": "p1",
        "status": "ACTIVE",
        "created": "2026-11-30T12:03:37Z",
        "OS-EXT-STS:vm_state": "active",
        "flavor": {"original_name": "m1", "vcpus": 2, "ram": 4096, "disk": 20, "ephemeral": 5, "swap": 512},
    }
    return msgspec.json.decode(msgspec.json.encode({**body, **changes}), type=kind)


def wire_flavor(**specs: str) -> shapes.Flavor:
    plain = flavor("f1", "m1", vcpus=4, ram=8192, disk=40)
    plain["extra_specs"] = specs
    return msgspec.json.decode(msgspec.json.encode(plain), type=shapes.Flavor)


def test_a_hypervisor_becomes_a_host() -> None:
    hypervisor = msgspec.json.decode(HYPERVISOR, type=shapes.Hypervisor)
    around = translate.neighbourhood(
        [shapes.Service("east-c0005", "enabled", "az1", "up")],
        [shapes.Aggregate("ssd", ["east-c0005", "other"]), shapes.Aggregate("az1", ["east-c0005"], "az1")],
    )
    held = translate.Held({ResourceClass("vcpu"): Amount(64, 256, 3)}, frozenset({"COMPUTE_NODE"}))
    host = translate.host(hypervisor, held, around, OFFER_ALL)
    assert (host.id, host.name) == ("a90e81ef-23f4-50ca-842d-860318cfa2fe", "east-c0005")
    assert (host.up, host.disabled, host.offered) == (True, False, True)
    assert host.aggregates == ("az1", "ssd")
    assert host.availability_zone == "az1"
    assert host.amounts == {"vcpu": Amount(64, 256, 3)}


def test_a_host_that_somebody_disabled_says_why() -> None:
    body = HYPERVISOR.replace(b'"enabled"', b'"disabled"').replace(
        b'"disabled_reason": null', b'"disabled_reason": "fan"'
    )
    hypervisor = msgspec.json.decode(body.replace(b'"state": "up"', b'"state": "down"'), type=shapes.Hypervisor)
    host = translate.host(hypervisor, translate.Held(), translate.neighbourhood([], []), OFFER_ALL)
    assert (host.up, host.disabled, host.disabled_reason) == (False, True, "fan")
    assert host.availability_zone == "nova"


def test_a_share_by_aggregate_marks_the_others_as_not_offered() -> None:
    hypervisor = msgspec.json.decode(HYPERVISOR, type=shapes.Hypervisor)
    around = translate.neighbourhood([], [shapes.Aggregate("spare", ["east-c0005"])])
    assert translate.host(hypervisor, translate.Held(), around, Share(aggregates=("spare*",))).offered
    assert not translate.host(hypervisor, translate.Held(), around, Share(aggregates=("prod",))).offered


def test_a_server_becomes_a_guest() -> None:
    guest = translate.guest(decoded(shapes.Server), "h1", offered=True)
    assert (guest.id, guest.name, guest.project, guest.host, guest.flavor) == ("s1", "web", "p1", "h1", "m1")
    assert (guest.vcpu, guest.memory_mib) == (2, 4096)
    assert guest.disk_gib == 20 + 5 + 1  # root, ephemeral, and half a GiB of swap counts as one
    assert guest.created == 1_796_040_217.0
    assert guest.native


def test_a_server_of_a_silent_cell_is_other_and_counts_no_amounts() -> None:
    server = msgspec.json.decode(PARTIAL_SERVER, type=shapes.Server)
    guest = translate.guest(server, "", offered=True)
    assert guest.state is GuestState.OTHER
    assert (guest.vcpu, guest.memory_mib, guest.disk_gib) == (0, 0, 0)


@pytest.mark.parametrize(
    ("status", "vm_state", "state"),
    [
        ("ACTIVE", "active", GuestState.ACTIVE),
        ("REBOOT", "active", GuestState.ACTIVE),
        ("VERIFY_RESIZE", "resized", GuestState.ACTIVE),
        ("RESCUE", "rescued", GuestState.ACTIVE),
        ("RESIZE", "stopped", GuestState.STOPPED),
        ("BUILD", "building", GuestState.BUILDING),
        ("SHUTOFF", "stopped", GuestState.STOPPED),
        ("PAUSED", "paused", GuestState.PAUSED),
        ("SUSPENDED", "suspended", GuestState.SUSPENDED),
        ("SHELVED_OFFLOADED", "shelved_offloaded", GuestState.SHELVED),
        ("ERROR", "error", GuestState.ERROR),
        ("SOFT_DELETED", "soft-delete", GuestState.OTHER),
        ("MIGRATING", "", GuestState.ACTIVE),
        ("SHUTOFF", "", GuestState.STOPPED),
        ("SOMETHING_NEW", "", GuestState.OTHER),
    ],
)
def test_states(status: str, vm_state: str, state: GuestState) -> None:
    server = decoded(shapes.Server, status=status, **{"OS-EXT-STS:vm_state": vm_state})
    assert translate.guest_state(server) is state


@pytest.mark.parametrize(
    ("specs", "needs"),
    [
        ({}, {"vcpu": 4, "memory_mib": 8192, "disk_gib": 40}),
        ({"hw:cpu_policy": "dedicated"}, {"pcpu": 4, "memory_mib": 8192, "disk_gib": 40}),
        (
            {"hw:cpu_policy": "dedicated", "hw:emulator_threads_policy": "isolate"},
            {"pcpu": 5, "memory_mib": 8192, "disk_gib": 40},
        ),
        (
            {"hw:cpu_policy": "mixed", "hw:cpu_dedicated_mask": "0-2,^1"},
            {"pcpu": 2, "vcpu": 2, "memory_mib": 8192, "disk_gib": 40},
        ),
        (
            {"hw:cpu_policy": "mixed", "hw:cpu_dedicated_mask": "^0"},
            {"pcpu": 3, "vcpu": 1, "memory_mib": 8192, "disk_gib": 40},
        ),
        (
            {"resources:VCPU": "0", "resources:MEMORY_MB": "0", "resources:DISK_GB": "0", "resources:CUSTOM_GOLD": "1"},
            {"custom_gold": 1},
        ),
        (
            {"resources1:VGPU": "1", "resources_GPU2:VGPU": "2"},
            {"vcpu": 4, "memory_mib": 8192, "disk_gib": 40, "vgpu": 3},
        ),
        ({"hw:mem_encryption": "true"}, {"vcpu": 4, "memory_mib": 8192, "disk_gib": 40, "mem_encryption_context": 1}),
        ({"resources:VCPU": "nonsense"}, {"vcpu": 4, "memory_mib": 8192, "disk_gib": 40}),
    ],
)
def test_a_flavor_needs_what_nova_asks_placement_for(specs: dict[str, str], needs: dict[str, int]) -> None:
    assert translate.needs(wire_flavor(**specs)) == needs


def test_required_traits_of_all_groups_are_a_flavors_traits() -> None:
    wire = wire_flavor(
        **{"trait:HW_A": "required", "trait1:HW_B": "required", "trait:HW_C": "forbidden", "x": "required"}
    )
    assert translate.flavor(wire, OFFER_ALL).traits == ("HW_A", "HW_B")


def test_a_share_names_flavors() -> None:
    assert translate.flavor(wire_flavor(), Share(flavors=("m*",))).offered
    assert not translate.flavor(wire_flavor(), Share(flavors=("c*",))).offered


def test_a_quota_is_capacity_without_hardware() -> None:
    limits = shapes.AbsoluteLimits(cores=20, ram=51200, instances=10, cores_used=3, ram_used=6144, instances_used=2)
    host = translate.quota_host(limits, OFFER_ALL)
    assert host.amounts == {"vcpu": Amount(0, 20, 3), "memory_mib": Amount(0, 51200, 6144)}
    assert translate.quota_facts(limits) == {"capacity": "quota"}


def test_what_is_unlimited_promises_nothing_and_is_named() -> None:
    limits = shapes.AbsoluteLimits(cores=-1, ram=51200, instances=-1, cores_used=3, ram_used=0, instances_used=2)
    assert translate.quota_host(limits, OFFER_ALL).amounts[ResourceClass("vcpu")] == Amount(0, 3, 3)
    assert "vcpu" in translate.quota_facts(limits)["unlimited"]


@pytest.mark.parametrize(
    ("image", "checksum"),
    [
        (shapes.Image("i", hash_algorithm="sha512", hash_value="ab", checksum="cd"), "sha512:ab"),
        (shapes.Image("i", checksum="cd"), "md5:cd"),
        (shapes.Image("i"), ""),
    ],
)
def test_checksums(image: shapes.Image, checksum: str) -> None:
    assert translate.image(image).checksum == checksum


def test_networks_have_their_subnets_ranges() -> None:
    found = translate.networks(
        [shapes.Network("n1", "a", True, False, "p"), shapes.Network("n2", "b", project_id=None)],
        [
            shapes.Subnet("s1", "n1", "10.1.0.0/16"),
            shapes.Subnet("s2", "n1", "10.0.0.0/16"),
            shapes.Subnet("s3", "n1", None),
        ],
    )
    assert [(n.id, n.subnets, n.reach) for n in found] == [
        ("n1", ("10.0.0.0/16", "10.1.0.0/16"), "zone"),
        ("n2", (), "zone"),
    ]
