"""The clients: how each is had, and how its scenario is run. Versions are pinned, so that a result can be had again."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from typing import Any

import openstack
import yaml

from dev.clients import gophercloud, terraform
from dev.clients.having import HERE, LATE, ROOT, Client, NotToBeHad, Ran, home, said, stated, venv
from dev.clients.steps import FAILED, PASSED, SKIPPED, Step

__all__ = ["CLIENTS", "NotToBeHad", "Ran"]

OPENSTACKCLIENT, OPENSTACKSDK = "10.5.0", "4.22.0"
# The newest for Python 3.11. It brings openstack.cloud 2.5.0, which wants an SDK of the time before 4.15.
ANSIBLE, COLLECTION, ANSIBLE_SDK = "12.3.0", "2.5.0", "4.14.0"
RALLY, RALLY_CORE = "4.1.0", "5.1.1"
DISK = b"a disk would be here" * 4096


def pinned(name: str, version: str, *packages: str) -> Callable[[], str]:
    """Makes a virtual environment of these packages; tells the version that counts."""

    def prepare() -> str:
        venv(name, *packages)
        return version

    return prepare


def module(name: str, environment: str) -> Callable[[Ran], list[Step]]:
    """A scenario that is a module here, and runs with the Python of a client's environment."""

    def run(ran: Ran) -> list[Step]:
        python = home() / environment / "bin" / "python"
        command = [str(python), "-m", f"dev.clients.{name}", str(ran.clouds), ran.cloud]
        return said(environment, command, ran.folder, {"PYTHONPATH": str(ROOT)})

    return run


# --- Ansible ----------------------------------------------------------------------------------------


def play(ran: Ran) -> list[Step]:
    """Each task of the playbook is a step."""
    programs = home() / "ansible" / "bin"
    (ran.folder / "disk.raw").write_bytes(DISK)
    told = {
        "ansible_python_interpreter": str(programs / "python"),
        "cloud": ran.cloud,
        "folder": str(ran.folder),
        "size": len(DISK),
    }
    command = [str(programs / "ansible-playbook"), "-i", "localhost,", "-c", "local", "-e", json.dumps(told)]
    settings = {
        "PATH": f"{programs}:{os.environ.get('PATH', '')}",
        "ANSIBLE_HOME": str(ran.folder / "home"),
        "ANSIBLE_STDOUT_CALLBACK": "ansible.posix.json",
        "OS_CLIENT_CONFIG_FILE": str(ran.clouds),
    }
    printed, complaint = stated([*command, str(HERE / "playbook.yaml")], ran.folder, settings)
    try:
        plays = json.loads(printed[printed.index("{") :])["plays"]
        tasks = [task for play in plays for task in play["tasks"]]
    except (ValueError, KeyError):
        return [Step("ansible-playbook", FAILED, complaint or printed[-600:])]
    return [task_step(task["task"]["name"], task["hosts"].get("localhost", {})) for task in tasks]


def task_step(name: str, told: Mapping[str, Any]) -> Step:
    if told.get("skipped"):
        return Step(name, SKIPPED, str(told.get("skip_reason", "")))
    if not told.get("failed"):
        return Step(name, PASSED)
    parts = [str(one.get("msg")) for one in told.get("results", []) if one.get("failed")]
    return Step(name, FAILED, "; ".join([str(told.get("msg")), *parts])[:600])


# --- Rally ------------------------------------------------------------------------------------------


def load(ran: Ran) -> list[Step]:
    """Each workload of the task is a step. Rally makes its users itself, and needs an image and an outer network."""
    entry = yaml.safe_load(ran.clouds.read_text(encoding="utf-8"))["clouds"][ran.cloud]
    names = {key: entry["auth"][key] for key in ("username", "password", "project_name")}
    spec = {
        "auth_url": entry["auth"]["auth_url"],
        "region_name": entry["region_name"],
        "https_cacert": entry.get("cacert", ""),
        "endpoint_type": "public",
        "admin": {**names, "user_domain_name": "Default", "project_domain_name": "Default"},
    }
    given = ran.folder / "spec.json"
    given.touch(mode=0o600)
    given.write_text(json.dumps({"existing@openstack": spec}), encoding="utf-8")
    (ran.folder / "rally.conf").write_text(f"[database]\nconnection = sqlite:///{ran.folder}/rally.db\n")
    program = [str(home() / "rally" / "bin" / "rally"), "--config-file", "rally.conf"]
    # It keeps what it was asked last below the home.
    settings = {"HOME": str(ran.folder)}
    printed = complaint = ""
    late: list[Step] = []
    os.environ["OS_CLIENT_CONFIG_FILE"] = str(ran.clouds)
    with openstack.connect(cloud=ran.cloud) as cloud:
        image = cloud.image.create_image("rally.image", data=DISK, disk_format="raw", visibility="public")
        outside = cloud.network.create_network(name="rally-outside", is_router_external=True)
        cloud.network.create_subnet(network_id=outside.id, ip_version=4, cidr="100.64.0.0/24", is_dhcp_enabled=False)
        for words in (
            ("db", "ensure"),
            ("env", "create", "--name", "top", "--spec", str(given)),
            ("task", "start", str(HERE / "rally.yaml")),
            ("task", "report", "--json", "--out", "report.json"),
        ):
            printed, complaint = stated([*program, *words], ran.folder, settings)
            if complaint.startswith(LATE):
                late.append(Step(f"rally {' '.join(words[:2])}", FAILED, complaint))
        cloud.network.delete_network(outside)
        cloud.image.delete_image(image.id)
    report = ran.folder / "report.json"
    if not report.is_file():
        return [*late, Step("rally task", FAILED, (complaint or printed)[-600:])]
    told = json.loads(report.read_text(encoding="utf-8"))
    parts = [part for task in told["tasks"] for part in task["subtasks"]]
    return [*late, *(workload_step(one) for part in parts for one in part["workloads"])]


def workload_step(told: Mapping[str, Any]) -> Step:
    name, rounds = next(iter(told["scenario"])), told["data"]
    errors = [" ".join(map(str, one["error"][:2])) for one in rounds if one.get("error")]
    contexts = [part["setup"].get("error") or part["cleanup"].get("error") for part in told.get("contexts_results", [])]
    errors += [str(one) for one in contexts if one]
    if told["pass_sla"] and rounds and not errors:
        return Step(name, PASSED)
    return Step(name, FAILED, f"{len(errors)} errors in {len(rounds)} rounds: {errors[:1]}"[:600])


CLIENTS: dict[str, Client] = {
    "openstackclient": Client(
        pinned("openstackclient", OPENSTACKCLIENT, f"python-openstackclient=={OPENSTACKCLIENT}"),
        module("osc", "openstackclient"),
    ),
    "openstacksdk": Client(
        pinned("openstacksdk", OPENSTACKSDK, f"openstacksdk=={OPENSTACKSDK}"), module("sdk", "openstacksdk")
    ),
    "ansible": Client(
        pinned(
            "ansible",
            f"{ANSIBLE}, openstack.cloud {COLLECTION}",
            f"ansible=={ANSIBLE}",
            f"openstacksdk=={ANSIBLE_SDK}",
        ),
        play,
    ),
    "rally": Client(pinned("rally", RALLY, f"rally-openstack=={RALLY}", f"rally=={RALLY_CORE}"), load),
    "gophercloud": Client(gophercloud.prepare, gophercloud.run),
    "terraform": Client(terraform.prepare, terraform.run),
}
