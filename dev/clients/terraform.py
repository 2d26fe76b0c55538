"""Terraform with its OpenStack provider, where both are there: a plan is applied, planned again, and destroyed."""

from __future__ import annotations

import shutil

from dev.clients.having import HERE, NotToBeHad, Ran, home, must, stated
from dev.clients.steps import FAILED, PASSED, Step

# gap: nobody has run this plan yet: no machine of ours has the provider
PLAN = HERE / "terraform" / "main.tf"


def prepare() -> str:
    """Terraform fetches the provider by itself, or has it from a mirror. Raises NotToBeHad."""
    program = shutil.which("terraform")
    if program is None:
        raise NotToBeHad("there is no program `terraform`")
    folder = home() / "terraform"
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(PLAN, folder / "main.tf")
    try:
        must("its provider", [program, f"-chdir={folder}", "init", "-input=false", "-no-color"])
    except NotToBeHad as told:
        raise NotToBeHad("its provider openstack is neither here nor to be fetched") from told
    return must("terraform", [program, "version"]).split()[1].removeprefix("v")


def run(ran: Ran) -> list[Step]:
    folder = home() / "terraform"
    state = f"-state={ran.folder / 'state'}"
    settings = {"OS_CLIENT_CONFIG_FILE": str(ran.clouds), "OS_CLOUD": ran.cloud}
    steps = []
    for name, words in (
        ("apply", ["apply", "-auto-approve", state]),
        ("plan: nothing is left to do", ["plan", "-detailed-exitcode", state]),
        ("destroy", ["destroy", "-auto-approve", state]),
    ):
        _, complaint = stated(
            ["terraform", f"-chdir={folder}", *words, "-no-color", "-input=false"], ran.folder, settings
        )
        steps.append(Step(name, FAILED if complaint else PASSED, complaint))
    return steps
