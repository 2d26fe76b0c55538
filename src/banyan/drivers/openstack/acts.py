"""What is done to a server that is there: every operation but CREATE and DELETE, as an action of Nova's.

Nova says what it is at work on (`task_state`) before it answers, so who looks afterwards sees either that or the end.
The mark is written where Nova lets metadata be written (running, stopped, paused, suspended): before a move, whose new
number is to be seen while it is not confirmed; with a rebuild; else afterwards. In other states the state itself says
what was done.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from msgspec.structs import replace

from banyan.core.deed import Deed, DeedFailed, Operation, Sighting
from banyan.core.ports import Clock
from banyan.drivers.openstack import marks
from banyan.drivers.openstack.asking import Cloud
from banyan.drivers.openstack.endpoints import Service
from banyan.drivers.openstack.lookout import Copy, Lookout
from banyan.drivers.openstack.marks import Mark
from banyan.drivers.openstack.microversions import Microversion
from banyan.drivers.openstack.nodes import Nodes
from banyan.drivers.openstack.refusals import refused
from banyan.drivers.openstack.stock import Stock, flavor_name, wanted_flavor
from banyan.drivers.openstack.waiting import Waiting

# States in which Nova lets metadata be written.
_WRITABLE: Final = frozenset({"active", "stopped", "paused", "suspended"})
_AT_REST: Final = frozenset({"active", "stopped"})
# Seconds for what Nova begins without saying so in the server's task (confirming a resize).
_UNSAID: Final = 30.0
# From here on a server is given a host when it is unshelved.
_UNSHELVES_TO_HOST: Final = Microversion(2, 91)


@dataclass(frozen=True, slots=True)
class Act:
    """One action of Nova's and the states that it leads to. `again`: it is asked for although one of them is there.
    `unsaid`: seconds that it may take before Nova says that it is at work."""

    name: str
    given: object
    leads: frozenset[str]
    again: bool = False
    unsaid: float = 0.0
    version: Microversion | None = None


def _to(name: str, state: str, given: object = None, *, again: bool = False) -> Act:
    return Act(name, given, frozenset({state}), again)


_SIMPLE: Final[Mapping[Operation, Act]] = {
    Operation.START: _to("os-start", "active"),
    Operation.STOP: _to("os-stop", "stopped"),
    Operation.REBOOT: _to("reboot", "active", {"type": "SOFT"}, again=True),
    Operation.REBOOT_HARD: _to("reboot", "active", {"type": "HARD"}, again=True),
    Operation.PAUSE: _to("pause", "paused"),
    Operation.UNPAUSE: _to("unpause", "active"),
    Operation.SUSPEND: _to("suspend", "suspended"),
    Operation.RESUME: _to("resume", "active"),
    Operation.UNRESCUE: _to("unrescue", "active"),
    Operation.CONFIRM: Act("confirmResize", None, _AT_REST, unsaid=_UNSAID),
    Operation.REVERT: Act("revertResize", None, _AT_REST, unsaid=_UNSAID),
}

# gap: a snapshot in a cloud would stay there: its data does not come up to the image that was promised above
# gap: interfaces are neither attached to a cloud's servers nor detached: they have none yet
OPERATIONS: Final = frozenset({
    *_SIMPLE, Operation.RESCUE, Operation.REBUILD, Operation.SHELVE, Operation.UNSHELVE, Operation.MOVE,
    Operation.SET_PASSWORD,
})  # fmt: skip


class Acts:
    def __init__(
        self, cloud: Cloud, clock: Clock, stock: Stock, nodes: Nodes, lookout: Lookout, waiting: Waiting
    ) -> None:
        self._cloud = cloud
        self._clock = clock
        self._stock = stock
        self._nodes = nodes
        self._lookout = lookout
        self._waiting = waiting

    async def perform(self, deed: Deed, copy: Copy) -> Sighting:
        """`copy`: the newest one, of no higher move number than the deed. Raises DeedFailed, DriverUnavailable."""
        copy = await self._rested(deed.guest, copy)
        done = copy.mark.deed
        if done > deed.number or (done == deed.number and copy.state != "error"):
            return await self._lookout.sighting(copy)
        match deed.operation:
            case Operation.MOVE:
                copy = await self._move(deed, copy)
            case Operation.REVERT:
                copy = await self._revert(deed, copy)
            case Operation.SHELVE:
                act = Act("shelve", None, frozenset({"shelved", "shelved_offloaded"}))
                copy = await self._done(deed, copy, act)
                copy = await self._done(deed, copy, _to("shelveOffload", "shelved_offloaded"))
            case _:
                copy = await self._done(deed, copy, await self._act(deed, copy))
        copy = await self._noted(copy, replace_mark(copy.mark, move=deed.move, deed=deed.number))
        return await self._lookout.sighting(copy)

    async def _act(self, deed: Deed, copy: Copy) -> Act:
        simple = _SIMPLE.get(deed.operation)
        if simple is not None:
            return simple
        password = {} if deed.password is None else {"adminPass": deed.password.reveal().decode()}
        match deed.operation:
            case Operation.RESCUE:
                image = deed.arguments.image if deed.arguments is not None else None
                chosen = {} if image is None else {"rescue_image_ref": await self._stock.image(image)}
                return _to("rescue", "rescued", {**password, **chosen} or None)
            case Operation.SET_PASSWORD:
                return _to("changePassword", "active", password, again=True)
            case Operation.REBUILD:
                given = {**await self._rebuilt(deed, copy), **password}
                return Act("rebuild", given, frozenset({copy.state}) & _AT_REST or _AT_REST, again=True)
            case Operation.UNSHELVE:
                return await self._unshelve(deed)
        raise DeedFailed("not-offered", f"the openstack driver cannot {deed.operation} a server")

    async def _rebuilt(self, deed: Deed, copy: Copy) -> dict[str, object]:
        server, spec = deed.server, deed.server.spec
        if spec.image is None:
            raise DeedFailed("openstack-no-image", "Nova rebuilds no server without an image")
        mark = replace_mark(copy.mark, deed=deed.number)
        return {
            "imageRef": await self._stock.image(spec.image),
            "name": server.name,
            "metadata": {**spec.metadata, **mark.metadata()},
            "key_name": await self._stock.key(spec.key) if spec.key is not None else None,
            "user_data": spec.user_data or None,
        }

    async def _unshelve(self, deed: Deed) -> Act:
        # gap: a cloud before 2023.1 (compute 2.91) chooses itself where a server is unshelved
        names = await self._nodes.names(deed.host)
        endpoint = await self._cloud.endpoint(Service.COMPUTE)
        if names is None or endpoint.newest is None or endpoint.newest < _UNSHELVES_TO_HOST:
            return _to("unshelve", "active")
        return Act("unshelve", {"host": names[0]}, frozenset({"active"}), version=_UNSHELVES_TO_HOST)

    async def _move(self, deed: Deed, copy: Copy) -> Copy:
        """A resize or a cold migration up to the point where it waits for a word. The number is written first: while it
        waits, Nova lets nothing be written."""
        server, old = deed.server, deed.server.resize
        wanted = wanted_flavor(server.spec)
        migrates = old is None or flavor_name(wanted_flavor(old.spec)) == flavor_name(wanted)
        if copy.state == "resized":
            return copy
        names = await self._nodes.names(deed.host)
        if migrates:
            act = _to("migrate", "resized", None if names is None else {"host": names[0]})
        else:
            # gap: Nova takes no host for a resize: its scheduler chooses, and the zone is not told of another one
            act = _to("resize", "resized", {"flavorRef": await self._stock.flavor(server.spec)})
        before = copy.mark
        copy = await self._noted(copy, replace_mark(before, move=deed.move))
        try:
            return await self._done(deed, copy, act)
        except DeedFailed:
            left = await self._rested(deed.guest, copy)
            await self._noted(left, replace_mark(before, move=before.move if old is None else old.move))
            raise

    async def _revert(self, deed: Deed, copy: Copy) -> Copy:
        old = deed.server.resize
        if copy.state in _AT_REST and old is not None and (await self._lookout.sighting(copy)).host != old.host:
            raise DeedFailed("openstack-confirmed", "the move was confirmed in the cloud itself, and cannot be undone")
        return await self._done(deed, copy, _SIMPLE[Operation.REVERT])

    # --- one action -----------------------------------------------------------------------------

    async def _done(self, deed: Deed, copy: Copy, act: Act) -> Copy:
        """The copy, in one of the states that the act leads to."""
        if copy.state in act.leads and not act.again:
            return copy
        path, body = f"/servers/{copy.id}/action", {act.name: act.given}
        reply = await self._cloud.send(Service.COMPUTE, "POST", path, body, version=act.version)
        if reply.status == 409:
            # It may have come there meanwhile, by a word that was taken for lost.
            copy = await self._rested(deed.guest, copy)
            if copy.state in act.leads and not act.again:
                return copy
        if reply.status >= 400:
            raise refused(self._cloud.where, Service.COMPUTE, f"{deed.operation} the server", reply)
        begun = self._clock.now()

        def over(copies: tuple[Copy, ...]) -> bool:
            now = _of(copies, copy.id)
            if now is None or now.state == "error":
                return True
            return not now.busy and (now.state in act.leads or self._clock.now() - begun >= act.unsaid)

        after = _of(await self._waiting.until(deed.guest, over, f"end the {deed.operation}"), copy.id)
        if after is None:
            raise _gone(deed.guest)
        if after.state not in act.leads:
            said = after.fault or f"it is {after.wire.status} afterwards, and Nova does not say why"
            raise DeedFailed("openstack-not-done", f"Nova did not {deed.operation} the server: {said}", elsewhere=True)
        return after

    async def _rested(self, guest: str, copy: Copy) -> Copy:
        """The copy, once Nova is at work on it no more."""
        if not copy.busy:
            return copy

        def rests(copies: tuple[Copy, ...]) -> bool:
            now = _of(copies, copy.id)
            return now is None or not now.busy

        found = _of(await self._waiting.until(guest, rests, "end what it is at"), copy.id)
        if found is None:
            raise _gone(guest)
        return found

    async def _noted(self, copy: Copy, mark: Mark) -> Copy:
        """The mark is written, where Nova lets it be."""
        if copy.state not in _WRITABLE or copy.mark == mark:
            return copy
        changed = {marks.MOVE: str(mark.move), marks.DEED: str(mark.deed)}
        path = f"/servers/{copy.id}/metadata"
        reply = await self._cloud.send(Service.COMPUTE, "POST", path, {"metadata": changed})
        if reply.status != 200:
            raise refused(self._cloud.where, Service.COMPUTE, "note in the server's metadata what was done", reply)
        return Copy(replace(copy.wire, metadata={**copy.wire.metadata, **changed}), mark)


def replace_mark(mark: Mark, *, move: int | None = None, deed: int | None = None) -> Mark:
    return Mark(mark.guest, mark.move if move is None else move, mark.deed if deed is None else deed, mark.rack)


def _of(copies: tuple[Copy, ...], id: str) -> Copy | None:
    return next((copy for copy in copies if copy.id == id), None)


def _gone(guest: str) -> DeedFailed:
    return DeedFailed("no-guest", f"server {guest} was deleted in the cloud meanwhile")
