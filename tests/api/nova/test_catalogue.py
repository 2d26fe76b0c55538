"""Flavors, key pairs, server groups, limits: what users and operators keep at the entry zone."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from msgspec import structs

from banyan.core.errors import Unreachable
from banyan.core.quota import DEFAULTS, Quota
from tests.api.nova.cloud import Cloud, run
from tests.api.nova.fakes import IMAGE

NONE = "f0000000-0000-4000-8000-000000000000"
FLAVOR = {"name": "f", "ram": 64, "vcpus": 1, "disk": 1}


async def flavor(c: Cloud, version: str = "2.96", **fields: object) -> Any:
    return (await c.ok("POST", "/flavors", {"flavor": {**FLAVOR, **fields}}, "admin", version))["flavor"]


async def ids(c: Cloud, query: str = "", token: str = "member") -> list[str]:
    return [one["id"] for one in (await c.ok("GET", f"/flavors{query}", token=token))["flavors"]]


# --- flavors --------------------------------------------------------------------------------------

KEYS = {
    "id", "name", "ram", "disk", "swap", "OS-FLV-EXT-DATA:ephemeral", "OS-FLV-DISABLED:disabled", "vcpus",
    "os-flavor-access:is_public", "rxtx_factor", "links",
}  # fmt: skip


@pytest.mark.parametrize("minor", [1, 54, 55, 60, 61, 74, 75, 96])
def test_a_flavor_has_exactly_the_keys_of_its_version(minor: int) -> None:
    async def play(c: Cloud) -> None:
        more = ({"description"} if minor >= 55 else set()) | ({"extra_specs"} if minor >= 61 else set())
        version = f"2.{minor}"
        made = await flavor(c, version)
        shown = (await c.ok("GET", f"/flavors/{made['id']}", version=version))["flavor"]
        listed = (await c.ok("GET", "/flavors/detail", version=version))["flavors"]
        assert set(made) == set(shown) == KEYS | more
        assert {frozenset(one) for one in listed} == {frozenset(KEYS | more)}
        assert shown["swap"] == (0 if minor >= 75 else "")
        brief = (await c.ok("GET", "/flavors", version=version))["flavors"][0]
        assert set(brief) == {"id", "name", "links"} | ({"description"} if minor >= 55 else set())
        assert (await c.ask("PUT", "/flavors/1", {"flavor": {"description": "d"}}, "admin", version)).status_code == (
            200 if minor >= 55 else 404
        )

    run(play)


def test_a_private_flavor_is_there_for_whom_it_was_opened() -> None:
    async def play(c: Cloud) -> None:
        id = (await flavor(c, id="9", **{"os-flavor-access:is_public": "False"}))["id"]
        assert id not in await ids(c) and id not in await ids(c, token="admin")
        assert id in await ids(c, "?is_public=None", "admin") and id in await ids(c, "?is_public=f", "admin")
        assert id not in await ids(c, "?is_public=None"), "others see public ones whatever they ask"
        assert (await c.ask("GET", f"/flavors/{id}")).status_code == 404
        assert (await c.ask("GET", f"/flavors/{id}", token="admin")).status_code == 200
        body = {"server": {"name": "n", "flavorRef": id, "imageRef": "10000000-0000-4000-8000-000000000000"}}
        assert (await c.ask("POST", "/servers", body)).status_code == 400
        opened = await c.ok("POST", f"/flavors/{id}/action", {"addTenantAccess": {"tenant": "p1"}}, "admin")
        assert opened == {"flavor_access": [{"flavor_id": id, "tenant_id": "p1"}]}
        assert id in await ids(c) and id in await ids(c, token="admin"), "it is open to the admin's project as well"
        assert id not in await ids(c, token="other")
        assert (await c.ask("POST", "/servers", body)).status_code == 202
        again = await c.ask("POST", f"/flavors/{id}/action", {"addTenantAccess": {"tenant": "p1"}}, "admin")
        assert again.status_code == 409
        closed = await c.ok("POST", f"/flavors/{id}/action", {"removeTenantAccess": {"tenant": "p1"}}, "admin")
        assert closed == {"flavor_access": []}
        assert (await c.ask("POST", "/servers", body)).status_code == 400, "at once, though it was remembered"
        gone = await c.ask("POST", f"/flavors/{id}/action", {"removeTenantAccess": {"tenant": "p1"}}, "admin")
        assert gone.status_code == 404
        public = await c.ask("POST", "/flavors/1/action", {"addTenantAccess": {"tenant": "p1"}}, "admin", "2.7")
        assert public.status_code == 409
        assert (await c.ask("GET", "/flavors/1/os-flavor-access", token="admin")).status_code == 404

    run(play)


def test_an_administrators_use_of_a_private_flavor_opens_it_to_nobody() -> None:
    async def play(c: Cloud) -> None:
        id = (await flavor(c, id="9", **{"os-flavor-access:is_public": False}))["id"]
        await c.server("admin", flavorRef=id)
        body = {"server": {"name": "n", "flavorRef": id, "imageRef": "10000000-0000-4000-8000-000000000000"}}
        assert (await c.ask("POST", "/servers", body)).status_code == 400

    run(play)


def test_an_order_like_the_last_one_reads_nothing() -> None:
    async def play(c: Cloud) -> None:
        for token in ("admin", "member"):
            await c.server(token)
        c.store.read = None  # whatever reads fails
        for token in ("admin", "member"):
            await c.server(token)

    run(play)


def test_an_order_asks_for_what_its_flavor_and_its_image_say_now() -> None:
    async def play(c: Cloud) -> None:
        await c.server()
        assert c.servers.orders[-1][0].required == ()
        await c.ok("POST", "/flavors/1/os-extra_specs", {"extra_specs": {"trait:HW_A": "required"}}, "admin")
        await c.server()
        assert c.servers.orders[-1][0].required == ("HW_A",)
        image = c.images.known[IMAGE]
        with_trait = structs.replace(image.source, properties={"trait:HW_B": "required"})
        c.images.known[IMAGE] = replace(image, source=with_trait)
        await c.server()
        assert c.servers.orders[-1][0].required == ("HW_A", "HW_B")

    run(play)


def test_flavors_are_filtered_sorted_and_paged() -> None:
    async def play(c: Cloud) -> None:
        assert await ids(c) == ["1", "2", "3", "4", "5"]
        assert await ids(c, "?minRam=4096") == ["3", "4", "5"]
        assert await ids(c, "?minDisk=80") == ["4", "5"]
        assert await ids(c, "?sort_key=memory_mb&sort_dir=desc&limit=2") == ["5", "4"]
        assert await ids(c, "?limit=2&marker=2") == ["3", "4"]
        assert await ids(c, "?marker=5") == [] and await ids(c, "?limit=0") == []
        page = await c.ok("GET", "/flavors/detail?limit=2&minRam=1")
        assert page["flavors_links"][0]["href"].endswith("/v2.1/flavors/detail?limit=2&minRam=1&marker=2")
        for wrong in ("marker=none", "minRam=many", "limit=-1", "limit=x", "sort_key=junk", "sort_dir=up"):
            assert (await c.ask("GET", f"/flavors?{wrong}")).status_code == 400, wrong
        assert (await c.ask("GET", "/flavors?is_public=perhaps", token="admin")).status_code == 400

    run(play)


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({"ram": "64"}, 200),
        ({"id": 1234}, 200),
        ({"id": None}, 200),
        ({"id": "a b.c_d-e"}, 200),
        ({"id": "1"}, 409),
        ({"name": "m1.tiny"}, 409),
        ({"id": "a/b"}, 400),
        ({"id": " a"}, 400),
        ({"name": ""}, 400),
        ({"ram": 0}, 400),
        ({"ram": -1}, 400),
        ({"ram": 2**31}, 400),
        ({"vcpus": 0}, 400),
        ({"disk": -1}, 400),
        ({"rxtx_factor": "x"}, 400),
        ({"swap": -1}, 400),
        ({"os-flavor-access:is_public": "perhaps"}, 400),
        ({"junk": 1}, 400),
    ],
)
def test_flavors_are_checked(fields: dict[str, object], status: int) -> None:
    async def play(c: Cloud) -> int:
        return (await c.ask("POST", "/flavors", {"flavor": {**FLAVOR, **fields}}, "admin")).status_code

    assert run(play) == status


def test_extra_specs_are_added_changed_and_taken_away() -> None:
    async def play(c: Cloud) -> None:
        path = "/flavors/1/os-extra_specs"
        assert await c.ok("POST", path, {"extra_specs": {"a": "1", "b": 2}}, "admin") == {
            "extra_specs": {"a": "1", "b": "2"}
        }
        assert await c.ok("PUT", f"{path}/a", {"a": "3"}, "admin") == {"a": "3"}
        assert await c.ok("GET", path) == {"extra_specs": {"a": "3", "b": "2"}}
        assert await c.ok("GET", f"{path}/b") == {"b": "2"}
        assert (await c.ask("GET", f"{path}/c")).status_code == 404
        await c.ok("DELETE", f"{path}/b", token="admin")
        assert (await c.ask("DELETE", f"{path}/b", token="admin")).status_code == 404
        for where, body in ((f"{path}/a", {"b": "1"}), (f"{path}/a", {"a": "1", "b": "1"}), (f"{path}/a", {})):
            assert (await c.ask("PUT", where, body, "admin")).status_code == 400
        known = {"extra_specs": {"trait:HW_X": "maybe"}}
        assert (await c.ask("POST", path, known, "admin", "2.85")).status_code == 200
        assert (await c.ask("POST", path, known, "admin", "2.86")).status_code == 400

    run(play)


def test_a_deleted_flavor_stays_with_its_servers() -> None:
    async def play(c: Cloud) -> None:
        id = (await flavor(c, name="gone"))["id"]
        server = await c.server(flavorRef=id)
        assert (await c.ask("DELETE", f"/flavors/{id}", token="admin")).status_code == 202
        assert (await c.ask("DELETE", f"/flavors/{id}", token="admin")).status_code == 404
        shown = await c.ok("GET", f"/servers/{server}", version="2.47")
        assert shown["server"]["flavor"]["original_name"] == "gone"

    run(play)


def test_a_zone_gets_its_first_flavors_once() -> None:
    async def play(c: Cloud) -> None:
        for id in await ids(c):
            await c.ok("DELETE", f"/flavors/{id}", token="admin")
        await c.compute.load()
        assert await ids(c) == []

    run(play)


# --- key pairs ------------------------------------------------------------------------------------

PUBLIC = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIBi3mVEMTvNUWUiQAYH2zGjM8QzdPJZMcTuUMIpr5mJL ann"


@pytest.mark.parametrize(
    ("version", "made", "gone", "more"),
    [("2.1", 200, 202, set()), ("2.2", 201, 204, {"type"}), ("2.91", 201, 204, {"type"})],
)
def test_key_pairs_answer_as_their_version_has_it(version: str, made: int, gone: int, more: set[str]) -> None:
    async def play(c: Cloud) -> None:
        answer = await c.ask("POST", "/os-keypairs", {"keypair": {"name": "my key"}}, version=version)
        assert answer.status_code == made
        key = answer.json()["keypair"]
        assert set(key) == {"name", "public_key", "fingerprint", "user_id", "private_key"} | more
        assert "OPENSSH PRIVATE KEY" in key["private_key"]
        (listed,) = (await c.ok("GET", "/os-keypairs", version=version))["keypairs"]
        assert set(listed["keypair"]) == {"name", "public_key", "fingerprint"} | more
        shown = (await c.ok("GET", "/os-keypairs/my%20key", version=version))["keypair"]
        whole = {
            "name",
            "public_key",
            "fingerprint",
            "user_id",
            "id",
            "created_at",
            "updated_at",
            "deleted",
            "deleted_at",
        }
        assert set(shown) == whole | more
        assert (await c.ask("DELETE", "/os-keypairs/my%20key", version=version)).status_code == gone
        assert (await c.ask("DELETE", "/os-keypairs/my%20key", version=version)).status_code == 404

    run(play)


def test_a_private_key_is_shown_once_and_kept_nowhere() -> None:
    async def play(c: Cloud) -> None:
        key = (await c.ok("POST", "/os-keypairs", {"keypair": {"name": "k"}}))["keypair"]
        secret = "".join(key["private_key"].split("\n")[1:-2])[40:90].encode()
        assert len(secret) == 50 and secret not in c.store.image().database
        assert "private_key" not in (await c.ok("GET", "/os-keypairs/k"))["keypair"]

    run(play)


@pytest.mark.parametrize(
    ("fields", "version", "status"),
    [
        ({"name": "k", "public_key": PUBLIC}, "2.1", 200),
        ({"name": "k", "public_key": PUBLIC}, "2.92", 201),
        ({"name": "k"}, "2.92", 400),
        ({"name": "a@b.c", "public_key": PUBLIC}, "2.91", 400),
        ({"name": "a@b.c", "public_key": PUBLIC}, "2.92", 201),
        ({"name": "k", "public_key": ""}, "2.1", 400),
        ({"name": "k", "public_key": "junk"}, "2.1", 400),
        ({"name": "k", "public_key": PUBLIC + "x" * 20_000}, "2.1", 400),
        ({"name": ""}, "2.1", 400),
        ({"name": "x" * 256}, "2.1", 400),
        ({"name": "kö"}, "2.1", 400),
        ({"name": "k", "type": "x509"}, "2.1", 400),
        ({"name": "k", "type": "x509"}, "2.2", 201),
        ({"name": "k", "type": "pgp"}, "2.2", 400),
        ({"name": "k", "user_id": "u9"}, "2.9", 400),
        ({"name": "k", "user_id": "u9"}, "2.10", 403),
    ],
)
def test_key_pairs_are_checked(fields: dict[str, object], version: str, status: int) -> None:
    async def play(c: Cloud) -> int:
        return (await c.ask("POST", "/os-keypairs", {"keypair": fields}, version=version)).status_code

    assert run(play) == status


def test_a_users_keys_are_its_own_and_an_administrator_keeps_them_too() -> None:
    async def play(c: Cloud) -> None:
        await c.ok("POST", "/os-keypairs", {"keypair": {"name": "k"}})
        assert (await c.ask("POST", "/os-keypairs", {"keypair": {"name": "k"}})).status_code == 409
        assert (await c.ok("GET", "/os-keypairs", token="reader"))["keypairs"] == []
        assert (await c.ask("GET", "/os-keypairs/k", token="reader")).status_code == 404
        assert (await c.ask("GET", "/os-keypairs?user_id=u-member", token="reader", version="2.10")).status_code == 403
        (listed,) = (await c.ok("GET", "/os-keypairs?user_id=u-member", token="admin", version="2.10"))["keypairs"]
        assert listed["keypair"]["name"] == "k"
        for name in ("a", "b"):
            await c.ok("POST", "/os-keypairs", {"keypair": {"name": name, "user_id": "u-member"}}, "admin", "2.10")
        page = await c.ok("GET", "/os-keypairs?limit=2", version="2.35")
        assert [one["keypair"]["name"] for one in page["keypairs"]] == ["a", "b"]
        assert page["keypairs_links"][0]["href"].endswith("?limit=2&marker=b")
        assert (await c.ask("GET", "/os-keypairs?marker=none", version="2.35")).status_code == 400
        await c.ok("DELETE", "/os-keypairs/k?user_id=u-member", token="admin", version="2.10")
        assert (await c.ask("GET", "/os-keypairs/k")).status_code == 404

    run(play)


def test_keys_and_groups_have_limits_that_deleting_gives_back() -> None:
    async def play(c: Cloud) -> None:
        for path, body, name in (
            ("/os-keypairs", lambda n: {"keypair": {"name": n}}, lambda made: made["keypair"]["name"]),
            ("/os-server-groups", lambda n: {"server_group": {"name": n, "policies": ["affinity"]}},
             lambda made: made["server_group"]["id"]),
        ):  # fmt: skip
            made = [await c.ok("POST", path, body(f"n{n}")) for n in range(2)]
            assert (await c.ask("POST", path, body("more"))).status_code == 403
            assert (await c.ask("POST", path, body("theirs"), "other")).status_code < 300
            await c.ok("DELETE", f"{path}/{name(made[0])}", version="2.2")
            await c.ok("POST", path, body("again"))
            assert (await c.ask("POST", path, body("more"))).status_code == 403

    run(play, {**DEFAULTS, Quota.KEY_PAIRS: 2, Quota.SERVER_GROUPS: 2})


# --- server groups --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "version", "status"),
    [
        ({"policies": ["affinity"]}, "2.1", 200),
        ({"policies": ["soft-affinity"]}, "2.14", 400),
        ({"policies": ["soft-affinity"]}, "2.15", 200),
        ({"policies": ["affinity", "anti-affinity"]}, "2.1", 400),
        ({"policies": []}, "2.1", 400),
        ({"policy": "affinity"}, "2.63", 400),
        ({"policy": "affinity"}, "2.64", 200),
        ({"policies": ["affinity"]}, "2.64", 400),
        ({"policy": "anti-affinity", "rules": {"max_server_per_host": "2"}}, "2.64", 200),
        ({"policy": "affinity", "rules": {"max_server_per_host": 2}}, "2.64", 400),
        ({"policy": "anti-affinity", "rules": {"max_server_per_host": 0}}, "2.64", 400),
    ],
)
def test_groups_are_checked_and_shown_by_version(body: dict[str, object], version: str, status: int) -> None:
    async def play(c: Cloud) -> None:
        answer = await c.ask("POST", "/os-server-groups", {"server_group": {"name": "g", **body}}, version=version)
        assert answer.status_code == status, answer.text
        if status == 200:
            minor = int(version[2:])
            keys = {"policy", "rules"} if minor >= 64 else {"policies", "metadata"}
            who = {"project_id", "user_id"} if minor >= 13 else set()
            assert set(answer.json()["server_group"]) == {"id", "name", "members"} | keys | who

    run(play)


def test_groups_are_a_projects_own_and_bounded() -> None:
    async def play(c: Cloud) -> None:
        body = {"server_group": {"name": "g", "policies": ["anti-affinity"]}}
        id = (await c.ok("POST", "/os-server-groups", body))["server_group"]["id"]
        await c.ok("POST", "/os-server-groups", body, "other")
        assert len((await c.ok("GET", "/os-server-groups"))["server_groups"]) == 1
        assert len((await c.ok("GET", "/os-server-groups?all_projects"))["server_groups"]) == 1
        assert len((await c.ok("GET", "/os-server-groups?all_projects", token="admin"))["server_groups"]) == 2
        assert (await c.ok("GET", "/os-server-groups?all_projects&offset=1&limit=5", token="admin"))["server_groups"]
        assert (await c.ask("GET", f"/os-server-groups/{id}", token="other")).status_code == 404
        assert (await c.ask("DELETE", f"/os-server-groups/{id}", token="other")).status_code == 404
        image = "10000000-0000-4000-8000-000000000000"
        order = {"server": {"name": "n", "imageRef": image, "flavorRef": "1", "max_count": 2},
                 "os:scheduler_hints": {"group": id}}  # fmt: skip
        await c.ok("POST", "/servers", order)
        assert (await c.ask("POST", "/servers", order)).status_code == 403
        assert (await c.ask("POST", "/servers", order, "other")).status_code == 400
        shown = await c.ok("GET", f"/servers/{next(iter(c.servers.rows))}", version="2.71")
        assert shown["server"]["server_groups"] == [id]

    run(play, {**DEFAULTS, Quota.GROUP_MEMBERS: 3})


async def server_group(c: Cloud, policy: str) -> Any:
    body = {"server_group": {"name": "g", "policies": [policy]}}
    return (await c.ok("POST", "/os-server-groups", body, version="2.15"))["server_group"]


async def ordered(c: Cloud, group: str, key: str = "") -> int:
    """The status of an order of one server in that group."""
    wanted = {"name": "web", "imageRef": IMAGE, "flavorRef": "1", "networks": "none"}
    body = {"server": wanted, "os:scheduler_hints": {"group": group}}
    headers = {"Idempotency-Key": key} if key else {}
    return (await c.ask("POST", "/servers", body, version="2.79", headers=headers)).status_code


@pytest.mark.parametrize("policy", ["affinity", "soft-anti-affinity"])
def test_servers_ordered_at_once_do_not_pass_their_group_s_quota(policy: str) -> None:
    async def play(c: Cloud) -> None:
        real = c.servers.create

        async def slow(*arguments: Any, **more: Any) -> Any:
            # So that whoever came at the same time is let on.
            for _ in range(200):
                turn = asyncio.get_running_loop().create_future()
                asyncio.get_running_loop().call_soon(turn.set_result, None)
                await turn
            return await real(*arguments, **more)

        c.servers.create = slow
        group = (await server_group(c, policy))["id"]
        codes = await asyncio.gather(*(ordered(c, group) for _ in range(8)))
        assert sorted(codes) == [202] * 3 + [403] * 5 and len(c.servers.rows) == 3
        other = (await server_group(c, policy))["id"]
        codes = await asyncio.gather(*(ordered(c, other, "k1") for _ in range(5)))
        assert codes == [202] * 5, "of one request each is answered, also when it took the last of the quota itself"

    run(play, {**DEFAULTS, Quota.GROUP_MEMBERS: 3})


@pytest.mark.parametrize(("code", "counted"), [("order-undecided", True), ("member-unreachable", False)])
def test_servers_of_an_order_that_was_not_answered_count_in_their_group(code: str, counted: bool) -> None:
    async def play(c: Cloud) -> None:
        group = (await server_group(c, "affinity"))["id"]
        real = c.servers.create

        async def lost(*arguments: Any, **more: Any) -> Any:
            raise Unreachable(code, "no answer", transient=True)

        c.servers.create = lost
        assert await ordered(c, group) == 503
        c.servers.create = real
        assert await ordered(c, group) == (403 if counted else 202)

    run(play, {**DEFAULTS, Quota.GROUP_MEMBERS: 1})


# --- limits ---------------------------------------------------------------------------------------

NETWORK = {"floating_ips", "fixed_ips", "security_groups", "security_group_rules"}
FILES = {"injected_files", "injected_file_content_bytes", "injected_file_path_bytes"}
PLAIN = {"instances", "cores", "ram", "metadata_items", "key_pairs", "server_groups", "server_group_members"}


@pytest.mark.parametrize(
    ("minor", "project", "every"),
    [
        (1, PLAIN | NETWORK | FILES, (PLAIN | NETWORK | FILES) - {"server_groups", "server_group_members"}),
        (36, PLAIN | FILES, (PLAIN | NETWORK | FILES) - {"server_groups", "server_group_members"}),
        (50, PLAIN | FILES, PLAIN | FILES),
        (57, PLAIN, PLAIN),
    ],
)
def test_quotas_have_exactly_the_keys_of_their_version(minor: int, project: set[str], every: set[str]) -> None:
    async def play(c: Cloud) -> None:
        version = f"2.{minor}"
        for path in ("/os-quota-sets/p1", "/os-quota-sets/p1/defaults", "/os-quota-sets/p1/detail"):
            assert set((await c.ok("GET", path, version=version))["quota_set"]) == project | {"id"}
        set_ = await c.ok("PUT", "/os-quota-sets/p1", {"quota_set": {"cores": 5}}, "admin", version)
        assert set(set_["quota_set"]) == project
        path = "/os-quota-class-sets/default"
        assert set((await c.ok("GET", path, None, "admin", version))["quota_class_set"]) == every | {"id"}
        set_ = await c.ok("PUT", path, {"quota_class_set": {"cores": 6}}, "admin", version)
        assert set(set_["quota_class_set"]) == every and set_["quota_class_set"]["cores"] == 6

    run(play)


def test_limits_are_a_projects_own_then_everybodys_then_the_settings() -> None:
    async def play(c: Cloud) -> None:
        async def cores(project: str) -> int:
            return int((await c.ok("GET", f"/os-quota-sets/{project}", token="admin"))["quota_set"]["cores"])

        assert await cores("p1") == 40_000
        await c.ok("PUT", "/os-quota-class-sets/default", {"quota_class_set": {"cores": 7}}, "admin")
        await c.ok("PUT", "/os-quota-class-sets/other", {"quota_class_set": {"cores": 8}}, "admin")
        await c.ok("PUT", "/os-quota-sets/p1", {"quota_set": {"cores": "9"}}, "admin")
        assert (await cores("p1"), await cores("p2")) == (9, 7)
        assert (await c.ok("GET", "/limits"))["limits"]["absolute"]["maxTotalCores"] == 9
        assert (await c.ask("DELETE", "/os-quota-sets/p1", token="admin")).status_code == 202
        assert await cores("p1") == 7

    run(play)


def test_a_limit_below_what_is_used_is_forced_or_refused() -> None:
    async def play(c: Cloud) -> None:
        await c.server()
        path = "/os-quota-sets/p1"
        assert (await c.ask("PUT", path, {"quota_set": {"instances": 0}}, "admin")).status_code == 400
        assert (await c.ask("PUT", path, {"quota_set": {"instances": 0, "force": "True"}}, "admin")).status_code == 200
        image = "10000000-0000-4000-8000-000000000000"
        body = {"server": {"name": "n", "imageRef": image, "flavorRef": "1"}}
        assert (await c.ask("POST", "/servers", body)).status_code == 403, "what was taken ahead is not given out"
        detail = (await c.ok("GET", f"{path}/detail"))["quota_set"]
        assert detail["instances"] == {"in_use": 1, "limit": 0, "reserved": 0}
        for wrong in ({"instances": -2}, {"instances": "x"}, {"junk": 1}, {"cores": 2**40}):
            assert (await c.ask("PUT", path, {"quota_set": wrong}, "admin")).status_code == 400, wrong

    run(play)
