"""Which action a server takes in which state, and where it leads: tables and nothing else.

Two questions are asked of every action: does the state allow it (SERVER), and does what is under way (`while_busy`)?
Both refuse with what the state is and what would be possible. The words are core.server's.
"""

from __future__ import annotations

from collections.abc import Mapping

from banyan.core.errors import Conflict, Refused
from banyan.core.server import Action, Server, Task, VmState
from banyan.core.transitions import Move, Table

_S, _A = VmState, Action

# What an action is called while it runs. LOCK, UNLOCK and RESET run in no time and have no task.
TASKS: Mapping[Action, Task] = {
    _A.CREATE: Task.SPAWNING,
    _A.DELETE: Task.DELETING,
    _A.START: Task.STARTING,
    _A.STOP: Task.STOPPING,
    _A.REBOOT: Task.REBOOTING,
    _A.REBOOT_HARD: Task.REBOOTING_HARD,
    _A.REBUILD: Task.REBUILDING,
    _A.RESIZE: Task.RESIZING,
    _A.CONFIRM_RESIZE: Task.CONFIRMING,
    _A.REVERT_RESIZE: Task.REVERTING,
    _A.MIGRATE: Task.MIGRATING,
    _A.PAUSE: Task.PAUSING,
    _A.UNPAUSE: Task.UNPAUSING,
    _A.SUSPEND: Task.SUSPENDING,
    _A.RESUME: Task.RESUMING,
    _A.RESCUE: Task.RESCUING,
    _A.UNRESCUE: Task.UNRESCUING,
    _A.SHELVE: Task.SHELVING,
    _A.OFFLOAD: Task.OFFLOADING,
    _A.UNSHELVE: Task.UNSHELVING,
    _A.SNAPSHOT: Task.SNAPSHOTTING,
    _A.SET_PASSWORD: Task.SETTING_PASSWORD,
    _A.ATTACH: Task.ATTACHING,
    _A.DETACH: Task.DETACHING,
}
ACTIONS: Mapping[Task, Action] = {task: action for action, task in TASKS.items()}


def _moves() -> list[Move[VmState, Action]]:
    moves: list[Move[VmState, Action]] = []

    def may(action: Action, states: tuple[VmState, ...], after: VmState | None, why: str) -> None:
        """`after` None: as it was before."""
        moves.extend(Move(state, action, after or state, why) for state in states)

    living = tuple(state for state in VmState if state is not _S.DELETED)
    settled = tuple(state for state in living if state is not _S.BUILDING)
    may(_A.CREATE, (_S.BUILDING,), _S.ACTIVE, "the host runs it")
    may(_A.DELETE, living, _S.DELETED, "a delete wins over everything")
    may(_A.START, (_S.STOPPED,), _S.ACTIVE, "powered on")
    may(_A.STOP, (_S.ACTIVE, _S.ERROR), _S.STOPPED, "powered off")
    may(_A.REBOOT, (_S.ACTIVE,), _S.ACTIVE, "the guest is asked to restart")
    may(_A.REBOOT_HARD, (_S.ACTIVE, _S.STOPPED, _S.PAUSED, _S.SUSPENDED, _S.ERROR), _S.ACTIVE, "power is cycled")
    may(_A.REBUILD, (_S.ACTIVE, _S.STOPPED), None, "the disk is made anew, the power stays as it was")
    may(_A.REBUILD, (_S.ERROR,), _S.ACTIVE, "made anew on its host")
    may(_A.RESIZE, (_S.ACTIVE, _S.STOPPED), _S.RESIZED, "runs with the new flavor until confirmed or reverted")
    may(_A.MIGRATE, (_S.ACTIVE, _S.STOPPED), _S.RESIZED, "runs on another host until confirmed or reverted")
    may(_A.CONFIRM_RESIZE, (_S.RESIZED,), _S.ACTIVE, "the old place is given up")
    may(_A.REVERT_RESIZE, (_S.RESIZED,), _S.ACTIVE, "back at the old place")
    may(_A.PAUSE, (_S.ACTIVE,), _S.PAUSED, "held in memory")
    may(_A.UNPAUSE, (_S.PAUSED,), _S.ACTIVE, "runs on")
    may(_A.SUSPEND, (_S.ACTIVE,), _S.SUSPENDED, "memory is kept on disk")
    may(_A.RESUME, (_S.SUSPENDED,), _S.ACTIVE, "memory is back")
    may(_A.RESCUE, (_S.ACTIVE, _S.STOPPED, _S.ERROR), _S.RESCUED, "booted from another image")
    may(_A.UNRESCUE, (_S.RESCUED,), _S.ACTIVE, "booted from its own disk again")
    may(_A.SHELVE, (_S.ACTIVE, _S.STOPPED, _S.PAUSED, _S.SUSPENDED), _S.OFFLOADED, "its host is free")
    may(_A.OFFLOAD, (_S.SHELVED,), _S.OFFLOADED, "its host is free")
    may(_A.UNSHELVE, (_S.SHELVED, _S.OFFLOADED), _S.ACTIVE, "has a place again, and runs")
    may(_A.SNAPSHOT, (_S.ACTIVE, _S.STOPPED, _S.PAUSED, _S.SUSPENDED), None, "an image was filled")
    may(_A.SET_PASSWORD, (_S.ACTIVE,), None, "the guest has the password")
    may(_A.ATTACH, (_S.ACTIVE, _S.PAUSED, _S.STOPPED), None, "one more interface")
    may(_A.DETACH, (_S.ACTIVE, _S.PAUSED, _S.STOPPED), None, "one interface less")
    may(_A.LOCK, living, None, "only an operator's words count from now on")
    may(_A.UNLOCK, living, None, "the user's words count again")
    may(_A.RESET, settled, None, "a person says what it is")
    return moves


SERVER: Table[VmState, Action] = Table("server", VmState, Action, _moves())

# What may be asked although something is under way, and while what; all else waits for its end.
_ANY = frozenset(Task) - {Task.NONE}
_WHILE: Mapping[Action, frozenset[Task]] = {
    # A delete under way needs no other, and is no reason to refuse one.
    Action.DELETE: _ANY,
    Action.LOCK: _ANY,
    Action.UNLOCK: _ANY,
    Action.RESET: _ANY - {Task.SPAWNING, Task.DELETING},
    # A guest that does not answer to a soft one.
    Action.REBOOT_HARD: frozenset(
        {Task.REBOOTING, Task.PAUSING, Task.UNPAUSING, Task.SUSPENDING, Task.RESUMING, Task.STOPPING}
    ),
}
# States of a server whose resize is to be settled still, if a person reset it from RESIZED.
_BY_RESET = frozenset({VmState.ACTIVE, VmState.STOPPED})
# What would lose the place that a resize keeps.
_AFTER_SETTLING = frozenset({Action.RESIZE, Action.MIGRATE, Action.SHELVE})
# Who locked a server, as Nova has it: somebody of its own project, or an administrator from outside of it.
OWNER, ADMIN = "owner", "admin"
# A locked server still takes these of its owner.
_WHEN_LOCKED = frozenset({Action.LOCK, Action.UNLOCK})


def check(server: Server, action: Action, *, operator: bool) -> VmState:
    """The state to which the action leads. Raises Conflict: "bad-state" or "busy" (each with what it is and what would
    be possible), "locked" (not for operators); Refused("forbidden") for an owner who would take off an administrator's
    lock."""
    if action is Action.UNLOCK and server.locked_by == ADMIN and not operator:
        raise Refused("forbidden", f"server {server.id} was locked by an administrator, and only one unlocks it")
    if server.locked and not operator and action not in _WHEN_LOCKED:
        raise Conflict("locked", f"server {server.id} is locked; unlock it first")
    # A person may say that it is another state: what was kept of a resize is kept for all that, until it is settled.
    unsettled = server.resize is not None and server.state is not VmState.RESIZED
    if unsettled and server.state in _BY_RESET and action in (Action.CONFIRM_RESIZE, Action.REVERT_RESIZE):
        state = VmState.RESIZED
    else:
        state = server.state
    if not SERVER.allows(state, action):
        possible = ", ".join(SERVER.allowed(server.state)) or "nothing any more"
        raise Conflict(
            "bad-state",
            f"cannot {action} server {server.id} while it is {server.state}; possible are: {possible}",
        )
    if server.task is not Task.NONE and server.task not in _WHILE.get(action, frozenset()):
        raise Conflict(
            "busy",
            f"cannot {action} server {server.id} while it is {server.task}; wait until that is done, or delete it",
            transient=True,
        )
    if unsettled and action in _AFTER_SETTLING:
        raise Conflict(
            "bad-state",
            f"cannot {action} server {server.id} while its last resize or migration is neither confirmed nor reverted",
        )
    after = SERVER.after(state, action)
    if unsettled and action is Action.CONFIRM_RESIZE:
        return server.state
    if action in (Action.CONFIRM_RESIZE, Action.REVERT_RESIZE) and server.resize is not None:
        return server.resize.state
    return after
