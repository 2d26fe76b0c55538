"""Flags of serve and join as settings; join codes come from files only."""

from __future__ import annotations

from pathlib import Path

import pytest

from banyan.cli.main import run
from banyan.cli.serve import Setup
from banyan.core.errors import BadInput


def test_flags_become_settings_over_those_of_the_file(tmp_path: Path) -> None:
    file = tmp_path / "zone.toml"
    file.write_text('[zone]\nname = "from-file"\nlabels = { a = "1" }\n[log]\nlevel = "error"\n')
    setup = Setup(
        data=tmp_path / "data",
        config=file,
        name="east",
        advertise=("192.0.2.1:8781", "[2001:db8::1]:8781"),
        driver="sim",
        hosts=100,
        option=("seed=7", "region=RegionOne"),
    )
    settings = setup.settings({"api.listen": "127.0.0.1:1", "api.tls": False, "link.listen": None})
    assert settings.zone.name == "east"
    assert settings.zone.labels == {"a": "1"}
    assert settings.log.level == "error"
    assert (settings.api.listen, settings.api.tls, settings.link.listen) == ("127.0.0.1:1", False, "127.0.0.1:8781")
    assert settings.link.advertise == ("192.0.2.1:8781", "[2001:db8::1]:8781")
    assert settings.folder == tmp_path / "data"
    (rack,) = settings.rack
    assert (rack.name, rack.driver, rack.options) == ("sim", "sim", {"hosts": 100, "seed": 7, "region": "RegionOne"})


def test_without_a_driver_a_zone_has_no_rack(tmp_path: Path) -> None:
    assert Setup(data=tmp_path, name="top").settings({}).rack == ()


@pytest.mark.parametrize(
    "setup", [Setup(name="a", hosts=5), Setup(name="a", cloud="x"), Setup(name="a", option=("a=1",))]
)
def test_options_are_of_a_driver(setup: Setup) -> None:
    with pytest.raises(BadInput) as caught:
        setup.settings({})
    assert "--driver" in caught.value.text


def test_a_zone_needs_a_name(tmp_path: Path) -> None:
    with pytest.raises(BadInput) as caught:
        Setup(data=tmp_path).settings({})
    assert caught.value.code == "no-name"


@pytest.mark.parametrize(
    "words",
    [
        ["--name", "Top"],
        ["--name", "top", "--api-tls", "maybe"],
        ["--name", "top", "--listen-api", "nowhere"],
        ["--name", "top", "--listen-api", "0.0.0.0:0", "--api-tls", "off"],
        ["--name", "top", "--join-code-file", "/nowhere/code"],
        ["--name", "top", "--driver", "nonsense"],
        ["--name", "top", "--config", "/nowhere/zone.toml"],
    ],
)
def test_what_cannot_be_served_ends_with_2_at_once(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    base = ["serve", "--data", str(tmp_path), "--listen-api", "127.0.0.1:0", "--listen-link", "127.0.0.1:0"]
    if "--listen-api" in words:
        base = [*base[:3], *base[5:]]
    assert run([*base, *words, "--log-level", "error"]) == 2
    assert capsys.readouterr().err.startswith("banyan: ")


def test_a_code_in_place_of_its_file_is_not_repeated(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["join", "--data", str(tmp_path), "--name", "a", "--code-file", "banyan1.SECRET"]) == 2
    assert "SECRET" not in capsys.readouterr().err
