"""A bundle installs with the network unplugged, and is refused when it is not as it was made."""

from __future__ import annotations

import shutil
import socket
import subprocess
from pathlib import Path

import pytest

from tests.bundle.conftest import install


def test_the_network_is_unplugged() -> None:
    with pytest.raises(OSError, match="unreachable"), socket.create_connection(("192.0.2.1", 443), timeout=5):
        pass


def test_it_installs_and_runs_and_installs_again(bundle: Path, installed: Path) -> None:
    said = subprocess.run([installed, "--version"], capture_output=True, text=True, check=True).stdout
    assert said.strip() in (bundle / "BUNDLE").read_text()
    again = install(bundle, "--prefix", str(installed.parents[1]))
    assert again.returncode == 0, again.stderr


@pytest.mark.parametrize("harm", ["change", "remove"])
def test_a_bundle_that_is_not_as_it_was_made_is_refused(bundle: Path, tmp_path: Path, harm: str) -> None:
    copy = tmp_path / "bundle"
    shutil.copytree(bundle, copy)
    wheel = next((copy / "wheels").glob("banyan_cloud-*.whl"))
    if harm == "change":
        wheel.write_bytes(wheel.read_bytes() + b"x")
    else:
        wheel.unlink()
    done = install(copy, "--prefix", str(tmp_path / "opt"))
    assert done.returncode == 1
    assert "not as it was made" in done.stderr
    assert not (tmp_path / "opt").exists()


def test_another_machine_or_python_is_refused_by_name(bundle: Path, tmp_path: Path) -> None:
    copy = tmp_path / "bundle"
    shutil.copytree(bundle, copy)
    text = (copy / "BUNDLE").read_text()
    for wrong in (text.replace("python 3", "python 2"), text.replace("machine ", "machine vax-")):
        (copy / "BUNDLE").write_text(wrong)
        sums = "".join(f"{line}\n" for line in (copy / "SHA256SUMS").read_text().splitlines() if "BUNDLE" not in line)
        (copy / "SHA256SUMS").write_text(sums)
        done = install(copy, "--prefix", str(tmp_path / "opt"))
        assert done.returncode == 1
        assert "this bundle is for" in done.stderr
    assert "there is no option --frobnicate" in install(copy, "--frobnicate").stderr
