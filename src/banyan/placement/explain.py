"""Why an order went where it went, or nowhere: what each zone on its way did, in numbers and in words.

A zone that had an order leaves one *level* (core.server.Level): how many hosts or members it looked at,
why it left others out, what it chose. Levels of many zones are merged by depth into *layers*, of a
bounded size however wide the tree is; merging is commutative and associative, and loses no count.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from banyan.core.order import Ground, Policy, Reason, add_reasons
from banyan.core.server import Level
from banyan.core.time import Wall

# What is named of a level or layer; the rest is counted.
MAX_CHOSEN: Final = 20
MAX_PATHS: Final = 5
# Reasons that are kept apart: three times those that there are, for the traits and classes that they name.
MAX_REASONS: Final = 100
OTHER: Final = "other"

Chosen = tuple[str, int, str]  # host or member, guests, why

_TEXTS: Mapping[str, str] = {
    Reason.UNREACHABLE: "not reachable",
    Reason.UNAVAILABLE: "unavailable by their own word",
    Reason.DISABLED: "disabled",
    Reason.MAINTENANCE: "in maintenance",
    Reason.NOT_READY: "not ready yet",
    Reason.QUARANTINED: "in quarantine",
    Reason.READ_ONLY: "only observed",
    Reason.PATH: "not on the path asked for",
    Reason.LABEL: "without the labels asked for",
    Reason.DRIVER: "of another kind of rack",
    Reason.NOT_ASKED: "not asked",
    Reason.UNDECIDED: "without an answer",
    Reason.REFUSED: "that refused",
    Reason.NOT_OFFERED: "not offered",
    Reason.DOWN: "down",
    Reason.AGGREGATE: "in other aggregates",
    Reason.NOT_NAMED: "not among those named",
    Reason.NAMED: "excluded by name",
    Reason.CEILING: "over the ceiling of the share",
    Reason.AVAILABILITY_ZONE: "in another availability zone",
    Reason.TRAIT: "without the trait",
    Reason.FORBIDDEN_TRAIT: "with the forbidden trait",
    Reason.SMALL: "too small",
    Reason.FULL: "full",
    Reason.GROUP: "ruled out by the server group",
    Reason.TOO_FEW: "with room for some, but not for enough",
    OTHER: "for other reasons",
}
_GROUNDS: Mapping[str, str] = {
    Ground.MOST_ROOM: "most room",
    Ground.LEAST_ROOM: "the fullest that suffices",
    Ground.WITH_GROUP: "with its server group",
    Ground.AWAY_FROM_GROUP: "away from its server group",
    Ground.NAMED: "named by a hint",
    Policy.SPREAD: "by chance, in proportion to its room",
    Policy.PACK: "the smallest that suffices",
}


def reason_text(reason: str) -> str:
    """A reason as it reads after a number: "without the trait CUSTOM_GPU". One of a newer version stays as it is."""
    word, _, name = reason.partition(":")
    text = _TEXTS.get(word)
    if text is None:
        return reason
    if not name:
        return text
    return f"{text} ({name})" if word in (Reason.SMALL, Reason.FULL) else f"{text} {name}"


def counts_text(counts: Mapping[str, int], most: int = 6) -> str:
    """ "312 without the trait X, 88 too small (vcpu)": the most frequent first, the rest counted."""
    ordered = list(add_reasons(counts, {}).items())
    parts = [f"{count:,} {reason_text(reason)}" for reason, count in ordered[:most]]
    if rest := sum(count for _, count in ordered[most:]):
        parts.append(f"{rest:,} {_TEXTS[OTHER]}")
    return ", ".join(parts)


def few(counts: Mapping[str, int]) -> dict[str, int]:
    """The same counts under at most MAX_REASONS reasons: the rarest add up under `other`."""
    ordered = add_reasons(counts, {})
    if len(ordered) <= MAX_REASONS:
        return ordered
    names = [reason for reason in ordered if reason != OTHER]
    rest = sum(ordered[reason] for reason in names[MAX_REASONS - 1 :]) + ordered.get(OTHER, 0)
    return add_reasons({reason: ordered[reason] for reason in names[: MAX_REASONS - 1]}, {OTHER: rest})


def level(
    path: str,
    at: Wall,
    order: str,
    request: str,
    looked: int,
    left_out: Mapping[str, int],
    chosen: Sequence[Chosen],
    of: str = "hosts",
) -> Level:
    """What one zone did with an order. `of`: what it looked at; of what was chosen the first MAX_CHOSEN are kept."""
    shown = _first(chosen)
    text = f"{looked:,} {of} looked at"
    if left_out:
        text += f"; left out: {counts_text(left_out)}"
    names = ", ".join(f"{count} on {name} ({_GROUNDS.get(why, why)})" for name, count, why in shown[:MAX_PATHS])
    if more := len(chosen) - min(len(chosen), MAX_PATHS):
        names += f", and {more:,} more"
    return Level(path, at, order, request, looked, few(left_out), shown, f"{text}; chosen: {names or 'none'}")


@dataclass(frozen=True, slots=True)
class Layer:
    """All zones at one depth that had a part of an order.

    `paths`: some of them by name, of `zones`. `chosen`: those with most guests, of `places` hosts or members.
    """

    depth: int
    zones: int = 0
    paths: tuple[str, ...] = ()
    looked: int = 0
    left_out: Mapping[str, int] = field(default_factory=dict)
    chosen: tuple[Chosen, ...] = ()
    places: int = 0
    guests: int = 0

    def __add__(self, other: Layer) -> Layer:
        """Of the same depth, and of other zones: a zone is added once."""
        if self.depth != other.depth:
            raise ValueError(f"layers of depth {self.depth} and {other.depth} are not added up")
        return Layer(
            self.depth,
            self.zones + other.zones,
            tuple(sorted({*self.paths, *other.paths})[:MAX_PATHS]),
            self.looked + other.looked,
            add_reasons(self.left_out, other.left_out),
            _first([*self.chosen, *other.chosen]),
            self.places + other.places,
            self.guests + other.guests,
        )


def layer(one: Level) -> Layer:
    """The layer of one zone alone. Hosts and members are named by their whole path."""
    guests = sum(count for _, count, _ in one.chosen)
    chosen = _first([(f"{one.path}/{name}".strip("/"), count, why) for name, count, why in one.chosen])
    depth = one.path.count("/") if one.path else 0
    return Layer(depth, 1, (one.path,), one.looked, few(one.left_out), chosen, len(one.chosen), guests)


def layers(levels: Iterable[Level]) -> tuple[Layer, ...]:
    """The levels of an order, merged by depth, the topmost first."""
    found: dict[int, Layer] = {}
    for one in levels:
        new = layer(one)
        known = found.get(new.depth)
        found[new.depth] = new if known is None else known + new
    return tuple(replace(found[depth], left_out=few(found[depth].left_out)) for depth in sorted(found))


def _first(chosen: Iterable[Chosen]) -> tuple[Chosen, ...]:
    """Those with most guests, then by name."""
    return tuple(sorted(chosen, key=lambda one: (-one[1], one[0], one[2]))[:MAX_CHOSEN])
