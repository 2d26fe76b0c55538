"""With --json nothing is plain text: results are the documented shapes, and whatever else is said is one line of JSON
each on standard error. Every command that has --json is here."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from banyan.cli.main import run
from tests.unit.cli.conftest import Result, Zone
from tests.unit.cli.test_command import ALL

KEY = "ab" * 32

# A line that is right as it stands, for each command that speaks to a zone.
LINES = f"""zone list;zone tree;zone show north;zone disable north;zone enable north;zone maintenance north --until 2h
zone ban north;zone unban north;zone retire north;zone rename north other;zone replace north;zone admit north
zone accept north;zone rescan north;code create;code list;code revoke c001;token create --role viewer;token list
token affirm t001;token revoke t001;rule list;rule add labs;rule remove labs;key list;key add {KEY} lab9
key remove {KEY};credentials --cloud-name x;usage;use;rack list;host list;server list;server create web --project p0
host disable host-north;host enable host-north
server placed;server show s;server delete s;server why s;journal;status;doctor;leave;release;authority rotate
receiver list;receiver test siem
bench create --count 1"""
ASKING = tuple(line for row in LINES.splitlines() for line in row.split(";"))
# These work on a folder or a file, and speak to no zone.
HERE = {("join",), ("check",), ("backup",), ("restore",), ("version",), ("help",)}


def words_of(line: str) -> tuple[str, ...]:
    plain = shlex.split(line)
    return tuple(plain[:2]) if tuple(plain[:2]) in ALL else (plain[0],)


def check(result: Result) -> None:
    """Standard output is one JSON text or empty, or a JSON text a line; standard error JSON lines, errors only."""
    if result.out:
        json.loads(result.out)
    for line in result.err.splitlines():
        assert json.loads(line)["error"].keys() == {"code", "text"}


def test_every_command_with_json_is_tried_here() -> None:
    having = {
        words for words, app in ALL.items() if any("--json" in a.names for a in app.assemble_argument_collection())
    }
    # A bundle makes a file: test_support.py tries it.
    assert having == {words_of(line) for line in ASKING} | HERE | {("support-bundle",)}
    assert set(ALL) - having == {("serve",), ("completion",)}


@pytest.mark.parametrize("line", ASKING)
def test_nothing_that_a_zone_answers_is_said_in_plain_text(zone: Zone, line: str) -> None:
    check(zone.say(*shlex.split(line), "--json"))


@pytest.mark.parametrize("line", ASKING)
def test_nor_that_there_is_no_zone(line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status = run([*shlex.split(line), "--data", str(tmp_path), "--json"])
    out, err = capsys.readouterr()
    check(Result(status, out, err))
    assert (status, err.count("\n")) == (5, 1)


@pytest.mark.parametrize("line", ["zone list", "status", "code revoke c001"])
def test_nor_that_an_option_is_wrong(zone: Zone, line: str) -> None:
    for json_flag in ("--json", "--json=true"):
        result = zone.say(*shlex.split(line), "--nonsense", "1", json_flag)
        check(result)
        assert (result.status, result.out, result.err.count("\n")) == (2, "", 1)


@pytest.mark.parametrize("word", ["disable", "enable", "ban", "maintenance --until 1h"])
@pytest.mark.parametrize("apply", [(), ("--apply",)])
def test_a_filter_that_fits_nothing_is_an_error(zone: Zone, word: str, apply: tuple[str, ...]) -> None:
    result = zone.say("zone", *word.split(), "--label", "nope=1", "--json", *apply)
    check(result)
    assert (result.status, result.out) == (4, "")
    assert json.loads(result.err)["error"]["code"] == "no-match"


@pytest.mark.parametrize(
    "line",
    ["host list", "zone list", "zone tree", "zone disable --health alive", "zone disable --health alive --apply"],
)
def test_what_could_not_be_asked_is_an_error_beside_the_result(zone: Zone, line: str) -> None:
    zone.surface.absent = ("top/south/lab3",)
    result = zone.say(*line.split(), "--json")
    check(result)
    assert result.status == 6 and result.out
    assert json.loads(result.err)["error"]["code"] == "partial"
    assert "top/south/lab3" in result.err
    plain = zone.say(*line.split())
    assert plain.status == 6 and "top/south/lab3" in plain.err


def test_a_dry_run_is_a_result(zone: Zone) -> None:
    for line in ("authority rotate --leaked", "zone retire north", "leave", "release"):
        result = zone.say(*line.split(), "--json")
        check(result)
        assert json.loads(result.out)["applied"] is False, line
    assert json.loads(zone.say("authority", "rotate", "--leaked", "--json").out)["children"] == 4


def test_to_name_nothing_is_an_error(zone: Zone) -> None:
    for line in ("zone disable", "zone rescan", "code revoke", "token affirm", "token revoke", "rule remove",
                 "key remove", "server delete"):  # fmt: skip
        result = zone.say(*line.split(), "--json")
        check(result)
        assert (result.status, result.out, result.err.count("\n")) == (2, "", 1), line


def test_what_needs_no_zone_speaks_json_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    secret = tmp_path / "secret"
    secret.write_text("correct horse\n")
    data, file = str(tmp_path / "none"), str(tmp_path / "file")
    for line in (
        f"join --name lab --data {data}",
        f"join --name lab --data {data} --code-file {secret}",
        f"check --name lab --data {data} --listen-api nonsense --driver nosuch",
        f"check --name lab --data {data} --join-code-file {secret}",
        f"check --name lab --data {data} --join-code-file {file}",
        f"backup {file} --data {data}-2 --passphrase-file {secret}",
        f"restore {file} --data {data}-2 --passphrase-file {secret}",
        "version",
    ):
        status = run([*line.split(), "--json"])
        out, err = capsys.readouterr()
        check(Result(status, out, err))
        assert status == 0 if line == "version" else status and (out or err), line
