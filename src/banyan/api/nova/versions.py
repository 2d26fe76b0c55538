"""Which microversions of compute are offered, each with a sentence, and the documents by which clients discover them.

2.96 is the newest: up to it everything that a version adds is here, or is refused as OpenStack refuses what a cloud
does not have (volumes, live migration, consoles, certificates).
"""

from __future__ import annotations

from collections.abc import Mapping

from banyan.api.openstack.call import Answer, Call, Reply
from banyan.api.openstack.microversion import Microversions, Version

FIRST, LAST = Version(2, 1), Version(2, 96)
MICROVERSIONS = Microversions("compute", FIRST, LAST, "X-OpenStack-Nova-API-Version")

# What changes for a client with each, of what is offered here.
HISTORY: Mapping[int, str] = {
    1: "The first version: what v2.0 was, with inputs checked.",
    2: "Key pairs have a type, ssh or x509; creating one answers 201, deleting 204.",
    3: "Administrators see reservation, launch index, host name, root device and user data of servers.",
    4: "Fixed IPs say whether they are reserved; that address is not offered, as in clouds without nova-network.",
    5: "Everybody may filter servers by ip6.",
    6: "Remote consoles are asked for at one address; none is offered, so it answers 501.",
    7: "A public flavor can not be opened to a project: 409.",
    8: "The mks console has a word; no console is offered.",
    9: "Servers say whether they are locked.",
    10: "Administrators manage key pairs of other users.",
    11: "Services say whether they were forced down.",
    12: "Virtual interfaces name their network; that address is not offered.",
    13: "Server groups name their project and user.",
    14: "Evacuation loses onSharedStorage; it is not offered, a tree relocates by itself.",
    15: "Server groups may be soft: soft-affinity and soft-anti-affinity.",
    16: "Administrators see the status of a server's host.",
    17: "A crash dump may be triggered; it is not offered.",
    18: "A project id in addresses is not needed; addresses here never have one.",
    19: "Servers have a description.",
    20: "Volumes may be attached to shelved servers; volumes are not offered.",
    21: "Actions of deleted servers are shown.",
    22: "A running live migration may be forced; live migration is not offered.",
    23: "Migrations have a type, and running live ones are shown at the server.",
    24: "A running live migration may be cancelled; live migration is not offered.",
    25: "Live migration chooses how it copies; it is not offered.",
    26: "Servers have tags, and are filtered by them.",
    27: "Microversions are asked for in the header that all OpenStack services share.",
    28: "A hypervisor's cpu_info is an object, not a text.",
    29: "Evacuation checks its host; it is not offered.",
    30: "Live migration checks its host; it is not offered.",
    31: "Console tokens work for all consoles; none is offered.",
    32: "Interfaces and devices of a new server may be tagged.",
    33: "Hypervisors are listed in pages.",
    34: "Live migration checks in the background; it is not offered.",
    35: "Key pairs are listed in pages.",
    36: "Addresses that stood in for other services are gone, and their quotas and limits.",
    37: "Networks of a new server must be said: none, auto, or a list.",
    38: "An unknown status as a filter is refused: 400.",
    39: "Metadata of images is not asked for here any more.",
    40: "Usage is answered in pages.",
    41: "Aggregates have a uuid.",
    42: "Tags of interfaces and devices of a new server are taken again.",
    43: "os-hosts is gone; hypervisors and services tell the same.",
    44: "Fixed and floating addresses are not given by actions of servers any more.",
    45: "createImage and createBackup answer with the image's id.",
    46: "The request's id is in X-OpenStack-Request-ID too; here it always is.",
    47: "Servers show their flavor itself instead of a link.",
    48: "Diagnostics have one form; they are not offered.",
    49: "Interfaces may be tagged when they are attached.",
    50: "Quota classes show server groups, and no networks any more.",
    51: "Everybody sees the events of a server's actions.",
    52: "A new server may have tags.",
    53: "Services and hypervisors are named by uuid, and filtered in their lists.",
    54: "Rebuild may change the key pair.",
    55: "Flavors have a description.",
    56: "Cold migration may name a host; a named host is not offered.",
    57: "Files are not injected any more; rebuild takes user data.",
    58: "Actions of servers are listed in pages, and by when they changed.",
    59: "Migrations are listed in pages, and by when they changed.",
    60: "Volumes may be attached to several servers; volumes are not offered.",
    61: "Flavors show their extra specs.",
    62: "Events of actions name their host, as a word that tells nothing else.",
    63: "Servers may ask for trusted image certificates; they are not offered, and shown as none.",
    64: "Server groups have one policy, and rules.",
    65: "A queued live migration may be cancelled; live migration is not offered.",
    66: "Servers, actions and migrations are filtered by changes-before.",
    67: "Devices may name a volume type; volumes are not offered.",
    68: "Live migration and evacuation are never forced.",
    69: "A server whose zone can not be asked is shown, UNKNOWN, by its id; lists name such zones in X-Banyan-Absent.",
    70: "Interfaces show their tags.",
    71: "A server shows the groups that it is of.",
    72: "Ports may ask for bandwidth; they do not here.",
    73: "A lock may have a reason; servers are filtered and sorted by locks.",
    74: "An administrator may name the host of a new server.",
    75: "Unknown parameters are refused; update and rebuild answer as show does; swap is a number.",
    76: "External services report power; that address is not offered.",
    77: "Unshelving may name an availability zone.",
    78: "A server's NUMA topology may be asked for; it is not offered.",
    79: "Attached volumes may be deleted with the server; volumes are not offered.",
    80: "Migrations name their user and project, and are filtered by them.",
    81: "Images may be cached for an aggregate: a tree caches them by itself, so it answers 202.",
    82: "External services report accelerators; that address is not offered.",
    83: "Everybody may filter servers by more of what they show.",
    84: "Events of failed actions say why.",
    85: "An attached volume may be kept when the server goes; volumes are not offered.",
    86: "Extra specs of a flavor are checked.",
    87: "Servers that boot from a volume may be rescued; volumes are not offered.",
    88: "Hypervisors show no figures that placement knows better; statistics are gone.",
    89: "Attached volumes show more of themselves; volumes are not offered.",
    90: "Servers may be given a host name, and show it to everybody.",
    91: "Unshelving may name a host of the rack where the server is, and undo a pinned zone.",
    92: "Key pairs are imported only, and may have @ and . in their names.",
    93: "Servers that boot from a volume may be rebuilt; volumes are not offered.",
    94: "A host name may be fully qualified.",
    95: "Evacuated servers are stopped; evacuation is not offered.",
    96: "Servers show the availability zone that they are pinned to.",
}  # fmt: skip

_UPDATED = "2013-07-23T11:33:21Z"
_MEDIA = [{"base": "application/json", "type": "application/vnd.openstack.compute+json;version=2.1"}]


def _version(call: Call, id: str, *, whole: bool) -> dict[str, object]:
    """One entry. v2.0 is the same API without microversions, as old clients expect to find it."""
    new = id == "v2.1"
    path = "/v2.1/" if new else "/v2/"
    links = [{"rel": "self", "href": call.link(path)}]
    if whole:
        links.append({"rel": "describedby", "type": "text/html", "href": "http://docs.openstack.org/"})
    entry: dict[str, object] = {
        "id": id,
        "status": "CURRENT" if new else "SUPPORTED",
        "version": str(LAST) if new else "",
        "min_version": str(FIRST) if new else "",
        "updated": _UPDATED if new else "2011-01-21T11:33:21Z",
        "links": links,
    }
    if whole:
        entry["media-types"] = _MEDIA if new else [{**_MEDIA[0], "type": _MEDIA[0]["type"].replace("2.1", "2")}]
    return entry


async def listed(call: Call) -> Answer:
    """The versions of the compute API."""
    return {"versions": [_version(call, "v2.0", whole=False), _version(call, "v2.1", whole=False)]}


async def current(call: Call) -> Answer:
    """The version that is served, with its microversions."""
    return Reply({"version": _version(call, "v2.1", whole=True)})


async def old(call: Call) -> Answer:
    """The version that clients of before microversions look for."""
    return Reply({"version": _version(call, "v2.0", whole=True)})
