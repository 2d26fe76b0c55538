"""The same rows, roles and subtrees against a real zone on a real store: table, fake and zone agree on who may what."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from banyan.api.app import Api, build_app
from banyan.api.routes import TABLE
from banyan.api.table import Router
from banyan.core.errors import Unreachable
from banyan.core.identity import Role
from banyan.core.ids import ZoneCode
from banyan.core.ports import Credentials, Wire
from banyan.core.zone import Admin, ChildState, Health
from banyan.drivers.registry import Drivers, Registry
from banyan.serve.assemble import Adapters, Assembled, assemble
from banyan.serve.clock import SystemClock, SystemIds
from banyan.store.open import open_store
from banyan.zone.settings import ZoneSettings
from banyan.zone.tree import Node
from tests.api.cases import CASES
from tests.api.serving import client
from tests.api.surface import INSIDE, OWN
from tests.api.test_authorisation import BRIEF, PARTS, address_of, expected, prepare, rows


class NoDialer:
    async def dial(
        self, address: str, *, purpose: str, credentials: Credentials | None, bundle: Sequence[bytes], timeout: float
    ) -> Wire:
        raise Unreachable("no-route", "nothing is dialled here")


def plant(built: Assembled) -> None:
    """north with lab1 and lab2, south with lab3; none of them has a session."""
    tree = built.zone.tree
    root = tree.root
    codes = {"": root} | {name: ZoneCode(n) for n, name in enumerate(("north", "south", "lab1", "lab2", "lab3"), 100)}
    for name, parent in (("north", ""), ("south", ""), ("lab1", "north"), ("lab2", "north"), ("lab3", "south")):
        via = codes[parent or name]
        tree.put(
            Node(
                codes[name], codes[parent], via, name, ChildState.READY, Health.ALIVE, Admin.ENABLED, "", "0.1.0", None
            )
        )


async def tokens(built: Assembled) -> dict[tuple[Role, str], str]:
    """A token per role and part, as the zone itself signs them."""
    front = built.front
    admin = front.local("test", "req-test")
    made: dict[tuple[Role, str], str] = {}
    for role in Role:
        for part in PARTS:
            created = await front.create_token(
                admin, f"{role.name.lower()}-{part}", role, "" if part == "all" else part, 600
            )
            made[role, part] = created.token
    return made


@pytest.mark.parametrize("door", ["kept", "open"])
def test_a_zone_allows_what_the_table_says_and_nothing_else(tmp_path: Path, door: str) -> None:
    """With the door open the API asks for no role, so that every refusal is the zone's own."""

    async def everything() -> list[str]:
        clock, ids = SystemClock(), SystemIds()
        store = open_store(tmp_path / "data", ids=ids, clock=clock)
        try:
            adapters = Adapters(store, clock, ids, Drivers(Registry.installed(), clock, ids), NoDialer())
            built = await assemble(ZoneSettings(name=OWN, addresses=("192.0.2.1:8781",)), adapters)
            plant(built)
            api = build_app(built.front, clock, ids, replace(BRIEF, concurrency=8))
            if door == "open":
                api.router = Router(replace(row, role=row.role and Role.VIEWER) for row in TABLE)
            return await wrong(api, await tokens(built))
        finally:
            await store.close()

    assert asyncio.run(everything()) == []


async def wrong(api: Api, bearers: dict[tuple[Role, str], str]) -> list[str]:
    """What was answered otherwise than the table says."""
    assert INSIDE in PARTS
    found: list[str] = []
    for row, role, part, place in rows():
        case = CASES[row.name]
        made = await prepare(case, client(api, bearers[Role.ADMIN, "all"]))
        status, code = expected(row, case, role, part, place)
        async with client(api, bearers[role, part] if role else "") as http:
            body = case.outside_body if place == "outside" else case.body
            answer = await http.request(row.method, address_of(case, place, made), json=body)
        error = answer.json()["error"]["code"] if answer.status_code >= 400 else ""
        if code:
            # Without the API's door, a zone that may not be seen is not found before any role is looked at.
            unseen = status == 403 and part != "all" and place != "root"
            unseen = unseen and (answer.status_code, error) == (404, "no-zone")
            right = (answer.status_code, error) == (status, code) or unseen
        else:
            # Allowed. That a member has no session here, that there is nothing to release, or no such server, is
            # another matter.
            right = answer.status_code in (row.status, 409) or error in (
                "member-unreachable",
                "no-server",
                "no-receiver",
            )
            # Zones were planted in the tree only: a word about a direct child gets as far as its row.
            right = right or (place == "root" and case.parents and "no child zone" in answer.text)
        if not right:
            who = f"{role.name.lower() if role else 'nobody'} of {part}"
            found.append(f"{row.name} by {who}, {place}: {answer.status_code} {error}, not {status} {code}")
    return found
