"""A stand-in for an OpenStack cloud: one HTTP server on loopback that answers like five services, with faults.

Bodies have the shapes that real services were seen to give (nova 34, placement 16, keystone 30, glance 33,
neutron 29). Placement's arithmetic is the real one's, so that what the driver makes of it can be compared.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from http.server import ThreadingHTTPServer
from pathlib import Path

from tests.unit.drivers.openstack.making import Making
from tests.unit.drivers.openstack.serving import Fault, Handler, Json

PASSWORD = "pass-of-the-stand-in"
TOKEN = "token-of-the-stand-in-"
PROJECT = "c2019bd77be84da6bfb8722500e98d14"

# Placement refuses query parameters that it does not know.
_PLACEMENT_QUERIES = {
    "allocation_candidates": {"resources", "limit"},
    "resource_providers": {"resources"},
    "traits": {"name"},
}


@dataclass
class Provider:
    """`root` is the hypervisor's id; inventories: class → (total, reserved, ratio)."""

    uuid: str
    name: str
    root: str
    inventories: dict[str, tuple[int, int, float]]
    used: dict[str, int] = field(default_factory=dict)
    traits: tuple[str, ...] = ()
    generation: int = 1

    def capacity(self, name: str) -> int:
        total, reserved, ratio = self.inventories[name]
        return int((total - reserved) * ratio)

    def room(self, name: str) -> bool:
        return name in self.inventories and self.used.get(name, 0) + 1 <= self.capacity(name)


class StandIn(Making):
    """The cloud's state, to be changed by a test, and its server. `log` has (method, path, query, microversion)."""

    def __init__(self) -> None:
        super().__init__()
        self.hypervisors: list[Json] = []
        self.providers: dict[str, Provider] = {}
        self.services: list[Json] = []
        self.aggregates: list[Json] = []
        self.flavors: list[Json] = []
        self.servers: list[Json] = []
        self.images: list[Json] = []
        self.networks: list[Json] = []
        self.subnets: list[Json] = []
        self.projects: list[Json] = []
        self.limits: Json = {}
        self.compute = ("2.1", "2.104")
        self.placement = ("1.0", "1.39")
        self.max_limit = 1_000
        self.max_candidates = 1_000_000
        self.denied: set[str] = set()
        self.absent: set[str] = set()
        self.password = PASSWORD
        self.admin = True
        self.faults: dict[str, Fault] = {}
        self.log: list[tuple[str, str, dict[str, str], str]] = []
        self.after: Callable[[str], None] = lambda path: None
        self._tokens = 0
        self._scopes: dict[str, str] = {}
        self._oldest_valid = 0
        self.closing = threading.Event()
        handler = type("Bound", (Handler,), {"cloud": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def close(self) -> None:
        self.closing.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)

    # --- filling --------------------------------------------------------------------------------

    def add_host(self, number: int, *, vcpus: int = 64, ratio: float = 4.0, traits: Iterable[str] = ()) -> Provider:
        name, id = f"c{number:04d}", f"00000000-0000-4000-8000-{number:012d}"
        self.hypervisors.append(
            {
                "id": id,
                "hypervisor_hostname": name,
                "state": "up",
                "status": "enabled",
                "hypervisor_type": "QEMU",
                "hypervisor_version": 1000,
                "host_ip": "127.0.0.1",
                "service": {"id": f"s{number}", "host": name, "disabled_reason": None},
                "vcpus": vcpus,
                "memory_mb": 262144,
                "local_gb": 4000,
                "vcpus_used": 0,
                "cpu_info": {"arch": "x86_64"},
            }
        )
        self.services.append(
            {
                "binary": "nova-compute",
                "host": name,
                "id": f"s{number}",
                "zone": "nova",
                "status": "enabled",
                "state": "up",
                "updated_at": "2026-11-30T12:09:00.000000",
                "disabled_reason": None,
                "forced_down": False,
            }
        )
        provider = Provider(
            id,
            name,
            id,
            {"VCPU": (vcpus, 0, ratio), "MEMORY_MB": (262144, 512, 1.0), "DISK_GB": (4000, 0, 1.0)},
            traits=tuple(traits) or ("COMPUTE_NODE", "HW_CPU_X86_AVX2"),
        )
        self.providers[id] = provider
        return provider

    def add_server(self, number: int, host: str = "c0001", **changes: object) -> Json:
        server: Json = {
            "id": f"11111111-0000-4000-8000-{number:012d}",
            "name": f"s{number}",
            "tenant_id": PROJECT,
            "status": "ACTIVE",
            "created": "2026-11-30T12:03:37Z",
            "OS-EXT-STS:vm_state": "active",
            "OS-EXT-SRV-ATTR:host": host,
            "OS-EXT-SRV-ATTR:hypervisor_hostname": host,
            "flavor": {
                "original_name": "small",
                "vcpus": 1,
                "ram": 2048,
                "disk": 10,
                "ephemeral": 0,
                "swap": 0,
                "extra_specs": {},
            },
            "metadata": {},
            **changes,
        }
        self.servers.append(server)
        return server

    def add_rest(self) -> None:
        """One of each thing of the catalogue."""
        self.flavors.append(flavor("f1", "small"))
        self.images.append(
            {
                "id": "i1",
                "name": "tiny-image",
                "status": "active",
                "size": 4096,
                "checksum": "620f0b67a91f7f74151bc5be745b7110",
                "os_hash_algo": "sha512",
                "os_hash_value": "2d23",
                "visibility": "public",
                "tags": [],
            }
        )
        self.networks.append(
            {"id": "n1", "name": "shared", "shared": True, "router:external": False, "project_id": PROJECT}
        )
        self.subnets.append({"id": "sn1", "network_id": "n1", "cidr": "10.64.0.0/12"})
        self.projects.append({"id": PROJECT, "name": "fleet", "domain_id": "default", "enabled": True})

    def clouds_yaml(self, folder: Path, **auth: str) -> Path:
        """A clouds.yaml with one entry, `standin`."""
        chosen = {
            "auth_url": f"{self.url}/identity",
            "username": "admin",
            "password": PASSWORD,
            "project_name": "fleet",
            "user_domain_name": "Default",
            "project_domain_name": "Default",
            **auth,
        }
        path = folder / "clouds.yaml"
        entry = {"region_name": "Here", "auth": chosen}
        path.write_text(json.dumps({"clouds": {"standin": entry}}))
        return path

    # --- what tests ask -------------------------------------------------------------------------

    def asked(self, path: str) -> int:
        """How many GET requests had a path that ends so."""
        return sum(1 for method, asked, _, _ in self.log if method == "GET" and asked.endswith(path))

    def fail(self, path: str, fault: Fault) -> None:
        """Requests whose path has this part are answered by the fault; "" is all of them."""
        self.faults[path] = fault

    def heal(self) -> None:
        self.faults.clear()

    def revoke_tokens(self) -> None:
        self._oldest_valid = self._tokens + 1

    # --- answering ------------------------------------------------------------------------------

    def token(self, project: str = "") -> tuple[str, Json]:
        self._tokens += 1
        self._scopes[f"{TOKEN}{self._tokens}"] = project or PROJECT
        types = {"compute": "/compute/v2.1", "placement": "/placement", "image": "/image", "network": "/network"}
        catalogue = [
            {
                "type": kind,
                "name": kind,
                "id": kind,
                "endpoints": [
                    {
                        "id": kind,
                        "interface": "public",
                        "region": "Here",
                        "region_id": "Here",
                        "url": self.url + path,
                    }
                ],
            }
            for kind, path in ({"identity": "/identity", **types}).items()
            if kind not in self.absent
        ]
        body: Json = {
            "token": {
                "methods": ["password"],
                "expires_at": "2099-01-01T00:00:00.000000Z",
                "issued_at": "2026-11-30T12:00:00.000000Z",
                "user": {"id": "u1", "name": "admin", "domain": {"id": "default", "name": "Default"}},
                "project": {"id": project or PROJECT, "name": "fleet", "domain": {"id": "default", "name": "Default"}},
                "roles": [{"id": "r1", "name": "admin" if self.admin else "member"}],
                "catalog": catalogue,
            }
        }
        return f"{TOKEN}{self._tokens}", body

    def project_of(self, token: str) -> str:
        return self._scopes[token]

    def valid(self, token: str) -> bool:
        number = token.removeprefix(TOKEN)
        return token.startswith(TOKEN) and number.isdecimal() and int(number) >= self._oldest_valid

    def answer(self, path: str, query: dict[str, str]) -> tuple[int, Json]:
        service, _, rest = path.lstrip("/").partition("/")
        if any(path.startswith(denied) for denied in self.denied):
            return 403, {"forbidden": {"code": 403, "message": "Policy doesn't allow this to be performed."}}
        match service:
            case "compute":
                return self._compute(rest.removeprefix("v2.1").lstrip("/"), query)
            case "placement":
                return self._placement(rest, query)
            case "image":
                images, more = self._page([i for i in self.images if _has(i, query)], query)
                return 200, {"images": images, **({"next": f"/v2/images?marker={more}"} if more else {})}
            case "network":
                name = rest.rpartition("/")[2]
                return self._listed(name, self.networks if name == "networks" else self.subnets, query)
            case "identity":
                return self._identity(rest.removeprefix("v3").lstrip("/"), query)
        return 404, {"error": {"code": 404, "message": f"nothing at {path}"}}

    def _identity(self, rest: str, query: dict[str, str]) -> tuple[int, Json]:
        kind, _, id = rest.removeprefix("auth/").partition("/")
        if kind == "roles":
            return 200, {"roles": [r for r in ({"id": "r1", "name": "admin"},) if _has(r, query)]}
        if kind == "domains":
            return 200, {"domains": [d for d in ({"id": "d2", "name": "lent"},) if _has(d, query)]}
        found = [p for p in self.projects if _has(p, query) and id in ("", p["id"])]
        if id:
            return (200, {"project": found[0]}) if found else (404, {"error": {"code": 404, "message": "not found"}})
        return 200, {"projects": found, "links": {"next": None}}

    def _compute(self, rest: str, query: dict[str, str]) -> tuple[int, Json]:
        if rest == "":
            low, high = self.compute
            return 200, {"version": {"id": "v2.1", "status": "CURRENT", "version": high, "min_version": low}}
        admins = {"os-hypervisors", "os-services", "os-aggregates"}
        head = rest.partition("/")[0]
        if not self.admin and (head in admins or query.get("all_tenants")):
            return 403, {"forbidden": {"code": 403, "message": f"Policy doesn't allow {head} to be performed."}}
        match head:
            case "os-hypervisors":
                id = rest.partition("/")[2]
                if id not in ("", "detail"):
                    return self.hypervisor(id)
                return self._listed("hypervisors", self.hypervisors, query)
            case "os-services":
                return 200, {"services": self.services}
            case "os-aggregates":
                return 200, {"aggregates": self.aggregates}
            case "os-quota-sets":
                return 200, {"quota_set": {"id": rest, "cores": 20, "ram": 51200, "instances": 10, "key_pairs": 100}}
            case "limits":
                return 200, {"limits": {"rate": [], "absolute": self.limits}}
            case "flavors":
                return self._listed("flavors", self.flavors, query)
            case "servers":
                return self._listed("servers", self.found(query), query)
        return 404, {"itemNotFound": {"code": 404, "message": "The resource could not be found."}}

    def _placement(self, rest: str, query: dict[str, str]) -> tuple[int, Json]:
        if rest == "":
            low, high = self.placement
            return 200, {"versions": [{"id": "v1.0", "max_version": high, "min_version": low, "status": "CURRENT"}]}
        if not self.admin:
            return 403, {"errors": [{"status": 403, "title": "Forbidden", "detail": "Access was denied."}]}
        wanted = query.get("resources", ":").partition(":")[0]
        strange = query.keys() - _PLACEMENT_QUERIES.get(rest, set())
        if strange:
            detail = f"Additional properties are not allowed ({strange} was unexpected)"
            return 400, {"errors": [{"status": 400, "title": "Bad Request", "detail": detail}]}
        if rest == "allocation_candidates":
            roots = list(dict.fromkeys(p.root for p in self.providers.values() if p.room(wanted)))
            roots = roots[: min(self.max_candidates, int(query.get("limit", "1000000")))]
            return 200, {
                "allocation_requests": [{"allocations": {root: {"resources": {wanted: 1}}}} for root in roots],
                "provider_summaries": {
                    p.uuid: {
                        "resources": {
                            name: {"capacity": p.capacity(name), "used": p.used.get(name, 0)} for name in p.inventories
                        },
                        "traits": list(p.traits),
                        "parent_provider_uuid": None if p.uuid == p.root else p.root,
                        "root_provider_uuid": p.root,
                    }
                    for p in self.providers.values()
                    if p.root in roots
                },
            }
        if rest == "resource_providers":
            return 200, {
                "resource_providers": [
                    {
                        "uuid": p.uuid,
                        "name": p.name,
                        "generation": p.generation,
                        "links": [],
                        "parent_provider_uuid": None if p.uuid == p.root else p.root,
                        "root_provider_uuid": p.root,
                    }
                    for p in self.providers.values()
                    if not wanted or p.room(wanted)
                ]
            }
        if rest == "traits":
            return 200, {"traits": []}
        _, uuid, what = rest.split("/")
        found = self.providers.get(uuid)
        if found is None:
            return 404, {"errors": [{"status": 404, "title": "Not Found", "detail": "No resource provider"}]}
        match what:
            case "inventories":
                return 200, {
                    "resource_provider_generation": found.generation,
                    "inventories": {
                        name: {
                            "total": total,
                            "reserved": reserved,
                            "allocation_ratio": ratio,
                            "min_unit": 1,
                            "max_unit": total,
                            "step_size": 1,
                        }
                        for name, (total, reserved, ratio) in found.inventories.items()
                    },
                }
            case "usages":
                usages = {name: found.used.get(name, 0) for name in found.inventories}
                return 200, {"resource_provider_generation": found.generation, "usages": usages}
        return 200, {"resource_provider_generation": found.generation, "traits": list(found.traits)}

    def _listed(self, name: str, items: list[Json], query: dict[str, str]) -> tuple[int, Json]:
        if (marker := query.get("marker")) and not any(item["id"] == marker for item in items):
            return 400, {"badRequest": {"code": 400, "message": f"marker [{marker}] not found"}}
        page, more = self._page(items, query)
        # As behind many a proxy, the link's host is not the one that was asked.
        link = {"rel": "next", "href": f"http://internal.invalid/{name}?marker={more}"}
        return 200, {name: page, **({f"{name}_links": [link]} if more else {})}

    def _page(self, items: list[Json], query: dict[str, str]) -> tuple[list[Json], str]:
        limit = min(int(query.get("limit", self.max_limit)), self.max_limit)
        ids = [str(item["id"]) for item in items]
        start = ids.index(query["marker"]) + 1 if query.get("marker") in ids else 0
        page = items[start : start + limit]
        return page, ids[start + limit - 1] if len(page) == limit else ""


def _has(item: Json, query: dict[str, str]) -> bool:
    return all(item[name] == value for name, value in query.items() if name in item)


def flavor(id: str, name: str, *, vcpus: int = 1, ram: int = 2048, disk: int = 10, **specs: str) -> Json:
    return {
        "id": id,
        "name": name,
        "ram": ram,
        "disk": disk,
        "swap": 0,
        "OS-FLV-EXT-DATA:ephemeral": 0,
        "OS-FLV-DISABLED:disabled": False,
        "vcpus": vcpus,
        "os-flavor-access:is_public": True,
        "rxtx_factor": 1.0,
        "description": None,
        "extra_specs": dict(specs),
    }
