"""banyan check: each thing that may stand in the way is named, with what to do; nothing is ever raised or written."""

from __future__ import annotations

import asyncio
import os
import resource
import socket
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from banyan.core.errors import BanyanError, Refused, Unreachable
from banyan.core.messages import Bye
from banyan.core.ports import Credentials, Driver, Finding, Peer, RackSpec, Wire, WireClosed
from banyan.core.secret import Secret
from banyan.core.time import Wall
from banyan.link import codec
from banyan.serve import check
from banyan.serve.clock import SystemClock, SystemIds
from banyan.serve.config import load
from banyan.store.lock import FolderLock
from banyan.trust import tokens

NOW = Wall(1_796_000_000.0)
SECRET = Secret(b"never-to-leave!!" * 2)
MINTED, _ = tokens.mint(
    addresses=["192.0.2.1:8781", "192.0.2.2:8781"],
    pin=b"p" * 32,
    now=NOW,
    expires=Wall(NOW + 3600),
    id=b"i" * 8,
    secret=SECRET,
)
CODE = MINTED.encode().reveal().decode()


class OneWire:
    """A parent that answers one frame, or ends, and writes down what it heard."""

    def __init__(self, answer: bytes | Exception, heard: list[bytes]) -> None:
        self.peer = Peer(None, "192.0.2.1:8781")
        self._answer = answer
        self._heard = heard

    async def send(self, frame: bytes) -> None:
        self._heard.append(frame)

    async def receive(self) -> bytes:
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer

    async def close(self, reason: str = "") -> None: ...


class Dials:
    def __init__(self, make: Callable[[], Wire]) -> None:
        self.make = make

    async def dial(
        self, address: str, *, purpose: str, credentials: Credentials | None, bundle: Sequence[bytes], timeout: float
    ) -> Wire:
        return self.make()


def ask(make: Callable[[], Wire], code: str = CODE) -> list[Finding]:
    return list(asyncio.run(check.parent(code, Dials(make), SystemClock(), SystemIds(), "")))


def raising(error: BanyanError) -> Callable[[], Wire]:
    def make() -> Wire:
        raise error

    return make


def test_every_address_of_the_parent_is_tried_and_its_error_shown() -> None:
    found = ask(raising(Unreachable("no-route", "no route to 192.0.2.1")))
    assert [(one.what, one.ok, one.found) for one in found] == [
        ("parent 192.0.2.1:8781", False, "no route to 192.0.2.1"),
        ("parent 192.0.2.2:8781", False, "no route to 192.0.2.1"),
    ]
    assert all("firewall" in one.remedy for one in found)
    assert "another zone" in ask(raising(Refused("not-the-parent", "x")))[0].remedy


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (WireClosed("reset"), "cut the connection: reset"),
        (b"HTTP/1.1 200 OK", "a frame"),
        (codec.join([codec.encode(Bye("busy", "come later", 1000))]), "turned us away: come later"),
    ],
)
def test_whatever_a_stranger_answers_is_a_finding_and_the_secret_stays(answer: bytes | Exception, said: str) -> None:
    heard: list[bytes] = []
    found = ask(lambda: OneWire(answer, heard))
    assert not any(one.ok for one in found)
    assert said in found[0].found
    assert heard
    assert not any(SECRET.reveal() in frame for frame in heard)


def test_a_code_that_is_none_is_a_finding() -> None:
    (one,) = ask(raising(Unreachable("x-y", "never dialled")), "banyan1.nonsense")
    assert (one.what, one.ok) == ("join code", False)


def test_the_folder_must_be_ours_alone(tmp_path: Path) -> None:
    new, disk = check.folder(tmp_path / "a" / "b")
    assert new.ok
    assert "will be made" in new.found
    assert disk.ok
    open_folder = tmp_path / "open"
    open_folder.mkdir()
    open_folder.chmod(0o755)
    assert "chmod 700" in next(iter(check.folder(open_folder))).remedy
    open_folder.chmod(0o700)
    assert next(iter(check.folder(open_folder))).ok


def test_few_open_files_are_named() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (check.OPEN_FILES - 1, hard))
        assert not check.open_files().ok
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_addresses_that_are_taken_or_bare_are_named() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        flags = {"zone.name": "a", "api.listen": "0.0.0.0:0", "api.tls": False}
        settings = load(None, {**flags, "link.listen": f"127.0.0.1:{taken.getsockname()[1]}"})
        api, link = check.listening(settings)
    assert (api.ok, link.ok) == (False, False)
    assert "TLS" in api.found
    assert "another process" in link.found


def test_an_address_that_this_very_zone_holds_is_well_and_one_that_a_stranger_holds_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = FolderLock(tmp_path)
    with socket.socket() as ours, socket.socket() as strangers:
        for one in (ours, strangers):
            one.bind(("127.0.0.1", 0))
            one.listen()
        port = strangers.getsockname()[1]
        stranger = subprocess.Popen(["sleep", "60"], pass_fds=[strangers.fileno()], close_fds=True)
        strangers.close()
        try:
            flags = {"zone.name": "a", "data": str(tmp_path), "api.listen": f"127.0.0.1:{ours.getsockname()[1]}"}
            settings = load(None, {**flags, "link.listen": f"127.0.0.1:{port}"})
            api, link = check.listening(settings)
            assert api.ok and f"held by the zone of this folder, which runs (process {os.getpid()})" in api.found
            assert (
                not link.ok and f"it is not the zone of this folder, which runs (process {os.getpid()})" in link.found
            )
            assert "ss -ltnp" in link.remedy and "link.listen" in link.remedy
            monkeypatch.setattr(check, "listens", lambda process, port: None)
            api, link = check.listening(settings)
            assert not api.ok and "it may be the zone of this folder" in api.found, "another user's process"
            lock.release()
            api, _ = check.listening(settings)
            assert not api.ok and "runs" not in api.found, "nobody serves this folder"
        finally:
            stranger.kill()
            stranger.wait()


def test_settings_that_make_no_zone_are_named() -> None:
    assert check.settled(load(None, {"zone.name": "lab"})).ok
    assert "did you mean 'lab'" in check.settled(load(None, {"zone.name": "LAB"})).found


class Fails:
    """A driver whose check goes as it is told."""

    def __init__(self, found: Sequence[Finding] | None) -> None:
        self.found = found
        self.closed = False

    async def check(self) -> Sequence[Finding]:
        if self.found is None:
            await asyncio.Event().wait()
            raise AssertionError
        return self.found

    async def close(self) -> None:
        self.closed = True


class Makes:
    def __init__(self, driver: object) -> None:
        self.driver = driver

    def kinds(self) -> Sequence[str]:
        return ("any",)

    def make(self, spec: RackSpec) -> Driver:
        if isinstance(self.driver, BanyanError):
            raise self.driver
        return self.driver


def test_each_rack_is_asked_and_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check, "DRIVER_WAIT", 0.02)
    well, silent = Fails([Finding("credentials", False, "401", "look at clouds.yaml")]), Fails(None)

    def of(driver: object) -> Finding:
        (one,) = asyncio.run(check.bottoms([RackSpec("r", "any")], Makes(driver)))
        return one

    assert of(well) == Finding("rack r: credentials", False, "401", "look at clouds.yaml")
    assert "no answer" in of(silent).found
    assert of(Refused("bad-option", "hosts must be a number")).found == "hosts must be a number"
    assert well.closed and silent.closed


def test_a_receiver_of_alarms_without_its_files_is_named(tmp_path: Path) -> None:
    secret, file = tmp_path / "secret", tmp_path / "banyan.toml"
    row = f'name = "pager"\nkind = "webhook"\naddress = "https://alarms.example/s3cret"\nsecret_file = "{secret}"\n'
    file.write_text(f'[zone]\nname = "lab"\n[[receiver]]\n{row}')
    settings = load(file, {"data": str(tmp_path)})
    (finding,) = check.alarms(settings)
    assert (finding.what, finding.ok) == ("receiver pager", False) and "No such file" in finding.found
    secret.write_text("whsec_" + "QUFB" * 10)
    secret.chmod(0o600)
    (finding,) = check.alarms(settings)
    assert finding.ok and "s3cret" not in finding.found
    assert not list(check.alarms(load(None, {"zone.name": "LAB"})))
