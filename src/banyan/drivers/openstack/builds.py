"""How a server comes to be in a cloud, and goes: CREATE and DELETE.

What Nova was asked for and did not answer may still be made. So whoever makes looks first; after an answer that was
lost it waits until what was sent must have shown, and looks again; and when the server runs, it looks once more: of two
that are one copy the younger goes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from banyan.core.deed import Deed, DeedFailed, Sighting
from banyan.core.ids import code_text
from banyan.core.records import DriverUnavailable
from banyan.core.time import Mono
from banyan.drivers.openstack import marks
from banyan.drivers.openstack.asking import Cloud
from banyan.drivers.openstack.endpoints import Service
from banyan.drivers.openstack.grounds import Grounds
from banyan.drivers.openstack.lookout import Copy, Lookout
from banyan.drivers.openstack.marks import Mark
from banyan.drivers.openstack.nodes import Nodes
from banyan.drivers.openstack.refusals import refused
from banyan.drivers.openstack.stock import Stock
from banyan.drivers.openstack.waiting import Waiting
from banyan.drivers.registry import DriverContext

# Seconds after which a request that was not answered has shown what it made, if Nova answers others meanwhile.
SETTLE: Final = 5.0
MOST_DOUBTS: Final = 100_000


class Builds:
    def __init__(
        self,
        cloud: Cloud,
        context: DriverContext,
        grounds: Grounds,
        stock: Stock,
        nodes: Nodes,
        lookout: Lookout,
        waiting: Waiting,
    ) -> None:
        self._cloud = cloud
        self._clock = context.clock
        self._rack = code_text(context.code)
        self._grounds = grounds
        self._stock = stock
        self._nodes = nodes
        self._lookout = lookout
        self._waiting = waiting
        # When a guest was asked for last without an answer.
        self._doubts: dict[str, Mono] = {}

    async def create(self, deed: Deed, copies: Sequence[Copy]) -> Sighting:
        """`copies`: what there is, none of a higher move number. Raises DeedFailed, DriverUnavailable."""
        older = [copy for copy in copies if copy.mark.move < deed.move]
        if older:
            await self._remove(deed.guest, older)
        if not any(copy.mark.move == deed.move for copy in copies) and not await self._came_late(deed):
            await self._make(deed)
        built = await self._waiting.until(deed.guest, _is_built, "end the build")
        mine = [copy for copy in built if copy.mark.move == deed.move]
        if not mine:
            raise DeedFailed(
                "openstack-vanished", "the server was deleted in the cloud while it was built", elsewhere=True
            )
        first, *doubles = mine
        if doubles:
            await self._remove(deed.guest, doubles)
        self._doubts.pop(deed.guest, None)
        if first.state == "error" and not first.wire.launched_at:
            await self._remove(deed.guest, [first])
            raise DeedFailed("openstack-build-failed", _because(first), elsewhere=True, detail=_details(first))
        return await self._lookout.sighting(first)

    async def delete(self, deed: Deed, copies: Sequence[Copy]) -> None:
        if not copies and await self._came_late(deed):
            copies = await self._lookout.copies(deed.guest)
        await self._remove(deed.guest, copies)
        self._doubts.pop(deed.guest, None)

    async def _came_late(self, deed: Deed) -> bool:
        """After an answer that was lost: whether what was asked for has come to be after all."""
        asked = self._doubts.get(deed.guest)
        if asked is None:
            return False
        left = asked + SETTLE - self._clock.now()
        if left > 0:
            await self._clock.sleep_until(Mono(self._clock.now() + left))
        copies = await self._lookout.copies(deed.guest)
        return any(copy.mark.move == deed.move for copy in copies)

    async def _make(self, deed: Deed) -> None:
        """Asks Nova for the server. Raises DriverUnavailable when its answer is lost, DeedFailed when it refuses."""
        server, spec = deed.server, deed.server.spec
        names = await self._nodes.names(deed.host)
        if spec.image is None:
            raise DeedFailed("openstack-no-image", "Nova makes no server without an image, and volumes are not offered")
        image = await self._stock.image(spec.image)
        flavor = await self._stock.flavor(spec)
        key = await self._stock.key(spec.key) if spec.key is not None else ""
        project = await self._grounds.project(server)
        mark = Mark(deed.guest, deed.move, deed.number, self._rack)
        wanted: dict[str, object] = {
            "name": server.name,
            "flavorRef": flavor,
            "imageRef": image,
            # gap: an order's networks, ports and security groups are not made in the cloud: its servers have none
            "networks": "none",
            "metadata": {**spec.metadata, **mark.metadata()},
            "tags": [marks.tag(deed.guest)],
            "config_drive": spec.config_drive,
        }
        if names is not None:
            wanted["host"], wanted["hypervisor_hostname"] = names
        elif spec.native_zone:
            wanted["availability_zone"] = spec.native_zone
        if key:
            wanted["key_name"] = key
        if spec.user_data:
            wanted["user_data"] = spec.user_data
        while len(self._doubts) >= MOST_DOUBTS:
            del self._doubts[next(iter(self._doubts))]
        self._doubts[deed.guest] = self._clock.now()
        try:
            reply = await self._cloud.send(Service.COMPUTE, "POST", "/servers", {"server": wanted}, project)
        except DriverUnavailable:
            # Keystone has no token for a project that was deleted behind our back: it is looked for again.
            self._grounds.forget(server)
            raise
        finally:
            # Counted from its end: however long it hung, it may have been heard at its very end.
            self._doubts[deed.guest] = self._clock.now()
        if reply.status == 202:
            return
        self._doubts.pop(deed.guest, None)
        if reply.status in (400, 404):
            # Of what it is made of something may have gone since it was looked up.
            self._stock.forget(spec)
            self._grounds.forget(server)
        raise refused(self._cloud.where, Service.COMPUTE, "make the server", reply)

    async def _remove(self, guest: str, copies: Sequence[Copy]) -> None:
        """Returns when these are gone."""
        ids = {copy.id for copy in copies}
        for id in sorted(ids):
            await self._drop(id)

        def gone(found: tuple[Copy, ...]) -> bool:
            return not any(copy.id in ids for copy in found)

        if ids:
            await self._waiting.until(guest, gone, "end the delete")

    async def _drop(self, id: str) -> None:
        reply = await self._cloud.send(Service.COMPUTE, "DELETE", f"/servers/{id}")
        if reply.status not in (204, 404):
            raise refused(self._cloud.where, Service.COMPUTE, "delete a server", reply)


def _is_built(copies: tuple[Copy, ...]) -> bool:
    return not any(copy.state == "building" for copy in copies)


def _because(copy: Copy) -> str:
    return copy.fault or "Nova put the server into ERROR while it was built, and does not say why"


def _details(copy: Copy) -> str:
    return copy.wire.fault.details[:2_000] if copy.wire.fault is not None else ""
