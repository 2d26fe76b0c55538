"""An answer that is written as one piece: the same bytes as by ASGI's messages, or none."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import pytest
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from banyan.api.protocol import write_whole

HEAD = [(b"content-type", b"application/json"), (b"content-length", b"2")]


class Transport(asyncio.Transport):
    def __init__(self) -> None:
        super().__init__()
        self.pieces: list[bytes] = []

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.pieces.append(bytes(data))

    def is_closing(self) -> bool:
        return False


def cycle(ended: list[str], keep_alive: bool = True) -> tuple[RequestResponseCycle, Transport]:
    transport, logger = Transport(), logging.getLogger("test")
    scope: Any = {"type": "http", "method": "GET", "path": "/", "http_version": "1.1", "headers": []}
    made = RequestResponseCycle(
        scope=scope,
        transport=transport,
        flow=FlowControl(transport),
        logger=logger,
        access_logger=logger,
        access_log=False,
        default_headers=[(b"date", b"now")],
        message_event=asyncio.Event(),
        expect_100_continue=False,
        keep_alive=keep_alive,
        on_response=lambda: ended.append("response"),
    )
    return made, transport


def test_it_is_one_piece_and_the_same_bytes() -> None:
    async def play() -> None:
        ended: list[str] = []
        one, whole = cycle(ended)
        assert write_whole(one, 202, HEAD, b"{}")
        other, parts = cycle(ended)
        await other.send({"type": "http.response.start", "status": 202, "headers": HEAD})
        await other.send({"type": "http.response.body", "body": b"{}"})
        assert len(whole.pieces) == 1 and whole.pieces[0] == b"".join(parts.pieces)
        assert one.response_complete and ended == ["response"] * 2
        assert (await one.receive())["type"] == "http.disconnect"

    asyncio.run(play())


def _closing(one: RequestResponseCycle) -> None:
    one.keep_alive = False


def _paused(one: RequestResponseCycle) -> None:
    one.flow.pause_writing()


def _gone(one: RequestResponseCycle) -> None:
    one.disconnected = True


def _begun(one: RequestResponseCycle) -> None:
    one.response_started = True


@pytest.mark.parametrize("before", [_closing, _paused, _gone, _begun])
def test_what_is_not_plain_goes_the_other_way(before: Callable[[RequestResponseCycle], None]) -> None:
    async def play() -> None:
        ended: list[str] = []
        one, transport = cycle(ended)
        before(one)
        assert not write_whole(one, 200, HEAD, b"{}")
        assert not transport.pieces and not ended and not one.response_complete

    asyncio.run(play())


@pytest.mark.parametrize(
    "line",
    [(b"location", b"/x\r\nset-cookie: a"), (b"x\r\ny", b"z"), (b"connection", b"close"), (b"content-length", b"3")],
)
def test_no_line_begins_another_and_no_length_lies(line: tuple[bytes, bytes]) -> None:
    async def play() -> None:
        one, transport = cycle([])
        assert not write_whole(one, 200, [*HEAD, line], b"{}")
        assert not transport.pieces and not one.response_started

    asyncio.run(play())
