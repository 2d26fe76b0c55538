"""Backup of a running zone, restore into an empty folder, and everything that can be wrong with either."""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import os
import sqlite3
import tarfile
from dataclasses import replace
from io import BytesIO
from pathlib import Path

import pytest

from banyan.core.errors import BadInput, BanyanError, Broken, Conflict, NotFound, Refused
from banyan.core.ids import ZoneCode, code_text
from banyan.core.records import Self, StoreFull
from banyan.core.secret import Secret
from banyan.core.time import Wall
from banyan.core.zone import Child
from banyan.store import sealed_file
from banyan.store.backup import Manifest, backup, inspect, restore
from banyan.store.journal import verify
from banyan.store.lock import FolderLock
from banyan.store.sealed_file import Costs, SealedWriter
from tests.contract.store.conftest import Run, opened
from tests.contract.store.fakes import SeededIds

PASSPHRASE = Secret(b"correct horse")
CHEAP = Costs(log_n=4, r=1, p=1)
SELF = Self(ZoneCode(77), "top", Wall(1.0), epoch=4)
NOW = Wall(1_800_000_000.0)
LATER = Wall(1_900_000_000.0)
SEED = hashlib.sha256(b"a seed").digest()


def make_zone(run: Run, data: Path) -> None:
    store = opened(data)
    run(store.write("put", lambda u: (u.self_.put(SELF), u.keys.put("ca", Secret(SEED)))))
    run(store.close())
    (data / "banyan.toml").write_text('name = "top"\n')


def save(data: Path, target: Path, passphrase: Secret = PASSPHRASE) -> Manifest:
    return backup(data, target, passphrase, ids=SeededIds(), now=NOW, costs=CHEAP)


def bring_back(file: Path, data: Path, passphrase: Secret = PASSPHRASE) -> Manifest:
    return restore(file, data, passphrase, ids=SeededIds(), now=LATER)


def test_a_zone_comes_back_at_the_next_epoch_and_knows_it(run: Run, tmp_path: Path) -> None:
    make_zone(run, tmp_path / "zone")
    made = save(tmp_path / "zone", tmp_path / "backup")
    assert (made.name, made.zone, made.epoch, made.made_at) == ("top", code_text(77), 4, "2027-01-15T08:00:00.000Z")
    assert set(made.files) == {"banyan.db", "seal.key", "banyan.toml"}
    assert inspect(tmp_path / "backup", PASSPHRASE) == made
    assert bring_back(tmp_path / "backup", tmp_path / "new" / "zone") == made
    assert (tmp_path / "new" / "zone" / "banyan.toml").read_text() == 'name = "top"\n'
    assert {path.name for path in (tmp_path / "new" / "zone").iterdir()} == {
        "banyan.db",
        "seal.key",
        "banyan.toml",
        "lock",
    }
    store = opened(tmp_path / "new" / "zone")
    assert run(store.read(lambda u: u.self_.get())) == replace(SELF, epoch=5, restored_at=LATER)
    assert run(store.read(lambda u: u.keys.get("ca"))) == Secret(SEED)
    last = run(store.read(lambda u: u.journal.last()))
    assert (last.kind, last.at, last.facts["epoch"]) == ("zone-restored", LATER, "5")
    assert run(store.read(lambda u: verify(u.journal))) is None
    run(store.close())
    store = opened(tmp_path / "zone")
    assert run(store.read(lambda u: u.self_.get())) == SELF, "the zone that was backed up is as it was"
    run(store.close())


def test_a_backup_is_private_and_shows_nothing(run: Run, tmp_path: Path) -> None:
    make_zone(run, tmp_path / "zone")
    save(tmp_path / "zone", tmp_path / "backup")
    content = (tmp_path / "backup").read_bytes()
    assert (tmp_path / "backup").stat().st_mode & 0o777 == 0o600
    for secret in (SEED, (tmp_path / "zone" / "seal.key").read_bytes(), b"SQLite format", b"banyan.toml", b"top"):
        assert secret not in content
    assert {path.name for path in tmp_path.iterdir()} == {"zone", "backup"}
    # Of the copy nothing is left; when it was made is.
    assert [path.name for path in (tmp_path / "zone").iterdir() if "backup" in path.name] == ["backup.json"]


def test_a_running_zone_is_backed_up_between_two_commits(run: Run, tmp_path: Path) -> None:
    """Children come in pairs: whatever instant the copy is of, their number is even."""
    store = opened(tmp_path / "zone")

    async def main() -> list[int]:
        done: list[bool] = []

        async def write() -> int:
            n = 0
            while not done or n < 20:
                pair = [Child(ZoneCode(n + k), f"z{n + k}", b"%d" % (n + k)) for k in (0, 1)]
                await store.write("pair", lambda u, pair=pair: [u.children.put(child) for child in pair])
                n += 2
            return n

        writing = asyncio.ensure_future(write())
        for n in range(4):
            await asyncio.to_thread(save, tmp_path / "zone", tmp_path / f"backup-{n}")
        done.append(True)
        return [await writing]

    (written,) = run(main())
    run(store.close())
    counts = []
    for n in range(4):
        bring_back(tmp_path / f"backup-{n}", tmp_path / f"zone-{n}")
        again = opened(tmp_path / f"zone-{n}")
        counts.append(run(again.read(lambda u: u.children.count())))
        run(again.close())
    assert all(count % 2 == 0 for count in counts)
    assert counts == sorted(counts)
    assert counts[-1] <= written


def test_a_new_backup_takes_the_place_of_the_old_one(run: Run, tmp_path: Path) -> None:
    make_zone(run, tmp_path / "zone")
    (tmp_path / "backup").write_bytes(b"old")
    save(tmp_path / "zone", tmp_path / "backup")
    assert inspect(tmp_path / "backup", PASSPHRASE).name == "top"


def test_a_failed_backup_leaves_the_old_one(run: Run, tmp_path: Path, small_disk: Path) -> None:
    make_zone(run, tmp_path / "zone")
    (small_disk / "backup").write_bytes(b"old" + bytes(1_900_000))
    with pytest.raises(StoreFull, match="no room") as refused:
        save(tmp_path / "zone", small_disk / "backup")
    assert refused.value.code == "store-full"
    assert [path.name for path in small_disk.iterdir()] == ["backup"]
    assert (small_disk / "backup").read_bytes().startswith(b"old")


def test_no_room_for_the_copy_is_said(run: Run, tmp_path: Path, small_disk: Path) -> None:
    make_zone(run, small_disk / "zone")
    # Whatever a zone's database weighs today, what is left is too little for one more of it.
    disk = os.statvfs(small_disk)
    (small_disk / "ballast").write_bytes(bytes(disk.f_bavail * disk.f_frsize - 65_536))
    with pytest.raises(StoreFull):
        save(small_disk / "zone", tmp_path / "backup")
    assert not (small_disk / "zone" / ".backup.db").exists()
    assert not (tmp_path / "backup").exists()


def test_what_a_killed_backup_left_is_overwritten(run: Run, tmp_path: Path) -> None:
    make_zone(run, tmp_path / "zone")
    (tmp_path / "zone" / ".backup.db").write_bytes(b"half a copy")
    (tmp_path / ".backup.part").write_bytes(b"half a backup")
    save(tmp_path / "zone", tmp_path / "backup")
    assert {path.name for path in tmp_path.iterdir()} == {"zone", "backup"}


def test_two_backups_at_once_are_refused(run: Run, tmp_path: Path) -> None:
    make_zone(run, tmp_path / "zone")
    with (tmp_path / "zone" / ".backup.db").open("wb") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(Conflict) as refused:
            save(tmp_path / "zone", tmp_path / "backup")
    assert refused.value.code == "backup-running"


def test_no_zone_no_backup(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="no zone"):
        save(tmp_path / "zone", tmp_path / "backup")
    assert not (tmp_path / "zone").exists()


def test_postgresql_has_its_own_means(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="pg_dump") as refused:
        backup(
            tmp_path,
            tmp_path / "b",
            PASSPHRASE,
            ids=SeededIds(),
            now=NOW,
            location="postgresql://u@h/zone",
            costs=CHEAP,
        )
    assert refused.value.code == "backup-postgresql"


def test_a_folder_with_anything_in_it_is_left_alone(run: Run, tmp_path: Path) -> None:
    make_zone(run, tmp_path / "zone")
    save(tmp_path / "zone", tmp_path / "backup")
    other = tmp_path / "other"
    other.mkdir()
    (other / "precious").write_text("x")
    for data in (tmp_path / "zone", other):
        before = {path: path.read_bytes() for path in data.iterdir() if path.name != "lock"}
        with pytest.raises(Refused) as refused:
            bring_back(tmp_path / "backup", data)
        assert refused.value.code == "folder-not-empty"
        assert {path: path.read_bytes() for path in data.iterdir() if path.name != "lock"} == before


def test_a_file_system_of_its_own_is_an_empty_folder(run: Run, tmp_path: Path, small_disk: Path) -> None:
    make_zone(run, tmp_path / "zone")
    save(tmp_path / "zone", tmp_path / "backup")
    (small_disk / "lost+found").mkdir()
    bring_back(tmp_path / "backup", small_disk)
    run(opened(small_disk).close())


def test_a_folder_in_use_is_refused(run: Run, tmp_path: Path) -> None:
    make_zone(run, tmp_path / "zone")
    save(tmp_path / "zone", tmp_path / "backup")
    (tmp_path / "new").mkdir()
    lock = FolderLock(tmp_path / "new")
    with pytest.raises(Conflict, match="in use"):
        bring_back(tmp_path / "backup", tmp_path / "new")
    lock.release()
    bring_back(tmp_path / "backup", tmp_path / "new")


def refused_and_untouched(file: Path, tmp_path: Path, code: str, passphrase: Secret = PASSPHRASE) -> BanyanError:
    with pytest.raises(BanyanError) as refused:
        bring_back(file, tmp_path / "new", passphrase)
    assert refused.value.code == code
    assert not (tmp_path / "new").exists()
    (tmp_path / "empty").mkdir(exist_ok=True)
    with pytest.raises(BanyanError):
        bring_back(file, tmp_path / "empty", passphrase)
    assert {path.name for path in (tmp_path / "empty").iterdir()} <= {"lock"}
    return refused.value


def test_a_wrong_passphrase(run: Run, tmp_path: Path) -> None:
    make_zone(run, tmp_path / "zone")
    save(tmp_path / "zone", tmp_path / "backup")
    refused_and_untouched(tmp_path / "backup", tmp_path, "wrong-passphrase", Secret(b"Correct horse"))
    with pytest.raises(Refused):
        inspect(tmp_path / "backup", Secret(b"Correct horse"))


def test_a_cut_or_changed_backup(run: Run, tmp_path: Path) -> None:
    make_zone(run, tmp_path / "zone")
    save(tmp_path / "zone", tmp_path / "backup")
    content = (tmp_path / "backup").read_bytes()
    for damaged in (
        content[:-1],
        content[:100],
        content[:-40] + b"\x00" + content[-39:],
        content + b"x",
        b"",
        b"x" * 500,
    ):
        (tmp_path / "damaged").write_bytes(damaged)
        refused_and_untouched(tmp_path / "damaged", tmp_path, "backup-damaged")
        with pytest.raises(Broken):
            inspect(tmp_path / "damaged", PASSPHRASE)
    with pytest.raises(BadInput, match="No such file"):
        bring_back(tmp_path / "nothing", tmp_path / "new")


def forge(target: Path, *entries: tuple[str, bytes]) -> None:
    """A backup made by somebody who knows the passphrase, and not our program."""
    with target.open("wb") as file:
        writer = SealedWriter(file, PASSPHRASE, SeededIds(), CHEAP)
        with tarfile.open(fileobj=writer, mode="w|") as archive:
            for name, content in entries:
                entry = tarfile.TarInfo(name)
                entry.size = len(content)
                archive.addfile(entry, BytesIO(content))
        writer.finish()


def test_forged_contents_write_nothing_outside_and_are_refused(run: Run, tmp_path: Path) -> None:
    make_zone(run, tmp_path / "zone")
    manifest = b'{"program":"1","schema":"0001","zone":"","name":"","epoch":1,"made_at":"","files":{"banyan.db":3}}'
    for entries in (
        [("manifest.json", manifest), ("../outside", b"x"), ("banyan.db", b"abc")],
        [("manifest.json", manifest), ("/tmp/banyan-outside", b"x"), ("banyan.db", b"abc")],
        [("banyan.db", b"abc"), ("manifest.json", manifest)],
        [("manifest.json", manifest)],
        [("manifest.json", manifest), ("banyan.db", b"abcd")],
        [("manifest.json", manifest), ("banyan.db", b"abc"), ("seal.key", b"k")],
        [("manifest.json", b"[]"), ("banyan.db", b"abc")],
        [],
    ):
        forge(tmp_path / "forged", *entries)
        refused_and_untouched(tmp_path / "forged", tmp_path, "backup-damaged")
        assert not (tmp_path / "outside").exists()
    assert not Path("/tmp/banyan-outside").exists()


def test_without_its_seal_key_no_backup_is_made(run: Run, tmp_path: Path) -> None:
    make_zone(run, tmp_path / "zone")
    (tmp_path / "zone" / "seal.key").rename(tmp_path / "elsewhere")
    with pytest.raises(BanyanError, match="could never be used") as refused:
        save(tmp_path / "zone", tmp_path / "backup")
    assert refused.value.code == "seal-key-missing"
    assert not (tmp_path / "backup").exists()


def test_the_wrong_seal_key_in_a_backup(run: Run, tmp_path: Path) -> None:
    make_zone(run, tmp_path / "zone")
    (tmp_path / "other.key").write_bytes(bytes(32))
    backup(
        tmp_path / "zone",
        tmp_path / "backup",
        PASSPHRASE,
        ids=SeededIds(),
        now=NOW,
        seal_key=tmp_path / "other.key",
        costs=CHEAP,
    )
    refused_and_untouched(tmp_path / "backup", tmp_path, "seal-key-wrong")


def test_a_backup_of_a_newer_version(run: Run, tmp_path: Path) -> None:
    make_zone(run, tmp_path / "zone")
    with sqlite3.connect(tmp_path / "zone" / "banyan.db") as connection:
        connection.execute("UPDATE alembic_version SET version_num = '0999'")
    connection.close()
    save(tmp_path / "zone", tmp_path / "backup")
    refused_and_untouched(tmp_path / "backup", tmp_path, "database-newer")


def test_the_usual_costs_are_the_recommended_ones() -> None:
    costs = sealed_file.DEFAULT_COSTS
    assert (costs.log_n, costs.r, costs.p) == (17, 8, 1)
