"""What `make bundle` made, installed by its own script where there is no network but the loopback."""

from __future__ import annotations

import ctypes
import fcntl
import os
import socket
import struct
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CLONE_NEWNET = 0x40000000
SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP = 0x8913, 0x8914, 1


@pytest.fixture(scope="session", autouse=True)
def unplugged() -> None:
    """From here on this process, and all that it starts, is in a network of its own that leads nowhere."""
    if os.geteuid():
        pytest.skip("only root may unplug the network for a process")
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "unshare(CLONE_NEWNET)")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        request = struct.pack("16sh14x", b"lo", 0)
        flags = struct.unpack("16sh14x", fcntl.ioctl(sock, SIOCGIFFLAGS, request))[1]
        fcntl.ioctl(sock, SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", flags | IFF_UP))


@pytest.fixture(scope="session")
def bundle(tmp_path_factory: pytest.TempPathFactory, unplugged: None) -> Path:
    """The newest bundle, unpacked."""
    made = sorted((ROOT / "dist").glob("banyan-*.tar.gz"), key=lambda path: path.stat().st_mtime)
    assert made, "there is no bundle: make bundle"
    folder = tmp_path_factory.mktemp("bundle")
    subprocess.run(["tar", "-xzf", made[-1], "-C", folder], check=True)
    return next(folder.iterdir())


def install(bundle: Path, *options: str) -> subprocess.CompletedProcess[str]:
    python = ("--python", f"{sys.base_prefix}/bin/python3")
    around = {"PATH": os.environ["PATH"], "HOME": "/nonexistent"}
    words = [bundle / "install.sh", *python, *options]
    return subprocess.run(words, capture_output=True, text=True, check=False, env=around, timeout=300)


@pytest.fixture(scope="session")
def installed(bundle: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program, as the bundle's script installed it."""
    prefix = tmp_path_factory.mktemp("opt") / "banyan"
    done = install(bundle, "--prefix", str(prefix))
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("installed ")
    return prefix / "bin" / "banyan"
