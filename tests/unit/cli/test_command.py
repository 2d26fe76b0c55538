"""The command as a whole: help, usage errors, completion; nothing secret is ever an argument."""

from __future__ import annotations

import ast
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from cyclopts import App

from banyan.cli import values
from banyan.cli.main import build, run
from banyan.core.errors import BadInput


def commands(app: App, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], App]]:
    for name in app:
        if not name.startswith("-"):
            below = app[name]
            here = (*path, name)
            if any(not word.startswith("-") for word in below):
                yield from commands(below, here)
            else:
                yield here, below


ALL = dict(commands(build()))
# Commands that name their zone otherwise, or need none.
LOCAL = {("serve",), ("join",), ("check",), ("backup",), ("restore",), ("completion",), ("version",), ("help",)}

RELIED_ON = """serve;code create;join;zone list;zone tree;zone show;zone disable;zone enable;zone maintenance;zone ban;
zone unban;zone retire;zone replace;zone rename;usage;host list;rack list;journal;status;code list;code revoke;
token create;token list;token revoke;rule list;rule add;rule remove;key list;key add;key remove;server list;use;leave;
release;authority rotate;completion;version"""


def test_the_commands_that_scripts_rely_on_are_there() -> None:
    assert {tuple(words.split()) for words in RELIED_ON.replace("\n", "").split(";")} <= set(ALL)


@pytest.mark.parametrize("words", sorted(ALL), ids=" ".join)
def test_every_command_has_help_and_the_common_options(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*words, "--help"]) == 0
    out = capsys.readouterr().out
    assert f"Usage: banyan {' '.join(words)}" in out
    assert "--data.value" not in out
    if words not in LOCAL:
        for option in ("--data", "--url", "--token-file", "--ca-file", "--json", "BANYAN_DATA", "BANYAN_URL"):
            assert option in out, option


def test_no_option_takes_a_secret() -> None:
    for words, app in ALL.items():
        for argument in app.assemble_argument_collection():
            named = " ".join(argument.names).lower()
            if any(word in named for word in ("token", "code", "secret", "passphrase", "password")):
                assert argument.hint is Path or Path in getattr(argument.hint, "__args__", ()), (words, named)


@pytest.mark.parametrize(
    "words", [["nonsense"], ["zone", "lst"], ["zone", "list", "--heath", "lost"], ["zone", "list", "--health", "ill"],
              ["zone", "show"], ["zone", "list", "--limit", "0"], ["token", "create"], ["zone", "maintenance", "a"]]
)  # fmt: skip
def test_usage_errors_exit_with_2_and_say_where_help_is(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*words, "--json"] if words[0] == "zone" else words) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    if words[0] == "zone":
        assert json.loads(captured.err)["error"]["code"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_is_a_script_that_knows_the_commands(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["completion", shell]) == 0
    script = capsys.readouterr().out
    for word in ("maintenance", "journal", "--token-file"):
        assert word in script or word.lstrip("-") in script


def test_bash_takes_the_completion(capsys: pytest.CaptureFixture[str]) -> None:
    run(["completion", "bash"])
    script = capsys.readouterr().out
    done = subprocess.run(["bash", "-n"], input=script, text=True, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    probe = script + '\nCOMP_WORDS=(banyan zone di); COMP_CWORD=2; COMP_LINE="banyan zone di"; COMP_POINT=14\n'
    probe += "$(complete -p banyan | sed -n 's/.*-F \\([^ ]*\\).*/\\1/p') banyan di zone; echo \"${COMPREPLY[@]}\""
    done = subprocess.run(["bash", "-c", probe], text=True, capture_output=True, check=False)
    assert done.stdout.split() == ["disable"], done.stderr


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 90), ("90s", 90), ("1.5m", 90), ("24h", 86400), ("7d", 604800), ("2w", 1209600), (" 1H ", 3600)],
)
def test_durations(text: str, seconds: float) -> None:
    assert values.seconds(text) == seconds


@pytest.mark.parametrize("text", ["", "h", "-1h", "1y", "1h30m", "1e9", "٣h"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(BadInput):
        values.seconds(text)


def test_driver_options_are_toml_where_they_can_be() -> None:
    given = [
        "n=5",
        "on=true",
        "list=[1, 2]",
        "region=RegionOne",
        "url=http://x/?a=b",
        "quoted='5'",
        "day=2026-01-01",
        "empty=",
    ]
    assert values.options(given) == {
        "n": 5, "on": True, "list": [1, 2], "region": "RegionOne", "url": "http://x/?a=b", "quoted": "5",
        "day": "2026-01-01", "empty": "",
    }  # fmt: skip


@pytest.mark.parametrize("given", [["site"], ["=x"], ["a=1", "a=2"], ["a=\n"]])
def test_labels_are_key_and_value_once(given: list[str]) -> None:
    with pytest.raises(BadInput):
        values.labels(given)


def test_the_contract_names_every_command() -> None:
    text = (Path(__file__).resolve().parents[3] / "docs" / "contracts" / "cli.md").read_text(encoding="utf-8")
    missing = [words for words in ALL if f"`{' '.join(words)}`" not in text]
    assert not missing


def test_each_file_that_may_be_standard_input_may_be_a_hyphen() -> None:
    """`--code-file -`: a value that begins like an option has to be allowed."""
    options = [
        {word.arg: word.value for word in call.keywords}
        for path in sorted((Path(__file__).resolve().parents[3] / "src" / "banyan" / "cli").glob("*.py"))
        for call in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "Parameter"
    ]
    files = [one for one in options if "standard input" in ast.unparse(one.get("help", ast.Constant("")))]
    assert len(files) >= 5
    assert all("allow_leading_hyphen" in one for one in files)
