"""The half of the stand-in cloud that takes orders: servers, flavors, key pairs and projects are made, and go again."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from itertools import count
from typing import TYPE_CHECKING

from tests.unit.drivers.openstack.serving import Json

if TYPE_CHECKING:
    from tests.unit.drivers.openstack.standin import Provider

_NO_HOST = "No valid host was found. There are not enough hosts available."
_GONE: tuple[int, Json] = (404, {"itemNotFound": {"code": 404, "message": "Instance could not be found."}})


class Making:
    """State, to be changed by a test. A build shows as such in `build_looks` lists that have it, a delete in
    `delete_looks`, an action in `act_looks`; `build_fails` says why a build on a host fails, "" for not, `act_fails`
    why an action does."""

    servers: list[Json]
    flavors: list[Json]
    projects: list[Json]
    hypervisors: list[Json]
    providers: dict[str, Provider]
    project_of: Callable[[str], str]

    def __init__(self) -> None:
        self.build_looks = 1
        self.delete_looks = 1
        self.build_fails: Callable[[str], str] = lambda host: ""
        self.act_looks = 1
        self.act_fails: Callable[[str], str] = lambda action: ""
        self._kept: dict[str, tuple[str, str]] = {}
        self.keypairs: dict[str, Json] = {}
        self.quotas: dict[str, Json] = {}
        self.roles: set[tuple[str, str, str]] = set()
        self.made = 0
        """How many servers were ever made."""
        self.bodies: list[tuple[str, Json]] = []
        """What was written, by path."""
        self.lost: list[tuple[str, Json]] = []
        """What was sent and not done, as a fault had it."""
        self._next = count(1)
        self._later: dict[str, tuple[int, Callable[[], None]]] = {}

    # --- what is asked --------------------------------------------------------------------------

    def found(self, query: Mapping[str, str]) -> list[Json]:
        """Servers of a list; time goes on with each."""
        wanted = set(filter(None, query.get("tags-any", "").split(",")))
        found = [s for s in self.servers if not wanted or wanted & set(s.get("tags", ()))]
        for server in found:
            self._goes_on(server)
        return [server for server in found if server in self.servers]

    def hypervisor(self, id: str) -> tuple[int, Json]:
        for one in self.hypervisors:
            if one["id"] == id:
                return 200, {"hypervisor": one}
        return 404, {"itemNotFound": {"code": 404, "message": f"Hypervisor with ID '{id}' could not be found."}}

    def ours(self, guest: str) -> list[Json]:
        """Servers that carry the mark of this guest."""
        return [s for s in self.servers if s["metadata"].get("banyan:id") == guest]

    def _goes_on(self, server: Json) -> None:
        left, then = self._later.pop(server["id"], (0, lambda: None))
        if left > 1:
            self._later[server["id"]] = (left - 1, then)
        else:
            then()

    # --- what is written ------------------------------------------------------------------------

    def write(self, method: str, path: str, body: Json, token: str) -> tuple[int, Json]:
        self.bodies.append((f"{method} {path}", body))
        match method, path.removeprefix("/compute/v2.1").split("/")[1:]:
            case "POST", ["servers"]:
                return self.make_server(body["server"], self.project_of(token))
            case "DELETE", ["servers", id]:
                return self._delete(id)
            case "POST", ["servers", id, "metadata"]:
                return self._describe(id, body["metadata"])
            case "POST", ["servers", id, "action"]:
                return self._act(id, *next(iter(body.items())))
            case "POST", ["flavors"]:
                return self._make_flavor(body["flavor"])
            case "POST", ["flavors", id, "os-extra_specs"]:
                next(f for f in self.flavors if f["id"] == id)["extra_specs"].update(body["extra_specs"])
                return 200, body
            case "POST", ["os-keypairs"]:
                pair = body["keypair"]
                if pair["name"] in self.keypairs:
                    return 409, {"conflictingRequest": {"code": 409, "message": f"Key pair '{pair['name']}' exists."}}
                self.keypairs[pair["name"]] = pair
                return 201, body
            case "PUT", ["os-quota-sets", project]:
                self.quotas[project] = body["quota_set"]
                return 200, body
            case "POST", ["identity", "v3", "projects"]:
                return self._make_project(body["project"])
            case "PUT", ["identity", "v3", "projects", project, "users", user, "roles", role]:
                self.roles.add((project, user, role))
                return 204, {}
        return 404, {"error": {"code": 404, "message": f"nothing takes {method} {path}"}}

    def _make_project(self, wanted: Json) -> tuple[int, Json]:
        if any((p["name"], p["domain_id"]) == (wanted["name"], wanted["domain_id"]) for p in self.projects):
            return 409, {"error": {"code": 409, "message": "Conflict occurred attempting to store project"}}
        project = {"id": f"{next(self._next):032x}", **wanted}
        self.projects.append(project)
        return 201, {"project": project}

    def _make_flavor(self, wanted: Json) -> tuple[int, Json]:
        if any(f["id"] == wanted["id"] for f in self.flavors):
            return 409, {"conflictingRequest": {"code": 409, "message": f"Flavor {wanted['id']} already exists."}}
        self.flavors.append({**wanted, "OS-FLV-DISABLED:disabled": False, "extra_specs": {}})
        return 200, {"flavor": wanted}

    def make_server(self, wanted: Json, project: str) -> tuple[int, Json]:
        flavor = next((f for f in self.flavors if f["id"] == wanted["flavorRef"]), None)
        names = {h["hypervisor_hostname"] for h in self.hypervisors}
        host = wanted.get("hypervisor_hostname", "c0001")
        if flavor is None:
            return 400, {"badRequest": {"code": 400, "message": f"Flavor {wanted['flavorRef']} could not be found."}}
        if host not in names:
            return 400, {"badRequest": {"code": 400, "message": f"Compute host {host} could not be found."}}
        self.made += 1
        server: Json = {
            "id": f"22222222-0000-4000-8000-{next(self._next):012d}",
            "name": wanted["name"],
            "tenant_id": project,
            "status": "BUILD",
            "created": f"2026-11-30T12:{self.made // 60 % 60:02d}:{self.made % 60:02d}Z",
            "OS-EXT-STS:vm_state": "building",
            "OS-EXT-STS:task_state": "scheduling",
            "OS-EXT-STS:power_state": 0,
            "OS-SRV-USG:launched_at": None,
            "OS-EXT-SRV-ATTR:host": None,
            "OS-EXT-SRV-ATTR:hypervisor_hostname": None,
            "flavor": {
                "original_name": flavor["name"],
                "vcpus": flavor["vcpus"],
                "ram": flavor["ram"],
                "disk": flavor["disk"],
                "ephemeral": flavor["OS-FLV-EXT-DATA:ephemeral"],
                "swap": flavor["swap"],
                "extra_specs": flavor["extra_specs"],
            },
            "metadata": dict(wanted["metadata"]),
            "tags": list(wanted.get("tags", ())),
        }
        self.servers.append(server)
        self._later[server["id"]] = (self.build_looks, lambda: self._built(server, host))
        return 202, {"server": {"id": server["id"], "links": [], "adminPass": "of-the-bottom"}}

    def _built(self, server: Json, host: str) -> None:
        fails = self.build_fails(host)
        server["OS-EXT-STS:task_state"] = None
        if fails:
            server.update({"status": "ERROR", "OS-EXT-STS:vm_state": "error"})
            server["fault"] = {"code": 500, "message": fails, "created": "2026-11-30T12:03:37Z", "details": "Traceback"}
            return
        server.update({"OS-EXT-SRV-ATTR:host": host, "OS-EXT-SRV-ATTR:hypervisor_hostname": host})
        server["OS-SRV-USG:launched_at"] = "2026-11-30T12:03:37.000000"
        self._use(server, host, 1)
        self._is(server, "active")

    def _is(self, server: Json, state: str) -> None:
        status, power = STATES[state]
        server.update({"status": status, "OS-EXT-STS:vm_state": state, "OS-EXT-STS:power_state": power})
        server["OS-EXT-STS:task_state"] = None

    def _use(self, server: Json, host: str, sign: int) -> None:
        used = next(p for p in self.providers.values() if p.name == host).used
        for name, key in (("VCPU", "vcpus"), ("MEMORY_MB", "ram"), ("DISK_GB", "disk")):
            used[name] = used.get(name, 0) + sign * server["flavor"][key]

    def _delete(self, id: str) -> tuple[int, Json]:
        server = self._one(id)
        if server is None:
            return _GONE

        def gone() -> None:
            self.servers.remove(server)
            if server["OS-EXT-SRV-ATTR:host"] is not None:
                self._use(server, server["OS-EXT-SRV-ATTR:host"], -1)

        server["OS-EXT-STS:task_state"] = "deleting"
        self._later[id] = (self.delete_looks, gone)
        return 204, {}

    def _describe(self, id: str, metadata: Json) -> tuple[int, Json]:
        server = self._one(id)
        if server is None:
            return _GONE
        if server["OS-EXT-STS:vm_state"] not in ("active", "paused", "suspended", "stopped"):
            return _conflict(f"Cannot 'update metadata' instance {id} while it is in vm_state")
        server["metadata"].update(metadata)
        return 200, {"metadata": server["metadata"]}

    def _act(self, id: str, name: str, given: Json) -> tuple[int, Json]:
        server = self._one(id)
        if server is None:
            return _GONE
        if name == "os-getConsoleOutput":
            lines = CONSOLE.splitlines(keepends=True)
            length = (given or {}).get("length")
            return 200, {"output": "".join(lines if length is None else lines[-length:])}
        state = server["OS-EXT-STS:vm_state"]
        froms, task, to = ACTIONS.get(name, ((), "", ""))
        if state not in froms or server["OS-EXT-STS:task_state"]:
            return _conflict(f"Cannot '{name}' instance {id} while it is in vm_state {state}")
        if name == "rebuild":
            server["metadata"] = dict(given["metadata"])
            server["name"] = given["name"]
        then = self._move(server, state, name, given) if name in MOVES else lambda: self._is(server, to or state)
        # Confirming is not told: Nova works at it while the server has no task.
        server["OS-EXT-STS:task_state"] = task or None
        self._later[id] = (self.act_looks, self._or_fails(server, name, then))
        return 202, {}

    def _or_fails(self, server: Json, name: str, then: Callable[[], None]) -> Callable[[], None]:
        fails = self.act_fails(name)
        if not fails:
            return then

        def failed() -> None:
            server["OS-EXT-STS:task_state"] = None
            server["fault"] = {"code": 500, "message": fails, "created": "2026-11-30T12:03:37Z"}

        return failed

    def _move(self, server: Json, state: str, name: str, given: Json) -> Callable[[], None]:
        def lands(host: str | None) -> None:
            if server["OS-EXT-SRV-ATTR:host"] is not None:
                self._use(server, server["OS-EXT-SRV-ATTR:host"], -1)
            server.update({"OS-EXT-SRV-ATTR:host": host, "OS-EXT-SRV-ATTR:hypervisor_hostname": host})
            if host is not None:
                self._use(server, host, 1)

        def then() -> None:
            match name:
                case "shelve":
                    lands(None)
                case "unshelve":
                    lands((given or {}).get("host", "c0001"))
                case "migrate" | "resize":
                    self._kept[server["id"]] = (state, server["OS-EXT-SRV-ATTR:host"])
                    lands((given or {}).get("host", "c0003"))
                case "revertResize":
                    lands(self._kept[server["id"]][1])
            ends = {"shelve": "shelved_offloaded", "unshelve": "active", "migrate": "resized", "resize": "resized"}
            self._is(server, ends.get(name) or self._kept.pop(server["id"])[0])

        return then

    def _one(self, id: str) -> Json | None:
        assert re.fullmatch(r"[0-9a-f-]{36}", id)
        return next((s for s in self.servers if s["id"] == id), None)


def _conflict(message: str) -> tuple[int, Json]:
    return 409, {"conflictingRequest": {"code": 409, "message": message}}


MOVES = ("migrate", "resize", "confirmResize", "revertResize", "shelve", "unshelve")
# Action → states that it begins from, the task that is seen, the state that it leads to ("" is the same one).
ACTIONS = {
    "os-start": (("stopped",), "powering-on", "active"),
    "os-stop": (("active", "rescued", "error"), "powering-off", "stopped"),
    "reboot": (("active", "stopped", "paused", "suspended"), "reboot_started", "active"),
    "pause": (("active", "rescued"), "pausing", "paused"),
    "unpause": (("paused",), "unpausing", "active"),
    "suspend": (("active", "rescued"), "suspending", "suspended"),
    "resume": (("suspended",), "resuming", "active"),
    "rescue": (("active", "stopped", "error"), "rescuing", "rescued"),
    "unrescue": (("rescued",), "unrescuing", "active"),
    "rebuild": (("active", "stopped", "error"), "rebuilding", ""),
    "changePassword": (("active",), "updating_password", ""),
    "migrate": (("active", "stopped"), "resize_prep", ""),
    "resize": (("active", "stopped"), "resize_prep", ""),
    "confirmResize": (("resized",), "", ""),
    "revertResize": (("resized",), "resize_reverting", ""),
    "shelve": (("active", "stopped", "paused", "suspended"), "shelving", ""),
    "unshelve": (("shelved", "shelved_offloaded"), "unshelving", ""),
}
STATES = {
    "active": ("ACTIVE", 1),
    "stopped": ("SHUTOFF", 4),
    "paused": ("PAUSED", 3),
    "suspended": ("SUSPENDED", 4),
    "rescued": ("RESCUE", 1),
    "resized": ("VERIFY_RESIZE", 1),
    "shelved_offloaded": ("SHELVED_OFFLOADED", 4),
}
CONSOLE = "[    0.000000] Linux version 6.1\n[    1.000000] cloud-init: finished\nlogin:\n"
