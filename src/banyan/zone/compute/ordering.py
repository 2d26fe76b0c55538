"""From a wish to servers: everything that an order needs is looked up here, at the entry zone, and travels in it.

Order of things: may the caller, does what is named exist, does it fit together, is there quota, is there a place; then
interfaces. What was taken of the quota before an order failed is given back; when its fate is not known it is kept, and
found at the next count (ceilings.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import msgspec
from msgspec import structs

from banyan.core.compute import Flavor, ServerGroup
from banyan.core.errors import BadInput, BanyanError, Broken, NotFound, Refused, Unreachable
from banyan.core.needs import Needs, of_flavor
from banyan.core.order import (
    FlavorSnapshot,
    GroupPolicy,
    GroupScope,
    Hints,
    KeySnapshot,
    NetworkWish,
    Policy,
    Specification,
)
from banyan.core.permissions import Target, require
from banyan.core.principal import Principal
from banyan.core.quota import UNLIMITED, Limits, Quota, Use
from banyan.core.server import Change, Created, Nic, Task, VmState
from banyan.zone.compute.ceilings import Ceilings, Reservation
from banyan.zone.compute.flavors import Flavors
from banyan.zone.compute.groups import ServerGroups
from banyan.zone.compute.key_pairs import KeyPairs
from banyan.zone.compute.quotas import Quotas
from banyan.zone.compute.sources import BootImage, Images, NetworkPlan, Networks
from banyan.zone.compute.steering import Steering
from banyan.zone.firm import firm
from banyan.zone.servers.surface import Servers

T = TypeVar("T")

GIB = 1 << 30
# Servers of one order whose interfaces are told to their leaves at the same time; and that an error names.
_TOGETHER = 16
# Pairs of a flavor and an image of late orders.
_MAX_FITS = 4_096
_NAMED = 100


class Wish(msgspec.Struct, frozen=True):
    """What a user wants. `image` "" is none. `no_network`: no interface, whatever the project has.

    `group`, `same_host`, `different_host` are ids, as the hints of a request name them; `group_scope` says what the
    group's rule is about; `hints` is all that it said, to
    be shown. `notes`: metadata items of our own, beside the user's.
    """

    name: str
    flavor: str
    image: str = ""
    description: str | None = None
    metadata: Mapping[str, str] = {}
    notes: Mapping[str, str] = {}
    key_name: str = ""
    user_data: str = ""
    config_drive: bool = False
    tags: tuple[str, ...] = ()
    networks: tuple[NetworkWish, ...] = ()
    automatic_network: bool = False
    no_network: bool = False
    security_groups: tuple[str, ...] = ()
    availability_zone: str = ""
    host: str = ""
    group: str = ""
    group_scope: GroupScope = GroupScope.HOST
    same_host: tuple[str, ...] = ()
    different_host: tuple[str, ...] = ()
    hints: Mapping[str, str] = {}
    hostname: str = ""
    disk_config: str = "MANUAL"
    least: int = 1
    most: int = 1
    retry_key: str = ""


@dataclass(frozen=True, slots=True)
class Ordered:
    """What came of it. `groups`: the security groups of its interfaces, by name."""

    created: Created
    groups: tuple[str, ...]


class Ordering:
    def __init__(
        self,
        servers: Servers,
        flavors: Flavors,
        key_pairs: KeyPairs,
        groups: ServerGroups,
        quotas: Quotas,
        ceilings: Ceilings,
        steering: Steering,
        images: Images,
        networks: Networks,
    ) -> None:
        self._servers = servers
        self._flavors = flavors
        self._key_pairs = key_pairs
        self._groups = groups
        self._quotas = quotas
        self._ceilings = ceilings
        self._steering = steering
        self._images = images
        self._networks = networks
        self._fits: dict[tuple[str, str], tuple[Flavor, BootImage | None, Needs, FlavorSnapshot]] = {}

    async def create(self, who: Principal, wish: Wish) -> Ordered:
        """Servers that are claimed and durable; they are built after this. Raises BadInput for what is wrong with the
        wish, Refused("quota-exceeded"), NoValidHost, and what Servers.create raises."""
        require(who, "compute:server_create", Target(project=who.project))
        # Only what may be asked again is compared.
        asked = _asked(wish) if wish.retry_key else {}
        known = await self._known(who, wish, asked)
        if known is not None:
            return known
        limits = await self._quotas.mine(who)
        check_metadata(wish.metadata, limits)
        flavor = await named(self._flavors.remembered(who, wish.flavor))
        image = await self.boot_image(who, wish.image)
        needs, snapshot = self._fitted(flavor, image)
        key = await self._key_pairs.snapshot(who, wish.key_name) if wish.key_name else None
        group, hints = await self._hints(who, wish)
        zone = await self._steering.bound(who, wish.availability_zone)
        listed = await self._steering.hosts(who, zone, flavor.extra_specs)
        if wish.host:
            listed = await self._steering.of_name(who, wish.host, zone, listed)
        if listed:
            hints = structs.replace(hints, hosts=listed)
        plan = NetworkPlan()
        if not wish.no_network:
            plan = await self._networks.plan(
                who,
                wish.networks,
                automatic=wish.automatic_network,
                groups=wish.security_groups,
                count=wish.most,
            )
        hints = where(hints, plan, wish.most)
        specification = specify(wish, snapshot, needs, image, key, hints, zone, plan)
        one = use_of(flavor)
        try:
            reservation, most = await self._ceilings.reserve_some(who, one, wish.least, wish.most)
            try:
                async with self._groups.room(who, group, most, limits[Quota.GROUP_MEMBERS]):
                    created = await self._placed(who, specification, wish, most, reservation, one, asked)
            finally:
                # Of an order that did not leave; else it is settled.
                reservation.cancel()
        except Refused:
            # The same request may have been on its way, and be what took the last of the quota.
            known = await self._known(who, wish, asked)
            if known is None:
                raise
            return known
        if plan.wishes and not created.again:
            await firm(self._connect(who, plan, created, wish.retry_key))
        elif created.again:
            await firm(self._completed(who, created))
        return Ordered(created, plan.groups)

    def _fitted(self, flavor: Flavor, image: BootImage | None) -> tuple[Needs, FlavorSnapshot]:
        """What follows from a flavor and an image alone: worked out once for as long as both are remembered, and
        nothing changes it. Raises what `fitting` does."""
        key = flavor.id, "" if image is None else image.source.id
        known = self._fits.get(key)
        if known is None or known[0] is not flavor or known[1] is not image:
            while len(self._fits) >= _MAX_FITS:
                del self._fits[next(iter(self._fits))]
            known = self._fits[key] = flavor, image, fitting(flavor, image), flavor.snapshot()
        return known[2], known[3]

    async def _known(self, who: Principal, wish: Wish, asked: Mapping[str, object]) -> Ordered | None:
        """What this request was answered before."""
        if not wish.retry_key:
            return None
        known = await self._servers.answered(who, wish.retry_key, asked)
        if known is None:
            return None
        await firm(self._completed(who, known))
        return Ordered(known, wish.security_groups)

    async def boot_image(self, who: Principal, id: str) -> BootImage | None:
        """The image of that id, if it can be booted; None of "". Raises BadInput("bad-image")."""
        if not id:
            return None
        try:
            image = await self._images.find(who, id)
        except NotFound as error:
            raise BadInput("bad-image", "Can not find requested image") from error
        if image.status != "active":
            raise BadInput("bad-image", f"Image {id} is not active.")
        return image

    async def _hints(self, who: Principal, wish: Wish) -> tuple[ServerGroup | None, Hints]:
        if not (wish.group or wish.same_host or wish.different_host):
            return None, Hints()
        await self._check_own(who, (*wish.same_host, *wish.different_host))
        if not wish.group:
            return None, Hints(same_host=wish.same_host, different_host=wish.different_host)
        group = await named(self._groups.find(who, wish.group))
        return group, Hints(
            group=group.id,
            policy=group.policy,
            scope=wish.group_scope,
            per_host=group.per_host or 1,
            same_host=wish.same_host,
            different_host=wish.different_host,
        )

    async def _check_own(self, who: Principal, ids: Sequence[str]) -> None:
        """Raises BadInput("bad-hint") for a server that is not of this project: a place beside it, or away from it,
        would tell where it is."""
        for id in dict.fromkeys(ids):
            try:
                server = await self._servers.show(who, id)
            except NotFound as error:
                raise _no_such_hint(id) from error
            if server.project != who.project:
                raise _no_such_hint(id)

    async def _placed(
        self,
        who: Principal,
        specification: Specification,
        wish: Wish,
        most: int,
        reservation: Reservation,
        one: Use,
        asked: Mapping[str, object],
    ) -> Created:
        try:
            created = await self._servers.create(
                who,
                specification,
                least=wish.least,
                most=most,
                policy=Policy.SPREAD,
                retry_key=wish.retry_key,
                asked=asked,
            )
        except (Unreachable, Broken, asyncio.CancelledError):
            reservation.settle()
            raise
        except BanyanError:
            reservation.cancel()
            raise
        except BaseException:
            reservation.settle()
            raise
        if created.again:
            reservation.cancel()
        else:
            reservation.settle(one * len(created.made))
        return created

    async def _completed(self, who: Principal, created: Created) -> None:
        """Whoever ordered these may have died before their interfaces were made: those that lack some get them now.
        What they shall have is in each specification; that nothing is made twice is the networks' promise. One that had
        its interfaces once is left as its user has made it since."""
        for begin in range(0, len(created.made), _TOGETHER):
            some = created.made[begin : begin + _TOGETHER]
            await asyncio.gather(*(self._complete(who, made.id) for made in some))

    async def _complete(self, who: Principal, id: str) -> None:
        try:
            server = await self._servers.show(who, id)
        except NotFound:
            # It was deleted since.
            return
        wanted = server.spec.networks
        if not wanted or server.connected or server.nics or server.state in (VmState.DELETED, VmState.ERROR):
            return
        plan = NetworkPlan(tuple(wanted), tuple(server.spec.security_groups))
        nics = await self._networks.allocate(who, plan, [id])
        await self._plug(who, id, nics[id])

    async def _connect(self, who: Principal, plan: NetworkPlan, created: Created, retry_key: str) -> None:
        """Interfaces for servers that exist now. Without them the servers are no use: they go again, all of them, also
        those whose zones can not be asked now. If not even that can be stored the error names them."""
        ids = [made.id for made in created.made]
        try:
            nics = await self._networks.allocate(who, plan, ids)
            for begin in range(0, len(ids), _TOGETHER):
                some = ids[begin : begin + _TOGETHER]
                await asyncio.gather(*(self._plug(who, id, nics.get(id, ())) for id in some))
        except BanyanError as error:
            try:
                await self._servers.withdraw(who, created, retry_key)
            except BanyanError as failure:
                raise _left(error, failure, ids) from error
            self._ceilings.deleted(who.project)
            for id in ids:
                await self._let_go(who, id)
            raise

    async def _plug(self, who: Principal, id: str, nics: tuple[Nic, ...]) -> None:
        try:
            await self._servers.change(who, id, Change(nics=nics))
        except NotFound:
            # Somebody deleted this one meanwhile, and had not all of its ports to give back. The others stay.
            self._networks.leaving(who, id)

    async def _let_go(self, who: Principal, id: str) -> None:
        """The ports of a server that is going are given back once it is gone (zone/networks/upkeep.py): until then it
        may use their addresses."""
        try:
            server = await self._servers.show(who, id)
            if server.state is not VmState.DELETED:
                if server.task is Task.DELETING:
                    self._networks.leaving(who, id)
                return
        except NotFound:
            pass
        except BanyanError:
            return
        await self._networks.release(who, id)


def _left(error: BanyanError, failure: BanyanError, ids: Sequence[str]) -> Unreachable:
    more = f" and {len(ids) - _NAMED} more" if len(ids) > _NAMED else ""
    text = (
        f"{error.text}; the servers of this request could not be taken back ({failure.text}), delete those that are "
        f"there: {', '.join(ids[:_NAMED])}{more}"
    )
    return Unreachable("servers-left", text, detail=failure.detail, transient=True)


def _asked(wish: Wish) -> dict[str, object]:
    """By what a wish under a retry key is known to be the same: as the user put it, whatever was looked up for it."""
    return {name: getattr(wish, name) for name in wish.__struct_fields__ if name != "retry_key"}


def _no_such_hint(id: str) -> BadInput:
    return BadInput("bad-hint", f"Instance {id[:255]} of the scheduler hints could not be found in this project.")


def where(hints: Hints, plan: NetworkPlan, many: int) -> Hints:
    """With what the order's networks ask of its place. What keeps servers of one order together, of no group of the
    user's, is done among the members of this zone."""
    if plan.path:
        return structs.replace(hints, path=plan.path)
    if plan.together and many > 1 and hints.policy is None:
        return structs.replace(hints, policy=GroupPolicy.AFFINITY, scope=GroupScope.ZONE)
    return hints


def specify(
    wish: Wish,
    flavor: FlavorSnapshot,
    needs: Needs,
    image: BootImage | None,
    key: KeySnapshot | None,
    hints: Hints,
    zone: str,
    plan: NetworkPlan,
) -> Specification:
    return Specification(
        wish.name,
        needs.amounts,
        required=needs.required,
        forbidden=needs.forbidden,
        flavor=flavor,
        image=None if image is None else image.source,
        key=key,
        user_data=wish.user_data,
        config_drive=wish.config_drive,
        metadata={**wish.metadata, **wish.notes},
        tags=wish.tags,
        networks=plan.wishes,
        automatic_network=wish.automatic_network,
        security_groups=plan.groups,
        availability_zone=zone,
        hints=hints,
        description=wish.description,
        hostname=wish.hostname,
        disk_config=wish.disk_config,
        scheduler_hints=dict(wish.hints),
    )


def fitting(flavor: Flavor, image: BootImage | None) -> Needs:
    """What the flavor asks of a host. Raises BadInput("bad-flavor") if the image does not fit into it."""
    source = None if image is None else image.source
    if image is not None:
        check_fits(flavor, image)
    return of_flavor(flavor.snapshot(), None if source is None else source.properties)


def check_fits(flavor: Flavor | FlavorSnapshot, image: BootImage) -> None:
    """Raises BadInput("bad-flavor") if the image asks for more than the flavor has."""
    if flavor.memory_mib < image.min_memory_mib:
        raise BadInput("bad-flavor", "Flavor's memory is too small for requested image.")
    # A flavor without a disk takes the image's own size.
    if flavor.disk_gib and flavor.disk_gib < image.min_disk_gib:
        raise small_disk(flavor.disk_gib * GIB, image.min_disk_gib * GIB)
    if flavor.disk_gib and flavor.disk_gib * GIB < image.size_bytes:
        raise small_disk(flavor.disk_gib * GIB, image.size_bytes)


def small_disk(has: int, needs: int) -> BadInput:
    text = f"Flavor's disk is too small for requested image. Flavor disk is {has} bytes, image is {needs} bytes."
    return BadInput("bad-flavor", text)


def use_of(flavor: Flavor) -> Use:
    return Use(1, flavor.vcpu, flavor.memory_mib)


def check_metadata(metadata: Mapping[str, str], limits: Limits) -> None:
    """Raises Refused("quota-exceeded") for more items than a server may have."""
    most = limits[Quota.METADATA_ITEMS]
    if most != UNLIMITED and len(metadata) > most:
        raise Refused("quota-exceeded", f"Maximum number of metadata items exceeds {most}")


async def named(wanted: Awaitable[T]) -> T:
    """Of what a request names in its body: not there is wrong input, not a missing address."""
    try:
        return await wanted
    except NotFound as error:
        raise BadInput(error.code, error.text) from error
