"""What projects may have: limits as an operator set them, and use beside them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

from banyan.core.compute_rows import ComputeRows, Tally
from banyan.core.errors import BadInput
from banyan.core.permissions import Target, require
from banyan.core.principal import Principal
from banyan.core.quota import MAX_LIMIT, UNLIMITED, Limits, Quota, Use
from banyan.core.records import Unit
from banyan.zone.compute.ceilings import Ceilings, Count
from banyan.zone.compute.desk import Desk
from banyan.zone.compute.limits import EVERY, effective
from banyan.zone.remembered import Remembered

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Standing:
    """A project's limits, and what it has of each: `use` of servers (None: not all of the tree could be asked), and
    rows. `key_pairs` are the caller's own."""

    limits: Limits
    use: Use | None
    key_pairs: int
    groups: int

    def used(self, quota: Quota) -> int:
        """0 of what is not counted."""
        if quota in (Quota.SERVERS, Quota.VCPU, Quota.MEMORY_MIB):
            return 0 if self.use is None else self.use.of(quota)
        return {Quota.KEY_PAIRS: self.key_pairs, Quota.SERVER_GROUPS: self.groups}.get(quota, 0)


class Quotas:
    """`held`: what a project's servers hold, for showing; a count that is to be relied on is the ceilings' own."""

    def __init__(self, desk: Desk, ceilings: Ceilings, held: Count) -> None:
        self._desk = desk
        self._ceilings = ceilings
        self._held = held
        self._known = Remembered[str, Limits](desk.clock)

    async def limits(self, who: Principal, project: str) -> Limits:
        require(who, "compute:get_quota_set", Target(project=project))
        return await self._desk.read(lambda rows: effective(rows.quotas, self._desk.limits, project))

    async def mine(self, who: Principal) -> Limits:
        """Those of the caller's own project, for checks on what it asks. Remembered for a moment, as flavors are; what
        servers may use is not checked by these (ceilings.py)."""
        known = self._known.get(who.project)
        if known is not None:
            return known
        as_of = self._known.as_of
        limits = await self._desk.read(lambda rows: effective(rows.quotas, self._desk.limits, who.project))
        self._known.put(who.project, limits, as_of)
        return limits

    async def every(self, who: Principal, action: str = "compute:get_quota_class") -> Limits:
        """Those of all projects that have none of their own."""
        require(who, action)
        return await self._desk.read(lambda rows: effective(rows.quotas, self._desk.limits, EVERY))

    async def standing(self, who: Principal, project: str, action: str = "compute:get_quota_set") -> Standing:
        require(who, action, Target(project=project))

        def work(rows: ComputeRows) -> tuple[Limits, int, int]:
            keys = rows.quotas.tallied(Tally.KEY_PAIRS, who.user)
            groups = rows.quotas.tallied(Tally.SERVER_GROUPS, project)
            return effective(rows.quotas, self._desk.limits, project), keys, groups

        limits, keys, groups = await self._desk.read(work)
        return Standing(limits, await self._held(as_of(who, project)), keys, groups)

    async def set(self, who: Principal, project: str, wanted: Limits, *, force: bool = False) -> Limits:
        """Raises BadInput("bad-quota") for a limit below what is used, unless `force`."""
        require(who, "compute:update_quota_set")
        await self._check(who, project, wanted, force)

        def work(unit: Unit) -> Limits:
            unit.compute.quotas.set(project, wanted)
            facts = {quota.value: str(most) for quota, most in sorted(wanted.items())}
            self._desk.note(unit, who, "quota-set", project, "limits of a project", **facts)
            return effective(unit.compute.quotas, self._desk.limits, project)

        limits = await self._change("quota.set", work)
        await self._ceilings.drop_spare(project)
        return limits

    async def clear(self, who: Principal, project: str) -> None:
        """Back to what every project has."""
        require(who, "compute:delete_quota_set")

        def work(unit: Unit) -> None:
            unit.compute.quotas.clear(project)
            self._desk.note(unit, who, "quota-cleared", project, "back to what every project has")

        await self._change("quota.cleared", work)
        await self._ceilings.drop_spare(project)

    async def set_every(self, who: Principal, wanted: Limits) -> Limits:
        require(who, "compute:update_quota_class")
        for quota, most in wanted.items():
            check_limit(quota, most)

        def work(unit: Unit) -> Limits:
            unit.compute.quotas.set(EVERY, wanted)
            facts = {quota.value: str(most) for quota, most in sorted(wanted.items())}
            self._desk.note(unit, who, "quota-set", "every project", "limits of all that have none", **facts)
            return effective(unit.compute.quotas, self._desk.limits, EVERY)

        limits = await self._change("quota.set", work)
        for project in self._ceilings.projects():
            await self._ceilings.drop_spare(project)
        return limits

    async def _change(self, name: str, work: Callable[[Unit], T]) -> T:
        try:
            return await self._desk.change(name, work)
        finally:
            self._known.forget()

    async def _check(self, who: Principal, project: str, wanted: Mapping[Quota, int], force: bool) -> None:
        for quota, most in wanted.items():
            check_limit(quota, most)
        if force or all(most == UNLIMITED for most in wanted.values()):
            return
        standing = await self.standing(who, project)
        for quota, most in sorted(wanted.items()):
            if UNLIMITED < most < standing.used(quota):
                raise BadInput(
                    "bad-quota",
                    f"Quota limit {most} for {quota.value} must be greater than or equal to already used and reserved "
                    f"{standing.used(quota)}.",
                )


def check_limit(quota: Quota, most: int) -> None:
    if not UNLIMITED <= most <= MAX_LIMIT:
        raise BadInput("bad-quota", f"a limit of {quota.value} is from -1 (none) to {MAX_LIMIT}, got {most}")


def as_of(who: Principal, project: str) -> Principal:
    """The caller, looking at another project: the zone authorised that already."""
    return who if project == who.project else replace(who, project=project)
