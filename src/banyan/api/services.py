"""The OpenStack services that a zone serves, in the order of the catalogue."""

from __future__ import annotations

from banyan.api import glance, keystone, neutron, nova, placement
from banyan.api.openstack.service import Service

SERVICES: tuple[Service, ...] = (keystone.SERVICE, nova.SERVICE, glance.SERVICE, neutron.SERVICE, placement.SERVICE)
