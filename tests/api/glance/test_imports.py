"""Imports: what was staged, and what an address names."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import replace

from tests.api.glance.cloud import SETTINGS, Cloud, run
from tests.api.glance.test_data import LEADS_ELSEWHERE

URL = "http://images.example/a?secret=1"
DIRECT = {"method": {"name": "glance-direct"}}


def web(uri: str = URL) -> dict[str, object]:
    return {"method": {"name": "web-download", "uri": uri}}


def test_what_was_staged_becomes_the_data() -> None:
    async def play(c: Cloud) -> None:
        id = await c.image()
        assert (await c.ask("POST", f"/v2/images/{id}/import", DIRECT)).status_code == 409
        await c.ok("PUT", f"/v2/images/{id}/stage", content=b"staged")
        assert await c.status(id) == "uploading"
        assert (await c.ask("GET", f"/v2/images/{id}/file")).status_code == 204
        assert (await c.ask("PUT", f"/v2/images/{id}/file", content=b"x")).status_code == 409
        answer = await c.ask("POST", f"/v2/images/{id}/import", DIRECT)
        assert answer.status_code == 202 and await c.status(id) == "active"
        (task,) = (await c.ok("GET", f"/v2/images/{id}/tasks"))["tasks"]
        assert task["status"] == "success" and task["request_id"] == answer.headers["x-openstack-request-id"]
        assert task["input"]["import_req"]["method"] == {"name": "glance-direct"}
        assert (await c.ask("GET", f"/v2/images/{id}/file")).content == b"staged"
        assert (await c.ask("GET", f"/v2/images/{id}/tasks", token="other")).status_code == 404
        assert (await c.ok("GET", f"/v2/tasks/{task['id']}", token="admin"))["image_id"] == id

    run(play)


def test_data_is_fetched_from_an_address() -> None:
    async def play(c: Cloud) -> None:
        c.fetcher.there[URL] = b"fetched"
        c.fetcher.held = asyncio.Event()
        id = await c.image()
        await c.ok("POST", f"/v2/images/{id}/import", web())
        shown = await c.ok("GET", f"/v2/images/{id}")
        assert (shown["status"], shown["os_glance_importing_to_stores"]) == ("importing", "files")
        assert (await c.ask("POST", f"/v2/images/{id}/import", web())).status_code == 409
        c.fetcher.held.set()
        await c.images.imports.idle()
        assert (await c.ask("GET", f"/v2/images/{id}/file")).content == b"fetched"
        (task,) = (await c.ok("GET", f"/v2/images/{id}/tasks"))["tasks"]
        # A query may be a secret of the user's.
        assert task["status"] == "success" and "secret" not in str(task)

    run(play)


def test_a_fetch_that_fails_says_so_and_may_be_tried_again() -> None:
    async def play(c: Cloud) -> None:
        id = await c.image()
        for wrong in ("it did not answer", b"x" * (SETTINGS.most + 1)):
            c.fetcher.there[URL] = wrong
            await c.ok("POST", f"/v2/images/{id}/import", web())
            await c.images.imports.idle()
            shown = await c.ok("GET", f"/v2/images/{id}")
            assert (shown["status"], shown["os_glance_failed_import"]) == ("queued", "files")
            task = (await c.ok("GET", f"/v2/images/{id}/tasks"))["tasks"][0]
            assert task["status"] == "failure" and ("answer" in task["message"] or "larger" in task["message"])
            assert c.kept() == []
        c.fetcher.there[URL] = b"x"
        await c.ok("POST", f"/v2/images/{id}/import", web())
        await c.images.imports.idle()
        assert "os_glance_failed_import" not in await c.ok("GET", f"/v2/images/{id}")
        assert await c.status(id) == "active"

    run(play)


def test_what_was_fetched_is_looked_at_too() -> None:
    async def play(c: Cloud) -> None:
        c.fetcher.there[URL] = LEADS_ELSEWHERE.ljust(70_000, b"\0")
        id = await c.image(disk_format="qcow2")
        await c.ok("POST", f"/v2/images/{id}/import", web())
        await c.images.imports.idle()
        shown = await c.ok("GET", f"/v2/images/{id}")
        assert (shown["status"], shown["os_glance_failed_import"], c.kept()) == ("queued", "files", [])
        (task,) = (await c.ok("GET", f"/v2/images/{id}/tasks"))["tasks"]
        assert task["status"] == "failure" and "backing_file" in task["message"]

    run(play)


def test_a_fetch_has_a_deadline_and_fetches_wait_in_a_bounded_queue() -> None:
    async def play(c: Cloud) -> None:
        c.fetcher.held = asyncio.Event()
        made = [await c.image() for _ in range(4)]
        for id in made[:3]:
            await c.ok("POST", f"/v2/images/{id}/import", web())
        answer = await c.ask("POST", f"/v2/images/{made[3]}/import", web())
        assert answer.status_code == 503 and answer.headers["retry-after"] == "60"
        assert await c.status(made[3]) == "queued"
        await c.images.imports.idle()
        for id in made[:3]:
            (task,) = (await c.ok("GET", f"/v2/images/{id}/tasks"))["tasks"]
            assert task["status"] == "failure" and "0.2 seconds" in task["message"]

    run(play, replace(SETTINGS, waiting=4, fetch_deadline=0.2))


def test_an_image_that_is_deleted_while_it_is_fetched() -> None:
    async def play(c: Cloud) -> None:
        c.fetcher.there[URL] = b"x"
        c.fetcher.held = asyncio.Event()
        id = await c.image()
        await c.ok("POST", f"/v2/images/{id}/import", web())
        await c.ok("DELETE", f"/v2/images/{id}")
        c.fetcher.held.set()
        await c.images.imports.idle()
        assert c.kept() == [] and (await c.ask("GET", f"/v2/images/{id}")).status_code == 404

    run(play)


def test_what_is_no_import() -> None:
    async def play(c: Cloud) -> None:
        id = await c.image()
        path = f"/v2/images/{id}/import"
        for uri in ("http://127.0.0.1/", "http://10.0.0.1/", "http://169.254.169.254/latest", "file:///etc/passwd",
                    "http://[::1]/", "http://localhost/", "http://images.example:22/", "gopher://a/", "http://u:p@a/",
                    "http://2130706433/", "http://0x7f.1/", "http://[::ffff:127.0.0.1]/", "", "http:///x"):  # fmt: skip
            answer = await c.ask("POST", path, web(uri))
            assert answer.status_code == 400 and "does not pass filtering" in answer.json()["message"], uri
        assert (await c.ask("POST", path, {"method": {"name": "copy-image"}})).status_code == 400
        assert (await c.ask("POST", path, {**web(), "stores": ["elsewhere"]})).status_code == 400
        assert (await c.ask("POST", path, {})).status_code == 400
        bare = await c.image(disk_format=None)
        assert (await c.ask("POST", f"/v2/images/{bare}/import", web())).status_code == 409
        assert c.fetcher.asked == [] and await c.status(id) == "queued"

    run(play)


def test_a_zone_that_fetches_nothing() -> None:
    async def play(c: Cloud) -> None:
        id = await c.image()
        assert (await c.ok("GET", "/v2/info/import"))["import-methods"]["value"] == ["glance-direct"]
        assert (await c.ask("POST", f"/v2/images/{id}/import", web())).status_code == 400

    run(play, replace(SETTINGS, web_download=False))


def test_the_older_way_to_ask_for_an_image_and_its_data() -> None:
    async def play(c: Cloud) -> None:
        c.fetcher.there[URL] = b"x"
        properties = {"name": "t", "disk_format": "raw", "container_format": "bare"}
        task_input = {"import_from": URL, "import_from_format": "raw", "image_properties": properties}
        task = await c.ok("POST", "/v2/tasks", {"type": "import", "input": task_input}, "admin")
        await c.images.imports.idle()
        assert await c.status(task["image_id"], "admin") == "active"
        listed = await c.ok("GET", "/v2/tasks?limit=1", token="admin")
        assert listed["tasks"][0]["result"] == {"image_id": task["image_id"]} and "next" in listed
        assert (await c.ok("GET", listed["next"], token="admin"))["tasks"] == []
        wrong = {"type": "import", "input": {**task_input, "import_from": "http://127.0.0.1/"}}
        assert (await c.ask("POST", "/v2/tasks", wrong, "admin")).status_code == 400
        assert len(await c.ids(token="admin")) == 1

    run(play)


def test_what_breaks_inside_is_told_as_a_failure() -> None:
    async def play(c: Cloud) -> None:
        async def broken(url: str) -> AsyncGenerator[bytes, None]:
            yield b"x"
            raise ZeroDivisionError

        c.fetcher.fetch = broken
        id = await c.image()
        await c.ok("POST", f"/v2/images/{id}/import", web())
        await c.images.imports.idle()
        (task,) = (await c.ok("GET", f"/v2/images/{id}/tasks"))["tasks"]
        assert task["status"] == "failure" and "inside the zone" in task["message"]
        assert await c.status(id) == "queued"

    run(play)
