"""OpenStack's own API tests against a cloud of ours: `python dev/tempest.py --tier 1 [--area identity] [-- REGEX]`.

A root is started, and zones below it, each on a folder of its own: the hosts lie two levels down (--depth 0 for a root
with hosts of its own). The peer's template is filled in, and Tempest runs the tier's list, or the part of it that is of
one area or fits a regular expression. Each test counts once, also one whose class could not be
set up. The last two lines are

    N passed, N failed
    N passed, N failed, N skipped, N excluded       their sum is how many tests there were

An excluded test (dev/tempest-exclusions.toml, each with its reason) runs all the same: if it passes, it is red.
Lists and template are the peer's ($BANYAN_PEERS/tempest, beside the checkout: ../shared/peers). Tempest has a virtual
environment of its own, made at the first run in .tempest ($BANYAN_TEMPEST for another place).
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import tomllib
import urllib.request
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from banyan.api.neutron.extensions import EXTENSIONS
from banyan.api.nova.versions import LAST
from banyan.api.services import SERVICES

ROOT = Path(__file__).resolve().parent.parent
BANYAN = Path(sys.executable).with_name("banyan")
TEMPEST = "tempest==47.0.0"
EXCLUSIONS = ROOT / "dev" / "tempest-exclusions.toml"
READY_WITHIN = 60.0
END_WITHIN = 20.0

PASSED, FAILED, SKIPPED, EXCLUDED = "passed", "failed", "skipped", "excluded"


class TempestFailed(Exception):
    """What went wrong before any test could run."""


@dataclass(frozen=True, slots=True)
class Cloud:
    """A running cloud: where its API answers, its administrator's password, its two public images, and its network to
    the outside."""

    port: int
    password: str
    images: tuple[str, str]
    external: str


def peer() -> Path:
    peers = Path(os.environ.get("BANYAN_PEERS") or ROOT.parent / "shared" / "peers")
    folder = peers / "tempest"
    if not (folder / "tier1.txt").is_file():
        raise TempestFailed(f"no lists in {folder}; set BANYAN_PEERS to the folder that holds tempest/tier1.txt")
    return folder


def environment() -> Path:
    """The virtual environment with Tempest, made if it is not there."""
    given = os.environ.get("BANYAN_TEMPEST")
    venv = Path(given) if given else ROOT / ".tempest"
    if not (venv / "bin" / "tempest").exists():
        print(f"tempest: installing {TEMPEST} into {venv} ...", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)
        subprocess.run([str(venv / "bin" / "pip"), "install", "--quiet", TEMPEST], check=True)
    return venv


def tests(tier: str, area: str, pattern: str) -> list[str]:
    """The ids of a tier, in the list's order, of one area, and that fit a pattern."""
    listed = (peer() / f"tier{tier}.txt").read_text(encoding="utf-8").split("\n")
    ids = [line.strip() for line in listed if line.strip() and not line.startswith("#")]
    if area:
        ids = [id for id in ids if re.match(rf"tempest\.(api\.)?{re.escape(area)}\.", id)]
    return [id for id in ids if re.search(pattern, id)] if pattern else ids


def exclusions() -> Mapping[str, str]:
    """The tests that are known not to pass, by name without suffix, each with its reason."""
    found = tomllib.loads(EXCLUSIONS.read_text(encoding="utf-8")).get("excluded", [])
    return {row["test"]: row["reason"] for row in found}


def bare(id: str) -> str:
    """A test's name without `[id-…]`."""
    return id.partition("[")[0]


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


# A zone lets its parent place servers, and tells it soon what it has.
SOON = """
[zone]
mode = "place"

[scan]
interval = 5

[terms]
report = 2
"""

# The flavors that the template names.
FLAVORS = """
[[compute.flavors]]
id = "42"
name = "m1.nano"
vcpus = 1
memory_mib = 128
disk_gib = 1

[[compute.flavors]]
id = "84"
name = "m1.micro"
vcpus = 1
memory_mib = 192
disk_gib = 2
"""

# Hosts without guests of their own, quick to build on.
HOSTS = 4
RACK = f"""
[[rack]]
name = "lab"
driver = "sim"
options = {{ hosts = {HOSTS}, guests = 0, build_seconds = 0.2 }}
"""


def ask(url: str, method: str, token: str, body: bytes, kind: str = "application/json") -> tuple[dict[str, str], bytes]:
    """One request that must succeed: its headers by lower-case name, and its body."""
    headers = {"Content-Type": kind, **({"X-Auth-Token": token} if token else {})}
    request = urllib.request.Request(url, body, headers, method=method)
    with urllib.request.urlopen(request, timeout=30) as answer:
        return {name.lower(): value for name, value in answer.headers.items()}, answer.read()


def seeded(port: int, password: str) -> Cloud:
    """With two public images, active, of any bytes, and a network that routers have gateways to."""
    base = f"http://127.0.0.1:{port}"
    user = {"name": "admin", "domain": {"id": "default"}, "password": password}
    auth = {
        "identity": {"methods": ["password"], "password": {"user": user}},
        "scope": {"project": {"name": "admin", "domain": {"id": "default"}}},
    }
    headers, _ = ask(f"{base}/identity/v3/auth/tokens", "POST", "", json.dumps({"auth": auth}).encode())
    token, made = headers["x-subject-token"], []
    for number in (1, 2):
        fields = {"name": f"image-{number}", "visibility": "public", "disk_format": "raw", "container_format": "bare"}
        _, body = ask(f"{base}/image/v2/images", "POST", token, json.dumps(fields).encode())
        made.append(json.loads(body)["id"])
        ask(f"{base}/image/v2/images/{made[-1]}/file", "PUT", token, b"image" * 1024, "application/octet-stream")
    network = {"network": {"name": "outside", "router:external": True}}
    _, body = ask(f"{base}/network/v2.0/networks", "POST", token, json.dumps(network).encode())
    external = json.loads(body)["network"]["id"]
    for cidr, version in (("203.0.113.0/24", 4), ("2001:db8:ffff::/64", 6)):
        subnet = {"subnet": {"network_id": external, "cidr": cidr, "ip_version": version, "enable_dhcp": False}}
        ask(f"{base}/network/v2.0/subnets", "POST", token, json.dumps(subnet).encode())
    return Cloud(port, password, (made[0], made[1]), external)


@contextmanager
def cloud(folder: Path, depth: int) -> Iterator[Cloud]:
    """A root with a cloud of its own, over HTTP on loopback as the template has it, whose hosts lie so many levels
    below; ended at the end."""
    names = ["top", *(f"level{n}" for n in range(1, depth + 1))]
    processes: list[subprocess.Popen[bytes]] = []
    port, above = 0, folder
    try:
        for name in names:
            data, own = folder / name, free_port()
            data.mkdir(mode=0o700)
            rack = RACK if name == names[-1] else ""
            (data / "banyan.toml").write_text(SOON + (FLAVORS if not processes else "") + rack)
            command = [str(BANYAN), "serve", "--data", str(data), "--name", name, "--api-tls", "off"]
            command += ["--listen-api", f"127.0.0.1:{own}", "--listen-link", f"127.0.0.1:{free_port()}"]
            if processes:
                code = folder / f"{name}.code"
                subprocess.run([str(BANYAN), "code", "create", "--data", str(above), "--out", str(code)], check=True)
                command += ["--join-code-file", str(code)]
            with (folder / f"{name}.log").open("wb") as log:
                processes.append(subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT))
            wait_for(processes[-1], own, folder / f"{name}.log")
            port, above = port or own, data
        wait_whole(folder)
        password = (folder / "top" / "admin-password").read_text().strip()
        yield seeded(port, password)
    finally:
        for process in reversed(processes):
            process.send_signal(signal.SIGTERM)
        for process in reversed(processes):
            try:
                process.wait(END_WITHIN)
            except subprocess.TimeoutExpired:
                process.kill()


def wait_whole(folder: Path) -> None:
    """Until the root counts every host below it."""
    deadline = time.monotonic() + READY_WITHIN
    while time.monotonic() < deadline:
        told = subprocess.run(
            [str(BANYAN), "usage", "--data", str(folder / "top"), "--json"], capture_output=True, check=False
        )
        if told.returncode in (0, 6) and (json.loads(told.stdout).get("hosts") or {}).get("total") == HOSTS:
            return
        time.sleep(0.3)
    logs = "\n".join(path.read_text(errors="replace")[-1000:] for path in sorted(folder.glob("*.log")))
    raise TempestFailed(f"the tree was not whole after {READY_WITHIN:g} s:\n{logs}")


def wait_for(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    deadline = time.monotonic() + READY_WITHIN
    while time.monotonic() < deadline and process.poll() is None:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/identity/v3", timeout=2):
                return
        except OSError:
            time.sleep(0.1)
    raise TempestFailed(f"the zone did not come up:\n{log.read_text(errors='replace')[-2000:]}")


def configuration(at: Cloud, state: Path, tier: str) -> str:
    """The template, filled in; with what it has for tier 3 only, as far as this cloud has it."""
    values = {
        "STATE": str(state),
        "ADMIN_USER": "admin",
        "ADMIN_PASSWORD": at.password,
        "ADMIN_PROJECT": "admin",
        "PORT": str(at.port),
        "IDENTITY_PATH": "identity",
        "REGION": "RegionOne",
        "IMAGE_1": at.images[0],
        "IMAGE_2": at.images[1],
        "FLAVOR_1": "42",
        "FLAVOR_2": "84",
        "COMPUTE_MAX": str(LAST),
    }
    text = (peer() / "tempest.conf").read_text(encoding="utf-8")
    text = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("#"))
    if tier == "3":
        text = text.replace("[network]", f"[network]\npublic_network_id = {at.external}")
        # Simulated guests answer no SSH, however long some scenarios wait for it: five minutes for each.
        text = text.replace("[validation]", "[validation]\nssh_timeout = 5\nping_timeout = 5")
        text = re.sub(r"^ipv6 = false$", "ipv6 = true\nipv6_subnet_attributes = true", text, flags=re.MULTILINE)
        offered = ",".join(alias for alias, _, _ in EXTENSIONS)
        text = re.sub(r"^api_extensions = .*$", f"api_extensions = {offered}", text, flags=re.MULTILINE)
    for name, value in values.items():
        text = text.replace(f"@{name}@", value)
    for service, prefix in (("nova", "compute"), ("glance", "image"), ("neutron", "network")):
        if prefix not in {one.prefix for one in SERVICES}:
            # Not there yet in this version of ours: the rest can be judged without it.
            text = re.sub(rf"^{service} = true$", f"{service} = false", text, flags=re.MULTILINE)
    left = set(re.findall(r"@[A-Z_0-9]+@", text))
    if left:
        raise TempestFailed(f"the template has placeholders that nothing fills: {', '.join(sorted(left))}")
    return text


def run(venv: Path, work: Path, ids: Sequence[str], concurrency: int, loud: bool) -> dict[str, str]:
    """Runs the tests in the workspace `work`; id → status as subunit has it."""
    chosen = work / "chosen.txt"
    chosen.write_text("\n".join(ids) + "\n", encoding="utf-8")
    environment = {**os.environ, "PATH": f"{venv / 'bin'}:{os.environ.get('PATH', '')}"}
    command = [str(venv / "bin" / "tempest"), "run", "--load-list", str(chosen), "--concurrency", str(concurrency)]
    output = None if loud else subprocess.DEVNULL
    tempest = subprocess.Popen(command, cwd=work, env=environment, stdout=output, stderr=output, start_new_session=True)
    try:
        tempest.wait()
    except BaseException:
        # Its workers, too.
        os.killpg(tempest.pid, signal.SIGKILL)
        tempest.wait()
        raise
    last = subprocess.run(
        [str(venv / "bin" / "stestr"), "last", "--subunit"], cwd=work, env=environment, check=False, capture_output=True
    )
    rows = subprocess.run(
        [str(venv / "bin" / "subunit2csv"), "--no-passthrough"], input=last.stdout, check=False, capture_output=True
    )
    return {row["test"]: row["status"] for row in csv.DictReader(io.StringIO(rows.stdout.decode()))}


def verdicts(ids: Sequence[str], seen: Mapping[str, str]) -> dict[str, str]:
    """One verdict for each test. One that was not run has its class's: its set-up failed, or skipped all."""
    found: dict[str, str] = {}
    for id in ids:
        status = seen.get(id)
        if status is None:
            owner = bare(id).rpartition(".")[0]
            status = next((s for name, s in seen.items() if name.startswith("setUpClass") and owner in name), "fail")
        found[id] = {"success": PASSED, "xfail": PASSED, "skip": SKIPPED}.get(status, FAILED)
    return found


def unclean(seen: Mapping[str, str]) -> list[str]:
    """Classes that could not clean up after themselves."""
    return sorted(name for name, status in seen.items() if name.startswith("tearDownClass") and status == "fail")


def report(ids: Sequence[str], found: Mapping[str, str], excluded: Mapping[str, str], left: Sequence[str]) -> int:
    """Prints what is not well, then the two lines; 1 if anything is red."""
    final = {id: EXCLUDED if bare(id) in excluded and found[id] != PASSED else found[id] for id in ids}
    for id in ids:
        if final[id] == FAILED:
            print(f"FAILED   {bare(id)}")
        if final[id] == SKIPPED:
            print(f"skipped  {bare(id)}")
    wrong = [bare(id) for id in ids if bare(id) in excluded and found[id] == PASSED]
    for name in wrong:
        print(f"FAILED   {name} is excluded ({excluded[name]}), and passes: take it off {EXCLUSIONS.name}")
    for name in left:
        print(f"FAILED   {name}: something was left behind")
    count = Counter(final.values())
    print(f"{count[PASSED]} passed, {count[FAILED]} failed")
    print(f"{count[PASSED]} passed, {count[FAILED]} failed, {count[SKIPPED]} skipped, {count[EXCLUDED]} excluded")
    return 1 if count[FAILED] or wrong or left else 0


def ended(number: int, _: object) -> NoReturn:
    """SIGTERM ends this as Ctrl-C does, once: a second one must not cut off the end of the zones."""
    signal.signal(number, signal.SIG_IGN)
    sys.exit(128 + number)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--tier", default="1", choices=("1", "2", "3"))
    parser.add_argument("--area", default="", help="identity, compute, image, network, scenario")
    parser.add_argument("--depth", type=int, default=2, help="levels between the root and its hosts (%(default)s)")
    parser.add_argument("--concurrency", type=int, default=2)
    parser.add_argument("--quiet", action="store_true", help="without Tempest's own lines")
    parser.add_argument("--keep", metavar="DIR", default="", help="keep logs, settings and results there")
    parser.add_argument("pattern", nargs="?", default="", help="only tests whose id fits this regular expression")
    given = parser.parse_args(arguments)
    ids = tests(given.tier, given.area, given.pattern)
    if not ids:
        print("tempest: no test fits", file=sys.stderr)
        return 2
    signal.signal(signal.SIGTERM, ended)
    venv = environment()
    with tempfile.TemporaryDirectory(prefix="banyan-tempest-") as scratch:
        folder = Path(scratch)
        state, work = folder / "state", folder / "work"
        (state / "logs").mkdir(parents=True)
        (state / "lock").mkdir()
        with cloud(folder, given.depth) as at:
            init = [
                str(venv / "bin" / "tempest"),
                "init",
                "--workspace-path",
                str(folder / "workspaces.yaml"),
                str(work),
            ]
            subprocess.run(init, check=True, capture_output=True)
            (work / "etc" / "tempest.conf").write_text(configuration(at, state, given.tier), encoding="utf-8")
            seen = run(venv, work, ids, given.concurrency, not given.quiet)
        found = verdicts(ids, seen)
        if given.keep:
            keep = Path(given.keep)
            keep.mkdir(parents=True, exist_ok=True)
            shutil.copytree(state / "logs", keep / "logs", dirs_exist_ok=True)
            for log in folder.glob("*.log"):
                shutil.copy(log, keep / log.name)
            (keep / "verdicts.json").write_text(json.dumps(found, indent=1))
        return report(ids, found, exclusions(), unclean(seen))


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except TempestFailed as error:
        print(f"tempest: {error}", file=sys.stderr)
        sys.exit(1)
