"""The client that measures: an answer belongs to its question, and what is no answer is an error."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import pytest

from banyan.cli import load
from banyan.cli.load import Connection
from banyan.core.errors import Broken, Unreachable

T = TypeVar("T")
LONG = b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n"
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX-One: two\r\n\r\n{}"


class Got(list[bytes]):
    """What a server was asked; `arrived` once it was."""

    def __init__(self) -> None:
        super().__init__()
        self.arrived = asyncio.Event()


def against(answers: list[bytes], ask: Callable[[Connection, Got], Awaitable[T]]) -> T:
    """`ask` with a connection to a server that gives these answers, and the requests that it got. b"" hangs up."""
    got = Got()
    left = iter(answers)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = next((int(one.split(b":")[1]) for one in head.split(b"\r\n") if b"Length" in one), 0)
                got.append(head + await reader.readexactly(length))
                got.arrived.set()
                answer = next(left)
                if not answer:
                    break
                writer.write(answer)
        except asyncio.IncompleteReadError:
            pass
        finally:
            writer.close()

    async def main() -> T:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        line = Connection(f"http://127.0.0.1:{port}", headers={"X-Auth-Token": "t"})
        try:
            return await ask(line, got)
        finally:
            line.close()
            server.close()

    return asyncio.run(main())


def test_one_connection_asks_one_thing_after_the_other() -> None:
    async def ask(line: Connection, got: Got) -> None:
        first = await line.ask("POST", "/a", b"body")
        second = await line.ask("GET", "/b")
        third = await line.ask("DELETE", "/c")
        assert (first.status, first.body, first.headers["x-one"]) == (200, b"{}", "two")
        assert (second.status, third.status, third.body) == (200, 204, b"")
        assert got[0].startswith(b"POST /a HTTP/1.1\r\n")
        assert got[0].endswith(b"\r\n\r\nbody")
        assert b"X-Auth-Token: t\r\n" in got[1]
        assert b"Content-Length" not in got[1]

    against([OK, OK, b"HTTP/1.1 204 No Content\r\n\r\n"], ask)


@pytest.mark.parametrize(
    "answer",
    [b"hello\r\n\r\n", b"HTTP/1.1 x\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: much\r\n\r\n",
     b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", LONG],
)  # fmt: skip
def test_what_is_no_answer_is_said(answer: bytes) -> None:
    async def ask(line: Connection, got: Got) -> None:
        with pytest.raises(Broken):
            await line.ask("GET", "/a")
        # What follows a broken answer is not taken for the next one.
        assert (await line.ask("GET", "/b")).body == b"{}"

    against([answer, OK], ask)


def test_who_hangs_up_or_is_silent_is_unreachable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load, "ANSWER_WAIT", 0.05)

    async def ask(line: Connection, got: Got) -> None:
        with pytest.raises(Unreachable, match="GET /a"):
            await line.ask("GET", "/a")
        assert len(got) == 1

    against([b""], ask)
    against([b"HTTP/1.1 200 OK\r\n"], ask)


def test_an_answer_that_comes_late_is_not_that_of_the_next_question() -> None:
    async def ask(line: Connection, got: Got) -> None:
        late = asyncio.ensure_future(line.ask("GET", "/late"))
        await got.arrived.wait()
        late.cancel()
        with pytest.raises(asyncio.CancelledError):
            await late
        assert (await line.ask("GET", "/next")).body == b"{}"

    against([b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nla", OK], ask)
