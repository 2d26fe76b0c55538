"""Which of the rack's hosts is which of Nova's: by the hypervisor's id here, by its names there."""

from __future__ import annotations

from collections.abc import Iterable

from banyan.core.deed import DeedFailed
from banyan.drivers.openstack import shapes
from banyan.drivers.openstack.asking import Cloud
from banyan.drivers.openstack.endpoints import Service
from banyan.drivers.openstack.reasons import Missing
from banyan.drivers.openstack.translate import QUOTA_HOST


class Nodes:
    """`quota`: the credentials see no hypervisor, all servers are on the one host that stands for the quota."""

    def __init__(self, cloud: Cloud) -> None:
        self.quota = False
        self._cloud = cloud
        self._by_id: dict[str, tuple[str, str]] = {}
        self._ids: dict[tuple[str, str], str] = {}

    def learn(self, hypervisors: Iterable[shapes.Hypervisor]) -> None:
        for hypervisor in hypervisors:
            names = (hypervisor.service.host, hypervisor.hypervisor_hostname)
            self._by_id[hypervisor.id] = names
            self._ids[names] = hypervisor.id

    async def names(self, id: str) -> tuple[str, str] | None:
        """(compute service, node) of a host; None for the host that stands for a quota. Raises DeedFailed."""
        if id == QUOTA_HOST:
            return None
        found = self._by_id.get(id)
        if found is None:
            try:
                reply = await self._cloud.get(Service.COMPUTE, f"/os-hypervisors/{id}", shapes.HypervisorReply)
            except Missing as error:
                raise DeedFailed("no-host", f"Nova has no hypervisor {id}", elsewhere=True) from error
            self.learn((reply.hypervisor,))
            found = self._by_id[id]
        return found

    async def id_of(self, server: shapes.Server) -> str:
        """The host that a server is on; "" if it is on none, or hidden from our credentials."""
        if self.quota:
            return QUOTA_HOST
        names = (server.host or "", server.hypervisor_hostname or "")
        if not names[1]:
            return ""
        if names not in self._ids:
            async for page in self._cloud.pages(Service.COMPUTE, "/os-hypervisors/detail", shapes.HypervisorPage):
                self.learn(page.hypervisors)
        return self._ids.get(names, "")
