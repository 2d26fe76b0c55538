"""The stage of a play: its world, what it has put aside, and the register of verbs. The verbs: verbs.py, fate.py."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from banyan.simulate import expect
from banyan.simulate.invariants import Invariants
from banyan.simulate.script import ScriptError, Step, duration
from banyan.simulate.site import Site
from banyan.simulate.world import World
from banyan.store.inline import Image
from banyan.zone.views import CodeCreated

Output = tuple[str, ...] | None
Verb = Callable[["Stage", Step], Output]


@dataclass(slots=True)
class Stage:
    """A world and what the play has put aside: join codes, backups, and where counting of links began."""

    world: World
    invariants: Invariants
    codes: dict[str, CodeCreated] = field(default_factory=dict)
    backups: dict[str, Image] = field(default_factory=dict)
    marks: dict[str, expect.Traffic] = field(default_factory=dict)

    def site(self, step: Step, index: int = 0) -> Site:
        path = step.word(index, "the path of a zone")
        site = self.world.sites.get(path)
        if site is None:
            raise ScriptError(
                step.where, f"no zone {path!r} was made in this play; made are {', '.join(self.world.sites)}"
            )
        return site


@dataclass(frozen=True, slots=True)
class Described:
    """A verb with the line that documents it."""

    usage: str
    meaning: str
    run: Verb


VERBS: dict[str, Described] = {}


def verb(usage: str, meaning: str) -> Callable[[Verb], Verb]:
    def register(run: Verb) -> Verb:
        VERBS[usage.split(maxsplit=1)[0]] = Described(usage, meaning, run)
        return run

    return register


def run_step(stage: Stage, step: Step) -> Output:
    """Performs one step. Raises ScriptError, or BanyanError when a zone refused what it asks."""
    described = VERBS.get(step.verb)
    if described is None:
        raise ScriptError(step.where, f"there is no verb `{step.verb}`; there are {', '.join(sorted(VERBS))}")
    stage.world.trace.note("world", step.verb, " ".join(map(str, (*step.words, *step.settings))))
    return described.run(stage, step)


# --- what several verbs need ---------------------------------------------------------------------


def links(stage: Stage, step: Step) -> list[Site]:
    if step.words[:1] == ("all",):
        return [site for site in stage.world.sites.values() if site.parent_path]
    if step.words[-1:] == ("below",):
        prefix = stage.site(step).path
        return [site for site in stage.world.sites.values() if site.parent_path == prefix]
    if not step.words:
        raise ScriptError(step.where, f"`{step.verb}` needs the path of at least one zone")
    return [stage.site(step, index) for index in range(len(step.words))]


def kept_as(step: Step, index: int, between: str) -> str:
    if step.word(index, f"`{between} NAME`") != between:
        raise ScriptError(step.where, f"`{step.verb}` is written `{VERBS[step.verb].usage}`")
    return step.word(index + 1, "a name")


def number(step: Step, key: str, default: int = 0) -> int:
    text = step.setting(key, str(default)) or ""
    if not text.isdecimal():
        raise ScriptError(step.where, f"{key} is a number, got {text!r}")
    return int(text)


def begin(site: Site, join_code: str | None = None) -> None:
    site.start(join_code)
    site.wait()


def add(stage: Stage, path: str, step: Step, hosts: int) -> Site:
    """A site with what the step gives its machine and its bottom: guests, clock, rate."""
    return stage.world.add(
        path,
        hosts=hosts,
        guests=number(step, "guests"),
        offset=duration(step.setting("clock") or "0s", step.where),
        rate=float(step.setting("rate") or "1"),
        name=step.setting("as"),
    )
