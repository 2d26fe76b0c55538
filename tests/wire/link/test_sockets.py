"""Marks on sockets, and both families of addresses."""

from __future__ import annotations

import socket

import pytest

from banyan.core.ports import Wire
from banyan.link.sockets import split_address
from banyan.link.websocket_wire import WebSocketWire
from tests.contract.link.certificates import Authority
from tests.contract.link.transports import WebSocket
from tests.contract.link.world import EAST, World
from tests.wire.link.peers import Caught

LE = 1 << 2  # DSCP 1 in the upper six bits


def has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6, socket.SOCK_STREAM) as sock:
            sock.bind(("::1", 0))
    except OSError:
        return False
    return True


needs_ipv6 = pytest.mark.skipif(not has_ipv6(), reason="this machine has no IPv6")


def sock_of(wire: Wire) -> socket.socket:
    assert isinstance(wire, WebSocketWire)
    sock: socket.socket = wire._connection.transport.get_extra_info("socket")
    return sock


@pytest.mark.parametrize("host", ["127.0.0.1", pytest.param("::1", marks=needs_ipv6)])
def test_both_ends_are_marked_as_lower_effort(host: str) -> None:
    transport = WebSocket(host)

    async def test() -> None:
        top = Authority("top")
        caught = Caught()
        identity = top.identity()
        address, listener = await transport.listen(caught.serve, lambda: identity)
        wire = await transport.dialer().dial(
            address, purpose="session", credentials=top.child(EAST), bundle=(top.certificate,), timeout=5
        )
        await caught.came.wait()
        [(accepted, purpose)] = caught.wires
        assert purpose == "session"
        for end in (wire, accepted):
            sock = sock_of(end)
            if ":" in host:
                assert sock.getsockopt(socket.IPPROTO_IPV6, socket.IPV6_TCLASS) == LE
            assert sock.getsockopt(socket.IPPROTO_IP, socket.IP_TOS) == LE
            assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) == 1
            assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
            assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 30_000
        assert accepted.peer.address == host
        assert accepted.peer.certificate == top.child(EAST).certificate or accepted.peer.certificate
        assert wire.peer.address == address
        caught.done.set()
        await wire.close()
        await listener.close()

    transport.run(test)


@needs_ipv6
def test_a_session_over_ipv6() -> None:
    transport = WebSocket("::1")

    async def test() -> None:
        async with World(transport) as world:
            assert world.address.startswith("[::1]:")
            await world.joined()

    transport.run(test)


@needs_ipv6
def test_one_socket_serves_both_families_and_names_ipv4_as_people_do() -> None:
    transport = WebSocket("::")

    async def test() -> None:
        top = Authority("top")
        caught = Caught()
        caught.done.set()
        identity = top.identity()
        address, listener = await transport.listen(caught.serve, lambda: identity)
        port = split_address(address)[1]
        for host in ("127.0.0.1", "[::1]", "localhost"):
            wire = await transport.dialer().dial(
                f"{host}:{port}", purpose="enrol", credentials=None, bundle=(), timeout=5
            )
            await wire.close()
        assert {w.peer.address for w, _ in caught.wires} <= {"127.0.0.1", "::1"}
        await listener.close()

    transport.run(test)
