"""A person's words about a running zone: disable, maintenance, ban, rename, retire, replace, a new CA, leaving.

Each is said on the command line to real processes, and is seen at both ends; nothing is done that was not said.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.wire.zones.processes import Cloud, Zone, banyan, start

pytestmark = pytest.mark.slow

TERMS = "[terms]\nlease = 6.0\ngrace = 2.0\nreport = 2.0\n"


@contextmanager
def pair(folder: Path) -> Iterator[tuple[Zone, Zone]]:
    """A top and a child of three hosts, ready."""
    with Cloud(folder) as cloud:
        top = cloud.zone("top", settings=TERMS).start()
        lab = cloud.zone("lab", code=top.code(), hosts=3).start()
        top.wait_for_zone("lab", state="ready", health="alive")
        yield top, lab


def say(top: Zone, *words: str) -> dict[str, object]:
    found: dict[str, object] = top.cli("zone", *words, "--json").json()
    return found


def test_disable_and_enable_keep_the_session_and_move_the_totals(tmp_path: Path) -> None:
    with pair(tmp_path) as (top, lab):
        view = say(top, "disable", "lab", "--reason", "disk order is late")
        assert (view["admin"], view["reason"]) == ("disabled", "disk order is late")
        top.wait_until(lambda: top.ask("/v1/usage")[1]["not_offered"]["hosts"] == 3, "to count it as not offered")
        usage = top.usage()
        assert usage["hosts"]["total"] == 0 and usage["zones"]["disabled"] == 1 and usage["zones"]["alive"] == 1
        assert lab.uplink()["state"] == "connected"
        refused = top.cli("zone", "unban", "lab", "--json")
        assert refused.status == 3 and "that is disabled cannot take unban" in refused.error()[1]
        assert say(top, "enable", "lab")["admin"] == "enabled"
        top.wait_until(lambda: top.ask("/v1/usage")[1]["hosts"]["total"] == 3, "to count it again")
        last = top.journal(about="lab")[-2:]
        assert [line["kind"] for line in last] == ["child-disabled", "child-enabled"]
        assert all(line["actor"].endswith("@local") for line in last)
        assert last[0]["text"] == "disk order is late"


def test_maintenance_expects_an_absence_and_ends_by_itself(tmp_path: Path) -> None:
    with pair(tmp_path) as (top, lab):
        for wrong in ("0", "yesterday", "2020-01-01T00:00:00Z", "3000d"):
            assert top.cli("zone", "maintenance", "lab", "--until", wrong, "--json").status == 2
        view = say(top, "maintenance", "lab", "--until", "10s", "--reason", "new power supply")
        assert view["admin"] == "maintenance" and view["maintenance_until"]
        lab.freeze()
        try:
            row = top.wait_for_zone("lab", health="suspect")
            assert "maintenance" in row["reason"]
            kinds = [line["kind"] for line in top.journal(about="lab")]
            assert "child-suspect" not in kinds and "child-lost" not in kinds, "an absence that is expected is no event"
        finally:
            lab.thaw()
        top.wait_for_zone("lab", admin="enabled", health="alive")
        assert [line["text"] for line in top.journal(about="lab", kind="child-enabled")][
            -1
        ] == "its maintenance is over"


def test_ban_and_unban(tmp_path: Path) -> None:
    with pair(tmp_path) as (top, lab):
        assert say(top, "ban", "lab", "--reason", "its key was seen elsewhere")["admin"] == "banned"
        uplink = lab.wait_for_uplink("cut")
        assert "its key was seen elsewhere" in uplink["reason"]
        lab.kill()
        lab.start()
        lab.wait_until(lambda: "banned" in lab.uplink().get("reason", ""), "to be told that it is banned")
        assert top.seen()["top/lab"]["admin"] == "banned"
        assert top.cli("zone", "disable", "lab", "--json").status == 0, "a ban is the stronger word"
        assert top.seen()["top/lab"]["admin"] == "banned"
        assert top.cli("zone", "enable", "lab", "--json").status == 3, "only unban lifts a ban"
        assert say(top, "unban", "lab")["admin"] == "disabled"
        # "Never" is asked again after minutes; a person who restarts it need not wait.
        lab.kill()
        lab.start()
        lab.wait_for_uplink("connected")
        assert top.wait_for_zone("lab", health="alive")["admin"] == "disabled", "a person enables it"
        assert say(top, "enable", "lab")["admin"] == "enabled"
        assert top.wait_for_zone("lab", state="ready", health="alive")["admin"] == "enabled"


def test_a_lost_zone_is_not_enabled_by_coming_back(tmp_path: Path) -> None:
    with pair(tmp_path) as (top, lab):
        say(top, "disable", "lab", "--reason", "by a person")
        lab.kill()
        top.wait_for_zone("lab", health="lost")
        lab.start()
        row = top.wait_for_zone("lab", health="alive")
        assert (row["admin"], row["reason"]) == ("disabled", "by a person"), (
            "what a person disabled, only a person enables"
        )
        say(top, "enable", "lab")


def test_rename_changes_no_id(tmp_path: Path) -> None:
    with pair(tmp_path) as (top, lab):
        code = top.seen()["top/lab"]["code"]
        view = say(top, "rename", "lab", "laboratory")
        assert (view["path"], view["code"]) == ("top/laboratory", code)
        lab.wait_until(lambda: lab.uplink().get("path") == "top/laboratory", "to learn its new name")
        assert lab.status()["path"] == "top/laboratory"
        assert top.cli("zone", "show", "lab", "--json").status == 4
        lab.kill()
        lab.start()
        lab.wait_for_uplink("connected")
        assert top.wait_for_zone("laboratory", state="ready", health="alive")["code"] == code
        hosts = top.cli("host", "list", "--json").json()
        assert {host["zone"] for host in hosts} == {"top/laboratory"} and len(hosts) == 3
        assert say(top, "rename", code, "lab")["path"] == "top/lab", "by its code as well"
        lab.wait_until(lambda: lab.uplink().get("path") == "top/lab", "to learn its old name")


def test_a_new_ca_is_followed_without_joining_again(tmp_path: Path) -> None:
    with pair(tmp_path) as (top, lab):
        before = top.status()["ca_fingerprint"]
        assert top.cli("authority", "rotate").status == 0
        after = top.status()["ca_fingerprint"]
        assert after != before
        other = Zone("other", lab.folder)
        assert other.give(top.code()).join("--json").json() == {"path": "top/other"}, "a new code has the new pin"
        lab.kill()
        lab.start()
        lab.wait_for_uplink("connected")
        top.stop()
        top.start()
        lab.wait_for_uplink("connected")
        top.wait_for_zone("lab", state="ready", health="alive")
        assert say(top, "retire", "other", "--apply")["state"] == "retired"
        assert top.kinds().count("authority-rotated") == 1


def test_replace_gives_a_new_machine_the_place_of_a_lost_one(tmp_path: Path) -> None:
    with Cloud(tmp_path) as cloud:
        top = cloud.zone("top", settings=TERMS).start()
        old = cloud.zone("edge", code=top.code(), hosts=2).start()
        before = top.wait_for_zone("edge", state="ready", health="alive")
        old.kill()
        top.wait_for_zone("edge", health="lost")
        code = top.cli("zone", "replace", "edge", "--json").json()["code"]
        wrong = cloud.zone("another", code=code)
        refused = wrong.join("--json")
        assert (refused.status, refused.error()[0]) == (3, "name-not-allowed"), "the word is for this one name"
        new = cloud.copy(old, "new-machine").give(code)
        new.arguments = ["--driver", "sim", "--hosts", "5"]
        new.start()
        row = top.wait_for_zone("edge", state="ready", health="alive", hosts=5)
        assert row["code"] == before["code"], "its code is inherited"
        assert new.status()["code"] == before["code"]
        assert len(top.zones()) == 1 and top.usage()["hosts"]["total"] == 5
        old.start()
        old.wait_until(lambda: "wrong-key" in old.uplink().get("reason", ""), "to be told that it was replaced")
        assert "it was replaced" in old.uplink()["reason"]
        assert top.seen()["top/edge"]["health"] == "alive" and new.uplink()["state"] == "connected"
        assert top.kinds().count("child-replaced") == 1


def test_retire_forgets_for_good_and_the_code_is_never_given_again(tmp_path: Path) -> None:
    with Cloud(tmp_path) as cloud:
        top = cloud.zone("top", settings=TERMS).start()
        lab = cloud.zone("lab", code=top.code(), hosts=2).start()
        code = top.wait_for_zone("lab", state="ready", health="alive")["code"]
        plan = top.cli("zone", "retire", "lab", "--json").json()
        assert plan["applied"] is False and top.seen()["top/lab"]["state"] == "ready"
        gone = say(top, "retire", "lab", "--reason", "sold", "--apply")
        assert (gone["state"], gone["health"], gone["code"]) == ("retired", "gone", code)
        assert top.zones() == {} and top.usage()["hosts"]["total"] == 0
        lab.wait_until(lambda: "retired" in lab.uplink().get("reason", ""), "to be told")
        # Its data folder holds a code that is never given again; a new folder joins under the same name.
        assert lab.cli("leave", "--apply").status == 0
        lab.kill()
        again = lab.give(top.code()).join("--json")
        assert (again.status, again.error()[0]) == (3, "retired")
        assert "new data folder" in again.error()[1] or "install" in again.error()[1]
        fresh = cloud.copy(lab, "anew").give(top.code())
        fresh.start()
        row = top.wait_for_zone("lab", state="ready", health="alive")
        assert row["code"] != code
        # The one that was retired runs on as a zone of its own.
        lab.code_file = None
        lab.start()
        assert lab.usage()["hosts"]["total"] == 2


def test_a_ca_that_leaked_is_believed_by_nobody_any_more(tmp_path: Path) -> None:
    with Cloud(tmp_path) as cloud:
        top = cloud.zone("top", settings=TERMS).start()
        lab = cloud.zone("lab", code=top.code(), hosts=2).start()
        code = top.wait_for_zone("lab", state="ready", health="alive")["code"]
        waiting = top.code()
        dry = top.cli("authority", "rotate", "--leaked")
        assert dry.status == 0 and "add --apply" in dry.out + dry.err
        assert "authority-rotated" not in top.kinds()
        assert lab.uplink()["state"] == "connected"
        assert top.cli("authority", "rotate", "--leaked", "--apply").status == 0
        lab.wait_until(lambda: "leaked" in lab.uplink().get("reason", ""), "to hear that the CA leaked", patience=10)
        assert lab.uplink()["state"] == "cut"
        top.wait_for_zone("lab", health="lost")
        lab.kill()
        lab.start()
        lab.wait_until(
            lambda: any(word in lab.uplink().get("reason", "") for word in ("not-the-parent", "handshake-refused")),
            "to find its parent strange",
        )
        old_code = cloud.zone("late", code=waiting).join("--patience", "1s", "--json")
        assert (old_code.status, old_code.error()[0]) == (3, "wrong-pin"), (
            "a code that was made before is for the old CA"
        )
        # The documented way: leave, then join with a new code; it is the same zone.
        assert lab.cli("leave", "--apply").status == 0
        lab.kill()
        lab.give(top.code()).start()
        assert top.wait_for_zone("lab", state="ready", health="alive", hosts=2)["code"] == code
        assert len(top.zones()) == 1


def test_a_reinstalled_zone_comes_back_under_its_name_by_a_persons_word_only(tmp_path: Path) -> None:
    with Cloud(tmp_path) as cloud:
        top = cloud.zone("top", settings=TERMS).start()
        lab = cloud.zone("lab", code=top.code("--uses", "5"), hosts=2).start()
        code = top.wait_for_zone("lab", state="ready", health="alive")["code"]
        lab.kill()
        shutil.rmtree(lab.data)
        refused = lab.join("--json")
        assert (refused.status, refused.error()[0]) == (3, "name-taken")
        assert "banyan zone replace lab" in refused.error()[1]
        lab.give(top.cli("zone", "replace", "lab", "--json").json()["code"]).start()
        assert top.wait_for_zone("lab", state="ready", health="alive", hosts=2)["code"] == code


def test_policy_is_asked_before_anybody_comes_in(tmp_path: Path) -> None:
    with Cloud(tmp_path) as cloud:
        top = cloud.zone("top").start()
        added = top.cli(
            "rule", "add", "edges", "--verdict", "quarantine", "--name", "edge-*", "--set-label", "tier=edge", "--json"
        )
        assert added.status == 0, added.err
        code = top.code("--uses", "any")
        other = cloud.zone("center", code=code).join("--json")
        assert (other.status, other.error()[0]) == (3, "no-rule")
        edge = cloud.zone("edge-1", code=code, hosts=2)
        start(edge)
        row = top.wait_for_zone("edge-1", health="alive", state="ready")
        assert row["quarantined"] is True and row["labels"]["tier"] == "edge"
        top.wait_until(lambda: top.ask("/v1/usage")[1]["not_offered"]["hosts"] == 2, "to count it apart")
        assert top.usage()["hosts"]["total"] == 0, "who is in quarantine is seen, and given nothing"
        assert say(top, "admit", "edge-1")["quarantined"] is False
        top.wait_until(lambda: top.ask("/v1/usage")[1]["hosts"]["total"] == 2, "to count it")


def test_words_for_a_zone_further_down_are_carried_to_its_parent(tmp_path: Path) -> None:
    with Cloud(tmp_path) as cloud:
        top = cloud.zone("top").start()
        north = cloud.zone("north", code=top.code()).start()
        lab = cloud.zone("lab", code=north.code(), hosts=1).start()
        top.wait_for_zone("top/north/lab", state="ready", health="alive")
        view = say(top, "disable", "lab", "--reason", "said at the top")
        assert (view["path"], view["admin"]) == ("top/north/lab", "disabled")
        [line] = north.journal(kind="child-disabled")
        assert line["text"] == "said at the top" and line["actor"].endswith("@local")
        top.wait_for_zone("top/north/lab", admin="disabled")
        north.kill()
        unreachable = top.cli("zone", "enable", "lab", "--json")
        assert unreachable.status == 5
        assert unreachable.error()[0] == "member-unreachable" and "nothing was done" in unreachable.error()[1]
        north.start()
        north.wait_for_uplink("connected")
        time.sleep(0.1)
        assert say(top, "enable", "lab")["admin"] == "enabled"
        assert lab.uplink()["state"] in ("connected", "cut")
        assert banyan("zone", "show", "lab", "--data", str(north.data)).status == 0
