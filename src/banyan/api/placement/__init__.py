"""Placement as OpenStack's clients read it: the tree's hosts as resource providers, with what they have and hold.

A view, and read-only: what is claimed is decided where the hosts are (zone/servers), so whatever would change a
provider or an allocation answers 405. versions.py says what each microversion changes, providers.py and
allocations.py answer.
"""

from __future__ import annotations

from banyan.api.openstack import faults
from banyan.api.openstack.service import Service
from banyan.api.placement.rows import ROWS
from banyan.api.placement.versions import MICROVERSIONS

SERVICE = Service("placement", "placement", "/placement", ROWS, faults.placement, MICROVERSIONS)
