"""Who uses the cloud: a user of a zone's own directory, in one scope, with the roles that hold there.

An operator of zones is a `Caller` (core/identity.py); a user of servers, images and projects is a `Principal`. A
principal is what a token, or the local socket, was found to stand for; it is good only for what its issuer owns.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from banyan.core.identity import Caller, Role
from banyan.core.ids import ZoneCode
from banyan.core.time import Wall


class ScopeKind(StrEnum):
    """What a token is good for: nothing but asking for others, one project, one domain, or the whole cloud."""

    NONE = "none"
    PROJECT = "project"
    DOMAIN = "domain"
    SYSTEM = "system"


@dataclass(frozen=True, slots=True)
class AllowedRequest:
    """A service's type, a method, and a path below the service's: `*` and `{…}` are one segment, `**` any number."""

    service: str
    method: str
    path: str

    def fits(self, service: str, method: str, path: str) -> bool:
        # What may be read with a body may be read without.
        methods = (self.method, "HEAD") if self.method == "GET" else (self.method,)
        return service == self.service and method in methods and fits_path(self.path, path)


def fits_path(pattern: str, path: str) -> bool:
    """True if the segments of `path` fit those of `pattern`. Takes time in proportion to both lengths."""
    wanted, given = pattern.strip("/").split("/"), path.strip("/").split("/")
    # reached: how many segments of the pattern can have been used up by now.
    reached = _skipped({0}, wanted)
    for segment in given:
        step = set()
        for at in reached:
            if at < len(wanted):
                part = wanted[at]
                if part == "**":
                    step.add(at)
                elif part in ("*", segment) or (part.startswith("{") and part.endswith("}")):
                    step.add(at + 1)
        reached = _skipped(step, wanted)
        if not reached:
            return False
    return len(wanted) in reached


def _skipped(reached: set[int], wanted: list[str]) -> set[int]:
    """With the places behind each `**` that may stand for nothing more."""
    found = set(reached)
    for at in sorted(reached):
        while at < len(wanted) and wanted[at] == "**":
            at += 1
            found.add(at)
    return found


@dataclass(frozen=True, slots=True)
class Principal:
    """Ids but for `roles`, which are names, closed under implication, and `user_name`.

    `project` and `project_domain` are set in a project's scope, `domain` in a domain's. `audit` is the token's public
    id, `methods` how it was had. `application_credential` is the id of the one that it was had by; `restricted`: such
    a token may make no further credentials; `only`: the requests that it is good for, None for all. `address` and
    `request` belong to one request.
    """

    issuer: ZoneCode
    user: str
    user_name: str
    user_domain: str
    scope: ScopeKind
    roles: frozenset[str]
    expires: Wall
    project: str = ""
    project_domain: str = ""
    domain: str = ""
    audit: str = ""
    methods: tuple[str, ...] = ()
    application_credential: str = ""
    restricted: bool = False
    only: tuple[AllowedRequest, ...] | None = None
    address: str = ""
    request: str = ""

    def at(self, address: str, request: str) -> Principal:
        """The same, in one request. (dataclasses.replace costs four times as much, and this is done for each.)"""
        return Principal(
            self.issuer,
            self.user,
            self.user_name,
            self.user_domain,
            self.scope,
            self.roles,
            self.expires,
            self.project,
            self.project_domain,
            self.domain,
            self.audit,
            self.methods,
            self.application_credential,
            self.restricted,
            self.only,
            address,
            request,
        )

    def caller(self) -> Caller:
        """As the journal names it. Its role is of no use at the zone's own API."""
        subject = f"user:{self.user_name}#{self.user}"
        return Caller(subject, Role.VIEWER, self.issuer, token=self.audit, address=self.address, request=self.request)


@dataclass(frozen=True, slots=True)
class UserClaims:
    """What a valid token says. Ids but for `roles` (names). `target`: the project or domain of the scope, "" of others.

    `origin`: the audit id of the first token of a chain of rescoped ones. `epoch`: the zone's when it was made,
    `user_epoch` the user's.
    """

    issuer: ZoneCode
    user: str
    user_domain: str
    scope: ScopeKind
    target: str
    project_domain: str
    roles: tuple[str, ...]
    methods: tuple[str, ...]
    audit: str
    origin: str
    issued: Wall
    expires: Wall
    epoch: int
    user_epoch: int
    application_credential: str = ""

    def principal(
        self,
        user_name: str,
        roles: frozenset[str],
        *,
        restricted: bool = False,
        only: tuple[AllowedRequest, ...] | None = None,
    ) -> Principal:
        """Who the token stands for, with the roles that hold now."""
        return Principal(
            self.issuer,
            self.user,
            user_name,
            self.user_domain,
            self.scope,
            roles,
            self.expires,
            project=self.target if self.scope is ScopeKind.PROJECT else "",
            project_domain=self.project_domain,
            domain=self.target if self.scope is ScopeKind.DOMAIN else "",
            audit=self.audit,
            methods=self.methods,
            application_credential=self.application_credential,
            restricted=restricted,
            only=only,
        )
