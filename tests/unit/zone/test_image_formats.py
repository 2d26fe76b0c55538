"""What is sent as an image is of the format that was said, and does not take its content from other files."""

from __future__ import annotations

import struct

import pytest

from banyan.core.errors import BadInput
from banyan.zone.images.formats import HEAD, Inspection

MIB = 1 << 20
TEXT = b"a disk would be here" * 1000


def qcow2(*, backing: int = 0, features: int = 0, version: int = 3, size: int = 5 * MIB) -> bytes:
    """The header of QEMU's docs/interop/qcow2.txt, and some clusters."""
    head = struct.pack(">4sIQIIQ", b"QFI\xfb", version, backing, 8 if backing else 0, 16, size)
    return head.ljust(72, b"\0") + struct.pack(">Q", features).ljust(432, b"\0") + b"\0" * 65_536


def vmdk(kind: str, extent: str = 'RW 20480 SPARSE "disk.vmdk"') -> bytes:
    """A sparse extent's header and the descriptor behind it, as in VMware's Virtual Disk Format 1.1."""
    head = struct.pack("<4sIIQQQQIQQ", b"KDMV", 1, 3, 20_480, 128, 1, 20, 512, 0, 128).ljust(512, b"\0")
    return head + description(kind, extent).ljust(20 * 512, b"\0") + b"\0" * 65_536


def description(kind: str, extent: str) -> bytes:
    return f'# Disk DescriptorFile\nversion=1\nCID=fffffffe\ncreateType="{kind}"\n{extent}\nddb.uuid = "1"\n'.encode()


def iso() -> bytes:
    """A primary volume descriptor behind the system area (ECMA-119)."""
    volume = bytearray(2_048)
    volume[:7] = b"\x01CD001\x01"
    struct.pack_into("<I", volume, 80, 20)
    struct.pack_into("<H", volume, 128, 2_048)
    return bytes(32_768) + bytes(volume) + b"\0" * 4_096


def partitioned(bootable: int = 0x80) -> bytes:
    """A table of one partition as PCs have it: of kind 0x83, from sector 2048 on."""
    table = bytearray(512)
    table[446:462] = struct.pack("<B3sB3sII", bootable, b"\0\2\0", 0x83, b"\0\0\0", 2_048, 8_192)
    table[510:] = b"\x55\xaa"
    return bytes(table) + b"\0" * 65_536


def vhd() -> bytes:
    return b"conectix" + b"\0" * 504 + b"\0" * 65_536


def vdi() -> bytes:
    return (b"<<< Oracle VM VirtualBox Disk Image >>>\n".ljust(64, b"\0") + struct.pack("<I", 0xBEDA107F)).ljust(
        368, b"\0"
    ) + struct.pack("<Q", 3 * MIB).ljust(70_000, b"\0")


def looked(data: bytes, disk: str | None, container: str | None = "bare", step: int = 60_000) -> Inspection:
    inspection = Inspection(disk, container)
    for begin in range(0, len(data), step):
        inspection.add(data[begin : begin + step])
    inspection.end()
    return inspection


@pytest.mark.parametrize(
    ("data", "disk", "size"),
    [
        (qcow2(), "qcow2", 5 * MIB),
        (qcow2(version=2), "qcow2", 5 * MIB),
        (qcow2(features=0b1), "qcow2", 5 * MIB),  # not closed cleanly: another fault, and no danger
        (vmdk("monolithicSparse"), "vmdk", 20_480 * 512),
        (vmdk("streamOptimized"), "vmdk", 20_480 * 512),
        (vdi(), "vdi", 3 * MIB),
        (iso(), "iso", 20 * 2_048),
        (TEXT, "raw", len(TEXT)),
        (b"", "raw", 0),
        (b"\0" * (3 * HEAD + 1), "raw", 3 * HEAD + 1),
        (partitioned(), "raw", len(partitioned())),
        (iso(), "raw", len(iso())),
        (TEXT, "ami", len(TEXT)),
        (TEXT, "ploop", len(TEXT)),
    ],
)
@pytest.mark.parametrize("step", [1 << 24, 997])
def test_what_is_as_was_said_passes_and_its_disk_is_measured(data: bytes, disk: str, size: int, step: int) -> None:
    assert looked(data, disk, step=step).virtual_size == size


@pytest.mark.parametrize(
    ("data", "disk", "named"),
    [
        (TEXT, "qcow2", "is said to be qcow2"),
        (b"", "qcow2", "is said to be qcow2"),
        (qcow2()[:300], "qcow2", "is said to be qcow2"),
        (vmdk("monolithicSparse"), "qcow2", "is said to be qcow2"),
        (qcow2(), "vmdk", "is said to be vmdk"),
        (TEXT, "iso", "is said to be iso"),
        (TEXT, "vhd", "is said to be vhd"),
        (TEXT, "vhdx", "is said to be vhdx"),
        (TEXT, "vdi", "is said to be vdi"),
        # A host that looks by itself would open these as what they are.
        (qcow2(), "raw", "what was sent is qcow2"),
        (vmdk("monolithicSparse"), "raw", "what was sent is vmdk"),
        (description("monolithicFlat", 'RW 9 FLAT "/etc/shadow" 0'), "raw", "what was sent is vmdk"),
        (vhd(), "raw", "what was sent is vhd"),
        (vdi(), "raw", "what was sent is vdi"),
        (qcow2(), "ami", "what was sent is qcow2"),
        # One file that is two things.
        (qcow2()[:600].ljust(32_768, b"\0") + iso()[32_768:], "iso", "qcow2"),
    ],
)
@pytest.mark.parametrize("step", [1 << 24, 61])
def test_what_is_not_as_was_said_is_refused(data: bytes, disk: str, named: str, step: int) -> None:
    with pytest.raises(BadInput) as refused:
        looked(data, disk, step=step)
    assert refused.value.code == "format-mismatch" and named in refused.value.text


@pytest.mark.parametrize(
    ("data", "disk", "check"),
    [
        (qcow2(backing=600), "qcow2", "backing_file"),
        (qcow2(features=0b100), "qcow2", "data_file"),
        (qcow2(features=1 << 40), "qcow2", "unknown_features"),
        (qcow2(version=1), "qcow2", "unknown_features"),
        (vmdk("monolithicFlat", 'RW 20480 FLAT "/etc/shadow" 0'), "vmdk", "descriptor"),
        (vmdk("monolithicSparse", 'RW 20480 SPARSE "../../etc/shadow"'), "vmdk", "descriptor"),
        (vmdk("monolithicSparse", "nothing that anybody knows"), "vmdk", "descriptor"),
        (description("monolithicFlat", 'RW 9 FLAT "/etc/shadow" 0'), "vmdk", "descriptor"),
        (partitioned(bootable=0x99), "raw", "mbr"),
    ],
)
@pytest.mark.parametrize("step", [1 << 24, 3])
def test_what_names_other_files_or_can_not_be_is_refused(data: bytes, disk: str, check: str, step: int) -> None:
    with pytest.raises(BadInput) as refused:
        looked(data, disk, step=step)
    assert refused.value.code == "unsafe-image" and check in refused.value.text


@pytest.mark.parametrize("container", ["ovf", "ova", "docker", "compressed", None])
def test_in_other_containers_the_format_is_not_compared_and_dangers_are_seen(container: str | None) -> None:
    assert looked(TEXT, "vmdk", container).virtual_size is None
    assert looked(qcow2(), None, container).virtual_size is None
    with pytest.raises(BadInput, match="backing_file"):
        looked(qcow2(backing=600), "qcow2", container)


def test_a_kernel_begins_with_no_table_of_partitions() -> None:
    kernel = (b"MZ" + b"\xea" * 508 + b"\x55\xaa").ljust(70_000, b"\1")
    assert looked(kernel, "aki").virtual_size == 70_000
    with pytest.raises(BadInput, match="mbr"):
        looked(kernel, "raw")


def test_a_wrong_format_ends_the_sending_once_it_is_clear() -> None:
    inspection = Inspection("qcow2", "bare")
    inspection.add(b"\0" * (HEAD - 1))
    with pytest.raises(BadInput) as refused:
        inspection.add(b"\0")
    assert refused.value.code == "format-mismatch"


def test_little_is_kept_of_what_passes() -> None:
    inspection = Inspection("raw", "bare")
    for _ in range(64):
        inspection.add(b"\0" * MIB)
    assert not inspection._head and not inspection._left, "nobody looks any more"
    inspection.end()
    assert inspection.virtual_size == 64 * MIB
