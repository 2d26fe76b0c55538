"""The filters and order of a list of servers, read into a query that goes down to the leaves.

Who is no administrator may filter by less; what it may not use is passed over before 2.75 and refused from then on, as
Nova has it. So is what nobody knows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime

from banyan.api.nova import fields, words
from banyan.api.nova.server_view import reservation
from banyan.api.openstack.call import Call, truth
from banyan.core.errors import BadInput, Refused
from banyan.core.permissions import may
from banyan.core.server import Power, Server, ServerQuery, Sort, SortKey, VmState
from banyan.core.time import Wall
from banyan.zone.compute.life import ACCESS_4, ACCESS_6
from banyan.zone.compute.lists import Keep

MAX_LIMIT = 1_000


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Query parameter → the query's field. All are exact, but name, ip, ip6, hostname and description: patterns.
_TEXTS = {
    "name": "name",
    "display_name": "name",
    "flavor": "flavor",
    "image": "image",
    "image_ref": "image",
    "ip": "address",
    "ip6": "address6",
    "user_id": "user",
    "key_name": "key_name",
    "availability_zone": "availability_zone",
    "hostname": "hostname",
    "description": "description",
    "display_description": "description",
}
# What everybody may use; from 2.5 ip6, from 2.83 the second line too.
_EVERYBODY = _words("""
    reservation_id name status image flavor ip changes-since changes-before all_tenants limit marker sort_key sort_dir
    tags tags-any not-tags not-tags-any locked deleted display_name
    """)
_FROM_83 = _words("""
    availability_zone config_drive key_name created_at launched_at terminated_at power_state task_state vm_state
    progress user_id
    """)
_ADMIN = _words("""
    user_id project_id tenant_id launch_index image_ref kernel_id ramdisk_id hostname key_name power_state vm_state
    task_state host node launched_at terminated_at availability_zone description display_description locked_by uuid
    root_device_name config_drive access_ip_v4 access_ip_v6 auto_disk_config progress soft_deleted created_at metadata
    """)
_KNOWN = _EVERYBODY | _FROM_83 | _ADMIN | {"ip6"}
# Inner names of Nova's that must not be asked for.
_INNER = _words("block_device_mapping services system_metadata info_cache security_groups pci_devices")

_SORT_KEYS = {
    "created_at": SortKey.CREATED,
    "updated_at": SortKey.UPDATED,
    "display_name": SortKey.NAME,
    "vm_state": SortKey.STATE,
    "task_state": SortKey.TASK,
    "host": SortKey.HOST,
    "node": SortKey.HOST,
    "project_id": SortKey.PROJECT,
    "user_id": SortKey.USER,
    "uuid": SortKey.ID,
    "launched_at": SortKey.LAUNCHED,
    "instance_type_id": SortKey.FLAVOR,
    "image_ref": SortKey.IMAGE,
}
# Known, and ordering nothing here: they are passed over.
_PASSED = _words("""
    access_ip_v4 access_ip_v6 auto_disk_config availability_zone config_drive display_description hostname kernel_id
    key_name launch_index locked_by power_state progress ramdisk_id root_device_name terminated_at locked
    """)
_PASSED_BEFORE_75 = _words("""
    architecture cell_name cleaned default_ephemeral_device default_swap_device deleted deleted_at disable_terminate
    ephemeral_gb ephemeral_key_uuid id key_data launched_on memory_mb os_type reservation_id root_gb
    shutdown_terminate user_data vcpus vm_mode
    """)


def read(call: Call) -> ServerQuery | None:
    """None if nothing can match. Raises BadInput, Refused."""
    who, minor = call.principal, call.version.minor
    admin = may(who, "compute:server_list_all")
    given = _given(call, minor, admin=admin)
    found: dict[str, object] = {"issuer": who.issuer, "project": who.project}
    if given.get("all_tenants") is not None and _all(given["all_tenants"]):
        if not admin:
            raise Refused("forbidden", "Policy doesn't allow compute:server_list_all to be performed.")
        found["every_project"] = True
        found["project"] = given.get("project_id") or given.get("tenant_id") or ""
    for parameter, field in _TEXTS.items():
        if given.get(parameter):
            found[field] = given[parameter].rsplit("/", 1)[-1] if field == "image" else given[parameter]
    if given.get("uuid"):
        found["ids"] = (given["uuid"],)
    if not _states(call, given, found, minor, admin=admin):
        return None
    _times(given, found)
    if minor >= 26:
        for parameter, field in _TAGS.items():
            if given.get(parameter):
                found[field] = tuple(fields.tag(one, parameter) for one in given[parameter].split(","))
    if minor >= 73 and "locked" in given:
        found["locked"] = _strict("locked", given["locked"])
    if given.get("config_drive"):
        found["config_drive"] = _lenient(given["config_drive"])
    if given.get("power_state"):
        found["power"] = _power(given["power_state"])
        if found["power"] is None:
            return None
    found["sort"] = _sort(call, minor, admin=admin)
    return ServerQuery(**found)  # type: ignore[arg-type]  # of the query's own types, by its fields' names


_TAGS = {"tags": "tags", "tags-any": "tags_any", "not-tags": "not_tags", "not-tags-any": "not_tags_any"}
_MANY = frozenset({"status", "sort_key", "sort_dir"})


def _given(call: Call, minor: int, *, admin: bool) -> dict[str, str]:
    """The parameters that count, each with its last value."""
    allowed = _EVERYBODY
    if minor >= 5:
        allowed |= {"ip6"}
    if minor >= 83:
        allowed |= _FROM_83
    if admin:
        allowed |= _ADMIN | {"ip6"}
    found: dict[str, str] = {}
    for name, values in call.query.items():
        if name in _INNER or name.startswith("_"):
            raise BadInput("bad-filter", f"Invalid filter field: {name[:80]}.")
        if minor >= 75 and name not in _KNOWN:
            text = f"Additional properties are not allowed ('{name[:80]}' was unexpected)"
            raise BadInput("bad-filter", f"Invalid input for query parameters {name[:80]}. {text}")
        if name not in allowed:
            continue
        found[name] = values[-1]
    return found


# What no leaf is asked for: looked at server by server, each exactly.
_SHOWN: Mapping[str, Callable[[Server], object]] = {
    "reservation_id": lambda server: reservation(server.order),
    "launch_index": lambda server: server.index,
    "created_at": lambda server: words.time(server.created),
    "launched_at": lambda server: words.precise(server.launched),
    "terminated_at": lambda server: words.precise(server.terminated),
    "progress": lambda server: server.progress,
    "locked_by": lambda server: server.locked_by,
    "access_ip_v4": lambda server: server.spec.metadata.get(ACCESS_4, ""),
    "access_ip_v6": lambda server: server.spec.metadata.get(ACCESS_6, ""),
    "auto_disk_config": lambda server: server.spec.disk_config == "AUTO",
    "root_device_name": lambda server: "/dev/vda",
    "kernel_id": lambda server: "",
    "ramdisk_id": lambda server: "",
    "node": lambda server: server.host_name,
    "host": lambda server: server.host_name,
}


def keep(call: Call) -> Keep | None:
    """What the query can not say; None if it says all."""
    given = _given(call, call.version.minor, admin=may(call.principal, "compute:server_list_all"))
    wanted = [(_SHOWN[name], value) for name, value in given.items() if name in _SHOWN]
    if not wanted:
        return None
    return lambda server: all(str(shown(server)) == value for shown, value in wanted)


def limit(call: Call) -> int:
    """The page's size. Raises BadInput for what is no whole number from 0."""
    value = call.query.get("limit", ("",))[-1]
    if not value:
        return MAX_LIMIT
    number = fields.digits(value)
    if number is None:
        raise BadInput("bad-limit", f"limit must be a whole number from 0, got {value[:40]!r}")
    return min(number, MAX_LIMIT)


def marker(call: Call) -> str:
    return call.query.get("marker", ("",))[-1]


def _all(value: str) -> bool:
    return True if value == "" else truth("all_tenants", value)


def _strict(name: str, value: str) -> bool:
    return truth(name, value)


def _lenient(value: str) -> bool:
    return value.strip().lower() in ("1", "t", "true", "on", "y", "yes")


def _states(call: Call, given: dict[str, str], found: dict[str, object], minor: int, *, admin: bool) -> bool:
    """False if no server can be in such a state."""
    if "status" in given:
        wanted = call.query.get("status", ())
        behind = words.behind(wanted)
        if behind is None:
            if minor >= 38 and not all(word.upper() in words.NEVER for word in wanted):
                raise BadInput("bad-status", "Invalid status value")
            return False
        states, tasks = behind
        if VmState.DELETED in states:
            if not admin:
                raise Refused("forbidden", "Only administrators may list deleted instances")
            found["deleted"] = True
        found["states"] = states
        if tasks is not None:
            found["tasks"] = tasks
    elif given.get("vm_state"):
        state = words.STATES.get(given["vm_state"].lower())
        if state is None:
            return False
        found["states"] = (state,)
    if given.get("task_state"):
        tasks = tuple(task for task, word in words.TASK_WORDS.items() if word == given["task_state"].lower())
        if not tasks:
            return False
        found["tasks"] = tasks
    if admin and _lenient(given.get("deleted", "")):
        found["deleted"] = True
    return True


def _times(given: dict[str, str], found: dict[str, object]) -> None:
    for parameter, field in (("changes-since", "changed_since"), ("changes-before", "changed_before")):
        if parameter in given:
            found[field] = instant(parameter, given[parameter])
    since, before = found.get("changed_since"), found.get("changed_before")
    if isinstance(since, float) and isinstance(before, float) and before < since:
        text = "The value of changes-since must be less than or equal to changes-before."
        raise BadInput("bad-times", text)


def instant(name: str, value: str) -> Wall:
    """An instant in ISO 8601; without a zone it is UTC. Raises BadInput."""
    try:
        # A plus in a query is a blank once it is read.
        at = datetime.fromisoformat(value.strip().replace(" ", "+") if "T" in value else value.strip())
    except ValueError as error:
        raise BadInput("bad-time", f"Invalid filter field: {name}. It is not a 'date-time': {value[:40]!r}") from error
    try:
        return Wall((at if at.tzinfo is not None else at.replace(tzinfo=UTC)).timestamp())
    except (OverflowError, ValueError) as error:
        raise BadInput("bad-time", f"Invalid filter field: {name}. It is out of range: {value[:40]!r}") from error


def _power(value: str) -> Power | None:
    return next((power for power, number in words.POWER.items() if str(number) == value), None)


def _sort(call: Call, minor: int, *, admin: bool) -> tuple[Sort, ...]:
    keys, directions = call.query.get("sort_key", ()), call.query.get("sort_dir", ())
    if len(directions) > len(keys) > 0:
        raise BadInput("bad-sort", "Sort direction size exceeds sort key size")
    passed = _PASSED_BEFORE_75 if minor < 75 else ()
    found: list[Sort] = []
    for at, key in enumerate(keys):
        if key not in _SORT_KEYS and key not in _PASSED and key not in passed:
            raise BadInput("bad-sort", f"Invalid input for query parameters sort_key. Value: {key[:80]!r}.")
        direction = directions[at] if at < len(directions) else "desc"
        if direction not in ("asc", "desc"):
            raise BadInput("bad-sort", f"Unknown sort direction, must be 'desc' or 'asc', got {direction[:40]!r}")
        sort = _SORT_KEYS.get(key)
        if sort is None or (sort is SortKey.HOST and not admin):
            continue
        found.append(Sort(sort, direction == "desc"))
    return tuple(found)
