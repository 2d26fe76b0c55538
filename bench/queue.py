"""What an API process takes off its zone, and what it costs: CPU per request in each of the two processes.

A zone and one API process run on this machine; each kind of request goes to the zone's own listener and then through
the process. CPU is that of the whole process, all threads, as the kernel counts it in hundredths of a second; medians
of rounds. Creates are ordered by `banyan bench create`, and their building and deleting is in the zone's figure.

    python -m bench.queue [--rounds N] [--creates N]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from banyan.cli.load import Connection
from banyan.core.errors import Unreachable
from bench._meters import cpu_of, memory_of, tell

ZONE, PROCESS, LINK = "127.0.0.1:17680", "127.0.0.1:17690", "127.0.0.1:17681"
BANYAN = str(Path(sys.executable).parent / "banyan")
REQUESTS, HANDSHAKES, CLIENTS = 800, 96, 8
Work = Callable[[str], Awaitable[int]]


def start(*arguments: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([BANYAN, "serve", *arguments, "--log-level", "error"])


def run(*arguments: str) -> str:
    return subprocess.run([BANYAN, *arguments], check=True, capture_output=True, text=True).stdout


async def ready(address: str, certificate: Path) -> None:
    for _ in range(600):
        try:
            if (await Connection(f"https://{address}", str(certificate)).ask("GET", "/healthz")).status == 200:
                return
        except (Unreachable, OSError):
            pass  # not up yet
        await asyncio.sleep(0.1)
    raise SystemExit(f"{address} does not answer")


class Requests:
    """Kinds of request; each `Work` sends some to an address and says how many."""

    def __init__(self, certificate: Path, token: str) -> None:
        self.certificate, self.token = str(certificate), token

    def line(self, address: str, bearer: str) -> Connection:
        return Connection(f"https://{address}", self.certificate, {"Authorization": f"Bearer {bearer}"})

    async def many(self, address: str, path: str, bearer: str, status: int, count: int, *, kept: bool = True) -> int:
        async def client() -> None:
            line = self.line(address, bearer)
            for _ in range(count // CLIENTS):
                reply = await line.ask("GET", path)
                assert reply.status == status, reply
                if not kept:
                    line.close()
            line.close()

        await asyncio.gather(*(client() for _ in range(CLIENTS)))
        return count // CLIENTS * CLIENTS

    async def reads(self, address: str) -> int:
        return await self.many(address, "/v1/zones", self.token, 200, REQUESTS)

    async def strangers(self, address: str) -> int:
        return await self.many(address, "/v1/zones", self.token[:-4] + "AAAA", 401, REQUESTS)

    async def connections(self, address: str) -> int:
        return await self.many(address, "/v1/zones", self.token, 200, HANDSHAKES, kept=False)


def creates(data: Path, count: int) -> Work:
    async def order(address: str) -> int:
        more = ["--through", f"https://{address}"] if address == PROCESS else []
        sizes = ["--clients", str(CLIENTS), "--count", str(count)]
        found = json.loads(
            await asyncio.to_thread(run, "bench", "create", "--data", str(data), *sizes, "--json", *more)
        )
        return int(found["accepted"])

    return order


async def measure(rounds: int, count: int) -> dict[str, object]:
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "top"
        zone = start("--data", str(data), "--name", "top", "--driver", "sim", "--hosts", "1000",
                     "--listen-api", ZONE, "--listen-link", LINK)  # fmt: skip
        process = start("--role", "api", "--zone-socket", str(data / "queue.sock"), "--listen-api", PROCESS)
        try:
            for _ in range(600):
                if (data / "api.pem").exists():
                    break
                await asyncio.sleep(0.1)
            for address in (ZONE, PROCESS):
                await ready(address, data / "api.pem")
            token = run("token", "create", "--role", "viewer", "--subject", "bench", "--expires", "1h", "--json",
                        "--data", str(data))  # fmt: skip
            requests = Requests(data / "api.pem", json.loads(token)["token"])
            kinds: dict[str, Work] = {
                "read, kept connection": requests.reads,
                "read, a connection each": requests.connections,
                "token that no key signed": requests.strangers,
                "create, built and deleted": creates(data, count),
            }
            found: dict[str, object] = {}
            for name, work in kinds.items():
                spent: dict[str, list[tuple[float, float, float]]] = {ZONE: [], PROCESS: []}
                for _ in range(rounds):
                    for address, rows in spent.items():
                        before, began = (cpu_of(zone.pid), cpu_of(process.pid)), time.perf_counter()
                        done = await work(address)
                        took = time.perf_counter() - began
                        after = cpu_of(zone.pid), cpu_of(process.pid)
                        rows.append(((after[0] - before[0]) / done, (after[1] - before[1]) / done, done / took))
                found[name] = {
                    what: {
                        "zone_us": round(1e6 * statistics.median(row[0] for row in rows)),
                        "process_us": round(1e6 * statistics.median(row[1] for row in rows)),
                        "per_second": round(statistics.median(row[2] for row in rows)),
                    }
                    for what, rows in (("zone alone", spent[ZONE]), ("through a process", spent[PROCESS]))
                }
            return {
                "found": found,
                "process_mib": round(memory_of(process.pid)),
                "zone_mib": round(memory_of(zone.pid)),
            }
        finally:
            for one in (process, zone):
                one.terminate()
            for one in (process, zone):
                one.wait(30)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.queue")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--creates", type=int, default=500)
    given = parser.parse_args()
    tell(asyncio.run(measure(given.rounds, given.creates)))


if __name__ == "__main__":
    main()
