"""What a rack offers beside hosts: flavors, images, networks, and the projects that use it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from banyan.core.resources import ResourceClass, Shape, shape


@dataclass(frozen=True, slots=True)
class Flavor:
    id: str
    name: str
    needs: Mapping[ResourceClass, int]
    traits: tuple[str, ...] = ()
    public: bool = True
    offered: bool = True

    @property
    def shape(self) -> Shape:
        return shape(self.needs, self.traits)


@dataclass(frozen=True, slots=True)
class Image:
    """`size` in bytes; `checksum` as "sha512:hex" or "md5:hex", "" if the bottom names none."""

    id: str
    name: str
    status: str = "active"
    size: int = 0
    checksum: str = ""
    visibility: str = "public"


@dataclass(frozen=True, slots=True)
class Network:
    """`reach` is always `zone` for what is found in a bottom; an operator may declare `provider` later."""

    id: str
    name: str
    shared: bool = False
    external: bool = False
    project: str = ""
    subnets: tuple[str, ...] = ()
    reach: str = "zone"


@dataclass(frozen=True, slots=True)
class Project:
    """A project of the bottom. `limits` per resource class (and "guests"); -1 is unlimited, absent unknown."""

    id: str
    name: str
    domain: str = ""
    enabled: bool = True
    limits: Mapping[str, int] = field(default_factory=dict)
    offered: bool = True
