"""Which microversion of a service is asked for: the newest that both know, and never below Train's. Pure.

The ceilings are not the newest there are: from compute 2.88 on, a list of hypervisors has the uptime of each
for whose sake Nova calls every host, and no longer what the hosts have.
https://docs.openstack.org/nova/latest/reference/api-microversion-history.html
https://docs.openstack.org/placement/latest/placement-api-microversion-history.html
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class Microversion(NamedTuple):
    major: int
    minor: int

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"


@dataclass(frozen=True, slots=True)
class Wanted:
    """`floor` is what the Train release (October 2019) has; `header` names the service in OpenStack-API-Version."""

    header: str
    floor: Microversion
    ceiling: Microversion


COMPUTE = Wanted("compute", Microversion(2, 79), Microversion(2, 87))
PLACEMENT = Wanted("placement", Microversion(1, 36), Microversion(1, 39))


class TooOld(Exception):
    """The service's newest microversion is below Train's, or its oldest above our ceiling. The text says so."""


def agree(wanted: Wanted, low: tuple[int, ...] | None, high: tuple[int, ...] | None) -> Microversion:
    """The microversion to ask for, given what the service says it offers. Raises TooOld.

    None is what a service without microversions says: one older than all of ours.
    """
    if low is None or high is None or len(low) < 2 or len(high) < 2:
        raise TooOld(f"it names no microversions; {wanted.header} {wanted.floor} (Train) or newer is needed")
    offered_low, offered_high = Microversion(*low[:2]), Microversion(*high[:2])
    chosen = min(wanted.ceiling, offered_high)
    if chosen < wanted.floor:
        raise TooOld(f"it offers {wanted.header} up to {offered_high}; {wanted.floor} (Train) or newer is needed")
    if chosen < offered_low:
        raise TooOld(f"it offers {wanted.header} from {offered_low} on; at most {wanted.ceiling} is understood here")
    return chosen
