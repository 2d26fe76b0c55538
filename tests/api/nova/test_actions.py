"""What is done to servers through the compute API: actions, their states, images, metadata, tags."""

from __future__ import annotations

from dataclasses import replace as with_fields
from typing import Any

import pytest
from msgspec.structs import replace

from banyan.core.errors import Unreachable
from banyan.core.quota import DEFAULTS, Quota
from banyan.core.server import Action, Task, VmState
from tests.api.nova.cloud import Cloud, run
from tests.api.nova.fakes import BIG_IMAGE, IMAGE, NETWORK, PORT, QUEUED_IMAGE


async def act(c: Cloud, id: str, key: str, value: object = None, **more: Any) -> int:
    return (await c.ask("POST", f"/servers/{id}/action", {key: value}, **more)).status_code


async def status(c: Cloud, id: str) -> str:
    return str((await c.ok("GET", f"/servers/{id}"))["server"]["status"])


# (actions in order with the status that each leads to)
WALKS = [
    [("os-stop", None, "SHUTOFF"), ("os-start", None, "ACTIVE")],
    [("pause", None, "PAUSED"), ("unpause", None, "ACTIVE")],
    [("suspend", None, "SUSPENDED"), ("resume", None, "ACTIVE")],
    [("rescue", {"adminPass": "x"}, "RESCUE"), ("unrescue", None, "ACTIVE")],
    [("shelve", None, "SHELVED_OFFLOADED"), ("unshelve", None, "ACTIVE")],
    [("reboot", {"type": "SOFT"}, "ACTIVE"), ("reboot", {"type": "hard"}, "ACTIVE")],
    [("resize", {"flavorRef": "2"}, "VERIFY_RESIZE"), ("confirmResize", None, "ACTIVE")],
    [("resize", {"flavorRef": 2}, "VERIFY_RESIZE"), ("revertResize", None, "ACTIVE")],
    [("os-stop", None, "SHUTOFF"), ("resize", {"flavorRef": "2"}, "VERIFY_RESIZE"), ("confirmResize", None, "SHUTOFF")],
    [("changePassword", {"adminPass": "new"}, "ACTIVE")],
    [("createImage", {"name": "i", "metadata": {"a": "b"}}, "ACTIVE")],
]


@pytest.mark.parametrize("walk", WALKS, ids=lambda walk: "-".join(key for key, *_ in walk))
def test_actions_lead_where_they_say(walk: list[tuple[str, object, str]]) -> None:
    async def play(c: Cloud) -> None:
        id = await c.server()
        for key, value, after in walk:
            got = await act(c, id, key, value)
            assert got == {"confirmResize": 204, "rescue": 200}.get(key, 202)
            assert await status(c, id) == after

    run(play)


@pytest.mark.parametrize(
    ("key", "value", "word", "task"),
    [
        ("reboot", {"type": "SOFT"}, "REBOOT", "rebooting"),
        ("reboot", {"type": "HARD"}, "HARD_REBOOT", "rebooting_hard"),
        ("rebuild", {"imageRef": IMAGE}, "REBUILD", "rebuilding"),
        ("resize", {"flavorRef": "2"}, "RESIZE", "resize_prep"),
        ("changePassword", {"adminPass": "x"}, "PASSWORD", "updating_password"),
        ("os-stop", None, "ACTIVE", "powering-off"),
        ("createImage", {"name": "i"}, "ACTIVE", "image_snapshot"),
        ("forceDelete", None, "ACTIVE", "deleting"),
    ],
)
def test_what_is_under_way_is_shown_and_everything_else_waits(key: str, value: object, word: str, task: str) -> None:
    async def play(c: Cloud) -> None:
        id = await c.server()
        c.servers.held = True
        await act(c, id, key, value)
        shown = (await c.ok("GET", f"/servers/{id}"))["server"]
        assert (shown["status"], shown["OS-EXT-STS:task_state"]) == (word, task)
        answer = await c.ask("POST", f"/servers/{id}/action", {"pause": None})
        assert answer.status_code == 409
        assert c.servers.rows[id].task.value in answer.json()["conflictingRequest"]["message"]
        assert await act(c, id, "forceDelete") == 202, "a delete waits for nothing"

    run(play)


def test_a_wrong_state_is_409_and_says_what_would_be_possible() -> None:
    async def play(c: Cloud) -> None:
        id = await c.server()
        for key, value in (("os-start", None), ("resume", None), ("unshelve", None), ("revertResize", None),
                           ("confirmResize", None), ("unpause", None)):  # fmt: skip
            answer = await c.ask("POST", f"/servers/{id}/action", {key: value})
            assert answer.status_code == 409, key
            assert "possible are" in answer.json()["conflictingRequest"]["message"]

    run(play)


def test_a_lock_binds_its_owner_and_not_an_administrator() -> None:
    async def play(c: Cloud) -> None:
        id = await c.server()
        assert await act(c, id, "lock", {"locked_reason": "mine"}, version="2.73") == 202
        shown = (await c.ok("GET", f"/servers/{id}", version="2.73"))["server"]
        assert (shown["locked"], shown["locked_reason"]) == (True, "mine")
        assert await act(c, id, "os-stop") == 409
        assert await act(c, id, "os-stop", token="admin") == 202
        assert await act(c, id, "unlock") == 202
        assert await act(c, id, "os-start") == 202
        assert await act(c, id, "lock", {"locked_reason": ""}, version="2.73") == 400

    run(play)


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("reboot", {"type": "warm"}, "not one of"),
        ("reboot", {}, "required"),
        ("reboot", None, "object"),
        ("resize", {"flavorRef": "none"}, "could not be found"),
        ("resize", {"flavorRef": None}, "flavorRef"),
        ("resize", {"flavorRef": "1"}, "must change flavor"),
        ("rebuild", {"imageRef": QUEUED_IMAGE}, "not active"),
        ("rebuild", {"imageRef": IMAGE, "name": ""}, "too short"),
        ("createImage", {"name": "x" * 256}, "255"),
        ("createImage", {"name": "i", "metadata": {"": "b"}}, "metadata"),
        ("createBackup", {"name": "b", "backup_type": "daily"}, "rotation"),
        ("createBackup", {"name": "b", "backup_type": "daily", "rotation": -1}, "minimum"),
        ("os-getConsoleOutput", {"length": "many"}, "length"),
        ("os-resetState", {"state": "stopped"}, "state"),
        ("changePassword", {}, "adminPass"),
        ("unknown", None, "no such action"),
    ],
)
def test_what_is_wrong_with_an_action_is_named(key: str, value: object, words: str) -> None:
    async def play(c: Cloud) -> None:
        id = await c.server()
        answer = await c.ask("POST", f"/servers/{id}/action", {key: value}, "admin")
        assert answer.status_code == 400
        assert words in answer.json()["badRequest"]["message"]

    run(play)


@pytest.mark.parametrize(
    ("limit", "words"),
    [
        ({"min_disk_gib": 2}, "Flavor disk is 1073741824 bytes, image is 2147483648 bytes"),
        ({"min_memory_mib": 513}, "memory is too small"),
        ({"size_bytes": (1 << 30) + 1}, "Flavor disk is 1073741824 bytes, image is 1073741825 bytes"),
    ],
)
def test_a_rebuild_takes_no_image_that_does_not_fit(limit: dict[str, int], words: str) -> None:
    async def play(c: Cloud) -> None:
        id = await c.server()
        c.images.known[BIG_IMAGE] = with_fields(c.images.known[IMAGE], **limit)
        for path, body in (
            (f"/servers/{id}/action", {"rebuild": {"imageRef": BIG_IMAGE}}),
            ("/servers", {"server": {"name": "s", "imageRef": BIG_IMAGE, "flavorRef": "1", "networks": "none"}}),
        ):
            answer = await c.ask("POST", path, body, version="2.37")
            assert answer.status_code == 400, answer.text
            assert words in answer.json()["badRequest"]["message"]

    run(play)


def test_a_resize_is_counted_before_it_begins() -> None:
    async def play(c: Cloud) -> None:
        id = await c.server()
        await c.server()
        answer = await c.ask("POST", f"/servers/{id}/action", {"resize": {"flavorRef": "4"}})
        assert answer.status_code == 403
        assert "Requested 3" in answer.json()["forbidden"]["message"]
        assert await act(c, id, "resize", {"flavorRef": "3"}) == 202
        assert await act(c, id, "revertResize") == 202
        assert await act(c, id, "resize", {"flavorRef": "3"}) == 202, "what was given back can be had again"

    run(play, {**DEFAULTS, Quota.VCPU: 3})


def test_resizes_are_listed_as_migrations_with_what_came_of_them() -> None:
    async def play(c: Cloud) -> None:
        first, second = await c.server(), await c.server()
        await act(c, first, "resize", {"flavorRef": "2"})
        await act(c, first, "confirmResize")
        await act(c, second, "resize", {"flavorRef": "2"})
        await act(c, second, "revertResize")
        third = await c.server("admin")
        await act(c, third, "migrate", token="admin")
        found = (await c.ok("GET", "/os-migrations", token="admin", version="2.80"))["migrations"]
        assert [(one["instance_uuid"], one["status"], one["migration_type"]) for one in found] == [
            (third, "finished", "migration"),
            (second, "reverted", "resize"),
            (first, "confirmed", "resize"),
        ]
        assert found[0]["dest_compute"] == "host-h9" and found[0]["user_id"] == "u-admin"
        page = await c.ok("GET", "/os-migrations?limit=2", token="admin", version="2.59")
        assert len(page["migrations"]) == 2 and "marker=" in page["migrations_links"][0]["href"]
        rest = await c.ok(
            "GET", f"/os-migrations?marker={page['migrations'][1]['uuid']}", token="admin", version="2.59"
        )
        assert [one["instance_uuid"] for one in rest["migrations"]] == [first]
        assert (await c.ask("GET", "/os-migrations?junk=1", token="admin", version="2.59")).status_code == 400
        only = await c.ok("GET", f"/os-migrations?instance_uuid={second}&status=reverted", token="admin")
        assert len(only["migrations"]) == 1 and "uuid" not in only["migrations"][0]

    run(play)


def test_a_rebuild_changes_what_it_names_and_empties_what_is_null() -> None:
    async def play(c: Cloud) -> None:
        await c.ok("POST", "/os-keypairs", {"keypair": {"name": "k"}})
        id = await c.server(description="d", user_data="aGk=", accessIPv4="1.2.3.4", metadata={"old": "1"})
        body = {"imageRef": IMAGE, "name": "n", "key_name": "k", "description": None, "metadata": {"new": "2"}}
        shown = (await c.ok("POST", f"/servers/{id}/action", {"rebuild": body}, version="2.57"))["server"]
        assert (shown["name"], shown["key_name"], shown["description"]) == ("n", "k", None)
        assert (shown["metadata"], shown["accessIPv4"], shown["user_data"]) == ({"new": "2"}, "1.2.3.4", "aGk=")
        body = {"imageRef": IMAGE, "key_name": None, "user_data": None, "accessIPv4": ""}
        shown = (await c.ok("POST", f"/servers/{id}/action", {"rebuild": body}, version="2.57"))["server"]
        assert (shown["key_name"], shown["user_data"], shown["accessIPv4"]) == (None, None, "")

    run(play)


def test_images_of_servers_are_reserved_and_given_up_if_the_server_refuses() -> None:
    async def play(c: Cloud) -> None:
        id = await c.server()
        answer = await c.ask("POST", f"/servers/{id}/action", {"createImage": {"name": "i"}}, version="2.44")
        image = c.images.reserved[0][0]
        assert answer.headers["Location"] == f"http://cloud:8780/image/v2/images/{image}"
        body = {"createBackup": {"name": "b", "backup_type": "daily", "rotation": "2"}}
        answer = await c.ask("POST", f"/servers/{id}/action", body, version="2.45")
        assert answer.json() == {"image_id": c.images.reserved[1][0]}
        assert c.images.reserved[1][2:] == ("backup", {"backup_type": "daily"})
        assert c.images.rotated == [(id, "daily", 2)]
        c.servers.held = True
        await act(c, id, "createImage", {"name": "first"})
        assert await act(c, id, "createImage", {"name": "second"}) == 409
        assert [name for _, name, *_ in c.images.reserved] == ["i", "b", "first"]
        c.servers.finish(id)
        c.servers.held = False
        await act(c, id, "shelve")
        assert c.images.reserved[-1][1:3] == ("web-shelved", "shelved")
        await act(c, id, "unshelve")
        assert c.images.unshelving == [id] and c.images.reserved[-1][2] == "shelved", "it is not done yet"

    run(play)


@pytest.mark.parametrize(
    ("action", "value"),
    [
        (Action.SHELVE, {"shelve": None}),
        (Action.SNAPSHOT, {"createImage": {"name": "i"}}),
        (Action.SNAPSHOT, {"createBackup": {"name": "i", "backup_type": "daily", "rotation": 1}}),
    ],
)
@pytest.mark.parametrize(("code", "kept"), [("server-undecided", True), ("member-unreachable", False)])
def test_an_image_of_which_nobody_knows_whether_it_will_be_filled_stays(
    action: Action, value: dict[str, Any], code: str, kept: bool
) -> None:
    async def play(c: Cloud) -> None:
        id = await c.server()
        real = c.servers.act

        async def lost(who: Any, id: str, what: Action, arguments: Any = None) -> Any:
            if what is action and kept:
                await real(who, id, what, arguments)
            raise Unreachable(code, "no answer", transient=True)

        c.servers.act = lost
        assert (await c.ask("POST", f"/servers/{id}/action", value)).status_code == 503
        assert bool(c.images.reserved) is kept

    run(play)


def test_a_console_has_so_many_lines_as_were_asked_for() -> None:
    async def play(c: Cloud) -> None:
        id = await c.server()

        async def lines(value: object) -> int:
            answer = await c.ok("POST", f"/servers/{id}/action", {"os-getConsoleOutput": value})
            return len(answer["output"].split("\n")) if answer["output"] else 0

        assert [await lines({"length": n}) for n in (3, "5", 0)] == [3, 5, 0]
        assert await lines({}) >= 50 and await lines({"length": -1}) >= 50 and await lines(None) >= 50

    run(play)


def test_actions_are_remembered_with_their_steps() -> None:
    async def play(c: Cloud) -> None:
        id = await c.server()
        answer = await c.ask("POST", f"/servers/{id}/action", {"os-stop": None})
        request = answer.headers["X-Openstack-Request-Id"]
        listed = (await c.ok("GET", f"/servers/{id}/os-instance-actions", version="2.58"))["instanceActions"]
        assert [one["action"] for one in listed] == ["stop", "create"]
        page = await c.ok("GET", f"/servers/{id}/os-instance-actions?limit=1", version="2.58")
        assert page["links"][0]["href"].endswith(f"?limit=1&marker={request}")
        beyond = await c.ok("GET", f"/servers/{id}/os-instance-actions?marker={request}", version="2.58")
        assert [one["action"] for one in beyond["instanceActions"]] == ["create"]
        path = f"/servers/{id}/os-instance-actions/{request}"
        assert "events" not in (await c.ok("GET", path, version="2.50"))["instanceAction"]
        event = (await c.ok("GET", path, version="2.62"))["instanceAction"]["events"][0]
        assert set(event) == {"event", "start_time", "finish_time", "result", "hostId"}
        assert event["result"] == "Success" and event["hostId"]
        admin = (await c.ok("GET", path, token="admin", version="2.84"))["instanceAction"]["events"][0]
        assert set(admin) == set(event) | {"traceback", "host", "details"}
        await c.ok("DELETE", f"/servers/{id}")
        assert (await c.ask("GET", path, version="2.20")).status_code == 404
        assert (await c.ask("GET", path, version="2.21")).status_code == 200
        assert (await c.ask("GET", f"/servers/{id}/os-instance-actions/req-none", version="2.21")).status_code == 404

    run(play)


# --- metadata and tags ----------------------------------------------------------------------------


def test_metadata_is_merged_replaced_and_dropped_and_what_is_ours_stays_out_of_it() -> None:
    async def play(c: Cloud) -> None:
        id = await c.server(metadata={"a": "1"}, accessIPv4="1.2.3.4")
        path = f"/servers/{id}/metadata"
        assert await c.ok("GET", path) == {"metadata": {"a": "1"}}
        assert await c.ok("POST", path, {"metadata": {"b": "2"}}) == {"metadata": {"a": "1", "b": "2"}}
        assert await c.ok("POST", path, {"metadata": {}}) == {"metadata": {"a": "1", "b": "2"}}
        assert await c.ok("PUT", path, {"metadata": {"c.d e": "ü"}}) == {"metadata": {"c.d e": "ü"}}
        assert await c.ok("GET", f"{path}/c.d%20e") == {"meta": {"c.d e": "ü"}}
        assert await c.ok("PUT", f"{path}/k", {"meta": {"k": "v"}}) == {"meta": {"k": "v"}}
        assert (await c.ask("DELETE", f"{path}/k")).status_code == 204
        assert (await c.ask("GET", f"{path}/k")).status_code == 404
        assert (await c.ask("DELETE", f"{path}/k")).status_code == 404
        assert (await c.ask("GET", f"{path}/banyan:access_ipv4")).status_code == 404
        assert (await c.ok("GET", f"/servers/{id}"))["server"]["accessIPv4"] == "1.2.3.4"
        for method, where, body, wanted in (
            ("PUT", f"{path}/k", {"meta": {"other": "v"}}, 400), ("PUT", f"{path}/k", {"meta": {}}, 400),
            ("PUT", f"{path}/k", {"meta": {"k": "v", "l": "v"}}, 400), ("PUT", path, {"meta": {}}, 400),
            ("POST", path, {"metadata": {"a" * 256: "v"}}, 400), ("POST", path, {"metadata": {"a": 1}}, 400),
            ("POST", path, {"metadata": {"banyan:access_ipv4": "6.6.6.6"}}, 400),
            ("POST", path, {"metadata": {str(n): "" for n in range(128)}}, 403),
        ):  # fmt: skip
            assert (await c.ask(method, where, body)).status_code == wanted, (where, body)

    run(play)


def test_tags_are_a_set() -> None:
    async def play(c: Cloud) -> None:
        v = "2.26"
        id = await c.server(tags=["a"])
        path = f"/servers/{id}/tags"
        assert await c.ok("GET", path, version=v) == {"tags": ["a"]}
        made = await c.ask("PUT", f"{path}/b%20c", version=v)
        assert (made.status_code, made.headers["Location"]) == (201, f"http://cloud:8780/compute/v2.1{path}/b%20c")
        assert (await c.ask("PUT", f"{path}/b%20c", version=v)).status_code == 204
        assert (await c.ask("GET", f"{path}/b%20c", version=v)).status_code == 204
        assert (await c.ask("GET", f"{path}/none", version=v)).status_code == 404
        assert (await c.ask("PUT", f"{path}/a,b", version=v)).status_code == 400
        assert (await c.ask("PUT", f"{path}/{'x' * 61}", version=v)).status_code == 400
        many = [str(n) for n in range(50)]
        assert await c.ok("PUT", path, {"tags": [*many, "0"]}, version=v) == {"tags": many}
        assert (await c.ask("PUT", f"{path}/more", version=v)).status_code == 400
        assert (await c.ask("DELETE", f"{path}/0", version=v)).status_code == 204
        assert (await c.ask("DELETE", f"{path}/0", version=v)).status_code == 404
        assert (await c.ask("DELETE", path, version=v)).status_code == 204
        assert await c.ok("GET", path, version=v) == {"tags": []}

    run(play)


# --- interfaces, faults ---------------------------------------------------------------------------


def test_interfaces_come_and_go() -> None:
    async def play(c: Cloud) -> None:
        id = await c.server()
        path = f"/servers/{id}/os-interface"
        made = await c.ok("POST", path, {"interfaceAttachment": {"net_id": NETWORK, "tag": "t"}}, version="2.70")
        assert made["interfaceAttachment"]["tag"] == "t"
        for wrong in (
            {"net_id": NETWORK, "port_id": PORT}, {"fixed_ips": [{"ip_address": "10.0.0.3"}]}, {"net_id": "x"},
            {"net_id": NETWORK, "fixed_ips": [{"ip_address": "10.0.0.300"}]},
        ):  # fmt: skip
            assert (await c.ask("POST", path, {"interfaceAttachment": wrong})).status_code == 400, wrong
        assert (await c.ask("DELETE", f"{path}/{PORT}")).status_code == 404

    run(play)


def test_a_fault_is_shown_with_its_reason_and_its_detail_to_administrators() -> None:
    async def play(c: Cloud) -> None:
        id = await c.server()
        await act(c, id, "os-resetState", {"state": "error"}, token="admin")
        row = c.servers.rows[id]
        assert row.fault is not None
        c.servers.rows[id] = replace(row, fault=replace(row.fault, detail="host h1 said no"))
        shown = (await c.ok("GET", f"/servers/{id}"))["server"]
        assert shown["status"] == "ERROR" and set(shown["fault"]) == {"code", "created", "message"}
        assert "progress" not in shown
        admin = (await c.ok("GET", f"/servers/{id}", token="admin"))["server"]
        assert admin["fault"]["details"] == "host h1 said no"

    run(play)


def test_a_server_of_another_project_is_not_there_for_any_action() -> None:
    async def play(c: Cloud) -> None:
        id = await c.server()
        before = c.servers.rows[id]
        for key, value in (
            ("os-stop", None), ("reboot", {"type": "HARD"}), ("resize", {"flavorRef": "2"}), ("shelve", None),
            ("rebuild", {"imageRef": IMAGE}), ("createImage", {"name": "i"}), ("confirmResize", None),
            ("forceDelete", None), ("lock", None), ("rescue", None),
        ):  # fmt: skip
            assert await act(c, id, key, value, token="other") == 404, key
        assert c.servers.rows[id] == before
        assert c.images.reserved == []

    run(play)


def test_words_cover_all_that_the_tree_may_say() -> None:
    from banyan.api.nova import words

    assert set(words.STATE_WORDS) == set(VmState)
    assert set(words.TASK_WORDS) == set(Task)
    assert set(words.ACTION_WORDS) == set(Action)
    for word in ("ACTIVE", "BUILD", "REBOOT", "VERIFY_RESIZE", "SHELVED_OFFLOADED", "ERROR", "PASSWORD"):
        assert words.behind((word,)) is not None
    assert words.behind(("junk",)) is None
    assert words.behind(("REBOOT",)) == ((VmState.ACTIVE,), (Task.REBOOTING,))


@pytest.mark.parametrize(
    ("body", "action"),
    [
        ({"changePassword": {"adminPass": "s3cret"}}, "set_password"),
        ({"rescue": {"adminPass": "s3cret"}}, "rescue"),
        ({"rebuild": {"imageRef": IMAGE, "adminPass": "s3cret"}}, "rebuild"),
        ({"rescue": {}}, "rescue"),
    ],
)
def test_a_password_goes_to_the_server_and_is_the_one_that_the_answer_names(
    body: dict[str, dict[str, str]], action: str
) -> None:
    async def play(c: Cloud) -> None:
        id = await c.server()
        answer = await c.ok("POST", f"/servers/{id}/action", body)
        named = (answer or {}).get("adminPass") or ((answer or {}).get("server") or {}).get("adminPass") or "s3cret"
        ((done, password),) = c.servers.passwords
        assert password is not None
        assert (done, password.reveal().decode()) == (action, named)

    run(play)
