"""A world: machines, a network, zones by path, on one virtual time. What tests, plays and chaos run on.

It makes nothing happen by itself: `add` a zone, `start` it (site.py), `advance` time. Everything in it is
drawn from its seed. While a world is open, the log of its zones goes to `warnings`; what no zone should ever
do (a task that raises, an activation that fails unexpectedly) is in `failures`.
"""

from __future__ import annotations

import gc
import sys
import traceback
from collections.abc import Callable, MutableMapping
from types import TracebackType
from typing import Self

import structlog

from banyan.simulate.script import clock_text
from banyan.simulate.site import Ground, Site

# Warnings kept of a long run.
KEPT_WARNINGS = 10_000


class World(Ground):
    """See the module. `pace`: leases, reports, scans are that many times as long, for worlds of many days.

    `commits`: draw how long each commit takes, so that more interleavings are met.
    `rehearse`: run each unit of work twice, as a database may (store.inline). `traced`: note journal lines.
    `say`, once set, hears every line of the zones' logs.
    """

    def __init__(
        self, seed: int = 1, *, pace: int = 1, commits: bool = True, rehearse: bool = True, traced: bool = True
    ) -> None:
        super().__init__(seed, pace=pace, commits=commits, rehearse=rehearse, traced=traced)
        self.warnings: list[str] = []
        self._broken: list[str] = []
        self.say: Callable[[str], None] | None = None
        self._logging: dict[str, object] = {}

    def __enter__(self) -> Self:
        self._logging = structlog.get_config()
        structlog.configure(
            processors=[self._log], logger_factory=structlog.ReturnLoggerFactory(), cache_logger_on_first_use=False
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            for site in self.sites.values():
                site.discard()
            self.loop.run_until(self.loop.time())
        finally:
            self.loop.close()
            structlog.configure(**self._logging)  # type: ignore[arg-type]  # what get_config gave

    # --- zones ----------------------------------------------------------------------------------

    def add(
        self,
        path: str,
        *,
        hosts: int = 0,
        guests: int = 0,
        offset: float = 0.0,
        rate: float = 1.0,
        name: str | None = None,
        like: Site | None = None,
    ) -> Site:
        """A zone's place: a machine of its own, an empty disk. Nothing runs yet.

        `name`: what it calls itself, if not as its path ends. `like`: with the settings of that zone.
        """
        if path in self.sites:
            raise ValueError(f"there is a zone {path} already")
        site = Site(self, path, hosts=hosts, guests=guests, offset=offset, rate=rate, name=name, like=like)
        self.sites[path] = site
        return site

    def __getitem__(self, path: str) -> Site:
        return self.sites[path]

    # --- time -----------------------------------------------------------------------------------

    def advance(self, seconds: float) -> None:
        self.loop.run_until(self.loop.time() + seconds)

    # --- what went wrong ------------------------------------------------------------------------

    def failures(self) -> list[str]:
        """What was raised where nothing should be, and zones that ended by themselves, since last asked."""
        found, self._broken = self._broken, []
        failures, self.loop.failures = self.loop.failures, []
        ended = [site.news for site in self.sites.values() if site.news]
        for site in self.sites.values():
            site.news = ""
        return found + failures + ended

    def collect(self) -> None:
        """Finds tasks that were forgotten with an error in them; `failures` then has them."""
        gc.collect()

    def _log(self, logger: object, level: str, event: MutableMapping[str, object]) -> str:
        if self.say is not None:
            fields = " ".join(f"{key}={value}" for key, value in event.items() if key != "exc_info")
            self.say(f"{clock_text(self.loop.time())} {self.loop.speaker()} {level} {fields}{_raised(event)}")
        if level in ("warning", "error", "critical", "exception"):
            fields = " ".join(
                f"{key}={value}" for key, value in sorted(event.items()) if key not in ("event", "exc_info")
            )
            line = f"{event.get('event')} {fields}"
            if len(self.warnings) < KEPT_WARNINGS:
                self.warnings.append(f"{self.loop.time():.3f} {line}")
            if event.get("exc_info") or level in ("critical", "exception"):
                self._broken.append(f"{line}{_raised(event)}")
        return ""


def _raised(event: MutableMapping[str, object]) -> str:
    """Where the exception that is logged was raised."""
    given = event.get("exc_info")
    error = given if isinstance(given, BaseException) else sys.exc_info()[1] if given else None
    if error is None:
        return ""
    frames = traceback.extract_tb(error.__traceback__)[-3:]
    return f" {error!r} at " + " < ".join(f"{frame.filename}:{frame.lineno}" for frame in reversed(frames))
