"""A reverse proxy between the driver and a cloud: writes down each request, and can make the cloud as old as Train.

It stands where `auth_url` and the `*_endpoint_override`s of a clouds.yaml entry of its own point to. Capped, it answers
like a cloud that knows nothing newer: in version documents, and with 406 to what asks for more.
"""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import requests
import yaml

from tests.live.clouds import LiveCloud
from tests.live.figures import Direct

TRAIN = {"compute": (2, 79), "placement": (1, 36)}
_HOP = {"connection", "transfer-encoding", "content-encoding", "content-length", "keep-alive", "server", "date"}


class Proxy:
    """`log` has (method, service, path, microversion) of each request, in order."""

    def __init__(self, cloud: LiveCloud, *, train: bool = False) -> None:
        self.train = train
        self.log: list[tuple[str, str, str, str]] = []
        direct = Direct(cloud.clouds_file, cloud.admin)
        self.upstream = {
            kind: url for kind, url in direct.catalogue.items() if kind in ("compute", "placement", "image", "network")
        }
        self.upstream["identity"] = direct.auth_url.removesuffix("/v3")
        settings = yaml.safe_load(cloud.clouds_file.read_text())["clouds"]
        self._settings = settings
        self.verify = settings[cloud.admin].get("cacert", True)
        handler = type("Handler", (_Handler,), {"proxy": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def clouds_yaml(self, path: Path, *entries: str) -> Path:
        """A clouds.yaml with these entries, each leading through here."""
        made = {}
        for name in entries:
            entry = json.loads(json.dumps(self._settings[name]))
            entry["auth"]["auth_url"] = f"{self.url}/identity/v3"
            for kind in self.upstream:
                if kind != "identity":
                    entry[f"{kind}_endpoint_override"] = f"{self.url}/{kind}"
            entry["identity_endpoint_override"] = f"{self.url}/identity/v3"
            # Where the catalogue's address has a version, so must ours.
            for kind, tail in (("compute", "/v2.1"), ("image", "/v2"), ("network", "/v2.0")):
                if self.upstream.get(kind, "").endswith(tail):
                    entry[f"{kind}_endpoint_override"] += tail
            made[name] = entry
        path.touch(mode=0o600)
        path.write_text(yaml.safe_dump({"clouds": made}))
        return path

    def writes(self) -> list[tuple[str, str, str, str]]:
        """What was neither a GET nor a request for a token."""
        return [
            line
            for line in self.log
            if line[0] != "GET"
            and not (line[0] == "POST" and line[1] == "identity" and line[2].endswith("/auth/tokens"))
        ]

    def versions(self, service: str) -> set[str]:
        return {version for _, asked, _, version in self.log if asked == service and version}

    def target(self, path: str) -> tuple[str, str]:
        """(service, address upstream) of a path such as /compute/v2.1/servers."""
        service, _, rest = path.lstrip("/").partition("/")
        base = self.upstream[service]
        version = next((tail for tail in ("/v2.1", "/v2.0", "/v2") if base.endswith(tail)), "")
        return service, base.removesuffix(version) + "/" + rest if rest else base


class _Handler(BaseHTTPRequestHandler):
    proxy: Proxy
    protocol_version = "HTTP/1.1"

    def __getattr__(self, name: str) -> object:
        # Whatever the method: it is written down, and the cloud is the one to judge it.
        if name.startswith("do_"):
            return self._forward
        raise AttributeError(name)

    def _forward(self) -> None:
        proxy = self.proxy
        path, _, query = self.path.partition("?")
        service, address = proxy.target(path)
        version = self.headers.get("OpenStack-API-Version", "")
        proxy.log.append((self.command, service, path, version))
        if proxy.train and _too_new(service, version):
            body = json.dumps({"computeFault": {"code": 406, "message": f"Version {version} is not supported"}})
            self._answer(406, {"Content-Type": "application/json"}, body.encode())
            return
        length = int(self.headers.get("Content-Length", 0))
        headers = {name: value for name, value in self.headers.items() if name.lower() not in {*_HOP, "host"}}
        try:
            reply = requests.request(
                self.command,
                address + (f"?{query}" if query else ""),
                headers=headers,
                data=self.rfile.read(length) if length else None,
                timeout=120,
                verify=proxy.verify,
                allow_redirects=False,
            )
        except requests.RequestException:
            self.close_connection = True
            return
        body = reply.content
        if proxy.train and service in TRAIN:
            body = _capped(body, TRAIN[service])
        if service == "identity":
            body = body.replace(proxy.upstream["identity"].encode(), f"{proxy.url}/identity".encode())
        self._answer(reply.status_code, {n: v for n, v in reply.headers.items() if n.lower() not in _HOP}, body)

    def _answer(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Tests read `Proxy.log`."""


def _too_new(service: str, header: str) -> bool:
    _, _, asked = header.partition(" ")
    return service in TRAIN and bool(asked) and tuple(map(int, asked.split("."))) > TRAIN[service]


def _capped(body: bytes, cap: tuple[int, int]) -> bytes:
    """A version document that knows nothing above `cap`; any other body as it is."""
    if not body.startswith((b'{"version"', b'{"versions"')):
        return body
    document = json.loads(body)
    versions = [document["version"]] if "version" in document else document["versions"]
    for version in versions:
        for key in ("version", "max_version"):
            numbers = tuple(map(int, filter(None, version.get(key, "").split("."))))
            if numbers[:1] == cap[:1] and numbers > cap:
                version[key] = f"{cap[0]}.{cap[1]}"
    return json.dumps(document).encode()
