"""What comes from elsewhere is read by core.reading: msgspec alone lets deep nesting pass as a RecursionError."""

from __future__ import annotations

import re
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "banyan"
READS = re.compile(r"msgspec\.(?:json|msgpack)\.(?:decode|Decoder)\b")
# Frames are read by the codec, which has its own care; these read what this zone wrote or signed itself, or take no
# field that they do not know, so that nothing is skipped.
KNOWN = {
    "core/reading.py",
    "link/codec.py",
    "trust/jwt.py",
    "trust/signed_tokens.py",
    "trust/user_tokens.py",
    "zone/compute/hosts.py",
    "zone/front.py",
    "zone/identity/keys.py",
}


def test_zones_links_and_trust_read_strangers_bytes_by_one_reader() -> None:
    rooms = ("core", "link", "trust", "zone")
    files = [path for room in rooms for path in (SOURCE / room).rglob("*.py")]
    found = {str(path.relative_to(SOURCE)) for path in files if READS.search(path.read_text(encoding="utf-8"))}
    assert found <= KNOWN, "read what others wrote with core.reading"
    assert "trust/lineage.py" not in found
