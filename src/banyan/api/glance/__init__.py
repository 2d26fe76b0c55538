"""Images as OpenStack's clients speak of them: Glance's API, version 2. What it means is in zone/images."""

from __future__ import annotations

from banyan.api.glance.rows import ROWS
from banyan.api.openstack import faults
from banyan.api.openstack.service import Service

SERVICE = Service("image", "glance", "/image", ROWS, faults.image)
