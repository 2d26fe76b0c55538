"""How a port gets its addresses. All in the caller's unit of work: what is refused was not taken.

Asked for nothing, a port gets one IPv4 address and one IPv6 address with state, from the first subnet that has one
left, and one from its MAC in each IPv6 subnet that works so. Whatever is taken or given back first takes its subnet's
row: two who want addresses of one subnet come one after the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from banyan.core import addresses as arithmetic
from banyan.core.errors import BadInput, Broken, Conflict
from banyan.core.network import ROUTER_GATEWAY, ROUTER_INTERFACE, FixedIp, Network, Subnet
from banyan.core.network_rows import Listing, NetworkRows

# Of one network. More could not be offered to a port in one look.
MAX_SUBNETS = 1_000

_ROUTERS = (ROUTER_INTERFACE, ROUTER_GATEWAY)


@dataclass(frozen=True, slots=True)
class Plug:
    """A port that wants addresses: its id, its MAC, its device_owner."""

    port: str
    mac: str
    owner: str = ""


def subnets_of(rows: NetworkRows, network: str) -> list[Subnet]:
    """In the order of their making."""
    listing = Listing({"network": (network,)}, sort=(("created_at", False),), limit=MAX_SUBNETS)
    return list(rows.subnets.listed(listing))


def assign(
    rows: NetworkRows, network: Network, plug: Plug, wanted: Sequence[FixedIp] | None, *, implied: bool = True
) -> tuple[FixedIp, ...]:
    """Takes addresses for one port. `wanted` None: whatever there is; else each a subnet, an address, or both, and,
    if `implied`, those that follow from its MAC.

    Raises BadInput("bad-address"), ("bad-subnet"), Conflict("address-in-use"), ("no-addresses").
    """
    there = [one for one in subnets_of(rows, network.id) if _serves(one, plug.owner)]
    if wanted is None:
        return _offered(rows, network, [plug], there)[0]
    resolved = [(_subnet(network, there, one), one.address) for one in wanted]
    for subnet, address in resolved:
        _check(subnet, address, plug)
    if wanted and implied and plug.owner not in _ROUTERS:
        named = {subnet.id for subnet, _ in resolved}
        resolved.extend((one, "") for one in there if one.by_mac and one.id not in named)
    found: dict[int, FixedIp] = {}
    for at in sorted(range(len(resolved)), key=lambda n: (resolved[n][0].id, not resolved[n][1])):
        subnet, address = resolved[at]
        hold(rows, subnet, 1)
        if not address and subnet.by_mac and plug.owner not in _ROUTERS:
            address = _from_mac(subnet, plug.mac)
        if address:
            found[at] = _take(rows, network, subnet, address, plug.port)
        else:
            found[at] = _next(rows, network, subnet, plug.port)
    return tuple(found[at] for at in range(len(resolved)))


def assign_many(rows: NetworkRows, network: Network, plugs: Sequence[Plug]) -> list[tuple[FixedIp, ...]]:
    """As `assign` of ports that ask for nothing in particular, all of one owner."""
    there = [one for one in subnets_of(rows, network.id) if not plugs or _serves(one, plugs[0].owner)]
    return _offered(rows, network, plugs, there)


def _offered(
    rows: NetworkRows, network: Network, plugs: Sequence[Plug], there: Sequence[Subnet]
) -> list[tuple[FixedIp, ...]]:
    found: list[list[FixedIp]] = [[] for _ in plugs]
    if not plugs:
        return []
    four = [one for one in there if one.version == 4]
    six = [one for one in there if one.version == 6 and not one.by_mac]
    for family in (four, six):
        if family:
            _from_first_with_room(rows, network, plugs, family, found)
    for subnet in sorted((one for one in there if one.by_mac), key=lambda one: one.id):
        hold(rows, subnet, len(plugs))
        for plug, mine in zip(plugs, found, strict=True):
            mine.append(_take(rows, network, subnet, _from_mac(subnet, plug.mac), plug.port))
    return [tuple(mine) for mine in found]


def _from_first_with_room(
    rows: NetworkRows,
    network: Network,
    plugs: Sequence[Plug],
    family: Sequence[Subnet],
    found: list[list[FixedIp]],
) -> None:
    at = 0
    for subnet in family:
        wanted = [plug.port for plug in plugs[at:]]
        hold(rows, subnet, len(wanted))
        taken = rows.addresses.take_next(subnet.id, wanted)
        if taken is None:
            room = rows.addresses.left(subnet.id) if len(wanted) > 1 else 0
            hold(rows, subnet, room - len(wanted))
            taken = rows.addresses.take_next(subnet.id, wanted[:room]) or ()
        for offset, address in enumerate(taken):
            found[at + offset].append(FixedIp(subnet.id, address))
        at += len(taken)
        if at == len(plugs):
            return
    raise full(network)


def release(rows: NetworkRows, addresses: Sequence[FixedIp]) -> None:
    """Gives back what a port had; each once."""
    for one in sorted(addresses, key=lambda fixed: (fixed.subnet, fixed.address)):
        if not rows.addresses.hold(one.subnet, -1):
            continue
        subnet = rows.subnets.get(one.subnet)
        if subnet is None or not rows.addresses.give(one.subnet, one.address, subnet.pools):
            raise Broken("address-lost", "an address that a port has is not known", detail=f"{one.address}")


def reassign(
    rows: NetworkRows, network: Network, plug: Plug, old: Sequence[FixedIp], wanted: Sequence[FixedIp]
) -> tuple[FixedIp, ...]:
    """Of a port that has addresses: those that are asked for again stay, the others go, new ones are taken."""
    there = {one.id: one for one in subnets_of(rows, network.id)}
    left = list(old)
    kept: dict[int, FixedIp] = {}
    for named in (True, False):
        for at, one in enumerate(wanted):
            if at in kept or bool(one.address) is not named:
                continue
            same = next((has for has in left if _answers(has, one)), None)
            if same is not None:
                kept[at] = same
                left.remove(same)
    automatic = [has for has in left if has.subnet in there and there[has.subnet].by_mac and wanted]
    release(rows, [has for has in left if has not in automatic])
    new = [one for at, one in enumerate(wanted) if at not in kept]
    made = iter(assign(rows, network, plug, new, implied=False))
    return (*(kept[at] if at in kept else next(made) for at in range(len(wanted))), *automatic)


def _answers(has: FixedIp, one: FixedIp) -> bool:
    return has.subnet == (one.subnet or has.subnet) and has.address == (one.address or has.address)


def hold(rows: NetworkRows, subnet: Subnet, more: int) -> None:
    if not rows.addresses.hold(subnet.id, more):
        raise Conflict("no-addresses", f"subnet {subnet.id} is going; try again", transient=True)


def _serves(subnet: Subnet, owner: str) -> bool:
    return not subnet.service_types or owner in subnet.service_types


def _subnet(network: Network, there: Sequence[Subnet], one: FixedIp) -> Subnet:
    if one.subnet:
        found = next((subnet for subnet in there if subnet.id == one.subnet), None)
        if found is None:
            raise BadInput(
                "bad-subnet",
                f"Failed to create port on network {network.id}, because fixed_ips included invalid subnet "
                f"{one.subnet[:255]}.",
            )
        return found
    address = arithmetic.address(one.address)
    for subnet in there:
        within = arithmetic.prefix(subnet.cidr)
        if address is not None and within is not None and address in within:
            return subnet
    raise BadInput(
        "bad-address",
        f"IP address {one.address[:64] or 'None'} is not a valid IP for any of the subnets on the specified network.",
    )


def _check(subnet: Subnet, text: str, plug: Plug) -> None:
    if not text:
        return
    address, within = arithmetic.address(text), arithmetic.prefix(subnet.cidr)
    if address is None or within is None or not arithmetic.is_host(address, within):
        raise BadInput("bad-address", f"IP address {text[:64]} is not a valid IP for the specified subnet.")
    if subnet.by_mac and plug.owner not in _ROUTERS and text != _from_mac(subnet, plug.mac):
        raise BadInput(
            "bad-address",
            f"IPv6 address {text} can not be directly assigned to a port on subnet {subnet.id} since the subnet is "
            "configured for automatic addresses",
        )


def _from_mac(subnet: Subnet, mac: str) -> str:
    within = arithmetic.prefix(subnet.cidr)
    if within is None:
        raise Broken("bad-subnet", "a subnet's prefix can not be read", detail=subnet.cidr)
    return arithmetic.by_mac(within, mac)


def _take(rows: NetworkRows, network: Network, subnet: Subnet, address: str, port: str) -> FixedIp:
    if not rows.addresses.take(subnet.id, address, port):
        raise Conflict(
            "address-in-use",
            f"Unable to complete operation for network {network.id}. The IP address {address} is in use.",
        )
    return FixedIp(subnet.id, address)


def _next(rows: NetworkRows, network: Network, subnet: Subnet, port: str) -> FixedIp:
    taken = rows.addresses.take_next(subnet.id, [port])
    if taken is None:
        raise full(network)
    return FixedIp(subnet.id, taken[0])


def full(network: Network) -> Conflict:
    return Conflict("no-addresses", f"No more IP addresses available on network {network.id}.")
