"""What is done to servers that exist, as far as more than the server itself takes part: quota, images, interfaces.

The server's own state decides at its leaf whether an action may be (core/server_states.py). What is reserved here
before is given back if it may not; where nobody knows whether the leaf did it, it stays, and is looked after by those
who keep it: images ask the server what became of it, ports are what the server has, the quota is counted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace

import structlog
from msgspec import structs

from banyan.core.compute import Migration, MigrationKind, MigrationState
from banyan.core.errors import BadInput, BanyanError, Broken, Conflict, NotFound, Unreachable
from banyan.core.identity import SYSTEM
from banyan.core.order import FlavorSnapshot, ImageSource, NetworkWish
from banyan.core.permissions import Target, require
from banyan.core.principal import Principal
from banyan.core.quota import Use
from banyan.core.records import Unit
from banyan.core.secret import Secret
from banyan.core.server import Action, Arguments, Change, Nic, Server, Task, VmState
from banyan.core.time import Wall
from banyan.zone.compute.ceilings import Ceilings
from banyan.zone.compute.desk import Desk
from banyan.zone.compute.flavors import Flavors
from banyan.zone.compute.key_pairs import KeyPairs
from banyan.zone.compute.ordering import Ordering, check_fits, check_metadata, fitting, named, use_of
from banyan.zone.compute.quotas import Quotas
from banyan.zone.compute.sources import BootImage, Images, Networks
from banyan.zone.compute.steering import Steering
from banyan.zone.servers.below import not_done
from banyan.zone.servers.surface import Servers

log = structlog.get_logger("banyan.compute")

# Migrations that were settled so long ago are forgotten, seconds; each new one takes along some of them.
MIGRATIONS_LIFE = 7 * 86_400.0
_SWEPT = 10


class Life:
    def __init__(
        self,
        desk: Desk,
        servers: Servers,
        ordering: Ordering,
        flavors: Flavors,
        key_pairs: KeyPairs,
        quotas: Quotas,
        ceilings: Ceilings,
        images: Images,
        networks: Networks,
        steering: Steering,
    ) -> None:
        self._desk = desk
        self._servers = servers
        self._ordering = ordering
        self._flavors = flavors
        self._key_pairs = key_pairs
        self._quotas = quotas
        self._ceilings = ceilings
        self._images = images
        self._networks = networks
        self._steering = steering

    async def delete(self, who: Principal, id: str) -> None:
        """Accepted when this returns. Its interfaces go once it is gone: until then its guest may use their addresses.
        The image of its disk goes with it if it was shelved."""
        server = await self._servers.act(who, id, Action.DELETE)
        self._ceilings.deleted(server.project)
        if server.state is VmState.DELETED:
            await self._networks.release(who, id)
        else:
            self._networks.leaving(who, id)
        if server.state in (VmState.SHELVED, VmState.OFFLOADED):
            self._images.unshelved(id)

    async def left(self, who: Principal, id: str) -> None:
        """Somebody is about to be told that the server is not there, and may want what it had next: if it was deleted
        nothing is left of it now."""
        try:
            if await self._networks.plugged([id]):
                server = await self._servers.show(SYSTEM, id)
                if server.state is VmState.DELETED:
                    await self._networks.release(who, id)
        except BanyanError as error:
            # It may be anywhere, and is looked after by those who keep the ports.
            log.info("ports of a server not given back yet", server=id, code=error.code)

    async def resize(self, who: Principal, id: str, flavor_id: str, disk_config: str) -> None:
        """Raises BadInput("bad-flavor"), ("same-flavor"), Refused("quota-exceeded"), and what Servers.act raises."""
        server = await self._servers.show(who, id)
        require(who, "compute:server_resize", Target(project=server.project))
        flavor = await named(self._flavors.show(who, flavor_id))
        image = None if server.spec.image is None else await self._image(who, server.spec.image.id)
        if server.spec.flavor is not None and server.spec.flavor.id == flavor.id:
            raise BadInput("same-flavor", "When resizing, instances must change flavor!")
        needs = fitting(flavor, image)
        hosts = await self._steering.hosts(who, server.spec.availability_zone, flavor.extra_specs)
        arguments = Arguments(
            hosts=hosts,
            flavor=flavor.snapshot(),
            needs=needs.amounts,
            required=needs.required,
            forbidden=needs.forbidden,
            disk_config=disk_config,
        )
        more = (use_of(flavor) - held_by(server.spec.flavor)).above_zero()
        wanted = Use(0, more.vcpu, more.memory_mib)
        reservation = await self._ceilings.reserve(replace(who, project=server.project), wanted)
        try:
            changed = await self._servers.act(who, id, Action.RESIZE, arguments)
        except (Unreachable, Broken, asyncio.CancelledError):
            reservation.settle()
            raise
        except BaseException:
            reservation.cancel()
            raise
        reservation.settle()
        await self._moving(who, server, changed, MigrationKind.RESIZE, flavor.name)

    async def migrate(self, who: Principal, id: str, host: str) -> None:
        server = await self._servers.show(who, id)
        changed = await self._servers.act(who, id, Action.MIGRATE, Arguments(host=host))
        name = "" if server.spec.flavor is None else server.spec.flavor.name
        await self._moving(who, server, changed, MigrationKind.MIGRATION, name)

    async def confirm(self, who: Principal, id: str) -> None:
        server = await self._servers.act(who, id, Action.CONFIRM_RESIZE)
        self._ceilings.deleted(server.project)
        await self._settled(id, MigrationState.CONFIRMED)

    async def revert(self, who: Principal, id: str) -> None:
        server = await self._servers.act(who, id, Action.REVERT_RESIZE)
        self._ceilings.deleted(server.project)
        await self._settled(id, MigrationState.REVERTED)

    async def rebuild(
        self, who: Principal, id: str, image_id: str, arguments: Arguments, key_name: str, password: Secret
    ) -> Server:
        """`arguments` but for its image and key; `key_name` "" leaves the key. Raises BadInput("bad-image"), and
        ("bad-flavor") for one that does not fit into the server's flavor."""
        server = await self._servers.show(who, id)
        require(who, "compute:server_rebuild", Target(project=server.project))
        if arguments.metadata is not None:
            check_metadata(arguments.metadata, await self._quotas.mine(who))
            # What is ours in it stays.
            ours = {key: value for key, value in server.spec.metadata.items() if key in NOTES}
            arguments = structs.replace(arguments, metadata={**arguments.metadata, **ours})
        image = await self._ordering.boot_image(who, image_id)
        if image is None:
            raise BadInput("bad-image", "Invalid imageRef provided.")
        if server.spec.flavor is not None:
            check_fits(server.spec.flavor, image)
        key = await self._key_pairs.snapshot(who, key_name) if key_name else None
        arguments = structs.replace(arguments, image=image.source, key=key)
        return await self._servers.act(who, id, Action.REBUILD, arguments, password=password)

    async def rescue(self, who: Principal, id: str, image_id: str, password: Secret) -> None:
        image = await self._ordering.boot_image(who, image_id)
        arguments = Arguments(image=None if image is None else image.source)
        await self._servers.act(who, id, Action.RESCUE, arguments, password=password)

    async def snapshot(
        self,
        who: Principal,
        id: str,
        name: str,
        properties: Mapping[str, str],
        kind: str = "snapshot",
        keep: int | None = None,
    ) -> str:
        """The id of the image that will be filled."""
        server = await self._servers.show(who, id)
        require(who, "compute:server_snapshot", Target(project=server.project))
        check_metadata(properties, await self._quotas.mine(who))
        image = await self._images.reserve(who, name, server, properties, kind, keep)
        await self._kept_as(who, id, Action.SNAPSHOT, image)
        return image.id

    async def _kept_as(self, who: Principal, id: str, action: Action, image: ImageSource) -> None:
        try:
            await self._servers.act(who, id, action, Arguments(image=image))
        except BanyanError as error:
            if not_done(error):
                await self._images.abandon(who, image)
            raise

    async def backup(
        self, who: Principal, id: str, name: str, kind: str, keep: int, properties: Mapping[str, str]
    ) -> str:
        """A snapshot of a kind ("daily") of which the `keep` newest stay, from when it is filled."""
        return await self.snapshot(who, id, name, {**properties, "backup_type": kind}, "backup", keep)

    async def shelve(self, who: Principal, id: str) -> None:
        """Its disk is kept as an image of its name and "-shelved" until it runs again."""
        server = await self._servers.show(who, id)
        require(who, "compute:server_shelve", Target(project=server.project))
        image = await self._images.reserve(who, f"{server.name}-shelved", server, {}, "shelved")
        await self._kept_as(who, id, Action.SHELVE, image)

    async def unshelve(self, who: Principal, id: str, availability_zone: str, host: str = "") -> None:
        """`host`: the name of the only one that will do, in the rack that it is in."""
        server = await self._servers.show(who, id)
        require(who, "compute:server_unshelve", Target(project=server.project))
        zone = await self._steering.bound(who, availability_zone)
        specs = {} if server.spec.flavor is None else server.spec.flavor.extra_specs
        hosts = await self._steering.hosts(who, zone or server.spec.availability_zone, specs)
        arguments = Arguments(availability_zone=zone, host=host, hosts=hosts)
        await self._servers.act(who, id, Action.UNSHELVE, arguments)
        self._images.unshelved(id)

    # --- interfaces -----------------------------------------------------------------------------

    async def attach(self, who: Principal, id: str, wish: NetworkWish) -> Nic:
        server = await self._servers.show(who, id)
        require(who, "compute:server_attach", Target(project=server.project))
        nic = await self._networks.attach(who, server, wish)
        try:
            await self._servers.act(who, id, Action.ATTACH, Arguments(nic=nic))
        except BanyanError as error:
            if not_done(error):
                await self._networks.detach(who, structs.replace(server, nics=(*server.nics, nic)), nic.port)
            raise
        await self.reconnected(who, id)
        return nic

    async def detach(self, who: Principal, id: str, port: str) -> None:
        """Raises NotFound("no-port")."""
        server = await self._servers.show(who, id)
        require(who, "compute:server_detach", Target(project=server.project))
        there = await self._networks.interfaces(who, server)
        nic = next((one.nic for one in there if one.nic.port == port), None)
        if nic is None:
            raise NotFound("no-port", f"Port {port[:255]} is not attached to server {id}.")
        after = await self._servers.act(who, id, Action.DETACH, Arguments(nic=nic))
        if after.task is Task.DETACHING:
            # Until that is done the guest has it, and may use its addresses.
            self._networks.leaving(who, id, port)
            return
        await self._networks.detach(who, server, port)
        await self.reconnected(who, id)

    async def reconnected(self, who: Principal, id: str) -> None:
        """A server is told which interfaces it has by now, and which addresses lead to them: its ports are the truth.
        Raises what Servers.show and Servers.change raise."""
        server = await self._servers.show(who, id)
        there = await self._networks.interfaces(who, server)
        nics = tuple(one.nic for one in there)
        if nics != server.nics and server.state is not VmState.DELETED:
            await self._servers.change(who, id, Change(nics=nics))

    async def join_group(self, who: Principal, id: str, group: str) -> None:
        server = await self._alive(who, id)
        names = await self._networks.join_group(who, server, group)
        await self._servers.change(who, id, Change(security_groups=names))

    async def leave_group(self, who: Principal, id: str, group: str) -> None:
        server = await self._alive(who, id)
        names = await self._networks.leave_group(who, server, group)
        await self._servers.change(who, id, Change(security_groups=names))

    async def _alive(self, who: Principal, id: str) -> Server:
        server = await self._servers.show(who, id)
        require(who, "compute:server_change", Target(project=server.project))
        if server.state is VmState.DELETED:
            raise Conflict("bad-state", f"server {id} is deleted")
        return server

    # --- migrations -----------------------------------------------------------------------------

    async def migrations(
        self, who: Principal, servers: tuple[str, ...], project: str, user: str, after: str, limit: int
    ) -> tuple[Migration, ...]:
        """The newest first; `after`: the id of the last one before. Raises BadInput("bad-marker")."""
        require(who, "compute:list_migrations")
        number = await self._desk.read(lambda rows: rows.migrations.number(after)) if after else 0
        if number is None:
            raise BadInput("bad-marker", f"Marker {after[:255]} could not be found.")
        page = await self._desk.read(lambda rows: rows.migrations.page(servers, project, user, number, limit))
        return tuple(page)

    async def _moving(
        self, who: Principal, before: Server, after: Server, kind: MigrationKind, new_flavor: str
    ) -> None:
        now = self._desk.now()
        old_flavor = "" if before.spec.flavor is None else before.spec.flavor.name
        migration = Migration(
            0,
            self._desk.new_uuid(),
            before.id,
            kind,
            before.project,
            before.user,
            before.host_name,
            old_flavor,
            new_flavor,
            now,
            now,
            target=after.host_name if after.host_name != before.host_name else "",
        )

        def work(unit: Unit) -> None:
            unit.compute.migrations.sweep(Wall(now - MIGRATIONS_LIFE), _SWEPT)
            unit.compute.migrations.add(migration)

        await self._desk.change("migration.begun", work)

    async def _settled(self, id: str, state: MigrationState) -> None:
        now = self._desk.now()
        await self._desk.change("migration.settled", lambda unit: unit.compute.migrations.settle(id, state, now))

    async def _image(self, who: Principal, id: str) -> BootImage | None:
        try:
            return await self._images.find(who, id)
        except NotFound:
            # It may be deleted by now; the disk is there.
            return None


# Items of metadata that are this service's own: kept with the server, shown in other places.
ACCESS_4, ACCESS_6 = "banyan:access_ipv4", "banyan:access_ipv6"
NOTES = frozenset({ACCESS_4, ACCESS_6})


def held_by(flavor: FlavorSnapshot | None) -> Use:
    return Use(1) if flavor is None else Use(1, flavor.vcpu, flavor.memory_mib)
