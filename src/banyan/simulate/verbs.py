"""The verbs of plays: what each line does to a world. docs/contracts/scenarios.md is the prose of `VERBS`.

A verb is a function of the stage and its step; what it returns is the step's output. It speaks to zones as
people do, through their surface, and to machines, links and disks as fate does, through the world.
"""

from __future__ import annotations

from dataclasses import replace

import msgspec

from banyan.core.errors import BanyanError
from banyan.simulate import expect, fate
from banyan.simulate.script import ScriptError, Setting, Step, clock_text, duration
from banyan.simulate.stage import VERBS, Described, Output, Stage, add, begin, kept_as, number, run_step, verb
from banyan.zone.views import RuleView, ZoneView

__all__ = ["VERBS", "Stage", "fate", "run_step"]

# How often `within` and `during` look, at most; and virtual seconds that a quiet world takes to settle.
LOOKS = 120
SETTLES = 60.0


# --- making a tree ------------------------------------------------------------------------------


@verb("tree AxBxN", "a top with A zones, each with B zones, each with N hosts; all joined and ready")
def _tree(stage: Stage, step: Step) -> Output:
    shape = step.word(0, "a shape such as 3x4x50")
    try:
        counts = [int(part) for part in shape.split("x")]
    except ValueError:
        raise ScriptError(step.where, f"a tree is written 3x4x50, got {shape!r}") from None
    level = ["top"]
    begin(add(stage, "top", step, counts[0] if len(counts) == 1 else 0))
    for depth, count in enumerate(counts[:-1]):
        hosts = counts[-1] if depth == len(counts) - 2 else 0
        below = [f"{path}/z{n}" for path in level for n in range(1, count + 1)]
        for path in below:
            _join(stage, path, hosts, step)
        level = below
        _await_ready(stage, step, below)
    total = counts[-1] * (len(level) if len(counts) > 1 else 1)
    _within(
        stage,
        replace(step, verb="within", words=("1m", "usage", "top"), settings=(Setting("hosts.total", "=", str(total)),)),
    )
    return None


@verb("zone PATH [hosts=N] [guests=N]", "a zone on a machine of its own, started, not joined to anything")
def _zone(stage: Stage, step: Step) -> Output:
    begin(add(stage, step.word(0, "a path"), step, number(step, "hosts")))
    return None


@verb("machine PATH [hosts=N] [clock=OFFSET] [rate=R]", "as `zone`, but nothing is started yet")
def _machine(stage: Stage, step: Step) -> Output:
    add(stage, step.word(0, "a path"), step, number(step, "hosts"))
    return None


@verb("shapes PATH [shape=KEY]…", "its settings name these shapes (and no others) from its next start on")
def _shapes(stage: Stage, step: Step) -> Output:
    stage.site(step).shapes = tuple(setting.value for setting in step.settings if setting.key == "shape")
    return None


@verb("chain PATH", "the zones on the way to PATH, which itself is not made: joined, ready, without hosts")
def _chain(stage: Stage, step: Step) -> Output:
    names = step.word(0, "a path").split("/")
    for end in range(1, len(names) + 1):
        path = "/".join(names[:end])
        if path in stage.world.sites:
            continue
        if end == 1:
            begin(stage.world.add(path))
        else:
            _join(stage, path, 0, step)
            _await_ready(stage, step, [path])
    return None


@verb("code PARENT as NAME [uses=N] [expires=D] [name=PATTERN] [replace=yes] [labels=k:v]", "a join code, kept as NAME")
def _code(stage: Stage, step: Step) -> Output:
    site = stage.site(step)
    uses = step.setting("uses", "1") or "1"
    labels = dict(part.split(":", 1) for part in (step.setting("labels") or "").split(",") if part)
    created = site.ask(
        lambda surface, caller: surface.create_code(
            caller,
            name=step.setting("name") or "*",
            driver="*",
            labels=labels,
            uses=None if uses == "any" else int(uses),
            expires=duration(step.setting("expires") or "1d", step.where),
            mode=step.setting("mode") or "place",
            replace=step.setting("replace") == "yes",
        )
    )
    stage.codes[kept_as(step, 1, "as")] = created
    return None


@verb("revoke PARENT CODE", "the join code kept as CODE is revoked at its parent")
def _revoke(stage: Stage, step: Step) -> Output:
    kept = stage.codes[step.word(1, "the name of a code")]
    stage.site(step).ask(lambda surface, caller: surface.revoke_code(caller, kept.id))
    return None


@verb(
    "join PATH… [code=NAME] [hosts=N] [as=NAME]",
    "started with a join code of their parent (a fresh one if none is named)",
)
def _join_verb(stage: Stage, step: Step) -> Output:
    step.word(0, "a path")
    for path in step.words:
        _join(stage, path, number(step, "hosts"), step, step.setting("code"))
    for path in step.words:
        stage.world.sites[path].wait()
    return None


# --- what people say ----------------------------------------------------------------------------

_COMMANDS = {
    "disable": "[reason=TEXT]",
    "enable": "",
    "maintenance": "[until=SECONDS]",
    "ban": "[reason=TEXT]",
    "unban": "",
    "retire": "[reason=TEXT]",
    "rename": "name=NAME",
    "replace": "[expires=SECONDS]",
    "admit": "",
    "accept": "",
    "rescan": "",
}


def _command(stage: Stage, step: Step) -> Output:
    path = step.word(0, "the path of a zone")
    arguments = {s.key: s.value for s in step.settings if s.key != "at"}
    asked = stage.world.sites[step.setting("at") or path.split("/")[0]]
    asked.ask(lambda surface, caller: surface.command(caller, f"zone.{step.verb}", path, arguments))
    return None


for _name, _arguments in _COMMANDS.items():
    VERBS[_name] = Described(
        f"{_name} PATH {_arguments} [at=PATH]".replace("  ", " "),
        f"`banyan zone {_name}`, said at the top or at the zone named by `at`",
        _command,
    )


@verb("rotate PATH [leaked]", "the zone makes itself a new CA; the old one signs it unless it leaked")
def _rotate(stage: Stage, step: Step) -> Output:
    stage.site(step).ask(lambda surface, caller: surface.rotate_authority(caller, "leaked" in step.words))
    return None


@verb("rule PATH [verdict=V] [name=PATTERN] [driver=PATTERN] [set=k:v] [priority=N]", "a policy rule: who becomes what")
def _rule(stage: Stage, step: Step) -> Output:
    labels = dict(part.split(":", 1) for part in (step.setting("set") or "").split(",") if part)
    rule = RuleView(
        id="",
        priority=number(step, "priority", 100),
        verifier="*",
        name=step.setting("name") or "*",
        driver=step.setting("driver") or "*",
        labels={},
        verdict=step.setting("verdict") or "admit",
        set_labels=labels,
        mode="place",
        reason=step.setting("reason") or "",
    )
    stage.site(step).ask(lambda surface, caller: surface.put_rule(caller, rule))
    return None


@verb("release PATH", "a restored zone forgets, and lets in, again")
def _release(stage: Stage, step: Step) -> Output:
    stage.site(step).ask(lambda surface, caller: surface.release(caller, True))
    return None


@verb("leave PATH", "the zone leaves its parent")
def _leave(stage: Stage, step: Step) -> Output:
    stage.site(step).ask(lambda surface, caller: surface.leave(caller, True))
    return None


@verb("repeat N VERB… [every=D]", "the verb N times, with time passing after each")
def _repeat(stage: Stage, step: Step) -> Output:
    inner = step.rest().rest()
    every = duration(step.setting("every") or "1s", step.where)
    inner = replace(inner, settings=tuple(s for s in inner.settings if s.key != "every"))
    for _ in range(int(step.words[0])):
        run_step(stage, inner)
        stage.world.advance(every)
    return None


@verb("fails CODE VERB…", "the verb must be refused with that error code")
def _fails(stage: Stage, step: Step) -> Output:
    inner = step.rest().rest()
    try:
        run_step(stage, inner)
    except BanyanError as error:
        if error.code != step.words[0]:
            raise ScriptError(
                step.where, f"`{inner.verb}` was to fail as {step.words[0]}, failed as {error.code}: {error.text}"
            ) from error
        return None
    raise ScriptError(step.where, f"`{inner.verb}` was to fail as {step.words[0]}, but went well")


# --- what must be seen --------------------------------------------------------------------------


@verb("expect WHAT…", "must hold now: see the table of expectations")
def _expect(stage: Stage, step: Step) -> Output:
    problem = expect.look(stage.world, step.rest(), stage.marks)
    if problem:
        raise ScriptError(step.where, problem)
    return None


@verb("within D WHAT…", "must hold at some instant within D; time passes until it does")
def _within(stage: Stage, step: Step) -> Output:
    limit = duration(step.word(0, "a duration"), step.where)
    wanted = step.rest().rest()
    end = stage.world.loop.time() + limit
    while (problem := expect.look(stage.world, wanted, stage.marks)) and stage.world.loop.time() < end:
        stage.world.advance(min(max(0.5, limit / LOOKS), end - stage.world.loop.time()))
    if problem:
        raise ScriptError(step.where, f"not within {step.words[0]}: {problem}")
    return None


@verb("during D WHAT…", "must hold at every instant of D that is looked at")
def _during(stage: Stage, step: Step) -> Output:
    limit = duration(step.word(0, "a duration"), step.where)
    wanted = step.rest().rest()
    end = stage.world.loop.time() + limit
    while True:
        problem = expect.look(stage.world, wanted, stage.marks)
        if problem:
            raise ScriptError(step.where, f"at {clock_text(stage.world.loop.time())}: {problem}")
        if stage.world.loop.time() >= end:
            return None
        stage.world.advance(min(max(0.5, limit / LOOKS), end - stage.world.loop.time()))


@verb("count", "traffic of links is counted from here")
def _count(stage: Stage, step: Step) -> Output:
    stage.marks = {path: expect.Traffic.of(site.uplink) for path, site in stage.world.sites.items()}
    return None


@verb("settled", "every invariant of a quiet world holds, now or within a minute")
def _settled(stage: Stage, step: Step) -> Output:
    end = stage.world.loop.time() + SETTLES * stage.world.pace
    while (broken := stage.invariants.broken(settled=True)) and stage.world.loop.time() < end:
        stage.world.advance(1.0)
    if broken:
        raise ScriptError(step.where, "; ".join(broken))
    return None


@verb("trace [KIND…]", "prints what happened since the last trace (only kinds that begin so)")
def _trace(stage: Stage, step: Step) -> Output:
    fresh = stage.world.trace.since_shown()
    return tuple(
        str(h) for h in fresh if h.where != "world" and (not step.words or h.what.startswith(tuple(step.words)))
    )


@verb("zones PATH", "prints the zones below, as the zone at PATH sees them")
def _zones(stage: Stage, step: Step) -> Output:
    page = stage.site(step).ask(lambda surface, caller: surface.zones(caller, "", {}, "path", "", 1000))
    rows = [msgspec.json.decode(item, type=ZoneView) for item in page.items]
    return tuple(
        f"{row.path} {row.state} {row.health} {row.admin}{f' ({row.reason})' if row.reason else ''}" for row in rows
    )


# --- shared -------------------------------------------------------------------------------------


def _join(stage: Stage, path: str, hosts: int, step: Step, code: str | None = None) -> None:
    parent_path, _, name = path.rpartition("/")
    site = stage.world.sites.get(path)
    if code is None:
        parent = stage.world.sites.get(parent_path)
        if parent is None:
            raise ScriptError(step.where, f"{path} joins {parent_path!r}, which was not made; make it first")
        text = parent.ask(
            lambda surface, caller: surface.create_code(
                caller, name=name, driver="*", labels={}, uses=1, expires=86_400.0, mode="place", replace=False
            )
        ).code
    elif code in stage.codes:
        text = stage.codes[code].code
    else:
        text = code
    if site is None:
        site = add(stage, path, step, hosts)
    site.start(join_code=text)


def _await_ready(stage: Stage, step: Step, paths: list[str]) -> None:
    top = paths[0].split("/")[0]
    for path in paths:
        wanted = replace(step, verb="zone", words=(path,), settings=())
        end = stage.world.loop.time() + 600.0
        while True:
            found = expect.found(stage.world, wanted, stage.marks)
            if found.get("state") == "ready" and found.get("health") == "alive":
                break
            if stage.world.loop.time() >= end:
                raise ScriptError(step.where, f"{path} was not ready at {top} within 600 s: {found}")
            stage.world.advance(1.0)
