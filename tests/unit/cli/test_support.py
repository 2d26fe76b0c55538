"""`banyan support-bundle`: what it holds, that no secret is in it, and what becomes of a part that can not be had."""

from __future__ import annotations

import json
import stat
import tarfile
from pathlib import Path

import pytest

from banyan.cli import support
from banyan.cli.support import without_secrets
from tests.unit.cli.conftest import Zone

CODE = "banyan1.AAAAAAAAAAAAAAAAAAAAAAAAAAAA"
SETTINGS = f"""
[[rack]]
name = "acme"
driver = "acme"
[rack.options]
url = "https://joe:hunter2@acme.example/api"
api_password = "hunter3"
note = "joined with {CODE}"
password_file = "/etc/acme/password"
"""


def unpacked(file: Path) -> dict[str, bytes]:
    with tarfile.open(file) as tar:
        found = {}
        for entry in tar:
            content = tar.extractfile(entry)
            assert content is not None
            found[entry.name.rpartition("/")[2]] = content.read()
        return found


def test_it_holds_what_a_helper_needs_and_no_secret(zone: Zone, tmp_path: Path) -> None:
    (zone.folder / "banyan.toml").write_text(SETTINGS)
    file = tmp_path / "lab.tar.gz"
    try:
        result = zone.say("support-bundle", str(file), "--json")
    finally:
        (zone.folder / "banyan.toml").unlink()
    found = unpacked(file)
    assert {"contents.json", "status.json", "doctor.json", "metrics.txt", "zones.json", "journal.json",
            "settings.json", "machine.json"} <= set(found)  # fmt: skip
    whole = b"".join(found.values())
    for secret in (b"hunter2", b"hunter3", CODE.encode()):
        assert secret not in whole
    assert b"acme.example/api" in found["settings.json"] and b"/etc/acme/password" in found["settings.json"]
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    contents = json.loads(result.out)
    assert {part["file"] for part in contents["parts"] if not part["missing"]} == set(found) - {"contents.json"}


def test_lists_are_bounded_and_say_so(zone: Zone, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(support, "ROWS", 2)
    file = tmp_path / "lab.tar.gz"
    contents = json.loads(zone.say("support-bundle", str(file), "--json").out)
    part = next(part for part in contents["parts"] if part["file"] == "zones.json")
    assert (part["rows"], part["missing"]) == (2, "only the first 2 are in it")
    assert len(json.loads(unpacked(file)["zones.json"])) == 2


def test_a_file_that_is_there_is_left_alone(zone: Zone, tmp_path: Path) -> None:
    file = tmp_path / "lab.tar.gz"
    file.write_text("mine")
    result = zone.say("support-bundle", str(file))
    assert (result.status, file.read_text()) == (3, "mine")
    assert "is there already" in result.err
    assert "there is no folder" in zone.say("support-bundle", str(tmp_path / "no" / "b.tar.gz")).err


def test_of_a_zone_that_does_not_run_it_holds_what_can_be_had(tmp_path: Path, zone: Zone) -> None:
    file = tmp_path / "lab.tar.gz"
    result = zone.say("support-bundle", str(file), "--data", str(tmp_path), data=False)
    assert result.status == 6
    assert "status.json: no zone runs on" in result.err
    assert set(unpacked(file)) == {"contents.json", "settings.json", "machine.json"}


@pytest.mark.parametrize(
    ("name", "value", "kept"),
    [
        ("password", "x", "…"),
        ("api_token", "x", "…"),
        ("Secret", "x", "…"),
        ("token_file", "/f", "/f"),
        ("password", "", ""),
        ("retries", 3, 3),
        ("url", "postgresql://u:p@db/x", "postgresql://…@db/x"),
        ("url", "https://db/x", "https://db/x"),
        ("text", "a@b", "a@b"),
        ("url", "http://u:p@[db/x", "…"),
    ],
)
def test_what_is_cut_out_of_settings(name: str, value: object, kept: object) -> None:
    assert without_secrets({"rack": [{name: value}]}) == {"rack": [{name: kept}]}
