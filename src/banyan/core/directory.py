"""Who there is in a zone's own directory, and what they may: users, groups, projects, roles and their grants.

Ids are 32 hexadecimal digits, but for the domain `default` and for what a person named. A *domain* is a project with
`is_domain`, as Keystone has it: a namespace of users, groups and projects. A *grant* gives a user or a group a role on
a project, a domain or the system. Texts are whatever people wrote, up to the length that commands allow, without NUL.
`extra` holds what a client stored beside the known fields.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from banyan.core.principal import ScopeKind
from banyan.core.secret import Secret
from banyan.core.time import Wall

DEFAULT_DOMAIN = "default"
Extra = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Project:
    """`domain` and `parent` are None of a domain. `parent` of a project at the top of its domain is the domain."""

    id: str
    name: str
    domain: str | None
    parent: str | None
    is_domain: bool = False
    enabled: bool = True
    description: str = ""
    tags: tuple[str, ...] = ()
    extra: Extra = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class User:
    """`password` is its hash, "" for none: then nobody logs in by password. `password_at`: when it was set.

    `epoch` rises when all tokens of the user end: with a new password, or when it is disabled.
    """

    id: str
    name: str
    domain: str
    enabled: bool = True
    password: str = field(default="", repr=False)
    password_at: Wall | None = None
    epoch: int = 1
    default_project: str | None = None
    description: str = ""
    extra: Extra = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Group:
    id: str
    name: str
    domain: str
    description: str = ""
    extra: Extra = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Role:
    """A role that can be granted. One with a `domain` counts only by what it implies."""

    id: str
    name: str
    domain: str | None = None
    description: str = ""
    extra: Extra = field(default_factory=dict)


class ActorKind(StrEnum):
    USER = "user"
    GROUP = "group"


@dataclass(frozen=True, slots=True)
class Grant:
    """`target` is "" for the system. `inherited`: for what lies below the target, not for the target itself."""

    actor_kind: ActorKind
    actor: str
    target_kind: ScopeKind
    target: str
    role: str
    inherited: bool = False


@dataclass(frozen=True, slots=True)
class ApplicationCredential:
    """A user's own key for a program: some of its roles on one project. `owner`: the user; `secret` is a hash.

    `unrestricted`: it may make further credentials. `access_rules`: ids of the only requests that it is good for,
    none for all.
    """

    id: str
    owner: str
    project: str
    name: str
    secret: str = field(repr=False)
    roles: tuple[str, ...]
    created_at: Wall
    expires: Wall | None = None
    description: str = ""
    unrestricted: bool = False
    access_rules: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AccessRule:
    """One kind of request: a service's type, a method, a path with * and ** for segments."""

    id: str
    owner: str
    service: str
    method: str
    path: str


@dataclass(frozen=True, slots=True)
class Credential:
    """A secret that a user keeps here for another protocol. `kind` "ec2": access and secret key, as JSON in `blob`.

    `access`: the EC2 access key, "" of other kinds.
    """

    id: str
    owner: str
    project: str | None
    kind: str
    blob: Secret
    access: str = ""
    extra: Extra = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Region:
    id: str
    parent: str | None = None
    description: str = ""
    extra: Extra = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Service:
    """A service that somebody added to the catalogue; ours stand in it by themselves."""

    id: str
    type: str
    name: str = ""
    enabled: bool = True
    description: str = ""
    extra: Extra = field(default_factory=dict)


class Interface(StrEnum):
    PUBLIC = "public"
    INTERNAL = "internal"
    ADMIN = "admin"


@dataclass(frozen=True, slots=True)
class Endpoint:
    id: str
    service: str
    interface: Interface
    url: str
    region: str | None = None
    enabled: bool = True
    extra: Extra = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Revocation:
    """A token that was ended before its time, by its public id; kept until `expires`, when it had ended anyway."""

    id: str
    owner: str
    expires: Wall
