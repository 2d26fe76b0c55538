"""Which drivers there are, and how a rack's settings become one.

A driver is a `Registration` that some distribution names in the entry-point group `banyan.drivers`;
the built-in ones are found in the same way. A kind's module is imported when that kind is first
asked for, so that a broken or slow stranger never keeps the others from working. This module must never
know a driver by name. The duties of a driver: docs/contracts/driver.md and `drivers.contract`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Generic, Protocol, TypeVar

import msgspec

from banyan.core.deed import Operation
from banyan.core.errors import BadInput, Broken
from banyan.core.ids import RackCode, code_text
from banyan.core.ports import Clock, Driver, Ids, RackSpec
from banyan.core.share import OFFER_ALL, Share

GROUP = "banyan.drivers"

# What a stranger's module may raise while it is imported; the rest is not an error of that module.
_LOADING = (
    ImportError,
    AttributeError,
    NameError,
    SyntaxError,
    TypeError,
    ValueError,
    LookupError,
    OSError,
    RuntimeError,
)

# Bounds what a settings file can make a driver ask of a bottom.
MAX_REQUESTS_PER_SECOND = 10_000.0


@dataclass(frozen=True, slots=True)
class DriverContext:
    """What a driver is given beside its own options. `rack` is the rack's name, for texts.

    `code` is 0 until the rack has one. A driver waits and reads time only through `clock`, draws chance
    only from `ids`, marks what it yields by `share`, and asks its bottom at most `requests_per_second`.
    `folder`, if there is one, is where it may keep files of its own for this rack; it makes it when it needs it.
    """

    rack: str
    clock: Clock
    ids: Ids
    code: RackCode = RackCode(0)
    share: Share = OFFER_ALL
    requests_per_second: float = 10.0
    folder: Path | None = None


Options = TypeVar("Options", bound=msgspec.Struct)


@dataclass(frozen=True, slots=True)
class Registration(Generic[Options]):
    """One kind of driver. `options` is a frozen Struct with `forbid_unknown_fields=True`.

    Its `__post_init__` raises ValueError for values that are wrong together; the text is shown to the
    person who wrote the settings. `make` opens nothing: the first call to the driver does. `operations`: the most that
    its racks can be asked to do to guests; `without`: of each of the others, why not, and which decision says so.
    """

    kind: str
    summary: str
    options: type[Options]
    make: Callable[[Options, DriverContext], Driver]
    operations: frozenset[Operation] = frozenset()
    without: Mapping[Operation, str] = field(default_factory=dict)

    def option_names(self) -> tuple[str, ...]:
        return tuple(field.encode_name for field in msgspec.structs.fields(self.options))

    def open(self, options: Mapping[str, object], context: DriverContext) -> Driver:
        """The driver for these settings. Raises BadInput("bad-driver-option") naming rack, option and remedy."""
        names = self.option_names()
        for given in options:
            if given not in names:
                raise BadInput(
                    "bad-driver-option",
                    f"rack {context.rack!r}: driver {self.kind} has no option {given!r}"
                    f"{_close(given, names)}; it has {', '.join(names) or 'none'}",
                )
        try:
            # Not strict: options from flags come as text, and "100" is then as good as 100.
            checked = msgspec.convert(dict(options), self.options, strict=False)
        except msgspec.ValidationError as error:
            raise BadInput(
                "bad-driver-option", f"rack {context.rack!r}: driver {self.kind}: {_explain(error)}"
            ) from error
        return self.make(checked, context)


class Kind(Protocol):
    """A Registration whatever its options type."""

    @property
    def kind(self) -> str: ...

    @property
    def summary(self) -> str: ...

    @property
    def operations(self) -> frozenset[Operation]: ...

    @property
    def without(self) -> Mapping[Operation, str]: ...

    def option_names(self) -> tuple[str, ...]: ...

    def open(self, options: Mapping[str, object], context: DriverContext) -> Driver: ...


class Registry:
    """The kinds that are installed. `Registry.installed()` in production; a list of kinds in tests."""

    def __init__(self, kinds: Iterable[Kind] = (), found: Iterable[EntryPoint] = ()) -> None:
        self._kinds = {kind.kind: kind for kind in kinds}
        self._found: dict[str, list[EntryPoint]] = {}
        for entry in found:
            self._found.setdefault(entry.name, []).append(entry)

    @classmethod
    def installed(cls) -> Registry:
        return cls(found=entry_points(group=GROUP))

    def kinds(self) -> Sequence[str]:
        return sorted({*self._kinds, *self._found})

    def get(self, kind: str) -> Kind:
        """The registration of `kind`, imported now if it was not yet.

        Raises BadInput("no-driver") with near names, BadInput("driver-twice") if two
        distributions claim the kind, Broken("driver-broken") if its module cannot be loaded.
        """
        if kind not in self._kinds:
            self._kinds[kind] = self._load(kind)
        return self._kinds[kind]

    def _load(self, kind: str) -> Kind:
        claims = self._found.get(kind, [])
        if not claims:
            known = self.kinds()
            raise BadInput(
                "no-driver",
                f"there is no driver {kind!r}{_close(kind, known)}; installed are {', '.join(known) or 'none'}",
            )
        if len(claims) > 1:
            raise BadInput(
                "driver-twice",
                f"driver {kind!r} comes from {' and '.join(sorted(map(_source, claims)))}; uninstall all but one",
            )
        try:
            loaded: object = claims[0].load()
        except _LOADING as error:
            raise Broken(
                "driver-broken",
                f"driver {kind!r} of {_source(claims[0])} cannot be loaded: {error}",
                detail=repr(error),
            ) from error
        if not isinstance(loaded, Registration) or loaded.kind != kind:
            raise Broken(
                "driver-broken",
                f"driver {kind!r} of {_source(claims[0])} must name a Registration of that kind, "
                f"got {type(loaded).__name__}",
            )
        return loaded


class Drivers:
    """Makes drivers for a zone: `core.ports.DriverHost`. Each rack has a folder of its own in `folder`, if given."""

    def __init__(self, registry: Registry, clock: Clock, ids: Ids, folder: Path | None = None) -> None:
        self._registry = registry
        self._clock = clock
        self._ids = ids
        self._folder = folder

    def kinds(self) -> Sequence[str]:
        return self._registry.kinds()

    def make(self, spec: RackSpec) -> Driver:
        """Raises BadInput for an unknown kind, option or value; Broken for a driver that cannot be loaded."""
        if not 0 < spec.requests_per_second <= MAX_REQUESTS_PER_SECOND:
            raise BadInput(
                "bad-driver-option",
                f"rack {spec.name!r}: requests_per_second is above 0 and at most {MAX_REQUESTS_PER_SECOND:g}, "
                f"got {spec.requests_per_second:g}",
            )
        folder = self._folder / code_text(spec.code) if self._folder is not None and spec.code else None
        context = DriverContext(
            spec.name, self._clock, self._ids, spec.code, spec.share, spec.requests_per_second, folder
        )
        return self._registry.get(spec.driver).open(spec.options, context)


def _close(given: str, known: Sequence[str]) -> str:
    near = get_close_matches(given, known, n=3, cutoff=0.6)
    return f" (did you mean {' or '.join(near)}?)" if near else ""


def _explain(error: msgspec.ValidationError) -> str:
    """msgspec's text with its place first: "option `hosts`: expected `int`, got `str`"."""
    text, at, place = str(error).partition(" - at `$")
    path = place.rstrip("`").lstrip(".")
    return f"option {path}: {text[:1].lower()}{text[1:]}" if at and path else text


def _source(entry: EntryPoint) -> str:
    return f"{entry.dist.name} {entry.dist.version}" if entry.dist else entry.value
