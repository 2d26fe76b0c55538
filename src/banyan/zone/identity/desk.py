"""What the parts of identity share: ids, units of work with their journal line, and telling the gate what changed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Generic, Protocol, TypeVar

from banyan.core import directory
from banyan.core.directory_rows import DirectoryRows
from banyan.core.errors import NotFound, Refused
from banyan.core.permissions import ADMIN_ROLE, NOTHING, Target, anywhere, forbidden, require
from banyan.core.ports import Ids, Store
from banyan.core.principal import Principal
from banyan.core.records import Unit
from banyan.core.secret import Secret
from banyan.trust import roles
from banyan.zone.firm import firm
from banyan.zone.own import Own

T = TypeVar("T")
R = TypeVar("R")

# The most that one answer lists.
MAX_LIST = 1_000
# Rows that go in one unit of work where many go.
BATCH = 1_000


class Passwords(Protocol):
    """Hashing, off the loop, a few at a time. Raises Unreachable("logins-busy") when too many wait."""

    async def hashed(self, password: Secret, address: str) -> str: ...

    async def matches(self, password: Secret, kept: str, address: str) -> bool: ...

    def measured(self) -> Mapping[str, float]:
        """Figures for /metrics, by Prometheus name."""


@dataclass(slots=True)
class Touched:
    """Whose tokens a change concerns: they are looked at anew. Ids; `all_of_them` where that is not few."""

    users: set[str] = field(default_factory=set)
    projects: set[str] = field(default_factory=set)
    all_of_them: bool = False


@dataclass(frozen=True, slots=True)
class Changes:
    """What of a record is to be another: values by field name, a user's password, and what goes among its `extra`."""

    fields: Mapping[str, object]
    password: Secret | None = None
    extra: directory.Extra = field(default_factory=dict)

    def apply(self, held: R) -> R:
        changed = replace(held, **self.fields)  # type: ignore[type-var]  # records are dataclasses
        if self.extra:
            changed = replace(changed, extra={**changed.extra, **self.extra})  # type: ignore[type-var, attr-defined]  # whoever changes `extra` changes a row that has it
        return changed

    def names(self) -> str:
        """What is changed, for the journal; never to what."""
        secret = () if self.password is None else ("password",)
        return ", ".join(sorted({*self.fields, *self.extra, *secret}))


@dataclass(frozen=True, slots=True)
class Listed(Generic[R]):
    """A page in the order of ids. `more`: there are further ones after the last."""

    items: Sequence[R]
    more: bool = False


@dataclass(frozen=True, slots=True)
class Asked:
    """What of a list is wanted: after which id, and how many at most."""

    after: str = ""
    limit: int = MAX_LIST


class Desk:
    def __init__(self, own: Own, store: Store, ids: Ids, passwords: Passwords) -> None:
        self.own = own
        self.store = store
        self.ids = ids
        self.passwords = passwords
        self.touch: Callable[[Touched], None] = lambda touched: None

    def new_id(self) -> str:
        return self.ids.token(16).hex()

    async def read(self, work: Callable[[DirectoryRows], T]) -> T:
        return await self.store.read(lambda unit: work(unit.directory))

    async def change(
        self,
        name: str,
        work: Callable[[Unit], T],
        touched: Touched | None = None,
        then: Callable[[T], None] | None = None,
    ) -> T:
        """Runs a unit of work and, once it is durable, `then`, and lets the gate look anew at whom it touched.

        Both happen even if whoever asked is gone by then. The unit may run more than once.
        """

        async def run() -> T:
            result = await self.store.write(name, work)
            if then is not None:
                then(result)
            if touched is not None:
                self.touch(touched)
            return result

        return await firm(run())

    def note(self, unit: Unit, who: Principal, kind: str, target: str, text: str, **facts: str) -> None:
        self.own.write(unit, self.own.event(kind, target, text, who.caller(), **facts))


def known(record: R | None, who: Principal, action: str, what: str, id: str) -> R:
    """`record` if it is there. Whoever may not see all of them is not told which there are: raises Refused."""
    if record is None:
        if anywhere(who, action):
            raise missing(what, id)
        raise forbidden(who, action)
    return record


def found(record: R | None, what: str, id: str) -> R:
    """`record`, or NotFound: whoever may ask for these may see all of them."""
    if record is None:
        raise missing(what, id)
    return record


def missing(what: str, id: str) -> NotFound:
    return NotFound(f"no-{what.replace(' ', '-')}", f"Could not find {what}: {id[:255]}.")


def listed(rows: Sequence[R], asked: Asked) -> Listed[R]:
    """A page out of rows that were read with one more than asked for."""
    return Listed(rows[: asked.limit], len(rows) > asked.limit)


def own_domain(who: Principal, action: str, domain: str | None) -> str | None:
    """The domain that a list is about: the wanted one, or the caller's own where it may see no other.

    Raises Refused for another domain's list.
    """
    if anywhere(who, action):
        return domain
    wanted = domain or who.domain
    require(who, action, Target(domain=wanted))
    return wanted


def check_may(who: Principal, action: str, target: Target = NOTHING) -> None:
    """As permissions.require, and not by a token that was had with a restricted application credential."""
    require(who, action, target)
    if who.restricted:
        raise Refused(
            "restricted",
            f"{action} is not allowed with a restricted application credential; log in by password, or make the "
            "credential with `unrestricted`",
        )


def role_names(rows: DirectoryRows, ids: Sequence[str] | set[str] | frozenset[str]) -> frozenset[str]:
    """The names of all roles that somebody has who is given these, by id."""
    held = roles.closure(ids, roles.implied_by(rows.implications.all()))
    return frozenset(role.name for role in rows.roles.some(held).values())


def check_gives(rows: DirectoryRows, who: Principal, action: str, given: Sequence[str] | set[str]) -> None:
    """Nobody gives more than they have, and only an admin of the whole cloud makes an admin. Raises Refused."""
    if anywhere(who, action):
        return
    names = role_names(rows, given)
    if ADMIN_ROLE in names or not names <= who.roles:
        over = ", ".join(sorted(name for name in names if name == ADMIN_ROLE or name not in who.roles))
        raise Refused(
            "forbidden",
            f"{action} is not allowed: it would give, or give power over, {over}; ask an admin of the cloud",
        )


def roles_held(rows: DirectoryRows, kind: directory.ActorKind, actor: str) -> set[str]:
    """Ids of the roles that an actor was given on anything, by itself or through a group."""
    actors = [(kind, actor)]
    if kind is directory.ActorKind.USER:
        actors += [(directory.ActorKind.GROUP, group) for group in rows.memberships.groups(actor)]
    found: set[str] = set()
    for actor_kind, id in actors:
        after: directory.Grant | None = None
        while page := rows.grants.page({"actor_kind": actor_kind.value, "actor": id}, after, BATCH):
            found |= {grant.role for grant in page}
            after = page[-1]
    return found
