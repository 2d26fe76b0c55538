"""A zone's identity behind its API: the real thing on a store in memory, with passwords that are quick to hash.

`Lab()` is a cloud after its first start. `world()` is one with two domains and people in them, made once and cloned.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, TypeVar

import httpx

from banyan.api.app import Api, build_app
from banyan.api.context import Limits
from banyan.api.openstack.call import Surfaces
from banyan.api.openstack.serve import Face
from banyan.api.services import SERVICES
from banyan.core.journal import Line
from banyan.core.secret import Secret
from banyan.core.time import Mono
from banyan.simulate.ids import SeededIds
from banyan.store.inline import Image, InlineStore
from banyan.trust import passwords
from banyan.trust.passwords import Cost
from banyan.zone.identity.identity import Identity, IdentitySettings
from banyan.zone.own import Own, open_own
from tests.api.surface import FakeSurface

T = TypeVar("T")
Json = dict[str, Any]

QUICK = Cost(memory=8, passes=1)
PASSWORD = "the first one"
CLOUD = "http://cloud:8780"


class Clock:
    """Time moves by `at` only, and by a millisecond whenever it is looked at."""

    def __init__(self) -> None:
        self.at = 1_796_000_000.0

    def now(self) -> Mono:
        return Mono(self.wall())

    def wall(self) -> float:
        self.at += 0.001
        return self.at

    async def sleep_until(self, instant: Mono) -> None:
        self.at = max(self.at, instant)

    def boot_id(self) -> str:
        return "boot"


class QuickPasswords:
    """zone.identity.desk.Passwords, on the loop. `asked` counts what a stranger could make us do."""

    def __init__(self, ids: SeededIds) -> None:
        self._ids = ids
        self.asked = 0

    async def hashed(self, password: Secret, address: str) -> str:
        return passwords.hashed(password, self._ids.token(16), QUICK)

    async def matches(self, password: Secret, kept: str, address: str) -> bool:
        self.asked += 1
        # At the real cost only for what is no hash of ours: then nobody waits for it here.
        return "m=8," in kept and passwords.matches(password, kept)

    def measured(self) -> Mapping[str, float]:
        return {}


async def at_once(instant: str) -> None:
    """A store without waiting."""


class Lab:
    """`image`: a cloud that was made before."""

    def __init__(self, image: Image | None = None, seed: int = 1, limits: Limits | None = None) -> None:
        self.loop = asyncio.new_event_loop()
        self.clock = Clock()
        self.ids = SeededIds(seed, "lab")
        self.passwords = QuickPasswords(self.ids)
        self.store = InlineStore(self.ids, at_once, image=image)
        self.own: Own = self.run(open_own(self.store, self.clock, self.ids, "top", {}))
        self.surface = FakeSurface()
        self.open()

    def open(self, life: float = 3600.0) -> None:
        """The identity as it is after a start of the process."""
        settings = IdentitySettings(token_life=life)
        self.identity = Identity(self.own, self.store, self.ids, self.passwords, settings)
        self.run(self.identity.start(lambda: Secret(PASSWORD.encode())))
        self.api: Api = build_app(self.surface, self.clock, self.ids)
        self.api.offer(SERVICES, self.identity.gate, Surfaces(identity=self.identity), Face())

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(work)

    def close(self) -> None:
        self.loop.close()

    def journal(self) -> list[Line]:
        return list(self.run(self.store.read(lambda unit: unit.journal.page(0, 10_000, {}))))

    def ask(
        self,
        method: str,
        path: str,
        token: str = "",
        json: object = None,
        *,
        headers: Mapping[str, str] | None = None,
        content: bytes | None = None,
        local: bool = False,
    ) -> httpx.Response:
        """One request; `path` below /identity/v3."""

        async def one() -> httpx.Response:
            app = self.api.local if local else self.api
            transport = httpx.ASGITransport(app, client=("root", 0) if local else ("192.0.2.7", 4711))
            given = {**({"X-Auth-Token": token} if token else {}), **(headers or {})}
            if content is not None:
                given.setdefault("Content-Type", "application/json")
            async with httpx.AsyncClient(transport=transport, base_url=CLOUD, headers=given) as http:
                return await http.request(method, f"/identity/v3{path}", json=json, content=content)

        return self.run(one())

    def good(self, method: str, path: str, token: str = "", json: object = None, **more: Any) -> Json:
        """The body of an answer that must be well."""
        answer = self.ask(method, path, token, json, **more)
        assert answer.is_success, f"{method} {path}: {answer.status_code} {answer.text}"
        return dict(answer.json()) if answer.content else {}

    def log_in(
        self, name: str = "admin", password: str = PASSWORD, scope: object = None, domain: str = "default"
    ) -> str:
        """A token; raises AssertionError if there is none to be had."""
        answer = self.try_log_in(name, password, scope, domain)
        assert answer.status_code == 201, answer.text
        return str(answer.headers["X-Subject-Token"])

    def try_log_in(
        self, name: str = "admin", password: str = PASSWORD, scope: object = None, domain: str = "default"
    ) -> httpx.Response:
        user = {"name": name, "domain": {"id": domain}, "password": password}
        auth: Json = {"identity": {"methods": ["password"], "password": {"user": user}}}
        if scope is not None:
            auth["scope"] = scope
        return self.ask("POST", "/auth/tokens", json={"auth": auth})

    def rescoped(self, token: str, scope: object) -> httpx.Response:
        auth = {"identity": {"methods": ["token"], "token": {"id": token}}, "scope": scope}
        return self.ask("POST", "/auth/tokens", json={"auth": auth})

    # --- making things, as the administrator ----------------------------------------------------

    @property
    def admin(self) -> str:
        return self.log_in(scope=SYSTEM)

    def domain(self, name: str) -> str:
        return str(self.good("POST", "/domains", self.admin, {"domain": {"name": name}})["domain"]["id"])

    def project(self, name: str, domain: str = "default", **more: object) -> str:
        body = {"project": {"name": name, "domain_id": domain, **more}}
        return str(self.good("POST", "/projects", self.admin, body)["project"]["id"])

    def user(self, name: str, domain: str = "default", **more: object) -> str:
        body = {"user": {"name": name, "domain_id": domain, "password": f"{name}-pw", **more}}
        return str(self.good("POST", "/users", self.admin, body)["user"]["id"])

    def group(self, name: str, domain: str = "default") -> str:
        body = {"group": {"name": name, "domain_id": domain}}
        return str(self.good("POST", "/groups", self.admin, body)["group"]["id"])

    def role(self, name: str, **more: object) -> str:
        """The id of the role of that name, made if there is none."""
        found = self.good("GET", f"/roles?name={name}", self.admin)["roles"]
        if found and not more:
            return str(found[0]["id"])
        return str(self.good("POST", "/roles", self.admin, {"role": {"name": name, **more}})["role"]["id"])

    def grant(self, role: str, who: str, where: str, *, inherited: bool = False) -> None:
        """grant("member", f"users/{u}", f"projects/{p}")"""
        self.good("PUT", grant_path(self.role(role), who, where, inherited), self.admin)


SYSTEM = {"system": {"all": True}}


def on_project(id: str) -> Json:
    return {"project": {"id": id}}


def on_domain(id: str) -> Json:
    return {"domain": {"id": id}}


def grant_path(role: str, who: str, where: str, inherited: bool = False) -> str:
    if inherited:
        return f"/OS-INHERIT/{where}/{who}/roles/{role}/inherited_to_projects"
    return f"/{where}/{who}/roles/{role}"


@dataclass
class World:
    """Two domains, `red` and `blue`, each with a project, a group and people; by name → id."""

    ids: dict[str, str] = field(default_factory=dict)
    image: Image | None = None

    def lab(self) -> Lab:
        return Lab(self.image, seed=2)


@cache
def world() -> World:
    """In the domain red: `red-reader`, `red-member`, `red-manager`, `red-admin` have their role on it and its project,
    `red-user` is a reader of the project. The same in blue. In default: `system-reader`, and `nobody` without a role.
    """
    lab = Lab()
    made: dict[str, str] = {}
    for color in ("red", "blue"):
        domain = made[color] = lab.domain(color)
        project = made[f"{color}-project"] = lab.project(f"{color}-project", domain)
        made[f"{color}-group"] = lab.group(f"{color}-group", domain)
        for role in ("reader", "member", "manager", "admin"):
            user = made[f"{color}-{role}"] = lab.user(f"{color}-{role}", domain)
            lab.grant(role, f"users/{user}", f"domains/{domain}")
            lab.grant(role, f"users/{user}", f"projects/{project}")
        made[f"{color}-user"] = lab.user(f"{color}-user", domain)
        lab.grant("reader", f"users/{made[f'{color}-user']}", f"projects/{project}")
    made["system-reader"] = lab.user("system-reader")
    lab.grant("reader", f"users/{made['system-reader']}", "system")
    made["nobody"] = lab.user("nobody")
    for role in ("admin", "manager", "member", "reader"):
        made[role] = lab.role(role)
    made["custom"] = lab.role("custom")
    image = lab.store.image()
    lab.close()
    return World(made, image)
