"""Limits: a project's, those of every project, and what it has of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from banyan.api.nova import fields
from banyan.api.nova.fields import inner
from banyan.api.openstack.call import Answer, Call, Reply
from banyan.core.permissions import may
from banyan.core.quota import MAX_LIMIT, Limits, Quota
from banyan.zone.compute.quotas import Standing

# In the order of Nova's answers.
WORDS: Mapping[Quota, str] = {
    Quota.SERVERS: "instances",
    Quota.VCPU: "cores",
    Quota.MEMORY_MIB: "ram",
    Quota.METADATA_ITEMS: "metadata_items",
    Quota.INJECTED_FILES: "injected_files",
    Quota.INJECTED_BYTES: "injected_file_content_bytes",
    Quota.INJECTED_PATH: "injected_file_path_bytes",
    Quota.KEY_PAIRS: "key_pairs",
    Quota.SERVER_GROUPS: "server_groups",
    Quota.GROUP_MEMBERS: "server_group_members",
    Quota.FLOATING_IPS: "floating_ips",
    Quota.FIXED_IPS: "fixed_ips",
    Quota.SECURITY_GROUPS: "security_groups",
    Quota.SECURITY_RULES: "security_group_rules",
}
_NETWORK = frozenset({Quota.FLOATING_IPS, Quota.FIXED_IPS, Quota.SECURITY_GROUPS, Quota.SECURITY_RULES})
_FILES = frozenset({Quota.INJECTED_FILES, Quota.INJECTED_BYTES, Quota.INJECTED_PATH})
_GROUPS = frozenset({Quota.SERVER_GROUPS, Quota.GROUP_MEMBERS})
_LIMIT = fields.whole(-1, MAX_LIMIT)


def of_projects(minor: int) -> Sequence[Quota]:
    """Those that a version has for projects."""
    return [q for q in WORDS if not ((minor >= 36 and q in _NETWORK) or (minor >= 57 and q in _FILES))]


def _of_classes(minor: int) -> Sequence[Quota]:
    gone = (_NETWORK if minor >= 50 else _GROUPS) | (_FILES if minor >= 57 else frozenset())
    return [quota for quota in WORDS if quota not in gone]


def _shown(limits: Limits, quotas: Sequence[Quota]) -> dict[str, object]:
    return {WORDS[quota]: limits[quota] for quota in quotas}


async def show(call: Call) -> Answer:
    """A project's limits."""
    project = call.params["project_id"]
    limits = await call.compute.quotas.limits(call.principal, project)
    return {"quota_set": {"id": project, **_shown(limits, of_projects(call.version.minor))}}


async def detail(call: Call) -> Answer:
    """A project's limits, and what it has of each."""
    project = call.params["project_id"]
    standing = await call.compute.quotas.standing(call.principal, project)
    shown: dict[str, object] = {"id": project}
    for quota in of_projects(call.version.minor):
        shown[WORDS[quota]] = {"in_use": standing.used(quota), "limit": standing.limits[quota], "reserved": 0}
    return {"quota_set": shown}


async def defaults(call: Call) -> Answer:
    """The limits of a project that has none of its own."""
    limits = await call.compute.quotas.every(call.principal, "compute:get_quota_defaults")
    return {"quota_set": {"id": call.params["project_id"], **_shown(limits, of_projects(call.version.minor))}}


async def update(call: Call, body: object) -> Answer:
    """Gives a project limits of its own."""
    given = inner(body, "quota_set")
    quotas = of_projects(call.version.minor)
    wanted: dict[Quota, int] = {}
    for quota in quotas:
        value = given.take(WORDS[quota], _LIMIT, None)
        if value is not None:
            wanted[quota] = value
    force = given.take("force", fields.truth, False)
    given.take("tenant_id", fields.text(0, 255), "")
    given.done()
    project = call.params["project_id"]
    limits = await call.compute.quotas.set(call.principal, project, wanted, force=force)
    return {"quota_set": _shown(limits, quotas)}


async def delete(call: Call) -> Answer:
    """Gives a project the limits that all have."""
    await call.compute.quotas.clear(call.principal, call.params["project_id"])
    return Reply(status=202)


async def show_class(call: Call) -> Answer:
    """The limits of all projects that have none of their own."""
    limits = await call.compute.quotas.every(call.principal)
    return {"quota_class_set": {"id": call.params["class_id"], **_shown(limits, _of_classes(call.version.minor))}}


async def update_class(call: Call, body: object) -> Answer:
    """Changes the limits of all projects that have none of their own. Only the class `default` has an effect."""
    given = inner(body, "quota_class_set")
    fields.text(1, 255)(call.params["class_id"], "quota_class_name")
    quotas = _of_classes(call.version.minor)
    wanted: dict[Quota, int] = {}
    for quota in quotas:
        value = given.take(WORDS[quota], _LIMIT, None)
        if value is not None:
            wanted[quota] = value
    given.done()
    if call.params["class_id"] != "default":
        wanted = {}
    limits = await call.compute.quotas.set_every(call.principal, wanted)
    return {"quota_class_set": _shown(limits, quotas)}


# --- limits ---------------------------------------------------------------------------------------


async def limits(call: Call) -> Answer:
    """The limits of the caller's project, and what it has of them."""
    who, minor = call.principal, call.version.minor
    project = call.query.get("tenant_id", (who.project,))[-1]
    other = project != who.project and may(who, "compute:get_limits_of_others")
    standing = await call.compute.quotas.standing(
        who, project, "compute:get_limits_of_others" if other else "compute:get_limits"
    )
    return {"limits": {"rate": [], "absolute": _absolute(standing, minor)}}


def _absolute(standing: Standing, minor: int) -> dict[str, int]:
    most = standing.limits
    shown = {
        "maxTotalInstances": most[Quota.SERVERS],
        "maxTotalCores": most[Quota.VCPU],
        "maxTotalRAMSize": most[Quota.MEMORY_MIB],
        "maxServerMeta": most[Quota.METADATA_ITEMS],
        "maxTotalKeypairs": most[Quota.KEY_PAIRS],
        "maxServerGroups": most[Quota.SERVER_GROUPS],
        "maxServerGroupMembers": most[Quota.GROUP_MEMBERS],
        "totalInstancesUsed": standing.used(Quota.SERVERS),
        "totalCoresUsed": standing.used(Quota.VCPU),
        "totalRAMUsed": standing.used(Quota.MEMORY_MIB),
        "totalServerGroupsUsed": standing.groups,
    }
    if minor <= 38:
        shown["maxImageMeta"] = most[Quota.METADATA_ITEMS]
    if minor <= 56:
        shown["maxPersonality"] = most[Quota.INJECTED_FILES]
        shown["maxPersonalitySize"] = most[Quota.INJECTED_BYTES]
    if minor <= 35:
        shown["maxTotalFloatingIps"] = most[Quota.FLOATING_IPS]
        shown["maxSecurityGroups"] = most[Quota.SECURITY_GROUPS]
        shown["maxSecurityGroupRules"] = most[Quota.SECURITY_RULES]
        shown["totalFloatingIpsUsed"] = 0
        shown["totalSecurityGroupsUsed"] = 0
    return shown
