"""The projects of the cloud in which servers are made: one for each of Banyan's, or that of the credentials for all.

A project is named after its issuer and its id there, so that it is found again whatever was lost; it is made when the
first server needs it, and without limits of its own: who may have how much is decided above (quotas).
"""

from __future__ import annotations

from hashlib import sha256
from typing import Final
from urllib.parse import quote

from banyan.core.deed import DeedFailed
from banyan.core.ids import code_text
from banyan.core.server import Server
from banyan.drivers.openstack import marks, shapes
from banyan.drivers.openstack.asking import Cloud
from banyan.drivers.openstack.endpoints import Service
from banyan.drivers.openstack.once import Once
from banyan.drivers.openstack.options import OpenStackOptions, Projects
from banyan.drivers.openstack.reasons import Missing
from banyan.drivers.openstack.refusals import refused

# Of a project's name in Keystone, characters.
_MOST_NAME: Final = 64
_NO_LIMIT: Final = dict.fromkeys(("instances", "cores", "ram", "metadata_items", "server_groups"), -1)


def project_name(server: Server) -> str:
    name = f"{marks.PREFIX}{code_text(server.issuer)}-{server.project}"
    if len(name) > _MOST_NAME:
        name = f"{marks.PREFIX}{code_text(server.issuer)}-{sha256(server.project.encode()).hexdigest()[:32]}"
    return name


class Grounds:
    def __init__(self, cloud: Cloud, options: OpenStackOptions) -> None:
        self._cloud = cloud
        self._options = options
        self._projects = Once()
        self._trusted = Once()
        self._domains = Once()

    @property
    def own(self) -> bool:
        return self._options.projects is Projects.OWN

    async def project(self, server: Server) -> str:
        """The id of the project for this server, which is there from now on. Raises DeedFailed, DriverUnavailable."""
        if not self.own:
            return (await self._cloud.me()).project
        name = project_name(server)
        return await self._projects.get(name, lambda: self._made(name))

    def forget(self, server: Server) -> None:
        """Its project was not there any more when it was needed."""
        self._projects.forget(project_name(server))

    async def domain(self) -> str:
        """The id of the domain of our projects."""
        return await self._domains.get("", self._domain)

    async def trusts(self, project: str) -> bool:
        """Whether a mark is believed there: nobody but Banyan makes servers in that project."""
        if not self.own:
            return project == (await self._cloud.me()).project
        return await self._trusted.get(project, lambda: self._looked_at(project)) == "yes"

    async def is_ours(self, name: str, domain: str) -> bool:
        """The same of a project that was listed."""
        return self.own and name.startswith(marks.PREFIX) and domain == await self.domain()

    async def _looked_at(self, project: str) -> str:
        try:
            found = await self._cloud.get(Service.IDENTITY, f"/projects/{project}", shapes.ProjectReply)
        except Missing:
            return "no"
        return "yes" if await self.is_ours(found.project.name, found.project.domain_id or "") else "no"

    async def _domain(self) -> str:
        name = self._options.domain
        if not name:
            return (await self._cloud.me()).domain
        found = await self._cloud.get(Service.IDENTITY, "/domains", shapes.DomainList, {"name": name})
        if not found.domains:
            raise DeedFailed(
                "openstack-no-domain",
                f"{self._cloud.where}: Keystone has no domain {name!r} (option domain); make it, or name another",
            )
        return found.domains[0].id

    async def _made(self, name: str) -> str:
        domain = await self.domain()
        project = await self._found(name, domain)
        if project is None:
            text = "Servers of one project, made by Banyan"
            body = {"project": {"name": name, "domain_id": domain, "description": text, "enabled": True}}
            reply = await self._cloud.send(Service.IDENTITY, "POST", "/projects", body)
            # 409: somebody else made it since it was looked for.
            if reply.status not in (201, 409):
                raise refused(self._cloud.where, Service.IDENTITY, f"make project {name}", reply)
            project = await self._found(name, domain)
            if project is None:
                raise DeedFailed("openstack-no-project", f"Keystone does not show project {name} that it has made")
        await self._entered(project)
        reply = await self._cloud.send(
            Service.COMPUTE, "PUT", f"/os-quota-sets/{project}", {"quota_set": {**_NO_LIMIT, "force": True}}
        )
        if reply.status != 200:
            raise refused(self._cloud.where, Service.COMPUTE, f"lift the quota of project {name}", reply)
        return project

    async def _found(self, name: str, domain: str) -> str | None:
        params = {"name": name, "domain_id": domain}
        listed = await self._cloud.get(Service.IDENTITY, "/projects", shapes.ProjectList, params)
        return next((project.id for project in listed.by_id() if project.name == name), None)

    async def _entered(self, project: str) -> None:
        """Our user has its role there."""
        role = self._options.role
        me = await self._cloud.me()
        found = await self._cloud.get(Service.IDENTITY, "/roles", shapes.RoleList, {"name": role})
        if not found.roles:
            raise DeedFailed("openstack-no-role", f"{self._cloud.where}: Keystone has no role {role!r} (option role)")
        path = f"/projects/{project}/users/{quote(me.user_id)}/roles/{found.roles[0].id}"
        reply = await self._cloud.send(Service.IDENTITY, "PUT", path)
        if reply.status != 204:
            raise refused(self._cloud.where, Service.IDENTITY, f"give our user the role {role!r} in a project", reply)
