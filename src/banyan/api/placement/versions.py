"""Which microversions of placement are offered, what each changes of what is read, and the document of versions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from banyan.api.openstack.call import Answer, Call
from banyan.api.openstack.microversion import Microversions, Version

FIRST: Final = Version(1, 0)
LAST: Final = Version(1, 36)
MICROVERSIONS: Final = Microversions("placement", FIRST, LAST)

# The others of the range change what is written, or filters that are refused by name.
HISTORY: Final[Mapping[int, str]] = {
    0: "Providers, inventories, usages and allocations.",
    1: "Providers have aggregates.",
    2: "Resource classes are listed.",
    3: "Providers are filtered by member_of.",
    4: "Providers are filtered by resources.",
    6: "Providers have traits.",
    9: "Usages of a project.",
    10: "Allocation candidates.",
    11: "Providers link to their allocations.",
    12: "Allocations name their project and user; those of candidates are objects by provider.",
    14: "Providers are trees, of one here; in_tree is a filter.",
    15: "Answers say when they were made, and are not to be cached.",
    16: "Candidates may be limited.",
    17: "Candidates are filtered by required traits, and summaries show traits.",
    18: "Providers are filtered by required traits.",
    19: "Aggregates come with the provider's generation.",
    21: "Candidates are filtered by member_of.",
    22: "A trait may be forbidden.",
    27: "Summaries of candidates show all resources.",
    28: "Allocations have a consumer generation.",
    29: "Summaries of candidates name parent and root.",
    31: "Candidates are filtered by in_tree.",
    32: "An aggregate may be forbidden.",
    34: "Candidates say which provider answers which group of the request.",
}


async def listed(call: Call) -> Answer:
    """The versions of the placement API."""
    version = {
        "id": "v1.0",
        "min_version": str(FIRST),
        "max_version": str(LAST),
        "status": "CURRENT",
        "links": [{"rel": "self", "href": ""}],
    }
    return {"versions": [version]}
