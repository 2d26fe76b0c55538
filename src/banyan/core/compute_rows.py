"""Rows of what stands in core/compute.py and core/quota.py, as the zone uses them inside a unit of work.

Synchronous, in one transaction, as core/records.py has it. Implemented in store/compute.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Protocol

from banyan.core.compute import Aggregate, Flavor, FlavorQuery, KeyPair, Migration, MigrationState, ServerGroup
from banyan.core.directory_rows import Rows
from banyan.core.quota import Limits, Use, UseRow
from banyan.core.time import Wall


class FlavorRows(Rows[Flavor], Protocol):
    def query(self, query: FlavorQuery, after: Flavor | None, limit: int) -> Sequence[Flavor]:
        """In the query's order; after that one, which need not be there any more."""

    def projects(self, flavor: str) -> Sequence[str]:
        """Those that a flavor is open to, by id; at most 10,000."""

    def open(self, flavor: str, project: str) -> bool:
        """False if it was open to the project before."""

    def close(self, flavor: str, project: str) -> bool: ...
    def is_open(self, flavor: str, project: str) -> bool: ...


class KeyPairRows(Protocol):
    """By (user, name)."""

    def get(self, user: str, name: str) -> KeyPair | None: ...
    def page(self, user: str, after: str, limit: int) -> Sequence[KeyPair]:
        """By name."""

    def add(self, key: KeyPair) -> bool:
        """False, and nothing written, if the user has one of that name. Its number is drawn here."""

    def delete(self, user: str, name: str) -> bool: ...


class AggregateRows(Protocol):
    """A zone has at most MAX_AGGREGATES; all are read at once, by id."""

    def all(self) -> Sequence[Aggregate]: ...
    def get(self, id: int) -> Aggregate | None: ...
    def add(self, aggregate: Aggregate) -> Aggregate | None:
        """With the number that was drawn for it; None, and nothing written, if the name is taken."""

    def put(self, aggregate: Aggregate) -> None:
        """Raises Conflict("name-taken")."""

    def delete(self, id: int) -> bool: ...


class MigrationRows(Protocol):
    def add(self, migration: Migration) -> int:
        """Its number, drawn here."""

    def settle(self, server: str, state: MigrationState, at: Wall) -> None:
        """The server's newest one that is MOVING came to this."""

    def page(self, servers: Sequence[str], project: str, user: str, after: int, limit: int) -> Sequence[Migration]:
        """The newest first, with numbers below `after` (0: all). `servers`: only theirs, if any is given."""

    def number(self, id: str) -> int | None: ...
    def sweep(self, before: Wall, limit: int) -> int:
        """Deletes those that were touched last before then; at most `limit`."""


class Tally(StrEnum):
    """What is counted per owner, so that its limit holds whoever writes at once. SEEDED: what was done once."""

    SEEDED = "seeded"
    KEY_PAIRS = "key_pairs"
    SERVER_GROUPS = "server_groups"


class QuotaRows(Protocol):
    """Limits by (project, what); of project "" they are those of every project that has none of its own."""

    def limits(self, project: str) -> Limits:
        """Only those that were set."""

    def set(self, project: str, limits: Limits) -> None: ...
    def clear(self, project: str) -> None: ...
    def use(self, project: str) -> UseRow | None: ...
    def take(self, project: str, wanted: Use, limits: Limits) -> bool:
        """Raises the ceiling of the project's use by one conditional update; False if a limit would be passed, or if
        the project has no row."""

    def give(self, project: str, back: Use) -> None:
        """Lowers it. It never falls below zero."""

    def recount(self, project: str, revision: int, excess: Use) -> bool:
        """Lowers it by what was found too much, unless it was counted anew since that revision; raises the revision."""

    def begin(self, project: str, use: Use) -> bool:
        """Makes the project's row; False if there is one."""

    def tally(self, what: Tally, owner: str, most: int) -> bool:
        """Counts one more; False, and nothing counted, if there would be more than `most` (UNLIMITED: any number)."""

    def untally(self, what: Tally, owner: str) -> None: ...
    def tallied(self, what: Tally, owner: str) -> int: ...


class ComputeRows(Protocol):
    @property
    def flavors(self) -> FlavorRows: ...
    @property
    def key_pairs(self) -> KeyPairRows: ...
    @property
    def groups(self) -> Rows[ServerGroup]: ...
    @property
    def aggregates(self) -> AggregateRows: ...
    @property
    def migrations(self) -> MigrationRows: ...
    @property
    def quotas(self) -> QuotaRows: ...
