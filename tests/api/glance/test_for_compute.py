"""What compute asks of images: to boot from one, and to keep a server's disk as one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from msgspec import structs

from banyan.core.errors import NotFound, Refused
from banyan.core.ids import RackCode, ZoneCode
from banyan.core.order import FlavorSnapshot, ImageSource, Specification
from banyan.core.principal import Principal
from banyan.core.records import Unit
from banyan.core.server import Action, ActionRecord, EventRecord, Server, Task, VmState
from banyan.core.time import Wall
from banyan.store.inline import InlineStore
from banyan.zone.images.for_compute import FORGOTTEN, GRACE
from tests.api.glance.cloud import SETTINGS, Cloud, run

FLAVOR = FlavorSnapshot("1", "m1", 1, 512, 5, 0, 0, {})
BASE = ImageSource("b0000000-0000-4000-8000-000000000000", "b", disk_format="qcow2", container_format="bare",
                   properties={"hw_x": "y", "img_signature": "s", "instance_uuid": "old"})  # fmt: skip


def server(c: Cloud, id: str = "s1", task: Task = Task.SNAPSHOTTING) -> Server:
    spec = Specification("web", {}, flavor=FLAVOR, image=BASE)
    made = Server(id, ZoneCode(1), "p1", "u1", "web", RackCode(7), "h1", spec, Wall(1.0), Wall(1.0),
                  VmState.ACTIVE, task)  # fmt: skip
    c.servers.rows[id] = made
    return made


def done(c: Cloud, who: Principal, id: str = "s1", result: str = "success", message: str = "") -> None:
    event = EventRecord("compute_snapshot", Wall(1.0), Wall(2.0), result)
    record = ActionRecord(id, who.request, Action.SNAPSHOT, ZoneCode(1), "p1", "u1", Wall(1.0), Wall(2.0), message,
                          (event,))  # fmt: skip
    c.servers.done[id] = (record,)
    c.servers.rows[id] = structs.replace(c.servers.rows[id], task=Task.NONE)


def member(c: Cloud, request: str = "req-1") -> Principal:
    return replace(c.gate.known["member"], request=request)


def test_a_server_boots_from_what_its_user_sees() -> None:
    async def play(c: Cloud) -> None:
        id = await c.image(data=b"12345", min_disk=2, min_ram=64, hw_x="y", visibility="private")
        found = await c.images.for_compute.find(member(c), id)
        assert (found.status, found.min_disk_gib, found.min_memory_mib, found.size_bytes) == ("active", 2, 64, 5)
        shown = await c.ok("GET", f"/v2/images/{id}")
        assert found.source.checksum == f"sha512:{shown['os_hash_value']}" and found.source.properties == {"hw_x": "y"}
        detail = await c.images.for_compute.show(member(c), id)
        assert (detail.name, detail.size_bytes, dict(detail.properties)) == ("cirros", 5, {"hw_x": "y"})
        for what in (id, "no-uuid", ""):
            with pytest.raises(NotFound, match="could not be found"):
                await c.images.for_compute.find(c.gate.known["other"], what)
        queued = await c.image()
        assert (await c.images.for_compute.find(member(c), queued)).status == "queued"
        page = await c.images.for_compute.page(member(c), "", 10, {"status": "active"})
        assert [one.id for one in page] == [id]
        await c.images.for_compute.delete(member(c), id)
        with pytest.raises(NotFound):
            await c.images.for_compute.delete(member(c), id)

    run(play)


def test_what_was_booted_from_is_remembered_until_it_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    reads: list[object] = []
    read = InlineStore.read

    async def counted(store: InlineStore, work: Callable[[Unit], object]) -> object:
        reads.append(work)
        return await read(store, work)

    async def play(c: Cloud) -> None:
        id = await c.image(data=b"12345", visibility="private")
        who, find = member(c), c.images.for_compute.find
        first = await find(who, id)
        monkeypatch.setattr(InlineStore, "read", counted)
        assert await find(who, id) == first and not reads
        with pytest.raises(NotFound):
            await find(c.gate.known["other"], id)
        await c.patch(id, {"op": "replace", "path": "/visibility", "value": "shared"})
        await c.ok("POST", f"/v2/images/{id}/members", {"member": "p2"})
        assert (await find(c.gate.known["other"], id)).source.id == id
        await c.ask("DELETE", f"/v2/images/{id}/members/p2")
        with pytest.raises(NotFound):
            await find(c.gate.known["other"], id)
        await find(who, id)
        await c.ok("POST", f"/v2/images/{id}/actions/deactivate", token="admin")
        assert (await find(who, id)).status == "deactivated", "at once"
        await c.ask("DELETE", f"/v2/images/{id}", token="admin")
        with pytest.raises(NotFound):
            await find(who, id)

    run(play)


def test_a_snapshot_is_active_when_its_server_is_done() -> None:
    async def play(c: Cloud) -> None:
        who = member(c)
        await c.image("admin", id=BASE.id, min_ram=48)
        words = {"a": "b", "status": "active", "os_glance_x": "y"}
        source = await c.images.for_compute.reserve(who, "snap", server(c), words, "snapshot")
        shown = await c.ok("GET", f"/v2/images/{source.id}")
        assert (shown["status"], shown["visibility"]) == ("queued", "private")
        assert (shown["min_disk"], shown["min_ram"]) == (5, 48)
        assert (shown["disk_format"], shown["image_type"], shown["instance_uuid"]) == ("qcow2", "snapshot", "s1")
        assert (shown["base_image_ref"], shown["hw_x"], shown["a"]) == (BASE.id, "y", "b")
        assert "img_signature" not in shown and "os_glance_x" not in shown
        asked = (({"image_type": "snapshot"}, 1), ({"instance_uuid": "s1"}, 1), ({"instance_uuid": "s2"}, 0))
        for wanted, count in asked:
            found = await c.images.for_compute.page(who, "", 10, wanted)
            assert [one.id for one in found] == [source.id] * count, wanted
        # Nobody else fills it.
        assert (await c.ask("PUT", f"/v2/images/{source.id}/file", content=b"x")).status_code == 409
        assert await c.images.for_compute.settle() == 1
        c.servers.away = True
        assert await c.images.for_compute.settle() == 1
        c.servers.away = False
        done(c, who)
        assert await c.images.for_compute.settle() == 0
        shown = await c.ok("GET", f"/v2/images/{source.id}")
        assert (shown["status"], shown["size"]) == ("active", 0)
        await c.images.for_compute.abandon(who, source)
        assert await c.status(source.id) == "active"
        assert (await c.ask("GET", f"/v2/images/{source.id}/file")).status_code == 204

    run(play)


@pytest.mark.parametrize("result", [("error", ""), ("error", "no room"), ("success", "no room")])
def test_a_snapshot_that_failed_goes(result: tuple[str, str]) -> None:
    async def play(c: Cloud) -> None:
        who = member(c)
        source = await c.images.for_compute.reserve(who, "snap", server(c), {}, "snapshot")
        done(c, who, "s1", *result)
        assert await c.images.for_compute.settle() == 0
        assert (await c.ask("GET", f"/v2/images/{source.id}")).status_code == 404

    run(play)


def test_a_snapshot_of_a_server_that_is_gone_or_never_heard_of_it_goes() -> None:
    async def play(c: Cloud) -> None:
        lost = await c.images.for_compute.reserve(member(c), "a", server(c, "s1"), {}, "snapshot")
        never = await c.images.for_compute.reserve(member(c), "b", server(c, "s2", Task.NONE), {}, "snapshot")
        del c.servers.rows["s1"]
        # Not at once: after a restart nobody knows for a while where the servers are.
        assert await c.images.for_compute.settle() == 2
        c.clock.at += FORGOTTEN + 1
        assert await c.images.for_compute.settle() == 1
        assert await c.ids() == [lost.id] != [never.id]
        c.clock.at += GRACE
        assert await c.images.for_compute.settle() == 0
        assert await c.ids() == []

    run(play)


def test_after_a_restart_the_snapshots_are_looked_after_still() -> None:
    async def play(c: Cloud) -> None:
        who = member(c)
        source = await c.images.for_compute.reserve(who, "snap", server(c), {}, "snapshot")
        await c.images.close()
        await c.restarted()
        done(c, who)
        assert await c.images.for_compute.settle() == 0 and await c.status(source.id) == "active"

    run(play)


async def backup(c: Cloud, n: int, keep: int, kind: str = "daily") -> str:
    """The id of an image that a backup under way will fill."""
    one, who = server(c), member(c, f"req-{n}")
    asked = {"backup_type": kind}
    return (await c.images.for_compute.reserve(who, f"b{n}", one, asked, "backup", keep)).id


def test_backups_are_rotated_when_the_new_one_is_there() -> None:
    async def play(c: Cloud) -> None:
        made: list[str] = []
        for n in range(4):
            made.append(await backup(c, n, 2, "daily" if n != 1 else "weekly"))
            c.clock.at += 1
            if n == 3:
                await c.images.for_compute.settle()
                assert set(await c.ids()) == set(made), "nothing goes before the new one is filled"
            done(c, member(c, f"req-{n}"))
            await c.images.for_compute.settle()
        shown = await c.ok("GET", f"/v2/images/{made[2]}")
        assert (shown["image_type"], shown["backup_type"]) == ("backup", "daily")
        assert set(await c.ids()) == set(made[1:])
        failed = await backup(c, 4, 1)
        c.clock.at += 1
        filled = await backup(c, 6, 2)
        done(c, member(c, "req-6"))
        await c.images.for_compute.settle()
        assert set(await c.ids()) == {*made[1:2], made[3], failed, filled}, "what is not filled takes no place"
        made[2] = filled
        done(c, member(c, "req-4"), "s1", "error")
        await c.images.for_compute.settle()
        assert set(await c.ids()) == set(made[1:]) != {failed}, "a backup that failed costs none"
        await backup(c, 5, 0)
        done(c, member(c, "req-5"))
        await c.images.for_compute.settle()
        assert await c.ids() == [made[1]]

    run(play)


def shelved(c: Cloud, *records: tuple[Action, str, str], task: Task = Task.NONE, state: VmState) -> None:
    """The server and what was done to it, the newest first: (action, request, result)."""
    c.servers.rows["s1"] = structs.replace(server(c, task=task), state=state)
    c.servers.done["s1"] = tuple(
        ActionRecord(
            "s1", request, action, ZoneCode(1), "p1", "u1", Wall(1.0), Wall(2.0),
            "Error" if result == "error" else "", (EventRecord(f"compute_{action}", Wall(1.0), Wall(2.0), result),),
        )
        for action, request, result in records
    )  # fmt: skip


SHELVE = (Action.SHELVE, "shelve", "success")


async def kept_disk(c: Cloud) -> str:
    """The id of the image that keeps the disk of s1, which is shelved."""
    one = server(c, task=Task.SHELVING)
    id = (await c.images.for_compute.reserve(member(c, "shelve"), "web-shelved", one, {}, "shelved")).id
    shelved(c, SHELVE, state=VmState.OFFLOADED)
    assert await c.images.for_compute.settle() == 0 and await c.status(id) == "active"
    return id


@pytest.mark.parametrize("restarted", [False, True])
def test_the_disk_of_a_shelved_server_stays_until_it_runs_again(restarted: bool) -> None:
    async def look(c: Cloud) -> int:
        waiting = await c.images.for_compute.settle()
        if restarted:
            await c.images.for_compute.walk()
        return waiting

    async def play(c: Cloud) -> None:
        id = await kept_disk(c)
        # An older one ran again, which says nothing about this one.
        shelved(c, SHELVE, (Action.UNSHELVE, "old", "success"), state=VmState.OFFLOADED)
        c.images.for_compute.unshelved("s1")
        assert await look(c) == 0 and await c.ids() == [id]
        shelved(c, (Action.UNSHELVE, "u1", ""), SHELVE, state=VmState.OFFLOADED, task=Task.UNSHELVING)
        if restarted:
            await c.images.close()
            await c.restarted()
        else:
            c.images.for_compute.unshelved("s1")
        assert await look(c) == (0 if restarted else 1) and await c.ids() == [id]
        c.servers.away = True
        await look(c)
        c.servers.away = False
        shelved(c, (Action.UNSHELVE, "u1", "error"), SHELVE, state=VmState.OFFLOADED)
        assert await look(c) == 0 and await c.ids() == [id], "the build failed: it is needed still"
        shelved(c, (Action.UNSHELVE, "u2", "success"), (Action.UNSHELVE, "u1", "error"), SHELVE, state=VmState.ACTIVE)
        c.images.for_compute.unshelved("s1")
        assert await look(c) == 0 and await c.ids() == []

    run(play)


def test_the_disk_of_a_shelved_server_goes_when_the_server_is_deleted_or_gone() -> None:
    async def play(c: Cloud) -> None:
        await kept_disk(c)
        shelved(c, SHELVE, state=VmState.DELETED)
        await c.images.for_compute.walk()
        assert await c.ids() == []
        id = await kept_disk(c)
        del c.servers.rows["s1"]
        await c.images.for_compute.walk()
        assert await c.ids() == [id], "found nowhere once"
        c.clock.at += GRACE
        await c.images.for_compute.walk()
        assert await c.ids() == []

    run(play)


def test_a_snapshot_counts_and_one_that_is_abandoned_does_not() -> None:
    async def play(c: Cloud) -> None:
        source = await c.images.for_compute.reserve(member(c), "a", server(c), {}, "snapshot")
        with pytest.raises(Refused, match="Quota exceeded"):
            await c.images.for_compute.reserve(member(c), "b", server(c), {}, "snapshot")
        for _ in range(2):
            await c.images.for_compute.abandon(member(c), source)
        await c.images.for_compute.reserve(member(c), "b", server(c), {}, "snapshot")

    run(play, replace(SETTINGS, quota_images=1))
