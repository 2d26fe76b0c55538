"""Projects, domains, and the tags of projects."""

from __future__ import annotations

from urllib.parse import quote

from banyan.api.keystone import render
from banyan.api.keystone.bodies import (
    DomainCreate,
    DomainUpdate,
    ProjectCreate,
    ProjectUpdate,
    TagsBody,
    changed,
    check_tag,
    check_tags,
    extra,
)
from banyan.api.keystone.people import filters
from banyan.api.openstack.call import Answer, Call, Reply
from banyan.core.directory import Project
from banyan.core.errors import NotFound
from banyan.zone.identity.projects import Tags


async def create_project(call: Call, body: ProjectCreate) -> Answer:
    """Make a project, or a domain (`is_domain`)."""
    new = body.project
    project = Project(
        id="",
        name=new.name,
        domain=new.domain_id,
        parent=new.parent_id,
        is_domain=new.is_domain,
        enabled=new.enabled,
        description=new.description or "",
        tags=check_tags(new.tags),
        extra=extra(call, body),
    )
    return {"project": render.project(call, await call.identity.projects.create(call.principal, project))}


async def show_project(call: Call) -> Answer:
    """One project."""
    id = call.params["project_id"]
    return {"project": render.project(call, await call.identity.projects.project(call.principal, id))}


async def list_projects(call: Call) -> Answer:
    """Projects, by id; domains only if `is_domain` is asked for."""
    wanted = dict(
        filters(call, domain_id="domain", parent_id="parent", name="name", enabled="enabled", is_domain="is_domain")
    )
    wanted.setdefault("is_domain", False)
    tags = Tags(*(_tags(call, name) for name in ("tags", "tags-any", "not-tags", "not-tags-any")))
    page = await call.identity.projects.projects(call.principal, wanted, tags, render.asked(call))
    last = page.items[-1].id if page.items else ""
    return render.collection(call, "projects", page, render.project, "/v3/projects", last)


async def update_project(call: Call, body: ProjectUpdate) -> Answer:
    """Change a project."""
    changes = changed(call, body, domain_id="domain", parent_id="parent")
    wanted = await call.identity.projects.update(call.principal, call.params["project_id"], changes)
    return {"project": render.project(call, wanted)}


async def delete_project(call: Call) -> Answer:
    """Delete a project."""
    await call.identity.projects.delete(call.principal, call.params["project_id"])
    return None


async def create_domain(call: Call, body: DomainCreate) -> Answer:
    """Make a domain."""
    new = body.domain
    domain = Project(
        id="",
        name=new.name,
        domain=None,
        parent=None,
        is_domain=True,
        enabled=new.enabled,
        description=new.description or "",
        tags=check_tags(new.tags),
        extra=extra(call, body),
    )
    return {"domain": render.domain(call, await call.identity.projects.create(call.principal, domain))}


async def show_domain(call: Call) -> Answer:
    """One domain."""
    id = call.params["domain_id"]
    return {"domain": render.domain(call, await call.identity.projects.domain(call.principal, id))}


async def list_domains(call: Call) -> Answer:
    """Domains, by id."""
    wanted = filters(call, name="name", enabled="enabled")
    page = await call.identity.projects.domains(call.principal, wanted, render.asked(call))
    last = page.items[-1].id if page.items else ""
    return render.collection(call, "domains", page, render.domain, "/v3/domains", last)


async def update_domain(call: Call, body: DomainUpdate) -> Answer:
    """Change a domain."""
    id = call.params["domain_id"]
    wanted = await call.identity.projects.update(call.principal, id, changed(call, body), domain=True)
    return {"domain": render.domain(call, wanted)}


async def delete_domain(call: Call) -> Answer:
    """Delete a domain that is disabled, with all that lies in it."""
    await call.identity.projects.delete_domain(call.principal, call.params["domain_id"])
    return None


# --- tags ---------------------------------------------------------------------------------------


async def list_tags(call: Call) -> Answer:
    """The tags of a project."""
    return _tagged(call, await _project(call, "identity:list_project_tags"))


async def put_tags(call: Call, body: TagsBody) -> Answer:
    """Replace the tags of a project."""
    tags = check_tags(body.tags)
    return _tagged(call, await call.identity.projects.tag(call.principal, call.params["project_id"], tags, "set"))


async def clear_tags(call: Call) -> Answer:
    """Take all tags off a project."""
    await call.identity.projects.tag(call.principal, call.params["project_id"], (), "set")
    return None


async def has_tag(call: Call) -> Answer:
    """Whether a project has a tag."""
    project = await _project(call, "identity:get_project_tag")
    if call.params["tag"] not in project.tags:
        raise NotFound("no-tag", f"Could not find project tag: {call.params['tag'][:255]}.")
    return None


async def add_tag(call: Call) -> Answer:
    """Put a tag on a project."""
    tag = call.params["tag"]
    check_tag(tag)
    await call.identity.projects.tag(call.principal, call.params["project_id"], (tag,), "add")
    place = f"/v3/projects/{call.params['project_id']}/tags/{quote(tag, safe='')}"
    return Reply(headers={"Location": call.link(place)})


async def remove_tag(call: Call) -> Answer:
    """Take a tag off a project."""
    await call.identity.projects.tag(call.principal, call.params["project_id"], (call.params["tag"],), "remove")
    return None


async def _project(call: Call, action: str) -> Project:
    return await call.identity.projects.project(call.principal, call.params["project_id"], action)


def _tagged(call: Call, project: Project) -> dict[str, object]:
    links = {"self": call.link(f"/v3/projects/{project.id}/tags"), "next": None, "previous": None}
    return {"tags": list(project.tags), "links": links}


def _tags(call: Call, name: str) -> tuple[str, ...]:
    """A comma-separated filter."""
    return tuple(tag for tag in call.one(name).split(",") if tag)
