"""Commands that documents, units and error texts show exist, with the options they are shown with."""

from __future__ import annotations

import re
import shlex

from banyan.cli.main import build
from dev.gaps import ROOT, tracked
from dev.surfaces import commands

KNOWN = {
    words.removeprefix("banyan").strip(): {
        name for argument in app.assemble_argument_collection() for name in argument.names
    }
    for words, app in commands(build(), ("banyan",))
}
NOUNS = {words.split()[0] for words in KNOWN if " " in words}
COMMAND = re.compile(r"(?:^|[`/ ])banyan ([a-z][^`\n#|&;<]*)", re.MULTILINE)
GENERAL = {"--help", "--version"}


def shown(text: str) -> list[str]:
    """What follows `banyan` wherever a command is shown; continued lines are joined."""
    return [found.strip() for found in COMMAND.findall(text.replace("\\\n", " "))]


def wrong(command: str) -> str:
    """Why `command` cannot be right; "" if it can."""
    try:
        words = shlex.split(command)
    except ValueError:
        words = command.split()
    plain = [word for word in words if re.fullmatch(r"[a-z]+(-[a-z]+)*", word)]
    name = " ".join(plain[:2]) if plain and plain[0] in NOUNS else (plain or [""])[0]
    if name in NOUNS:
        return ""
    if name not in KNOWN:
        return f"there is no `banyan {name}`"
    options = {word.partition("=")[0] for word in words if word.startswith("--")}
    unknown = options - KNOWN[name] - GENERAL
    return f"`banyan {name}` has no {', '.join(sorted(unknown))}" if unknown else ""


def test_commands_in_documents_and_units_exist() -> None:
    found = [
        f"{path.relative_to(ROOT)}: banyan {command}: {why}"
        for path in tracked()
        if path.suffix in (".md", ".service")
        for block in code(path.read_text(encoding="utf-8"), path.suffix)
        for command in shown(block)
        if (why := wrong(command))
    ]
    assert not found


def test_commands_in_texts_of_the_program_exist() -> None:
    found = [
        f"{path.relative_to(ROOT)}: banyan {command}: {why}"
        for path in tracked()
        if path.suffix == ".py" and path.is_relative_to(ROOT / "src")
        for command in re.findall(r"`banyan ([a-z][^`{\n]*)`", path.read_text(encoding="utf-8"))
        if (why := wrong(command))
    ]
    assert not found


def code(text: str, suffix: str) -> list[str]:
    """The code blocks and the spans of a document; a unit file is one block."""
    if suffix != ".md":
        return [text]
    blocks = re.findall(r"^```\w*\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    spans = re.findall(r"`(banyan [^`]+)`", re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL))
    return [*blocks, *spans]
