"""A server as the compute API shows it: exactly the keys that a microversion has, since clients' schemas are closed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from banyan.api.nova import words
from banyan.api.openstack.call import Call
from banyan.core.ids import read_guest_id
from banyan.core.order import FlavorSnapshot
from banyan.core.permissions import Target, may
from banyan.core.server import Nic, Server, VmState
from banyan.core.time import Wall
from banyan.zone.compute.hosts import DEFAULT_ZONE
from banyan.zone.compute.life import ACCESS_4, ACCESS_6, NOTES


@dataclass(frozen=True, slots=True)
class Shown:
    """What of a server an answer has. `part`: as update and rebuild answer before 2.75. `key`: a part with the key's
    name. `groups`: the single answers from 2.71. `user_data`: among the administrator's attributes."""

    part: bool = False
    key: bool = False
    groups: bool = True
    user_data: bool = True


# The status of a server whose zone can not be asked.
UNKNOWN: Final = "UNKNOWN"
WHOLE, LISTED = Shown(), Shown(groups=False)


class ServerView:
    """Of one request: what its version has and its caller may see is decided once, for a page of any length."""

    def __init__(self, call: Call) -> None:
        who = call.principal
        self._minor = call.version.minor
        self._base = call.link("/v2.1/servers/")
        # Bookmarks are addresses without a version.
        self._bookmark = call.link("/")
        # What many servers of a page share is worded once.
        self._images: dict[str, dict[str, object]] = {}
        self._flavors: dict[tuple[object, ...], dict[str, object]] = {}
        self._hosts: dict[tuple[str, str], str] = {}
        self._sees_hosts = may(who, "compute:server_hosts")
        self._sees_specs = may(who, "compute:get_flavor_extra_specs", Target(project=who.project))

    def links(self, id: str) -> list[dict[str, str]]:
        return [
            {"rel": "self", "href": self._base + id},
            {"rel": "bookmark", "href": f"{self._bookmark}servers/{id}"},
        ]

    def brief(self, server: Server) -> dict[str, object]:
        return {"id": server.id, "name": server.name, "links": self.links(server.id)}

    def unknown(self, id: str) -> dict[str, object] | None:
        """A server whose zone can not be asked: what its id tells of it, which may be gone, or of another project. None
        for an id that Banyan did not give."""
        parts = read_guest_id(id)
        if parts is None:
            return None
        created = words.time(Wall(parts.milliseconds / 1000))
        return {"id": id, "status": UNKNOWN, "created": created, "links": self.links(id)}

    def whole(self, server: Server, shown: Shown = WHOLE) -> dict[str, object]:
        spec, minor = server.spec, self._minor
        status = words.status(server)
        metadata = spec.metadata
        view: dict[str, object] = {
            "id": server.id,
            "name": server.name,
            "status": status,
            "tenant_id": server.project,
            "user_id": server.user,
            "metadata": {key: value for key, value in metadata.items() if key not in NOTES} if metadata else {},
            "hostId": self._host_id(server.project, server.host),
            "image": "" if spec.image is None else self._image(spec.image.id),
            "flavor": {} if spec.flavor is None else self._flavor(spec.flavor),
            "created": words.time(server.created),
            "updated": words.time(server.updated),
            "addresses": {} if server.state is VmState.BUILDING else addresses(server.nics, extended=not shown.part),
            "accessIPv4": metadata.get(ACCESS_4, ""),
            "accessIPv6": metadata.get(ACCESS_6, ""),
            "links": self.links(server.id),
            "OS-DCF:diskConfig": spec.disk_config,
        }
        if status in words.PROGRESS:
            view["progress"] = 100 if status == "ACTIVE" else server.progress
        if status in words.FAULTY and server.fault is not None:
            view["fault"] = self._fault(server)
        if minor >= 9:
            view["locked"] = server.locked
        if minor >= 19:
            view["description"] = server.description
        if minor >= 26:
            view["tags"] = list(spec.tags)
        if minor >= 63:
            view["trusted_image_certificates"] = None
        if minor >= 71 and shown.groups:
            view["server_groups"] = [spec.hints.group] if spec.hints.group else []
        if minor >= 73:
            view["locked_reason"] = server.locked_reason or None
        if minor >= 90 and (shown.part or not self._sees_hosts):
            view["OS-EXT-SRV-ATTR:hostname"] = server.hostname
        if shown.part:
            if shown.key:
                view["key_name"] = None if spec.key is None else spec.key.name
            return view
        self._extended(server, view, shown)
        return view

    def _extended(self, server: Server, view: dict[str, object], shown: Shown) -> None:
        spec, minor = server.spec, self._minor
        view["OS-EXT-AZ:availability_zone"] = server.availability_zone or (DEFAULT_ZONE if server.host else "")
        view["config_drive"] = "True" if spec.config_drive else ""
        view["key_name"] = None if spec.key is None else spec.key.name
        view["OS-SRV-USG:launched_at"] = words.precise(server.launched)
        view["OS-SRV-USG:terminated_at"] = words.precise(server.terminated)
        view["OS-EXT-STS:task_state"] = words.TASK_WORDS[server.task]
        view["OS-EXT-STS:vm_state"] = words.STATE_WORDS[server.state]
        view["OS-EXT-STS:power_state"] = words.POWER[server.power]
        view["os-extended-volumes:volumes_attached"] = []
        if spec.security_groups and server.nics:
            view["security_groups"] = [{"name": name} for name in spec.security_groups]
        if minor >= 96:
            view["pinned_availability_zone"] = spec.availability_zone or None
        if not self._sees_hosts:
            return
        view["OS-EXT-SRV-ATTR:host"] = server.host_name or None
        view["OS-EXT-SRV-ATTR:hypervisor_hostname"] = server.host_name or None
        view["OS-EXT-SRV-ATTR:instance_name"] = f"server-{server.id}"
        if minor >= 3:
            view["OS-EXT-SRV-ATTR:hostname"] = server.hostname
            view["OS-EXT-SRV-ATTR:kernel_id"] = ""
            view["OS-EXT-SRV-ATTR:ramdisk_id"] = ""
            view["OS-EXT-SRV-ATTR:launch_index"] = server.index
            view["OS-EXT-SRV-ATTR:reservation_id"] = reservation(server.order)
            view["OS-EXT-SRV-ATTR:root_device_name"] = "/dev/vda"
            if shown.user_data:
                view["OS-EXT-SRV-ATTR:user_data"] = spec.user_data or None
        if minor >= 16:
            view["host_status"] = "UP" if server.host else ""

    def _host_id(self, project: str, host: str) -> str:
        known = self._hosts.get((project, host))
        if known is None:
            known = self._hosts[project, host] = words.host_id(project, host)
        return known

    def _image(self, id: str) -> dict[str, object]:
        known = self._images.get(id)
        if known is None:
            link = {"rel": "bookmark", "href": f"{self._bookmark}images/{id}"}
            known = self._images[id] = {"id": id, "links": [link]}
        return known

    def _flavor(self, flavor: FlavorSnapshot) -> dict[str, object]:
        if flavor.extra_specs:
            return self._worded(flavor)
        key = (
            flavor.id,
            flavor.name,
            flavor.vcpu,
            flavor.memory_mib,
            flavor.disk_gib,
            flavor.ephemeral_gib,
            flavor.swap_mib,
        )
        known = self._flavors.get(key)
        if known is None:
            known = self._flavors[key] = self._worded(flavor)
        return known

    def _worded(self, flavor: FlavorSnapshot) -> dict[str, object]:
        if self._minor < 47:
            links = [{"rel": "bookmark", "href": f"{self._bookmark}flavors/{flavor.id}"}]
            return {"id": flavor.id, "links": links}
        view: dict[str, object] = {
            "vcpus": flavor.vcpu,
            "ram": flavor.memory_mib,
            "disk": flavor.disk_gib,
            "ephemeral": flavor.ephemeral_gib,
            "swap": flavor.swap_mib,
            "original_name": flavor.name,
        }
        if self._sees_specs:
            view["extra_specs"] = flavor.extra_specs
        return view

    def _fault(self, server: Server) -> dict[str, object]:
        fault = server.fault
        assert fault is not None
        view: dict[str, object] = {"code": fault.status, "created": words.time(fault.at), "message": fault.text}
        if fault.detail and self._sees_hosts:
            view["details"] = fault.detail
        return view


def addresses(nics: Sequence[Nic], *, extended: bool) -> Mapping[str, list[dict[str, object]]]:
    """By the network's name. `extended`: with what kind of address it is, and of which interface."""
    found: dict[str, list[dict[str, object]]] = {}
    for nic in nics:
        rows = found.setdefault(nic.network_name or nic.network, [])
        for one in nic.addresses:
            row: dict[str, object] = {"version": one.version, "addr": one.address}
            if extended:
                row["OS-EXT-IPS:type"] = one.kind
                row["OS-EXT-IPS-MAC:mac_addr"] = nic.mac
            rows.append(row)
    return found


def reservation(order: str) -> str:
    # Its end: an order's id begins with the time.
    return f"r-{order[-8:] or '00000000'}"
