"""Identity as OpenStack's clients speak it: Keystone's API, version 3. What it means is in zone/identity."""

from __future__ import annotations

from banyan.api.keystone.rows import ROWS
from banyan.api.openstack import faults
from banyan.api.openstack.service import Service

SERVICE = Service("identity", "keystone", "/identity/v3", ROWS, faults.identity)
