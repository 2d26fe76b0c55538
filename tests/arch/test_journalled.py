"""Every change that a caller may ask a service for leaves a journal line, or stands here with why it does not."""

from __future__ import annotations

import ast
from pathlib import Path

ZONE = Path(__file__).parents[2] / "src" / "banyan" / "zone"
FOLDERS = ("compute", "images", "networks", "identity")
# Units of work without a line of their own, and why.
_SERVER = "a part of what was asked of a server, which has its line in the server's zone"
_ORDER = "a count of what an order may take, whose line is the order's, where its servers are made"
_IMPORT = "a step of an import, whose beginning has a line"
SILENT = {
    "quota.begun": _ORDER,
    "quota.counted": _ORDER,
    "quota.given": _ORDER,
    "quota.taken": _ORDER,
    "migration.begun": _SERVER,
    "migration.settled": _SERVER,
    "network.allocated": _SERVER,
    "network.attached": _SERVER,
    "network.detached": _SERVER,
    "network.released": _SERVER,
    "network.group-joined": _SERVER,
    "network.group-left": _SERVER,
    "image.begun": "data is on its way: image-received or image-import-begun says what came of it",
    "image.failed": "nothing came of it, as the answer says, or the import's task",
    "image-task.set": _IMPORT,
    "image-task.recovered": _IMPORT,
    "security-group.default": "the group that every project has, made when it is first looked at",
}


def changes(text: str) -> dict[str, bool]:
    """Names of units that are written (`desk.change("name", …)`), and whether the function that does writes a line."""
    found: dict[str, bool] = {}
    tree = ast.parse(text)
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    helpers = {node.name for node in functions if _says(node, set())}
    for node in ast.walk(tree):
        if not isinstance(node, ast.AsyncFunctionDef):
            continue
        for call in ast.walk(node):
            if isinstance(call, ast.Call) and _name(call) == "change" and call.args:
                first = call.args[0]
                if isinstance(first, ast.Constant) and isinstance(first.value, str):
                    found[first.value] = found.get(first.value, True) and _says(node, helpers)
    return found


def _name(call: ast.Call) -> str:
    if isinstance(call.func, ast.Attribute):
        return call.func.attr
    return call.func.id if isinstance(call.func, ast.Name) else ""


def _says(node: ast.AST, helpers: set[str]) -> bool:
    calls = {_name(call) for call in ast.walk(node) if isinstance(call, ast.Call)}
    return bool(calls & ({"note", "event"} | helpers))


def test_every_change_is_journalled_or_says_why_not() -> None:
    silent = set()
    for folder in FOLDERS:
        for path in sorted((ZONE / folder).glob("*.py")):
            silent |= {name for name, says in changes(path.read_text("utf-8")).items() if not says}
    assert silent == set(SILENT)
