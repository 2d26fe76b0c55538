"""What placement's query parameters ask of a host: amounts, traits, aggregates. A parameter that is not known is 400.

Syntax as docs.openstack.org/api-ref/placement has it: `resources=VCPU:1,MEMORY_MB:512`, `required=TRAIT,!TRAIT`,
`member_of=UUID`, `member_of=in:UUID,UUID`, `member_of=!UUID`, `member_of=!in:UUID,UUID` (repeated: all must hold).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from banyan.api.nova import fields
from banyan.api.openstack.call import Call
from banyan.core import needs
from banyan.core.errors import BadInput
from banyan.zone.views import HostView

# Terms of one parameter, and times that it may come.
MOST_TERMS = 200
_NAME = re.compile(r"[A-Z0-9_]{1,255}\Z")


@dataclass(frozen=True, slots=True)
class Wanted:
    """`amounts` per our class. `among`: sets of aggregates, of each of which a host must have one; `outside`: it must
    have none of these."""

    amounts: Mapping[str, int] = field(default_factory=dict)
    required: frozenset[str] = frozenset()
    forbidden: frozenset[str] = frozenset()
    among: tuple[frozenset[str], ...] = ()
    outside: frozenset[str] = frozenset()

    def holds(self, host: HostView) -> bool:
        traits, aggregates = set(host.traits), {one.lower() for one in host.aggregates}
        return (
            self.required <= traits
            and self.forbidden.isdisjoint(traits)
            and all(not some.isdisjoint(aggregates) for some in self.among)
            and self.outside.isdisjoint(aggregates)
            and all(fits(host, name, amount) for name, amount in self.amounts.items())
        )


def fits(host: HostView, name: str, amount: int) -> bool:
    found = host.resources.get(name)
    return found is not None and found.total - found.used >= amount


def read(call: Call, known: Collection[str]) -> Wanted:
    """Raises BadInput that names the parameter."""
    for name in call.query:
        if name not in known:
            raise BadInput("bad-parameter", f"Invalid query string parameter: {name[:80]!r}. Known: {', '.join(known)}")
    minor = call.version.minor
    required, forbidden = _traits(call, minor) if "required" in known else (frozenset[str](), frozenset[str]())
    among, outside = _aggregates(call, minor) if "member_of" in known else ((), frozenset[str]())
    return Wanted(_amounts(call) if "resources" in known else {}, required, forbidden, among, outside)


def _terms(text: str, name: str) -> list[str]:
    terms = text.split(",")
    if len(terms) > MOST_TERMS:
        raise BadInput("bad-parameter", f"{name} may have {MOST_TERMS} terms, got {len(terms)}")
    return terms


def _amounts(call: Call) -> dict[str, int]:
    text = call.maybe("resources")
    found: dict[str, int] = {}
    for term in _terms(text, "resources") if text is not None else ():
        name, colon, count = term.partition(":")
        if not colon or not name or fields.digits(count) is None or int(count) < 1:
            raise BadInput(
                "bad-resources", f"Badly formed resources parameter: CLASS:N with N from 1, got {term[:80]!r}"
            )
        if not _NAME.match(name) or int(count) > needs.MAX_AMOUNT:
            raise BadInput(
                "bad-resources",
                f"resources: a class is of upper-case letters, digits and _, an amount at most {needs.MAX_AMOUNT}; got "
                f"{term[:80]!r}",
            )
        found[needs.our_class(name)] = int(count)
    return found


def _traits(call: Call, minor: int) -> tuple[frozenset[str], frozenset[str]]:
    text = call.maybe("required")
    required, forbidden = set[str](), set[str]()
    for term in _terms(text, "required") if text is not None else ():
        negative = term.startswith("!")
        if negative and minor < 22:
            raise BadInput("bad-required", "Forbidden traits (!NAME) are there from placement 1.22 on")
        trait = term.removeprefix("!")
        if not _NAME.match(trait):
            raise BadInput(
                "bad-required", f"required: a trait is of upper-case letters, digits and _, got {trait[:80]!r}"
            )
        (forbidden if negative else required).add(trait)
    both = required & forbidden
    if both:
        raise BadInput("bad-required", f"required has a trait both ways: {min(both)}")
    return frozenset(required), frozenset(forbidden)


def _aggregates(call: Call, minor: int) -> tuple[tuple[frozenset[str], ...], frozenset[str]]:
    values = call.query.get("member_of", ())
    if len(values) > (MOST_TERMS if minor >= 24 else 1):
        raise BadInput("bad-member-of", f"member_of may not come {len(values)} times in placement {call.version}")
    among: list[frozenset[str]] = []
    outside = set[str]()
    for value in values:
        negative = value.startswith("!")
        if negative and minor < 32:
            raise BadInput("bad-member-of", "Forbidden aggregates (!UUID) are there from placement 1.32 on")
        inner = value.removeprefix("!")
        ids = _terms(inner.removeprefix("in:"), "member_of")
        if len(ids) > 1 and not inner.startswith("in:"):
            raise BadInput("bad-member-of", "several aggregates are written member_of=in:UUID,UUID")
        for id in ids:
            if not fields.is_uuid(id):
                raise BadInput("bad-member-of", f"Expected uuid values for member_of, got {id[:80]!r}")
        lowered = frozenset(id.lower() for id in ids)
        if negative:
            outside |= lowered
        else:
            among.append(lowered)
    return tuple(among), frozenset(outside)
