"""What a person may set for a rack that is an OpenStack cloud. Values that are wrong together are refused here.

No option is a secret: credentials stay in `clouds.yaml` (or `secure.yaml` beside it), which the SDK reads when
a scan begins. What the rack offers (`share`) and its pace (`scan.requests_per_second`) are settings of every rack.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec


class See(StrEnum):
    """Where capacity is read from. `auto`: hypervisors if these credentials may list them, else the quota."""

    AUTO = "auto"
    HOSTS = "hosts"
    QUOTA = "quota"


class Interface(StrEnum):
    PUBLIC = "public"
    INTERNAL = "internal"
    ADMIN = "admin"


class Mode(StrEnum):
    """What may be done in the cloud. `place` makes servers, and what they need, in it; `observe` only reads."""

    OBSERVE = "observe"
    PLACE = "place"


class Projects(StrEnum):
    """Where servers are made: in a project of their own for each of Banyan's, or all in that of the credentials."""

    OWN = "own"
    SHARED = "shared"


class OpenStackOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of the `openstack` driver.

    `cloud` is an entry of `clouds.yaml`; `clouds_file` that file ("" searches where the SDK does). `region` and
    `interface` override the entry's. `page_size`: how many items a list request asks for; the cloud may give
    fewer. `timeout`: seconds that one request may take, to the last byte. `max_response_mib` bounds one
    answer. `quotas_per_scan`: how many projects' limits one scan reads; those unread longest come first.

    In `mode` place: `projects`, of which each is made when it is first needed, in the domain named `domain` ("" is that
    of the credentials' project), with `role` in it for our user; `at_once` is how many servers are worked on at the
    same time, and `deed_requests_per_second` how many requests that takes at most, beside those of scans.
    """

    cloud: str
    clouds_file: str = ""
    region: str = ""
    interface: Interface | None = None
    see: See = See.AUTO
    page_size: int = 1_000
    timeout: float = 60.0
    max_response_mib: int = 64
    quotas_per_scan: int = 20
    mode: Mode = Mode.OBSERVE
    projects: Projects = Projects.OWN
    domain: str = ""
    role: str = "admin"
    at_once: int = 32
    deed_requests_per_second: float = 50.0

    def __post_init__(self) -> None:
        if not self.cloud:
            raise ValueError("cloud is the name of an entry of clouds.yaml, got an empty text")
        _between("page_size", self.page_size, 1, 1_000)
        _between("timeout", self.timeout, 1, 600)
        _between("max_response_mib", self.max_response_mib, 1, 1_024)
        _between("quotas_per_scan", self.quotas_per_scan, 0, 10_000)
        _between("at_once", self.at_once, 1, 1_000)
        _between("deed_requests_per_second", self.deed_requests_per_second, 0.1, 10_000)
        if not self.role:
            raise ValueError("role is the name of a role that may make servers on a host, got an empty text")

    @property
    def max_response(self) -> int:
        """In bytes."""
        return self.max_response_mib << 20


def _between(what: str, value: float, low: float, high: float) -> None:
    if not low <= value <= high:
        raise ValueError(f"{what} is from {low:,} to {high:,}, got {value:,}")
