"""The HTTP side of the stand-in cloud: tokens, faults, and handing GET requests to what answers them."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Protocol
from urllib.parse import parse_qs, urlsplit

Json = dict[str, object]


@dataclass
class Fault:
    """Instead of an answer: a status and a body, or silence until the server closes. `times` is how often."""

    status: int = 500
    body: bytes = b'{"computeFault": {"code": 500, "message": "it broke"}}'
    kind: str = "application/json"
    headers: dict[str, str] = field(default_factory=dict)
    hang: bool = False
    cut: bool = False
    drip: bool = False
    times: int = 1_000_000


class Cloud(Protocol):
    """What is served: standin.StandIn."""

    url: str
    password: str
    faults: dict[str, Fault]
    log: list[tuple[str, str, dict[str, str], str]]
    after: Callable[[str], None]
    closing: threading.Event

    def token(self) -> tuple[str, Json]: ...

    def valid(self, token: str) -> bool: ...

    def answer(self, path: str, query: dict[str, str]) -> tuple[int, Json]: ...


class Handler(BaseHTTPRequestHandler):
    cloud: Cloud
    protocol_version = "HTTP/1.1"
    wbufsize = -1

    def do_POST(self) -> None:
        length = int(self.headers.get("Content-Length", 0))
        body = json.loads(self.rfile.read(length) or b"{}")
        cloud = self.cloud
        cloud.log.append(("POST", self.path, {}, ""))
        if self._faulty():
            return
        if not self.path.endswith("/auth/tokens"):
            self._send(405, {"error": {"code": 405, "message": "no"}})
            return
        given = body["auth"]["identity"]["password"]["user"]["password"]
        if given != cloud.password:
            message = "The request you have made requires authentication."
            self._send(401, {"error": {"code": 401, "message": message, "title": "Unauthorized"}})
            return
        token, reply = cloud.token()
        self._send(201, reply, {"X-Subject-Token": token})

    def do_GET(self) -> None:
        split = urlsplit(self.path)
        query = {name: values[-1] for name, values in parse_qs(split.query).items()}
        cloud = self.cloud
        microversion = self.headers.get("OpenStack-API-Version", "")
        cloud.log.append(("GET", split.path, query, microversion))
        if self._faulty():
            return
        # Version documents are for all.
        public = split.path.rstrip("/") in ("/identity", "/identity/v3", "/compute/v2.1", "/placement")
        if split.path.rstrip("/").startswith("/identity") and public:
            version = {
                "id": "v3.14",
                "status": "stable",
                "links": [{"rel": "self", "href": f"{cloud.url}/identity/v3/"}],
            }
            self._send(300, {"versions": {"values": [version]}})
            return
        if not public and not cloud.valid(self.headers.get("X-Auth-Token", "")):
            self._send(401, {"error": {"code": 401, "message": "The request you have made requires authentication."}})
            return
        status, reply = cloud.answer(split.path.rstrip("/"), query)
        self._send(status, reply)
        cloud.after(split.path)

    def _faulty(self) -> bool:
        cloud = self.cloud
        fault = next((f for part, f in cloud.faults.items() if part in self.path and f.times > 0), None)
        if fault is None:
            return False
        fault.times -= 1
        self.close_connection = True
        if fault.cut:
            return True
        if fault.hang:
            cloud.closing.wait(30)
            return True
        if fault.drip:
            self._drip()
            return True
        self.send_response(fault.status)
        self.send_header("Content-Type", fault.kind)
        self.send_header("Content-Length", str(len(fault.body)))
        self.send_header("Connection", "close")
        for name, value in fault.headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(fault.body)
        return True

    def _drip(self) -> None:
        """A body that never ends and never pauses long enough for a read to time out."""
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        try:
            while not self.cloud.closing.wait(0.05):
                self.wfile.write(b" ")
                self.wfile.flush()
        except OSError:
            return

    def _send(self, status: int, reply: Json, headers: dict[str, str] | None = None) -> None:
        body = json.dumps(reply).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Tests read `StandIn.log`."""
