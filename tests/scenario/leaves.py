"""One leaf with servers, and a client that goes on after each death of the zone, as a real one would."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from banyan.core.errors import BanyanError, Unreachable
from banyan.core.ids import ZoneCode
from banyan.core.order import FlavorSnapshot, Order, Specification
from banyan.core.server import Action, ActionRecord, Arguments, Server, ServerQuery, Task, VmState
from banyan.simulate.invariants import Invariants
from banyan.simulate.loop import OverdueError
from banyan.simulate.site import Site
from banyan.simulate.world import World

T = TypeVar("T")

SPEC = Specification(
    "web", {"vcpu": 1, "memory_mib": 512, "disk_gib": 5}, flavor=FlavorSnapshot("f1", "tiny", 1, 512, 5)
)
BIG = Arguments(
    flavor=FlavorSnapshot("f2", "small", 2, 1024, 10), needs={"vcpu": 2, "memory_mib": 1024, "disk_gib": 10}
)
TOP = ZoneCode(1)
# What a client is told that does not know the outcome: it says the same again.
UNANSWERED = ("store-full", "not-running", "store-closed", "order-undecided", "order-lost", "server-undecided")


class Client:
    """Says everything until it is answered, under one request id and one order id each time."""

    def __init__(self, world: World, hosts: int = 4, guests: int = 0) -> None:
        self.world = world
        self.site: Site = world.add("leaf", hosts=hosts, guests=guests)
        self.invariants = Invariants(world)
        self.begin()
        world.advance(2.0)
        self.check()

    def begin(self) -> None:
        self.site.start()
        self.site.wait()

    def advance(self, seconds: float) -> None:
        """Time passes; a zone that died is started again, as under systemd."""
        end, step = self.world.loop.time() + seconds, max(0.25, seconds / 100)
        while self.world.loop.time() < end:
            if self.site.state in ("crashed", "ended"):
                self.begin()
            self.world.advance(min(step, max(0.001, end - self.world.loop.time())))
            self.check()

    def check(self, *, settled: bool = False) -> None:
        assert not self.world.failures() + self.invariants.broken(settled=settled)

    def settle(self, within: float = 900.0) -> None:
        """Until nothing is under way and all that must hold then holds."""
        end = self.world.loop.time() + within
        while True:
            self.advance(1.0)
            if self.site.running:
                try:
                    wrong = self.invariants.broken(settled=True)
                except (BanyanError, OverdueError) as error:
                    wrong = [str(error)]
                if not wrong:
                    return
            assert self.world.loop.time() < end, wrong

    def until_answered(self, ask: Callable[[Site], T]) -> T:
        """Raises what is an answer: everything but that the zone could not be reached, or does not know."""
        last = ""
        for _ in range(60):
            if self.site.state in ("crashed", "ended"):
                self.begin()
            try:
                return ask(self.site)
            except OverdueError as error:
                last = str(error)
            except Unreachable as error:
                if error.code not in UNANSWERED:
                    raise
                last = repr(error)
            self.advance(1.0)
        raise AssertionError(f"no answer in a minute: {last}")

    # --- words --------------------------------------------------------------------------------------

    def order(self, id: str = "", count: int = 1, spec: Specification = SPEC, **fields: object) -> list[str]:
        one = Order(id or self.site.ids.token(16).hex(), TOP, "p1", "u1", spec, count, count, **fields)
        taken = self.until_answered(
            lambda site: site.servers(
                lambda servers, caller: servers.order(replace(caller, request=f"req-{one.id}"), one)
            )
        )
        return [id for place in taken.order.placed for id in place.ids]

    def order_until_refused(self, spec: Specification) -> None:
        for _ in range(1_000):
            self.order(spec=spec)

    def confirm(self, order: str) -> None:
        self.until_answered(lambda site: site.servers(lambda servers, caller: servers.confirm(order)))

    def cancel(self, order: str) -> None:
        self.until_answered(lambda site: site.servers(lambda servers, caller: servers.cancel(caller, order)))

    def act(self, id: str, action: Action, arguments: Arguments | None = None) -> Server:
        request = f"req-{self.site.ids.token(8).hex()}"
        return self.until_answered(
            lambda site: site.servers(
                lambda servers, caller: servers.act(replace(caller, request=request), id, action, arguments)
            )
        )

    def show(self, id: str) -> Server:
        return self.until_answered(lambda site: site.servers(lambda servers, caller: servers.show(caller, id)))

    def page(self) -> list[Server]:
        query = ServerQuery(every_project=True)
        return list(
            self.until_answered(lambda site: site.servers(lambda servers, caller: servers.page(caller, query))).servers
        )

    def actions(self, id: str) -> list[ActionRecord]:
        return list(self.until_answered(lambda site: site.servers(lambda servers, caller: servers.actions(caller, id))))

    def rests(self, id: str, state: VmState, within: float = 400.0) -> Server:
        """Until the server is at rest in that state."""
        end = self.world.loop.time() + within
        while True:
            server = self.show(id)
            if (server.state, server.task) == (state, Task.NONE):
                return server
            assert self.world.loop.time() < end, f"{server.state} {server.task} {server.fault}"
            self.advance(0.5)

    def do(self, id: str, action: Action, state: VmState, arguments: Arguments | None = None) -> Server:
        self.act(id, action, arguments)
        return self.rests(id, state)

    def one(self, **fields: object) -> str:
        """A server that is active."""
        (id,) = self.order(**fields)
        self.rests(id, VmState.ACTIVE)
        return id


def used(client: Client, resource: str = "vcpu") -> int:
    client.advance(0.3)
    return client.site.ask(lambda surface, caller: surface.usage(caller, "")).resources[resource].used
