"""A disk that is full, a folder that is not as it must be, and the past that came back: restored and cloned zones.

Each says what is wrong and what to do; what was there before is there afterwards; the way out that the documents
name is walked to its end.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import pytest

from tests.wire.zones.processes import Cloud, Zone, start, together
from tests.wire.zones.stores import check_journal, look

pytestmark = pytest.mark.slow


# --- a full disk ----------------------------------------------------------------------------------


@contextmanager
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 8 MiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", folder], capture_output=True, text=True, check=False
    )
    if mounted.returncode != 0:
        pytest.skip(f"only root may mount a small file system here: {mounted.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", folder], check=True)


def fill(disk: Path) -> Path:
    ballast = disk / "ballast"
    with ballast.open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(4_096))
    return ballast


def test_a_full_disk_refuses_writes_and_goes_on_reading(tmp_path: Path) -> None:
    with small_disk(tmp_path) as disk, Cloud(disk) as cloud:
        top = cloud.zone("top").start()
        lab = Zone("lab", tmp_path, ["--driver", "sim", "--hosts", "3"]).give(top.code())
        late = Zone("late", tmp_path).give(top.code())
        cloud.zones += [lab, late]
        lab.start()
        before = top.wait_for_zone("lab", state="ready", health="alive", hosts=3)
        ballast = fill(disk)
        # The write-ahead log may have a little room of its own left.
        refused = next(said for _ in range(300) if (said := top.cli("code", "create", "--json")).status != 0)
        code, text = refused.error()
        assert (refused.status, code) == (5, "store-full")
        assert "is full: nothing was written, reading goes on; make room" in text and "banyan.db" in text

        assert top.usage()["hosts"]["total"] == 3
        row = top.zones()["top/lab"]
        assert (row["state"], row["health"], row["code"]) == ("ready", "alive", before["code"])
        assert top.journal() and top.cli("host", "list", "--json").status == 0
        stranger = late.join("--patience", "1s", "--json")
        assert stranger.status == 5 and "full" in stranger.error()[1], "a stranger may come again; nothing was spent"
        disabled = top.cli("zone", "disable", "lab", "--json")
        assert (disabled.status, disabled.error()[0]) == (5, "store-full")
        assert top.zones()["top/lab"]["admin"] == "enabled", "what could not be stored did not happen"

        ballast.unlink()
        assert top.cli("code", "create", "--json").status == 0
        assert top.cli("zone", "disable", "lab", "--json").json()["admin"] == "disabled"
        assert top.cli("zone", "enable", "lab", "--json").json()["admin"] == "enabled"
        assert late.join("--json").json() == {"path": "top/late"}
        assert lab.uplink()["state"] == "connected"
        assert top.stop() == 0
        look(top.data, check_journal)
        top.start()
        assert top.wait_for_zone("lab", state="ready", health="alive")["code"] == before["code"]


def test_a_childs_full_disk_is_the_childs_own_matter(tmp_path: Path) -> None:
    """It goes on being heard with what it last scanned; when there is room it scans again."""
    scans = "[scan]\ninterval = 1.0\nprobe_interval = 1.0\n"
    with small_disk(tmp_path) as disk, Cloud(disk) as cloud:
        top = Zone("top", tmp_path).start()
        cloud.zones.append(top)
        lab = cloud.zone("lab", code=top.code(), hosts=4, settings=scans).start()
        top.wait_for_zone("lab", state="ready", health="alive", hosts=4)
        ballast = fill(disk)
        lab.wait_until(lambda: "full" in lab.ask("/v1/status")[1]["reason"], "to say that its disk is full")
        assert "inventory" in lab.status()["reason"]
        assert top.usage()["hosts"]["total"] == 4 and top.zones()["top/lab"]["health"] == "alive"
        ballast.unlink()
        lab.wait_until(lambda: lab.ask("/v1/status")[1]["ready"], "to be well again", patience=90)
        assert top.zones()["top/lab"]["health"] == "alive"


# --- a folder that is not as it must be -----------------------------------------------------------


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Zone]:
    """A zone with a child that has joined, stopped; tests leave it as they found it."""
    with Cloud(tmp_path_factory.mktemp("folder")) as cloud:
        top = cloud.zone("top").start()
        assert cloud.zone("lab", code=top.code()).join().status == 0
        top.stop()
        yield top


def hashes(zone: Zone) -> dict[str, str]:
    """Of what a zone keeps. SQLite's own two files beside the database come and go with each look at it."""
    files = [zone.data / name for name in ("banyan.db", "seal.key", "api.pem")]
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files if path.exists()}


def still_whole(zone: Zone) -> None:
    zone.start()
    assert list(zone.zones()) == ["top/lab"]
    zone.stop()
    look(zone.data, check_journal)


def test_a_database_of_a_newer_version_is_not_touched(folder: Zone) -> None:
    def revision(value: str) -> str:
        with closing(sqlite3.connect(folder.data / "banyan.db")) as database, database:
            [(old,)] = database.execute("SELECT version_num FROM alembic_version").fetchall()
            database.execute("UPDATE alembic_version SET version_num = ?", (value,))
            return str(old)

    old = revision("9999")
    before = hashes(folder)
    try:
        said = folder.run_to_end()
        joined = folder.give("banyan1.AAAA").join("--json")
        after = hashes(folder)
    finally:
        folder.code_file = None
        revision(old)
    assert said.status == 3
    assert "[database-newer]" in said.err
    assert "(schema 9999)" in said.err and "nothing was changed. Start that version again, or restore" in said.err
    assert joined.status in (2, 3), "nor by any other command"
    assert after == before, "nothing was changed"
    still_whole(folder)


def test_two_processes_on_one_folder(folder: Zone) -> None:
    folder.start()
    assert folder.process is not None
    second = Zone("top", folder.folder)
    refused, joined = together(second.run_to_end, lambda: second.give("banyan1.AAAA").join("--json"))
    assert refused.status == 3
    assert "[folder-in-use]" in refused.err
    assert f"in use by process {folder.process.pid}" in refused.err and "stop that one" in refused.err
    assert joined.status != 0 and joined.error()[0] in ("folder-in-use", "code-mistyped")
    assert list(folder.zones()) == ["top/lab"], "the first one serves as before"
    folder.kill()
    still_whole(folder)


def test_a_wrong_a_short_and_a_lost_seal_key(folder: Zone) -> None:
    path = folder.data / "seal.key"
    right = path.read_bytes()
    before = hashes(folder)
    for wrong, code in ((bytes(32), "seal-key-wrong"), (b"short", "seal-key-wrong"), (None, "seal-key-missing")):
        path.unlink() if wrong is None else path.write_bytes(wrong)
        said = folder.run_to_end()
        assert said.status == 1
        assert f"[{code}]" in said.err and "seal.key" in said.err
        assert "put" in said.err and "back" in said.err, "it says what to do"
        assert wrong is not None or not path.exists(), "a new key would make all secrets unreadable for ever"
    path.write_bytes(right)
    assert hashes(folder) == before
    still_whole(folder)


def test_another_zones_folder_and_anothers_database(folder: Zone, tmp_path: Path) -> None:
    other = Zone("other", folder.folder)
    other.data = folder.data
    said = other.run_to_end()
    assert said.status == 2
    assert "[other-zone]" in said.err and "belongs to zone 'top', not 'other'" in said.err
    foreign = Zone("foreign", tmp_path)
    foreign.data.mkdir()
    with closing(sqlite3.connect(foreign.data / "banyan.db")) as database, database:
        database.execute("CREATE TABLE recipes (name TEXT)")
        database.execute("INSERT INTO recipes VALUES ('soup')")
    said = foreign.run_to_end()
    assert said.status == 3 and "[database-foreign]" in said.err
    with closing(sqlite3.connect(foreign.data / "banyan.db")) as database:
        assert database.execute("SELECT name FROM recipes").fetchall() == [("soup",)]
    damaged = Zone("damaged", tmp_path)
    damaged.data.mkdir()
    (damaged.data / "banyan.db").write_bytes(os.urandom(8192))
    said = damaged.run_to_end()
    assert said.status == 1 and "[database-damaged]" in said.err and "banyan restore" in said.err
    still_whole(folder)


# --- the past that came back ----------------------------------------------------------------------


def keep(zone: Zone) -> Path:
    """A copy of a stopped zone's folder, as a backup by hand would have it."""
    copy = zone.folder / f"{zone.name}.kept"
    copy_folder(zone.data, copy)
    return copy


def put_back(zone: Zone, copy: Path) -> None:
    shutil.rmtree(zone.data)
    copy_folder(copy, zone.data)


def copy_folder(source: Path, target: Path) -> None:
    # Like `cp -r`, which copies no sockets either.
    shutil.copytree(source, target, ignore=shutil.ignore_patterns("*.sock"))


def test_a_restored_parent_decides_nothing_until_a_person_says_so(tmp_path: Path) -> None:
    passphrase = tmp_path / "passphrase"
    passphrase.write_text("four plain words here\n")
    file = tmp_path / "top.backup"
    with Cloud(tmp_path) as cloud:
        top = cloud.zone("top").start()
        lab = cloud.zone("lab", code=top.code(), hosts=3).start()
        before = top.wait_for_zone("lab", state="ready", health="alive")
        old_code = top.code()
        made = top.cli("backup", str(file), "--passphrase-file", str(passphrase), "--json")
        assert made.json()["name"] == "top"
        # What happens afterwards is not in it: another child, and more sessions.
        assert cloud.zone("newer", code=top.code()).join().status == 0
        for _ in range(2):
            top.kill()
            top.start()
            lab.wait_for_uplink("connected")
        top.kill()
        shutil.rmtree(top.data)
        wrong = tmp_path / "wrong"
        wrong.write_text("some other words\n")
        refused = top.cli("restore", str(file), "--passphrase-file", str(wrong), "--json")
        assert refused.status != 0 and not (top.data / "banyan.db").exists()
        restored = top.cli("restore", str(file), "--passphrase-file", str(passphrase), "--json")
        assert restored.json()["name"] == "top" and restored.json()["zone"] == made.json()["zone"]
        top.start()
        lab.wait_for_uplink("connected")
        status = top.status()
        assert status["restored_at"] is not None
        assert status["epoch"] > made.json()["epoch"], "children would refuse what they have seen the end of"
        row = top.wait_for_zone("lab", state="ready", health="alive")
        assert row["code"] == before["code"] and row["rolled_back"] is False, "nobody is judged by a restored parent"
        late = cloud.zone("late", code=old_code).join("--json")
        assert (late.status, late.error()[0]) == (3, "code-before-restore"), "a code may have been used since"
        assert "banyan code create" in late.error()[1]
        newer = next(zone for zone in cloud.zones if zone.name == "newer")
        newer.code_file = None
        newer.start()
        newer.wait_until(lambda: "no-child" in newer.uplink().get("reason", ""), "to hear that it is not known here")
        assert "restored from before it joined" in newer.uplink()["reason"]

        released = top.cli("release", "--apply", "--json").json()
        assert released["applied"] and top.status()["restored_at"] is None
        assert cloud.zone("after", code=top.code()).join("--json").json() == {"path": "top/after"}
        # The child that joined after the backup: the documented way is to leave, and to join with a new code.
        assert newer.cli("leave", "--apply").status == 0
        newer.kill()
        newer.give(top.code()).start()
        top.wait_for_zone("newer", state="ready", health="alive")
        assert top.usage()["hosts"]["total"] == 3


def test_a_parent_whose_folder_was_copied_back_finds_out_by_its_children(tmp_path: Path) -> None:
    with Cloud(tmp_path) as cloud:
        top = cloud.zone("top").start()
        lab = cloud.zone("lab", code=top.code(), hosts=3).start()
        top.wait_for_zone("lab", state="ready", health="alive")
        old_code = top.code()
        # A zone that is stopped with a word tells its children to come back within ten seconds; a killed one, nothing.
        top.kill()
        copy = keep(top)
        for _ in range(2):
            top.start()
            lab.wait_for_uplink("connected")
            top.kill()
        put_back(top, copy)
        top.start()
        lab.wait_for_uplink("connected")
        assert top.status()["restored_at"] is not None
        [line] = top.journal(kind="zone-rolled-back")
        assert "this zone was restored from an earlier state" in line["text"]
        assert top.wait_for_zone("lab", state="ready", health="alive")["rolled_back"] is False
        late = cloud.zone("late", code=old_code).join("--json")
        assert (late.status, late.error()[0]) == (3, "code-before-restore")
        assert top.cli("release", "--apply", "--json").json()["applied"] and top.status()["restored_at"] is None
        assert late and cloud.zone("after", code=top.code()).join("--json").json() == {"path": "top/after"}


def test_a_restored_child_is_read_only_until_it_is_accepted(tmp_path: Path) -> None:
    with Cloud(tmp_path) as cloud:
        top = cloud.zone("top").start()
        lab = cloud.zone("lab", code=top.code(), hosts=3).start()
        before = top.wait_for_zone("lab", state="ready", health="alive")
        lab.stop()
        copy = keep(lab)
        for _ in range(2):
            lab.start()
            lab.wait_for_uplink("connected")
            lab.kill()
        put_back(lab, copy)
        lab.start()
        uplink = lab.wait_for_uplink("read-only")
        assert "restored from a backup, or cloned" in uplink["reason"]
        assert "banyan zone accept" in uplink["reason"], "it names the way out"
        assert uplink["lease_until"] is None, "no lease: it may begin nothing"
        row = top.wait_for_zone("lab", rolled_back=True, health="alive")
        assert row["code"] == before["code"]
        [line] = top.journal(kind="child-rolled-back")
        assert "banyan zone accept lab" in line["text"]
        # A restart does not wash it off.
        lab.kill()
        lab.start()
        lab.wait_for_uplink("read-only")
        accepted = top.cli("zone", "accept", "lab", "--json").json()
        assert accepted["rolled_back"] is False
        lab.wait_for_uplink("connected")
        top.wait_for_zone("lab", state="ready", health="alive", rolled_back=False, hosts=3)
        assert top.cli("zone", "accept", "lab", "--json").error()[0] == "not-rolled-back"


def test_a_cloned_child_is_found_and_only_one_of_both_is_believed(tmp_path: Path) -> None:
    with Cloud(tmp_path) as cloud:
        top = cloud.zone("top").start()
        lab = cloud.zone("lab", code=top.code(), hosts=3).start()
        before = top.wait_for_zone("lab", state="ready", health="alive")
        lab.stop()
        clone = cloud.copy(lab, "clone")
        copy_folder(lab.data, clone.data)
        start(lab, clone)
        top.wait_for_zone("lab", rolled_back=True)
        assert len(top.zones()) == 1 and top.usage()["hosts"]["total"] <= 3, "two copies are one zone, and count once"
        lines = top.journal(kind="child-rolled-back")
        assert lines and "or cloned" in lines[0]["text"]
        states = [zone.uplink()["state"] for zone in (lab, clone)]
        assert states.count("connected") <= 1
        # The documented way: stop one of them for good, then accept the other.
        clone.kill()
        lab.kill()
        lab.start()
        lab.wait_for_uplink("read-only")
        assert top.cli("zone", "accept", "lab", "--json").json()["rolled_back"] is False
        lab.wait_for_uplink("connected")
        row = top.wait_for_zone("lab", state="ready", health="alive", rolled_back=False, hosts=3)
        assert row["code"] == before["code"]
        # Should the clone come back, it is the one that is not believed.
        lab.kill()
        clone.start()
        clone.wait_for_uplink("read-only")
