"""Bodies of requests about servers: they come back as they were sent, and what is beyond their bounds is refused."""

from __future__ import annotations

import msgspec
import pytest

from banyan.core.errors import BadInput
from banyan.core.ids import ZoneCode
from banyan.core.order import Order, Specification
from banyan.core.principal import Principal, ScopeKind
from banyan.core.server import Action, ServerQuery
from banyan.core.server_messages import ActCall, IdCall, LookCall, Person, PlaceCall, ServersCall, read
from banyan.core.time import Wall

PERSON = Person(ZoneCode(7), "u1", "ann", "d1", "project", ("member", "reader"), "p1", "d1")
ORDER = Order("o1", ZoneCode(7), "p1", "u1", Specification("web", {"vcpu": 1}))
CALLS: tuple[msgspec.Struct, ...] = (
    PlaceCall(ORDER, 3, (), PERSON),
    ActCall("id", Action.STOP, person=PERSON),
    LookCall(("a", "b"), False, PERSON),
    ServersCall(ServerQuery(limit=10), PERSON),
    IdCall("id"),
)


@pytest.mark.parametrize("call", CALLS, ids=lambda call: type(call).__name__)
def test_each_comes_back_as_it_was_sent(call: msgspec.Struct) -> None:
    assert read(msgspec.msgpack.encode(call), type(call)) == call


def test_a_newer_sender_is_understood() -> None:
    body = msgspec.msgpack.encode([*msgspec.to_builtins(IdCall("id")), "a field of tomorrow"])
    assert read(body, IdCall) == IdCall("id")


@pytest.mark.parametrize(
    "call",
    [
        IdCall(""),
        IdCall("a" * 256),
        IdCall("a\0b"),
        LookCall(tuple(str(n) for n in range(101))),
        ServersCall(ServerQuery(limit=0)),
        ServersCall(ServerQuery(limit=1001)),
        IdCall("id", 0, msgspec.structs.replace(PERSON, roles=tuple(str(n) for n in range(65)))),
    ],
    ids=lambda call: str(call)[:40],
)
def test_what_is_beyond_a_bound_is_refused(call: msgspec.Struct) -> None:
    with pytest.raises(BadInput):
        read(msgspec.msgpack.encode(call), type(call))


def test_a_user_is_the_same_below_but_for_its_token() -> None:
    who = Principal(
        ZoneCode(7), "u1", "ann", "d1", ScopeKind.PROJECT, frozenset({"member"}), Wall(9.0), "p1", "d1", audit="x"
    )
    below = Person.of(who).principal("10.0.0.1", "req-1")
    assert (below.issuer, below.user, below.project, below.roles, below.scope) == (7, "u1", "p1", who.roles, who.scope)
    assert (below.address, below.request) == ("10.0.0.1", "req-1")
    with pytest.raises(ValueError, match="cluster"):
        msgspec.structs.replace(PERSON, scope="cluster").principal("", "")
