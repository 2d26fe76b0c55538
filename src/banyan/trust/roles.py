"""Which roles a user has, where: implication, groups, inheritance. Pure; what it is fed has been read in one snapshot.

The rules are Keystone's: a role brings what it implies, transitively; a group's grants are its members'; an inherited
grant counts for the projects below its target and not for the target itself; a domain's own role counts by
what it implies.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from banyan.core.directory import Grant, Role
from banyan.core.principal import ScopeKind

Implied = Mapping[str, frozenset[str]]


def implied_by(pairs: Iterable[tuple[str, str]]) -> Implied:
    """(prior, implied) pairs as prior → what it implies directly."""
    found: dict[str, set[str]] = {}
    for prior, implied in pairs:
        found.setdefault(prior, set()).add(implied)
    return {prior: frozenset(ids) for prior, ids in found.items()}


def closure(roles: Iterable[str], implied: Implied) -> frozenset[str]:
    """`roles` and all that they imply, ids. Downwards only; a ring of implications ends."""
    found: set[str] = set()
    waiting = list(roles)
    while waiting:
        role = waiting.pop()
        if role not in found:
            found.add(role)
            waiting.extend(implied.get(role, ()))
    return frozenset(found)


def would_ring(prior: str, implied: str, known: Implied) -> bool:
    """True if `implied` already leads to `prior`."""
    return prior in closure((implied,), known)


def targets_of(kind: ScopeKind, target: str, above: Sequence[str], domain: str) -> list[tuple[ScopeKind, str]]:
    """Where grants may stand that count in a scope. `above`: the projects above a project; `domain`: its domain."""
    if kind is not ScopeKind.PROJECT:
        return [(kind, target)]
    return [(kind, target), *((kind, project) for project in above), (ScopeKind.DOMAIN, domain)]


def counts(grant: Grant, kind: ScopeKind, target: str) -> bool:
    """True if a grant on one of `targets_of` counts in the scope: inherited ones do from above, others on the spot."""
    return ((grant.target_kind, grant.target) != (kind, target)) is grant.inherited


def granted(grants: Iterable[Grant], kind: ScopeKind, target: str) -> frozenset[str]:
    """The roles, as ids and without what they imply, that grants on `targets_of` a scope give there."""
    return frozenset(grant.role for grant in grants if counts(grant, kind, target))


def effective(roles: Iterable[str], implied: Implied, known: Mapping[str, Role]) -> list[Role]:
    """The roles that a token has: closed under implication, by name, without those of a domain."""
    held = (known[id] for id in closure(roles, implied) if id in known)
    return sorted((role for role in held if role.domain is None), key=lambda role: role.name)


def scopes_of(grants: Iterable[Grant], kind: ScopeKind) -> tuple[set[str], set[str]]:
    """What grants give a user to choose from: ids to which they apply, and ids below which they apply."""
    direct: set[str] = set()
    below: set[str] = set()
    for grant in grants:
        if grant.target_kind is kind:
            (below if grant.inherited else direct).add(grant.target)
    return direct, below
