"""The verbs of plays: what each line does to a world. docs/contracts/scenarios.md is the prose of `VERBS`.

A verb is a function of the stage and its step; what it returns is the step's output. It speaks to zones as
people do, through their surface, and to machines, links and disks as fate does, through the world.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import msgspec

from banyan.core.errors import BanyanError
from banyan.simulate import expect
from banyan.simulate.faults import Doom, Instant, Path
from banyan.simulate.invariants import Invariants
from banyan.simulate.mischief import MISCHIEF
from banyan.simulate.script import ScriptError, Setting, Step, clock_text, duration
from banyan.simulate.site import Site
from banyan.simulate.world import World
from banyan.store.inline import Image
from banyan.zone.views import CodeCreated, ZoneView

Output = tuple[str, ...] | None
Verb = Callable[["Stage", Step], Output]


# How often `within` and `during` look, at most; and virtual seconds that a quiet world takes to settle.
LOOKS = 120
SETTLES = 60.0


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


# --- making a tree ------------------------------------------------------------------------------


@verb("tree AxBxN", "a top with A zones, each with B zones, each with N hosts; all joined and ready")
def _tree(stage: Stage, step: Step) -> Output:
    shape = step.word(0, "a shape such as 3x4x50")
    try:
        counts = [int(part) for part in shape.split("x")]
    except ValueError:
        raise ScriptError(step.where, f"a tree is written 3x4x50, got {shape!r}") from None
    level = ["top"]
    _begin(_add(stage, "top", step, counts[0] if len(counts) == 1 else 0))
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
    _begin(_add(stage, step.word(0, "a path"), step, _number(step, "hosts")))
    return None


@verb("machine PATH [hosts=N] [clock=OFFSET] [rate=R]", "as `zone`, but nothing is started yet")
def _machine(stage: Stage, step: Step) -> Output:
    _add(stage, step.word(0, "a path"), step, _number(step, "hosts"))
    return None


@verb("chain PATH", "the zones on the way to PATH, which itself is not made: joined, ready, without hosts")
def _chain(stage: Stage, step: Step) -> Output:
    names = step.word(0, "a path").split("/")
    for end in range(1, len(names) + 1):
        path = "/".join(names[:end])
        if path in stage.world.sites:
            continue
        if end == 1:
            _begin(stage.world.add(path))
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
    stage.codes[_kept_as(step, 1, "as")] = created
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
        _join(stage, path, _number(step, "hosts"), step, step.setting("code"))
    for path in step.words:
        stage.world.sites[path].wait()
    return None


# --- fate ---------------------------------------------------------------------------------------


@verb("advance D", "virtual time passes")
def _advance(stage: Stage, step: Step) -> Output:
    stage.world.advance(duration(step.word(0, "a duration"), step.where))
    return None


@verb("cut PATH…", "the links of these zones to their parents break (`cut PATH below`: all links of its children)")
def _cut(stage: Stage, step: Step) -> Output:
    for site in _links(stage, step):
        site.uplink.set(Path.CUT)
    return None


@verb("silence PATH…", "these links hold every frame and tell nobody: half-open")
def _silence(stage: Stage, step: Step) -> Output:
    for site in _links(stage, step):
        site.uplink.set(Path.SILENT)
    return None


@verb("heal PATH…", "these links are whole again; what was held arrives late (`heal all`)")
def _heal(stage: Stage, step: Step) -> Output:
    for site in _links(stage, step):
        site.uplink.set(Path.OPEN)
        site.uplink.delay = (0.0, 0.0)
        site.uplink.upward = site.uplink.downward = None
    return None


@verb("reset PATH…", "the wires of these links break once; they may dial again at once")
def _reset(stage: Stage, step: Step) -> Output:
    for site in _links(stage, step):
        site.uplink.break_wires("connection reset by peer")
    return None


@verb("delay PATH LOW..HIGH", "each frame takes that long, one way")
def _delay(stage: Stage, step: Step) -> Output:
    low, _, high = step.word(1, "a span such as 200ms..2s").partition("..")
    first = duration(low, step.where)
    stage.site(step).uplink.delay = (first, duration(high, step.where) if high else first)
    return None


@verb("tamper PATH KIND [up|down] [every=N]", "frames are changed on the way: see mischief.py for the kinds")
def _tamper(stage: Stage, step: Step) -> Output:
    site = stage.site(step)
    kind = step.word(1, f"a kind of mischief: {', '.join(sorted(MISCHIEF))}")
    if kind not in MISCHIEF:
        raise ScriptError(step.where, f"no mischief {kind!r}; there are {', '.join(sorted(MISCHIEF))}")
    tamper = MISCHIEF[kind](stage.world, site, step)
    for above in stage.world.sites.values():
        # Whoever counts what this link carries may be told anything now.
        above.deceived = above.deceived or site.path.startswith(above.path + "/")
    if "down" in step.words[2:]:
        site.uplink.downward = tamper
    else:
        site.uplink.upward = tamper
    return None


@verb("crash PATH [before|after UNIT [NTH]]", "kill -9, now or at the commit of a named unit of work")
def _crash(stage: Stage, step: Step) -> Output:
    site = stage.site(step)
    if len(step.words) == 1:
        site.crash("killed")
        return None
    instant = Instant(step.word(1, "before or after"))
    nth = int(step.words[3]) if len(step.words) > 3 else 1
    site.disk.doom = Doom(instant, step.word(2, "the name of a unit"), nth)
    return None


@verb("stop PATH…", "the process ends as on SIGTERM")
def _stop(stage: Stage, step: Step) -> Output:
    for index in range(len(step.words)):
        stage.site(step, index).stop()
    return None


@verb("start PATH… [code=NAME]", "the process starts again on what its disk holds, with a join code if one is named")
def _start(stage: Stage, step: Step) -> Output:
    code = step.setting("code")
    for index in range(len(step.words)):
        _begin(stage.site(step, index), stage.codes[code].code if code else None)
    return None


@verb("wipe PATH", "its disk is empty again: a reinstalled machine")
def _wipe(stage: Stage, step: Step) -> Output:
    stage.site(step).wipe()
    return None


@verb("unplug PATH", "the machine loses its power: no wire is closed, nobody is told (`reboot` brings it back)")
def _unplug(stage: Stage, step: Step) -> Output:
    stage.site(step).crash("unplugged", power=True)
    return None


@verb("restart PATH…", "killed if it runs, and started again")
def _restart(stage: Stage, step: Step) -> Output:
    for index in range(len(step.words)):
        site = stage.site(step, index)
        if site.running:
            site.crash("killed")
        _begin(site)
    return None


@verb("reboot PATH", "the machine boots anew: new boot id, boot time from zero; its zone starts again")
def _reboot(stage: Stage, step: Step) -> Output:
    site = stage.site(step)
    if site.running:
        site.crash("power cut")
    site.clock.reboot()
    _begin(site)
    return None


@verb("clock PATH +D|-D|true|RATE", "the wall clock jumps, is put right, or runs at a rate such as 1.02x")
def _clock(stage: Stage, step: Step) -> Output:
    site, what = stage.site(step), step.word(1, "a jump, `true` or a rate")
    if what == "true":
        site.clock.set_offset(0.0)
    elif what.endswith("x"):
        site.clock.run_at(float(what[:-1]))
    else:
        site.clock.jump(duration(what, step.where))
    return None


@verb("disk PATH full|ok|slow=D", "the disk refuses writes, or takes its time")
def _disk(stage: Stage, step: Step) -> Output:
    site = stage.site(step)
    site.disk.full = "full" in step.words
    slow = step.setting("slow")
    site.disk.slow = duration(slow, step.where) if slow else 0.0
    return None


@verb(
    "bottom PATH fails|answers [reason=TEXT] [hosts=N]", "the rack's own control fails or answers; hosts appear or go"
)
def _bottom(stage: Stage, step: Step) -> Output:
    site = stage.site(step)
    if "fails" in step.words:
        site.bottom.failure = step.setting("reason") or "the bottom does not answer"
    if "answers" in step.words:
        site.bottom.failure = ""
    hosts = step.setting("hosts")
    if hosts is not None:
        site.bottom.hosts = int(hosts)
        site.most_hosts = max(site.most_hosts, site.bottom.hosts)
    return None


@verb("backup PATH as NAME", "a copy of its database as it is now")
def _backup(stage: Stage, step: Step) -> Output:
    stage.backups[_kept_as(step, 1, "as")] = stage.site(step).backup()
    return None


@verb("restore PATH from NAME", "killed, its disk becomes that copy, and it starts")
def _restore(stage: Stage, step: Step) -> Output:
    site = stage.site(step)
    name = _kept_as(step, 1, "from")
    if name not in stage.backups:
        raise ScriptError(step.where, f"no backup {name!r}; kept are {', '.join(stage.backups) or 'none'}")
    if site.running:
        site.crash("killed")
    site.replace_disk(stage.backups[name])
    _begin(site)
    return None


@verb("clone PATH as PATH2", "a copy of its disk on another machine, started: two processes with one identity")
def _clone(stage: Stage, step: Step) -> Output:
    site = stage.site(step)
    copy = stage.world.add(_kept_as(step, 1, "as"), like=site)
    copy.replace_disk(site.backup())
    _begin(copy)
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


@verb("release PATH", "a restored zone may decide again")
def _release(stage: Stage, step: Step) -> Output:
    stage.site(step).ask(lambda surface, caller: surface.release(caller))
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
        site = _add(stage, path, step, hosts)
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


def _links(stage: Stage, step: Step) -> list[Site]:
    if step.words[:1] == ("all",):
        return [site for site in stage.world.sites.values() if site.parent_path]
    if step.words[-1:] == ("below",):
        prefix = stage.site(step).path
        return [site for site in stage.world.sites.values() if site.parent_path == prefix]
    if not step.words:
        raise ScriptError(step.where, f"`{step.verb}` needs the path of at least one zone")
    return [stage.site(step, index) for index in range(len(step.words))]


def _kept_as(step: Step, index: int, between: str) -> str:
    if step.word(index, f"`{between} NAME`") != between:
        raise ScriptError(step.where, f"`{step.verb}` is written `{VERBS[step.verb].usage}`")
    return step.word(index + 1, "a name")


def _number(step: Step, key: str, default: int = 0) -> int:
    text = step.setting(key, str(default)) or ""
    if not text.isdecimal():
        raise ScriptError(step.where, f"{key} is a number, got {text!r}")
    return int(text)


def _begin(site: Site, join_code: str | None = None) -> None:
    site.start(join_code)
    site.wait()


def _add(stage: Stage, path: str, step: Step, hosts: int) -> Site:
    """A site with what the step gives its machine and its bottom: guests, clock, rate."""
    return stage.world.add(
        path,
        hosts=hosts,
        guests=_number(step, "guests"),
        offset=duration(step.setting("clock") or "0s", step.where),
        rate=float(step.setting("rate") or "1"),
        name=step.setting("as"),
    )
