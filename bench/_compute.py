"""A Compute API as a measurement asks it: a few connections that stay open, a token, an image and a flavor."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from banyan.cli.load import Connection
from bench._zones import Asking

CLIENTS = 8
VERSION = "compute 2.79"


@dataclass
class Side:
    """One Compute API. `root`: scheme, host and port; `prefix` before /servers; `kept`: connections stay open."""

    name: str
    root: str
    prefix: str
    token: str
    image: str
    flavor: str
    certificate: str = ""
    kept: bool = True
    lines: list[Connection] = field(default_factory=list)

    def connect(self, clients: int = CLIENTS) -> None:
        self.close()
        headers = {"X-Auth-Token": self.token, "OpenStack-API-Version": VERSION}
        if not self.kept:
            headers["Connection"] = "close"
        self.lines = [Connection(self.root, self.certificate, headers) for _ in range(clients)]

    def close(self) -> None:
        for line in self.lines:
            line.close()
        self.lines = []

    async def ask(self, method: str, path: str, body: object = None, line: int = 0) -> Any:
        content = b"" if body is None else json.dumps(body).encode()
        reply = await self.lines[line].ask(method, f"{self.prefix}{path}", content)
        if reply.status >= 400 and not (method == "DELETE" and reply.status == 404):
            raise SystemExit(f"{self.name}: {method} {path}: {reply.status} {reply.body[:300]!r}")
        if not self.kept:
            self.lines[line].close()
        return json.loads(reply.body) if reply.body else None

    def wish(self, name: str, count: int = 1) -> dict[str, object]:
        server: dict[str, object] = {
            "name": name, "imageRef": self.image, "flavorRef": self.flavor, "networks": "none"
        }  # fmt: skip
        if count > 1:
            server |= {"min_count": count, "max_count": count}
        return {"server": server}

    async def settled(self) -> None:
        """Until nothing builds any more."""
        while (await self.ask("GET", "/servers?status=BUILD&limit=1"))["servers"]:
            await asyncio.sleep(0.02)


async def zone_side(name: str, data: Path) -> Side:
    """By the first administrator, whose password lies in the data folder."""
    password = (data / "admin-password").read_text().strip()
    with Asking(data) as asking:
        catalogue = asking.get("/identity/v3/auth/catalog")["catalog"]
    url = next(one for one in catalogue if one["type"] == "identity")["endpoints"][0]["url"]
    root, certificate = url.removesuffix("/identity/v3"), str(data / "api.pem")
    domain = {"id": "default"}
    user = {"name": "admin", "domain": domain, "password": password}
    scope = {"project": {"name": "admin", "domain": domain}}
    auth = {"auth": {"identity": {"methods": ["password"], "password": {"user": user}}, "scope": scope}}
    line = Connection(root, certificate)
    token = (await line.ask("POST", "/identity/v3/auth/tokens", json.dumps(auth).encode())).headers["x-subject-token"]
    line.close()
    line = Connection(root, certificate, {"X-Auth-Token": token})
    made = {"name": "bench", "disk_format": "raw", "container_format": "bare"}
    image = json.loads((await line.ask("POST", "/image/v2/images", json.dumps(made).encode())).body)["id"]
    await line.ask("PUT", f"/image/v2/images/{image}/file", b"disk", "application/octet-stream")
    line.close()
    return Side(name, root, "/compute/v2.1", token, image, "1", certificate)
