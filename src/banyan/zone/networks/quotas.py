"""What projects may have of the network service, and what they have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from banyan.core.errors import BadInput
from banyan.core.network import Kind
from banyan.core.network_quota import NetworkLimits
from banyan.core.network_rows import NetworkRows
from banyan.core.permissions import Target, require
from banyan.core.principal import Principal
from banyan.core.quota import MAX_LIMIT, UNLIMITED
from banyan.core.records import Unit
from banyan.zone.networks.desk import Desk


@dataclass(frozen=True, slots=True)
class Standing:
    limits: NetworkLimits
    used: Mapping[Kind, int]


class NetworkQuotas:
    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def show(self, who: Principal, project: str) -> Standing:
        require(who, "network:get_quota", Target(project=project))
        return await self._desk.read(
            lambda rows: Standing(self._desk.limits(rows, project), dict(rows.counted(project)))
        )

    async def defaults(self, who: Principal, project: str) -> NetworkLimits:
        require(who, "network:get_quota", Target(project=project))
        return await self._desk.read(lambda rows: self._desk.limits(rows, ""))

    async def page(self, who: Principal, after: str, limit: int) -> Sequence[tuple[str, NetworkLimits]]:
        """Projects that have limits of their own, by id."""
        require(who, "network:list_quotas")

        def work(rows: NetworkRows) -> list[tuple[str, NetworkLimits]]:
            found = [one for one in rows.limited(after, max(1, limit)) if one]
            return [(one, self._desk.limits(rows, one)) for one in found]

        return await self._desk.read(work)

    async def set(self, who: Principal, project: str, wanted: NetworkLimits) -> NetworkLimits:
        """What is there stays, also above a limit that was lowered. Raises Refused, BadInput("bad-quota")."""
        require(who, "network:update_quota")
        for kind, most in wanted.items():
            if not UNLIMITED <= most <= MAX_LIMIT:
                text = f"a limit of {kind.value} is from -1 (none) to {MAX_LIMIT}, got {most}"
                raise BadInput("bad-quota", text)

        def work(unit: Unit) -> NetworkLimits:
            unit.networks.set_limits(project, wanted)
            facts = {kind.value: str(most) for kind, most in sorted(wanted.items())}
            self._desk.note(unit, who, "network-quota-set", project, "limits of a project's networks", **facts)
            return self._desk.limits(unit.networks, project)

        return await self._desk.change("network-quota.set", work)

    async def clear(self, who: Principal, project: str) -> None:
        """Back to what every project has."""
        require(who, "network:update_quota")

        def work(unit: Unit) -> None:
            unit.networks.clear_limits(project)
            self._desk.note(unit, who, "network-quota-cleared", project, "back to what every project has")

        await self._desk.change("network-quota.cleared", work)
