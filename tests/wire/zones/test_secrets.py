"""Every secret that a full run issues is looked for where no secret may be, in every form it could take.

Command lines and environments of all processes, logs at their most talkative, journals, and each byte of the data
folders: a data folder that is copied without its seal key tells nobody how to be this zone, or to join it.
"""

from __future__ import annotations

import base64
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from banyan.core.records import Unit
from banyan.core.secret import Secret
from banyan.trust import tokens
from banyan.trust.authority import Issuer, api_certificate
from tests.wire.zones.processes import Cloud, Zone, banyan, start
from tests.wire.zones.stores import look
from tests.wire.zones.test_credentials import client, log_in

pytestmark = pytest.mark.slow

PASSPHRASE = "correct horse battery staple, and then some"


def forms(value: bytes) -> set[bytes]:
    """How a secret may be written: as it is, in hexadecimal, in both base64 alphabets."""
    found = {value}
    if len(value) <= 64:
        plain, safe = base64.b64encode(value).rstrip(b"="), base64.urlsafe_b64encode(value).rstrip(b"=")
        found |= {value.hex().encode(), value.hex().upper().encode(), plain, safe, repr(value)[2:-1].encode()}
    return found


@dataclass
class Watch:
    """Reads command lines and environments of all processes of this machine that name `folder`, while it runs."""

    folder: Path
    seen: dict[str, bytes] = field(default_factory=dict)
    looks: int = 0

    def __enter__(self) -> Watch:
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        mark = str(self.folder).encode()
        while not self._over.is_set():
            for entry in Path("/proc").iterdir():
                if not entry.name.isdigit():
                    continue
                try:
                    line = (entry / "cmdline").read_bytes()
                    if mark in line:
                        self.seen[f"command line of {entry.name}"] = line
                        self.seen[f"environment of {entry.name}"] = (entry / "environ").read_bytes()
                except OSError:
                    continue
            self.looks += 1
            time.sleep(0.02)


@dataclass
class Run:
    """What a full run left behind: all places to look at by name, and all secrets by name."""

    places: dict[str, bytes]
    secrets: dict[str, bytes]
    public: dict[str, bytes]
    folders: dict[str, Path]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("secrets")
    secrets: dict[str, bytes] = {}
    # The console script itself, since its command lines are what is looked at.
    with Cloud(folder, loaded=False) as cloud, Watch(folder) as watch:
        top = cloud.zone("top", "--log-level", "debug").start()
        used, unused, file = top.code(), top.code("--uses", "5", "--name", "nobody"), folder / "east.code"
        assert top.cli("code", "create", "--out", str(file)).status == 0
        secrets |= {"used code": used.encode(), "unused code": unused.encode()}
        east = cloud.zone("east", "--log-level", "debug", code=file.read_text(), hosts=2)
        lab = cloud.zone("lab", "--log-level", "debug", "--log-format", "json", code=used, hosts=1)
        secrets["code of a file"] = file.read_bytes().strip()
        start(east, lab)
        for name in ("east", "lab"):
            top.wait_for_zone(name, state="ready", health="alive")
        token = top.cli("token", "create", "--role", "admin", "--subject", "ops", "--json").json()["token"]
        secrets["token"] = token.encode()
        (folder / "token").write_text(token)
        there = ["--url", f"https://127.0.0.1:{top.api}", "--ca-file", str(top.data / "api.pem"), "--json"]
        remote = banyan("code", "create", *there, "--token-file", str(folder / "token"), loaded=False)
        secrets["code by token"] = remote.json()["code"].encode()
        wrong = folder / "wrong-token"
        wrong.write_text(token[:-6] + "AAAAAA")
        secrets["refused token"] = wrong.read_bytes()
        assert banyan("zone", "list", *there, "--token-file", str(wrong), loaded=False).status == 3
        secrets |= users(top)
        replaced = top.cli("zone", "replace", "lab", "--json").json()["code"]
        secrets["replacement code"] = replaced.encode()
        assert top.cli("authority", "rotate").status == 0
        # Two that are refused, with all that a refusal tells.
        mistyped = cloud.zone("typo", "--log-level", "debug", code=used[:-3] + "abc")
        assert mistyped.join("--json").status == 2
        again = cloud.zone("again", "--log-level", "debug", code=used)
        refused = again.join("--json")
        assert refused.status == 3
        (folder / "passphrase").write_text(PASSPHRASE + "\n")
        secrets["passphrase"] = PASSPHRASE.encode()
        backup = folder / "top.backup"
        assert top.cli("backup", str(backup), "--passphrase-file", str(folder / "passphrase")).status == 0
        zones = [top, east, lab]
        places = {
            f"journal of {zone.name}": zone.cli("journal", "--json", "--limit", "1000").out.encode() for zone in zones
        }
        places |= {f"codes of {zone.name}": zone.cli("code", "list", "--json").out.encode() for zone in zones}
        places["tokens"] = top.cli("token", "list", "--json").out.encode()
        for zone in zones:
            places[f"status of {zone.name}"] = zone.cli("status", "--json").out.encode()
        places |= bytes_of(zones, "while it runs")
        for zone in zones:
            assert zone.stop() == 0
    places |= watch.seen | bytes_of([*zones, mistyped, again], "at rest")
    places["refusal"] = (refused.out + refused.err).encode()
    places["backup"] = backup.read_bytes()
    for name, code in list(secrets.items()):
        if "code" in name:
            parsed = tokens.parse(code.decode())
            secrets[f"secret of the {name}"] = parsed.secret.reveal()
            secrets[f"key of the {name}"] = tokens.signing_seed(parsed.secret).reveal()
    for zone in [*zones, again]:
        secrets |= {f"{name} of {zone.name}": value for name, value in look(zone.data, seeds).items()}
        secrets[f"seal key of {zone.name}"] = (zone.data / "seal.key").read_bytes()
    assert watch.looks > 20 and len(watch.seen) > 20
    public = {
        "the zone's name": b"east",
        "a code's id": tokens.parse(used).id.encode(),
        "the certificate of the first CA": look(top.data, first_ca),
    }
    return Run(places, secrets, public, {zone.name: zone.data for zone in zones})


def bytes_of(zones: list[Zone], when: str) -> dict[str, bytes]:
    """Logs, and each file of the data folders but the seal keys and first passwords: the secrets that are files."""
    found = {f"log of {zone.name}": zone.log.read_bytes() for zone in zones if zone.log.exists()}
    for zone in zones:
        for path in zone.data.rglob("*"):
            if path.is_file() and path.name not in ("seal.key", "admin-password"):
                found[f"{path.name} of {zone.name} {when}"] = path.read_bytes()
    return found


def users(zone: Zone) -> dict[str, bytes]:
    """What the cloud's users hold: the first password, a wrong one, a token, a key with its token."""
    password = (zone.data / "admin-password").read_bytes().strip()
    with client(zone) as http:
        entry = zone.cli("credentials", "--cloud-name", "c", "--json").json()["clouds"]["c"]
        token = log_in(http, entry).headers["X-Subject-Token"]
        http.get("/identity/v3/users", headers={"X-Auth-Token": token[:-6] + "AAAAAA"})
        wrong = {**entry, "auth": {**entry["auth"], "password": "one that is not right"}}
        assert log_in(http, wrong).status_code == 401
        head = {"X-Auth-Token": token}
        made = http.get("/identity/v3/auth/tokens", headers={**head, "X-Subject-Token": token}).json()["token"]
        path = f"/identity/v3/users/{made['user']['id']}"
        body = {"application_credential": {"name": "k"}}
        key = http.post(f"{path}/application_credentials", json=body, headers=head).json()["application_credential"]
        secret = key["secret"].encode()
        auth = {"application_credential_id": key["id"], "application_credential_secret": key["secret"]}
        entry = {"auth_type": "v3applicationcredential", "auth": {**entry["auth"], **auth}}
        second = log_in(http, entry).headers["X-Subject-Token"]
        ec2 = http.post(f"{path}/credentials/OS-EC2", json={"tenant_id": made["project"]["id"]}, headers=head)
        http.delete("/identity/v3/auth/tokens", headers={**head, "X-Subject-Token": second})
    return {
        "first password": password,
        "wrong password": b"one that is not right",
        "user's token": token.encode(),
        "token by a key": second.encode(),
        "application credential": secret,
        "EC2 secret": ec2.json()["credential"]["secret"].encode(),
    }


def seeds(unit: Unit) -> dict[str, bytes]:
    """Every secret of the store by name, and what follows from it."""
    own = unit.self_.get()
    assert own is not None
    names = ["zone", "tokens", "api", *(row.key for row in unit.authorities.all())]
    names += [f"uplink.{row.id}.code" for row in unit.uplinks.all()]
    found = {name: secret.reveal() for name in names if (secret := unit.keys.get(name)) is not None}
    assert len(found) >= 4
    made = api_certificate(Secret(found["api"]), ("localhost",), serial=bytes(16), now=own.created_at)
    lines = made.key.reveal().splitlines()
    return {**found, "the API's key in PEM": b"\n".join(lines[1:-1])}


def first_ca(unit: Unit) -> bytes:
    return min(unit.authorities.all(), key=lambda row: row.created_at).certificate


def test_no_secret_is_where_none_may_be(run: Run) -> None:
    found = [
        f"{name} in {place}"
        for name, secret in run.secrets.items()
        for form in forms(secret)
        for place, content in run.places.items()
        if form in content
    ]
    assert found == []


def test_the_search_finds_what_is_there(run: Run) -> None:
    """What is public is found by the same search, in the places where it must be."""
    everywhere = {name: [p for p, content in run.places.items() if any(f in content for f in forms(value))]
                  for name, value in run.public.items()}  # fmt: skip
    assert "log of east" in everywhere["the zone's name"] and "journal of top" in everywhere["the zone's name"]
    assert {"journal of top", "codes of top"} <= set(everywhere["a code's id"])
    assert any(place.startswith("banyan.db of top") for place in everywhere["the certificate of the first CA"])
    assert len(run.secrets) > 30, "codes, what follows from them, tokens, seeds, seal keys, a passphrase"
    assert {"log of top", "backup", "banyan.db-wal of top while it runs", "banyan.db of east at rest"} <= set(
        run.places
    )
    assert any(place.startswith("command line") and b"serve" in content for place, content in run.places.items())
    assert any(place.startswith("environment") for place in run.places)


def test_the_seal_key_alone_opens_what_is_sealed(run: Run) -> None:
    """The other half: with the folder's seal key each seed is there, so it was the right bytes that were looked for."""
    top = run.folders["top"]
    own = look(top, lambda unit: unit.self_.get())
    rows = look(top, lambda unit: unit.authorities.all())
    assert own is not None and len(rows) == 2
    for row in rows:
        seed = run.secrets[f"{row.key} of top"]
        assert Issuer(own.code, Secret(seed)).fingerprint == row.fingerprint


def test_files_that_hold_secrets_are_their_owners_only(run: Run) -> None:
    for folder in run.folders.values():
        assert folder.stat().st_mode & 0o077 == 0
        for path in folder.iterdir():
            if path.name != "api.pem":
                assert path.stat().st_mode & 0o077 == 0, path.name
    parent = run.folders["top"].parent
    assert (parent / "east.code").stat().st_mode & 0o777 == 0o600
    assert (parent / "top.backup").stat().st_mode & 0o077 == 0
