"""The data of images: an image is active when all of it is there, and what comes out is what went in."""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from banyan.core.errors import Broken
from banyan.core.image_ports import Reading
from banyan.core.records import StoreFull, StoreUnknown
from banyan.zone.images.refusals import OverSize
from tests.api.glance.cloud import SETTINGS, Cloud, run, until

CONTENT = bytes(range(256)) * 9_000  # more than two pieces


def test_what_was_sent_is_had_again_with_its_sums() -> None:
    async def play(c: Cloud) -> None:
        id = await c.image()
        assert (await c.ask("GET", f"/v2/images/{id}/file")).status_code == 204
        assert (await c.ask("PUT", f"/v2/images/{id}/file", content=CONTENT)).status_code == 204
        shown = await c.ok("GET", f"/v2/images/{id}")
        assert shown["status"] == "active" and shown["size"] == len(CONTENT) and shown["stores"] == "files"
        assert shown["checksum"] == hashlib.md5(CONTENT).hexdigest()
        assert (shown["os_hash_algo"], shown["os_hash_value"]) == ("sha512", hashlib.sha512(CONTENT).hexdigest())
        answer = await c.ask("GET", f"/v2/images/{id}/file")
        assert answer.content == CONTENT and answer.headers["content-md5"] == shown["checksum"]
        assert answer.headers["content-length"] == str(len(CONTENT))
        assert (await c.ask("PUT", f"/v2/images/{id}/file", content=b"other")).status_code == 409
        assert len(c.kept()) == 1

    run(play)


@pytest.mark.parametrize(
    ("asked", "first", "end"),
    [("bytes=0-9", 0, 10), ("bytes=5-5", 5, 6), ("bytes=100-", 100, None), ("bytes=-7", -7, None),
     ("bytes=10-99999999", 10, None), ("bytes=1048570-1048580", 1048570, 1048581)],
)  # fmt: skip
def test_a_range_of_it(asked: str, first: int, end: int | None) -> None:
    async def play(c: Cloud) -> None:
        id = await c.image(data=CONTENT)
        answer = await c.ask("GET", f"/v2/images/{id}/file", headers={"Range": asked})
        assert answer.status_code == 206 and answer.content == CONTENT[first:end]
        begin = first % len(CONTENT)
        assert answer.headers["content-range"] == f"bytes {begin}-{begin + len(answer.content) - 1}/{len(CONTENT)}"

    run(play)


def test_a_range_that_is_not_there_and_one_that_is_none() -> None:
    async def play(c: Cloud) -> None:
        id = await c.image(data=b"0123")
        assert (await c.ask("GET", f"/v2/images/{id}/file", headers={"Range": "bytes=4-"})).status_code == 416
        for odd in ("bytes=", "bytes=3-1", "lines=1-2", "bytes=0-1,2-3"):
            answer = await c.ask("GET", f"/v2/images/{id}/file", headers={"Range": odd})
            assert (answer.status_code, answer.content) == (200, b"0123"), odd

    run(play)


def test_an_image_is_active_only_when_its_data_is_durable(monkeypatch: pytest.MonkeyPatch) -> None:
    """In this order: the content, the name, the folder, the row."""
    done: list[str] = []
    sync, rename = os.fsync, os.rename

    def synced(descriptor: int) -> None:
        done.append("folder" if os.path.isdir(f"/proc/self/fd/{descriptor}") else "content")
        sync(descriptor)

    async def play(c: Cloud) -> None:
        id = await c.image()
        write = c.store.write

        async def written(name: str, work: object) -> object:
            if name == "image.received":
                done.append("row")
            return await write(name, work)

        monkeypatch.setattr(c.store, "write", written)
        monkeypatch.setattr(os, "fsync", synced)
        monkeypatch.setattr(os, "rename", lambda *a, **k: (done.append("name"), rename(*a, **k)))
        await c.ok("PUT", f"/v2/images/{id}/file", content=CONTENT)
        assert done == ["content", "name", "folder", "row"]

    run(play)


async def _broken() -> AsyncIterator[bytes]:
    yield CONTENT
    raise ConnectionError("gone")


def test_an_upload_that_breaks_off_leaves_nothing_and_may_be_tried_again() -> None:
    async def play(c: Cloud) -> None:
        id = await c.image()
        with pytest.raises(ConnectionError):
            await c.images.data.upload(c.gate.known["member"], id, _broken(), None)
        assert await c.status(id) == "queued" and c.kept() == []
        assert (await c.ask("PUT", f"/v2/images/{id}/file", content=b"x")).status_code == 204

    run(play)


def test_an_image_that_is_deleted_while_it_is_sent() -> None:
    async def play(c: Cloud) -> None:
        id = await c.image()

        async def pieces() -> AsyncIterator[bytes]:
            yield b"1"
            assert await c.status(id) == "saving"
            assert (await c.ask("PUT", f"/v2/images/{id}/file", content=b"2")).status_code == 409
            await c.ok("DELETE", f"/v2/images/{id}")
            yield b"2"

        answer = await c.ask("PUT", f"/v2/images/{id}/file", content=pieces())
        assert answer.status_code == 410 and c.kept() == []

    run(play)


@pytest.mark.parametrize("how", ["unknown", "cancelled"])
def test_a_commit_whose_answer_is_not_heard_loses_no_data(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The row says that the file is its data: then it is there."""

    async def play(c: Cloud) -> None:
        id, write = await c.image(), c.store.write
        inside, go_on = asyncio.Event(), asyncio.Event()

        async def unheard(name: str, work: object) -> object:
            done = await write(name, work)
            if name == "image.received":
                inside.set()
                await go_on.wait()
                if how == "unknown":
                    raise StoreUnknown("store-unknown", "no answer came")
            return done

        monkeypatch.setattr(c.store, "write", unheard)
        sending = asyncio.ensure_future(c.images.data.upload(c.gate.known["member"], id, _one(b"x"), None))
        await inside.wait()
        if how == "cancelled":
            sending.cancel()
        go_on.set()
        with pytest.raises((StoreUnknown, asyncio.CancelledError)):
            await sending
        assert await c.status(id) == "active"
        await c.images.data.sweep()
        assert (await c.ask("GET", f"/v2/images/{id}/file")).content == b"x"

    run(play)


def test_an_upload_that_can_not_be_undone_at_once_is_undone_later(monkeypatch: pytest.MonkeyPatch) -> None:
    async def play(c: Cloud) -> None:
        id, sent, write = await c.image(), await c.image(), c.store.write

        async def full(name: str, work: object) -> object:
            if name == "image.failed":
                raise StoreFull("store-full", "no room")
            return await write(name, work)

        monkeypatch.setattr(c.store, "write", full)
        with pytest.raises(ConnectionError):
            await c.images.data.upload(c.gate.known["member"], id, _broken(), None)
        assert await c.status(id) == "saving"

        async def pieces() -> AsyncIterator[bytes]:
            yield b"x"
            # What is being sent now is not taken for left.
            assert await c.images.data.recover() == 1
            assert (await c.status(id), await c.status(sent)) == ("queued", "saving")

        await c.ok("PUT", f"/v2/images/{sent}/file", content=pieces())
        assert await c.images.data.recover() == 0

    run(play)


async def _one(content: bytes) -> AsyncIterator[bytes]:
    yield content


def test_nothing_is_larger_than_it_may_be() -> None:
    async def play(c: Cloud) -> None:
        id = await c.image()

        taken: list[int] = []

        async def pieces() -> AsyncIterator[bytes]:
            for n in range(9):
                taken.append(n)
                yield b"x" * 500

        # Told before it comes, and found out while it comes.
        for content in (b"x" * 1_001, pieces()):
            answer = await c.ask("PUT", f"/v2/images/{id}/file", content=content)
            assert answer.status_code == 413 and await c.status(id) == "queued" and c.kept() == []
        # No more of it was taken than shows that it is too much.
        taken.clear()
        with pytest.raises(OverSize):
            await c.images.data.upload(c.gate.known["member"], id, pieces(), None)
        assert taken == [0, 1, 2]
        await c.ok("PUT", f"/v2/images/{id}/file", content=b"x" * 1_000)

    run(play, replace(SETTINGS, most=1_000))


def test_a_project_keeps_no_more_bytes_than_it_may() -> None:
    async def play(c: Cloud) -> None:
        await c.image(data=b"x" * 600)
        second = await c.image()
        assert (await c.ask("PUT", f"/v2/images/{second}/file", content=b"x" * 401)).status_code == 413
        await c.ok("PUT", f"/v2/images/{second}/file", content=b"x" * 400)
        usage = (await c.ok("GET", "/v2/info/usage"))["usage"]
        assert usage["image_count_total"] == {"limit": 1_000, "usage": 2}
        await c.image("other", data=b"x" * 1_000)

    run(play, replace(SETTINGS, quota_bytes=1_000))


def test_two_at_once_do_not_keep_more_than_their_project_may_either() -> None:
    async def play(c: Cloud) -> None:
        first, second = await c.image(), await c.image()
        inside = asyncio.Event()

        async def slow() -> AsyncIterator[bytes]:
            yield b"x" * 600
            await inside.wait()

        waiting = asyncio.ensure_future(c.ask("PUT", f"/v2/images/{first}/file", content=slow()))
        await c.reaches(first, "saving")
        await c.ok("PUT", f"/v2/images/{second}/file", content=b"x" * 600)
        inside.set()
        assert (await waiting).status_code == 413
        assert await c.status(first) == "queued" and len(c.kept()) == 1

    run(play, replace(SETTINGS, quota_bytes=1_000))


def test_so_many_are_sent_at_once_and_no_more() -> None:
    async def play(c: Cloud) -> None:
        first, second = await c.image(), await c.image()
        inside = asyncio.Event()

        async def slow() -> AsyncIterator[bytes]:
            await inside.wait()
            yield b"x"

        waiting = asyncio.ensure_future(c.ask("PUT", f"/v2/images/{first}/file", content=slow()))
        await c.reaches(first, "saving")
        refused = await c.ask("PUT", f"/v2/images/{second}/file", content=b"x")
        assert refused.status_code == 503 and refused.headers["retry-after"] == "5"
        inside.set()
        assert (await waiting).status_code == 204
        await c.ok("PUT", f"/v2/images/{second}/file", content=b"x")

    run(play, replace(SETTINGS, uploads=1))


async def drained(pieces: Reading, got: list[bytes]) -> None:
    try:
        async for piece in pieces:
            got.append(piece)
    finally:
        await pieces.aclose()


def test_data_that_is_not_what_was_stored_is_not_handed_out_whole() -> None:
    async def play(c: Cloud) -> None:
        id = await c.image(data=CONTENT)
        (name,) = c.kept()
        path = c.folder / name
        path.write_bytes(CONTENT[:-1] + b"?")
        part = await c.images.data.open(c.gate.known["member"], id, None)
        assert part.pieces is not None
        got: list[bytes] = []
        with pytest.raises(Broken, match="lost or damaged"):
            await drained(part.pieces, got)
        assert 0 < len(b"".join(got)) < len(CONTENT)
        for change in (lambda: path.write_bytes(CONTENT[:-1]), path.unlink):
            change()
            assert (await c.ask("GET", f"/v2/images/{id}/file")).status_code == 500

    run(play)


def test_an_image_without_formats_takes_no_data_and_other_kinds_are_refused() -> None:
    async def play(c: Cloud) -> None:
        id = await c.image(disk_format=None)
        answer = await c.ask("PUT", f"/v2/images/{id}/file", content=b"x")
        assert answer.status_code == 400 and "disk_format" in answer.json()["message"]
        id = await c.image()
        headers = {"Content-Type": "application/json"}
        assert (await c.ask("PUT", f"/v2/images/{id}/file", headers=headers, content=b"{}")).status_code == 415
        headers = {"X-Image-Meta-Store": "elsewhere"}
        assert (await c.ask("PUT", f"/v2/images/{id}/file", headers=headers, content=b"x")).status_code == 400
        assert await c.status(id) == "queued"

    run(play)


# A qcow2 header that names a backing file, and one that names none.
LEADS_ELSEWHERE = b"QFI\xfb\0\0\0\3" + (0x68).to_bytes(8, "big") + b"\0\0\0\x0b" + b"\0" * 84 + b"/etc/shadow"
STANDS_ALONE = b"QFI\xfb\0\0\0\3" + b"\0" * 12 + b"\0\0\0\x10" + (1 << 30).to_bytes(8, "big") + b"\0" * 480


@pytest.mark.parametrize(
    ("disk", "data"),
    [
        ("qcow2", LEADS_ELSEWHERE.ljust(70_000, b"\0")),
        ("qcow2", CONTENT),
        ("raw", STANDS_ALONE),
        ("vmdk", STANDS_ALONE),
    ],
)
@pytest.mark.parametrize("way", ["file", "stage"])
def test_data_that_is_not_of_its_format_or_names_other_files_is_refused(way: str, disk: str, data: bytes) -> None:
    async def play(c: Cloud) -> None:
        id = await c.image(disk_format=disk)
        answer = await c.ask("PUT", f"/v2/images/{id}/{way}", content=data)
        assert answer.status_code == 415 and disk in answer.text and "qemu-img" in answer.text
        shown = await c.ok("GET", f"/v2/images/{id}")
        assert (shown["status"], shown["size"], shown["virtual_size"], c.kept()) == ("queued", None, None, [])
        assert (await c.patch(id, {"op": "replace", "path": "/disk_format", "value": "qcow2"})).status_code == 200
        await c.ok("PUT", f"/v2/images/{id}/file", content=STANDS_ALONE)
        shown = await c.ok("GET", f"/v2/images/{id}")
        assert (shown["status"], shown["size"], shown["virtual_size"]) == ("active", len(STANDS_ALONE), 1 << 30)

    run(play)


def test_a_deactivated_image_is_for_admins_only() -> None:
    async def play(c: Cloud) -> None:
        id = await c.image(data=b"x")
        assert (await c.ask("POST", f"/v2/images/{id}/actions/deactivate")).status_code == 204
        assert await c.status(id) == "deactivated"
        assert (await c.ask("GET", f"/v2/images/{id}/file")).status_code == 403
        assert (await c.ask("GET", f"/v2/images/{id}/file", token="admin")).content == b"x"
        assert (await c.ask("POST", f"/v2/images/{id}/actions/reactivate")).status_code == 204
        assert (await c.ask("GET", f"/v2/images/{id}/file")).content == b"x"
        empty = await c.image()
        assert (await c.ask("POST", f"/v2/images/{empty}/actions/deactivate")).status_code == 403

    run(play)


def test_whoever_reads_goes_on_when_the_image_is_deleted() -> None:
    async def play(c: Cloud) -> None:
        id = await c.image(data=CONTENT)
        part = await c.images.data.open(c.gate.known["member"], id, None)
        await c.ok("DELETE", f"/v2/images/{id}")
        assert part.pieces is not None and c.kept() == []
        assert b"".join([piece async for piece in part.pieces]) == CONTENT
        await part.pieces.aclose()

    run(play)


def test_after_a_kill_what_was_half_done_is_undone() -> None:
    async def play(c: Cloud) -> None:
        whole = await c.image(data=b"whole")
        staged = await c.image()
        await c.ok("PUT", f"/v2/images/{staged}/stage", content=b"staged")
        halves = [await c.image() for _ in range(3)]
        never = asyncio.Event()

        async def stuck() -> AsyncIterator[bytes]:
            yield CONTENT
            await never.wait()

        member = c.gate.known["member"]
        await c.ok("GET", "/v2/images")
        c.fetcher.held = never
        body = {"method": {"name": "web-download", "uri": "http://images.example/a"}}
        await c.ok("POST", f"/v2/images/{halves[2]}/import", body)
        jobs = [
            asyncio.ensure_future(c.images.data.upload(member, halves[0], stuck(), None)),
            asyncio.ensure_future(c.images.data.stage(member, halves[1], stuck(), None)),
        ]

        async def written() -> bool:
            return len(c.kept()) == 5

        await until(written)
        assert [await c.status(id) for id in halves] == ["saving", "uploading", "importing"]
        before = c.images
        (c.folder / "stray.part").write_bytes(b"x")
        await c.restarted()
        assert [await c.status(id) for id in halves] == ["queued"] * 3
        assert await c.status(whole) == "active" and await c.status(staged) == "uploading"
        assert [name.partition(".")[0] for name in c.kept()] == sorted([whole, staged])
        shown = await c.ok("GET", f"/v2/images/{halves[2]}")
        assert shown["os_glance_failed_import"] == "files"
        (task,) = (await c.ok("GET", f"/v2/images/{halves[2]}/tasks"))["tasks"]
        assert task["status"] == "failure" and "restarted" in task["message"]
        await c.ok("POST", f"/v2/images/{staged}/import", {"method": {"name": "glance-direct"}})
        assert (await c.ask("GET", f"/v2/images/{staged}/file")).content == b"staged"
        for job in jobs:
            job.cancel()
        await asyncio.gather(*jobs, return_exceptions=True)
        await before.close()

    run(play)


def test_a_sweep_takes_nothing_that_is_being_sent_or_was() -> None:
    async def play(c: Cloud) -> None:
        kept, sent = await c.image(data=b"kept"), await c.image()

        async def pieces() -> AsyncIterator[bytes]:
            yield CONTENT
            (c.folder / "stray").write_bytes(b"x")
            assert await c.images.data.sweep() == 1
            yield CONTENT[:9]

        await c.ok("PUT", f"/v2/images/{sent}/file", content=pieces())
        assert await c.images.data.sweep() == 0
        assert (await c.ask("GET", f"/v2/images/{sent}/file")).content == CONTENT + CONTENT[:9]
        assert (await c.ask("GET", f"/v2/images/{kept}/file")).content == b"kept"

    run(play)
