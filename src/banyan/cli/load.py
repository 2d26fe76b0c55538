"""A client that costs little: one kept connection, one request at a time, over HTTP/1.1 and TLS.

For measuring only (cli/bench.py): where thousands of requests a second are sent from the machine that answers them, a
comfortable client would take most of what is measured.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from banyan.core.errors import Broken, Unreachable

MAX_HEAD = 64 * 1024
MAX_BODY = 64 * 1024 * 1024
# Seconds for one answer; the API gives up on its own after 30.
ANSWER_WAIT = 60.0


@dataclass(frozen=True, slots=True)
class Reply:
    """`headers` by lower-case name."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Connection:
    """To one API. `base` is https://HOST:PORT or http://HOST:PORT; `headers` go with every request."""

    def __init__(self, base: str, certificate: str = "", headers: Mapping[str, str] | None = None) -> None:
        parts = urlsplit(base)
        self._host, self._secure = parts.hostname or "", parts.scheme == "https"
        self._port = parts.port or (443 if self._secure else 80)
        self._context = ssl.create_default_context(cafile=certificate or None) if self._secure else None
        lines = {"Host": parts.netloc, "Accept": "application/json", **(headers or {})}
        self._head = "".join(f"{name}: {value}\r\n" for name, value in lines.items()).encode()
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, method: str, path: str, body: bytes = b"", media: str = "application/json") -> Reply:
        """Raises Unreachable if nobody answers in time, Broken for an answer that is none. Nothing is sent twice."""
        try:
            async with asyncio.timeout(ANSWER_WAIT):
                return await self._ask(method, path, body, media)
        except (OSError, asyncio.IncompleteReadError, TimeoutError) as error:
            self.close()
            place = f"{self._host}:{self._port}"
            raise Unreachable("unreachable", f"{place} did not answer {method} {path[:100]}: {error!r}") from error
        except BaseException:
            # The answer may still come: it is not that of the next question.
            self.close()
            raise

    async def _ask(self, method: str, path: str, body: bytes, media: str) -> Reply:
        if self._streams is None:
            self._streams = await asyncio.open_connection(
                self._host,
                self._port,
                ssl=self._context,
                limit=MAX_HEAD,
                ssl_handshake_timeout=10 if self._secure else None,
            )
        reader, writer = self._streams
        what = f"Content-Type: {media}\r\nContent-Length: {len(body)}\r\n" if body else ""
        writer.write(f"{method} {path} HTTP/1.1\r\n{what}".encode() + self._head + b"\r\n" + body)
        await writer.drain()
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            status = int(head[0].split(" ", 2)[1])
            headers = {
                name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:-2])
            }
            length = 0 if status == 204 else int(headers.get("content-length", "-1"))
        except (asyncio.LimitOverrunError, ValueError, IndexError) as error:
            raise Broken("bad-answer", f"{self._host}:{self._port} does not answer as HTTP/1.1 does") from error
        if not 0 <= length <= MAX_BODY:
            raise Broken("bad-answer", f"an answer to {method} {path[:100]} of unknown length, or one above {MAX_BODY}")
        answer = await reader.readexactly(length)
        if headers.get("connection", "").lower() == "close":
            self.close()
        return Reply(status, headers, answer)

    def close(self) -> None:
        """Safe to repeat."""
        if self._streams is not None:
            writer = self._streams[1]
            self._streams = None
            writer.transport.abort()
