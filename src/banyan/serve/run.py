"""One zone as a process: real sockets, real disk, until SIGTERM. Also `join`, which enrols and ends.

Order of the start: settings, folder lock and store, zone, join code, link listener, API, local socket; a failure
at any of these ends it with one clear error. Order of the end: children are told when to come back, the API stops,
the zone's tasks end, drivers close, the store closes last.
"""

from __future__ import annotations

import asyncio
import os
import signal
import ssl
import sys
from collections.abc import Callable, Coroutine, Mapping
from contextlib import AsyncExitStack

import structlog
import uvloop

from banyan import __version__
from banyan.api.app import Api, build_app
from banyan.api.listen import local_server, local_socket, public_server, public_socket, split_address
from banyan.api.openstack.call import Surfaces
from banyan.api.openstack.serve import Face
from banyan.api.services import SERVICES
from banyan.core.errors import BadInput, BanyanError, Broken, Refused
from banyan.core.ids import code_text
from banyan.core.ports import Clock
from banyan.drivers.registry import Drivers, Registry
from banyan.link.child import ChildSettings
from banyan.link.parent import ParentSettings
from banyan.link.sockets import Proxy
from banyan.link.websocket_wire import ListenSettings, WebSocketDialer, WebSocketListener
from banyan.serve.api_certificate import NAME as API_CERTIFICATE
from banyan.serve.api_certificate import api_context
from banyan.serve.assemble import Adapters, Assembled, assemble
from banyan.serve.begin import check_start, own_certificate, seal_file
from banyan.serve.clock import SystemClock, SystemIds
from banyan.serve.collect import settle
from banyan.serve.compute import open_compute
from banyan.serve.config import Settings
from banyan.serve.first_admin import NAME as PASSWORD_FILE
from banyan.serve.first_admin import first_password
from banyan.serve.images import open_images
from banyan.serve.machine import Machine
from banyan.serve.observe import configure
from banyan.serve.passwords import HashingThreads
from banyan.serve.queue import open_queue
from banyan.serve.receivers import SocketSenders
from banyan.store.open import open_store
from banyan.store.store import Measures, Observer, SqlStore
from banyan.zone.identity.identity import Identity, IdentitySettings
from banyan.zone.loop import Loop
from banyan.zone.networks.places import TreePlaces
from banyan.zone.networks.service import make_networks
from banyan.zone.zone import Up

log = structlog.get_logger("banyan.serve")

# Children of a zone that stops come back within so many seconds of each other.
RETURN = 10.0
# Bytes that a session may send at once, where its pace allows more: a thin line has a queue for so many.
MOST_AT_ONCE = 1024 * 1024.0


def serve(
    settings: Settings, join_code: str | None = None, observer: Observer | None = None, clock: Clock | None = None
) -> int:
    """Runs the zone in the foreground until SIGTERM or SIGINT; the exit status. Raises what it cannot start for.

    `observer` sees each commit of the store, for measuring and for tests that end the process there. `clock`:
    another than the machine's, for tests of clocks that were set wrong.
    """
    configure(settings.log.level, settings.log.format)
    check_start(settings, join_code, clock or SystemClock(), SystemIds(), listens=True)
    # uvloop keeps about 60 KiB for a child's session where asyncio's own TLS keeps 315.
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_serve(settings, join_code, observer, clock))


def join(settings: Settings, join_code: str | None, patience: float) -> tuple[str, bool]:
    """Enrols at the parent that the code or the settings name, and ends.

    The path that the zone has there, and whether it had joined before: then nobody was asked.

    Raises Refused or BadInput with the parent's reason, Unreachable after `patience` seconds without an answer.
    """
    configure(settings.log.level, settings.log.format)
    check_start(settings, join_code, SystemClock(), SystemIds(), listens=False)
    return asyncio.run(_join(settings, join_code, patience))


async def _serve(settings: Settings, join_code: str | None, observer: Observer | None, clock: Clock | None) -> int:
    async with AsyncExitStack() as stack:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop.set)
        built = await build(settings, stack, observer, clock)
        await _told(settings, built, join_code)
        listener = WebSocketListener(
            built.parent.serve,
            built.identity,
            built.zone.clock,
            may_enter=built.parent.may_enter,
            settings=ListenSettings(dscp=settings.link.dscp),
        )
        await listener.start(settings.link.listen)
        stack.push_async_callback(listener.close)
        api = build_app(built.front, built.zone.clock, built.zone.ids)
        more = await _offer(settings, built, api, stack) if settings.identity.enabled else {}
        tls = _api_tls(settings, built) if settings.api.tls else None
        await open_queue(settings, built, api, stack)
        store = built.zone.store
        counted = store.measures if isinstance(store, SqlStore) else Measures
        machine = Machine(settings.folder, built.zone.clock, counted, settings.store.url)
        api.more.append(machine.measured)
        outside = public_server(api, tls)
        inside = local_server(api)
        public = public_socket(settings.api.listen, encrypted=tls is not None)
        local = local_socket(settings.folder)
        log.info(
            "zone is up",
            name=built.zone.own.name,
            code=code_text(built.zone.own.code),
            version=__version__,
            api=settings.api_url,
            link=settings.link.listen,
            data=str(settings.folder),
        )
        settle()
        try:
            async with asyncio.TaskGroup() as tasks:
                running = [tasks.create_task(built.zone.run(), name="zone")]
                running += [tasks.create_task(run(), name=name) for name, run in more.items()]
                running.append(tasks.create_task(machine.run(), name="machine"))
                tasks.create_task(outside.serve(sockets=[public]), name="api")
                tasks.create_task(inside.serve(sockets=[local]), name="local api")
                tasks.create_task(_until(stop, built, outside, inside, running), name="stop")
        except BaseExceptionGroup as group:
            raise _first(group) from group
        log.info("zone stopped", name=built.zone.own.name)
    return 0


async def _offer(
    settings: Settings, built: Assembled, api: Api, stack: AsyncExitStack
) -> Mapping[str, Callable[[], Coroutine[None, None, None]]]:
    """The OpenStack services, behind an identity of this zone's own; its first administrator is made here. What has to
    run beside the zone for them, by name."""
    zone = built.zone
    passwords = HashingThreads(zone.ids)
    stack.callback(passwords.close)
    wanted = settings.identity
    identity = Identity(zone.own, zone.store, zone.ids, passwords, IdentitySettings(wanted.token_life, wanted.region))
    if await identity.start(lambda: first_password(settings.folder, zone.ids)):
        log.info("first administrator made", kept_in=str(settings.folder / PASSWORD_FILE))
    face = Face(settings.public_url(), _reachable(settings), wanted.region)
    images = await open_images(settings.images, settings.folder, built, stack)
    places = TreePlaces(zone.tree, zone.roster.routes, zone.members.racks)
    network = make_networks(zone.own, zone.store, zone.ids, zone.tree_servers, places=places)
    compute = await open_compute(settings.compute, built, images.for_compute, network.serving)
    network.desk.news.listener = compute.life.reconnected
    api.offer(SERVICES, identity.gate, Surfaces(identity, compute, images, network), face)
    upkeep = Loop(network.upkeep(zone.clock), zone.clock, zone.ids)
    network.serving.heed = upkeep.signal
    return {"images": images.run, "networks": upkeep.run}


def _reachable(settings: Settings) -> str:
    """The API's address as others write it: of a listener on all addresses, this machine's name."""
    host, port = split_address(settings.api.listen)
    if host in ("0.0.0.0", "::"):
        host = os.uname().nodename
    elif ":" in host:
        host = f"[{host}]"
    return f"{'https' if settings.api.tls else 'http'}://{host}:{port}"


async def _until(
    stop: asyncio.Event, built: Assembled, outside: object, inside: object, running: list[asyncio.Task[None]]
) -> None:
    await stop.wait()
    log.info("stopping", name=built.zone.own.name)
    await built.parent.stop("this zone's parent stops, or starts again", RETURN)
    for server in (outside, inside):
        server.should_exit = True  # type: ignore[attr-defined]  # the server of uvicorn, which is typed as what it serves
    await built.zone.roster.flush()
    for task in running:
        task.cancel()


async def _told(settings: Settings, built: Assembled, join_code: str | None) -> Up | None:
    """Takes in what was said about a parent: a join code, or else what the settings name."""
    if join_code is not None:
        return await built.zone.accept_code(join_code)
    parent = settings.for_parent()
    return None if parent is None else await built.zone.accept_parent(*parent)


async def _join(settings: Settings, join_code: str | None, patience: float) -> tuple[str, bool]:
    async with AsyncExitStack() as stack:
        built = await build(settings, stack)
        up = await _told(settings, built, join_code)
        if up is None:
            raise BadInput("bad-option", "joining needs a join code, or link.parent and link.parent_pin")
        before = up.side.enrolled
        if not before:
            try:
                await up.runner.enrol(patience)
            except (Refused, BadInput) as error:
                # Whoever asked is told, and has the code still; the zone is what it was before.
                await up.side.refused(error)
                raise
        return up.side.row.path, before


async def build(
    settings: Settings, stack: AsyncExitStack, observer: Observer | None = None, given: Clock | None = None
) -> Assembled:
    """The zone of these settings, with real adapters; `stack` closes what is opened. Nothing listens or runs yet."""
    clock, ids = given or SystemClock(), SystemIds()
    seal, zone_settings = seal_file(settings), settings.for_zone()
    store = open_store(
        settings.folder, settings.store.url or None, ids=ids, clock=clock, seal_key=seal, observer=observer, sole=True
    )
    stack.push_async_callback(store.close)
    link = settings.link
    rate, burst = link.bytes_per_second, min(max(link.bytes_per_second, 64 * 1024.0), MOST_AT_ONCE)
    adapters = Adapters(
        store=store,
        clock=clock,
        ids=ids,
        drivers=Drivers(Registry.installed(), clock, ids, settings.folder / "racks"),
        dialer=WebSocketDialer(
            clock, proxy=Proxy.parse(link.proxy, link.proxy_user, link.proxy_password_file), dscp=link.dscp
        ),
        child=ChildSettings(rate=rate, burst=burst),
        parent=ParentSettings(rate=rate, burst=burst),
        senders=SocketSenders(),
    )
    built = await assemble(zone_settings, adapters)
    stack.push_async_callback(built.zone.close)
    return built


def _api_tls(settings: Settings, built: Assembled) -> ssl.SSLContext:
    context = own_certificate(settings)
    if context is not None:
        # Nobody shall pin a certificate that is not shown any more.
        (settings.folder / API_CERTIFICATE).unlink(missing_ok=True)
        return context
    host, _ = split_address(settings.api.listen)
    own = built.zone.own
    return api_context(settings.folder, own.api_seed, (host, *settings.api.names), own.serial(), own.wall())


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """What ended the process: a refusal or other error of ours before anything else."""
    plain: list[BaseException] = []
    waiting: list[BaseException] = [group]
    while waiting:
        error = waiting.pop()
        if isinstance(error, BaseExceptionGroup):
            waiting.extend(error.exceptions)
        else:
            plain.append(error)
    for error in plain:
        if isinstance(error, BanyanError):
            return error
    print(f"banyan: internal error: {plain[0]!r}", file=sys.stderr)
    return Broken("internal", f"the zone stopped on an error of its own: {plain[0]!r}; the log has the rest")
