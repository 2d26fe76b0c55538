"""What `banyan check` looks at in a cloud: the entry of clouds.yaml, each service, and each role that a scan needs.

Each line says what was found and, where it is not well, what to do. It reads only, and never raises: a cloud that
is down is a finding.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from banyan.core.ports import Finding
from banyan.core.records import DriverUnavailable
from banyan.drivers.openstack.asking import Cloud
from banyan.drivers.openstack.endpoints import Service
from banyan.drivers.openstack.options import OpenStackOptions, See
from banyan.drivers.openstack.reasons import Denied


@dataclass(frozen=True, slots=True)
class _Need:
    """One thing that a scan reads, as cheaply as it can be asked. `without`: what is lost if it is denied."""

    what: str
    service: Service
    path: str
    params: Mapping[str, str]
    without: str
    vital: bool


_HOSTS = (
    _Need("hypervisors", Service.COMPUTE, "/os-hypervisors", {"limit": "1"}, "capacity is the project's quota", False),
    _Need("compute services", Service.COMPUTE, "/os-services", {"binary": "nova-compute"}, "no scan is possible", True),
    _Need("aggregates", Service.COMPUTE, "/os-aggregates", {}, "no scan is possible", True),
    _Need(
        "servers of all projects",
        Service.COMPUTE,
        "/servers",
        {"all_tenants": "True", "limit": "1"},
        "no scan is possible",
        True,
    ),
    _Need("resource providers", Service.PLACEMENT, "/resource_providers", {}, "no scan is possible", True),
    _Need(
        "allocation candidates",
        Service.PLACEMENT,
        "/allocation_candidates",
        {"resources": "VCPU:1", "limit": "1"},
        "no scan is possible",
        True,
    ),
    _Need("projects", Service.IDENTITY, "/projects", {}, "only our own projects have names", False),
)
_QUOTA = (
    _Need("limits", Service.COMPUTE, "/limits", {}, "no scan is possible", True),
    _Need("servers of the project", Service.COMPUTE, "/servers", {"limit": "1"}, "no scan is possible", True),
)
_BOTH = (
    _Need("flavors", Service.COMPUTE, "/flavors", {"limit": "1"}, "no scan is possible", True),
    _Need("images", Service.IMAGE, "/images", {"limit": "1"}, "no image is shown", False),
    _Need("networks", Service.NETWORK, "/networks", {"limit": "1"}, "no network is shown", False),
)


async def examine(cloud: Cloud, options: OpenStackOptions) -> tuple[Finding, ...]:
    findings: list[Finding] = []
    cloud.begin()
    try:
        me = await cloud.me()
    except DriverUnavailable as error:
        cloud.forget()
        return (Finding("credentials", False, error.text, _remedy(error)),)
    findings.append(
        Finding(
            "credentials",
            True,
            f"user {me.user!r} in project {me.project_name!r}, region {await cloud.region() or 'any'}, "
            f"roles {', '.join(me.roles) or 'none'}",
        )
    )
    hosts = options.see is not See.QUOTA and await _sees_hosts(cloud)
    for service in (Service.COMPUTE, Service.PLACEMENT) if hosts else (Service.COMPUTE,):
        findings.append(await _service(cloud, service))
    if not hosts:
        wanted = options.see is See.HOSTS
        findings.append(
            Finding(
                "hypervisors",
                not wanted,
                "these credentials see no hypervisor: the capacity is the project's quota",
                'give the user a role that may list hypervisors, or set see = "quota"' if wanted else "",
            )
        )
    for need in (*(_HOSTS if hosts else _QUOTA), *_BOTH):
        findings.append(await _need(cloud, need))
    return tuple(findings)


async def _sees_hosts(cloud: Cloud) -> bool:
    """False only if Nova says that these credentials may not; what else goes wrong is found below."""
    try:
        await cloud.get(Service.COMPUTE, "/os-hypervisors", msgspec.Raw, {"limit": "1"})
    except Denied:
        return False
    except DriverUnavailable:
        return True
    return True


async def _service(cloud: Cloud, service: Service) -> Finding:
    what = f"{service} service ({service.project})"
    try:
        endpoint = await cloud.endpoint(service)
    except DriverUnavailable as error:
        return Finding(what, False, error.text, _remedy(error))
    return Finding(what, True, f"{endpoint.url}, microversion {endpoint.microversion} (offers {endpoint.offered})")


async def _need(cloud: Cloud, need: _Need) -> Finding:
    try:
        await cloud.get(need.service, need.path, msgspec.Raw, need.params)
    except DriverUnavailable as error:
        optional = not need.vital and isinstance(error, Denied)
        absent = not need.vital and error.code == "openstack-no-service"
        return Finding(
            need.what,
            optional or absent,
            error.text if need.vital else f"{error.text}; without it {need.without}",
            "" if optional or absent else _remedy(error),
        )
    return Finding(need.what, True, "may be read")


def _remedy(error: DriverUnavailable) -> str:
    """The last part of a reason is always what to do."""
    return error.text.rpartition("; ")[2]
