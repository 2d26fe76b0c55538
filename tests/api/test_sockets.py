"""Real sockets: clients that are slow, greedy, strangers or many; TLS; the local socket and who may use it."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
import stat
import struct
import time
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
import trustme

from banyan.api import listen, protocol
from banyan.api.context import Limits
from banyan.core.errors import BadInput, Conflict, Unreachable
from tests.api.serving import Place, local, make, public, running, until
from tests.api.surface import FakeSurface

FAST = replace(Limits(), head_wait=0.2, body_wait=0.2, write_stall=0.3, idle=1.0)
HEAD = b"GET /healthz HTTP/1.1\r\nHost: x\r\n"


async def exchange(place: Place, *parts: bytes) -> bytes:
    """Sends `parts` and reads until the server closes, five seconds at most."""
    reader, writer = await asyncio.open_connection(place.host, place.port)
    try:
        async with asyncio.timeout(5):
            for part in parts:
                writer.write(part)
                await writer.drain()
            return await reader.read()
    except ConnectionError:
        return b"reset"
    finally:
        writer.close()


def served(*parts: bytes, limits: Limits = FAST) -> bytes:
    async def once() -> bytes:
        async with public(make(FakeSurface(), limits)) as place:
            return await exchange(place, *parts)

    return asyncio.run(once())


def test_a_client_that_says_nothing_is_cut() -> None:
    assert served().startswith(b"HTTP/1.1 408")


def test_a_client_that_drips_its_head_is_cut() -> None:
    assert served(HEAD).startswith(b"HTTP/1.1 408")


def test_a_second_request_on_a_kept_connection_has_its_own_deadline() -> None:
    answer = served(HEAD + b"\r\n", HEAD)
    assert answer.startswith(b"HTTP/1.1 200")
    assert b"HTTP/1.1 408" in answer


def test_a_client_that_drips_its_body_is_cut() -> None:
    request = b"POST /v1/codes HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer admin-all\r\nContent-Length: 10\r\n\r\n{"
    answer = served(request)
    assert answer.startswith(b"HTTP/1.1 408")
    assert b"slow-body" in answer


@pytest.mark.parametrize("flood", [b"X-A: " + b"a" * 60_000, b"".join(b"X-%d: a\r\n" % n for n in range(6_000))])
def test_an_endless_head_is_cut_before_it_is_kept(flood: bytes) -> None:
    answer = served(b"GET / HTTP/1.1\r\n" + flood, limits=replace(FAST, head_wait=4.0))
    assert answer.startswith(b"HTTP/1.1 431") or answer == b"reset"


def test_a_short_head_with_a_long_body_behind_it_is_no_long_head() -> None:
    body = b" " * 50_000 + b"{}"
    head = b"POST /v1/codes HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer admin-all\r\nConnection: close\r\n"
    answer = served(head + b"Content-Length: %d\r\n\r\n" % len(body) + body)
    assert answer.startswith(b"HTTP/1.1 201")


def test_nonsense_is_a_bad_request() -> None:
    assert served(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03").startswith(b"HTTP/1.1 400")


@pytest.mark.parametrize(
    "smuggled",
    [
        b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
        b"Content-Length: -2\r\n\r\n{}",
        b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
    ],
)
def test_a_body_of_two_lengths_is_never_served(smuggled: bytes) -> None:
    head = b"POST /v1/codes HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer admin-all\r\n"
    assert served(head + smuggled)[:12] in (b"HTTP/1.1 400", b"HTTP/1.1 408", b"")


def test_a_client_that_does_not_read_is_cut() -> None:
    surface = FakeSurface()
    for n in range(4000):
        surface.write("x" * 200, f"top/{n}" + "y" * 200)

    async def stall() -> float:
        api = make(surface, replace(FAST, deadline=20.0))
        async with public(api) as place:
            sock = socket.socket()
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            sock.setblocking(False)
            loop = asyncio.get_running_loop()
            await loop.sock_connect(sock, (place.host, place.port))
            request = b"GET /v1/journal?limit=1000 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer admin-all\r\n\r\n"
            # Several in a row, so that what is not read is more than the kernel takes over.
            await loop.sock_sendall(sock, request * 12)
            began = time.perf_counter()
            connections = place.server.server_state.connections
            await until(lambda: bool(connections))
            await until(lambda: not connections)
            sock.close()
            return time.perf_counter() - began

    assert asyncio.run(stall()) < 5


async def connected(place: Place, n: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """From the address 127.0.0.n."""
    return await asyncio.open_connection(place.host, place.port, local_addr=(f"127.0.0.{n}", 0))


def test_one_source_has_half_of_the_connections_at_most() -> None:
    async def crowd() -> None:
        async with public(make(FakeSurface(), replace(FAST, connections=6, head_wait=5.0))) as place:
            kept = [await connected(place, 2) for _ in range(5)]
            cut = await asyncio.gather(*(reader.read() for reader, _ in kept[3:]), return_exceptions=True)
            assert all(one in (b"", b"reset") or isinstance(one, ConnectionError) for one in cut)
            for n in (1, 3):
                reader, writer = await connected(place, n)
                writer.write(HEAD + b"Connection: close\r\n\r\n")
                assert (await reader.read()).startswith(b"HTTP/1.1 200")
                writer.close()
            kept[0][1].close()
            await until(lambda: len(place.server.server_state.connections) == 2)
            reader, writer = await connected(place, 2)
            writer.write(HEAD + b"Connection: close\r\n\r\n")
            assert (await reader.read()).startswith(b"HTTP/1.1 200")
            for _, one in [*kept, (reader, writer)]:
                one.close()

    asyncio.run(crowd())


def test_more_connections_than_the_bound_are_cut() -> None:
    async def crowd() -> tuple[bytes, bytes]:
        async with public(make(FakeSurface(), replace(FAST, connections=2, head_wait=5.0))) as place:
            kept = [await connected(place, n) for n in (1, 2)]
            over = await exchange(place, HEAD + b"\r\n")
            kept[0][1].write(HEAD + b"Connection: close\r\n\r\n")
            answer = await kept[0][0].read()
            for _, writer in kept:
                writer.close()
            return over, answer

    over, answer = asyncio.run(crowd())
    assert over in (b"", b"reset")
    assert answer.startswith(b"HTTP/1.1 200")


def test_a_forwarded_address_is_not_believed() -> None:
    surface = FakeSurface()

    async def once() -> None:
        async with public(make(surface)) as place, httpx.AsyncClient() as http:
            await http.get(f"http://{place.host}:{place.port}/v1/status", headers={"X-Forwarded-For": "10.9.8.7"})

    asyncio.run(once())
    assert surface.refusals == [("", "127.0.0.1", "status", "no-token")]


def test_the_server_names_neither_itself_nor_its_version() -> None:
    answer = served(HEAD + b"Connection: close\r\n\r\n").lower()
    assert b"server:" not in answer
    assert b"uvicorn" not in answer


# --- TLS and exposure


def test_over_tls() -> None:
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    trusting = ssl.create_default_context()
    authority.configure_trust(trusting)

    async def once() -> int:
        async with public(make(FakeSurface()), context) as place, httpx.AsyncClient(verify=trusting) as http:
            answer = await http.get(
                f"https://{place.host}:{place.port}/v1/status", headers={"Authorization": "Bearer viewer-all"}
            )
            return answer.status_code

    assert asyncio.run(once()) == 200


@pytest.mark.parametrize(
    "address", ["0.0.0.0:0", "[::]:0", "192.0.2.1:8780", "example.org:8780", "[::ffff:10.0.0.1]:1"]
)
def test_without_tls_only_this_machine_is_served(address: str) -> None:
    with pytest.raises(BadInput) as caught:
        listen.public_socket(address, encrypted=False)
    assert caught.value.code == "api-without-tls"


@pytest.mark.parametrize("address", ["127.0.0.1:0", "127.9.9.9:0", "localhost:0"])
def test_loopback_needs_no_tls(address: str) -> None:
    listen.public_socket(address, encrypted=False).close()


@pytest.mark.parametrize("address", ["8780", "host:", ":8780", "host:99999", "host:-1", "host:8o", ""])
def test_an_address_is_host_and_port(address: str) -> None:
    with pytest.raises(BadInput):
        listen.public_socket(address, encrypted=True)


def test_a_taken_address_says_so() -> None:
    with listen.public_socket("127.0.0.1:0", encrypted=False) as sock:
        host, port = sock.getsockname()
        with pytest.raises(Conflict) as caught:
            listen.public_socket(f"{host}:{port}", encrypted=False)
    assert caught.value.code == "address-in-use"


# --- the local socket


def over(path: str) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=httpx.AsyncHTTPTransport(uds=path), base_url="http://zone")


def test_the_local_socket_serves_its_own_user_as_admin(tmp_path: Path) -> None:
    surface = FakeSurface()

    async def once() -> int:
        async with local(make(surface), tmp_path), over(str(tmp_path / "control.sock")) as http:
            return (await http.post("/v1/zones/north/actions/ban", json={})).status_code

    assert asyncio.run(once()) == 200
    assert surface.said[0][0] == f"{protocol.user_name(os.geteuid())}@socket"


def test_the_local_socket_is_for_its_owner_only(tmp_path: Path) -> None:
    with listen.local_socket(tmp_path):
        assert stat.S_IMODE((tmp_path / "control.sock").stat().st_mode) == 0o600
        assert [path.name for path in tmp_path.iterdir()] == ["control.sock"]


def test_another_users_process_is_cut_without_an_answer(tmp_path: Path) -> None:
    # The kernel's word about the peer is all that counts; the test gives another one than its own.
    stranger = struct.pack("3i", 4242, os.geteuid() + 1000, 0)

    class Elsewhere(protocol.LocalProtocol):
        def connection_made(self, transport: asyncio.Transport) -> None:
            super().connection_made(Lying(transport))

    class Lying:
        """A transport whose peer is somebody else."""

        def __init__(self, real: asyncio.Transport) -> None:
            self._real = real

        def __getattr__(self, name: str) -> object:
            return getattr(self._real, name)

        def get_extra_info(self, name: str, default: object = None) -> object:
            class Sock:
                family = socket.AF_UNIX

                def getsockopt(self, *_: int) -> bytes:
                    return stranger

                def getsockname(self) -> str:
                    return "x"

                def getpeername(self) -> str:
                    return ""

            return Sock() if name == "socket" else self._real.get_extra_info(name, default)

    surface = FakeSurface()

    async def once() -> bytes:
        api = make(surface)
        server = listen._server(api, api.local, Elsewhere, api.limits, None)
        async with running(server, listen.local_socket(tmp_path)):
            reader, writer = await asyncio.open_unix_connection(str(tmp_path / "control.sock"))
            writer.write(b"GET /v1/status HTTP/1.1\r\nHost: x\r\n\r\n")
            try:
                async with asyncio.timeout(5):
                    return await reader.read()
            except ConnectionError:
                return b""
            finally:
                writer.close()

    assert asyncio.run(once()) == b""


def test_a_socket_that_a_killed_process_left_is_replaced(tmp_path: Path) -> None:
    listen.local_socket(tmp_path).close()
    assert (tmp_path / "control.sock").exists()
    with listen.local_socket(tmp_path), socket.socket(socket.AF_UNIX) as client:
        client.connect(str(tmp_path / "control.sock"))


def test_a_folder_whose_path_is_too_long_for_a_socket_serves_all_the_same(tmp_path: Path) -> None:
    folder = tmp_path / ("d" * 90) / ("e" * 90)
    folder.mkdir(parents=True)
    assert len(str(folder)) > listen.MAX_SOCKET_PATH

    async def once() -> int:
        handle = os.open(folder, os.O_RDONLY)
        try:
            async with local(make(FakeSurface()), folder), over(f"/proc/self/fd/{handle}/control.sock") as http:
                return (await http.get("/v1/status")).status_code
        finally:
            os.close(handle)

    assert asyncio.run(once()) == 200


def test_a_folder_that_is_not_ours_to_write_says_so(tmp_path: Path) -> None:
    (tmp_path / ".control.sock.new").mkdir()
    with pytest.raises(Unreachable) as caught:
        listen.local_socket(tmp_path)
    assert caught.value.code == "cannot-listen"
