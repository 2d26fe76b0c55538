"""What the parts of the compute service share: ids, instants, units of work with their journal line."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from banyan.core.compute_rows import ComputeRows
from banyan.core.errors import NotFound
from banyan.core.permissions import NOTHING, Target, may, require
from banyan.core.ports import Clock, Ids, Store
from banyan.core.principal import Principal
from banyan.core.quota import DEFAULTS, Limits
from banyan.core.records import Unit
from banyan.core.time import Mono, Wall
from banyan.zone.firm import firm
from banyan.zone.own import Own

T = TypeVar("T")

# The most that one answer lists.
MAX_LIST = 1_000


@dataclass(frozen=True, slots=True)
class Desk:
    """`limits`: those that the settings give to every project."""

    own: Own
    store: Store
    clock: Clock
    ids: Ids
    limits: Limits = field(default_factory=lambda: DEFAULTS)

    def now(self) -> Wall:
        return self.own.wall()

    def mono(self) -> Mono:
        return self.clock.now()

    def new_uuid(self) -> str:
        """A random one, of version 4 (RFC 9562)."""
        raw = bytearray(self.ids.token(16))
        raw[6] = raw[6] & 0x0F | 0x40
        raw[8] = raw[8] & 0x3F | 0x80
        text = raw.hex()
        return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"

    async def read(self, work: Callable[[ComputeRows], T]) -> T:
        return await self.store.read(lambda unit: work(unit.compute))

    async def change(self, name: str, work: Callable[[Unit], T]) -> T:
        return await firm(self.store.write(name, work))

    def note(self, unit: Unit, who: Principal, kind: str, target: str, text: str, **facts: str) -> None:
        self.own.write(unit, self.own.event(kind, target, text, who.caller(), **facts))


def own_project(who: Principal, action: str) -> str:
    """The project of the token, if that is what it may do. Raises Refused."""
    require(who, action, Target(project=who.project, user=who.user))
    return who.project


def of_project(who: Principal, action: str, project: str, missing: NotFound) -> None:
    """Raises `missing` unless the caller may do that to a thing of `project`: other projects' things are not there."""
    if not may(who, action, Target(project=project)):
        raise missing


def require_anywhere(who: Principal, action: str) -> None:
    require(who, action, NOTHING)
