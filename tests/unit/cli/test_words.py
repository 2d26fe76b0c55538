"""What changes something: single words act at once, plural and destructive ones are dry runs until --apply."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import msgspec
import pytest

from tests.unit.cli.conftest import Zone


def said(zone: Zone) -> list[tuple[str, str]]:
    return [(name, path) for _, name, path, _ in zone.surface.said]


@pytest.mark.parametrize("word", ["disable", "enable", "ban", "unban", "admit", "accept", "rescan"])
def test_a_word_about_one_zone_acts_at_once(zone: Zone, word: str) -> None:
    result = zone.say("zone", word, "top/north/lab1", "--json")
    assert (result.status, result.err) == (0, "")
    assert json.loads(result.out)["path"] == "top/north/lab1"
    assert said(zone) == [(f"zone.{word}", "north/lab1")]


def test_a_reason_and_an_end_travel_along(zone: Zone) -> None:
    zone.say("zone", "disable", "lab1", "--reason", "a broken switch")
    zone.say("zone", "maintenance", "lab2", "--until", "2h", "--reason", "new disks")
    zone.say("zone", "maintenance", "lab2", "--until", "2026-12-01T06:00:00Z")
    zone.say("zone", "rename", "lab2", "lab9")
    assert [arguments for *_, arguments in zone.surface.said] == [
        {"reason": "a broken switch"},
        {"until": "7200", "reason": "new disks"},
        {"until": "2026-12-01T06:00:00Z", "reason": ""},
        {"name": "lab9"},
    ]


@pytest.mark.parametrize("word", ["disable", "enable", "ban", "unban"])
def test_several_zones_are_a_dry_run_until_apply(zone: Zone, word: str) -> None:
    result = zone.say("zone", word, "lab1", "lab2")
    assert result.status == 0
    assert f"would {word} 2; nothing is done yet: add --apply" in result.err
    assert not said(zone)
    assert zone.say("zone", word, "lab1", "lab2", "--apply").status == 0
    assert len(said(zone)) == 2


def test_a_dry_run_says_so_in_json(zone: Zone) -> None:
    planned = json.loads(zone.say("zone", "disable", "--health", "lost", "--json").out)
    assert (planned["applied"], planned["action"]) == (False, "disable")
    assert [one["path"] for one in planned["zones"]] == ["top/south/lab3"]
    applied = json.loads(zone.say("zone", "disable", "--health", "lost", "--json", "--apply").out)
    assert [one["admin"] for one in applied] == ["disabled"]


def test_retire_is_always_a_dry_run_until_apply(zone: Zone) -> None:
    assert zone.say("zone", "retire", "lab1").status == 0
    assert not said(zone)
    assert zone.say("zone", "retire", "lab1", "--apply").status == 0
    assert said(zone) == [("zone.retire", "north/lab1")]


def test_an_empty_choice_means_nothing(zone: Zone) -> None:
    result = zone.say("zone", "disable", "--health", "suspect", "--apply")
    assert (result.status, result.err) == (4, "banyan: no zone matches; nothing is done [no-match]\n")
    assert zone.say("zone", "disable", "--apply").status == 2
    assert zone.say("zone", "disable", "lab1", "--health", "lost", "--apply").status == 2
    assert zone.say("zone", "ban").status == 2
    assert not said(zone)


def test_some_done_and_some_not_is_partial(zone: Zone) -> None:
    result = zone.say("zone", "disable", "lab1", "nowhere", "lab2", "--apply", "--json")
    assert result.status == 6
    assert [one["path"] for one in json.loads(result.out)] == ["top/north/lab1", "top/north/lab2"]
    assert json.loads(result.err)["error"]["code"] == "no-zone"


def test_leave_is_a_dry_run_until_apply(zone: Zone) -> None:
    assert "nothing is done yet" in zone.say("leave").err
    assert json.loads(zone.say("leave", "--json").out)["applied"] is False
    assert json.loads(zone.say("leave", "--apply", "--json").out)["applied"] is True


def test_a_leaked_authority_is_rotated_with_apply_only(zone: Zone) -> None:
    assert "must join again" in zone.say("authority", "rotate", "--leaked").err
    assert zone.say("authority", "rotate", "--leaked", "--apply").status == 0
    assert zone.say("authority", "rotate").status == 0


def test_a_release_is_a_dry_run_until_apply_and_says_what_is_at_stake(zone: Zone) -> None:
    zone.surface.restored_at = "2026-11-30T13:26:37Z"
    shown = zone.say("release")
    assert shown.status == 0 and "nothing is done yet: add --apply" in shown.err
    assert "banned, retired, revoked or prolonged after the backup is not known here" in shown.err
    assert "2 of 4 zones directly below: lab3, south" in shown.out and "listed keys let zones in" in shown.out
    planned = json.loads(zone.say("release", "--json").out)
    assert (planned["applied"], planned["unheard_names"]) == (False, ["lab3", "south"])
    assert zone.surface.restored_at
    done = zone.say("release", "--apply")
    assert (done.status, done.err, zone.surface.restored_at) == (0, "released\n", None)
    assert "holds nothing back" in zone.say("release", "--apply").err
    assert json.loads(zone.say("release", "--json").out)["restored_at"] is None


# --- codes and tokens


def test_code_create_prints_the_promised_object(zone: Zone) -> None:
    made = json.loads(zone.say("code", "create", "--json").out)
    assert made.keys() >= {"code", "expires"}
    (kept,) = zone.surface.codes_made.values()
    assert (kept.uses, kept.mode, kept.name, kept.replace) == (1, "place", "*", False)


def test_code_create_prints_the_code_alone_on_standard_output(zone: Zone) -> None:
    result = zone.say("code", "create", "--uses", "any", "--name", "lab*", "--label", "site=berlin", "--expires", "7d")
    assert result.out.startswith("banyan1.") and result.out.count("\n") == 1
    assert "any number of zones" in result.err
    (kept,) = zone.surface.codes_made.values()
    assert (kept.uses, kept.name, kept.labels) == (None, "lab*", {"site": "berlin"})


def test_a_secret_can_go_to_a_file_that_nobody_else_reads(zone: Zone, tmp_path: Path) -> None:
    for words in (("code", "create"), ("token", "create", "--role", "viewer"), ("zone", "replace", "north")):
        file = tmp_path / words[0]
        result = zone.say(*words, "--out", str(file), "--json")
        assert result.status == 0, result.err
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        secret = file.read_text().strip()
        assert secret and secret not in result.out + result.err
        assert zone.say(*words, "--out", str(file)).status == 2
    assert len(zone.surface.codes_made) == 2


def test_replace_makes_a_code_for_that_name(zone: Zone) -> None:
    assert zone.say("zone", "replace", "north", "--expires", "1h").out.startswith("banyan1.")
    (kept,) = zone.surface.codes_made.values()
    assert (kept.name, kept.replace, kept.uses) == ("north", True, 1)
    result = zone.say("zone", "replace", "lab1")
    assert (result.status, "make the code there" in result.err) == (2, True)


@pytest.mark.parametrize(
    "words", [("--uses", "0"), ("--uses", "all"), ("--expires", "soon"), ("--label", "site"), ("--mode", "own")]
)
def test_what_a_code_cannot_be(zone: Zone, words: tuple[str, str]) -> None:
    assert zone.say("code", "create", *words).status == 2
    assert not zone.surface.codes_made


def test_a_tokens_life_is_said_only_if_somebody_said_it(zone: Zone) -> None:
    """The zone caps what nobody said, and refuses what somebody said and can not be."""
    for words in ((), ("--expires", "2h")):
        assert zone.say("token", "create", "--role", "viewer", *words).status == 0
    assert zone.surface.lives == [None, 7200.0]
    assert zone.say("token", "create", "--role", "viewer", "--expires", "soon").status == 2


def test_tokens_are_affirmed_and_the_list_says_what_each_is_worth(zone: Zone) -> None:
    for _ in range(2):
        zone.say("token", "create", "--role", "viewer", "--under", "north")
    made = zone.surface.tokens_made
    made["t001"] = msgspec.structs.replace(made["t001"], state="before-restore")
    listed = zone.say("token", "list").out
    assert "before-restore" in listed and "good" in listed and "top/north" in listed
    answer = zone.say("token", "affirm", "t001", "t002", "--json")
    assert [(one["id"], one["state"]) for one in json.loads(answer.out)] == [("t001", "good"), ("t002", "good")]
    assert zone.say("token", "affirm").status == 2
    partly = zone.say("token", "affirm", "t009", "t001")
    assert (partly.status, "no token 't009'" in partly.err, "t001" in partly.out) == (6, True, True)
    assert zone.say("token", "affirm", "t009").status == 4


def test_codes_and_tokens_are_listed_and_revoked(zone: Zone) -> None:
    zone.say("code", "create")
    zone.say("token", "create", "--role", "operator", "--under", "north", "--subject", "ops")
    assert [one["id"] for one in json.loads(zone.say("code", "list", "--json").out)] == ["c001"]
    assert "ops" in zone.say("token", "list").out
    assert zone.say("code", "revoke", "c001").out == "c001 revoked\n"
    assert json.loads(zone.say("token", "revoke", "t001", "--json").out) == {"removed": ["t001"]}
    assert zone.say("code", "revoke", "c999").status == 4
    assert zone.say("code", "revoke", "c999", "c001").status == 6
    assert zone.say("code", "revoke").status == 2
    assert "revoked" in zone.say("code", "list").out


def test_the_list_of_codes_says_what_each_is_worth(zone: Zone) -> None:
    zone.say("code", "create")
    made = zone.surface.codes_made
    for state in ("before-restore", "expired", "used-up", "open"):
        made["c001"] = msgspec.structs.replace(made["c001"], state=state)
        assert state in zone.say("code", "list").out.splitlines()[1].split()
        assert [one["state"] for one in json.loads(zone.say("code", "list", "--json").out)] == [state]


def test_rules_and_keys(zone: Zone) -> None:
    added = zone.say(
        "rule", "add", "labs", "--name", "lab*", "--verdict", "quarantine", "--set-label", "tier=lab", "--json"
    )
    assert json.loads(added.out)["set_labels"] == {"tier": "lab"}
    assert "labs" in zone.say("rule", "list").out
    assert zone.say("rule", "remove", "labs").status == 0
    key = ":".join(["AB"] * 32)
    assert json.loads(zone.say("key", "add", key, "lab9", "--json").out)["fingerprint"] == "ab" * 32
    assert "lab9" in zone.say("key", "list").out
    assert zone.say("key", "remove", key).status == 0
    assert zone.say("key", "add", "abc", "lab9").status == 2
