"""Where a cloud's services are and which versions they speak, from catalogue addresses and version documents. Pure.

Only an address from the catalogue (or the `clouds.yaml` entry) is ever asked; links inside answers are not followed,
because behind a proxy they often name another host, and a token must not go where a body says.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

import msgspec

from banyan.drivers.openstack.microversions import COMPUTE, PLACEMENT, Microversion, Wanted


class Service(StrEnum):
    """The services that are read, by their catalogue type."""

    IDENTITY = "identity"
    COMPUTE = "compute"
    PLACEMENT = "placement"
    IMAGE = "image"
    NETWORK = "network"

    @property
    def project(self) -> str:
        """The name that operators call it by."""
        return _PROJECTS[self]


_PROJECTS = {
    Service.IDENTITY: "Keystone",
    Service.COMPUTE: "Nova",
    Service.PLACEMENT: "Placement",
    Service.IMAGE: "Glance",
    Service.NETWORK: "Neutron",
}

# The part of the address that names the API's major version. Placement's API has none.
_MAJOR = {Service.IDENTITY: "/v3", Service.COMPUTE: "/v2.1", Service.IMAGE: "/v2", Service.NETWORK: "/v2.0"}

WANTED: Mapping[Service, Wanted] = {Service.COMPUTE: COMPUTE, Service.PLACEMENT: PLACEMENT}


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One service of one cloud. `url` has no slash at its end; `microversion` is what is asked for, if any; `newest`
    what could be."""

    service: Service
    url: str
    microversion: Microversion | None = None
    offered: str = ""
    newest: Microversion | None = None

    def headers(self, version: Microversion | None = None) -> dict[str, str]:
        """`version`: for one call another one than is agreed; it must be offered."""
        asked = version or self.microversion
        return {} if asked is None else {"OpenStack-API-Version": f"{WANTED[self.service].header} {asked}"}


def base(service: Service, address: str, project: str) -> str:
    """The address of the wanted major version, given the catalogue's: versioned or not, with a project's id or not."""
    url = address.rstrip("/")
    for tail in (f"/{project}", f"/AUTH_{project}"):
        if project and url.endswith(tail):
            url = url.removesuffix(tail)
    major = _MAJOR.get(service, "")
    if not major or url.endswith(major):
        return url
    if service is Service.COMPUTE and url.endswith("/v2"):
        return url.removesuffix("/v2") + major
    if service is Service.IDENTITY and url.endswith("/v2.0"):
        return url.removesuffix("/v2.0") + major
    return url + major


class _Version(msgspec.Struct, frozen=True):
    min_version: str | None = None
    max_version: str | None = None
    version: str | None = None


class _Document(msgspec.Struct, frozen=True):
    """Nova names its newest `version`, Placement `max_version`; one document has one version, the other a list."""

    version: _Version | None = None
    versions: list[_Version] = []


@dataclass(frozen=True, slots=True)
class Offer:
    """The range of microversions that a version document names; None where it names none."""

    low: tuple[int, ...] | None
    high: tuple[int, ...] | None

    def __str__(self) -> str:
        return f"{_dotted(self.low)} to {_dotted(self.high)}"


def read_offer(body: bytes) -> Offer:
    """Raises msgspec.DecodeError for what is no version document."""
    document = msgspec.json.decode(body, type=_Document)
    found = [document.version] if document.version is not None else document.versions
    if not found:
        raise msgspec.DecodeError("a version document names a version")
    offers = [Offer(_numbers(v.min_version), _numbers(v.max_version or v.version)) for v in found]
    return max(offers, key=lambda offer: offer.high or ())


def _numbers(text: str | None) -> tuple[int, ...] | None:
    parts = (text or "").split(".")
    return tuple(map(int, parts)) if all(part.isdecimal() for part in parts) else None


def _dotted(numbers: tuple[int, ...] | None) -> str:
    return ".".join(map(str, numbers)) if numbers else "none"
