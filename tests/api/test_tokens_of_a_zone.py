"""Tokens, rules and keys of a real zone on a real store, as the API shows them: who may give what, and what holds."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from banyan.api.app import Api, build_app
from banyan.core.identity import Role
from banyan.core.secret import Secret
from banyan.core.time import Wall
from banyan.drivers.registry import Drivers, Registry
from banyan.serve.assemble import Adapters, Assembled, assemble
from banyan.serve.clock import SystemClock, SystemIds
from banyan.store.backup import backup, restore
from banyan.store.open import open_store
from banyan.store.sealed_file import Costs
from banyan.zone.settings import ZoneSettings
from tests.api.serving import client
from tests.api.surface import OWN
from tests.api.test_authorisation import BRIEF
from tests.api.test_authorisation_of_a_zone import NoDialer, plant

PASSPHRASE = Secret(b"correct horse")
CHEAP = Costs(log_n=4, r=1, p=1)
HOUR, DAY = 3600.0, 86_400.0


@dataclass
class Running:
    built: Assembled
    api: Api

    async def ask(self, method: str, address: str, bearer: str = "", body: object = None) -> httpx.Response:
        """By the local socket, unless with a bearer."""
        async with client(self.api, bearer, local=not bearer) as http:
            return await http.request(method, address, json=body)

    async def token(self, bearer: str = "", **body: object) -> dict[str, Any]:
        answer = await self.ask("POST", "/v1/tokens", bearer, {"role": "admin", "subject": "ops"} | body)
        assert answer.status_code == 201, answer.text
        made: dict[str, Any] = answer.json()
        return made

    async def refused(self, method: str, address: str, bearer: str, body: object = None) -> tuple[int, str]:
        answer = await self.ask(method, address, bearer, body)
        assert answer.status_code >= 400, answer.text
        return answer.status_code, str(answer.json()["error"]["code"])


@asynccontextmanager
async def running(data: Path) -> AsyncIterator[Running]:
    clock, ids = SystemClock(), SystemIds()
    store = open_store(data, ids=ids, clock=clock)
    try:
        adapters = Adapters(store, clock, ids, Drivers(Registry.installed(), clock, ids), NoDialer())
        built = await assemble(ZoneSettings(name=OWN, addresses=("192.0.2.1:8781",)), adapters)
        plant(built)
        yield Running(built, build_app(built.front, clock, ids, replace(BRIEF, concurrency=8)))
    finally:
        await store.close()


def play(data: Path, steps: Callable[[Running], Awaitable[None]]) -> None:
    async def run() -> None:
        async with running(data) as zone:
            await steps(zone)

    asyncio.run(run())


# What each maker may give: role of the maker, its part, role asked for, part asked for.
_ROLES = tuple(role.name.lower() for role in Role)
_PARTS = ("", "north", "north/lab1", "south")


def test_of_all_that_tokens_ask_for_they_get_what_they_have_and_no_more(tmp_path: Path) -> None:
    """Every maker × every token asked for; and what was given can do no more than its maker could."""

    def covers(part: str, asked: str) -> bool:
        return part in ("", asked) or asked.startswith(f"{part}/")

    async def steps(zone: Running) -> None:
        for by in _ROLES:
            for part in _PARTS[:3]:
                maker = await zone.token(role=by, under=part)
                for role in _ROLES:
                    for asked in _PARTS:
                        # "" is all that the maker has, whatever that is; by its name the whole is asked for.
                        body = {"role": role, "subject": "x", "under": f"{OWN}/{asked}".strip("/")}
                        answer = await zone.ask("POST", "/v1/tokens", maker["token"], body)
                        if by == "viewer":
                            want = (403, "forbidden")
                        elif not covers(part, asked):
                            want = (404, "no-zone")
                        elif _ROLES.index(role) > _ROLES.index(by):
                            want = (403, "forbidden")
                        else:
                            want = (201, "")
                        got = answer.json()
                        assert (answer.status_code, got.get("error", {}).get("code", "")) == want, (by, part, body)
                        if want[0] == 201:
                            assert got["under"] == (f"{OWN}/{asked}" if asked else "")
                            assert got["expires"] <= maker["expires"]
                            seen = await zone.ask("GET", "/v1/zones", got["token"])
                            paths = {one["path"] for one in seen.json()["items"]}
                            assert all(covers(asked, path.removeprefix(f"{OWN}/")) for path in paths)
                            assert ("top/south" in paths) == (asked == "")

    play(tmp_path / "zone", steps)


def test_without_a_place_a_token_gives_the_whole_of_what_it_has(tmp_path: Path) -> None:
    async def steps(zone: Running) -> None:
        maker = await zone.token(under="north")
        made = await zone.token(maker["token"])
        assert made["under"] == "top/north"
        assert await zone.refused("GET", "/v1/status", made["token"]) == (404, "no-zone")
        assert await zone.refused("GET", "/v1/zones/top/south", made["token"]) == (404, "no-zone")
        for noun in ("zones", "usage", "racks", "hosts", "servers"):
            assert (await zone.ask("GET", f"/v1/{noun}", made["token"])).status_code in (200, 503)
        listed = (await zone.ask("GET", "/v1/zones", made["token"])).json()["items"]
        assert [one["path"] for one in listed] == ["top/north/lab1", "top/north/lab2"]

    play(tmp_path / "zone", steps)


def test_a_longer_life_than_the_makers_is_refused_if_asked_for_and_cut_if_not(tmp_path: Path) -> None:
    async def steps(zone: Running) -> None:
        maker = await zone.token(expires=HOUR)
        bearer = maker["token"]
        assert (await zone.token(bearer))["expires"] == maker["expires"]
        assert (await zone.token(bearer, expires=60))["expires"] < maker["expires"]
        body = {"role": "viewer", "subject": "x", "expires": 2 * HOUR}
        answer = await zone.ask("POST", "/v1/tokens", bearer, body)
        error = answer.json()["error"]
        assert (answer.status_code, error["code"]) == (403, "token-outlives-maker")
        assert maker["id"] in error["text"] and maker["expires"] in error["text"] and "--expires" in error["text"]
        assert (await zone.token())["expires"] > maker["expires"], "without a token there is no such bound"

    play(tmp_path / "zone", steps)


def test_only_a_token_of_the_whole_may_let_zones_in_or_touch_what_lets_them_in(tmp_path: Path) -> None:
    """The other things by which a caller could get more than it has: codes, rules, keys, the list of tokens."""
    key = "ab" * 32
    ways: list[tuple[str, str, object]] = [
        ("POST", "/v1/codes", {}),
        ("POST", "/v1/zones/top/north/actions/replace", {}),
        ("PUT", "/v1/rules/all", {}),
        ("DELETE", "/v1/rules/all", None),
        ("PUT", f"/v1/known-keys/{key}", {"name": "lab9"}),
        ("DELETE", f"/v1/known-keys/{key}", None),
        ("GET", "/v1/tokens", None),
        ("DELETE", "/v1/tokens/x", None),
        ("POST", "/v1/tokens/x/affirm", {}),
    ]

    async def steps(zone: Running) -> None:
        part = (await zone.token(under="north"))["token"]
        operator = (await zone.token(role="operator"))["token"]
        for method, address, body in ways:
            assert await zone.refused(method, address, part, body) == (404, "no-zone"), address
            if address != "/v1/codes":
                assert await zone.refused(method, address, operator, body) == (403, "forbidden"), address
        assert await zone.refused("POST", "/v1/codes", operator, {"replace": True}) == (403, "forbidden")

    play(tmp_path / "zone", steps)


def test_a_renamed_zone_keeps_its_tokens_and_its_old_name_gives_nothing(tmp_path: Path) -> None:
    async def steps(zone: Running) -> None:
        made = await zone.token(role="operator", under="north")
        tree = zone.built.zone.tree
        north, south = (tree.get(tree.resolve(name)) for name in ("north", "south"))
        assert north is not None and south is not None
        tree.put(replace(north, name="nord"))
        tree.put(replace(south, name="north"))
        listed = (await zone.ask("GET", "/v1/zones", made["token"])).json()["items"]
        assert [one["path"] for one in listed] == ["top/nord/lab1", "top/nord/lab2"]
        assert await zone.refused("GET", "/v1/zones/top/north", made["token"]) == (404, "no-zone")
        (view,) = (await zone.ask("GET", "/v1/tokens")).json()["items"]
        assert (view["under"], view["state"]) == ("top/nord", "good")
        tree.remove(north.code)
        assert await zone.refused("GET", "/v1/zones", made["token"]) == (401, "token-zone-gone")
        (view,) = (await zone.ask("GET", "/v1/tokens")).json()["items"]
        assert (view["under"], view["state"]) == ("top/north", "zone-gone")

    play(tmp_path / "zone", steps)


def test_a_child_that_is_called_as_we_are_gets_a_token_of_its_own(tmp_path: Path) -> None:
    async def steps(zone: Running) -> None:
        tree = zone.built.zone.tree
        south = tree.get(tree.resolve("south"))
        assert south is not None
        tree.put(replace(south, name=OWN))
        child = await zone.token(under=f"{OWN}/{OWN}")
        assert child["under"] == f"{OWN}/{OWN}"
        assert await zone.refused("GET", "/v1/status", child["token"]) == (404, "no-zone")
        tree.move(tree.root, f"world/{OWN}")
        body = {"role": "viewer", "subject": "x", "under": OWN}
        answer = await zone.ask("POST", "/v1/tokens", body=body)
        assert (answer.status_code, answer.json()["error"]["code"]) == (409, "ambiguous-zone")

    play(tmp_path / "zone", steps)


def test_a_restored_zone_refuses_the_tokens_of_before_and_lets_in_who_stands_at_it(tmp_path: Path) -> None:
    made: dict[str, dict[str, Any]] = {}

    async def codes(zone: Running) -> list[dict[str, Any]]:
        listed: list[dict[str, Any]] = (await zone.ask("GET", "/v1/codes")).json()["items"]
        return sorted(listed, key=lambda one: str(one["state"]))

    async def before(zone: Running) -> None:
        made["kept"], made["revoked"] = await zone.token(), await zone.token()
        for name in ("code", "ended"):
            made[name] = (await zone.ask("POST", "/v1/codes", body={})).json()
        assert (await zone.ask("DELETE", f"/v1/codes/{made['ended']['id']}")).status_code == 204
        assert [one["state"] for one in await codes(zone)] == ["open", "revoked"]
        await asyncio.to_thread(
            backup, tmp_path / "zone", tmp_path / "file", PASSPHRASE, ids=SystemIds(), now=Wall(1.8e9), costs=CHEAP
        )
        made["late"] = await zone.token()
        assert (await zone.ask("DELETE", f"/v1/tokens/{made['revoked']['id']}")).status_code == 204
        assert await zone.refused("GET", "/v1/status", made["revoked"]["token"]) == (401, "token-revoked")

    async def after(zone: Running) -> None:
        for name, code in (("kept", "before-restore"), ("revoked", "before-restore"), ("late", "unknown")):
            assert await zone.refused("GET", "/v1/status", made[name]["token"]) == (401, f"token-{code}"), name
        text = (await zone.ask("GET", "/v1/status", made["kept"]["token"])).json()["error"]["text"]
        assert f"banyan token affirm {made['kept']['id']}" in text and "banyan token create" in text
        assert (await zone.ask("GET", "/v1/status")).json()["restored_at"]
        listed = (await zone.ask("GET", "/v1/tokens")).json()["items"]
        assert {one["id"]: one["state"] for one in listed} == {
            made["kept"]["id"]: "before-restore",
            made["revoked"]["id"]: "before-restore",
        }
        assert [one["state"] for one in await codes(zone)] == ["before-restore", "revoked"]
        assert (await zone.ask("POST", "/v1/codes", body={})).status_code == 201
        assert sorted(one["state"] for one in await codes(zone)) == ["before-restore", "open", "revoked"]
        # No token of before can affirm itself; `banyan release` is about something else.
        affirm = f"/v1/tokens/{made['kept']['id']}/affirm"
        assert await zone.refused("POST", affirm, made["kept"]["token"]) == (401, "token-before-restore")
        shown = (await zone.ask("POST", "/v1/release")).json()
        assert shown["applied"] is False and shown["restored_at"] and shown["held_back"]
        assert (await zone.ask("GET", "/v1/status")).json()["restored_at"], "only shown: nothing was done"
        assert (await zone.ask("POST", "/v1/release", body={"apply": True})).json()["applied"] is True
        assert (await zone.ask("GET", "/v1/status")).json()["restored_at"] is None
        again = (await zone.ask("POST", "/v1/release", body={"apply": True})).json()
        assert (again["restored_at"], again["held_back"]) == (None, [])
        assert await zone.refused("GET", "/v1/status", made["kept"]["token"]) == (401, "token-before-restore")
        assert (await zone.ask("POST", affirm)).json()["state"] == "good"
        assert (await zone.ask("GET", "/v1/status", made["kept"]["token"])).status_code == 200
        assert await zone.refused("GET", "/v1/status", made["revoked"]["token"]) == (401, "token-before-restore")

    play(tmp_path / "zone", before)
    restore(tmp_path / "file", tmp_path / "new", PASSPHRASE, ids=SystemIds(), now=Wall(1.9e9))
    play(tmp_path / "new", after)


@pytest.mark.parametrize(
    ("address", "put", "shown"),
    [("/v1/rules", "/v1/rules/r{n:02}", "id"), ("/v1/known-keys", "/v1/known-keys/{n:064x}", "fingerprint")],
)
def test_rules_and_keys_are_paged_by_the_zone(tmp_path: Path, address: str, put: str, shown: str) -> None:
    async def steps(zone: Running) -> None:
        names = []
        for number in range(7):
            body: dict[str, object] = {"name": "lab*"} if "rules" in address else {"name": "lab"}
            if "rules" in address:
                body["priority"] = 100 - number // 2
            answer = await zone.ask("PUT", put.format(n=number), body=body)
            names.append((body.get("priority", 0), answer.json()[shown]))
        found: list[str] = []
        marker = ""
        for _ in range(3):
            page = (await zone.ask("GET", f"{address}?limit=3&marker={marker}")).json()
            found += [one[shown] for one in page["items"]]
            if len(found) == 3:
                # What the marker names may go, and what comes after it too: nothing else is told twice or left out.
                for gone in (found[2], sorted(names)[4][1]):
                    assert (await zone.ask("DELETE", f"{address}/{gone}")).status_code == 204
            marker = page["marker"]
            if not marker:
                break
        expected = [name for _, name in sorted(names)]
        assert (found, marker) == ([*expected[:4], *expected[5:]], "")
        assert await zone.refused("GET", f"{address}?marker=nonsense", "") == (400, "bad-marker")
        exact = (await zone.ask("GET", f"{address}?limit=5")).json()
        assert (len(exact["items"]), exact["marker"]) == (5, "")

    play(tmp_path / "zone", steps)
