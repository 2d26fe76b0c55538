"""What clients of long ago ask for: the list of extensions, and addresses that stood in for other services.

Since 2.1 all that were extensions are part of the API; the list says so to those who look. The stand-ins for images,
networks and volumes ended with 2.36: they were never here, and answer 404 in every version.
"""

from __future__ import annotations

from banyan.api.openstack.call import Answer, Call
from banyan.core.errors import NotFound

_UPDATED = "2014-12-03T00:00:00Z"
_ALIASES = {
    "os-aggregates": "Aggregates",
    "os-availability-zone": "AvailabilityZone",
    "os-console-output": "ConsoleOutput",
    "os-create-backup": "CreateBackup",
    "os-disk-config": "DiskConfig",
    "os-extended-availability-zone": "ExtendedAvailabilityZone",
    "os-extended-server-attributes": "ExtendedServerAttributes",
    "os-extended-status": "ExtendedStatus",
    "os-flavor-access": "FlavorAccess",
    "os-flavor-extra-specs": "FlavorExtraSpecs",
    "os-flavor-manage": "FlavorManage",
    "os-hypervisors": "Hypervisors",
    "os-instance-actions": "InstanceActions",
    "os-attach-interfaces": "AttachInterfaces",
    "os-keypairs": "Keypairs",
    "os-lock-server": "LockServer",
    "os-migrate-server": "MigrateServer",
    "os-migrations": "Migrations",
    "os-multiple-create": "MultipleCreate",
    "os-pause-server": "PauseServer",
    "os-quota-class-sets": "QuotaClasses",
    "os-quota-sets": "Quotas",
    "os-rescue": "Rescue",
    "os-scheduler-hints": "SchedulerHints",
    "os-server-groups": "ServerGroups",
    "os-server-password": "ServerPassword",
    "os-server-usage": "ServerUsage",
    "os-services": "Services",
    "os-shelve": "Shelve",
    "os-simple-tenant-usage": "SimpleTenantUsage",
    "os-suspend-server": "SuspendServer",
    "os-used-limits": "UsedLimits",
    "os-user-data": "UserData",
}


def _view(alias: str) -> dict[str, object]:
    return {
        "alias": alias,
        "name": _ALIASES[alias],
        "namespace": "http://docs.openstack.org/compute/ext/fake_xml",
        "description": f"{_ALIASES[alias]}: part of the API.",
        "updated": _UPDATED,
        "links": [],
    }


async def listed(call: Call) -> Answer:
    """What old clients know as extensions."""
    return {"extensions": [_view(alias) for alias in sorted(_ALIASES)]}


async def show(call: Call) -> Answer:
    """One of them."""
    alias = call.params["alias"]
    if alias not in _ALIASES:
        raise NotFound("no-extension", "The resource could not be found.")
    return {"extension": _view(alias)}
