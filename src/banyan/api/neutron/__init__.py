"""Networks as OpenStack's clients speak of them: Neutron's API, version 2.0. What it means is in zone/networks.

A file per noun, a table of attributes for each kind (resource.py); rows.py is the table of all addresses. Bodies are
read by fields.py, attribute by attribute.
"""

from __future__ import annotations

from banyan.api.neutron.rows import ROWS
from banyan.api.neutron.words import KINDS
from banyan.api.openstack import faults
from banyan.api.openstack.service import Service

SERVICE = Service("network", "neutron", "/network", ROWS, faults.network(KINDS))
