"""What is sent as an image, looked at as it passes: is it of the format that was said, and does it name other files.

A disk image may say that its content lies elsewhere, in a file of whichever host opens it (CVE-2024-32498): such ones
are refused, as OpenStack refuses them. The parsers are oslo.utils' own, those of Glance and Nova. They judge by the
pieces that they are given, so the first bytes are gathered here before they see any. Nothing is read or written.
"""

from __future__ import annotations

from typing import Final

from oslo_utils.imageutils.format_inspector import (
    ALL_FORMATS,
    FileInspector,
    ImageFormatError,
    SafetyCheckFailed,
)

from banyan.core.image_ports import Pieces
from banyan.zone.images.refusals import Unfit

# Bytes that are gathered first: as far as a VMDK's description of itself may reach, which lies the furthest in.
HEAD: Final = 1 << 20
# Where the data is the disk itself; other containers wrap it in an archive, or in something older than that.
BARE: Final = "bare"
RAW, GPT, ISO = "raw", "gpt", "iso"
# What whoever said "raw" may send: disks that are used byte by byte. A host would interpret the others.
_PLAIN: Final = frozenset({RAW, GPT, ISO, "luks"})
# Kernels and ramdisks: they begin with something like a partition table, which no disk could have.
_KERNELS: Final = frozenset({"aki", "ari"})


class Inspection:
    """Of one image's data. `disk`, `container`: what was said of it, None for nothing.

    At the end `virtual_size` is how large the disk is in bytes, None where that is not known.
    """

    def __init__(self, disk: str | None, container: str | None) -> None:
        self._disk = disk
        self._said = disk if container == BARE else None
        self._head = bytearray()
        self._begun = False
        self._size = 0
        self.virtual_size: int | None = None
        self._left: dict[str, FileInspector] = {name: kind() for name, kind in ALL_FORMATS.items() if name != RAW}

    async def watched(self, pieces: Pieces) -> Pieces:
        """The same pieces. Raises Unfit once it is clear that they will not do, at the latest after the last."""
        async for piece in pieces:
            self.add(piece)
            yield piece
        self.end()

    def add(self, piece: bytes) -> None:
        """Raises Unfit("format-mismatch")."""
        self._size += len(piece)
        if self._begun:
            self._look(piece)
            return
        self._head += piece
        if len(self._head) >= HEAD:
            self._begin()

    def end(self) -> None:
        """Raises Unfit("format-mismatch"), ("unsafe-image")."""
        if not self._begun:
            self._begin()
        for one in self._left.values():
            one.finish()
        found = [name for name in self._left if self._matches(name)]
        if sorted(found) == [GPT, ISO]:
            # Images of optical discs that also boot from a stick.
            found = [ISO]
        if len(found) > 1:
            raise _mismatch(f"what was sent can be read as {' and as '.join(sorted(found))}")
        name = found[0] if found else RAW
        self._check(name)
        if name != RAW:
            self._check_safe(name)
        if name != RAW and name == self._said:
            self.virtual_size = self._left[name].virtual_size or None
        elif self._said is not None:
            self.virtual_size = self._size

    def _begin(self) -> None:
        self._begun = True
        head, self._head = bytes(self._head), bytearray()
        self._look(head)

    def _look(self, piece: bytes) -> None:
        """Those that know enough, and do not find what they look for, are asked no more."""
        for name, one in list(self._left.items()):
            try:
                one.eat_chunk(piece)
                lost = one.complete and not one.format_match
            except Exception:  # noqa: BLE001 - parsers of strangers' bytes: whatever they raise, it is not of that format
                lost = True
            if lost:
                del self._left[name]
        if self._said in ALL_FORMATS and self._said not in (RAW, *self._left):
            self._check("")

    def _matches(self, name: str) -> bool:
        try:
            return self._left[name].complete and self._left[name].format_match
        except Exception:  # noqa: BLE001 - as above
            return False

    def _check(self, found: str) -> None:
        """`found`: "" is not known, and not what was said."""
        said = self._said
        if said is None or found == said:
            return
        if said == RAW and found in _PLAIN:
            return
        # Nobody can tell an image for Amazon's formats, or a ploop, from any other bytes.
        if said not in ALL_FORMATS and found in (RAW, GPT):
            return
        raise _mismatch(f"it is said to be {said}, and what was sent is {found or 'something else'}")

    def _check_safe(self, name: str) -> None:
        try:
            self._left[name].safety_check()
        except SafetyCheckFailed as error:
            failed = set(error.failures)
            if name == GPT and self._disk in _KERNELS:
                failed.discard("mbr")
            if failed:
                raise _unsafe(name, ", ".join(sorted(failed))) from error
        except ImageFormatError as error:
            raise _unsafe(name, "incomplete") from error
        except Exception as error:
            # What its own parser stumbles over no host should open.
            raise _unsafe(name, "unreadable") from error


def _mismatch(what: str) -> Unfit:
    return Unfit(
        "format-mismatch", f"{what}: set disk_format to what the file is (`qemu-img info` tells), or send another"
    )


def _unsafe(name: str, checks: str) -> Unfit:
    return Unfit(
        "unsafe-image",
        f"this {name} image did not pass what is checked of it ({checks}): an image must be whole, and must not take "
        "its content from other files; convert it to one without (`qemu-img convert`)",
    )
