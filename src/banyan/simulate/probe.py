"""What a large world costs on this machine: memory, and CPU seconds per virtual hour."""

from __future__ import annotations

import resource
from dataclasses import dataclass

from banyan.simulate.invariants import views
from banyan.simulate.world import World

# Zones that join at a time, so that the parent's turnstile is not what is measured.
WAVE = 50


@dataclass(frozen=True, slots=True)
class Cost:
    """`memory`: MiB that the zones added. CPU in seconds. `callbacks` per virtual hour."""

    zones: int
    ready: int
    memory: float
    joining: float
    joined_in: float
    per_hour: float
    callbacks: int

    def __str__(self) -> str:
        return (
            f"{self.zones} zones ({self.ready} ready): {self.memory:.0f} MiB "
            f"({1024 * self.memory / max(1, self.zones):.0f} KiB each); joining took {self.joining:.1f} CPU s and "
            f"{self.joined_in:.0f} virtual s; then {self.per_hour:.1f} CPU s and {self.callbacks} callbacks "
            f"per virtual hour"
        )


def probe(zones: int, hours: float, hosts: int = 10) -> Cost:
    """One top and `zones` children, joined in waves, then `hours` with nothing wrong."""
    with World(rehearse=False, traced=False, commits=False) as world:
        top = world.add("top")
        top.start()
        top.wait()
        before, began = _memory(), _cpu()
        for first in range(1, zones + 1, WAVE):
            for number in range(first, min(first + WAVE, zones + 1)):
                name = f"z{number}"
                code = top.ask(
                    lambda surface, caller, name=name: surface.create_code(  # type: ignore[misc]  # mypy infers no type beside a default
                        caller, name=name, driver="*", labels={}, uses=1, expires=86_400.0, mode="place", replace=False
                    )
                ).code
                world.add(f"top/{name}", hosts=hosts).start(join_code=code)
            world.advance(10.0)
        world.advance(120.0)
        joining, joined_in = _cpu() - began, world.loop.time()
        _, usage = views(top)
        began, callbacks = _cpu(), world.loop.callbacks
        world.advance(hours * 3600.0)
        spent = _cpu() - began
        return Cost(
            zones,
            usage.zones.ready,
            _memory() - before,
            joining,
            joined_in,
            spent / hours,
            int((world.loop.callbacks - callbacks) / hours),
        )


def _memory() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime
