"""Both ends of a link in wrong hands: whoever speaks to a real zone over a real wire, and says what it likes.

`Stranger` dials a running zone as a child would, with certificates of the test's making. `Rogue` listens where a zone
expects its parent, and keeps every byte that it could decrypt.
"""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import TypeVar

import msgspec
from websockets.asyncio.client import ClientConnection, connect
from websockets.frames import Frame, Opcode
from websockets.http11 import Request as Upgrade
from websockets.server import ServerProtocol

from banyan.core.ids import ZoneCode
from banyan.core.lineage import Delta, Entry, Row
from banyan.core.messages import (
    MAX_FRAME,
    PROTOCOL_CEILING,
    PROTOCOL_FLOOR,
    Admitted,
    Bye,
    Enrol,
    EpochProof,
    Evidence,
    Generations,
    Greet,
    Hello,
    HelloAck,
    Message,
    Renew,
    Report,
    Welcome,
)
from banyan.core.ports import Credentials, Wire, WireClosed
from banyan.core.secret import Secret
from banyan.link.codec import SESSION, decode, encode, join
from banyan.link.tls import server_context
from banyan.link.websocket_wire import WebSocketDialer
from banyan.link.wire import Identity
from banyan.serve.clock import SystemClock, SystemIds
from banyan.trust import tokens
from banyan.trust.attest import join_code
from banyan.trust.enrol import sign_request
from banyan.trust.keys import public_key
from banyan.trust.lineage import sign_entry
from banyan.trust.session import Session

CLOCK = SystemClock()
IDS = SystemIds()
PATIENCE = 20.0

T = TypeVar("T")


def seed() -> Secret:
    return Secret(IDS.token(32))


def fresh_code() -> ZoneCode:
    return ZoneCode(int.from_bytes(IDS.token(5), "big"))


class Talker:
    """One wire, spoken frame by frame."""

    def __init__(self, wire: Wire) -> None:
        self.wire = wire
        wire.allow(MAX_FRAME)

    async def say(self, *messages: Message) -> None:
        await self.wire.send(join([encode(message) for message in messages]))

    async def hear(self, patience: float = PATIENCE) -> Message:
        async with asyncio.timeout(patience):
            [message] = decode(await self.wire.receive(), SESSION).messages
        return message

    async def hear_a(self, kind: type[T]) -> T:
        """The next message, which must be of this kind."""
        message = await self.hear()
        assert isinstance(message, kind), f"expected {kind.__name__}, got {message}"
        return message

    async def last_word(self, patience: float = PATIENCE) -> Bye | None:
        """Waits for the end of the wire; its Bye if one was said."""
        word: Bye | None = None
        async with asyncio.timeout(patience):
            while True:
                try:
                    for message in decode(await self.wire.receive(), SESSION).messages:
                        word = message if isinstance(message, Bye) else word
                except WireClosed:
                    return word

    async def close(self) -> None:
        await self.wire.close()


async def dial(address: str, purpose: str, shown: Credentials | None = None, bundle: Sequence[bytes] = ()) -> Talker:
    dialer = WebSocketDialer(CLOCK)
    return Talker(await dialer.dial(address, purpose=purpose, credentials=shown, bundle=bundle, timeout=PATIENCE))


def greet(purpose: str) -> Greet:
    return Greet(PROTOCOL_FLOOR, PROTOCOL_CEILING, IDS.token(16), purpose)


@dataclass
class Stranger:
    """A child in one object. `bundle`: its parent's CA certificates, known after it was admitted."""

    address: str
    name: str
    code: ZoneCode = field(default_factory=fresh_code)
    seed: Secret = field(default_factory=seed)
    certificate: bytes = b""
    bundle: tuple[bytes, ...] = ()
    mark: bytes = b""
    proof: EpochProof | None = None

    @property
    def credentials(self) -> Credentials:
        return Credentials(self.certificate, self.seed)

    async def ask(self, code: str, **changes: object) -> Message:
        """Enrols with a join code; what the parent said. `changes` of the request, made before it is signed."""
        return await self.send_request(await self.open_enrolment(), code, **changes)

    async def open_enrolment(self) -> tuple[Talker, Session]:
        talker = await dial(self.address, "enrol")
        hail = greet("enrol")
        await talker.say(hail)
        welcome = await talker.hear_a(Welcome)
        return talker, Session.of(hail, welcome, talker.wire.peer.certificate or b"")

    async def send_request(self, opened: tuple[Talker, Session], code: str, **changes: object) -> Message:
        talker, session = opened
        evidence = join_code.evidence(tokens.parse(code), session, public_key(self.seed))
        plain = Enrol(evidence, self.code, self.name, b"", b"", driver="sim")
        await talker.say(sign_request(self.seed, session, msgspec.structs.replace(plain, **changes)))
        answer = await talker.hear()
        await talker.close()
        if isinstance(answer, Admitted):
            self.certificate, self.bundle = answer.certificate, answer.bundle
        return answer

    async def join(self, code: str) -> Stranger:
        answer = await self.ask(code)
        assert isinstance(answer, Admitted), answer
        return self

    async def hello(
        self,
        *,
        shown: Credentials | None = None,
        code: ZoneCode | None = None,
        renew: Renew | None = None,
        **changes: object,
    ) -> tuple[Talker, HelloAck | Bye]:
        """Opens a session; the wire, and what the parent said to the hello. `changes`: of a hello that is right."""
        talker = await dial(self.address, "session", shown or self.credentials, self.bundle)
        await talker.say(greet("session"))
        await talker.hear_a(Welcome)
        fresh = IDS.token(16)
        claimed = self.code if code is None else code
        plain = Hello(claimed, "0.1.0", 0, self.mark, fresh, Generations(), renew)
        await talker.say(msgspec.structs.replace(plain, **changes))
        answer = await talker.hear()
        assert isinstance(answer, HelloAck | Bye), answer
        if isinstance(answer, HelloAck):
            self.mark, self.proof = fresh, answer.proof
        return talker, answer

    async def refusal(self, **how: object) -> Bye:
        """The parent's no to a hello."""
        talker, answer = await self.hello(**how)
        await talker.close()
        assert isinstance(answer, Bye), answer
        return answer

    async def session(self) -> Talker:
        talker, answer = await self.hello()
        assert isinstance(answer, HelloAck), answer
        return talker

    def own_row(self, parent: ZoneCode) -> Row:
        """Its lineage row as it reports itself at `parent`: whose child it is, is for the parent to say."""
        return msgspec.structs.replace(self.row(parent), parent=ZoneCode(0))

    def row(self, parent: ZoneCode, **changes: object) -> Row:
        """Its lineage row below `parent`, which its entry names."""
        entry = msgspec.msgpack.encode(Entry(self.code, public_key(self.seed), (parent,), now_ms(), (), "0.1.0"))
        plain = Row(
            self.code, parent, self.name, entry, sign_entry(self.seed, entry), "ready", "alive", "enabled", "", now_ms()
        )
        return msgspec.structs.replace(plain, **changes)


def report(seq: int, rows: Iterable[Row] = (), until: int = 1, **changes: object) -> Report:
    told = tuple(rows)
    plain = Report(seq, "available", "", False, True, None, Delta(0, until, told) if told else None)
    return msgspec.structs.replace(plain, **changes)


class Bare:
    """A WebSocket with nothing between the test and TLS. `hear`: the next message of the other end's."""

    def __init__(self, connection: ClientConnection) -> None:
        self._connection = connection

    async def send(self, frame: bytes) -> None:
        await self._connection.send(frame)

    async def hear(self) -> Message:
        async with asyncio.timeout(PATIENCE):
            frame = await self._connection.recv(decode=False)
        [message] = decode(frame, SESSION).messages
        return message


@asynccontextmanager
async def websocket(address: str, path: str, context: ssl.SSLContext) -> AsyncIterator[Bare]:
    uri = f"wss://{address}{path}"
    async with connect(uri, ssl=context, compression=None, proxy=None, close_timeout=1.0, max_size=None) as connection:
        yield Bare(connection)


def now_ms() -> int:
    return round(CLOCK.wall() * 1000)


def no_evidence() -> Evidence:
    return Evidence("join-code", b"")


def with_addresses(code: str, *addresses: str) -> str:
    """The same join code, as if its parent were reached elsewhere."""
    return replace(tokens.parse(code), addresses=addresses).encode().reveal().decode()


# --- where a parent is expected -------------------------------------------------------------------


class Rogue:
    """Listens on a port of loopback while it is entered. `answer` makes a reply to a greeting, None says nothing.

    `heard`: all bytes that came, decrypted, and the frames once more as they were before WebSocket masked them.
    `words`: the messages in them.
    """

    def __init__(
        self,
        shown: Credentials,
        answer: Callable[[Greet], Message | None],
        port: int = 0,
        authorities: Sequence[bytes] = (),
    ) -> None:
        self._context = server_context(Identity(shown, tuple(authorities)))
        self._answer = answer
        self._asked_port = port
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self.port = 0
        self.heard = b""
        self.words: list[Message] = []
        self.handshakes = 0

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def __enter__(self) -> Rogue:
        self._thread.start()
        self._server = self._do(
            asyncio.start_server(self._serve, "127.0.0.1", self._asked_port, ssl=self._context, reuse_address=True)
        )
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        async def close() -> None:
            self._server.close()
            mine = asyncio.current_task()
            others = [task for task in asyncio.all_tasks() if task is not mine]
            for task in others:
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)

        self._do(close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _do(self, work: Awaitable[T]) -> T:
        async def run() -> T:
            return await work

        return asyncio.run_coroutine_threadsafe(run(), self._loop).result(PATIENCE)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.handshakes += 1
        protocol = ServerProtocol(max_size=1 << 20)
        try:
            while data := await reader.read(65_536):
                self.heard += data
                protocol.receive_data(data)
                for event in protocol.events_received():
                    self._take(protocol, event)
                for out in protocol.data_to_send():
                    writer.write(out)
                await writer.drain()
        except (OSError, ssl.SSLError):
            pass
        finally:
            writer.close()

    def _take(self, protocol: ServerProtocol, event: object) -> None:
        if isinstance(event, Upgrade):
            protocol.send_response(protocol.accept(event))
        elif isinstance(event, Frame) and event.opcode is Opcode.BINARY:
            self.heard += bytes(event.data)
            for word in decode(bytes(event.data), SESSION).messages:
                self.words.append(word)
                reply = self._answer(word) if isinstance(word, Greet) else None
                if reply is not None:
                    protocol.send_binary(join([encode(reply)]))
