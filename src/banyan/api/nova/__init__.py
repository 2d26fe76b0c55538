"""Compute as OpenStack's clients speak it: Nova's API, version 2.1 with its microversions. What it means is in
zone/compute and zone/servers.

A file per noun; rows.py is the table of all, versions.py says what each microversion changes, words.py has OpenStack's
words for states. Bodies are read by fields.py, field by field.
"""

from __future__ import annotations

from banyan.api.nova.rows import ROWS
from banyan.api.nova.versions import MICROVERSIONS
from banyan.api.openstack import faults
from banyan.api.openstack.service import Service

SERVICE = Service(
    "compute",
    "nova",
    "/compute/v2.1",
    ROWS,
    faults.compute,
    MICROVERSIONS,
    ("x-openstack-request-id", "x-compute-request-id"),
)
