"""What ordering a server needs of images and of networks. The image and network services of this zone implement it.

Both are asked at the entry zone only: what they say travels in the order's specification (decision 10, rule 6). Each
call takes the Principal, authorises, and answers for what that caller may see: another project's image, network or port
is not there. Errors name the thing, in OpenStack's words, since users read them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from banyan.core.network import SecurityGroup, SecurityRule
from banyan.core.order import ImageSource, NetworkWish
from banyan.core.principal import Principal
from banyan.core.server import Nic, Server


@dataclass(frozen=True, slots=True)
class BootImage:
    """What is to be known of an image before a server boots from it. `status` as the image service has it: only an
    "active" one boots. `min_disk_gib`, `min_memory_mib`: what a flavor must have at least; `size_bytes` of its data."""

    source: ImageSource
    status: str = "active"
    min_disk_gib: int = 0
    min_memory_mib: int = 0
    size_bytes: int = 0


@dataclass(frozen=True, slots=True)
class ImageDetail:
    """An image as compute's own old addresses show it. Instants in seconds since 1970; `status` as in BootImage."""

    id: str
    name: str
    status: str
    created: float
    updated: float
    size_bytes: int | None = None
    min_disk_gib: int = 0
    min_memory_mib: int = 0
    properties: Mapping[str, str] = field(default_factory=dict)


class Images(Protocol):
    async def find(self, who: Principal, id: str) -> BootImage:
        """The image of that id as the caller sees it: public, of its project, shared with it, or any for an admin.

        `source.checksum` is "sha512:hex" (or another algorithm's) of the data, `source.source` where zones below pull
        it from. Called for every create, so it should be answered from memory where that is safe. Raises
        NotFound("no-image") "Image ID could not be found.", also for an id that is no UUID.
        """

    async def show(self, who: Principal, id: str) -> ImageDetail:
        """Raises NotFound("no-image")."""

    async def page(self, who: Principal, after: str, limit: int, filters: Mapping[str, str]) -> Sequence[ImageDetail]:
        """What the caller sees, the newest first, after that id. `filters`: name, status, exactly."""

    async def delete(self, who: Principal, id: str) -> None:
        """Raises NotFound("no-image"), Refused("forbidden") for one that is protected, or not the caller's own."""

    async def reserve(
        self,
        who: Principal,
        name: str,
        server: Server,
        properties: Mapping[str, str],
        kind: str,
        keep: int | None = None,
    ) -> ImageSource:
        """Makes a private image of the caller's project, "queued", that a snapshot of `server` will fill; where its
        data shall go is in the result. `kind`: "snapshot", "backup" or "shelved". The properties `image_type`,
        `instance_uuid`, `base_image_ref`, `owner_id`, `user_id` and those of the server's own image (less the ones an
        operator bars) are set here, below `properties`; min_disk is the server's flavor's, min_ram its image's.

        Once the server's action is done the image becomes "active" (the implementer watches for the data, or for the
        server's task to end); if that fails it is deleted or "killed". `keep` of a backup: once it is active so many of
        the project's newest backups of that server and type (property `backup_type`) stay, itself included; the older
        ones go then, and not before. Raises Refused("quota-exceeded").
        """

    async def abandon(self, who: Principal, image: ImageSource) -> None:
        """The snapshot was certainly refused: the reserved image goes. Safe to repeat."""

    def unshelved(self, server: str) -> None:
        """A shelved server is given a place again, or deleted: the image that kept its disk (kind "shelved", reserved
        for this server) goes once the server runs, or is gone. No promise hangs on this word, which a crash may lose:
        the implementer finds such images by itself, only later."""


@dataclass(frozen=True, slots=True)
class NetworkPlan:
    """Networks as an order may carry them: every wish with its network's id, name and reach, resolved.

    `groups`: names of security groups, as they are to be shown; `group_ids`: those that are there already.
    `path`: the zone that the servers must be in, from here downwards, "" is any. `together`: of several servers, all in
    one zone.
    """

    wishes: tuple[NetworkWish, ...] = ()
    groups: tuple[str, ...] = ()
    group_ids: tuple[str, ...] = ()
    path: str = ""
    together: bool = False


@dataclass(frozen=True, slots=True)
class Interface:
    """One port of a server, as the compute API shows it."""

    nic: Nic
    state: str = "ACTIVE"
    subnets: Mapping[str, str] = field(default_factory=dict)
    """Address → subnet."""


class Networks(Protocol):
    async def plan(
        self,
        who: Principal,
        wishes: Sequence[NetworkWish],
        *,
        automatic: bool,
        groups: Sequence[str],
        count: int,
    ) -> NetworkPlan:
        """Checks and resolves before anything is placed; writes nothing that outlives a refusal.

        `wishes` empty and not `automatic`: the networks that the project has of its own, one interface each, none if
        there are none; more than one is Conflict("ambiguous-network"), as OpenStack refuses it. `automatic`: the
        project's network, made if it has none ("get me a network"); Raises Unsupported-like BadInput("no-auto-network")
        where that is not possible. A wish names a port (of the project, not in use) or a network, and perhaps fixed
        addresses within it. `groups`: names or ids; empty is "default".

        Raises BadInput: "bad-network" (unknown network: "Network X could not be found."), "bad-port", "bad-address",
        "bad-security-group" ("Security group X not found for project Y."), "one-port-many" (a port or fixed address for
        `count` above 1). Conflict: "port-in-use", "address-in-use". Refused("quota-exceeded") for ports.
        """

    async def allocate(
        self, who: Principal, plan: NetworkPlan, servers: Sequence[str]
    ) -> Mapping[str, tuple[Nic, ...]]:
        """Makes or binds a port for each wish of each server: durable when it returns, in one unit of work for all of
        them. Idempotent by (server, place of the wish). MACs and addresses are final. Nics whose port was made here are
        `ours`. Raises Conflict("no-addresses") when a subnet is full, ("out-of-reach") for servers that a network can
        not connect: then nothing was made."""

    async def attach(self, who: Principal, server: Server, wish: NetworkWish) -> Nic:
        """One more interface for a server that exists. Errors as `plan`."""

    async def detach(self, who: Principal, server: Server, port: str) -> None:
        """The server has it no more: unbinds a port, and deletes it if it is `ours`. Raises NotFound("no-port")."""

    async def release(self, who: Principal, server: str) -> None:
        """The server is gone: ports of ours go, the users' own are unbound. Safe to repeat."""

    def leaving(self, who: Principal, server: str, port: str = "") -> None:
        """The server is being deleted, or is losing that port: once that is done the same as `release`, or `detach`,
        and not before: until then the guest may use the addresses. No promise hangs on this word, which a crash may
        lose: ports of deleted servers the implementer finds by itself, only later."""

    async def plugged(self, servers: Sequence[str]) -> bool:
        """True if any of them has a port."""

    async def interfaces(self, who: Principal, server: Server) -> Sequence[Interface]: ...

    async def groups(self, who: Principal, server: Server) -> Sequence[tuple[SecurityGroup, tuple[SecurityRule, ...]]]:
        """The security groups that the server's ports have, with their rules; by name."""

    async def join_group(self, who: Principal, server: Server, group: str) -> tuple[str, ...]:
        """Adds a security group to all of the server's ports; the names that it has then. Raises
        NotFound("no-security-group"), Conflict("in-group")."""

    async def leave_group(self, who: Principal, server: Server, group: str) -> tuple[str, ...]:
        """Raises NotFound("no-security-group"), ("not-in-group")."""
