"""What one OpenStack service is: its place on the API's port, its rows, its faults, its microversions."""

from __future__ import annotations

from dataclasses import dataclass, field

from banyan.api.faults import REQUEST_ID
from banyan.api.openstack.faults import Style
from banyan.api.openstack.microversion import Microversions
from banyan.api.openstack.table import Operation, Table


@dataclass(frozen=True, slots=True)
class Service:
    """`prefix` is the first segment of its paths and its type in the catalogue; `title` its name there.

    `endpoint` is what stands after the host in the catalogue's addresses. `rows` have paths below the prefix.
    `request_headers`: names under which the request id is answered, beside our own.
    """

    prefix: str
    title: str
    endpoint: str
    rows: tuple[Operation, ...]
    style: Style
    microversions: Microversions | None = None
    request_headers: tuple[str, ...] = ("x-openstack-request-id",)
    table: Table = field(init=False)
    id_lines: tuple[bytes, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "table", Table(self.rows))
        names = (*self.request_headers, REQUEST_ID.lower())
        object.__setattr__(self, "id_lines", tuple(name.encode() for name in names))
