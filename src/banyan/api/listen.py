"""Sockets and servers for the API: a TCP address (over TLS, or on loopback), and the local socket in the data folder.

    server = public_server(api, tls)          # or local_server(api)
    await server.serve(sockets=[sock])        # ends soon after server.should_exit = True

uvicorn here installs no signal handler, trusts no X-Forwarded-For, writes no access log and speaks no WebSocket.
"""

from __future__ import annotations

import errno
import ipaddress
import os
import socket
import ssl
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Protocol

import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send

from banyan.api.app import Api
from banyan.api.context import Limits
from banyan.api.protocol import BoundedProtocol, LocalProtocol, bounded
from banyan.core.errors import BadInput, Conflict, Unreachable

SOCKET_NAME = "control.sock"
QUEUE_SOCKET = "queue.sock"
# sun_path of sockaddr_un, less its closing zero.
MAX_SOCKET_PATH = 107
STOP_WAIT = 3
BACKLOG = 512


class Application(Protocol):
    """What a public server serves: a zone's Api, or an API process in front of one."""

    limits: Limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None: ...

    def stop(self) -> None: ...


class Server(uvicorn.Server):
    """A server that leaves signals to its program, and tells the application when it ends."""

    def __init__(self, config: uvicorn.Config, api: Application) -> None:
        super().__init__(config)
        self._api = api

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._api.stop()
        await super().shutdown(sockets)


def public_server(api: Application, tls: ssl.SSLContext | None) -> Server:
    """Serves `api` to callers with tokens."""
    return _server(api, api, BoundedProtocol, api.limits, tls)


def local_server(api: Api) -> Server:
    """Serves `api` to this process's own user and root, as admins."""
    return _server(api, api.local, LocalProtocol, api.limits, None)


def _server(
    api: Application, app: ASGIApp, protocol: type[BoundedProtocol], limits: Limits, tls: ssl.SSLContext | None
) -> Server:
    config = uvicorn.Config(
        app,
        http=bounded(protocol, limits),
        ws="none",
        lifespan="off",
        interface="asgi3",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_keep_alive=int(limits.idle),
        timeout_graceful_shutdown=STOP_WAIT,
        backlog=BACKLOG,
        ssl_context_factory=None if tls is None else lambda config, default: tls,
    )
    return Server(config, api)


def split_address(address: str) -> tuple[str, int]:
    """`host:port` or `[v6]:port`. Raises BadInput("bad-address")."""
    host, colon, port = address.rpartition(":")
    host = host.removeprefix("[").removesuffix("]") if host.startswith("[") else host
    if not (colon and host and port.isascii() and port.isdigit() and int(port[:6]) <= 65535):
        raise BadInput("bad-address", f"an address is host:port or [v6]:port, got {address[:100]!r}")
    return host, int(port)


def is_loopback(host: str) -> bool:
    """True if nothing but this machine can reach `host`. A name counts only if it is `localhost`."""
    try:
        return ipaddress.ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return host == "localhost"


def public_socket(address: str, *, encrypted: bool, shared: bool = False) -> socket.socket:
    """A listening TCP socket. Without TLS it must be on loopback, since callers send tokens. One that is `shared` lets
    others of this user listen there as well, and the kernel gives each new connection to one of them.

    Raises BadInput("api-without-tls"), Conflict("address-in-use"), Unreachable("cannot-listen").
    """
    host, port = split_address(address)
    if not encrypted and not is_loopback(host):
        raise BadInput(
            "api-without-tls",
            f"the API may listen on {address} only over TLS, since tokens pass there; "
            "leave api.tls on, or listen on 127.0.0.1 or [::1]",
        )
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, proto, _, where = found[0]
        sock = socket.socket(family, kind, proto)
    except OSError as error:
        raise Unreachable("cannot-listen", f"cannot listen on {address}: {error.strerror or error}") from error
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if shared:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0 if host == "::" else 1)
        sock.bind(where)
        sock.listen(BACKLOG)
    except OSError as error:
        sock.close()
        if error.errno == errno.EADDRINUSE:
            raise Conflict(
                "address-in-use", f"another process listens on {address}; stop it, or choose another address"
            ) from error
        raise Unreachable("cannot-listen", f"cannot listen on {address}: {error.strerror}") from error
    sock.setblocking(False)
    return sock


def local_socket(folder: Path, name: str = SOCKET_NAME) -> socket.socket:
    """DATA/control.sock, or another `name` there, mode 0600, in place of one that a killed process left.

    The caller holds the folder's lock, so whatever is there has no owner. It is bound under another name and
    renamed when its mode is right, so that nobody ever meets it half made. A folder whose path is too long for a
    socket is reached through a descriptor of the folder.
    """
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    fresh = f".{name}.new"
    try:
        with suppress(FileNotFoundError):  # only one that was killed here leaves it behind
            os.unlink(fresh, dir_fd=handle)
        sock.bind(reachable(folder, fresh, handle))
        os.chmod(fresh, 0o600, dir_fd=handle)
        sock.listen(BACKLOG)
        os.replace(fresh, name, src_dir_fd=handle, dst_dir_fd=handle)
    except OSError as error:
        sock.close()
        raise Unreachable(
            "cannot-listen", f"cannot make {folder / name}: {error.strerror}; is the folder ours to write?"
        ) from error
    finally:
        os.close(handle)
    sock.setblocking(False)
    return sock


def reachable(folder: Path, name: str, handle: int) -> str:
    """A path for bind or connect that fits a socket address, through the folder's descriptor if it must."""
    direct = str(folder / name)
    return direct if len(os.fsencode(direct)) <= MAX_SOCKET_PATH else f"/proc/self/fd/{handle}/{name}"
