"""All pairs of state and action: a move, or a refusal that says what would be possible."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from banyan.core.errors import Conflict, Refused
from banyan.core.ids import RackCode, ZoneCode, guest_id
from banyan.core.order import Specification
from banyan.core.server import Action, Arguments, PendingResize, Server, Task, VmState
from banyan.core.server_states import ACTIONS, SERVER, TASKS, check
from banyan.core.server_steps import accepted
from banyan.core.time import Wall

SPEC = Specification("web", {"vcpu": 1})
AT_ONCE = {Action.LOCK, Action.UNLOCK, Action.RESET}


def server(state: VmState = VmState.ACTIVE, task: Task = Task.NONE, locked: bool = False) -> Server:
    id = guest_id(1_800_000_000_000, RackCode(77), 5)
    return Server(
        id, ZoneCode(1), "p", "u", "web", RackCode(77), "h1", SPEC, Wall(1.0), Wall(1.0), state, task, locked=locked
    )


@pytest.mark.parametrize("state", VmState)
@pytest.mark.parametrize("action", Action)
def test_every_pair_is_a_move_or_a_refusal_that_helps(state: VmState, action: Action) -> None:
    one = server(state)
    if SERVER.allows(state, action):
        assert check(one, action, operator=False) in VmState
        return
    with pytest.raises(Conflict) as refused:
        check(one, action, operator=False)
    assert refused.value.code == "bad-state"
    assert one.id in refused.value.text
    assert state in refused.value.text
    assert all(possible in refused.value.text for possible in SERVER.allowed(state))


@pytest.mark.parametrize("state", [state for state in VmState if state is not VmState.DELETED])
@pytest.mark.parametrize("task", Task)
def test_a_delete_is_never_refused(state: VmState, task: Task) -> None:
    assert check(server(state, task), Action.DELETE, operator=False) is VmState.DELETED


def test_every_action_but_those_done_at_once_has_a_task_of_its_own() -> None:
    assert {*TASKS} == {*Action} - AT_ONCE
    assert {*ACTIONS} == {*Task} - {Task.NONE}


@pytest.mark.parametrize("task", [task for task in Task if task is not Task.NONE])
def test_what_is_under_way_is_not_disturbed(task: Task) -> None:
    for action in (Action.STOP, Action.REBUILD, Action.RESIZE, Action.SHELVE, Action.SNAPSHOT, Action.ATTACH):
        with pytest.raises(Conflict) as refused:
            check(server(VmState.ACTIVE, task), action, operator=True)
        assert (refused.value.code, refused.value.transient) == ("busy", True)
        assert task in refused.value.text


def test_a_locked_server_obeys_operators_only() -> None:
    locked = server(VmState.ACTIVE, locked=True)
    with pytest.raises(Conflict) as refused:
        check(locked, Action.DELETE, operator=False)
    assert refused.value.code == "locked"
    assert check(locked, Action.DELETE, operator=True) is VmState.DELETED
    assert check(locked, Action.UNLOCK, operator=False) is VmState.ACTIVE


def locked_by(row: Server, owner: bool, operator: bool = False, reason: str = "") -> Server:
    after = check(row, Action.LOCK, operator=operator)
    return accepted(row, Action.LOCK, Arguments(reason=reason), after, None, Wall(2.0), owner=owner)


def test_an_administrators_lock_is_an_administrators_to_take_off() -> None:
    held = locked_by(server(), owner=False, operator=True, reason="abuse")
    assert (held.locked, held.locked_by, held.locked_reason) == (True, "admin", "abuse")
    # The owner's lock on top of it makes it no lock of the owner's.
    again = locked_by(held, owner=True, reason="mine")
    for row in (held, again):
        assert (row.locked_by, row.locked_reason) == ("admin", "abuse")
        with pytest.raises(Refused, match="administrator"):
            check(row, Action.UNLOCK, operator=False)
    after = check(held, Action.UNLOCK, operator=True)
    free = accepted(held, Action.UNLOCK, Arguments(), after, None, Wall(3.0))
    assert (free.locked, free.locked_by, free.locked_reason) == (False, "", "")


def test_an_owners_lock_is_its_own_and_becomes_an_administrators() -> None:
    mine = locked_by(server(), owner=True, reason="mine")
    assert (mine.locked_by, mine.locked_reason) == ("owner", "mine")
    assert check(mine, Action.UNLOCK, operator=False) is VmState.ACTIVE
    theirs = locked_by(mine, owner=False, operator=True, reason="theirs")
    assert (theirs.locked_by, theirs.locked_reason) == ("admin", "theirs")


def test_after_a_resize_it_is_what_it_was_before() -> None:
    stopped = PendingResize(SPEC, "h0", "host-0", VmState.STOPPED, 1, Wall(1.0))
    one = server(VmState.RESIZED)
    one = Server(*[stopped if name == "resize" else getattr(one, name) for name in one.__struct_fields__])
    assert check(one, Action.CONFIRM_RESIZE, operator=False) is VmState.STOPPED
    assert check(one, Action.REVERT_RESIZE, operator=False) is VmState.STOPPED


@pytest.mark.parametrize("state", [VmState.ACTIVE, VmState.STOPPED, VmState.ERROR])
def test_a_resize_that_a_person_reset_is_settled_before_another_move(state: VmState) -> None:
    old = PendingResize(SPEC, "h0", "h0", VmState.STOPPED, 1, Wall(1.0))
    one = replace(server(state), resize=old)
    for action in (Action.CONFIRM_RESIZE, Action.REVERT_RESIZE):
        if state is VmState.ERROR:
            with pytest.raises(Conflict, match="possible are"):
                check(one, action, operator=True)
        else:
            after = state if action is Action.CONFIRM_RESIZE else VmState.STOPPED
            assert check(one, action, operator=False) is after
            with pytest.raises(Conflict, match="while it is resizing"):
                check(replace(one, task=Task.RESIZING), action, operator=False)
            with pytest.raises(Conflict, match="possible are"):
                check(server(state), action, operator=False)
    if state is VmState.ACTIVE:
        for action in (Action.RESIZE, Action.MIGRATE, Action.SHELVE):
            with pytest.raises(Conflict, match="neither confirmed nor reverted"):
                check(one, action, operator=True)
