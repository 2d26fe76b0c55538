"""What would stand in the way of a zone, looked at before it joins: `banyan check`. Writes nothing, enrols nobody.

Settings and names, the data folder and its disk, open files, addresses to listen on; each address of the parent of a
join code, and of those that the zone has joined (name, route, proxy, port), the pin and the clock, by the link's own
opening words; and each rack's driver looks at its bottom with the credentials that it was given. The secret of the
code never leaves. The zone may be running.
"""

from __future__ import annotations

import asyncio
import os
import resource
import shutil
import stat
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from banyan.api.listen import public_socket, split_address
from banyan.core.errors import BanyanError, Refused, Unreachable
from banyan.core.ids import ZoneCode
from banyan.core.messages import PROTOCOL_CEILING, PROTOCOL_FLOOR, Bye, Greet, Message, Welcome
from banyan.core.ports import Clock, Dialer, DriverHost, Finding, Ids, RackSpec, WireClosed
from banyan.core.time import TimeBasis, iso
from banyan.drivers.registry import Drivers, Registry
from banyan.link import codec
from banyan.link.sockets import Proxy
from banyan.link.websocket_wire import WebSocketDialer
from banyan.serve.begin import addresses, same_port
from banyan.serve.clock import SystemClock, SystemIds
from banyan.serve.config import Settings
from banyan.serve.receivers import SocketSenders
from banyan.store.glance import Parents, parents
from banyan.store.lock import holder
from banyan.trust import tokens
from banyan.trust.chain import verify_parent

# A zone of 10,000 hosts needs about 5 GiB over the years; one that starts needs some room to breathe.
ROOM = 1 << 30
# A parent of a thousand children, with room for its store, its API and a storm of returns.
OPEN_FILES = 4096
DIAL_WAIT = 10.0
DRIVER_WAIT = 60.0
# Banyan corrects any offset for itself; over this many seconds a person should know.
NOTABLE = 30.0


def check(settings: Settings, join_code: str | None) -> tuple[Finding, ...]:
    """All findings, in the order of a start. Raises nothing of ours: what fails is a finding."""
    clock, ids = SystemClock(), SystemIds()
    found = [settled(settings), *alarms(settings), *folder(settings.folder), open_files(), *listening(settings)]
    return (*found, *asyncio.run(_outside(settings, join_code, clock, ids)))


async def _outside(settings: Settings, join_code: str | None, clock: Clock, ids: Ids) -> Sequence[Finding]:
    link = settings.link
    found: list[Finding] = []
    try:
        proxy = Proxy.parse(link.proxy, link.proxy_user, link.proxy_password_file)
    except BanyanError as error:
        return [Finding("proxy", False, error.text, "see link.proxy in the settings")]
    dialer = WebSocketDialer(clock, proxy=proxy, dscp=link.dscp)
    way = "" if proxy is None else f" through proxy {proxy}"
    try:
        named = settings.for_parent()
    except BanyanError as error:
        found.append(Finding("parent", False, error.text, "see link.parent in the settings"))
        named = None
    try:
        known = parents(settings.folder, settings.store.url or None)
    except BanyanError as error:
        found.append(Finding("database", False, error.text, "see docs/guide/faults.md"))
        known = Parents()
    if join_code is not None:
        found += await parent(join_code, dialer, clock, ids, way)
    elif named is not None and not any(row.addresses == named[0] and row.certificate for row in known.uplinks):
        found += await listed(*named, dialer, clock, ids, way)
    found += await joined(known, dialer, clock, ids, way)
    if not any(one.what.startswith("parent") for one in found):
        found.append(Finding("parent", True, "not looked at: no join code was given, and none was joined"))
    try:
        racks = settings.for_zone().racks
    except BanyanError:
        return found  # named by `settled` already
    return [*found, *await bottoms(racks, Drivers(Registry.installed(), clock, ids))]


def settled(settings: Settings) -> Finding:
    """Whether the settings make a zone."""
    try:
        settings.for_zone()
    except BanyanError as error:
        return Finding("settings", False, error.text, "see docs/generated/settings.md")
    return Finding("settings", True, f"zone {settings.zone.name!r}, {len(settings.rack)} racks")


def alarms(settings: Settings) -> Iterable[Finding]:
    """Whether each receiver of alarms has the files that it needs. None is told anything."""
    try:
        specs = settings.for_zone().receivers
    except BanyanError:
        return  # named by `settled` already
    for spec in specs:
        what = f"receiver {spec.name}"
        try:
            SocketSenders().make(spec)
        except BanyanError as error:
            yield Finding(what, False, error.text, "see docs/guide/alarms.md")
        else:
            yield Finding(what, True, f"{spec.where}, not asked: `banyan receiver test {spec.name}` once the zone runs")


def folder(data: Path) -> Iterable[Finding]:
    """The data folder, or where it would be made: ours alone, and with room."""
    there = data
    while not there.exists() and there != there.parent:
        there = there.parent
    if not os.access(there, os.W_OK | os.X_OK):
        yield Finding("data folder", False, f"{there} is not ours to write", "give another with --data, or its owner")
    elif there == data and stat.S_IMODE(data.stat().st_mode) & 0o077:
        mode = stat.S_IMODE(data.stat().st_mode)
        yield Finding("data folder", False, f"{data} has mode {mode:04o}; others may read it", f"chmod 700 {data}")
    else:
        yield Finding("data folder", True, f"{data}{'' if there == data else ' (will be made)'}")
    free = shutil.disk_usage(there).free
    yield Finding(
        "disk", free >= ROOM, f"{free / (1 << 30):.1f} GiB free at {there}", "" if free >= ROOM else "make room: 1 GiB"
    )


def open_files() -> Finding:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    well = soft >= OPEN_FILES or soft == resource.RLIM_INFINITY
    return Finding(
        "open files",
        well,
        f"{soft} allowed (at most {hard})",
        "" if well else f"ulimit -n {OPEN_FILES}, or LimitNOFILE={OPEN_FILES} in the unit, if other zones shall join",
    )


def listening(settings: Settings) -> Iterable[Finding]:
    """Whether our own addresses can be listened on now, or are by the zone of this very folder."""
    running = holder(settings.folder)
    wrong = None
    with suppress(BanyanError):  # of an address that is wrong by itself, the loop below says so
        wrong = same_port(settings)
    if wrong is not None:
        yield Finding("addresses", False, wrong.text, "change api.listen or link.listen")
    for what, address, encrypted in addresses(settings):
        try:
            public_socket(address, encrypted=encrypted).close()
        except BanyanError as error:
            if error.code != "address-in-use":
                yield Finding(what, False, error.text, f"change {what}")
                continue
            ours = None if running is None else listens(running, split_address(address)[1])
            zone = f"the zone of this folder, which runs (process {running})"
            if ours:
                yield Finding(what, True, f"{address} is held by {zone}")
            else:
                beside = "" if running is None else f"; it is not {zone}" if ours is False else f"; it may be {zone}"
                remedy = f"see with `ss -ltnp` which process has it; or change {what}"
                yield Finding(what, False, error.text + beside, remedy)
        else:
            yield Finding(what, True, f"{address} is free")


def listens(process: int, port: int) -> bool | None:
    """Whether that process listens on a TCP port (proc(5)); None where this user may not see it."""
    sockets = {f"socket:[{inode}]" for table in ("tcp", "tcp6") for inode in _listening(Path("/proc/net", table), port)}
    try:
        return any(_points_at(link) in sockets for link in Path(f"/proc/{process}/fd").iterdir())
    except OSError:
        return None


def _points_at(link: Path) -> str:
    try:
        return os.readlink(link)
    except FileNotFoundError:
        return ""  # closed since


def _listening(table: Path, port: int) -> Iterable[str]:
    """Inodes of the sockets that listen on a port: the second column is the address in hexadecimal, 0A is LISTEN."""
    try:
        rows = [line.split() for line in table.read_text().splitlines()[1:]]
    except OSError:
        return []
    return [row[9] for row in rows if row[3] == "0A" and int(row[1].rpartition(":")[2], 16) == port]


async def parent(text: str, dialer: Dialer, clock: Clock, ids: Ids, way: str) -> Sequence[Finding]:
    """The parent that a join code names: every address of it is tried, one that answers is asked who it is."""
    try:
        code = tokens.parse(text)
    except BanyanError as error:
        return [Finding("join code", False, error.text, "copy it again, whole, from the parent")]
    basis = TimeBasis().raised(code.issued)
    found: list[Finding] = []
    for address in code.addresses:
        seen, learned = await _one(address, code.pin, "made the code", dialer, clock, ids, basis, way)
        found += seen
        if learned is None:
            continue
        over = learned.correct(clock.wall()) > code.expires
        ends = f"{'expired' if over else 'good until'} {iso(code.expires)}"
        found.append(Finding("join code", not over, ends, "ask for a new one" if over else ""))
    return found


async def listed(
    addresses: Sequence[str], pin: bytes, dialer: Dialer, clock: Clock, ids: Ids, way: str
) -> Sequence[Finding]:
    """The parent that the settings name. Whether it has listed our key is not asked: that would be joining."""
    found: list[Finding] = []
    for address in addresses:
        seen, _ = await _one(address, pin, "has the pin", dialer, clock, ids, TimeBasis(), way)
        found += seen
    return found


async def joined(known: Parents, dialer: Dialer, clock: Clock, ids: Ids, way: str) -> Sequence[Finding]:
    """The parents of which the zone is a child already, at each address, as a session of it would meet them."""
    found: list[Finding] = []
    for row in known.uplinks:
        if not row.certificate:
            continue
        which = f"took this one in as {row.path or row.name}"
        for address in row.addresses:
            seen, _ = await _one(
                address, row.pin, which, dialer, clock, ids, known.time, way, row.bundle, row.parent_code
            )
            found += seen
    return found


async def _one(
    address: str,
    pin: bytes,
    which: str,
    dialer: Dialer,
    clock: Clock,
    ids: Ids,
    basis: TimeBasis,
    way: str,
    bundle: tuple[bytes, ...] = (),
    code: ZoneCode | None = None,
) -> tuple[Sequence[Finding], TimeBasis | None]:
    """`bundle`, `code`: the parent's CA certificates and zone code, as far as they are known."""
    what = f"parent {address}"
    try:
        learned = await _meet(address, pin, dialer, clock, ids, basis, bundle, code)
    except BanyanError as error:
        # What the link says names the cause: a name, a route, a port, a proxy, a pin.
        if error.code.startswith("proxy-"):
            return [Finding(what, False, error.text, "see link.proxy in the settings")], None
        return [Finding(what, False, f"{error.text}{way}", _REMEDIES.get(type(error), ""))], None
    offset = learned.offset
    well = abs(offset) <= NOTABLE
    return [
        Finding(what, True, f"answers{way}, and is the zone that {which}"),
        Finding("clock", well, f"{-offset:+.1f} s from the parent's", "" if well else "set up NTP; until then "
                "Banyan corrects its own time"),
    ], learned  # fmt: skip


_REMEDIES: dict[type[BanyanError], str] = {
    Unreachable: "look at the name, the route, the port and the firewall between; the parent need not reach us",
    Refused: "another zone answers there, or something between opens TLS; check the address, or ask for a new code",
}


async def _meet(
    address: str,
    pin: bytes,
    dialer: Dialer,
    clock: Clock,
    ids: Ids,
    basis: TimeBasis,
    bundle: tuple[bytes, ...],
    code: ZoneCode | None,
) -> TimeBasis:
    """The opening words of the link and no more: the parent proves who it is, and what time it is."""
    wire = await dialer.dial(address, purpose="enrol", credentials=None, bundle=(), timeout=DIAL_WAIT)
    try:
        greet = Greet(PROTOCOL_FLOOR, PROTOCOL_CEILING, ids.token(codec.NONCE), "enrol")
        async with asyncio.timeout(DIAL_WAIT):
            await wire.send(codec.join([codec.encode(greet)]))
            welcome = _welcome(codec.decode(await wire.receive(), codec.STRANGER).messages[0], address)
        leaf = wire.peer.certificate or b""
        return verify_parent(
            greet, welcome, leaf, pin=pin, bundle=bundle, code=code, basis=basis, machine_wall=clock.wall()
        ).basis
    except TimeoutError as error:
        raise Unreachable(
            "timed-out", f"{address} took the connection and then said nothing", transient=True
        ) from error
    except WireClosed as error:
        raise Unreachable("cut", f"{address} cut the connection: {error.reason or 'without a word'}") from error
    finally:
        await wire.close("only looking")


def _welcome(message: Message, address: str) -> Welcome:
    if isinstance(message, Welcome):
        return message
    if isinstance(message, Bye):
        raise Refused(message.code, f"{address} turned us away: {message.text}")
    raise Refused("not-the-parent", f"{address} answered something else than a welcome; is it a link port of Banyan?")


async def bottoms(racks: Sequence[RackSpec], drivers: DriverHost) -> Sequence[Finding]:
    """What each rack's driver finds: credentials, each role needed, versions."""
    found: list[Finding] = []
    for spec in racks:
        try:
            driver = drivers.make(spec)
        except BanyanError as error:
            found.append(Finding(f"rack {spec.name}", False, error.text, "see the driver's options"))
            continue
        try:
            async with asyncio.timeout(DRIVER_WAIT):
                for one in await driver.check():
                    found.append(Finding(f"rack {spec.name}: {one.what}", one.ok, one.found, one.remedy))
        except TimeoutError:
            text = f"no answer from the bottom in {DRIVER_WAIT:g} s"
            found.append(Finding(f"rack {spec.name}", False, text, "look at its API from this machine"))
        finally:
            await driver.close()
    return found
