"""What people type: the commands of python-openstackclient, as the administrator and as a user of a project.

Run in the client's own environment: `python -m dev.clients.osc CLOUDS_YAML CLOUD [PART ...]`.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, NoReturn

import yaml
from openstackclient import shell  # type: ignore[import-not-found,unused-ignore]  # only in the environment of that client

from dev.clients.steps import step, want

PATIENCE = 180  # seconds that one command may take
SMALL = ("--image", "disk image 1.0", "--flavor", "m1.tiny")
IMAGE = b"a disk would be here" * 4096


def read_all(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode(errors="replace")


class CommandFailed(Exception):
    """A command ended with a status that was not wanted, or said what is no JSON."""


@dataclass(frozen=True, slots=True)
class Openstack:
    """The program `openstack` with the settings it runs with.

    Each command is its own process, as for a person, since the program keeps what it learnt of one user in its classes.
    The process is forked from this one, which has read the program's code once.
    """

    settings: dict[str, str]

    def run(self, *words: str, refused: bool = False) -> str:
        """What a command prints; what it complains of, where it is to be refused. Raises CommandFailed."""
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            sys.stdout.flush()
            child = os.fork()
            if child == 0:
                self._become(words, out.fileno(), err.fileno())
            status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            printed, complained = (read_all(one) for one in (out, err))
        if (status != 0) != refused:
            told = (complained or printed).strip()[-400:]
            raise CommandFailed(f"`openstack {' '.join(words)}` ended with {status}: {told}")
        return complained if refused else printed

    def _become(self, words: tuple[str, ...], out: int, err: int) -> NoReturn:
        status: Any = 1
        try:
            signal.alarm(PATIENCE)
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            os.dup2(out, 1)
            os.dup2(err, 2)
            for name in [name for name in os.environ if name.startswith("OS_")]:
                del os.environ[name]
            os.environ.update(self.settings)
            status = shell.main(list(words))
        except SystemExit as end:
            status = end.code
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status if isinstance(status, int) else 1)

    def ask(self, *words: str) -> Any:
        """What a command tells as JSON."""
        return json.loads(self.run(*words, "-f", "json"))

    def do(self, *words: str) -> None:
        """A command by itself is a step, whatever it prints."""
        with step(" ".join(words)):
            self.run(*words)


def end(o: Openstack) -> None:
    o.do("image", "delete", "disk image 1.0")
    o.do("keypair", "delete", "key_one")


def around(o: Openstack) -> None:
    """What there is before anything is made."""
    with step("token issue"):
        want(o.ask("token", "issue")["expires"], "no end")
    with step("catalog list"):
        kinds = {row["Type"] for row in o.ask("catalog", "list")}
        want({"identity", "compute", "image", "network", "placement"} <= kinds, kinds)
    with step("versions show"):
        want(len(o.ask("versions", "show")) >= 5, "too few")
    with step("hypervisor list"):
        rows = o.ask("hypervisor", "list", "--long")
        want(rows and all(row["State"] == "up" for row in rows), rows)
    with step("hypervisor show"):
        first = o.ask("hypervisor", "list")[0]
        want(o.ask("hypervisor", "show", first["Hypervisor Hostname"])["status"] == "enabled", first)
    o.do("hypervisor", "stats", "show", "--os-compute-api-version", "2.87")
    with step("availability zone list"):
        rows = o.ask("availability", "zone", "list", "--compute")
        want("edge" in {row["Zone Name"] for row in rows}, rows)
    o.do("availability", "zone", "list", "--network")
    with step("compute service list"):
        want(o.ask("compute", "service", "list"), "none")
    o.do("network", "agent", "list")
    o.do("extension", "list", "--network")
    o.do("aggregate", "list")
    with step("flavor list"):
        want("m1.tiny" in {row["Name"] for row in o.ask("flavor", "list")}, "no m1.tiny")
    with step("flavor create, set, show and delete"):
        o.run("flavor", "create", "--vcpus", "1", "--ram", "64", "--disk", "1", "flavor ä.1")
        o.run("flavor", "set", "--property", "trait:CUSTOM_X=required", "flavor ä.1")
        shown = o.ask("flavor", "show", "flavor ä.1")
        want(shown["properties"] == {"trait:CUSTOM_X": "required"}, shown)
        o.run("flavor", "unset", "--property", "trait:CUSTOM_X", "flavor ä.1")
        o.run("flavor", "delete", "flavor ä.1")
        o.run("flavor", "show", "flavor ä.1", refused=True)
    with step("limits show --absolute"):
        rows = {row["Name"]: row["Value"] for row in o.ask("limits", "show", "--absolute")}
        want(rows.get("max_total_instances", 0) > 0, rows)
    with step("usage show and list"):
        o.run("usage", "show")
        o.run("usage", "list")


def images(o: Openstack) -> None:
    name, disk, back = "disk image 1.0", Path("disk.raw"), Path("back.raw")
    disk.write_bytes(IMAGE)
    with step("image create --file"):
        made = o.ask(
            "image", "create", "--file", str(disk), "--disk-format", "raw", "--property", "os_distro=none", name
        )
        want(made["status"] in ("active", "queued", "saving"), made)
    with step("image show: size, checksum, properties"):
        shown = o.ask("image", "show", name)
        want(shown["status"] == "active" and shown["size"] == len(IMAGE), shown)
        want(shown["checksum"] == hashlib.md5(IMAGE, usedforsecurity=False).hexdigest(), shown)
        want(shown["properties"]["os_hash_value"] == hashlib.sha512(IMAGE).hexdigest(), shown)
        want(shown["properties"]["os_distro"] == "none", shown)
    with step("image save: the same bytes"):
        o.run("image", "save", "--file", str(back), name)
        want(back.read_bytes() == IMAGE, f"{back.stat().st_size} bytes of {len(IMAGE)}")
    with step("image list by name, status and tag"):
        o.run("image", "set", "--tag", "blue", "--min-ram", "32", "--public", name)
        rows = o.ask("image", "list", "--status", "active", "--tag", "blue", "--name", name)
        want([row["Name"] for row in rows] == [name], rows)
    with step("image unset"):
        o.run("image", "unset", "--tag", "blue", "--property", "os_distro", name)
        want(o.ask("image", "list", "--tag", "blue") == [], "still tagged")
    with step("image set --deactivate and --activate"):
        o.run("image", "set", "--deactivate", name)
        want(o.ask("image", "show", name)["status"] == "deactivated", "not deactivated")
        o.run("image", "set", "--activate", name)
    with step("image show of none is refused"):
        want("No Image found" in o.run("image", "show", "none such", refused=True), "another reason")


def networks(o: Openstack) -> None:
    with step("network and subnet create"):
        o.run("network", "create", "net 1.a")
        o.run("subnet", "create", "--network", "net 1.a", "--subnet-range", "10.1.0.0/24", "subnet.1")
        shown = o.ask("subnet", "show", "subnet.1")
        want(shown["gateway_ip"] == "10.1.0.1" and shown["enable_dhcp"] is True, shown)
    with step("network set, tags, show, list"):
        o.run("network", "set", "--description", "a network", "--tag", "red", "net 1.a")
        want([row["Name"] for row in o.ask("network", "list", "--tags", "red")] == ["net 1.a"], "not by tag")
        want(o.ask("network", "show", "net 1.a")["description"] == "a network", "no description")
    with step("security group and rules"):
        o.run("security", "group", "create", "web")
        rule = ("--protocol", "tcp", "--dst-port", "80:443", "--remote-ip", "0.0.0.0/0")
        o.run("security", "group", "rule", "create", *rule, "web")
        o.run("security", "group", "rule", "create", "--protocol", "icmp", "web")
        rows = o.ask("security", "group", "rule", "list", "web", "--ingress")
        want(len(rows) == 2, rows)
        want(o.ask("security", "group", "show", "web")["name"] == "web", "no group")
    with step("port create, set, show, list, delete"):
        o.run(
            "port",
            "create",
            "--network",
            "net 1.a",
            "--security-group",
            "web",
            "--fixed-ip",
            "ip-address=10.1.0.77",
            "p1",
        )
        o.run("port", "set", "--name", "p2", "p1")
        shown = o.ask("port", "show", "p2")
        want(shown["fixed_ips"][0]["ip_address"] == "10.1.0.77", shown)
        want(len(o.ask("port", "list", "--network", "net 1.a")) >= 1, "no port")
        o.run("port", "delete", "p2")
    with step("a second port of an address is refused"):
        o.run("port", "create", "--network", "net 1.a", "--fixed-ip", "ip-address=10.1.0.78", "p3")
        o.run("port", "create", "--network", "net 1.a", "--fixed-ip", "ip-address=10.1.0.78", "p4", refused=True)
        o.run("port", "delete", "p3")
    with step("external network, router, interface and gateway"):
        o.run("network", "create", "--external", "outside")
        o.run("subnet", "create", "--network", "outside", "--subnet-range", "198.51.100.0/24", "--no-dhcp", "out.1")
        o.run("router", "create", "r1")
        o.run("router", "add", "subnet", "r1", "subnet.1")
        o.run("router", "set", "--external-gateway", "outside", "r1")
        shown = o.ask("router", "show", "r1")
        want(shown["external_gateway_info"] and len(shown["interfaces_info"]) == 1, shown)
    with step("network quota"):
        want(o.ask("quota", "show", "--network"), "none")


def servers(o: Openstack) -> None:
    """A server without a network, through its life."""
    name = "vm 1.ö"
    with step("keypair create"):
        want("PRIVATE KEY" in o.run("keypair", "create", "--type", "ssh", "key_one"), "no key")
        want("key_one" in {row["Name"] for row in o.ask("keypair", "list")}, "not listed")
        o.run("keypair", "show", "key_one")
    with step("keypair create --public-key"):
        public = Path("id.pub")
        public.write_text(o.run("keypair", "show", "--public-key", "key_one"))
        o.run("keypair", "create", "--public-key", str(public), "key_two")
        o.run("keypair", "delete", "key_two")
    with step("server create --nic none --wait"):
        how = [*SMALL, "--nic", "none", "--key-name", "key_one"]
        made = o.ask("server", "create", *how, "--property", "role=db", "--wait", name)
        want(made["status"] == "ACTIVE" and made["name"] == name, made)
    with step("server show: it lies two levels down"):
        shown = o.ask("server", "show", name)
        want(shown["OS-EXT-AZ:availability_zone"] == "edge" and shown["OS-EXT-SRV-ATTR:host"], shown)
        want(shown["properties"] == {"role": "db"} and shown["key_name"] == "key_one", shown)
    with step("server list: by name, status, flavor, image, all projects"):
        for words in (
            ("--name", "vm 1"),
            ("--status", "ACTIVE"),
            ("--flavor", "m1.tiny"),
            ("--image", "disk image 1.0"),
        ):
            want(name in {row["Name"] for row in o.ask("server", "list", *words)}, words)
        want(name in {row["Name"] for row in o.ask("server", "list", "--all-projects", "--long")}, "all projects")
        want(o.ask("server", "list", "--name", "^none$") == [], "one too many")
    with step("server set and unset property"):
        o.run("server", "set", "--property", "tier=1", "--property", "role=web", name)
        o.run("server", "unset", "--property", "tier", name)
        want(o.ask("server", "show", name)["properties"] == {"role": "web"}, "other properties")
    with step("server set and unset tag"):
        o.run("server", "set", "--tag", "blue", "--os-compute-api-version", "2.26", name)
        rows = o.ask("server", "list", "--tags", "blue", "--os-compute-api-version", "2.26")
        want([row["Name"] for row in rows] == [name], rows)
        o.run("server", "unset", "--tag", "blue", "--os-compute-api-version", "2.26", name)
    with step("server set --name"):
        o.run("server", "set", "--name", "vm.2", name)
        o.run("server", "set", "--name", name, "vm.2")
    for verb, status in (
        (("stop",), "SHUTOFF"),
        (("start",), "ACTIVE"),
        (("reboot", "--wait"), "ACTIVE"),
        (("reboot", "--hard", "--wait"), "ACTIVE"),
        (("pause",), "PAUSED"),
        (("unpause",), "ACTIVE"),
        (("suspend",), "SUSPENDED"),
        (("resume",), "ACTIVE"),
        (("shelve", "--wait"), "SHELVED_OFFLOADED"),
        (("unshelve", "--wait"), "ACTIVE"),
        (("rebuild", "--wait", "--image", "disk image 1.0"), "ACTIVE"),
        (("resize", "--wait", "--flavor", "m1.small"), "VERIFY_RESIZE"),
        (("resize", "confirm"), "ACTIVE"),
        (("resize", "--wait", "--flavor", "m1.tiny"), "VERIFY_RESIZE"),
        (("resize", "revert"), "ACTIVE"),
    ):
        with step(f"server {' '.join(verb)}"):
            o.run("server", *verb, name)
            until_status(o, name, status)
    with step("server lock: others are refused, unlock"):
        o.run("server", "lock", name)
        o.run("server", "unlock", name)
    with step("console log show"):
        o.run("console", "log", "show", "--lines", "5", name)
    with step("console url show"):
        o.run("console", "url", "show", name, refused=True)
    with step("server event list and show"):
        rows = o.ask("server", "event", "list", name)
        want({"create", "stop", "start", "reboot"} <= {row["Action"] for row in rows}, rows)
        o.run("server", "event", "show", name, next(row["Request ID"] for row in rows if row["Action"] == "create"))
    with step("server group create, show, list, delete"):
        o.run("server", "group", "create", "--policy", "anti-affinity", "apart")
        want(o.ask("server", "group", "show", "apart")["policy"] == "anti-affinity", "another policy")
        o.run("server", "group", "delete", "apart")
    with step("server create --min 2 --max 3 --wait"):
        how = [*SMALL, "--nic", "none", "--min", "2", "--max", "3"]
        o.run("server", "create", *how, "--wait", "many")
        rows = o.ask("server", "list", "--name", "^many", "--status", "ACTIVE")
        want(len(rows) == 3, rows)
        o.run("server", "delete", "--wait", *(row["ID"] for row in rows))
    with step("server create that fits nowhere says why"):
        o.run("flavor", "create", "--vcpus", "4096", "--ram", "64", "--disk", "1", "huge")
        how = ["--image", "disk image 1.0", "--flavor", "huge", "--nic", "none"]
        want("409" in o.run("server", "create", *how, "none", refused=True), "another reason")
        o.run("flavor", "delete", "huge")
    with step("server delete --wait"):
        o.run("server", "delete", "--wait", name)
        o.run("server", "show", name, refused=True)


def until_status(o: Openstack, name: str, status: str) -> None:
    """Asks a few times: some commands do not wait."""
    seen = ""
    for _ in range(10):
        seen = o.ask("server", "show", name)["status"]
        if seen == status:
            return
    want(seen == status, f"{seen}, not {status}")


def with_networks(o: Openstack) -> None:
    with step("server create --network --security-group --wait"):
        how = [*SMALL, "--network", "net 1.a", "--security-group", "web"]
        made = o.ask("server", "create", *how, "--wait", "web.1")
        want(made["status"] == "ACTIVE" and "net 1.a" in made["addresses"], made)
    with step("server create --port --wait"):
        o.run("port", "create", "--network", "net 1.a", "mine")
        how = [*SMALL, "--port", "mine"]
        made = o.ask("server", "create", *how, "--wait", "web.2")
        want(o.ask("port", "show", "mine")["device_id"] == made["id"], "not its port")
    with step("port list --server"):
        want(len(o.ask("port", "list", "--server", "web.1")) == 1, "not one")
    with step("server add and remove security group"):
        o.run("server", "add", "security", "group", "web.2", "web")
        o.run("server", "remove", "security", "group", "web.2", "web")
    with step("server add and remove port"):
        o.run("port", "create", "--network", "net 1.a", "more")
        o.run("server", "add", "port", "web.1", "more")
        want(len(o.ask("port", "list", "--server", "web.1")) == 2, "not two")
        o.run("server", "remove", "port", "web.1", "more")
    with step("floating ip create, set, show, unset, delete"):
        made = o.ask("floating", "ip", "create", "outside")["floating_ip_address"]
        o.run("server", "add", "floating", "ip", "web.1", made)
        want(made in str(o.ask("server", "show", "web.1")["addresses"]), "not among its addresses")
        o.run("server", "remove", "floating", "ip", "web.1", made)
        want(len(o.ask("floating", "ip", "list")) == 1, "not one")
        o.run("floating", "ip", "delete", made)
    with step("network delete while in use is refused"):
        o.run("network", "delete", "net 1.a", refused=True)
    with step("everything of the network is deleted"):
        o.run("server", "delete", "--wait", "web.1", "web.2")
        o.run("port", "delete", "mine", "more")
        o.run("router", "unset", "--external-gateway", "r1")
        o.run("router", "remove", "subnet", "r1", "subnet.1")
        o.run("router", "delete", "r1")
        o.run("network", "delete", "net 1.a", "outside")
        o.run("security", "group", "delete", "web")


def people(o: Openstack) -> None:
    with step("project, user, group, role"):
        o.run("project", "create", "--description", "one of many", "team.1")
        o.run("user", "create", "--project", "team.1", "--password", "a long passphrase", "ann")
        o.run("role", "add", "--project", "team.1", "--user", "ann", "member")
        o.run("group", "create", "crew")
        o.run("group", "add", "user", "crew", "ann")
        o.run("role", "add", "--project", "team.1", "--group", "crew", "reader")
        o.run("group", "contains", "user", "crew", "ann")
        rows = o.ask("role", "assignment", "list", "--project", "team.1", "--names")
        want({row["Role"] for row in rows} == {"member", "reader"}, rows)
    with step("quota set and show"):
        o.run("quota", "set", "--instances", "1", "--cores", "4", "--networks", "3", "team.1")
        rows = {row["Resource"]: row["Limit"] for row in o.ask("quota", "show", "team.1")}
        want((rows["instances"], rows["cores"], rows["networks"]) == (1, 4, 3), rows)
    entry = yaml.safe_load(Path(o.settings["OS_CLIENT_CONFIG_FILE"]).read_text())["clouds"][o.settings["OS_CLOUD"]]
    password = {
        "OS_AUTH_URL": entry["auth"]["auth_url"],
        "OS_CACERT": entry["cacert"],
        "OS_IDENTITY_API_VERSION": "3",
        "OS_USER_DOMAIN_ID": "default",
        "OS_PROJECT_DOMAIN_ID": "default",
        "OS_USERNAME": "ann",
        "OS_PASSWORD": "a long passphrase",
        "OS_PROJECT_NAME": "team.1",
    }
    ann = Openstack(password)
    with step("application credential create"):
        made = ann.ask("application", "credential", "create", "--secret", "hush hush", "robot")
        robot = Openstack(
            {
                **{name: password[name] for name in ("OS_AUTH_URL", "OS_CACERT", "OS_IDENTITY_API_VERSION")},
                "OS_AUTH_TYPE": "v3applicationcredential",
                "OS_APPLICATION_CREDENTIAL_ID": made["ID"],
                "OS_APPLICATION_CREDENTIAL_SECRET": "hush hush",
            },
        )
    with step("a user's server by an application credential"):
        how = [*SMALL, "--nic", "none"]
        want(robot.ask("server", "create", *how, "--wait", "mine")["status"] == "ACTIVE", "not ACTIVE")
        want([row["Name"] for row in robot.ask("server", "list")] == ["mine"], "others are seen")
    with step("over the quota is refused"):
        how = [*SMALL, "--nic", "none"]
        want("403" in robot.run("server", "create", *how, "more", refused=True), "another reason")
    with step("what an administrator may, a user may not"):
        robot.run("project", "create", "other", refused=True)
        robot.run("hypervisor", "list", refused=True)
    with step("EC2 credentials"):
        made = ann.ask("ec2", "credentials", "create")
        want(made["access"] in {row["Access"] for row in ann.ask("ec2", "credentials", "list")}, "not listed")
        ann.run("ec2", "credentials", "delete", made["access"])
    with step("everything of the project is deleted"):
        robot.run("server", "delete", "--wait", "mine")
        ann.run("application", "credential", "delete", "robot")
        o.run("user", "delete", "ann")
        o.run("group", "delete", "crew")
        o.run("project", "delete", "team.1")


PARTS = (around, images, networks, servers, with_networks, people, end)


def main(clouds: str, cloud: str, *parts: str) -> None:
    admin = Openstack({"OS_CLOUD": cloud, "OS_CLIENT_CONFIG_FILE": clouds})
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for part in PARTS:
            if not parts or part.__name__ in parts:
                part(admin)


if __name__ == "__main__":
    main(*sys.argv[1:])
