"""Receivers over real sockets: HTTPS whose certificate is proved, syslog in each of its ways."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import socket
import ssl
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
import trustme

from banyan.core.receiver import Notice, ReceiverKind, ReceiverSpec, SendFailed
from banyan.core.severity import Severity
from banyan.core.time import Wall
from banyan.serve.receivers import SocketSenders
from banyan.serve.webhook import signature

NOW = Wall(1_796_083_200.0)
SECRET = bytes(range(32))
NOTICE = Notice(
    id="0000002d-7-abcd", zone="top/lab", code="0000002d", kind="child-lost", severity=Severity.CRITICAL,
    outcome="done", target="east", text="not heard", at=NOW, since=NOW, means="Lost.", done="Counted apart.",
    held="Its servers.", next="`banyan zone show east`", first=7, last=7,
)  # fmt: skip
SECRET_PATH = "/hook/s3cr3t-p4th"


@dataclass
class House:
    """A CA of its own, its files, and what the other side heard."""

    folder: Path
    authority: trustme.CA = field(default_factory=trustme.CA)
    heads: list[str] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    answer: bytes = b"HTTP/1.1 204 No Content\r\n\r\n"

    def __post_init__(self) -> None:
        self.authority.cert_pem.write_to_path(self.folder / "ca.pem")
        (self.folder / "secret").write_text("whsec_" + base64.b64encode(SECRET).decode())
        (self.folder / "secret").chmod(0o600)

    def tls(self, name: str = "localhost") -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.authority.issue_cert(name).configure_cert(context)
        return context

    def webhook(self, port: int, **more: Any) -> ReceiverSpec:
        where = f"https://localhost:{port}"
        return replace(
            ReceiverSpec(
                "siem", ReceiverKind.WEBHOOK, where + SECRET_PATH, where, deadline=5.0,
                secret_file=str(self.folder / "secret"), ca_file=str(self.folder / "ca.pem"),
            ),
            **more,
        )  # fmt: skip

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                self.heads.append(head)
                length = next(line for line in head.lower().split("\r\n") if line.startswith("content-length:"))
                self.bodies.append(await reader.readexactly(int(length.partition(":")[2])))
                writer.write(self.answer)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path)


def over_tls(house: House, play: Callable[[int], Awaitable[None]], name: str = "localhost") -> None:
    async def whole() -> None:
        server = await asyncio.start_server(house.serve, "127.0.0.1", 0, ssl=house.tls(name))
        async with server:
            await play(server.sockets[0].getsockname()[1])

    asyncio.run(asyncio.wait_for(whole(), 30))


async def send(spec: ReceiverSpec, *notices: Notice) -> None:
    sender = SocketSenders().make(spec)
    try:
        for notice in notices:
            await sender.send(notice, NOW)
    finally:
        await sender.close()


async def refused(spec: ReceiverSpec) -> SendFailed:
    with pytest.raises(SendFailed) as raised:
        await send(spec, NOTICE)
    assert "s3cr3t" not in raised.value.text
    return raised.value


def test_a_webhook_is_told_over_https_and_can_prove_who_told_it(house: House) -> None:
    async def play(port: int) -> None:
        await send(house.webhook(port), NOTICE, replace(NOTICE, id="next"))
        first, second = house.heads
        assert first.startswith(f"POST {SECRET_PATH} HTTP/1.1\r\n")
        lines = dict(line.split(": ", 1) for line in first.split("\r\n")[1:] if line)
        named = {key.lower(): value for key, value in lines.items()}
        assert named["content-type"].startswith("application/cloudevents+json")
        assert named["webhook-id"] == NOTICE.id == json.loads(house.bodies[0])["id"]
        timestamp = int(named["webhook-timestamp"])
        assert named["webhook-signature"] == signature((SECRET,), NOTICE.id, timestamp, house.bodies[0])
        assert "webhook-id: next" in second

    over_tls(house, play)


def test_a_certificate_of_strangers_or_of_another_name_is_not_believed(house: House) -> None:
    async def strange(port: int) -> None:
        error = await refused(house.webhook(port, ca_file=""))
        assert "certificate is not to be trusted" in error.text

    async def named(port: int) -> None:
        error = await refused(house.webhook(port))
        assert "certificate is not to be trusted" in error.text

    over_tls(house, strange)
    over_tls(house, named, "other.example")
    assert not house.heads, "nobody was told anything"


def test_a_redirect_is_not_followed(house: House) -> None:
    async def play(port: int) -> None:
        house.answer = (
            b"HTTP/1.1 307 Temporary Redirect\r\nLocation: https://localhost:%d/x\r\nContent-Length: 0\r\n\r\n" % port
        )
        assert "not followed" in (await refused(house.webhook(port))).text
        assert len(house.heads) == 1

    over_tls(house, play)


def test_an_answer_that_never_ends_is_not_read(house: House) -> None:
    async def play(port: int) -> None:
        house.answer = b"HTTP/1.1 200 OK\r\nContent-Length: 100000000000\r\n\r\n" + b"x" * 100_000
        await send(house.webhook(port), NOTICE)
        house.answer = b"HTTP/1.1 503 Busy\r\nRetry-After: 7\r\nContent-Length: 100000000000\r\n\r\n" + b"x" * 100_000
        assert (await refused(house.webhook(port))).retry_after == 7.0

    over_tls(house, play)


def test_what_has_gone_says_so_and_who_speaks_nonsense_is_no_receiver(house: House) -> None:
    async def play(port: int) -> None:
        house.answer = b"HTTP/1.1 410 Gone\r\nContent-Length: 0\r\n\r\n"
        assert (await refused(house.webhook(port))).gone
        house.answer = b"220 smtp.example ESMTP\r\n\r\n"
        assert "connection broke" in (await refused(house.webhook(port))).text

    over_tls(house, play)


def test_a_secret_that_others_may_read_from_now_on_signs_nothing(house: House) -> None:
    async def play(port: int) -> None:
        sender = SocketSenders().make(house.webhook(port))
        await sender.send(NOTICE, NOW)
        (house.folder / "secret").chmod(0o644)
        with pytest.raises(SendFailed, match="read by others"):
            await sender.send(NOTICE, NOW)
        await sender.close()
        assert len(house.heads) == 1

    over_tls(house, play)


def test_nothing_of_the_address_or_the_secret_is_logged(house: House, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)

    async def play(port: int) -> None:
        await send(house.webhook(port), NOTICE)
        await refused(house.webhook(1))

    over_tls(house, play)
    assert "s3cr3t" not in caplog.text and base64.b64encode(SECRET).decode()[:10] not in caplog.text


# --- syslog -------------------------------------------------------------------------------------


def syslog(address: str, **more: Any) -> ReceiverSpec:
    return replace(ReceiverSpec("log", ReceiverKind.SYSLOG, address, address), **more)


async def frame(reader: asyncio.StreamReader) -> bytes:
    length = int(await reader.readuntil(b" "))
    return await reader.readexactly(length)


@pytest.mark.parametrize("way", ["tcp", "tls"])
def test_syslog_over_a_line_counts_octets_and_dials_again(house: House, way: str) -> None:
    async def whole() -> None:
        heard: asyncio.Queue[tuple[bytes, asyncio.StreamWriter]] = asyncio.Queue()

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                while True:
                    heard.put_nowait((await frame(reader), writer))
            except (asyncio.IncompleteReadError, ConnectionError):
                writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=house.tls() if way == "tls" else None)
        port = server.sockets[0].getsockname()[1]
        sender = SocketSenders().make(syslog(f"{way}://localhost:{port}", ca_file=str(house.folder / "ca.pem")))
        async with server:
            await sender.send(NOTICE, NOW)
            await sender.send(replace(NOTICE, text="ä\nö"), NOW)
            first, line = await heard.get()
            second, _ = await heard.get()
            assert first.startswith(b"<26>1 2026-12-01T00:00:00.000Z ") and b"child-lost" in first
            assert "ä\ufffdö" in second.decode()
            line.close()
            await line.wait_closed()
            # Its end arrives with one of the next turns of the loop.
            again = 0
            while heard.empty() and again < 200:
                again += 1
                with suppress(SendFailed):
                    await sender.send(replace(NOTICE, text=f"again {again}"), NOW)
            assert b"again" in (await heard.get())[0]
            await sender.close()
        error = None
        try:
            await send(syslog(f"{way}://localhost:{port}"), NOTICE)
        except SendFailed as failed:
            error = failed
        assert error is not None and "could not be told" in error.text

    asyncio.run(asyncio.wait_for(whole(), 30))


def test_syslog_over_tls_proves_the_other_end(house: House) -> None:
    async def play(port: int) -> None:
        with pytest.raises(SendFailed):
            await send(syslog(f"tls://localhost:{port}"), NOTICE)

    over_tls(house, play)


def test_syslog_by_datagrams(tmp_path: Path) -> None:
    async def whole() -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
            other.bind(("127.0.0.1", 0))
            await send(syslog(f"udp://127.0.0.1:{other.getsockname()[1]}"), replace(NOTICE, text="ä" * 5_000))
            assert len(other.recv(65_536)) in (2_047, 2_048)
        path = tmp_path / "log"
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as local:
            local.bind(str(path))
            await send(syslog(f"unix:{path}", facility=16), NOTICE)
            assert local.recv(65_536).startswith(b"<130>1 ")
        with pytest.raises(SendFailed, match="could not be told: Connection refused"):
            await send(syslog(f"unix:{path}"), NOTICE)

    asyncio.run(asyncio.wait_for(whole(), 30))
