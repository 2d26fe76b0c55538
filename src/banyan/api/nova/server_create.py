"""The body of a create, in each of its versions, read into a wish. What it names is looked up in zone/compute."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from banyan.api.nova import fields
from banyan.api.nova.fields import Fields, bad
from banyan.api.openstack.microversion import Version
from banyan.core.errors import BadInput, Refused
from banyan.core.order import MAX_GUESTS, GroupScope, NetworkWish
from banyan.zone.compute.life import ACCESS_4, ACCESS_6, NOTES
from banyan.zone.compute.ordering import Wish

MAX_NETWORKS = 32
MAX_DEVICES = 64
# A hint of ours: whether the group's rule is about hosts or about the zones (and racks) of the zone that has the group.
GROUP_SCOPE = "banyan:group_scope"
_COUNT = fields.whole(1, 1_000_000)
_NOT_HOST = re.compile(r"[^a-z0-9-]+")


def read(body: object, version: Version, may_place: bool, retry_key: str = "") -> tuple[Wish, str | None, bool]:
    """(the wish, the password that the body gave, whether only the reservation is asked for).

    Raises BadInput for anything that a server of ours can not be made of, Refused for what only administrators may say.
    """
    minor = version.minor
    outer = Fields(body, "body")
    hints = outer.take("os:scheduler_hints", _hints, None)
    hints = outer.take("OS-SCH-HNT:scheduler_hints", _hints, hints)
    server = Fields(outer.need("server", fields.anything), "server")
    outer.done()

    name = server.need("name", fields.name)
    flavor = server.need("flavorRef", fields.flavor_ref)
    image = server.take("imageRef", _image_ref, "")
    image = _devices(server, image, minor)
    metadata = server.take("metadata", fields.metadata, {})
    if NOTES & metadata.keys():
        raise bad("metadata", "These keys are this service's own.", ", ".join(sorted(NOTES)))
    notes = _notes(server)
    networks, automatic, none = _networks(server, minor)
    zone, host = _zone(server.take("availability_zone", fields.name, ""), may_place)
    host = _host(server, minor, may_place) or host
    least = server.take("min_count", _COUNT, 1)
    most = server.take("max_count", _COUNT, least)
    hostname = _hostname(server, minor, most)
    wish = Wish(
        name,
        flavor,
        image,
        description=server.take("description", fields.or_none(fields.description), None) if minor >= 19 else name,
        metadata=metadata,
        notes=notes,
        key_name=server.take("key_name", fields.name, ""),
        user_data=server.take("user_data", fields.user_data, ""),
        config_drive=server.take("config_drive", fields.truth, False),
        tags=server.take("tags", fields.tags, ()) if minor >= 52 else (),
        networks=networks,
        automatic_network=automatic,
        no_network=none,
        security_groups=server.take("security_groups", _security_groups, ()),
        availability_zone=zone,
        host=host,
        hostname=hostname or _sanitized(name),
        disk_config=server.take("OS-DCF:diskConfig", fields.disk_config, "MANUAL"),
        least=least,
        most=most,
        retry_key=retry_key,
        **(hints or {}),  # type: ignore[arg-type]  # texts and tuples of texts, by their names
    )
    password = server.take("adminPass", fields.text(0, 255), None)
    reservation = server.take("return_reservation_id", fields.truth, False)
    _not_offered(server, minor)
    server.done()
    if least > most:
        raise BadInput("bad-count", "min_count must be <= max_count")
    if most > MAX_GUESTS:
        raise BadInput("bad-count", f"one request makes at most {MAX_GUESTS} servers, got max_count {most}")
    if not image:
        raise BadInput("bad-image", "Invalid imageRef provided.")
    return wish, password, reservation


def _image_ref(value: object, field: str) -> str:
    return "" if value == "" else fields.uuid(value, field)


def _notes(server: Fields) -> Mapping[str, str]:
    found: dict[str, str] = {}
    for field, note, version in (("accessIPv4", ACCESS_4, 4), ("accessIPv6", ACCESS_6, 6)):
        address = server.take(field, fields.address_or_empty(version), "")
        if address:
            found[note] = address
    return found


def _hostname(server: Fields, minor: int, most: int) -> str:
    if minor < 90:
        return ""
    hostname = server.take("hostname", fields.fqdn if minor >= 94 else fields.hostname, "")
    if hostname and most > 1:
        raise BadInput("bad-hostname", "Unable to allocate a single hostname to multiple instances")
    return hostname


def _sanitized(name: str) -> str:
    """A host name out of a server's name; "" if nothing of it can stand in one (then the leaf makes one of the id)."""
    return _NOT_HOST.sub("-", name.lower()).strip("-")[:63].rstrip("-")


def _zone(name: str, may_place: bool) -> tuple[str, str]:
    """The zone, and the host: `ZONE:HOST:NODE` is an administrator's way to name one. Raises Refused for others,
    BadInput for a node that is not its host's: here each host is one."""
    zone, colon, rest = name.partition(":")
    if not colon:
        return zone, ""
    if not may_place:
        raise no_placing()
    host, _, node = rest.partition(":")
    return zone, _same(host, node)


def _host(server: Fields, minor: int, may_place: bool) -> str:
    """The host that an administrator names by itself, "" if none."""
    if minor < 74:
        return ""
    host = _same(server.take("host", fields.fqdn, ""), server.take("hypervisor_hostname", fields.fqdn, ""))
    if host and not may_place:
        raise no_placing()
    return host


def _same(host: str, node: str) -> str:
    if host and node and host != node:
        raise BadInput("no-host", f"No compute node {node[:80]} on host {host[:80]}: a host is its own only node here")
    return host or node


def no_placing() -> Refused:
    return Refused("forbidden", "Policy doesn't allow compute:server_place to be performed.")


# --- networks -------------------------------------------------------------------------------------


def _networks(server: Fields, minor: int) -> tuple[tuple[NetworkWish, ...], bool, bool]:
    """(wishes, automatic, none)."""
    if minor >= 37:
        value = server.need("networks", fields.anything)
        if value in ("auto", "none"):
            return (), value == "auto", value == "none"
        if isinstance(value, str):
            raise bad("networks", "It is not one of ['none', 'auto'], nor a list.", value)
    elif "networks" not in server:
        return (), False, False
    else:
        value = server.need("networks", fields.anything)
    wanted = fields.items(value, "networks")
    if len(wanted) > MAX_NETWORKS:
        raise bad("networks", f"A server has at most {MAX_NETWORKS} interfaces.", len(wanted))
    tagged = 32 <= minor <= 36 or minor >= 42
    return tuple(_network(one, tagged=tagged) for one in wanted), False, False


def _network(value: object, *, tagged: bool) -> NetworkWish:
    one = Fields(value, "networks")
    port = one.take("port", fields.or_none(fields.uuid), None)
    network = one.take("uuid", fields.or_none(fields.text(0, 255)), None)
    address = one.take("fixed_ip", fields.or_none(fields.address()), None)
    tag = one.take("tag", fields.tag, "") if tagged else ""
    one.done()
    if port:
        if address:
            raise BadInput("bad-network", "Specified Fixed IP cannot be used with port: port already has a Fixed IP.")
        return NetworkWish(port=port, tag=tag)
    if not network or not fields.is_uuid(network):
        raise BadInput(
            "bad-network", f"Bad networks format: network uuid is not in proper format ({(network or '')[:80]})"
        )
    return NetworkWish(network=network, addresses=(address,) if address else (), tag=tag)


def _security_groups(value: object, field: str) -> tuple[str, ...]:
    found: dict[str, None] = {}
    for one in fields.items(value, field):
        group = Fields(one, field)
        name = group.take("name", fields.name, "")
        group.done()
        if name:
            found[name] = None
    return tuple(found)


# --- hints ----------------------------------------------------------------------------------------


def _hints(value: object, field: str) -> dict[str, object]:
    given = Fields(value, field)
    group = given.take("group", _group, "")
    scope = given.take(GROUP_SCOPE, fields.one_of(*GroupScope), GroupScope.HOST)
    same = given.take("same_host", fields.uuids, ())
    different = given.take("different_host", fields.uuids, ())
    shown: dict[str, str] = {}
    if isinstance(value, dict):
        # Hints are open: what placement here does not know is kept to be shown, within bounds.
        for key, hint in list(value.items())[:64]:
            shown[key[:255]] = (hint if isinstance(hint, str) else json.dumps(hint))[:1_024]
    return {
        "group": group,
        "group_scope": GroupScope(scope),
        "same_host": same,
        "different_host": different,
        "hints": shown,
    }


def _group(value: object, field: str) -> str:
    found = fields.uuids(value, field)
    if len(found) != 1:
        raise bad(field, "It is the id of one server group.", value)
    return found[0]


# --- devices --------------------------------------------------------------------------------------


def _devices(server: Fields, image: str, minor: int) -> str:
    """The image to boot from. Local disks that the flavor has anyway may be named; volumes are refused."""
    if server.take("block_device_mapping", fields.items, ()):
        raise no_volumes()
    if "block_device_mapping_v2" not in server:
        return image
    devices = fields.items(server.need("block_device_mapping_v2", fields.anything), "block_device_mapping_v2")
    if len(devices) > MAX_DEVICES:
        raise bad("block_device_mapping_v2", f"A server has at most {MAX_DEVICES} devices.", len(devices))
    for value in devices:
        image = _device(value, image, minor)
    return image


def _device(value: object, image: str, minor: int) -> str:
    one = Fields(value, "block_device_mapping_v2")
    source = one.take("source_type", fields.one_of("volume", "image", "snapshot", "blank"), "")
    to = one.take("destination_type", fields.one_of("local", "volume"), "")
    named = one.take("uuid", fields.or_none(fields.text(1, 255)), None)
    boot = one.take("boot_index", fields.or_none(fields.whole(-1_000, 1_000)), None)
    one.take("delete_on_termination", fields.truth, True)
    for field in ("guest_format", "device_type", "disk_bus", "device_name", "virtual_name"):
        one.take(field, fields.or_none(fields.text(0, 255)), None)
    one.take("volume_size", fields.or_none(fields.anything), None)
    one.drop("no_device")
    if minor == 32 or minor >= 42:
        one.take("tag", fields.tag, "")
    if minor >= 67:
        one.take("volume_type", fields.or_none(fields.text(0, 255)), None)
    volume = any(field in one for field in ("volume_id", "snapshot_id", "image_id", "connection_info"))
    if volume or to == "volume" or source in ("volume", "snapshot"):
        raise no_volumes()
    one.done()
    if source == "image":
        if boot != 0:
            raise BadInput("bad-device", "Mapping image to local is not supported.")
        if image and named and named != image:
            raise BadInput("bad-device", "the image to boot from is not the one that imageRef names")
        return fields.uuid(named, "uuid")
    return image


def no_volumes() -> BadInput:
    return BadInput("no-volumes", "Block Device Mapping is Invalid: this cloud has no volumes; boot from an image")


def _not_offered(server: Fields, minor: int) -> None:
    if minor <= 56 and server.take("personality", fields.items, []):
        raise BadInput("no-personality", "files are not injected here; use user_data")
    if minor >= 63 and server.take("trusted_image_certificates", fields.or_none(fields.texts), None):
        raise BadInput("no-certificates", "trusted_image_certificates are not offered; leave them out")
