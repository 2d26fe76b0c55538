"""Every address of the compute API: method, path, handler, policy, success, and the microversions that have it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from banyan.api.nova import (
    actions,
    aggregates,
    extensions,
    flavors,
    groups,
    hypervisors,
    images,
    instance_actions,
    interfaces,
    keypairs,
    metadata,
    migrations,
    quotas,
    servers,
    usage,
    versions,
)
from banyan.api.openstack.call import Answer, Call
from banyan.api.openstack.table import OPEN, Method, Operation, op, op_with

# not-offered: Compute's old security groups, floating IPs, networks (2.36), image metadata (2.39), os-hosts (2.43)
# not-offered: server diagnostics (501), external events of other services, and the usage audit log
# not-offered: volumes, file injection, consoles, live migration and evacuation by hand, trusted certificates
# User data is up to 64 KiB in base 64; a thousand tags or items of metadata come beside it.
_LARGE = 512 * 1024
_SERVER = "/v2.1/servers/{server_id}"
_FLAVOR = "/v2.1/flavors/{flavor_id}"

Bodied = Callable[[Call, object], Awaitable[Answer]]


def body(
    method: Method,
    path: str,
    handler: Bodied,
    action: str,
    *,
    status: int = 200,
    first: str = "",
    last: str = "",
    most: int = 64 * 1024,
) -> Operation:
    """A row whose handler reads the body field by field (fields.py)."""
    return op_with(method, path, handler, action, body=object, status=status, first=first, last=last, most=most)


def act(
    key: str,
    handler: Bodied,
    action: str,
    *,
    path: str = f"{_SERVER}/action",
    status: int = 202,
    first: str = "",
    last: str = "",
    most: int = 64 * 1024,
) -> Operation:
    """A row of the actions: the body's only key says which."""
    return op_with(
        "POST", path, handler, action, body=object, key=key, status=status, first=first, last=last, most=most
    )


_VERSIONS = (
    op("GET", "", versions.listed, OPEN),
    op("GET", "/", versions.listed, OPEN),
    op("GET", "/v2", versions.old, OPEN),
    op("GET", "/v2/", versions.old, OPEN),
    op("GET", "/v2.1", versions.current, OPEN),
    op("GET", "/v2.1/", versions.current, OPEN),
    op("GET", "/v2.1/extensions", extensions.listed, "compute:list_extensions"),
    op("GET", "/v2.1/extensions/{alias}", extensions.show, "compute:list_extensions"),
)

_SERVERS = (
    body("POST", "/v2.1/servers", servers.create, "compute:server_create", status=202, most=_LARGE),
    op("GET", "/v2.1/servers", servers.listed, "compute:server_list"),
    op("GET", "/v2.1/servers/detail", servers.detailed, "compute:server_list"),
    op("GET", _SERVER, servers.show, "compute:server_show"),
    body("PUT", _SERVER, servers.update, "compute:server_change"),
    op("DELETE", _SERVER, servers.delete, "compute:server_delete", status=204),
)

_ACTIONS = (
    act("os-start", actions.start, "compute:server_start"),
    act("os-stop", actions.stop, "compute:server_stop"),
    act("reboot", actions.reboot, "compute:server_reboot"),
    act("rebuild", actions.rebuild, "compute:server_rebuild", most=_LARGE),
    act("resize", actions.resize, "compute:server_resize"),
    act("confirmResize", actions.confirm_resize, "compute:server_confirm_resize", status=204),
    act("revertResize", actions.revert_resize, "compute:server_revert_resize"),
    act("migrate", actions.migrate, "compute:server_migrate"),
    act("pause", actions.pause, "compute:server_pause"),
    act("unpause", actions.unpause, "compute:server_unpause"),
    act("suspend", actions.suspend, "compute:server_suspend"),
    act("resume", actions.resume, "compute:server_resume"),
    act("rescue", actions.rescue, "compute:server_rescue", status=200),
    act("unrescue", actions.unrescue, "compute:server_unrescue"),
    act("shelve", actions.shelve, "compute:server_shelve"),
    act("shelveOffload", actions.offload, "compute:server_offload"),
    act("unshelve", actions.unshelve, "compute:server_unshelve"),
    act("lock", actions.lock, "compute:server_lock"),
    act("unlock", actions.unlock, "compute:server_unlock"),
    act("changePassword", actions.change_password, "compute:server_set_password"),
    act("os-resetState", actions.reset_state, "compute:server_reset"),
    act("forceDelete", actions.force_delete, "compute:server_delete"),
    act("restore", actions.restore, "compute:server_show"),
    act("os-getConsoleOutput", actions.console_output, "compute:server_console", status=200),
    act("createImage", actions.create_image, "compute:server_snapshot"),
    act("createBackup", actions.create_backup, "compute:server_snapshot"),
    act("addSecurityGroup", actions.add_security_group, "compute:server_change"),
    act("removeSecurityGroup", actions.remove_security_group, "compute:server_change"),
    act("os-migrateLive", actions.live_migrate, "compute:server_migrate"),
    act("evacuate", actions.evacuate, "compute:server_migrate"),
    act("trigger_crash_dump", actions.crash_dump, "compute:server_reset", first="2.17"),
    act("os-getVNCConsole", actions.vnc_console, "compute:server_console", last="2.5"),
    act("os-getSPICEConsole", actions.spice_console, "compute:server_console", last="2.5"),
    act("os-getRDPConsole", actions.rdp_console, "compute:server_console", last="2.5"),
    act("os-getSerialConsole", actions.serial_console, "compute:server_console", last="2.5"),
    act("addFixedIp", actions.fixed_ip, "compute:server_change", last="2.43"),
    act("removeFixedIp", actions.fixed_ip, "compute:server_change", last="2.43"),
    act("addFloatingIp", actions.floating_ip, "compute:server_change", last="2.43"),
    act("removeFloatingIp", actions.floating_ip, "compute:server_change", last="2.43"),
    act("injectNetworkInfo", actions.no_injection, "compute:server_reset"),
    act("resetNetwork", actions.no_injection, "compute:server_reset"),
)

_PARTS = (
    op("GET", f"{_SERVER}/metadata", metadata.index, "compute:server_show"),
    body("PUT", f"{_SERVER}/metadata", metadata.replace, "compute:server_change"),
    body("POST", f"{_SERVER}/metadata", metadata.merge, "compute:server_change"),
    op("GET", f"{_SERVER}/metadata/{{key}}", metadata.show, "compute:server_show"),
    body("PUT", f"{_SERVER}/metadata/{{key}}", metadata.put, "compute:server_change"),
    op("DELETE", f"{_SERVER}/metadata/{{key}}", metadata.drop, "compute:server_change", status=204),
    op("GET", f"{_SERVER}/tags", metadata.tags, "compute:server_show", first="2.26"),
    body("PUT", f"{_SERVER}/tags", metadata.replace_tags, "compute:server_change", first="2.26"),
    op("DELETE", f"{_SERVER}/tags", metadata.drop_tags, "compute:server_change", first="2.26", status=204),
    op("GET", f"{_SERVER}/tags/{{tag}}", metadata.has_tag, "compute:server_show", first="2.26", status=204),
    op("PUT", f"{_SERVER}/tags/{{tag}}", metadata.add_tag, "compute:server_change", first="2.26", status=201),
    op("DELETE", f"{_SERVER}/tags/{{tag}}", metadata.drop_tag, "compute:server_change", first="2.26", status=204),
    op("GET", f"{_SERVER}/ips", interfaces.addresses, "compute:server_show"),
    op("GET", f"{_SERVER}/ips/{{network}}", interfaces.network_addresses, "compute:server_show"),
    op("GET", f"{_SERVER}/os-interface", interfaces.index, "compute:server_show"),
    body("POST", f"{_SERVER}/os-interface", interfaces.attach, "compute:server_attach"),
    op("GET", f"{_SERVER}/os-interface/{{port_id}}", interfaces.show, "compute:server_show"),
    op("DELETE", f"{_SERVER}/os-interface/{{port_id}}", interfaces.detach, "compute:server_detach", status=202),
    op("GET", f"{_SERVER}/os-security-groups", interfaces.security_groups, "compute:server_show"),
    op("GET", f"{_SERVER}/os-instance-actions", instance_actions.index, "compute:server_actions"),
    op("GET", f"{_SERVER}/os-instance-actions/{{request_id}}", instance_actions.show, "compute:server_actions"),
    op("GET", f"{_SERVER}/os-server-password", interfaces.password, "compute:server_password"),
    op("DELETE", f"{_SERVER}/os-server-password", interfaces.drop_password, "compute:server_set_password", status=204),
    op("GET", f"{_SERVER}/os-volume_attachments", interfaces.no_volumes, "compute:server_show"),
    body("POST", f"{_SERVER}/os-volume_attachments", interfaces.attach_volume, "compute:server_attach"),
    op("GET", f"{_SERVER}/os-volume_attachments/{{volume_id}}", interfaces.no_volume, "compute:server_show"),
    body("PUT", f"{_SERVER}/os-volume_attachments/{{volume_id}}", interfaces.no_volume_with, "compute:server_attach"),
    op("DELETE", f"{_SERVER}/os-volume_attachments/{{volume_id}}", interfaces.no_volume, "compute:server_detach"),
    op("GET", f"{_SERVER}/migrations", interfaces.no_migrations, "compute:list_migrations", first="2.23"),
    op(
        "GET",
        f"{_SERVER}/migrations/{{migration_id}}",
        interfaces.no_migration,
        "compute:list_migrations",
        first="2.23",
    ),
    op(
        "DELETE",
        f"{_SERVER}/migrations/{{migration_id}}",
        interfaces.no_migration,
        "compute:server_migrate",
        first="2.24",
    ),
    act(
        "force_complete",
        interfaces.no_migration_action,
        "compute:server_migrate",
        path=f"{_SERVER}/migrations/{{migration_id}}/action",
        first="2.22",
    ),
    op("GET", f"{_SERVER}/diagnostics", interfaces.not_offered, "compute:server_hosts"),
    op("GET", f"{_SERVER}/topology", interfaces.topology, "compute:server_show", first="2.78"),
    body("POST", f"{_SERVER}/remote-consoles", interfaces.not_offered_with, "compute:server_console", first="2.6"),
)

_FLAVORS = (
    op("GET", "/v2.1/flavors", flavors.listed, "compute:list_flavors"),
    op("GET", "/v2.1/flavors/detail", flavors.detailed, "compute:list_flavors"),
    body("POST", "/v2.1/flavors", flavors.create, "compute:create_flavor", most=_LARGE),
    op("GET", _FLAVOR, flavors.show, "compute:get_flavor"),
    body("PUT", _FLAVOR, flavors.describe, "compute:update_flavor", first="2.55", most=_LARGE),
    op("DELETE", _FLAVOR, flavors.delete, "compute:delete_flavor", status=202),
    op("GET", f"{_FLAVOR}/os-extra_specs", flavors.specs, "compute:get_flavor_extra_specs"),
    body("POST", f"{_FLAVOR}/os-extra_specs", flavors.add_specs, "compute:update_flavor_extra_specs"),
    op("GET", f"{_FLAVOR}/os-extra_specs/{{key}}", flavors.spec, "compute:get_flavor_extra_specs"),
    body("PUT", f"{_FLAVOR}/os-extra_specs/{{key}}", flavors.put_spec, "compute:update_flavor_extra_specs"),
    op("DELETE", f"{_FLAVOR}/os-extra_specs/{{key}}", flavors.drop_spec, "compute:update_flavor_extra_specs"),
    op("GET", f"{_FLAVOR}/os-flavor-access", flavors.access, "compute:list_flavor_access"),
    act("addTenantAccess", flavors.open_to, "compute:add_flavor_access", path=f"{_FLAVOR}/action", status=200),
    act("removeTenantAccess", flavors.close_to, "compute:remove_flavor_access", path=f"{_FLAVOR}/action", status=200),
)

_IMAGES = (
    op("GET", "/v2.1/images", images.listed, "compute:list_images", last="2.35"),
    op("GET", "/v2.1/images/detail", images.detailed, "compute:list_images", last="2.35"),
    op("GET", "/v2.1/images/{image_id}", images.show, "compute:get_image", last="2.35"),
    op("DELETE", "/v2.1/images/{image_id}", images.delete, "compute:delete_image", status=204, last="2.35"),
)

_QUOTA = "/v2.1/os-quota-sets/{project_id}"
_OWN = (
    op("GET", "/v2.1/os-keypairs", keypairs.listed, "compute:list_keypairs"),
    body("POST", "/v2.1/os-keypairs", keypairs.create, "compute:create_keypair", status=201),
    op("GET", "/v2.1/os-keypairs/{name}", keypairs.show, "compute:get_keypair"),
    op("DELETE", "/v2.1/os-keypairs/{name}", keypairs.delete, "compute:delete_keypair", status=204),
    op("GET", "/v2.1/os-server-groups", groups.listed, "compute:list_server_groups"),
    body("POST", "/v2.1/os-server-groups", groups.create, "compute:create_server_group"),
    op("GET", "/v2.1/os-server-groups/{group_id}", groups.show, "compute:get_server_group"),
    op("DELETE", "/v2.1/os-server-groups/{group_id}", groups.delete, "compute:delete_server_group", status=204),
    op("GET", "/v2.1/limits", quotas.limits, "compute:get_limits"),
    op("GET", _QUOTA, quotas.show, "compute:get_quota_set"),
    op("GET", f"{_QUOTA}/detail", quotas.detail, "compute:get_quota_set"),
    op("GET", f"{_QUOTA}/defaults", quotas.defaults, "compute:get_quota_defaults"),
    body("PUT", _QUOTA, quotas.update, "compute:update_quota_set"),
    op("DELETE", _QUOTA, quotas.delete, "compute:delete_quota_set", status=202),
    op("GET", "/v2.1/os-quota-class-sets/{class_id}", quotas.show_class, "compute:get_quota_class"),
    body("PUT", "/v2.1/os-quota-class-sets/{class_id}", quotas.update_class, "compute:update_quota_class"),
    op("GET", "/v2.1/os-simple-tenant-usage", usage.listed, "compute:list_usage"),
    op("GET", "/v2.1/os-simple-tenant-usage/{project_id}", usage.show, "compute:get_usage"),
)

_HYPERVISOR = "/v2.1/os-hypervisors/{hypervisor_id}"
_AGGREGATE = "/v2.1/os-aggregates/{aggregate_id}"
_SERVICE = "/v2.1/os-services/{service_id}"
_TREE = (
    op("GET", "/v2.1/os-hypervisors", hypervisors.listed, "compute:list_hypervisors"),
    op("GET", "/v2.1/os-hypervisors/detail", hypervisors.detailed, "compute:list_hypervisors"),
    op("GET", "/v2.1/os-hypervisors/statistics", hypervisors.statistics, "compute:list_hypervisors", last="2.87"),
    op("GET", _HYPERVISOR, hypervisors.show, "compute:get_hypervisor"),
    op("GET", f"{_HYPERVISOR}/uptime", hypervisors.uptime, "compute:get_hypervisor", last="2.87"),
    op("GET", f"{_HYPERVISOR}/search", hypervisors.search, "compute:list_hypervisors", last="2.52"),
    op("GET", f"{_HYPERVISOR}/servers", hypervisors.servers, "compute:list_hypervisors", last="2.52"),
    op("GET", "/v2.1/os-services", hypervisors.services, "compute:list_services"),
    body("PUT", _SERVICE, hypervisors.update_named_service, "compute:update_service", last="2.52"),
    body("PUT", _SERVICE, hypervisors.update_service, "compute:update_service", first="2.53"),
    op("DELETE", _SERVICE, hypervisors.delete_service, "compute:update_service", status=204),
    op("GET", "/v2.1/os-availability-zone", hypervisors.zones, "compute:list_availability_zones"),
    op("GET", "/v2.1/os-availability-zone/detail", hypervisors.zone_hosts, "compute:list_availability_zone_hosts"),
    op("GET", "/v2.1/os-aggregates", aggregates.listed, "compute:list_aggregates"),
    body("POST", "/v2.1/os-aggregates", aggregates.create, "compute:create_aggregate"),
    op("GET", _AGGREGATE, aggregates.show, "compute:get_aggregate"),
    body("PUT", _AGGREGATE, aggregates.update, "compute:update_aggregate"),
    op("DELETE", _AGGREGATE, aggregates.delete, "compute:delete_aggregate"),
    act("add_host", aggregates.add_host, "compute:update_aggregate", path=f"{_AGGREGATE}/action", status=200),
    act("remove_host", aggregates.remove_host, "compute:update_aggregate", path=f"{_AGGREGATE}/action", status=200),
    act("set_metadata", aggregates.set_metadata, "compute:update_aggregate", path=f"{_AGGREGATE}/action", status=200),
    body("POST", f"{_AGGREGATE}/images", aggregates.cache_images, "compute:update_aggregate", status=202, first="2.81"),
    op("GET", "/v2.1/os-migrations", migrations.listed, "compute:list_migrations"),
)

ROWS: tuple[Operation, ...] = (*_VERSIONS, *_SERVERS, *_ACTIONS, *_PARTS, *_FLAVORS, *_IMAGES, *_OWN, *_TREE)
