"""A cloud's refusal of a write, as the deed's failure: what was asked, what came, in its own words. Pure."""

from __future__ import annotations

from banyan.core.deed import DeedFailed
from banyan.drivers.openstack import reasons
from banyan.drivers.openstack.access import Reply
from banyan.drivers.openstack.endpoints import Service

# What another host of the same cloud will not do better: who asks may not, or has too much already.
_EVERYWHERE = (401, 403, 413)


def refused(where: reasons.Where, service: Service, what: str, reply: Reply) -> DeedFailed:
    """`what`, as in "make a server". The status is from 400 to 499."""
    said = reasons.message(reply.body)
    code = "openstack-denied" if reply.status in _EVERYWHERE else "openstack-refused"
    return DeedFailed(
        code,
        f"{service.project} refuses to {what} ({reply.status}): {said or 'it gives no reason'}",
        elsewhere=reply.status not in _EVERYWHERE,
        detail=str(where),
    )
