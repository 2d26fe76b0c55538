"""What of Neutron is there, by the aliases that clients ask for; and what there is none of."""

from __future__ import annotations

from banyan.api.openstack.call import Answer, Call
from banyan.core.errors import NotFound
from banyan.zone.compute.hosts import DEFAULT_ZONE

# Alias → name, what it means here.
EXTENSIONS: tuple[tuple[str, str, str], ...] = (
    ("allowed-address-pairs", "Allowed Address Pairs", "Further addresses that a port may use."),
    ("availability_zone", "Availability Zone", "Availability zones of the hosts below."),
    ("binding", "Port Binding", "What a port is bound to, for administrators."),
    ("ext-gw-mode", "Neutron L3 Configurable external gateway mode", "Source NAT of routers, as asked for."),
    ("external-net", "Neutron external network", "Networks that routers have gateways to."),
    ("extra_dhcp_opt", "Neutron Extra DHCP options", "Further DHCP options of a port."),
    ("extraroute", "Neutron Extra Route", "Routes of routers."),
    ("filter-validation", "Filter parameters validation", "A filter that names no attribute is refused."),
    ("net-mtu", "Network MTU", "The MTU of networks."),
    ("net-mtu-writable", "Network MTU (writable)", "The MTU of networks may be changed."),
    ("network-ip-availability", "Network IP Availability", "How many addresses networks have and gave out."),
    ("network_availability_zone", "Network Availability Zone", "Hints for where a network shall be."),
    ("pagination", "Pagination support", "Lists in pages, forwards and backwards."),
    ("port-security", "Port Security", "Whether security groups and address checks are wanted."),
    ("project-id", "project_id field enabled", "project_id beside tenant_id."),
    ("provider", "Provider Network", "Segments of networks, as an administrator says."),
    ("quota_details", "Quota details management support", "Limits and use."),
    ("quotas", "Quota management support", "Limits of what a project may have."),
    ("revision-if-match", "If-Match constraints based on revision_number", "Changes of what was not changed since."),
    ("router", "Neutron L3 Router", "Routers and floating IPs."),
    ("router_availability_zone", "Router Availability Zone", "Hints for where a router shall be."),
    ("security-group", "security-group", "Security groups and their rules."),
    ("security-groups-normalized-cidr", "Normalized CIDR field for security group rules", "normalized_cidr."),
    ("service-type", "Neutron Service Type Management", "Which providers of services there are: none to choose."),
    ("sorting", "Sorting support", "Lists in a wanted order."),
    ("standard-attr-description", "standard-attr-description", "A description of everything."),
    ("standard-attr-revisions", "Resource revision numbers", "A number that rises with each change."),
    ("standard-attr-tag", "Tag support for resources with standard attribute", "Tags."),
    ("standard-attr-timestamp", "Resource timestamps", "When it was made, and last changed."),
    ("stateful-security-group", "Stateful security group", "Whether a group follows connections, as asked for."),
    ("subnet-service-types", "Subnet service types", "Subnets for some owners of ports only."),
    ("subnet_allocation", "Subnet Allocation", "Pools of prefixes that subnets are cut from."),
)
_UPDATED = "2026-11-30T00:00:00-00:00"
_BY_ALIAS = {alias: (name, text) for alias, name, text in EXTENSIONS}
# What Neutron has at its root, with the word of one and of many.
_CORE = (("network", "networks"), ("subnet", "subnets"), ("port", "ports"), ("subnetpool", "subnetpools"))


def _view(alias: str) -> dict[str, object]:
    name, text = _BY_ALIAS[alias]
    return {"alias": alias, "name": name, "description": text, "updated": _UPDATED, "links": []}


async def listed(call: Call) -> Answer:
    """What of Neutron's extensions is there."""
    return {"extensions": [_view(alias) for alias in _BY_ALIAS]}


async def show(call: Call) -> Answer:
    """One extension."""
    alias = call.params["alias"]
    if alias not in _BY_ALIAS:
        raise NotFound("no-extension", f"Extension with alias {alias[:80]} does not exist")
    return {"extension": _view(alias)}


async def versions(call: Call) -> Answer:
    """The versions of the API."""
    return {"versions": [_version(call)]}


async def version(call: Call) -> Answer:
    """What is at the root of version 2.0."""
    found = [
        {"name": one, "collection": many, "links": [{"rel": "self", "href": call.link(f"/v2.0/{many}")}]}
        for one, many in _CORE
    ]
    return {"resources": found}


def _version(call: Call) -> dict[str, object]:
    return {"id": "v2.0", "status": "CURRENT", "links": [{"rel": "self", "href": call.link("/v2.0/")}]}


async def availability_zones(call: Call) -> Answer:
    """Availability zones of the hosts below; networks and routers have none of their own."""
    found = await call.compute.hosts.zones(call.principal)
    names = {**dict(found.up), **({} if found.up else {DEFAULT_ZONE: True})}
    return {
        "availability_zones": [
            {"name": name, "resource": resource, "state": "available" if up else "unavailable"}
            for name, up in sorted(names.items())
            for resource in ("network", "router")
        ]
    }


async def agents(call: Call) -> Answer:
    """Agents of networks: there are none."""
    return {"agents": []}


async def agent(call: Call) -> Answer:
    """One agent: it is not there."""
    raise NotFound("no-agent", f"Agent {call.params['id'][:255]} could not be found")


async def service_providers(call: Call) -> Answer:
    """Kinds of services: there is one of each, and none to choose."""
    return {"service_providers": []}
