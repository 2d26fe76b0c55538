"""Images as records: what may be set, who sees which, lists in pages, sharing."""

from __future__ import annotations

from dataclasses import replace
from urllib.parse import urlsplit

import pytest

from tests.api.glance.cloud import OLD, SETTINGS, Cloud, run

ID = "0a1b2c3d-0000-4000-8000-00000000abcd"


def test_a_new_image_shows_what_was_said_and_what_follows() -> None:
    async def play(c: Cloud) -> None:
        fields = {"id": ID.upper(), "name": "n", "min_disk": 3, "hw_x": "y", "tags": ["b", "a", "b"], "os_hidden": True}
        answer = await c.ask("POST", "/v2/images", fields)
        assert answer.status_code == 201 and answer.headers["location"].endswith(f"/image/v2/images/{ID}")
        assert answer.headers["openstack-image-import-methods"] == "glance-direct,web-download"
        shown = answer.json()
        assert shown == await c.ok("GET", f"/v2/images/{ID}")
        assert (shown["id"], shown["status"], shown["visibility"], shown["owner"]) == (ID, "queued", "shared", "p1")
        assert shown["tags"] == ["b", "a"] and shown["hw_x"] == "y" and shown["os_hidden"] is True
        assert shown["self"] == f"/v2/images/{ID}" and "stores" not in shown and shown["size"] is None

    run(play)


def test_an_id_is_never_had_again() -> None:
    async def play(c: Cloud) -> None:
        await c.image(id=ID)
        assert (await c.ask("POST", "/v2/images", {"id": ID}, "other")).status_code == 409
        await c.ok("DELETE", f"/v2/images/{ID}")
        assert (await c.ask("POST", "/v2/images", {"id": ID}, "other")).status_code == 409
        assert (await c.ask("POST", "/v2/images", {"id": "x"})).status_code == 400

    run(play)


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({"disk_format": "wrong"}, 400), ({"container_format": "wrong"}, 400), ({"visibility": "x"}, 400),
        ({"min_disk": -1}, 400), ({"min_ram": 2**31}, 400), ({"min_ram": True}, 400), ({"protected": "yes"}, 400),
        ({"name": "x" * 256}, 400), ({"tags": "x"}, 400), ({"tags": [1]}, 400), ({"a": 1}, 400), ({"a": None}, 400),
        ({"status": "active"}, 403), ({"size": 1}, 403), ({"os_glance_x": "y"}, 403), ({"locations": []}, 403),
        ({"checksum": "x"}, 403), ({"owner": "p2"}, 403), ({"visibility": "public"}, 403), ({"members": "x"}, 403),
        ({f"k{n}": "v" for n in range(129)}, 413), ({"tags": [str(n) for n in range(129)]}, 413),
        ({"a": "x" * 65_536}, 413), ({"a" * 256: "x"}, 400), ({"stores": "x"}, 403),
    ],
)  # fmt: skip
def test_what_does_not_fit_makes_no_image(fields: dict[str, object], status: int) -> None:
    async def play(c: Cloud) -> None:
        assert (await c.ask("POST", "/v2/images", fields)).status_code == status
        assert await c.ids() == []

    run(play)


def test_both_dialects_of_a_change() -> None:
    async def play(c: Cloud) -> None:
        id = await c.image(hw_x="1")
        new = await c.patch(
            id,
            {"op": "replace", "path": "/name", "value": "new"},
            {"op": "add", "path": "/a~1b~0c", "value": "v"},
            {"op": "remove", "path": "/hw_x"},
        )
        assert new.status_code == 200 and new.json()["name"] == "new" and new.json()["a/b~c"] == "v"
        assert "hw_x" not in new.json()
        old = await c.patch(id, {"add": "/tags", "value": ["t"]}, {"replace": "/min_ram", "value": 5}, kind=OLD)
        assert old.json()["tags"] == ["t"] and old.json()["min_ram"] == 5
        # All of it or nothing.
        mixed = [{"op": "replace", "path": "/name", "value": "z"}, {"op": "replace", "path": "/none", "value": "v"}]
        assert (await c.patch(id, *mixed)).status_code == 409
        assert (await c.ok("GET", f"/v2/images/{id}"))["name"] == "new"
        assert (await c.patch(id, {"op": "remove", "path": "/none"})).status_code == 409
        assert (await c.patch(id, {"op": "remove", "path": "/name"})).status_code == 403
        add = {"op": "add", "value": ""}
        for bad in ({**add, "op": "test", "path": "/x"}, {"op": "add", "path": "/x"}, {**add, "path": "x"},
                    {**add, "path": "/x/y"}, {**add, "path": "/~2"}, {**add, "path": "/"}, {}):  # fmt: skip
            assert (await c.patch(id, bad)).status_code == 400, bad
        assert (await c.patch(id, {"add": "/x", "remove": "/x"}, kind=OLD)).status_code == 400
        assert (await c.patch(id, {"op": "add", "path": "/locations/-", "value": {}})).status_code == 403
        assert (await c.patch(id, kind="application/json")).status_code == 415

    run(play)


def test_what_the_sdk_takes_for_properties_may_be_removed_and_stays() -> None:
    async def play(c: Cloud) -> None:
        id = await c.image(data=b"x")
        kinds = [{"op": "remove", "path": f"/{name}"} for name in ("stores", "os_glance_failed_import")]
        shown = (await c.patch(id, *kinds, {"op": "add", "path": "/a", "value": "b"})).json()
        assert (shown["stores"], shown["a"]) == ("files", "b")
        assert (await c.patch(id, {"op": "replace", "path": "/stores", "value": "x"})).status_code == 403

    run(play)


def test_formats_are_set_before_the_data_and_not_after() -> None:
    async def play(c: Cloud) -> None:
        id = await c.image(data=b"x")
        change = {"op": "replace", "path": "/disk_format", "value": "qcow2"}
        assert (await c.patch(id, change)).status_code == 403
        assert (await c.patch(await c.image(), change)).json()["disk_format"] == "qcow2"

    run(play)


def test_who_sees_which_image() -> None:
    """By visibility and by who asks: seen by its id, and found in the list."""

    async def play(c: Cloud) -> None:
        made = {kind: await c.image("admin", data=b"x", visibility=kind)
                for kind in ("public", "community", "shared", "private")}  # fmt: skip
        every = set(made)
        seen = {"member": every, "other": {"public", "community"}, "admin": every, "system-reader": every}
        listed = {**seen, "other": {"public"}}
        for token, theirs in seen.items():
            for kind, id in made.items():
                there = kind in theirs
                answer = await c.ask("GET", f"/v2/images/{id}", token=token)
                assert answer.status_code == (200 if there else 404), (token, kind)
                for method, path in (("PUT", "/file"), ("GET", "/file"), ("DELETE", ""), ("PUT", "/tags/x")):
                    if not there and token == "other":
                        content = b"x" if (method, path) == ("PUT", "/file") else None
                        answer = await c.ask(method, f"/v2/images/{id}{path}", token=token, content=content)
                        assert answer.status_code == 404, (method, path)
            found = set(await c.ids(token=token))
            assert {kind for kind, id in made.items() if id in found} == listed[token], token
        assert await c.ids("?visibility=community", "other") == [made["community"]]
        assert set(await c.ids("?visibility=all", "other")) == {made["public"], made["community"]}
        for kind in ("public", "community"):
            assert (await c.ask("GET", f"/v2/images/{made[kind]}/file", token="other")).content == b"x"
            assert (await c.ask("DELETE", f"/v2/images/{made[kind]}", token="other")).status_code == 403
        answer = await c.ask("GET", f"/v2/images?marker={made['private']}", token="other")
        assert answer.status_code == 400

    run(play)


def test_sharing_is_offered_and_answered() -> None:
    async def play(c: Cloud) -> None:
        id = await c.image(data=b"x")
        path = f"/v2/images/{id}/members"
        assert (await c.ask("GET", path, token="other")).status_code == 404
        member = await c.ok("POST", path, {"member": "p2"})
        assert (member["member_id"], member["status"], member["schema"]) == ("p2", "pending", "/v2/schemas/member")
        assert (await c.ask("POST", path, {"member": "p2"})).status_code == 409
        # Seen at once by its id, and in lists when it was accepted, or asked for.
        assert await c.status(id, "other") == "active" and await c.ids(token="other") == []
        assert await c.ids("?visibility=shared&member_status=pending", "other") == [id]
        assert await c.ids("?member_status=all", "other") == [id]
        assert (await c.ask("PUT", f"{path}/p2", {"status": "accepted"})).status_code == 403
        assert (await c.ask("PUT", f"{path}/p2", {"status": "x"}, "other")).status_code == 400
        await c.ok("PUT", f"{path}/p2", {"status": "accepted"}, "other")
        assert await c.ids(token="other") == [id]
        assert (await c.ask("GET", f"/v2/images/{id}/file", token="other")).content == b"x"
        await c.ok("POST", path, {"member": "p3"})
        # A member sees itself only, and changes nothing of the image.
        assert [one["member_id"] for one in (await c.ok("GET", path, token="other"))["members"]] == ["p2"]
        assert (await c.ask("GET", f"{path}/p3", token="other")).status_code == 404
        assert len((await c.ok("GET", path))["members"]) == 2
        for method, body in (("DELETE", None), ("POST", {"member": "p4"})):
            where = path if method == "POST" else f"{path}/p2"
            assert (await c.ask(method, where, body, "other")).status_code == 403
        await c.ok("DELETE", f"{path}/p2")
        assert (await c.ask("GET", f"/v2/images/{id}", token="other")).status_code == 404
        assert (await c.ask("DELETE", f"{path}/p2")).status_code == 404
        private = await c.image(visibility="private")
        assert (await c.ask("POST", f"/v2/images/{private}/members", {"member": "p2"})).status_code == 403
        await c.ok("POST", path, {"member": "p2"})
        await c.patch(id, {"op": "replace", "path": "/visibility", "value": "private"})
        assert (await c.ask("GET", f"/v2/images/{id}", token="other")).status_code == 404

    run(play)


def test_filters() -> None:
    async def play(c: Cloud) -> None:
        a = await c.image(name="a", tags=["x", "y"], data=b"12345", hw_x="1", min_ram=5)
        b = await c.image(name="b,c", tags=["x"], disk_format="qcow2", protected=True, note='"x","hw_x":"1"')
        h = await c.image(name="h", os_hidden=True)
        shown = await c.ok("GET", f"/v2/images/{a}")
        for query, found in (
            ("", [b, a]), ("?name=a", [a]), ('?name=in:a,"b,c"', [b, a]), ("?status=active", [a]), ("?tag=x", [b, a]),
            ("?tag=x&tag=y", [a]), ("?disk_format=in:qcow2,raw", [b, a]), ("?disk_format=qcow2", [b]),
            ("?size_min=5&size_max=5", [a]), ("?size_min=6", []), ("?size=5", [a]), ("?protected=true", [b]),
            ("?os_hidden=true", [h]), (f"?id=in:{a},{h}", [a]), ("?hw_x=1", [a]), ("?hw_x=2", []), ("?min_ram=5", [a]),
            (f"?checksum={shown['checksum']}", [a]), (f"?os_hash_value={shown['os_hash_value']}", [a]),
            ("?owner=p1", [b, a]), ("?owner=p2", []), ("?visibility=private", []), ("?visibility=shared", [b, a]),
            (f"?created_at={shown['created_at']}&name=a", [a]), ("?created_at=lt:2000-01-01T00:00:00Z", []),
            ("?created_at=gte:2000-01-01T00:00:00Z", [b, a]), (f"?updated_at=neq:{shown['updated_at']}&name=a", []),
            ("?sort=name:asc", [a, b]), ("?sort_key=name&sort_dir=desc", [b, a]), ("?sort=size:asc", [b, a]),
            ("?sort_key=status&sort_key=name&sort_dir=asc", [a, b]),
        ):  # fmt: skip
            assert await c.ids(query) == found, query
        for bad in ("sort=x", "sort=name:up", "sort=name&sort_key=name", "size_min=x", "visibility=x", "limit=x",
                    "member_status=x", "created_at=x", "protected=x", "marker=x",
                    "sort_key=name&sort_key=size&sort_dir=asc&sort_dir=asc&sort_dir=asc"):  # fmt: skip
            assert (await c.ask("GET", f"/v2/images?{bad}")).status_code == 400, bad

    run(play)


@pytest.mark.parametrize("sort", ["", "sort=name:asc", "sort=size:desc,name:asc", "sort_key=name&sort_dir=desc",
                                  "sort=disk_format:asc", "sort=id:asc", "sort=created_at:asc"])  # fmt: skip
def test_pages_make_the_whole_list(sort: str) -> None:
    """Also where values are equal, or missing."""

    async def play(c: Cloud) -> None:
        names = [None, "b", "a", "b", None, "c", "a"]
        for at, name in enumerate(names):
            await c.image(name=name, data=b"x" * at if at % 2 else None, disk_format="raw" if at % 2 else None)
        query = f"&{sort}" if sort else ""
        whole = await c.ids(f"?limit=100{query}")
        assert len(whole) == len(names)
        found: list[str] = []
        answer = await c.ok("GET", f"/v2/images?limit=2{query}")
        assert answer["first"].startswith("/v2/images?limit=2")
        for _ in range(9):
            found += [one["id"] for one in answer["images"]]
            if "next" not in answer:
                break
            parts = urlsplit(answer["next"])
            assert parts.path == "/v2/images"
            answer = await c.ok("GET", answer["next"])
        assert found == whole
        assert await c.ids("?limit=0") == []

    run(play)


def test_a_protected_image_stays_and_a_project_has_so_many() -> None:
    async def play(c: Cloud) -> None:
        id = await c.image(protected=True)
        assert (await c.ask("DELETE", f"/v2/images/{id}")).status_code == 403
        await c.image()
        refused = await c.ask("POST", "/v2/images", {})
        assert refused.status_code == 413 and "2 images" in refused.json()["message"]
        await c.image("other")
        await c.patch(id, {"op": "replace", "path": "/protected", "value": False})
        await c.ok("DELETE", f"/v2/images/{id}")
        await c.image()

    run(play, replace(SETTINGS, quota_images=2))


def test_owners_are_changed_by_admins() -> None:
    async def play(c: Cloud) -> None:
        id = await c.image("admin", owner="p2")
        assert (await c.ok("GET", f"/v2/images/{id}", token="other"))["owner"] == "p2"
        change = {"op": "replace", "path": "/owner", "value": "p1"}
        assert (await c.patch(id, change, token="other")).status_code == 403
        assert (await c.patch(id, change, token="admin")).json()["owner"] == "p1"
        assert (await c.ask("GET", f"/v2/images/{id}", token="other")).status_code == 404

    run(play)


def test_tags_come_and_go() -> None:
    async def play(c: Cloud) -> None:
        id = await c.image()
        for _ in range(2):
            assert (await c.ask("PUT", f"/v2/images/{id}/tags/a%20b")).status_code == 204
        assert (await c.ok("GET", f"/v2/images/{id}"))["tags"] == ["a b"]
        assert (await c.ask("DELETE", f"/v2/images/{id}/tags/a%20b")).status_code == 204
        assert (await c.ask("DELETE", f"/v2/images/{id}/tags/a%20b")).status_code == 404
        assert (await c.ask("PUT", f"/v2/images/{id}/tags/{'x' * 256}")).status_code == 400

    run(play)


def test_schemas_and_what_there_is() -> None:
    async def play(c: Cloud) -> None:
        for name in ("image", "images", "member", "members", "task", "tasks"):
            assert (await c.ok("GET", f"/v2/schemas/{name}"))["name"] == name
        assert (await c.ask("GET", "/v2/schemas/none")).status_code == 404
        image = await c.ok("GET", f"/v2/images/{await c.image(data=b'x')}")
        assert set(image) == set((await c.ok("GET", "/v2/schemas/image"))["properties"])
        assert (await c.ok("GET", "/v2/info/stores"))["stores"][0]["id"] == image["stores"]
        assert "glance-direct" in (await c.ok("GET", "/v2/info/import"))["import-methods"]["value"]
        for path in ("/v2/metadefs/namespaces", "/v2/cache", "/v2/images/", "/v2"):
            assert (await c.ask("GET", path)).status_code == 404
        versions = (await c.ask("GET", "/")).json()["versions"]
        assert versions[0]["status"] == "CURRENT" and versions[0]["links"][0]["href"].endswith("/image/v2/")

    run(play)


def test_a_refusal_is_text_where_json_is_not_read() -> None:
    async def play(c: Cloud) -> None:
        answer = await c.ask("GET", f"/v2/images/{ID}", headers={"Accept": "text/html"})
        assert answer.status_code == 404 and answer.text.startswith("404 Not Found")

    run(play)
