"""OpenStack's words for servers: statuses, states, power, actions. Tables and nothing else.

A *status* is made of the state and of what is under way, as nova/api/openstack/common.py has it there.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import UTC, datetime

from banyan.core.server import Action, Power, Server, Task, VmState

_S, _T = VmState, Task

_STATUS: Mapping[VmState, str] = {
    _S.BUILDING: "BUILD",
    _S.ACTIVE: "ACTIVE",
    _S.STOPPED: "SHUTOFF",
    _S.PAUSED: "PAUSED",
    _S.SUSPENDED: "SUSPENDED",
    _S.RESIZED: "VERIFY_RESIZE",
    _S.RESCUED: "RESCUE",
    _S.SHELVED: "SHELVED",
    _S.OFFLOADED: "SHELVED_OFFLOADED",
    _S.ERROR: "ERROR",
    _S.DELETED: "DELETED",
}
# Only while something is under way.
_BUSY: Mapping[tuple[VmState, Task], str] = {
    (_S.ACTIVE, _T.REBOOTING): "REBOOT",
    (_S.ACTIVE, _T.REBOOTING_HARD): "HARD_REBOOT",
    (_S.ACTIVE, _T.SETTING_PASSWORD): "PASSWORD",
    (_S.ACTIVE, _T.REBUILDING): "REBUILD",
    (_S.ACTIVE, _T.RESIZING): "RESIZE",
    (_S.ACTIVE, _T.MIGRATING): "RESIZE",
    (_S.STOPPED, _T.RESIZING): "RESIZE",
    (_S.STOPPED, _T.MIGRATING): "RESIZE",
    (_S.STOPPED, _T.REBUILDING): "REBUILD",
    (_S.RESIZED, _T.REVERTING): "REVERT_RESIZE",
    (_S.ERROR, _T.REBUILDING): "REBUILD",
}
# Words that have no state of ours: nothing is ever in them.
NEVER = frozenset({"MIGRATING", "SOFT_DELETED", "UNKNOWN"})

STATE_WORDS: Mapping[VmState, str] = {**{state: state.value for state in VmState}, _S.OFFLOADED: "shelved_offloaded"}
STATES: Mapping[str, VmState] = {word: state for state, word in STATE_WORDS.items()}
TASK_WORDS: Mapping[Task, str | None] = {
    _T.NONE: None,
    _T.SPAWNING: "spawning",
    _T.STARTING: "powering-on",
    _T.STOPPING: "powering-off",
    _T.REBOOTING: "rebooting",
    _T.REBOOTING_HARD: "rebooting_hard",
    _T.REBUILDING: "rebuilding",
    _T.RESIZING: "resize_prep",
    _T.CONFIRMING: None,
    _T.REVERTING: "resize_reverting",
    _T.MIGRATING: "resize_prep",
    _T.PAUSING: "pausing",
    _T.UNPAUSING: "unpausing",
    _T.SUSPENDING: "suspending",
    _T.RESUMING: "resuming",
    _T.RESCUING: "rescuing",
    _T.UNRESCUING: "unrescuing",
    _T.SHELVING: "shelving",
    _T.OFFLOADING: "shelving_offloading",
    _T.UNSHELVING: "unshelving",
    _T.SNAPSHOTTING: "image_snapshot",
    _T.SETTING_PASSWORD: "updating_password",
    _T.ATTACHING: None,
    _T.DETACHING: None,
    _T.DELETING: "deleting",
}
POWER: Mapping[Power, int] = {
    Power.UNKNOWN: 0,
    Power.RUNNING: 1,
    Power.PAUSED: 3,
    Power.OFF: 4,
    Power.CRASHED: 6,
    Power.SUSPENDED: 7,
}
ACTION_WORDS: Mapping[Action, str] = {
    Action.CREATE: "create",
    Action.DELETE: "delete",
    Action.START: "start",
    Action.STOP: "stop",
    Action.REBOOT: "reboot",
    Action.REBOOT_HARD: "reboot",
    Action.REBUILD: "rebuild",
    Action.RESIZE: "resize",
    Action.CONFIRM_RESIZE: "confirmResize",
    Action.REVERT_RESIZE: "revertResize",
    Action.MIGRATE: "migrate",
    Action.PAUSE: "pause",
    Action.UNPAUSE: "unpause",
    Action.SUSPEND: "suspend",
    Action.RESUME: "resume",
    Action.RESCUE: "rescue",
    Action.UNRESCUE: "unrescue",
    Action.SHELVE: "shelve",
    Action.OFFLOAD: "shelveOffload",
    Action.UNSHELVE: "unshelve",
    Action.SNAPSHOT: "createImage",
    Action.SET_PASSWORD: "changePassword",
    Action.ATTACH: "attach_interface",
    Action.DETACH: "detach_interface",
    Action.LOCK: "lock",
    Action.UNLOCK: "unlock",
    Action.RESET: "resetState",
}
# Statuses that go with a number of how far it is.
PROGRESS = frozenset({"ACTIVE", "BUILD", "REBUILD", "RESIZE", "VERIFY_RESIZE", "MIGRATING"})
FAULTY = frozenset({"ERROR", "DELETED"})


def status(server: Server) -> str:
    if server.deleted_at is not None:
        return "DELETED"
    return _BUSY.get((server.state, server.task)) or _STATUS[server.state]


def behind(words: tuple[str, ...]) -> tuple[tuple[VmState, ...], tuple[Task, ...] | None] | None:
    """The states, and the tasks if only those count, that these statuses may stand for. None for none that is known.

    As Nova has it: of several statuses, one without a task lets all tasks through.
    """
    wanted = {word.upper() for word in words}
    states = {state for state, word in _STATUS.items() if word in wanted}
    tasks: set[Task] | None = set() if not states else None
    for (state, task), word in _BUSY.items():
        if word in wanted:
            states.add(state)
            if tasks is not None:
                tasks.add(task)
    if not states:
        return None
    return tuple(sorted(states)), None if tasks is None else tuple(sorted(tasks))


def time(instant: float) -> str:
    """As most of the API writes instants: UTC, whole seconds, with a Z."""
    return f"{datetime.fromtimestamp(int(instant), UTC).isoformat()[:19]}Z"


def precise(instant: float | None) -> str | None:
    """As some of it does: UTC, microseconds, no zone."""
    return None if instant is None else datetime.fromtimestamp(instant, UTC).isoformat(timespec="microseconds")[:26]


def host_id(project: str, host: str) -> str:
    """One word for a host that tells a project nothing but which of its servers are together; "" for none."""
    return hashlib.sha224(f"{project}{host}".encode()).hexdigest() if host else ""
