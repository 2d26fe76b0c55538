"""What plays can look at: each subject gives a flat map of what was found, which the settings are held against.

A subject reads what a person could read (views of the surface, the journal), or what a machine shows (its
process, the traffic of its link). It never changes anything.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial

import msgspec

from banyan.core.errors import BanyanError
from banyan.core.identity import Caller
from banyan.simulate.faults import Weather
from banyan.simulate.script import ScriptError, Step
from banyan.simulate.site import Site
from banyan.simulate.world import World
from banyan.zone.surface import Surface
from banyan.zone.views import JournalView, PageView

Found = dict[str, object]
Marks = Mapping[str, "Traffic"]


@dataclass(frozen=True, slots=True)
class Traffic:
    """What passed a link so far."""

    dials: int = 0
    frames: int = 0
    bytes: int = 0

    @staticmethod
    def of(weather: Weather) -> Traffic:
        return Traffic(weather.dials, weather.frames, weather.bytes)


def look(world: World, step: Step, marks: Marks) -> str:
    """ "" if every setting of the expectation holds, else what was found instead."""
    if step.verb == "no":
        wanted = step.rest()
        found = found_by(world, wanted, marks)
        if not found:
            return ""
        if wanted.settings and not all(s.holds(found.get(s.key)) for s in wanted.settings):
            return ""
        return f"expected no {' '.join((wanted.verb, *wanted.words, *map(str, wanted.settings)))}, but there is one"
    found = found_by(world, step, marks)
    if not found:
        return f"there is no {' '.join((step.verb, *step.words))}"
    wrong = [s for s in step.settings if s.key not in _SCOPE and not s.holds(found.get(s.key))]
    if not wrong:
        return ""
    unknown = [s.key for s in wrong if s.key not in found]
    hint = f"; {step.verb} shows {', '.join(found)}" if unknown else ""
    got = ", ".join(f"{s.key} is {found.get(s.key)!r}" for s in wrong)
    return f"expected {' '.join(map(str, wrong))} of {' '.join((step.verb, *step.words))}: {got}{hint}"


# Settings that say where to look rather than what to find.
_SCOPE = ("from", "shape")


def found(world: World, step: Step, marks: Marks) -> Found:
    return found_by(world, step, marks)


def found_by(world: World, step: Step, marks: Marks) -> Found:
    """The map of the step's subject; empty when there is no such thing."""
    subject = SUBJECTS.get(step.verb)
    if subject is None:
        raise ScriptError(step.where, f"nothing to look at is called `{step.verb}`; there are {', '.join(SUBJECTS)}")
    return subject(world, step, marks)


def _site(world: World, step: Step, path: str | None = None) -> Site:
    wanted = path or step.word(0, "the path of a zone")
    if wanted not in world.sites:
        raise ScriptError(step.where, f"no zone {wanted!r} was made in this play; made are {', '.join(world.sites)}")
    return world.sites[wanted]


def _zone(world: World, step: Step, marks: Marks) -> Found:
    """zone PATH [from=PATH]: as it is shown there, and `age`: how many seconds ago `as_of` is by that zone's time."""
    path = step.word(0, "the path of a zone")
    asked = _site(world, step, step.setting("from") or path.split("/")[0])
    try:
        view = asked.ask(lambda surface, caller: surface.zone(caller, path))
    except BanyanError as error:
        if error.code == "no-zone":
            return {}
        raise
    shown = flat(msgspec.to_builtins(view))
    if view.as_of is not None:
        now = asked.ask(lambda surface, caller: surface.status(caller)).time
        shown["age"] = round((_instant(now) - _instant(view.as_of)).total_seconds(), 3)
    return shown


def _instant(text: str) -> datetime:
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


def _usage(world: World, step: Step, marks: Marks) -> Found:
    path = step.word(0, "the path of a zone")
    asked = _site(world, step, step.setting("from") or path)
    view = asked.ask(lambda surface, caller: surface.usage(caller, path if step.setting("from") else ""))
    return flat(msgspec.to_builtins(view))


def _fits(world: World, step: Step, marks: Marks) -> Found:
    """fits PATH shape=KEY: how many more of it would fit, as that zone knows, and on how many hosts nobody counted."""
    key = step.setting("shape") or ""
    view = _site(world, step).ask(lambda surface, caller: surface.usage(caller, ""))
    if key not in view.fits:
        return {}
    return {"count": view.fits[key], "unknown_hosts": view.fits_unknown.get(key, 0)}


def _status(world: World, step: Step, marks: Marks) -> Found:
    view = _site(world, step).ask(lambda surface, caller: surface.status(caller))
    return flat(msgspec.to_builtins(view))


def _uplink(world: World, step: Step, marks: Marks) -> Found:
    view = _site(world, step).ask(lambda surface, caller: surface.status(caller))
    number = int(step.words[1]) if len(step.words) > 1 else 0
    return flat(msgspec.to_builtins(view.uplinks[number])) if number < len(view.uplinks) else {}


def _journal(world: World, step: Step, marks: Marks) -> Found:
    """journal PATH KIND [TARGET]: the newest such line, and `count` of them."""
    site = _site(world, step)
    filters = {"kind": step.word(1, "a kind of journal line")}
    if len(step.words) > 2:
        filters["target"] = step.words[2]
    lines: list[JournalView] = []
    marker = ""
    while True:
        page = site.ask(partial(_journal_page, filters, marker))
        lines += [msgspec.json.decode(item, type=JournalView) for item in page.items]
        if not page.marker or not page.items:
            break
        marker = page.marker
    if not lines:
        return {}
    return {"count": len(lines), **flat(msgspec.to_builtins(lines[-1]))}


def _journal_page(
    filters: Mapping[str, str], marker: str, surface: Surface, caller: Caller
) -> Coroutine[object, object, PageView]:
    return surface.page(caller, "journal", "", filters, marker, 1000)


def _process(world: World, step: Step, marks: Marks) -> Found:
    site = _site(world, step)
    return {"state": site.state, "error": site.ended_by, "starts": site.starts}


def _link(world: World, step: Step, marks: Marks) -> Found:
    """link PATH: what passed since `count`, or since the beginning. `links PATH`: of all its children."""
    site = _site(world, step)
    now, then = Traffic.of(site.uplink), marks.get(site.path, Traffic())
    return {
        "path": str(site.uplink.path),
        "dials": now.dials - then.dials,
        "frames": now.frames - then.frames,
        "bytes": now.bytes - then.bytes,
        "wires": len(site.uplink.wires),
    }


def _links(world: World, step: Step, marks: Marks) -> Found:
    total: Found = {"dials": 0, "frames": 0, "bytes": 0, "wires": 0}
    prefix = step.word(0, "the path of a zone")
    for site in world.sites.values():
        if site.parent_path == prefix:
            one = _link(world, Step(step.where, step.text, "link", (site.path,)), marks)
            for key in ("dials", "frames", "bytes", "wires"):
                total[key] = _int(total[key]) + _int(one[key])
    return total


def _disk(world: World, step: Step, marks: Marks) -> Found:
    """disk PATH: how often each named unit of work was committed in the present process and before."""
    return dict(_site(world, step).disk.seen)


SUBJECTS: dict[str, Callable[[World, Step, Marks], Found]] = {
    "zone": _zone,
    "usage": _usage,
    "fits": _fits,
    "status": _status,
    "uplink": _uplink,
    "journal": _journal,
    "process": _process,
    "link": _link,
    "links": _links,
    "disk": _disk,
}


def flat(value: object, prefix: str = "") -> Found:
    """{"hosts": {"total": 3}} as {"hosts.total": 3}; items of lists by their number."""
    if isinstance(value, Mapping):
        items = [(str(key), inner) for key, inner in value.items()]
    elif isinstance(value, list | tuple):
        items = [(str(number), inner) for number, inner in enumerate(value)]
    else:
        return {prefix: value}
    result: Found = {}
    for key, inner in items:
        result.update(flat(inner, f"{prefix}.{key}" if prefix else key))
    return result


def _int(value: object) -> int:
    assert isinstance(value, int)
    return value
