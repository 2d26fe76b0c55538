"""Regions, services and endpoints: what people added, with this cloud's own rows among them."""

from __future__ import annotations

from banyan.api.keystone import render
from banyan.api.keystone.bodies import (
    EndpointCreate,
    EndpointUpdate,
    RegionCreate,
    RegionUpdate,
    ServiceCreate,
    ServiceUpdate,
    changed,
    extra,
    interface_of,
)
from banyan.api.keystone.catalogue import our_endpoints, our_services
from banyan.api.keystone.people import filters
from banyan.api.openstack.call import Answer, Call
from banyan.core.directory import Endpoint, Interface, Region, Service
from banyan.core.errors import BadInput, NotFound, Refused
from banyan.zone.identity.desk import Changes, Listed

# --- regions ------------------------------------------------------------------------------------


async def create_region(call: Call, body: RegionCreate) -> Answer:
    """Add a region."""
    return await _add_region(call, body, body.region.id or "")


async def create_named_region(call: Call, body: RegionCreate) -> Answer:
    """Add a region under an id of one's own."""
    id = call.params["region_id"]
    if body.region.id not in (None, id):
        raise BadInput("bad-id", "the id in the body is another one than in the address; leave it away")
    return await _add_region(call, body, id)


async def _add_region(call: Call, body: RegionCreate, id: str) -> Answer:
    new = body.region
    region = Region(id, new.parent_region_id, new.description or "", extra(call, body))
    return {"region": render.region(call, await call.identity.catalog.create_region(call.principal, region))}


async def show_region(call: Call) -> Answer:
    """One region."""
    held = await call.identity.catalog.region(call.principal, call.params["region_id"])
    return {"region": render.region(call, held)}


async def list_regions(call: Call) -> Answer:
    """Regions, by id."""
    page = await call.identity.catalog.regions(
        call.principal, filters(call, parent_region_id="parent"), render.asked(call)
    )
    last = page.items[-1].id if page.items else ""
    return render.collection(call, "regions", page, render.region, "/v3/regions", last)


async def update_region(call: Call, body: RegionUpdate) -> Answer:
    """Change a region."""
    changes = changed(call, body, parent_region_id="parent")
    wanted = await call.identity.catalog.update_region(call.principal, call.params["region_id"], changes)
    return {"region": render.region(call, wanted)}


async def delete_region(call: Call) -> Answer:
    """Delete a region that nothing is in."""
    await call.identity.catalog.delete_region(call.principal, call.params["region_id"])
    return None


# --- services -----------------------------------------------------------------------------------


async def create_service(call: Call, body: ServiceCreate) -> Answer:
    """Add a service."""
    new = body.service
    service = Service("", new.type, new.name, new.enabled, new.description or "", extra(call, body))
    return {"service": render.service(call, await call.identity.catalog.create_service(call.principal, service))}


async def show_service(call: Call) -> Answer:
    """One service."""
    id = call.params["service_id"]
    ours = next((one for one in our_services(call.offered) if one.id == id), None)
    return {"service": render.service(call, ours or await call.identity.catalog.service(call.principal, id))}


async def list_services(call: Call) -> Answer:
    """Services: this cloud's own, then those that were added."""
    page = await call.identity.catalog.services(call.principal, filters(call, type="type", name="name"))
    ours = [
        one
        for one in our_services(call.offered)
        if call.one("type", one.type) == one.type and call.one("name", one.name) == one.name
    ]
    return render.collection(call, "services", Listed([*ours, *page.items]), render.service, "/v3/services")


async def update_service(call: Call, body: ServiceUpdate) -> Answer:
    """Change a service that was added."""
    _check_not_ours(call, call.params["service_id"])
    wanted = await call.identity.catalog.update_service(call.principal, call.params["service_id"], changed(call, body))
    return {"service": render.service(call, wanted)}


async def delete_service(call: Call) -> Answer:
    """Delete a service that was added, with its endpoints."""
    _check_not_ours(call, call.params["service_id"])
    await call.identity.catalog.delete_service(call.principal, call.params["service_id"])
    return None


# --- endpoints ----------------------------------------------------------------------------------


async def create_endpoint(call: Call, body: EndpointCreate) -> Answer:
    """Add an endpoint of a service that was added."""
    new = body.endpoint
    _check_not_ours(call, new.service_id)
    region = new.region_id or new.region
    if new.region_id is None and new.region is not None:
        await _region_by_name(call, new.region)
    endpoint = Endpoint(
        "", new.service_id, Interface(interface_of(new.interface)), new.url, region, new.enabled, extra(call, body)
    )
    return {"endpoint": render.endpoint(call, await call.identity.catalog.create_endpoint(call.principal, endpoint))}


async def show_endpoint(call: Call) -> Answer:
    """One endpoint."""
    id = call.params["endpoint_id"]
    ours = next((one for one in our_endpoints(call) if one.id == id), None)
    return {"endpoint": render.endpoint(call, ours or await call.identity.catalog.endpoint(call.principal, id))}


async def list_endpoints(call: Call) -> Answer:
    """Endpoints: this cloud's own, then those that were added."""
    wanted = filters(call, interface="interface", service_id="service", region_id="region")
    page = await call.identity.catalog.endpoints(call.principal, wanted)
    ours = [
        one
        for one in our_endpoints(call)
        if call.one("interface", one.interface) == one.interface
        and call.one("service_id", one.service) == one.service
        and call.one("region_id", call.region) == call.region
    ]
    return render.collection(call, "endpoints", Listed([*ours, *page.items]), render.endpoint, "/v3/endpoints")


async def update_endpoint(call: Call, body: EndpointUpdate) -> Answer:
    """Change an endpoint that was added."""
    _check_not_ours(call, call.params["endpoint_id"])
    changes = changed(call, body, service_id="service", region_id="region")
    fields = dict(changes.fields)
    if isinstance(body.endpoint.interface, str):
        fields["interface"] = Interface(interface_of(body.endpoint.interface))
    if isinstance(body.endpoint.region, str) and not isinstance(body.endpoint.region_id, str):
        await _region_by_name(call, body.endpoint.region)
    wanted = await call.identity.catalog.update_endpoint(
        call.principal, call.params["endpoint_id"], Changes(fields, extra=changes.extra)
    )
    return {"endpoint": render.endpoint(call, wanted)}


async def delete_endpoint(call: Call) -> Answer:
    """Delete an endpoint that was added."""
    _check_not_ours(call, call.params["endpoint_id"])
    await call.identity.catalog.delete_endpoint(call.principal, call.params["endpoint_id"])
    return None


async def _region_by_name(call: Call, name: str) -> None:
    """The older way to say a region: one that is not there is made."""
    try:
        await call.identity.catalog.region(call.principal, name)
    except NotFound:
        await call.identity.catalog.create_region(call.principal, Region(name))


def _check_not_ours(call: Call, id: str) -> None:
    ours = {one.id for one in our_services(call.offered)} | {one.id for one in our_endpoints(call)}
    if id in ours:
        raise Refused("own-service", f"{id} is a row of this cloud's own services; they follow from its settings")
