"""Security groups and their rules: wanted state, that hosts are told. Each project has a group `default`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from banyan.core import addresses as arithmetic
from banyan.core.errors import BadInput, Broken, Conflict
from banyan.core.network import Direction, Kind, SecurityGroup, SecurityRule
from banyan.core.network_rows import Listing, NetworkRows
from banyan.core.permissions import Target, may, require
from banyan.core.principal import Principal
from banyan.core.quota import UNLIMITED
from banyan.core.records import Unit
from banyan.core.time import Wall
from banyan.zone.networks.desk import (
    MAX_LIST,
    Changes,
    Desk,
    changeable,
    changed,
    check_bulk,
    for_project,
    missing,
    page,
    seen,
)

DEFAULT = "default"
# Names of protocols and their numbers (IANA's registry), as OpenStack's clients write them.
PROTOCOLS = {
    "ah": 51, "dccp": 33, "egp": 8, "esp": 50, "gre": 47, "hopopt": 0, "icmp": 1, "igmp": 2, "ip": 0, "ipip": 4,
    "ipv6-encap": 41, "ipv6-frag": 44, "ipv6-icmp": 58, "icmpv6": 58, "ipv6-nonxt": 59, "ipv6-opts": 60,
    "ipv6-route": 43, "ospf": 89, "pgm": 113, "rsvp": 46, "sctp": 132, "tcp": 6, "udp": 17, "udplite": 136,
    "vrrp": 112,
}  # fmt: skip
_ICMP = (1, 58)
_PORTED = (6, 17, 33, 132, 136)
_ICMP_6_NAMES = ("ipv6-icmp", "icmpv6", "58")


@dataclass(frozen=True, slots=True)
class SeenGroup:
    """A security group, and its rules in the order of their making."""

    group: SecurityGroup
    rules: tuple[SecurityRule, ...] = ()


class Groups:
    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def create(self, who: Principal, wanted: Sequence[SecurityGroup]) -> list[SeenGroup]:
        """Each lets everything out and nothing in. Raises Refused, Conflict("default-group"), ("over-quota")."""
        check_bulk(wanted)
        now, made = self._desk.now(), []
        for one in wanted:
            project = for_project(who, Kind.GROUP, one.project)
            if one.name.lower() == DEFAULT:
                raise Conflict("default-group", "Default security group already exists.")
            made.append(replace(one, id=self._desk.new_uuid(), project=project, created_at=now, updated_at=now))

        def work(unit: Unit) -> list[SeenGroup]:
            for one in made:
                ensure_default(self._desk, unit, one.project)
                self._desk.take(unit.networks, one.project, Kind.GROUP)
                _add(self._desk, unit, one, now)
                self._desk.note(unit, who, "security-group-created", one.id, one.name, project=one.project)
            return [_shown(unit.networks, one) for one in made]

        return await self._desk.change("security-group.created", work)

    async def show(self, who: Principal, id: str) -> SeenGroup:
        return await self._desk.read(lambda rows: _shown(rows, seen(rows, who, Kind.GROUP, rows.groups, id)))

    async def page(self, who: Principal, listing: Listing, marker: str = "") -> list[SeenGroup]:
        """The project of the caller has its default group from the first look on."""
        if who.project:
            require(who, "network:get_security_group", Target(project=who.project))
            if await self._desk.read(lambda rows: default_of(rows, who.project)) is None:
                await self._desk.change(
                    "security-group.default", lambda unit: ensure_default(self._desk, unit, who.project)
                )

        def work(rows: NetworkRows) -> list[SeenGroup]:
            found = page(rows, who, Kind.GROUP, rows.groups, listing, marker)
            return [_shown(rows, one) for one in found]

        return await self._desk.read(work)

    async def update(self, who: Principal, id: str, changes: Changes, expected: int | None = None) -> SeenGroup:
        """Raises NotFound, Refused, Conflict("default-group"), ("group-in-use"), Changed."""

        def work(unit: Unit) -> SeenGroup:
            rows = unit.networks
            old = changeable(rows, who, "update", Kind.GROUP, rows.groups, id, expected)
            new = replace(old, **changes)  # type: ignore[arg-type]  # of the fields' own types
            if new.name != old.name and DEFAULT in (new.name.lower(), old.name):
                if old.name == DEFAULT:
                    raise Conflict("default-group", "Updating default security group not allowed.")
                raise Conflict("default-group", "Default security group already exists.")
            if new.stateful != old.stateful and rows.members(id):
                raise Conflict("group-in-use", f"Security Group {id} in use.")
            new = changed(rows.groups, old, new, self._desk.now())
            self._desk.note(unit, who, "security-group-changed", id, ", ".join(sorted(changes)))
            return _shown(rows, new)

        return await self._desk.change("security-group.changed", work)

    async def delete(self, who: Principal, id: str, expected: int | None = None) -> None:
        """Raises NotFound, Refused, Conflict("group-in-use") while a port has it, or for a project's default group,
        Changed. An administrator deletes that one as well."""

        def work(unit: Unit) -> None:
            rows = unit.networks
            group = changeable(rows, who, "delete", Kind.GROUP, rows.groups, id, expected)
            if rows.members(id):
                raise Conflict("group-in-use", f"Security Group {id} in use.")
            if group.name == DEFAULT and not may(who, "network:administer_security_group"):
                raise Conflict("default-group", "Removing default security group not allowed.")
            _drop_rules(rows, rules_of(rows, id))
            while pointing := rows.rules.listed(Listing({"remote": (id,)}, limit=MAX_LIST)):
                _drop_rules(rows, pointing)
            rows.groups.delete(id)
            rows.uncount(group.project, Kind.GROUP, 1)
            self._desk.note(unit, who, "security-group-deleted", id, group.name, project=group.project)

        await self._desk.change("security-group.deleted", work)


class Rules:
    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def create(self, who: Principal, wanted: Sequence[SecurityRule]) -> list[SecurityRule]:
        """Raises NotFound for a group that is not there, Refused, BadInput, Conflict("rule-exists"), ("over-quota")."""
        check_bulk(wanted)
        now = self._desk.now()

        def work(unit: Unit) -> list[SecurityRule]:
            rows, made = unit.networks, []
            for one in wanted:
                _check(one)
                group = seen(rows, who, Kind.GROUP, rows.groups, one.group)
                require(who, "network:create_security_group_rule", Target(project=group.project))
                if one.remote:
                    seen(rows, who, Kind.GROUP, rows.groups, one.remote)
                self._desk.take(rows, group.project, Kind.RULE)
                rule = replace(
                    one,
                    id=self._desk.new_uuid(),
                    project=group.project,
                    created_at=now,
                    updated_at=now,
                    same=sameness(one),
                )
                if not rows.rules.add(rule):
                    other = rows.rules.find({"group": group.id, "same": rule.same})
                    which = "" if other is None else other.id
                    raise Conflict("rule-exists", f"Security group rule already exists. Rule id is {which}.")
                changed(rows.groups, group, group, now)
                self._desk.note(unit, who, "security-rule-created", rule.id, rule.same, group=group.id)
                made.append(rule)
            return made

        return await self._desk.change("security-rule.created", work)

    async def show(self, who: Principal, id: str) -> SecurityRule:
        return await self._desk.read(lambda rows: seen(rows, who, Kind.RULE, rows.rules, id))

    async def page(self, who: Principal, listing: Listing, marker: str = "") -> list[SecurityRule]:
        return await self._desk.read(lambda rows: page(rows, who, Kind.RULE, rows.rules, listing, marker))

    async def delete(self, who: Principal, id: str, expected: int | None = None) -> None:
        """Raises NotFound, Refused, Changed."""

        def work(unit: Unit) -> None:
            rows = unit.networks
            rule = changeable(rows, who, "delete", Kind.RULE, rows.rules, id, expected)
            _drop_rules(rows, [rule])
            group = rows.groups.get(rule.group)
            if group is not None:
                changed(rows.groups, group, group, self._desk.now())
            self._desk.note(unit, who, "security-rule-deleted", id, rule.same, group=rule.group)

        await self._desk.change("security-rule.deleted", work)


def ensure_default(desk: Desk, unit: Unit, project: str) -> SecurityGroup:
    """A project's default group: it lets everything out, and in what comes from ports that have it too."""
    rows = unit.networks
    found = default_of(rows, project)
    if found is not None:
        return found
    now = desk.now()
    group = SecurityGroup(desk.new_uuid(), project, DEFAULT, now, now, "Default security group")
    # Every project has one, whatever its limit.
    rows.count(project, Kind.GROUP, 1, UNLIMITED)
    _add(desk, unit, group, now)
    for ethertype in ("IPv4", "IPv6"):
        rule = SecurityRule(desk.new_uuid(), project, group.id, Direction.INGRESS, ethertype, now, now, remote=group.id)
        rows.rules.add(replace(rule, same=sameness(rule)))
    rows.count(project, Kind.RULE, 2, UNLIMITED)
    return group


def default_of(rows: NetworkRows, project: str) -> SecurityGroup | None:
    return rows.groups.find({"project": project, "name": DEFAULT})


def rules_of(rows: NetworkRows, group: str) -> list[SecurityRule]:
    """In the order of their making; at most 10,000."""
    listing = Listing({"group": (group,)}, sort=(("created_at", False),), limit=10_000)
    return list(rows.rules.listed(listing))


def _shown(rows: NetworkRows, group: SecurityGroup) -> SeenGroup:
    return SeenGroup(group, tuple(rules_of(rows, group.id)))


def check_groups(rows: NetworkRows, who: Principal, groups: Iterable[str]) -> None:
    """Raises NotFound for a group that the caller does not see."""
    for id in groups:
        seen(rows, who, Kind.GROUP, rows.groups, id)


def named(rows: NetworkRows, project: str, name: str) -> SecurityGroup | None:
    """The project's group of that id or name. Raises Conflict("many-groups") if several have the name."""
    found = rows.groups.get(name)
    if found is not None and found.project == project:
        return found
    some = rows.groups.listed(Listing({"project": (project,), "name": (name,)}, limit=2))
    if len(some) > 1:
        text = f"Multiple security groups found matching '{name[:255]}'. Use an ID to be more specific."
        raise Conflict("many-groups", text)
    return some[0] if some else None


def _add(desk: Desk, unit: Unit, group: SecurityGroup, now: Wall) -> None:
    if not unit.networks.groups.add(group):
        raise Broken("id-taken", "a new id is taken already")
    for ethertype in ("IPv4", "IPv6"):
        rule = SecurityRule(desk.new_uuid(), group.project, group.id, Direction.EGRESS, ethertype, now, now)
        unit.networks.rules.add(replace(rule, same=sameness(rule)))
    unit.networks.count(group.project, Kind.RULE, 2, UNLIMITED)


def _drop_rules(rows: NetworkRows, rules: Sequence[SecurityRule]) -> None:
    for rule in rules:
        if not rows.rules.delete(rule.id):
            raise missing(Kind.RULE, rule.id)
        rows.uncount(rule.project, Kind.RULE, 1)


def number_of(protocol: str) -> int | None:
    """IANA's number of a protocol that is named or numbered; None of any and of nonsense."""
    name = protocol.lower()
    if name in PROTOCOLS:
        return PROTOCOLS[name]
    return int(name) if name.isascii() and name.isdigit() and len(name) < 4 and int(name) < 256 else None


def sameness(rule: SecurityRule) -> str:
    """What two rules have in common that say the same."""
    number = number_of(rule.protocol)
    if number == 1 and rule.ethertype == "IPv6":
        number = 58
    whole = {"0.0.0.0/0", "::/0"}
    parts = (
        rule.direction.value,
        rule.ethertype,
        "any" if number is None or (number == 0 and rule.protocol in ("ip", "0")) else str(number),
        "-" if rule.least is None else str(rule.least),
        "-" if rule.most is None else str(rule.most),
        "any" if not rule.prefix or rule.prefix in whole else rule.prefix,
        rule.remote or "any",
    )
    return " ".join(parts)


def _check(rule: SecurityRule) -> None:
    """Raises BadInput, in Neutron's words: clients read them."""
    number = number_of(rule.protocol)
    if rule.protocol and number is None:
        known = ", ".join(sorted(PROTOCOLS))
        raise BadInput(
            "bad-protocol",
            f"Security group rule protocol {rule.protocol[:64]} not supported. Only protocol values [{known}] and "
            "integer representations [0 to 255] are supported.",
        )
    if rule.protocol in _ICMP_6_NAMES and rule.ethertype == "IPv4":
        text = f"Invalid ethertype {rule.ethertype} for protocol {rule.protocol}."
        raise BadInput("bad-ethertype", text)
    if rule.prefix and rule.remote:
        raise BadInput("bad-remote", "Only remote_ip_prefix or remote_group_id may be provided.")
    _check_prefix(rule)
    if rule.least is None and rule.most is None:
        return
    if number in _ICMP:
        _check_icmp(rule)
    elif number is None:
        raise BadInput("bad-ports", "Must also specify protocol if port range is given.")
    elif number in _PORTED:
        for value in (rule.least, rule.most):
            if value is not None and not 0 <= value <= 65_535:
                raise BadInput("bad-ports", f"Invalid value for port {value}")
        if rule.least is None or rule.most is None or rule.least > rule.most:
            raise BadInput("bad-ports", "For TCP/UDP protocols, port_range_min must be <= port_range_max")
    else:
        raise BadInput("bad-ports", f"Port range cannot be specified for protocol {rule.protocol}.")


def _check_icmp(rule: SecurityRule) -> None:
    for word, field, value in (("code", "port-range-max", rule.most), ("type", "port-range-min", rule.least)):
        if value is not None and not 0 <= value <= 255:
            raise BadInput("bad-ports", f"Invalid value for ICMP {word} ({field}) {value}. It must be 0 to 255.")
    if rule.least is None:
        raise BadInput(
            "bad-ports",
            f"ICMP code (port-range-max) {rule.most} is provided but ICMP type (port-range-min) is missing.",
        )


def _check_prefix(rule: SecurityRule) -> None:
    if not rule.prefix:
        return
    prefix = arithmetic.prefix(rule.prefix)
    if prefix is None:
        raise BadInput(
            "bad-prefix", f"Invalid input for remote_ip_prefix. '{rule.prefix[:64]}' is not a valid IP prefix."
        )
    if f"IPv{prefix.version}" != rule.ethertype:
        text = f"Conflicting value ethertype {rule.ethertype} for CIDR {rule.prefix}"
        raise BadInput("bad-prefix", text)
