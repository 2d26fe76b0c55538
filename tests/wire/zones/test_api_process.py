"""Real API processes in front of a real zone, and what a caller may rely on when either is killed with SIGKILL."""

from __future__ import annotations

import os
import signal
import ssl
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from tests.wire.zones.nursery import Forked
from tests.wire.zones.processes import PATIENCE, Cloud, Zone, free_port, surroundings

pytestmark = pytest.mark.slow

CLIENTS = 4
ORDERS = 48


class ApiProcess:
    """`banyan serve --role api` in front of `zone`."""

    def __init__(self, zone: Zone, port: int) -> None:
        self.zone = zone
        self.port = port
        self.log = zone.folder / f"api-{port}.log"
        self.process: Forked | None = None

    def start(self) -> ApiProcess:
        where = ["--zone-socket", str(self.zone.data / "queue.sock"), "--listen-api", f"127.0.0.1:{self.port}"]
        self.process = Forked("banyan", ["serve", "--role", "api", *where], surroundings(), self.log, self.log)
        self.zone.wait_until(lambda: self.health() == 200, "to answer through its API process")
        return self

    def client(self, token: str = "") -> httpx.Client:
        trusted = ssl.create_default_context(cafile=str(self.zone.data / "api.pem"))
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        return httpx.Client(
            base_url=f"https://127.0.0.1:{self.port}", verify=trusted, headers=headers, timeout=PATIENCE
        )

    def health(self) -> int:
        try:
            with self.client() as http:
                return http.get("/healthz").status_code
        except (httpx.TransportError, OSError):
            return 0

    def kill(self) -> None:
        if self.process is not None and self.process.poll() is None:
            os.kill(self.process.pid, signal.SIGKILL)
            self.process.wait(PATIENCE)


@contextmanager
def front(folder: Path) -> Iterator[tuple[Zone, ApiProcess, str]]:
    with Cloud(folder) as cloud:
        top = cloud.zone("top", hosts=40).start()
        process = ApiProcess(top, free_port())
        try:
            made = top.cli("token", "create", "--role", "admin", "--subject", "ops", "--expires", "1h", "--json")
            process.start()
            top.wait_until(lambda: top.ask("/v1/hosts?limit=1")[1]["items"], "to have read its rack")
            yield top, process, made.json()["token"]
        finally:
            process.kill()


def order(http: httpx.Client, key: str) -> httpx.Response | None:
    """None if no answer came."""
    body = {"name": key, "project": "p1"}
    try:
        return http.post("/v1/placed", json=body, headers={"Idempotency-Key": key, "X-Forwarded-For": "203.0.113.9"})
    except httpx.TransportError:
        return None


def test_what_was_acknowledged_stays_when_an_api_process_is_killed(tmp_path: Path) -> None:
    with front(tmp_path) as (top, process, token):
        answered: dict[str, str] = {}
        requests: dict[str, str] = {}
        some = threading.Event()

        def client(keys: list[str]) -> list[str]:
            left = []
            with process.client(token) as http:
                for key in keys:
                    reply = order(http, key)
                    if reply is None or reply.status_code == 503:
                        left.append(key)
                        continue
                    assert reply.status_code == 201, reply.text
                    answered[key] = reply.json()["servers"][0]["id"]
                    requests[key] = reply.headers["X-Banyan-Request-Id"]
                    if len(answered) >= ORDERS // 4:
                        some.set()
            return left

        keys = [f"order-{n}" for n in range(ORDERS)]
        with ThreadPoolExecutor(CLIENTS) as pool:
            asked = [pool.submit(client, keys[n::CLIENTS]) for n in range(CLIENTS)]
            assert some.wait(PATIENCE)
            process.kill()
            left = [key for one in asked for key in one.result(PATIENCE)]
        assert left, "it was killed too late"
        before = dict(answered)
        process.start()
        with ThreadPoolExecutor(CLIENTS) as pool:
            again = [pool.submit(client, keys[n::CLIENTS]) for n in range(CLIENTS)]
            assert [key for one in again for key in one.result(PATIENCE)] == []
        assert {key: answered[key] for key in before} == before, "the same servers for the same keys"
        placed = [row["id"] for row in top.ask("/v1/placed?limit=1000")[1]["items"]]
        assert sorted(placed) == sorted(answered.values())
        lines = [line for line in top.journal() if line["request"] in set(requests.values())]
        assert lines
        assert {line["address"] for line in lines} == {"127.0.0.1"}


def test_an_api_process_outlives_its_zone(tmp_path: Path) -> None:
    with front(tmp_path) as (top, process, token), process.client(token) as http:
        reply = order(http, "before")
        assert reply is not None
        assert reply.status_code == 201
        top.kill()
        away = http.get("/v1/placed")
        assert (away.status_code, away.headers["Retry-After"]) == (503, "1")
        assert away.json()["error"]["code"] == "zone-away"
        assert http.get("/healthz").status_code == 503
        top.start()
        top.wait_until(lambda: process.health() == 200, "to be found again by its API process")
        again = order(http, "before")
        assert again is not None
        assert again.json()["servers"][0]["id"] == reply.json()["servers"][0]["id"]
        assert "banyan_api_processes 1" in top.metrics()
        assert process.process is not None
        process.process.terminate()
        assert process.process.wait(PATIENCE) == 0
