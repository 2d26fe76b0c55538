"""An API process: what it may be told, what it can tell of a token, and who may be at the other end of its queue."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
import trustme

from banyan.api.queue import frames
from banyan.api.queue.process import Link
from banyan.api.queue.wire import Wire
from banyan.cli.main import run
from banyan.core.errors import BadInput, BanyanError, Unauthenticated
from banyan.core.identity import Role
from banyan.core.principal import UserClaims
from banyan.core.time import Wall
from banyan.serve.begin import check_start
from banyan.serve.clock import SystemClock, SystemIds
from banyan.serve.config import ApiTable, QueueTable, Settings, ZoneTable
from banyan.serve.process import KnownTokens, check_process
from banyan.serve.queue import Named, queue_context
from banyan.trust import signed_tokens
from tests.api.queue.house import House, house
from tests.api.serving import StillClock
from tests.unit.trust.test_user_tokens import CLAIMS, token
from tests.unit.trust.world import NOW, TOP, public, seed

BEAT = frames.Beat(NOW + 1.0, TOP, 3, public("top"))


def known(beat: frames.Beat | None = BEAT) -> tuple[KnownTokens, StillClock]:
    clock = StillClock()
    tokens = KnownTokens(clock)
    if beat is not None:
        tokens.believe(beat)
    return tokens, clock


def code(work: Callable[[], None]) -> str:
    try:
        work()
    except Unauthenticated as refused:
        return refused.code
    return ""


def operators() -> str:
    claims = signed_tokens.TokenClaims(TOP, "ops", Role.VIEWER, None, "t1", Wall(NOW), Wall(NOW + 60))
    return signed_tokens.issue(seed("top"), claims).reveal().decode()


def test_a_token_of_the_zone_passes_until_it_ends() -> None:
    tokens, clock = known()
    for _ in range(2):
        tokens.user(token())
        tokens.operator(operators())
    clock.at += 100
    assert code(lambda: tokens.user(token())) and code(lambda: tokens.operator(operators()))


@pytest.mark.parametrize("bad", ["", "x", "a.b.c", token(signer="east"), token()[:-4] + "AAAA", operators()])
def test_what_no_key_of_the_zone_signed_does_not_pass(bad: str) -> None:
    tokens, _ = known()
    assert code(lambda: tokens.user(bad))


def test_a_token_of_one_kind_is_none_of_the_other() -> None:
    tokens, _ = known()
    tokens.user(token())
    assert code(lambda: tokens.operator(token()))


def test_revoked_tokens_stop_at_once() -> None:
    tokens, _ = known()
    tokens.user(token())
    tokens.revoked([(CLAIMS.audit, NOW + 60.0)])
    assert code(lambda: tokens.user(token())) == "token-revoked"


@pytest.mark.parametrize("other", [{"epoch": 4}, {"token_public": public("east")}, {"code": 7}])
def test_another_life_of_the_zone_ends_what_was_known(other: dict[str, object]) -> None:
    tokens, _ = known()
    tokens.user(token())
    tokens.believe(msgspec.structs.replace(BEAT, **other))
    assert code(lambda: tokens.user(token()))


def test_before_a_zone_was_heard_all_pass_for_the_zone_decides() -> None:
    tokens, _ = known(None)
    tokens.user("anything")
    tokens.operator("anything")


def test_the_zones_time_is_what_counts() -> None:
    tokens, _ = known(msgspec.structs.replace(BEAT, wall=NOW + 3600.0))
    assert code(lambda: tokens.user(token())) == "token-expired"


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("banyan.serve.process.MAX_KNOWN", 2)
    monkeypatch.setattr("banyan.serve.process.MAX_REVOKED", 3)
    tokens, _ = known()
    for n in range(4):
        claims: UserClaims = replace(CLAIMS, audit=f"a{n}")
        tokens.user(token(claims))
    tokens.revoked([(f"r{n}", NOW + 60.0) for n in range(9)])
    assert (len(tokens._known), len(tokens._revoked)) == (2, 3)


# --- settings -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("queue", "api", "names"),
    [
        (QueueTable(), ApiTable(), "--zone-socket"),
        (QueueTable(zone_socket="/s", zone="h:1"), ApiTable(), "--zone-socket"),
        (QueueTable(zone_socket="/s", listen="h:1"), ApiTable(), "queue.listen"),
        (QueueTable(zone="nonsense"), ApiTable(), "nonsense"),
        (QueueTable(zone="h:1"), ApiTable(tls=False), "queue.certificate"),
        (QueueTable(zone="h:1", certificate="/no", key="/no", ca="/no", names=("a",)), ApiTable(), "queue.certificate"),
        (QueueTable(zone_socket="/s"), ApiTable(certificate="/no"), "api.key"),
        (QueueTable(zone_socket="/s"), ApiTable(tls=False, listen="0.0.0.0:1"), "loopback"),
    ],
)
def test_settings_with_which_there_is_nothing_to_serve_are_refused(
    queue: QueueTable, api: ApiTable, names: str
) -> None:
    with pytest.raises(BadInput) as refused:
        check_process(Settings(queue=queue, api=api))
    assert names in refused.value.text


def test_a_process_of_this_machine_needs_no_files() -> None:
    check_process(Settings(queue=QueueTable(zone_socket="/s")))


@pytest.mark.parametrize(
    "flags",
    [
        ("--role", "api", "--zone-socket", "/s", "--name", "east"),
        ("--role", "api", "--zone-socket", "/s", "--data", "/d"),
        ("--role", "api", "--zone-socket", "/s", "--driver", "sim"),
        ("--role", "api", "--zone-socket", "/s", "--listen-link", "127.0.0.1:1"),
        ("--role", "api"),
        ("--name", "east", "--zone", "h:1"),
    ],
)
def test_flags_of_the_other_role_are_refused(flags: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["serve", *flags]) == 2
    assert "[bad-option]" in capsys.readouterr().err


@pytest.mark.parametrize(
    "queue", [QueueTable(listen="127.0.0.1:0"), QueueTable(zone="h:1"), QueueTable(zone_socket="/s")]
)
def test_a_zone_is_not_started_with_half_a_queue(queue: QueueTable, tmp_path: Path) -> None:
    settings = Settings(zone=ZoneTable(name="east"), queue=queue, data=str(tmp_path / "data"))
    with pytest.raises(BadInput) as refused:
        check_start(settings, None, SystemClock(), SystemIds(), listens=True)
    assert "queue." in refused.value.text
    assert not (tmp_path / "data").exists()


# --- mutual TLS -----------------------------------------------------------------------------------


class Papers:
    """Certificates of one authority, as files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        self.authority = trustme.CA()
        self.authority.cert_pem.write_to_path(str(folder / "ca.pem"))

    def table(self, name: str, *wanted: str) -> QueueTable:
        made = self.authority.issue_cert(name)
        made.private_key_pem.write_to_path(str(self.folder / f"{name}.key"))
        file = self.folder / f"{name}.pem"
        file.write_bytes(b"".join(pem.bytes() for pem in made.cert_chain_pems))
        return QueueTable(
            certificate=str(file), key=str(self.folder / f"{name}.key"), ca=str(self.folder / "ca.pem"), names=wanted
        )


async def welcomed(built: House, zone: QueueTable, process: QueueTable) -> bool:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(
        lambda: Named(built.sessions.remote(), zone.names), "127.0.0.1", 0, ssl=queue_context(zone, server=True)
    )
    port = server.sockets[0].getsockname()[1]
    wire = Wire(lambda wire: Link(wire, "far:1/2", built.tokens, built.process.figures))
    try:
        await loop.create_connection(
            lambda: Named(wire, process.names), "127.0.0.1", port, ssl=queue_context(process, server=False)
        )
        link = wire.end
        assert isinstance(link, Link)
        welcome = await asyncio.wait_for(link.welcome, 5)
        assert not welcome.key
        wire.cut()
        return True
    except (BanyanError, OSError, TimeoutError):
        return False
    finally:
        server.close()


def test_each_end_believes_the_names_that_its_operator_listed_and_no_other(tmp_path: Path) -> None:
    papers, others = Papers(tmp_path / "ours"), Papers(tmp_path / "others")
    cases = {
        "right": (papers.table("east.test", "api1.test"), papers.table("api1.test", "east.test"), True),
        "another name there": (papers.table("east.test", "api1.test"), papers.table("api2.test", "east.test"), False),
        "another zone": (papers.table("west.test", "api1.test"), papers.table("api1.test", "east.test"), False),
        "another authority": (papers.table("east.test", "api1.test"), others.table("api1.test", "east.test"), False),
    }

    async def all_of_them() -> dict[str, bool]:
        async with house(connected=False) as built:
            return {what: await welcomed(built, zone, process) for what, (zone, process, _) in cases.items()}

    assert asyncio.run(all_of_them()) == {what: well for what, (_, _, well) in cases.items()}
