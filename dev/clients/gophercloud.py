"""Gophercloud from Debian's packages, with Debian's Go: both are unpacked beside the other environments."""

from __future__ import annotations

import shutil
from pathlib import Path

import yaml

from dev.clients.having import HERE, NotToBeHad, Ran, home, must, said
from dev.clients.steps import Step

LIBRARY = "golang-github-gophercloud-gophercloud-dev"
LIBRARIES = (LIBRARY, "golang-golang-x-crypto-dev", "golang-gopkg-yaml.v2-dev")
SOURCE = HERE / "go" / "main.go"


def prepare() -> str:
    """Unpacks and builds what is not there yet; the version. Raises NotToBeHad."""
    for program in ("apt-get", "apt-cache", "dpkg-deb"):
        if shutil.which(program) is None:
            raise NotToBeHad(f"it comes from Debian's packages, and there is no {program}")
    version = candidate(LIBRARY)
    folder = home() / "gophercloud"
    stamp, wanted = folder / "stamp", f"{version}\n{SOURCE.read_text(encoding='utf-8')}"
    if not (stamp.is_file() and stamp.read_text(encoding="utf-8") == wanted):
        unpack(folder)
        build(folder)
        stamp.write_text(wanted, encoding="utf-8")
    return version.partition("-")[0]


def candidate(package: str) -> str:
    lines = must(package, ["apt-cache", "policy", package], LC_ALL="C").splitlines()
    found = [line.partition(":")[2].strip() for line in lines if line.strip().startswith("Candidate:")]
    if not found or found[0] == "(none)":
        raise NotToBeHad(f"this machine's package lists have no {package} (apt-get update?)")
    return found[0]


def unpack(folder: Path) -> None:
    """`golang-go` is a package that depends on the compiler of its release: golang-1.N-go, and -src beside it."""
    depends = must("golang-go", ["apt-cache", "depends", "golang-go"], LC_ALL="C").split()
    compiler = next((one for one in depends if one.startswith("golang-1.") and one.endswith("-go")), "")
    if not compiler:
        raise NotToBeHad("this machine's package lists have no Go compiler")
    debs = folder / "debs"
    if not list(folder.glob("root/usr/lib/go-*/bin/go")):
        debs.mkdir(parents=True, exist_ok=True)
        packages = [compiler, f"{compiler.removesuffix('-go')}-src", *LIBRARIES]
        must("Go and gophercloud", ["sh", "-c", 'cd "$0" && apt-get download -qq "$@"', str(debs), *packages])
        for deb in sorted(debs.glob("*.deb")):
            must(deb.name, ["dpkg-deb", "-x", str(deb), str(folder / "root")])


def build(folder: Path) -> None:
    (root,) = folder.glob("root/usr/lib/go-*")
    must(
        "the scenario in Go",
        [str(root / "bin" / "go"), "build", "-o", str(folder / "scenario"), str(SOURCE)],
        GOROOT=str(root),
        GOPATH=str(folder / "root/usr/share/gocode"),
        GOCACHE=str(folder / "cache"),
        GO111MODULE="off",
        GOFLAGS="",
        CGO_ENABLED="0",
    )


def run(ran: Ran) -> list[Step]:
    entry = yaml.safe_load(ran.clouds.read_text(encoding="utf-8"))["clouds"][ran.cloud]
    auth = entry["auth"]
    settings = {
        "OS_AUTH_URL": auth["auth_url"],
        "OS_USERNAME": auth["username"],
        "OS_PASSWORD": auth["password"],
        "OS_PROJECT_NAME": auth["project_name"],
        "OS_DOMAIN_ID": auth["user_domain_id"],
        "OS_REGION_NAME": entry["region_name"],
        "OS_CACERT": entry["cacert"],
    }
    return said("gophercloud", [str(home() / "gophercloud" / "scenario")], ran.folder, settings)
