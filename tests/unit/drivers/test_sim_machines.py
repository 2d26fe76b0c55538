"""The simulated hosts' own memory: what it keeps, over torn writes and full disks, and what it calls wrong."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from msgspec.structs import replace

from banyan.core.deed import Deed, DeedFailed, Operation
from banyan.core.errors import Broken
from banyan.core.ids import RackCode, ZoneCode, guest_id
from banyan.core.order import Specification
from banyan.core.resources import MEMORY_MIB, ResourceClass
from banyan.core.server import Power, Server
from banyan.core.time import Mono, Wall
from banyan.drivers.sim.book import FileBook
from banyan.drivers.sim.machines import Machines

NOW = Mono(100.0)


def room(host: str) -> Mapping[ResourceClass, int]:
    return {MEMORY_MIB: 1_024}


def server(n: int = 1, host: str = "h1", move: int = 1) -> Server:
    id, at = guest_id(1_800_000_000_000 + n, RackCode(1), n), Wall(1.0)
    spec = Specification("web", {"memory_mib": 512})
    return Server(id, ZoneCode(1), "p1", "u1", f"web-{n}", RackCode(1), host, spec, at, at, move=move)


def build(machines: Machines, one: Server, at: Mono = NOW) -> None:
    machines.begin(Deed(Operation.CREATE, one, 1), at, 0.5, room)
    machines.do(Deed(Operation.CREATE, one, 1), at, room)


def opened(path: Path, at: Mono = NOW) -> Machines:
    machines = Machines(FileBook(path))
    machines.open(at)
    return machines


def test_a_build_takes_its_time_whoever_waits_for_it() -> None:
    machines = Machines()
    ready = machines.begin(Deed(Operation.CREATE, server(), 1), NOW, 0.5, room)
    assert ready == NOW + 0.5
    assert machines.begin(Deed(Operation.CREATE, server(), 1), Mono(NOW + 0.2), 0.5, room) == ready
    seen = machines.sight(server().id, Mono(NOW + 0.4))
    assert seen is not None
    assert seen.power is Power.OFF
    seen = machines.sight(server().id, ready)
    assert seen is not None
    assert seen.power is Power.RUNNING


def test_it_is_kept_in_a_file(tmp_path: Path) -> None:
    path = tmp_path / "rack" / "machines"
    machines = opened(path)
    for n in range(3):
        build(machines, server(n))
    machines.do(Deed(Operation.DELETE, server(0), 2), NOW, room)
    machines.do(Deed(Operation.STOP, server(1), 2), NOW, room)
    machines.flush()
    later = opened(path)
    assert later.guests() == [server(1).id, server(2).id]
    assert [later.sight(id, NOW) for id in later.guests()] == [machines.sight(id, NOW) for id in machines.guests()]
    assert path.stat().st_mode & 0o777 == 0o600
    assert later.count("h1") == 2


@pytest.mark.parametrize("cut", range(1, 40, 7))
def test_a_torn_last_entry_is_left_out(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "machines"
    machines = opened(path)
    build(machines, server(1))
    machines.flush()
    build(machines, server(2))
    machines.close()
    path.write_bytes(path.read_bytes()[:-cut])
    again = opened(path)
    assert server(1).id in again.guests()
    build(again, server(3))
    again.close()
    assert server(3).id in opened(path).guests()


def test_garbage_ends_the_reading_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "machines"
    machines = opened(path)
    build(machines, server(1))
    machines.close()
    path.write_bytes(path.read_bytes() + (9).to_bytes(4) + b"\xc1" * 9 + b"\xff" * 50)
    assert opened(path).guests() == [server(1).id]


def test_a_file_of_old_entries_is_written_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("banyan.drivers.sim.book._SLACK", 10)
    path = tmp_path / "machines"
    machines = opened(path)
    for number in range(30):
        machines.begin(Deed(Operation.CREATE, server(), 1), NOW, 0.0, room)
        machines.do(Deed(Operation.REBOOT, server(), number + 2), NOW, room)
    machines.close()
    before = path.stat().st_size
    assert opened(path).guests() == [server().id]
    assert path.stat().st_size < before / 5


def test_a_full_disk_is_told_and_what_was_done_is_kept_for_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "machines"
    machines = opened(path)
    build(machines, server(1))
    real = __import__("os").write
    monkeypatch.setattr("banyan.drivers.sim.book.os.write", lambda fd, entries: real(fd, entries[:5]))
    with pytest.raises(Broken) as broken:
        machines.flush()
    assert broken.value.code == "sim-book"
    assert path.stat().st_size == 0
    monkeypatch.setattr("banyan.drivers.sim.book.os.write", real)
    machines.flush()
    assert opened(path).guests() == [server(1).id]


def test_after_a_reboot_of_the_machine_a_build_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "machines"
    machines = opened(path, Mono(1e6))
    machines.begin(Deed(Operation.CREATE, server(), 1), Mono(1e6), 0.5, room)
    machines.close()
    again = opened(path, Mono(5.0))
    seen = again.sight(server().id, Mono(10.0))
    assert seen is not None
    assert seen.power is Power.RUNNING


def test_what_should_never_be_asked_is_written_down() -> None:
    machines = Machines()
    for n in range(3):
        build(machines, server(n))
    assert [wrong.text for wrong in machines.wrongs] == ["host h1 holds 1536 of memory_mib and has 1024"]
    machines = Machines()
    build(machines, server())
    build(machines, server(host="h2", move=2))
    assert "is built as 2 while 1 is there" in machines.wrongs[0].text


def test_an_older_copy_is_not_acted_on() -> None:
    machines = Machines()
    build(machines, server(move=2))
    with pytest.raises(DeedFailed, match="comes too late"):
        machines.do(Deed(Operation.STOP, server(move=1), 9), NOW, room)
    with pytest.raises(DeedFailed, match="no guest"):
        machines.do(Deed(Operation.STOP, server(5), 9), NOW, room)
    assert machines.do(Deed(Operation.DELETE, replace(server(), move=1), 9), NOW, room) is None
