"""Verbs of fate: time, links, machines, clocks, disks, bottoms, backups. They speak to the world, never to a zone."""

from __future__ import annotations

from banyan.simulate.faults import Doom, Instant, Path
from banyan.simulate.mischief import MISCHIEF
from banyan.simulate.script import ScriptError, Step, duration
from banyan.simulate.stage import Output, Stage, begin, kept_as, links, verb


@verb("advance D", "virtual time passes")
def _advance(stage: Stage, step: Step) -> Output:
    stage.world.advance(duration(step.word(0, "a duration"), step.where))
    return None


@verb("cut PATH…", "the links of these zones to their parents break (`cut PATH below`: all links of its children)")
def _cut(stage: Stage, step: Step) -> Output:
    for site in links(stage, step):
        site.uplink.set(Path.CUT)
    return None


@verb("silence PATH…", "these links hold every frame and tell nobody: half-open")
def _silence(stage: Stage, step: Step) -> Output:
    for site in links(stage, step):
        site.uplink.set(Path.SILENT)
    return None


@verb("heal PATH…", "these links are whole again; what was held arrives late (`heal all`)")
def _heal(stage: Stage, step: Step) -> Output:
    for site in links(stage, step):
        site.uplink.set(Path.OPEN)
        site.uplink.delay = (0.0, 0.0)
        site.uplink.upward = site.uplink.downward = None
    return None


@verb("reset PATH…", "the wires of these links break once; they may dial again at once")
def _reset(stage: Stage, step: Step) -> Output:
    for site in links(stage, step):
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
        begin(stage.site(step, index), stage.codes[code].code if code else None)
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
        begin(site)
    return None


@verb("reboot PATH", "the machine boots anew: new boot id, boot time from zero; its zone starts again")
def _reboot(stage: Stage, step: Step) -> Output:
    site = stage.site(step)
    if site.running:
        site.crash("power cut")
    site.clock.reboot()
    begin(site)
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
    stage.backups[kept_as(step, 1, "as")] = stage.site(step).backup()
    return None


@verb("restore PATH from NAME", "killed, its disk becomes that copy, and it starts")
def _restore(stage: Stage, step: Step) -> Output:
    site = stage.site(step)
    name = kept_as(step, 1, "from")
    if name not in stage.backups:
        raise ScriptError(step.where, f"no backup {name!r}; kept are {', '.join(stage.backups) or 'none'}")
    if site.running:
        site.crash("killed")
    site.replace_disk(stage.backups[name])
    begin(site)
    return None


@verb("clone PATH as PATH2", "a copy of its disk on another machine, started: two processes with one identity")
def _clone(stage: Stage, step: Step) -> Output:
    site = stage.site(step)
    copy = stage.world.add(kept_as(step, 1, "as"), like=site)
    copy.replace_disk(site.backup())
    begin(copy)
    return None
