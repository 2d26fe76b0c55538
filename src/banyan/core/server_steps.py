"""How a server's row changes: when an action is accepted, when its deed is done or has failed, when the rack says more.

Pure: rows in, rows out. What is allowed at all stands in server_states.py; where a server goes is placement's to say.
Each change raises the revision.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from msgspec.structs import replace

from banyan.core.deed import Deed, Operation, Sighting
from banyan.core.order import Specification
from banyan.core.secret import Secret
from banyan.core.server import Action, ActionRecord, Arguments, Fault, PendingResize, Power, Server, Task, VmState
from banyan.core.server_states import ACTIONS, ADMIN, OWNER, SERVER, TASKS
from banyan.core.time import Wall

OPERATIONS: Mapping[Task, Operation] = {
    Task.SPAWNING: Operation.CREATE,
    Task.DELETING: Operation.DELETE,
    Task.STARTING: Operation.START,
    Task.STOPPING: Operation.STOP,
    Task.REBOOTING: Operation.REBOOT,
    Task.REBOOTING_HARD: Operation.REBOOT_HARD,
    Task.REBUILDING: Operation.REBUILD,
    Task.RESIZING: Operation.MOVE,
    Task.MIGRATING: Operation.MOVE,
    Task.CONFIRMING: Operation.CONFIRM,
    Task.REVERTING: Operation.REVERT,
    Task.PAUSING: Operation.PAUSE,
    Task.UNPAUSING: Operation.UNPAUSE,
    Task.SUSPENDING: Operation.SUSPEND,
    Task.RESUMING: Operation.RESUME,
    Task.RESCUING: Operation.RESCUE,
    Task.UNRESCUING: Operation.UNRESCUE,
    Task.SHELVING: Operation.SHELVE,
    Task.OFFLOADING: Operation.SHELVE,
    Task.UNSHELVING: Operation.UNSHELVE,
    Task.SNAPSHOTTING: Operation.SNAPSHOT,
    Task.SETTING_PASSWORD: Operation.SET_PASSWORD,
    Task.ATTACHING: Operation.ATTACH,
    Task.DETACHING: Operation.DETACH,
}

# A guest that runs anew.
_LAUNCHES = frozenset({Task.SPAWNING, Task.REBUILDING, Task.RESIZING, Task.MIGRATING, Task.REVERTING, Task.UNSHELVING})
# What leaves a server as it was when it fails.
_HARMLESS = frozenset({Task.SNAPSHOTTING, Task.SETTING_PASSWORD, Task.ATTACHING, Task.DETACHING, Task.REBOOTING})
# States that follow the power that the rack sees; the others are more than power.
_FOLLOWS = frozenset({VmState.ACTIVE, VmState.STOPPED, VmState.PAUSED, VmState.SUSPENDED})
_SEEN: Mapping[Power, VmState] = {
    Power.RUNNING: VmState.ACTIVE,
    Power.OFF: VmState.STOPPED,
    Power.CRASHED: VmState.STOPPED,
    Power.PAUSED: VmState.PAUSED,
    Power.SUSPENDED: VmState.SUSPENDED,
}


class Spot(msgspec.Struct, frozen=True):
    """A host that was claimed: its id, its name, its availability zone."""

    host: str
    name: str = ""
    availability_zone: str = ""


# --- an action is accepted ----------------------------------------------------------------------


def wanted_specification(server: Server, action: Action, arguments: Arguments) -> Specification:
    """What the server will be: for the claim before RESIZE, MIGRATE, UNSHELVE and the row after it, and for REBUILD."""
    spec, a = server.spec, arguments
    if action in (Action.RESIZE, Action.MIGRATE, Action.UNSHELVE):
        # In another zone no host will do of those that were the old one's.
        hosts = a.hosts if a.hosts is not None else () if a.availability_zone else spec.hints.hosts
        zone = a.availability_zone or spec.availability_zone
        spec = replace(spec, hints=replace(spec.hints, hosts=hosts), availability_zone=zone)
    if action is Action.RESIZE and a.flavor is not None:
        spec = replace(spec, flavor=a.flavor, needs=a.needs, required=a.required, forbidden=a.forbidden)
    if action is Action.REBUILD:
        key = None if "key" in a.clear else a.key or spec.key
        user_data = "" if "user_data" in a.clear else spec.user_data if a.user_data is None else a.user_data
        metadata = spec.metadata if a.metadata is None else a.metadata
        spec = replace(spec, image=a.image or spec.image, key=key, user_data=user_data, metadata=metadata)
    if a.disk_config:
        spec = replace(spec, disk_config=a.disk_config)
    return spec


def accepted(
    server: Server,
    action: Action,
    arguments: Arguments,
    after: VmState,
    spot: Spot | None,
    now: Wall,
    *,
    owner: bool = False,
) -> Server:
    """`after`: where the action leads (server_states.check). `spot`: the new place of RESIZE, MIGRATE, UNSHELVE.
    `owner`: who asks is of the server's own project, so that its lock is its own to take off."""
    if action is Action.LOCK and server.locked and owner:
        # It makes no administrator's lock its own, which it could take off then.
        return server
    changed = replace(server, revision=server.revision + 1, updated=now)
    match action:
        case Action.LOCK:
            by = OWNER if owner else ADMIN
            return replace(changed, locked=True, locked_by=by, locked_reason=arguments.reason, updated=server.updated)
        case Action.UNLOCK:
            return replace(changed, locked=False, locked_by="", locked_reason="", updated=server.updated)
        case Action.RESET:
            state = arguments.state or VmState.ERROR
            return replace(changed, state=state, task=Task.NONE, wanted=state, fault=None, progress=0)
    changed = replace(changed, task=TASKS[action], wanted=after, progress=0)
    if action in (Action.RESIZE, Action.MIGRATE, Action.REBUILD, Action.UNSHELVE):
        changed = replace(changed, spec=wanted_specification(server, action, arguments))
    if action in (Action.RESIZE, Action.MIGRATE):
        old = PendingResize(server.spec, server.host, server.host_name, server.state, server.move, now)
        changed = replace(changed, resize=old)
    if spot is not None:
        changed = replace(
            changed,
            host=spot.host,
            host_name=spot.name,
            availability_zone=spot.availability_zone,
            move=server.move + 1,
        )
    if action is Action.REVERT_RESIZE:
        changed = replace(changed, move=server.move + 1)
    if action is Action.REBUILD:
        a = arguments
        changed = replace(
            changed,
            name=server.name if a.name is None else a.name,
            hostname=server.hostname if a.hostname is None else a.hostname,
            description=None
            if "description" in a.clear
            else server.description
            if a.description is None
            else a.description,
        )
    return changed


def deed(server: Server, record: ActionRecord | None, password: Secret | None = None) -> Deed:
    """What the server's task asks of the driver. `record`: of the action that is under way, None for the first."""
    number = 1 if record is None else record.number
    return Deed(OPERATIONS[server.task], server, number, None if record is None else record.arguments, password)


# --- what became of it --------------------------------------------------------------------------


def done(server: Server, seen: Sighting | None, now: Wall) -> Server:
    """The deed of the server's task is done; `seen`: how the guest is."""
    task = server.task
    power = Power.OFF if seen is None else seen.power
    changed = replace(
        server, task=Task.NONE, power=power, fault=None, updated=now, revision=server.revision + 1, progress=0
    )
    if task is Task.SPAWNING:
        return replace(changed, launched=now, state=SERVER.after(server.state, ACTIONS[task]))
    if task in _LAUNCHES:
        changed = replace(changed, launched=now)
    if task is Task.DELETING:
        return replace(
            changed, state=VmState.DELETED, power=Power.UNKNOWN, resize=None, terminated=now, deleted_at=now, nics=()
        )
    if task in (Task.SHELVING, Task.OFFLOADING):
        return replace(changed, state=VmState.OFFLOADED, host="", host_name="")
    resize = server.resize
    if task is Task.CONFIRMING and resize is not None:
        # In another state it is by a person's word.
        state = resize.state if server.state is VmState.RESIZED else server.state
        return replace(changed, state=state, resize=None)
    if task is Task.REVERTING and resize is not None:
        return replace(
            changed,
            state=resize.state,
            spec=resize.spec,
            host=resize.host,
            host_name=resize.host_name,
            resize=None,
        )
    return replace(changed, state=SERVER.after(server.state, ACTIONS[task]))


def failed(server: Server, fault: Fault, now: Wall) -> Server:
    """The deed is known not to have been done, and left nothing behind."""
    task, resize = server.task, server.resize
    changed = replace(server, task=Task.NONE, updated=now, revision=server.revision + 1, progress=0)
    if task in _HARMLESS:
        return replace(changed, wanted=server.state)
    changed = replace(changed, fault=fault)
    if task in (Task.RESIZING, Task.MIGRATING) and resize is not None:
        return replace(
            changed,
            state=resize.state,
            wanted=resize.state,
            spec=resize.spec,
            host=resize.host,
            host_name=resize.host_name,
            move=resize.move,
            resize=None,
        )
    if task is Task.UNSHELVING:
        return replace(changed, wanted=server.state, host="", host_name="", move=server.move - 1)
    if task is Task.SPAWNING:
        return replace(changed, state=VmState.ERROR, host="", host_name="", power=Power.UNKNOWN)
    return replace(changed, state=VmState.ERROR)


def unknown(server: Server, fault: Fault, now: Wall) -> Server:
    """Nobody knows whether the deed was done, and patience is over: it keeps every place that it may hold."""
    return replace(
        server,
        state=VmState.ERROR,
        task=Task.NONE,
        power=Power.UNKNOWN,
        fault=fault,
        updated=now,
        revision=server.revision + 1,
        progress=0,
    )


def placed_anew(server: Server, spot: Spot, now: Wall) -> Server:
    """A build that failed is tried on another host, as the next copy."""
    return replace(
        server,
        host=spot.host,
        host_name=spot.name,
        availability_zone=spot.availability_zone,
        move=server.move + 1,
        revision=server.revision + 1,
        updated=now,
    )


def observed(server: Server, power: Power, now: Wall) -> Server:
    """What the rack sees of a server at rest: one that shut itself down is stopped, whatever was wanted."""
    if server.task is not Task.NONE:
        return server
    state = _SEEN.get(power, server.state) if server.state in _FOLLOWS else server.state
    if (state, power) == (server.state, server.power):
        return server
    return replace(server, state=state, wanted=state, power=power, updated=now, revision=server.revision + 1)


def vanished(server: Server, now: Wall) -> Server:
    """A complete scan did not have it. It keeps its place: the rack may be wrong, and only a person may say so."""
    text = f"host {server.host_name or server.host} no longer has this guest; delete the server, or rebuild it"
    return replace(
        server,
        state=VmState.ERROR,
        power=Power.UNKNOWN,
        fault=Fault(500, text, now),
        updated=now,
        revision=server.revision + 1,
    )
