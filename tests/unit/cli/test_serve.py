"""Flags of serve and join as settings; join codes come from files only."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from banyan.cli.main import run
from banyan.cli.serve import Setup
from banyan.core.errors import BadInput
from banyan.store.lock import FolderLock


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


FILES = {
    "bad.toml": "[zone]\nnonsense = 1\n",
    "code": "banyan1.nonsense\n",
    "certificate.toml": "[api]\ncertificate = '/nowhere/a.pem'\nkey = '/nowhere/a.key'\n",
    "proxy.toml": "[link]\nproxy = 'ftp://x'\n",
    "url.toml": "[api]\npublic_url = 'nonsense'\n",
    "mode.toml": "[zone]\nmode = 'nonsense'\n",
}


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
        ["--name", "top", "--log-format", "json", "--config", "bad.toml"],
        ["--name", "top", "--driver", "sim", "--option", "nonsense=1"],
        ["--name", "top", "--driver", "sim", "--hosts", "-1"],
        ["--name", "top", "--driver", "openstack"],
        ["--name", "top", "--label", "No Key=x"],
        ["--name", "top", "--store", "mysql://x@y/z"],
        ["--name", "top", "--parent", "a:1"],
        ["--name", "top", "--parent", "a:1", "--parent-pin", "zz"],
        ["--name", "top", "--join-code-file", "code"],
        ["--name", "top", "--listen-link", "nowhere"],
        ["--name", "top", "--config", "certificate.toml"],
        ["--name", "top", "--config", "proxy.toml"],
        ["--name", "top", "--config", "url.toml"],
        ["--name", "top", "--config", "mode.toml"],
    ],
)
def test_what_cannot_be_served_ends_with_2_at_once_and_leaves_nothing(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, text in FILES.items():
        Path(name).write_text(text)
    base = ["serve", "--data", str(tmp_path / "data"), "--listen-api", "127.0.0.1:0", "--listen-link", "127.0.0.1:0"]
    for option in ("--listen-api", "--listen-link"):
        if option in words:
            at = base.index(option)
            base = [*base[:at], *base[at + 2 :]]
    assert run([*base, *words, "--log-level", "error"]) == 2
    assert capsys.readouterr().err.startswith("banyan: ")
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("option", ["--listen-api", "--listen-link"])
def test_an_address_that_is_taken_refuses_before_anything_is_made(
    option: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        base = {"--listen-api": "127.0.0.1:0", "--listen-link": "127.0.0.1:0"}
        base[option] = f"127.0.0.1:{taken.getsockname()[1]}"
        words = [word for pair in base.items() for word in pair]
        assert run(["serve", "--data", str(tmp_path / "data"), "--name", "top", *words]) == 3
    assert "[address-in-use]" in capsys.readouterr().err
    assert not (tmp_path / "data").exists()


def test_a_lost_seal_key_refuses_before_anything_is_made(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "z.toml").write_text("[store]\nseal_key_file = '/nowhere/seal'\n")
    words = ["--data", str(tmp_path / "data"), "--name", "top", "--config", str(tmp_path / "z.toml")]
    assert run(["serve", "--listen-api", "127.0.0.1:0", "--listen-link", "127.0.0.1:0", *words]) == 1
    assert "[seal-key-missing]" in capsys.readouterr().err
    assert not (tmp_path / "data").exists()


def test_a_folder_that_is_served_is_what_is_said_though_its_addresses_are_taken_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        lock = FolderLock(tmp_path)
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        words = ["--name", "top", "--listen-api", address, "--listen-link", "127.0.0.1:0"]
        assert run(["serve", "--data", str(tmp_path), *words]) == 3
        lock.release()
    assert "[folder-in-use]" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["nonsense", "banyan1.AAAA", ""])
def test_a_join_by_a_code_that_is_none_leaves_nothing(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "code").write_text(text + "\n")
    words = ["--data", str(tmp_path / "data"), "--name", "lab", "--code-file", str(tmp_path / "code")]
    assert run(["join", *words]) == 2
    assert capsys.readouterr().err.startswith("banyan: ")
    assert not (tmp_path / "data").exists()


def test_a_code_in_place_of_its_file_is_not_repeated(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["join", "--data", str(tmp_path), "--name", "a", "--code-file", "banyan1.SECRET"]) == 2
    assert "SECRET" not in capsys.readouterr().err
