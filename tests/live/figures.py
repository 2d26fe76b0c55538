"""What a cloud itself says it has: read straight from its APIs, by none of the driver's code.

One request per provider here, which a driver must not do: this is the plain and slow way, to compare with.
"""

from __future__ import annotations

import json
import ssl
import urllib.error
import urllib.request
from collections import Counter
from dataclasses import dataclass
from math import floor
from pathlib import Path
from urllib.parse import urlencode

import yaml

from tests.live.clouds import LiveCloud

CLASSES = {"VCPU": "vcpu", "MEMORY_MB": "memory_mib", "DISK_GB": "disk_gib"}
STATES = {
    "active": "active",
    "rescued": "active",
    "resized": "active",
    "building": "building",
    "stopped": "stopped",
    "paused": "paused",
    "suspended": "suspended",
    "shelved": "shelved",
    "shelved_offloaded": "shelved",
    "error": "error",
}


class Direct:
    """One clouds.yaml entry by plain HTTP."""

    def __init__(self, clouds_file: Path, entry: str) -> None:
        settings = yaml.safe_load(clouds_file.read_text())["clouds"][entry]
        auth = settings["auth"]
        self.region = settings.get("region_name", "")
        self._context = ssl.create_default_context(cafile=settings.get("cacert"))
        self.auth_url = auth["auth_url"].rstrip("/")
        if not self.auth_url.endswith("/v3"):
            self.auth_url += "/v3"
        domain = {"name": auth.get("user_domain_name", "Default")}
        user = {"name": auth["username"], "domain": domain, "password": auth["password"]}
        project = {"name": auth["project_name"], "domain": {"name": auth.get("project_domain_name", "Default")}}
        body = {
            "auth": {
                "identity": {"methods": ["password"], "password": {"user": user}},
                "scope": {"project": project},
            }
        }
        request = urllib.request.Request(
            f"{self.auth_url}/auth/tokens", json.dumps(body).encode(), {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=60, context=self._context) as reply:
            self._token = reply.headers["X-Subject-Token"]
            token = json.load(reply)["token"]
        self.project = token["project"]["id"]
        self.catalogue = {
            service["type"]: endpoint["url"].rstrip("/")
            for service in token["catalog"]
            for endpoint in service["endpoints"]
            if endpoint["interface"] == "public" and self.region in ("", endpoint["region"])
        }

    def get(self, service: str, path: str, version: str = "", **query: str) -> dict:
        base = self.catalogue[service]
        if service == "identity":
            base = self.auth_url
        elif service == "image" and not base.endswith("/v2"):
            base += "/v2"
        elif service == "network" and not base.endswith("/v2.0"):
            base += "/v2.0"
        url = f"{base}{path}" + (f"?{urlencode(query)}" if query else "")
        headers = {"X-Auth-Token": self._token, "Accept": "application/json"}
        if version:
            headers["OpenStack-API-Version"] = version
        request = urllib.request.Request(url, headers=headers)
        with urllib.request.urlopen(request, timeout=60, context=self._context) as reply:
            return json.load(reply)

    def compute(self, path: str, **query: str) -> dict:
        return self.get("compute", path, "compute 2.79", **query)

    def placement(self, path: str) -> dict:
        return self.get("placement", path, "placement 1.36")

    def pages(self, service: str, path: str, key: str, version: str = "", **query: str) -> list[dict]:
        """A whole list by marker, until a page is empty."""
        found: list[dict] = []
        while True:
            marker = {"marker": found[-1]["id"]} if found else {}
            page = self.get(service, path, version, limit="200", **query, **marker)[key]
            if not page:
                return found
            found += page


@dataclass(frozen=True)
class Figures:
    """Of one cloud: per class (physical, total, used), counts, and what each project uses."""

    amounts: dict[str, tuple[int, int, int]]
    hosts: int
    up: int
    disabled: int
    guests: dict[str, int]
    catalogue: dict[str, int]
    projects: dict[str, tuple[int, int, int]]


def figures(cloud: LiveCloud) -> Figures:
    """As the cloud's own placement and nova report them now."""
    direct = Direct(cloud.clouds_file, cloud.admin)
    hypervisors = direct.pages("compute", "/os-hypervisors/detail", "hypervisors", "compute 2.79")
    ids = {h["id"] for h in hypervisors}
    sums = {name: [0, 0, 0] for name in CLASSES}
    for provider in direct.placement("/resource_providers")["resource_providers"]:
        if provider["root_provider_uuid"] not in ids:
            continue
        path = f"/resource_providers/{provider['uuid']}"
        inventories = direct.placement(f"{path}/inventories")["inventories"]
        usages = direct.placement(f"{path}/usages")["usages"]
        for name, inventory in inventories.items():
            if name in sums:
                total = floor((inventory["total"] - inventory["reserved"]) * inventory["allocation_ratio"])
                for index, amount in enumerate((inventory["total"], total, usages[name])):
                    sums[name][index] += amount
    servers = direct.pages("compute", "/servers/detail", "servers", "compute 2.79", all_tenants="True")
    use: dict[str, list[int]] = {}
    for server in servers:
        own = use.setdefault(server["tenant_id"], [0, 0, 0])
        for index, amount in enumerate((1, server["flavor"]["vcpus"], server["flavor"]["ram"])):
            own[index] += amount
    states = Counter(STATES.get(s["OS-EXT-STS:vm_state"], "other") for s in servers)
    return Figures(
        amounts={CLASSES[name]: (s[0], s[1], s[2]) for name, s in sums.items()},
        hosts=len(hypervisors),
        up=sum(1 for h in hypervisors if h["state"] == "up"),
        disabled=sum(1 for h in hypervisors if h["status"] == "disabled"),
        guests=dict(states),
        catalogue={
            "flavors": len(direct.pages("compute", "/flavors/detail", "flavors", "compute 2.79", is_public="None")),
            "images": len(direct.pages("image", "/images", "images")),
            "networks": len(direct.pages("network", "/networks", "networks")),
            "projects": len(direct.get("identity", "/projects")["projects"]),
        },
        projects={project: (u[0], u[1], u[2]) for project, u in use.items()},
    )
