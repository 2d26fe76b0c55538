"""Random faults over a random tree for hours, invariants after each, then calm: all must settle by itself.

What it does is written as a play while it goes: a failure names its seed and the command that replays it, and its
lines can be kept as a `*.play` file. Faults come in groups as well (all links of a parent, a zone and its
parent at once), since those are what breaks things. Everything follows from the seed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from banyan.core.errors import BanyanError
from banyan.core.zone import Admin
from banyan.simulate.ids import stream
from banyan.simulate.invariants import Invariants, views
from banyan.simulate.loop import DeadlockError, LivelockError, OutsideError, OverdueError
from banyan.simulate.script import ScriptError, clock_text, read_step
from banyan.simulate.site import Site
from banyan.simulate.verbs import Stage, run_step
from banyan.simulate.world import World

# Virtual seconds that a calm world gets until all has settled, and how often it is looked at.
CALM = 3600.0
LOOK = 10.0


@dataclass(frozen=True, slots=True)
class Plan:
    """`hours` of faults, virtual; `zones` beside the top, at most `depth` levels below it; `hosts` each."""

    seed: int
    zones: int = 8
    hours: float = 2.0
    depth: int = 3
    hosts: int = 4

    @property
    def command(self) -> str:
        return (
            f"python -m banyan.simulate chaos --seed {self.seed} --zones {self.zones} --hours {self.hours:g} "
            f"--depth {self.depth} --hosts {self.hosts}"
        )


@dataclass(slots=True)
class Outcome:
    """How a run went. `broken` is empty when all held. `play`: the lines that were performed."""

    plan: Plan
    broken: list[str] = field(default_factory=list)
    play: list[str] = field(default_factory=list)
    tail: list[str] = field(default_factory=list)
    digest: str = ""
    happenings: int = 0
    settled_in: float = 0.0

    def report(self) -> str:
        """For people: what broke, the last lines of play and trace, and the command that replays it."""
        lines = [f"seed {self.plan.seed}: {'; '.join(self.broken)}", "the last of the play:"]
        lines += [f"    {line}" for line in self.play[-15:]]
        lines += ["the last that happened:", *(f"    {line}" for line in self.tail), f"again: {self.plan.command}"]
        return "\n".join(lines)


def run(plan: Plan) -> Outcome:
    """Performs the plan. Never raises for what a world does: `Outcome.broken` tells."""
    outcome = Outcome(plan)
    with World(seed=plan.seed) as world:
        invariants = Invariants(world)
        chaos = _Chaos(plan, Stage(world, invariants), outcome)
        try:
            chaos.storm()
            chaos.calm()
        except _BrokenError as error:
            outcome.broken.append(str(error))
        except (BanyanError, ScriptError, DeadlockError, LivelockError, OutsideError, OverdueError) as error:
            outcome.broken.append(f"{type(error).__name__}: {error}")
        outcome.tail = [str(happening) for happening in world.trace.tail(40)]
        outcome.digest, outcome.happenings = world.trace.digest, world.trace.count
    return outcome


class _BrokenError(Exception):
    """An invariant did not hold."""


class _Chaos:
    def __init__(self, plan: Plan, stage: Stage, outcome: Outcome) -> None:
        self.plan = plan
        self.stage = stage
        self.world = stage.world
        self.outcome = outcome
        self.random: Random = stream(plan.seed, "chaos")
        self.paths = _tree(plan, self.random)

    # --- the storm ------------------------------------------------------------------------------

    def storm(self) -> None:
        """Zones join at random instants while faults go on already."""
        self.do("zone top")
        waiting = list(self.paths)
        end = self.plan.hours * 3600.0
        while self.world.loop.time() < end or waiting:
            if waiting and self.random.random() < 0.5:
                parent = self.world.sites[waiting[0].rpartition("/")[0]]
                # It may have no code to give now: its disk is full, or it dies while it writes one.
                if parent.running and self.say(f"join {waiting[0]} hosts={self.plan.hosts}"):
                    waiting.pop(0)
            else:
                self.fault()
            self.do(f"advance {self.random.choice((1, 5, 20, 60, 300))}s")

    def fault(self) -> None:
        kind = self.random.choices(tuple(_FAULTS), weights=tuple(weight for _, weight in _FAULTS.values()))[0]
        _FAULTS[kind][0](self)

    # --- the calm -------------------------------------------------------------------------------

    def calm(self) -> None:
        """All faults end; every process runs; people take back what they said. Then all must settle."""
        self.do("heal all")
        for path, site in self.world.sites.items():
            self.do(f"disk {path} ok")
            self.do(f"bottom {path} answers")
            self.do(f"clock {path} true")
            site.disk.doom = None
            if not site.running:
                self.do(f"start {path}")
        began = self.world.loop.time()
        broken = ["nothing was looked at"]
        while broken and self.world.loop.time() - began < CALM:
            self.world.advance(LOOK)
            self.take_back()
            self.check()
            broken = self.stage.invariants.broken(settled=True)
        if broken:
            raise _BrokenError(f"not settled after {CALM:g} s of calm: {'; '.join(broken)}")
        self.outcome.settled_in = self.world.loop.time() - began
        self.world.collect()
        self.check()

    def take_back(self) -> None:
        """What a person would do now: enable, unban, accept; start what ended by itself."""
        for path, site in self.world.sites.items():
            if not site.running:
                self.do(f"start {path}")
        try:
            zones, _ = views(self.world.sites["top"])
        except BanyanError:
            return
        for zone in zones:
            if zone.admin == Admin.BANNED:
                self.say(f"unban {zone.path}")
            elif zone.admin != Admin.ENABLED:
                self.say(f"enable {zone.path}")
            if zone.rolled_back:
                self.say(f"accept {zone.path}")
        for path, site in self.world.sites.items():
            self.person(path, site)

    def person(self, path: str, site: Site) -> None:
        """What the zone itself shows that needs a person: it was restored, or its parent does not know it any more."""
        try:
            status = site.ask(lambda surface, caller: surface.status(caller))
        except (BanyanError, OverdueError):
            return
        if status.restored_at is not None:
            self.say(f"release {path}")
        lost = [up for up in status.uplinks if "join it again" in up.reason or "was restored" in up.reason]
        if site.parent_path and (lost or not status.uplinks):
            self.do(f"crash {path}")
            self.say(f"join {path}")

    # --- performing -----------------------------------------------------------------------------

    def do(self, line: str) -> None:
        """Performs a line of play, then looks at every invariant."""
        self.outcome.play.append(line)
        run_step(self.stage, read_step(f"chaos {clock_text(self.world.loop.time())}", line))
        self.check()

    def say(self, line: str) -> bool:
        """As `do`, for what a zone may refuse, or be away for: False if it did."""
        try:
            self.do(line)
        except (BanyanError, OverdueError):
            self.check()
            return False
        return True

    def check(self) -> None:
        broken = self.world.failures() + self.stage.invariants.broken(settled=False)
        if broken:
            raise _BrokenError("; ".join(broken))

    def some(self, *, running: bool | None = None) -> list[str]:
        """Paths of zones that are there, the top among them."""
        return [p for p, site in self.world.sites.items() if running is None or site.running == running]


def _tree(plan: Plan, random: Random) -> list[str]:
    paths = ["top"]
    for number in range(plan.zones):
        parents = [path for path in paths if path.count("/") < plan.depth]
        paths.append(f"{random.choice(parents)}/z{number + 1}")
    return paths[1:]


# --- faults ---------------------------------------------------------------------------------------


def _links(chaos: _Chaos) -> list[str]:
    return [path for path, site in chaos.world.sites.items() if site.parent_path]


def _on_link(verb: str) -> Callable[[_Chaos], None]:
    def fault(chaos: _Chaos) -> None:
        links = _links(chaos)
        if links:
            chosen = chaos.random.sample(links, min(len(links), chaos.random.choice((1, 1, 1, 2, 4))))
            chaos.do(f"{verb} {' '.join(chosen)}")

    return fault


def _below(chaos: _Chaos) -> None:
    """All links of one parent at once."""
    chaos.do(f"{chaos.random.choice(('cut', 'silence', 'reset', 'heal'))} {chaos.random.choice(chaos.some())} below")


def _delay(chaos: _Chaos) -> None:
    links = _links(chaos)
    if links:
        high = chaos.random.choice((50, 500, 3000))
        chaos.do(f"delay {chaos.random.choice(links)} {high // 10}ms..{high}ms")


def _crash(chaos: _Chaos) -> None:
    """One zone, or one and its parent."""
    running = chaos.some(running=True)
    if not running:
        return
    victim = chaos.random.choice(running)
    verb = chaos.random.choice(("crash", "crash", "unplug", "stop"))
    for path in (victim, victim.rpartition("/")[0]) if chaos.random.random() < 0.2 else (victim,):
        if path in chaos.world.sites and chaos.world.sites[path].running:
            chaos.do(f"{verb} {path}")


def _doom(chaos: _Chaos) -> None:
    """One zone will die at a commit of a kind that it made before."""
    path = chaos.random.choice(chaos.some())
    names = sorted(chaos.world.sites[path].disk.seen)
    if names:
        instant = chaos.random.choice(("before", "after"))
        chaos.do(f"crash {path} {instant} {chaos.random.choice(names)} {chaos.random.randrange(1, 4)}")


def _start(chaos: _Chaos) -> None:
    for path in chaos.some(running=False):
        if chaos.random.random() < 0.7:
            chaos.do(f"{chaos.random.choice(('start', 'reboot'))} {path}")


def _reboot(chaos: _Chaos) -> None:
    chaos.do(f"reboot {chaos.random.choice(chaos.some())}")


def _clock(chaos: _Chaos) -> None:
    jump = chaos.random.choice(("+30s", "-30s", "+2h", "-2h", "+40d", "-40d", "true", "1.01x", "0.99x"))
    chaos.do(f"clock {chaos.random.choice(chaos.some())} {jump}")


def _disk(chaos: _Chaos) -> None:
    chaos.do(f"disk {chaos.random.choice(chaos.some())} {chaos.random.choice(('full', 'ok', 'ok', 'slow=500ms'))}")


def _bottom(chaos: _Chaos) -> None:
    path = chaos.random.choice(chaos.some())
    if path != "top":
        hosts = chaos.random.randrange(1, 2 * chaos.plan.hosts)
        chaos.do(f"bottom {path} {chaos.random.choice(('fails', 'answers', f'answers hosts={hosts}'))}")


def _word(chaos: _Chaos) -> None:
    """A person's word, through the top or through the parent."""
    links = _links(chaos)
    if not links:
        return
    path = chaos.random.choice(links)
    verb = chaos.random.choice(("disable", "enable", "maintenance", "ban", "unban", "rescan"))
    until = " until=600" if verb == "maintenance" else ""
    asked = chaos.random.choice(("top", path.rpartition("/")[0]))
    chaos.say(f"{verb} {path}{until} at={asked}")


def _backup(chaos: _Chaos) -> None:
    """A copy of one zone's disk, for a later restore."""
    path = chaos.random.choice(chaos.some())
    if chaos.world.sites[path].started:
        chaos.do(f"backup {path} as {path.replace('/', '.')}")


def _restore(chaos: _Chaos) -> None:
    names = sorted(chaos.stage.backups)
    if names:
        name = chaos.random.choice(names)
        chaos.do(f"restore {name.replace('.', '/')} from {name}")


def _rotate(chaos: _Chaos) -> None:
    chaos.say(f"rotate {chaos.random.choice(chaos.some())}")


_FAULTS: dict[str, tuple[Callable[[_Chaos], None], int]] = {
    "cut": (_on_link("cut"), 8),
    "silence": (_on_link("silence"), 5),
    "heal": (_on_link("heal"), 12),
    "reset": (_on_link("reset"), 6),
    "below": (_below, 4),
    "delay": (_delay, 3),
    "crash": (_crash, 6),
    "doom": (_doom, 6),
    "start": (_start, 14),
    "reboot": (_reboot, 3),
    "clock": (_clock, 3),
    "disk": (_disk, 4),
    "bottom": (_bottom, 5),
    "word": (_word, 6),
    "backup": (_backup, 3),
    "restore": (_restore, 1),
    "rotate": (_rotate, 1),
}
