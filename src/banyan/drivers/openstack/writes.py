"""What may be written to a cloud in mode `place`: each call by its method, its path and, for an action, its name. Pure.

What is not in this list is not sent, whoever asks for it. Nothing here changes hosts, networks, quotas of projects that
stood before, or what others made.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from banyan.drivers.openstack.endpoints import Service

_ID: Final = r"[A-Za-z0-9._:-]+"

_ALLOWED: Final[tuple[tuple[Service, str, re.Pattern[str]], ...]] = tuple(
    (service, method, re.compile(pattern))
    for service, method, pattern in (
        (Service.COMPUTE, "POST", "/servers"),
        (Service.COMPUTE, "DELETE", f"/servers/{_ID}"),
        (Service.COMPUTE, "POST", f"/servers/{_ID}/metadata"),
        (Service.COMPUTE, "POST", f"/servers/{_ID}/action"),
        (Service.COMPUTE, "POST", "/flavors"),
        (Service.COMPUTE, "POST", f"/flavors/banyan-{_ID}/os-extra_specs"),
        (Service.COMPUTE, "POST", "/os-keypairs"),
        (Service.COMPUTE, "PUT", f"/os-quota-sets/{_ID}"),
        (Service.IDENTITY, "POST", "/projects"),
        (Service.IDENTITY, "PUT", f"/projects/{_ID}/users/{_ID}/roles/{_ID}"),
    )
)

ACTIONS: Final = frozenset({
    "os-start", "os-stop", "reboot", "pause", "unpause", "suspend", "resume", "rescue", "unrescue", "rebuild",
    "shelve", "shelveOffload", "unshelve", "migrate", "resize", "confirmResize", "revertResize", "createImage",
    "changePassword", "os-getConsoleOutput", "forceDelete",
})  # fmt: skip


class Forbidden(AssertionError):
    """A call that is not in the list: a fault of ours, never of the cloud."""


def check(service: Service, method: str, path: str, body: Mapping[str, object] | None) -> None:
    """Raises Forbidden unless this call is in the list."""
    if not any(s is service and m == method and p.fullmatch(path) for s, m, p in _ALLOWED):
        raise Forbidden(f"the openstack driver must never send {method} {path} to {service.project}")
    if path.endswith("/action") and (body is None or len(body) != 1 or not body.keys() <= ACTIONS):
        raise Forbidden(
            f"the openstack driver must never ask {service.project} for {', '.join(body or ()) or 'nothing'}"
        )
