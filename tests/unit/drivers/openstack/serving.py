"""The HTTP side of the stand-in cloud: tokens, faults, and handing GET requests to what answers them."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any, Protocol
from urllib.parse import parse_qs, urlsplit

Json = dict[str, Any]


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
    late: bool = False
    """What was asked is done all the same: the answer is lost, not the request."""
    method: str = ""
    """Only requests of this method; "" is all."""


class Cloud(Protocol):
    """What is served: standin.StandIn."""

    url: str
    password: str
    faults: dict[str, Fault]
    lost: list[tuple[str, Json]]
    projects: list[Json]
    log: list[tuple[str, str, dict[str, str], str]]
    after: Callable[[str], None]
    closing: threading.Event

    def token(self, project: str = "") -> tuple[str, Json]: ...

    def write(self, method: str, path: str, body: Json, token: str) -> tuple[int, Json]: ...

    def valid(self, token: str) -> bool: ...

    def answer(self, path: str, query: dict[str, str]) -> tuple[int, Json]: ...


class Handler(BaseHTTPRequestHandler):
    cloud: Cloud
    protocol_version = "HTTP/1.1"
    wbufsize = -1

    def do_POST(self) -> None:
        self._write("POST")

    def do_PUT(self) -> None:
        self._write("PUT")

    def do_DELETE(self) -> None:
        self._write("DELETE")

    def _write(self, method: str) -> None:
        length = int(self.headers.get("Content-Length", 0))
        raw = self.rfile.read(length)
        cloud = self.cloud
        cloud.log.append((method, self.path, {}, self.headers.get("OpenStack-API-Version", "")))
        late = self._late(method)
        if late is None and self._faulty(method):
            cloud.lost.append((f"{method} {self.path}", json.loads(raw or b"{}")))
            return
        if method == "POST" and self.path.endswith("/auth/tokens"):
            self._token(json.loads(raw))
            return
        token = self.headers.get("X-Auth-Token", "")
        if not cloud.valid(token):
            self._send(401, {"error": {"code": 401, "message": "The request you have made requires authentication."}})
            return
        status, reply = cloud.write(method, self.path, json.loads(raw or b"{}"), token)
        if late is None or not self._faulty(method):
            self._send(status, reply)

    def _token(self, body: Json) -> None:
        identity, scope = body["auth"]["identity"], body["auth"].get("scope", {})
        project = scope.get("project", {}).get("id", "") if isinstance(scope, dict) else ""
        cloud = self.cloud
        if "token" in identity["methods"]:
            right = cloud.valid(identity["token"]["id"])
        else:
            right = identity["password"]["user"]["password"] == cloud.password
        if project and project not in {one["id"] for one in cloud.projects}:
            right = False
        if not right:
            message = "The request you have made requires authentication."
            self._send(401, {"error": {"code": 401, "message": message, "title": "Unauthorized"}})
            return
        token, reply = cloud.token(project)
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

    def _late(self, method: str) -> Fault | None:
        faults = self.cloud.faults.items()
        return next((f for p, f in faults if p in self.path and f.times > 0 and f.late and f.method == method), None)

    def _faulty(self, method: str = "GET") -> bool:
        cloud = self.cloud
        fault = next(
            (f for p, f in cloud.faults.items() if p in self.path and f.times > 0 and f.method in ("", method)), None
        )
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
        body = json.dumps(reply).encode() if status != 204 else b""
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Tests read `StandIn.log`."""
