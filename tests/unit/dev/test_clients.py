"""What `make test-clients` makes of what clients say: steps, lines, and its status. No client is run."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from dev.clients import __main__ as clients
from dev.clients.having import ROOT, Client, NotToBeHad, Ran, said, stated, venv
from dev.clients.kinds import CLIENTS, task_step, workload_step
from dev.clients.steps import FAILED, PASSED, SKIPPED, Step, Wrong, heard, step, summary, want


def test_a_step_says_how_it_went_and_does_not_end_the_scenario(capsys: pytest.CaptureFixture[str]) -> None:
    with step("well"):
        want(True, "never")
    with step("not well"):
        want(False, {"status": "ERROR"})
    with step("broken"):
        raise KeyError("id")
    told = heard(capsys.readouterr().out)
    assert [(one.name, one.verdict) for one in told] == [("well", PASSED), ("not well", FAILED), ("broken", FAILED)]
    assert "ERROR" in told[1].why and "KeyError" in told[2].why
    with pytest.raises(Wrong):
        want([], "nothing")


def test_lines_that_are_no_steps_are_passed_on(capsys: pytest.CaptureFixture[str]) -> None:
    assert heard('a warning\n{"name": "x", "verdict": "passed", "why": ""}\n[1]\n{"other": 1}\n') == [Step("x", PASSED)]
    assert capsys.readouterr().err == 'a warning\n[1]\n{"other": 1}\n'


def test_a_client_has_one_line() -> None:
    steps = [Step("a", PASSED), Step("b", FAILED, "why"), Step("c", SKIPPED), Step("d", PASSED)]
    assert summary("tool", "1.2", steps) == "tool 1.2: 2 steps passed, 1 failed, 1 skipped"


def test_a_task_of_a_playbook_is_a_step() -> None:
    assert task_step("t", {"changed": True}) == Step("t", PASSED)
    assert task_step("t", {"skipped": True, "skip_reason": "no"}) == Step("t", SKIPPED, "no")
    told = {"failed": True, "msg": "One failed", "results": [{"failed": True, "msg": "409"}, {"msg": "fine"}]}
    assert task_step("t", told) == Step("t", FAILED, "One failed; 409")


def test_a_workload_that_had_no_round_or_an_error_has_failed() -> None:
    good = {"scenario": {"Nova.boot": {}}, "pass_sla": True, "data": [{"error": []}]}
    assert workload_step(good) == Step("Nova.boot", PASSED)
    assert workload_step({**good, "data": []}).verdict == FAILED
    assert workload_step({**good, "pass_sla": False}).verdict == FAILED
    wrong = workload_step({**good, "data": [{"error": ["Timeout", "of 5 s", "a trace"]}]})
    assert wrong.verdict == FAILED and "Timeout of 5 s" in wrong.why
    left = {"setup": {"error": None}, "cleanup": {"error": "left behind"}}
    assert workload_step({**good, "contexts_results": [left]}).verdict == FAILED


def test_a_scenario_that_ends_badly_has_failed(tmp_path: Path) -> None:
    (lost,) = said("tool", ["sh", "-c", "echo too bad >&2; exit 3"], tmp_path)
    assert (lost.verdict, lost.why) == (FAILED, "too bad")
    (silent,) = said("tool", ["sh", "-c", "exit 3"], tmp_path)
    assert silent.why == "status 3"
    assert said("tool", ["true"], tmp_path) == []


def gone(process: int) -> bool:
    """Within two seconds."""
    try:
        watch = os.pidfd_open(process)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([watch], [], [], 2)[0])
    finally:
        os.close(watch)


def test_nothing_goes_on_of_a_client_that_took_too_long(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("dev.clients.having.RAN_WITHIN", 0.2)
    printed, complaint = stated(["sh", "-c", "sleep 60 & echo $!; wait"], tmp_path)
    assert complaint == "not within 0.2 s"
    assert gone(int(printed)), "what it started goes on"


RUNNER = """
import contextlib, sys
from dev.clients import __main__ as clients
from dev.clients.having import Client, said

@contextlib.contextmanager
def tree():
    try:
        yield None, "clouds.yaml"
    finally:
        print("the tree is ended", flush=True)

clients.tree = tree
command = ["sh", "-c", "sleep 60 & echo $! >&9; wait"]
import subprocess, os
popen = subprocess.Popen
subprocess.Popen = lambda *words, **how: popen(*words, pass_fds=(9,), **how)
clients.CLIENTS = {"slow": Client(lambda: "1", lambda ran: said("slow", command, ran.folder))}
os.dup2(1, 9)
sys.exit(clients.main([]))
"""


def test_sigterm_ends_the_client_and_then_the_tree() -> None:
    runner = subprocess.Popen([sys.executable, "-c", RUNNER], cwd=ROOT, stdout=subprocess.PIPE)
    assert runner.stdout
    client = int(runner.stdout.readline())
    runner.send_signal(signal.SIGTERM)
    printed, _ = runner.communicate(timeout=20)
    assert runner.returncode == 128 + signal.SIGTERM and printed == b"the tree is ended\n"
    assert gone(client), "the client goes on"


def test_a_client_that_can_not_be_had_is_named_with_the_reason(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def never() -> str:
        raise NotToBeHad("its parts are elsewhere")

    asked: list[Ran] = []

    def run(ran: Ran) -> list[Step]:
        asked.append(ran)
        return [Step("a", PASSED)]

    monkeypatch.setattr(clients, "CLIENTS", {"far": Client(never, run), "near": Client(lambda: "2.0", run)})
    assert clients.main(["--clouds", str(tmp_path / "clouds.yaml")]) == 0
    printed = capsys.readouterr().out
    assert "far: not to be had on this machine: its parts are elsewhere\n" in printed
    assert "near 2.0: 1 steps passed, 0 failed, 0 skipped\n" in printed and printed.endswith("1 passed, 0 failed\n")
    assert len(asked) == 1 and asked[0].clouds == tmp_path / "clouds.yaml"
    assert clients.main(["far", "--clouds", str(tmp_path / "clouds.yaml")]) == 1, "nothing ran"
    with pytest.raises(SystemExit):
        clients.main(["unheard-of"])


def test_an_environment_is_made_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("BANYAN_CLIENTS", str(tmp_path))
    made: list[str] = []

    def must(what: str, command: list[str], **settings: str) -> str:
        made.append(what)
        (tmp_path / "tool").mkdir(exist_ok=True)
        return ""

    monkeypatch.setattr("dev.clients.having.must", must)
    assert venv("tool", "tool==1") == venv("tool", "tool==1") == tmp_path / "tool" / "bin"
    assert made == ["a virtual environment for tool", "tool"]
    venv("tool", "tool==2")
    assert len(made) == 4


def test_the_clients_of_the_documents_are_these() -> None:
    text = (Path(__file__).resolve().parents[3] / "docs" / "clients.md").read_text(encoding="utf-8")
    assert all(f"`{name}`" in text for name in CLIENTS)
