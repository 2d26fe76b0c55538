"""TCP for the link: addresses, marks on sockets, dialling each address of a name, the way through a CONNECT proxy.

Every failure becomes Unreachable with a text for whoever is woken by it: which address, what came, what to look at.
A proxy's credentials come from a file, read at each dial, and stand in no URL, no log and no error.
"""

from __future__ import annotations

import asyncio
import base64
import errno
import socket
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from banyan.core.errors import BadInput, Conflict, Unreachable
from banyan.core.ports import Clock
from banyan.core.secret import Secret

BACKLOG = 4096
MAX_PROXY_ANSWER = 16 * 1024
# Lower effort (RFC 8622): what the link sends may wait behind everything else on a narrow uplink.
DSCP_LE = 1
# Unacknowledged bytes end a connection after this; a session's own deadlines come first, where there are any.
USER_TIMEOUT_MS = 30_000
KEEPALIVE_IDLE = 60


@dataclass(frozen=True, slots=True)
class Proxy:
    """An HTTP proxy for CONNECT. `password_file` holds the password of `user`, in one line."""

    host: str
    port: int
    user: str = ""
    password_file: Path | None = None

    @staticmethod
    def parse(url: str, user: str = "", password_file: str = "") -> Proxy | None:
        """The proxy at `http://host:port`; None for "". Raises BadInput("bad-proxy") without showing a password."""
        if not url:
            return None
        try:
            parts = urlsplit(url if "//" in url else f"http://{url}")
            port = parts.port
        except ValueError as error:
            raise BadInput("bad-proxy", "link.proxy is http://host:port of a proxy") from error
        if parts.username is not None or parts.password is not None:
            raise BadInput(
                "bad-proxy",
                "link.proxy holds a user or a password, which would show in logs: write http://host:port there, "
                "the name into link.proxy_user, the password into a file named by link.proxy_password_file",
            )
        if parts.scheme != "http" or not parts.hostname or port is None or parts.path.strip("/") or parts.query:
            raise BadInput(
                "bad-proxy", f"link.proxy is http://host:port of a proxy that knows CONNECT, got {url[:100]!r}"
            )
        if user and not password_file:
            raise BadInput("bad-proxy", "link.proxy_user needs link.proxy_password_file")
        return Proxy(parts.hostname, port, user, Path(password_file) if password_file else None)

    def __str__(self) -> str:
        return join_address(self.host, self.port)

    def authorization(self) -> Secret | None:
        """The value of Proxy-Authorization. Raises Unreachable("proxy-password") if the file can not be read."""
        if not self.user or self.password_file is None:
            return None
        try:
            password = self.password_file.read_text(encoding="utf-8").rstrip("\r\n")
        except (OSError, UnicodeDecodeError) as error:
            raise Unreachable(
                "proxy-password",
                f"the password for proxy {self} could not be read from {self.password_file}: {error}; "
                "check link.proxy_password_file and who may read it",
            ) from error
        return Secret(b"Basic " + base64.b64encode(f"{self.user}:{password}".encode()))


def split_address(address: str) -> tuple[str, int]:
    """`host:port` or `[v6]:port`. Raises BadInput("bad-address")."""
    host, colon, port = address.rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    if bracketed:
        host = host[1:-1]
    digits = port.isascii() and port.isdigit() and len(port) <= 5
    if not colon or not host or not digits or int(port) > 65535 or (":" in host and not bracketed):
        raise BadInput(
            "bad-address", f"an address is host:port, 192.0.2.1:8781 or [2001:db8::1]:8781, got {address[:100]!r}"
        )
    return host, int(port)


def join_address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def plain_host(host: str) -> str:
    """An IP address as people write it: without the mark of IPv4 in IPv6, without a scope."""
    return host.removeprefix("::ffff:").partition("%")[0] if "." in host else host.partition("%")[0]


def mark(sock: socket.socket, dscp: int) -> None:
    """No delay, an end for what is never acknowledged, and the DSCP mark on either family."""
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, KEEPALIVE_IDLE)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, USER_TIMEOUT_MS)
    if sock.family == socket.AF_INET6:
        sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_TCLASS, dscp << 2)
    # On a socket of IPv6 this marks what goes to addresses of IPv4.
    sock.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, dscp << 2)


def listen(address: str, dscp: int) -> list[socket.socket]:
    """Listening sockets for all addresses of the name; port 0 takes a free one.

    Raises BadInput("bad-address"), Conflict("address-in-use"), Unreachable("cannot-listen").
    """
    host, port = split_address(address)
    sockets: list[socket.socket] = []
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        for family, kind, proto, _, where in dict.fromkeys(found):
            sock = socket.socket(family, kind, proto)
            sockets.append(sock)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0 if host == "::" else 1)
            mark(sock, dscp)
            sock.bind(where)
            sock.listen(BACKLOG)
            sock.setblocking(False)
    except OSError as error:
        for sock in sockets:
            sock.close()
        if error.errno == errno.EADDRINUSE:
            raise Conflict(
                "address-in-use", f"another process listens on {address}; stop it, or choose another link.listen"
            ) from error
        raise Unreachable("cannot-listen", f"cannot listen on {address}: {error.strerror or error}") from error
    return sockets


async def dial(host: str, port: int, *, dscp: int, timeout: float, clock: Clock) -> socket.socket:
    """A connected, marked socket to the first address of the name that answers.

    Raises Unreachable: "no-such-host", "refused", "timed-out", "no-route", "dial-failed".
    """
    loop = asyncio.get_running_loop()
    began = clock.now()
    shown = join_address(host, port)
    try:
        async with asyncio.timeout(timeout):
            found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except TimeoutError as error:
        raise Unreachable(
            "timed-out", f"the name {host!r} was not resolved within {timeout:g} s", transient=True
        ) from error
    except (OSError, UnicodeError) as error:
        text = f"the name {host!r} cannot be resolved ({error}); check the address, and DNS on this machine"
        raise Unreachable("no-such-host", text, transient=True) from error
    failure = Unreachable("no-such-host", f"the name {host!r} has no address", transient=True)
    for number, (family, kind, proto, _, where) in enumerate(found):
        # Each address gets its share of what is left, so that a dead one of IPv6 does not hide a live one of IPv4.
        left = timeout - (clock.now() - began)
        share = max(0.1, left / (len(found) - number))
        sock = socket.socket(family, kind, proto)
        try:
            sock.setblocking(False)
            mark(sock, dscp)
            async with asyncio.timeout(share):
                await loop.sock_connect(sock, where)
            return sock
        except (OSError, TimeoutError) as error:
            sock.close()
            failure = _why(error, shown, where[0], share)
        except BaseException:
            sock.close()
            raise
    raise failure


def _why(error: OSError | TimeoutError, shown: str, ip: object, waited: float) -> Unreachable:
    at = shown if str(ip) in shown else f"{shown} ({ip})"
    match error:
        case ConnectionRefusedError():
            code, text = "refused", f"{at} refused the connection: nothing listens there, or a firewall says so"
        case OSError(errno=errno.ENETUNREACH | errno.EHOSTUNREACH | errno.EADDRNOTAVAIL):
            code, text = "no-route", f"there is no route to {at}; check this machine's network and routes"
        case TimeoutError():
            code = "timed-out"
            text = f"{at} did not answer within {waited:.3g} s; check that it is up, and firewalls in between"
        case _:
            code, text = "dial-failed", f"{at} could not be dialled: {error.strerror or error}"
    return Unreachable(code, text, transient=True)


async def connect_through(sock: socket.socket, proxy: Proxy, host: str, port: int) -> None:
    """Asks the proxy at the other end of `sock` for a tunnel. Raises Unreachable ("proxy-…")."""
    target = join_address(host, port)
    head = f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n".encode("ascii")
    authorization = proxy.authorization()
    if authorization is not None:
        head += b"Proxy-Authorization: " + authorization.reveal() + b"\r\n"
    loop = asyncio.get_running_loop()
    answer = b""
    try:
        await loop.sock_sendall(sock, head + b"\r\n")
        while b"\r\n\r\n" not in answer:
            piece = await loop.sock_recv(sock, 4096)
            answer += piece
            if not piece or len(answer) > MAX_PROXY_ANSWER:
                raise Unreachable(
                    "proxy-failed", f"proxy {proxy} gave no HTTP answer to CONNECT {target}; is link.proxy right?"
                )
    except OSError as error:
        text = f"proxy {proxy} ended the connection: {error.strerror or error}"
        raise Unreachable("proxy-failed", text, transient=True) from error
    status = answer.split(b"\r\n", 1)[0].decode("ascii", "replace")
    words = status.split(" ", 2)
    code = words[1] if len(words) > 1 and words[0].startswith("HTTP/1.") else ""
    if code.startswith("2") and not answer.endswith(b"\r\n\r\n"):
        raise Unreachable("proxy-failed", f"proxy {proxy} sent more than its answer to CONNECT {target}")
    if not code.startswith("2"):
        raise _proxy_said(code, proxy, target, status[:200])


def _proxy_said(code: str, proxy: Proxy, target: str, status: str) -> Unreachable:
    said = "".join(c if c.isprintable() else "?" for c in status)
    match code:
        case "407":
            what = "does not accept the user and password" if proxy.user else "asks for a user and a password"
            text = f"proxy {proxy} {what} (407); check link.proxy_user and link.proxy_password_file"
            return Unreachable("proxy-unauthorized", text)
        case "403" | "405":
            text = f"proxy {proxy} forbids a tunnel to {target} ({code}); its operator must allow CONNECT to this port"
            return Unreachable("proxy-forbids", text)
        case "502" | "503" | "504":
            text = f"proxy {proxy} could not reach {target} ({said}); check that the parent is up"
            return Unreachable("proxy-unreachable", text, transient=True)
    return Unreachable("proxy-failed", f"proxy {proxy} answered CONNECT {target} with {said!r}", transient=True)
