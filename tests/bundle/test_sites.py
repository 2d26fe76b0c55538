"""One rule, one code and the shipped file for cloud-init: as many sites join as BANYAN_SITES says, by themselves.

The file is rendered as cloud-init does it, for one host name after the other, and its join is what it runs; only what
needs systemd and the download is left out. What each site's rack is, is changed to a simulated one.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from tests.bundle.conftest import ROOT
from tests.wire.zones.processes import free_port

SITES = int(os.environ.get("BANYAN_SITES", "6"))


def run(program: Path, *words: str, stdin: str | None = None) -> str:
    done = subprocess.run([program, *words], input=stdin, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
    return done.stdout


@contextmanager
def top_zone(program: Path, folder: Path) -> Iterator[Path]:
    words = [program, "serve", "--data", folder, "--name", "top", "--listen-api", f"127.0.0.1:{free_port()}",
             "--listen-link", f"127.0.0.1:{free_port()}", "--log-level", "warning"]  # fmt: skip
    process = subprocess.Popen(words, stderr=subprocess.DEVNULL)
    try:
        ends = time.monotonic() + 60
        while not (folder / "control.sock").exists():
            assert time.monotonic() < ends and process.poll() is None, "the top did not come up"
            time.sleep(0.1)
        yield folder
    finally:
        process.terminate()
        process.wait(30)


def rendered(name: str, code: str) -> dict[str, Any]:
    """The shipped file for the machine of that name, with the code filled in as its comments say."""
    text = (ROOT / "contrib" / "cloud-init" / "edge.yaml").read_text()
    kind, rest = text.split("\n", 1)
    assert kind == "## template: jinja"
    values = {"v1.local_hostname": name, "v1.availability_zone | default('unknown', true)": "unknown"}
    filled = re.sub(r"\{\{ (.*?) \}\}", lambda found: values[found.group(1)], rest).replace("JOIN-CODE", code)
    return yaml.safe_load(filled)


def test_sites_join_by_one_rule_one_code_and_one_file(installed: Path, tmp_path: Path) -> None:
    with top_zone(installed, tmp_path / "top") as top:
        data = ("--data", str(top))
        rule = ("--verifier", "join-code", "--name", "edge-*", "--verdict", "admit", "--set-label", "tier=edge")
        run(installed, "rule", "add", "edges", *rule, *data)
        made = run(installed, "code", "create", "--uses", str(SITES), "--name", "edge-*", "--json", *data)
        code = json.loads(made)["code"]
        for number in range(SITES):
            files = {one["path"]: one for one in rendered(f"edge-{number:03}", code)["write_files"]}
            assert files["/etc/banyan/edge.code"]["permissions"] == "0600"
            settings = tmp_path / f"edge-{number:03}.toml"
            wanted, _, _ = files["/etc/banyan/edge.toml"]["content"].partition("[[rack]]")
            settings.write_text(wanted + '[[rack]]\nname = "cloud"\ndriver = "sim"\noptions = { hosts = 2 }\n')
            script = files["/etc/banyan/join"]["content"]
            # The command as the script has it, with this machine's places for those of the site.
            command = script.partition("runuser -u banyan -- /opt/banyan/bin/banyan ")[2].partition("</etc")[0]
            words = command.replace("\\\n", " ").replace("/etc/banyan/edge.toml", str(settings)).split()
            words = [word.replace("/var/lib/banyan/edge", str(tmp_path / f"edge-{number:03}")) for word in words]
            run(installed, *words, stdin=files["/etc/banyan/edge.code"]["content"])
        zones = json.loads(run(installed, "zone", "list", "--label", "tier=edge", "--json", *data))
        assert [zone["name"] for zone in zones] == [f"edge-{number:03}" for number in range(SITES)]
        assert {zone["labels"]["site"] for zone in zones} == {"unknown"}
        codes = json.loads(run(installed, "code", "list", "--json", *data))
        assert (codes[0]["used"], codes[0]["state"]) == (SITES, "used-up")


def test_the_playbook_and_the_file_join_by_the_same_command() -> None:
    plays = yaml.safe_load((ROOT / "contrib" / "ansible" / "edges.yml").read_text())
    tasks = {task["name"]: task for task in plays[0]["tasks"]}
    join = tasks["Join, once; the code goes in by standard input"]
    assert join["no_log"] is True
    words = join["ansible.builtin.command"]["cmd"].split()
    scripts = {one["path"]: one["content"] for one in rendered("edge-1", "c")["write_files"]}
    script = scripts["/etc/banyan/join"].replace("\\\n", " ")
    assert " ".join(words[: words.index("--patience")]) in re.sub(r" +", " ", script)
