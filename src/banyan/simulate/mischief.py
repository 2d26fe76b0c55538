"""Frames changed on the way: what a broken or lying peer could send on a session that was properly opened.

Each kind makes a Tamper (faults.py) for one link. Those that change words decode and encode with the
link's own codec; so what they send is well formed and must be refused for what it says.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import msgspec

from banyan.core.digest import counter
from banyan.core.lineage import Delta, Row
from banyan.core.messages import Hello, Message, Report
from banyan.link import codec
from banyan.simulate.faults import Tamper
from banyan.simulate.ids import stream
from banyan.simulate.script import ScriptError, Step
from banyan.simulate.site import Site
from banyan.simulate.world import World

M = TypeVar("M", bound=Message)
Maker = Callable[[World, Site, Step], Tamper]


def _every(step: Step) -> int:
    return int(step.setting("every") or "1")


def _duplicate(world: World, site: Site, step: Step) -> Tamper:
    """Every Nth frame comes twice."""
    seen = [0]
    every = _every(step)

    def tamper(frame: bytes) -> Sequence[bytes]:
        seen[0] += 1
        return (frame, frame) if seen[0] % every == 0 else (frame,)

    return tamper


def _reorder(world: World, site: Site, step: Step) -> Tamper:
    """Every Nth frame waits until after the one that follows it."""
    seen = [0]
    held: list[bytes] = []
    every = _every(step)

    def tamper(frame: bytes) -> Sequence[bytes]:
        if held:
            return (frame, held.pop())
        seen[0] += 1
        if seen[0] % every == 0:
            held.append(frame)
            return ()
        return (frame,)

    return tamper


def _replay(world: World, site: Site, step: Step) -> Tamper:
    """Every Nth frame is followed by one of an earlier time, perhaps of an earlier session."""
    heard: list[bytes] = []
    chance = stream(world.seed, f"replay {site.path}")
    every = _every(step)

    def tamper(frame: bytes) -> Sequence[bytes]:
        heard.append(frame)
        if len(heard) > 1000:
            del heard[:500]
        return (frame, chance.choice(heard)) if len(heard) % every == 0 else (frame,)

    return tamper


def _lose(world: World, site: Site, step: Step) -> Tamper:
    """Every Nth frame is swallowed."""
    seen = [0]
    every = _every(step)

    def tamper(frame: bytes) -> Sequence[bytes]:
        seen[0] += 1
        return () if seen[0] % every == 0 else (frame,)

    return tamper


def _garbage(world: World, site: Site, step: Step) -> Tamper:
    """Before every Nth frame comes one of bytes that mean nothing: TLS lets through what its own end wrote."""
    seen = [0]
    chance = stream(world.seed, f"garbage {site.path}")
    every = _every(step)

    def tamper(frame: bytes) -> Sequence[bytes]:
        seen[0] += 1
        return (chance.randbytes(chance.randrange(1, 4096)), frame) if seen[0] % every == 0 else (frame,)

    return tamper


def _oversize(world: World, site: Site, step: Step) -> Tamper:
    """Every Nth frame is followed by one of a megabyte."""
    seen = [0]
    every = _every(step)

    def tamper(frame: bytes) -> Sequence[bytes]:
        seen[0] += 1
        return (frame, b"\x91" + bytes(1 << 20)) if seen[0] % every == 0 else (frame,)

    return tamper


def _words(kind: type[M], change: Callable[[M], M]) -> Tamper:
    """Changes every message of that kind in a frame; a frame with anything that cannot be read passes as it is."""

    def tamper(frame: bytes) -> Sequence[bytes]:
        try:
            messages = codec.decode(frame, codec.SESSION).messages
        except Exception:  # noqa: BLE001 - a foreign frame is none of our business
            return (frame,)
        if not any(isinstance(message, kind) for message in messages):
            return (frame,)
        changed = [change(message) if isinstance(message, kind) else message for message in messages]
        return (codec.join([codec.encode(message) for message in changed]),)

    return tamper


def _reports(change: Callable[[Report], Report]) -> Tamper:
    return _words(Report, change)


def _oversell(world: World, site: Site, step: Step) -> Tamper:
    """Its digests claim `factor` times the hosts and resources."""
    factor = int(step.setting("factor") or "1000")

    def change(report: Report) -> Report:
        if report.digest is None:
            return report
        counters = {
            key: value * factor if (c := counter(key)) is not None and c.kind in ("h", "hu", "r") else value
            for key, value in report.digest.counters.items()
        }
        return msgspec.structs.replace(report, digest=msgspec.structs.replace(report.digest, counters=counters))

    return _reports(change)


def _negative(world: World, site: Site, step: Step) -> Tamper:
    """Its digests claim less than nothing."""

    def change(report: Report) -> Report:
        if report.digest is None:
            return report
        counters = {key: -value for key, value in report.digest.counters.items()}
        return msgspec.structs.replace(report, digest=msgspec.structs.replace(report.digest, counters=counters))

    return _reports(change)


def _foreign(world: World, site: Site, step: Step) -> Tamper:
    """It reports the lineage overheard on the link of the zone at `of`, as if that were its own."""
    victim = world.sites.get(step.setting("of") or "")
    if victim is None:
        raise ScriptError(step.where, "`tamper PATH foreign of=PATH` needs the zone whose lineage is taken")
    overheard: dict[int, Row] = {}

    def listen(report: Report) -> Report:
        if report.lineage is not None:
            overheard.update((row.code, row) for row in report.lineage.rows)
        return report

    victim.uplink.upward = _reports(listen)
    victim.uplink.break_wires("connection reset by peer")

    def change(report: Report) -> Report:
        if report.lineage is None or not overheard:
            return report
        rows = (*report.lineage.rows, *overheard.values())
        return msgspec.structs.replace(report, lineage=_with_rows(report.lineage, rows))

    return _reports(change)


def _forge(world: World, site: Site, step: Step) -> Tamper:
    """It reports the zones below it under another name, with a signature that does not fit."""

    def change(report: Report) -> Report:
        if report.lineage is None:
            return report
        rows = tuple(
            msgspec.structs.replace(row, entry=row.entry[:-1] + bytes([row.entry[-1] ^ 1])) if row.entry else row
            for row in report.lineage.rows
        )
        return msgspec.structs.replace(report, lineage=_with_rows(report.lineage, rows))

    return _reports(change)


def _boast(world: World, site: Site, step: Step) -> Tamper:
    """Its hellos claim an epoch that is higher by `by` than the one they prove."""
    by = int(step.setting("by") or "1000")
    return _words(Hello, lambda hello: msgspec.structs.replace(hello, epoch=hello.epoch + by))


def _unproved(world: World, site: Site, step: Step) -> Tamper:
    """Its hellos prove no epoch, as those of the version before."""
    return _words(Hello, lambda hello: msgspec.structs.replace(hello, proof=None, crosses=()))


def _with_rows(delta: Delta, rows: tuple[Row, ...]) -> Delta:
    return msgspec.structs.replace(delta, rows=rows)


MISCHIEF: dict[str, Maker] = {
    "duplicate": _duplicate,
    "reorder": _reorder,
    "replay": _replay,
    "lose": _lose,
    "garbage": _garbage,
    "oversize": _oversize,
    "oversell": _oversell,
    "negative": _negative,
    "foreign": _foreign,
    "forge": _forge,
    "boast": _boast,
    "unproved": _unproved,
}
