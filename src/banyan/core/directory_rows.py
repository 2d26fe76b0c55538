"""The directory's rows, as the zone uses them inside a unit of work. Implemented in store/directory.py.

Synchronous, in one transaction, as core/records.py has it: lists are ordered by key and paged, `after` is the last key
of the page before.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol, TypeVar

from banyan.core.directory import (
    AccessRule,
    ActorKind,
    ApplicationCredential,
    Credential,
    Endpoint,
    Grant,
    Group,
    Project,
    Region,
    Revocation,
    Role,
    Service,
    User,
)
from banyan.core.principal import ScopeKind
from banyan.core.time import Wall

R = TypeVar("R")
# A field's wanted value; None asks for rows that have none.
Filters = Mapping[str, str | bool | None]


class Rows(Protocol[R]):
    """Records of one kind, by id."""

    def get(self, id: str) -> R | None: ...

    def some(self, ids: Collection[str]) -> Mapping[str, R]:
        """Those of `ids` (at most 10,000) that there are."""

    def find(self, filters: Filters) -> R | None:
        """The first that has all these values."""

    def page(self, filters: Filters, after: str, limit: int) -> Sequence[R]: ...

    def add(self, record: R) -> bool:
        """False if its id, or what must be unique, is taken; nothing is written then."""

    def put(self, record: R) -> None:
        """Replaces the row of its id. Raises Conflict("name-taken") if what must be unique is taken."""

    def delete(self, id: str) -> bool: ...

    def delete_some(self, filters: Filters, limit: int) -> int:
        """Deletes at most `limit` rows; how many it were."""

    def count(self, filters: Filters) -> int: ...


class ProjectRows(Rows[Project], Protocol):
    def tagged(
        self,
        filters: Filters,
        after: str,
        limit: int,
        *,
        all_of: Sequence[str] = (),
        any_of: Sequence[str] = (),
        not_all_of: Sequence[str] = (),
        none_of: Sequence[str] = (),
    ) -> Sequence[Project]:
        """As `page`, by tags as well."""


class UserRows(Rows[User], Protocol):
    def forget_project(self, project: str) -> None:
        """It is nobody's default any more."""


class MembershipRows(Protocol):
    def add(self, group: str, user: str) -> bool: ...
    def remove(self, group: str, user: str) -> bool: ...
    def has(self, group: str, user: str) -> bool: ...
    def groups(self, user: str) -> Sequence[str]: ...
    def users(self, group: str, after: str, limit: int) -> Sequence[str]: ...


class ImplicationRows(Protocol):
    """Which role implies which: (prior, implied). A zone has few roles; all are read at once."""

    def all(self) -> Sequence[tuple[str, str]]: ...
    def add(self, prior: str, implied: str) -> bool: ...
    def remove(self, prior: str, implied: str) -> bool: ...


class GrantRows(Protocol):
    def add(self, grant: Grant) -> bool: ...
    def remove(self, grant: Grant) -> bool: ...
    def has(self, grant: Grant) -> bool: ...

    def on(
        self, actors: Collection[tuple[ActorKind, str]], targets: Collection[tuple[ScopeKind, str]]
    ) -> Sequence[Grant]:
        """Those of any of these actors on any of these targets, inherited or not."""

    def of(self, actors: Collection[tuple[ActorKind, str]], kind: ScopeKind, limit: int) -> Sequence[Grant]:
        """Those of any of these actors on anything of a kind."""

    def page(self, filters: Filters, after: Grant | None, limit: int) -> Sequence[Grant]:
        """filters: actor_kind, actor, target_kind, target, role, inherited."""

    def drop(self, filters: Filters) -> int:
        """Deletes those; how many. At least one filter must be given."""


class DirectoryRows(Protocol):
    """One transaction's view of the directory."""

    @property
    def projects(self) -> ProjectRows: ...
    @property
    def users(self) -> UserRows: ...
    @property
    def groups(self) -> Rows[Group]: ...
    @property
    def memberships(self) -> MembershipRows: ...
    @property
    def roles(self) -> Rows[Role]: ...
    @property
    def implications(self) -> ImplicationRows: ...
    @property
    def grants(self) -> GrantRows: ...
    @property
    def application_credentials(self) -> Rows[ApplicationCredential]: ...
    @property
    def access_rules(self) -> Rows[AccessRule]: ...
    @property
    def credentials(self) -> Rows[Credential]: ...
    @property
    def regions(self) -> Rows[Region]: ...
    @property
    def services(self) -> Rows[Service]: ...
    @property
    def endpoints(self) -> Rows[Endpoint]: ...
    @property
    def revocations(self) -> Rows[Revocation]: ...

    def sweep_revocations(self, now: Wall, limit: int) -> int:
        """Deletes those of tokens that have ended by themselves."""
