"""Which zone is meant: flags before the environment, never two at once; a token only where it is safe."""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme

from banyan.cli.main import run
from banyan.cli.target import Given, Remote, Socket, Target, check_url, read_secret
from banyan.core.errors import BadInput
from tests.api.serving import make, public
from tests.api.surface import FakeSurface
from tests.unit.cli.conftest import Zone

HOME = Path("/home/me/.local/share/banyan")


@pytest.fixture
def token(tmp_path: Path) -> Path:
    file = tmp_path / "token"
    file.write_text("viewer-all\n")
    return file


def typed(text: str) -> Given:
    return Given(text, typed=True)


def env(text: str) -> Given:
    return Given(text, typed=False)


def test_without_anything_it_is_the_per_user_folder() -> None:
    assert Target().where(HOME) == Socket(HOME)


def test_a_flag_wins_over_the_environment(token: Path) -> None:
    assert Target(data=typed("/d"), url=env("https://h")).where(HOME) == Socket(Path("/d"))
    where = Target(data=env("/d"), url=typed("https://h:8780/"), token_file=token).where(HOME)
    assert isinstance(where, Remote)
    assert where.url == "https://h:8780"


@pytest.mark.parametrize("how", [typed, env])
def test_two_zones_at_once_are_refused(how: type[Given], token: Path) -> None:
    with pytest.raises(BadInput) as caught:
        Target(data=how("/d"), url=how("https://h"), token_file=token).where(HOME)
    assert caught.value.code == "two-zones"


def test_a_url_needs_a_token() -> None:
    with pytest.raises(BadInput) as caught:
        Target(url=typed("https://h")).where(HOME)
    assert caught.value.code == "no-token"


@pytest.mark.parametrize(
    "url", ["https://h", "https://h:8780", "https://[2001:db8::1]:8780", "http://127.0.0.1:1", "http://localhost:1"]
)
def test_urls_that_a_token_may_be_sent_to(url: str) -> None:
    assert check_url(url) == url


@pytest.mark.parametrize(
    "url",
    [
        "http://example.org",
        "example.org:8780",
        "ftp://h",
        "https://u:p@h",
        "https://h?x=1",
        "https://",
        "http://127.0.0.1.example.org",
    ],
)
def test_urls_that_it_may_not(url: str) -> None:
    with pytest.raises(BadInput):
        check_url(url)


@pytest.mark.parametrize("content", ["", "\n", "a b", "a\nb\n", "ä", "x" * 20_000])
def test_a_token_file_holds_one_token(tmp_path: Path, content: str) -> None:
    file = tmp_path / "token"
    file.write_text(content)
    with pytest.raises(BadInput) as caught:
        read_secret(file, "token")
    assert content.strip()[:5] not in str(caught.value) or not content.strip()


def test_a_join_code_may_be_wrapped(tmp_path: Path) -> None:
    file = tmp_path / "code"
    file.write_text("banyan1.\n  abc\ndef \n")
    assert read_secret(file, "join code", wrapped=True) == "banyan1.abcdef"


def test_a_secret_in_place_of_a_file_is_not_repeated() -> None:
    with pytest.raises(BadInput) as caught:
        read_secret(Path("banyan1.SECRETSECRET"), "join code")
    assert "SECRET" not in str(caught.value)


def test_the_environment_stands_for_the_flag(zone: Zone, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BANYAN_DATA", str(zone.folder))
    assert zone.say("zone", "list", data=False).status == 0
    monkeypatch.setenv("BANYAN_DATA", "/nowhere")
    assert zone.say("zone", "list").status == 0
    assert zone.say("zone", "list", data=False).status == 5


# --- over TLS


@pytest.fixture(scope="module")
def remote(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """A zone over TLS: its URL, and the file of its CA."""
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    file = tmp_path_factory.mktemp("ca") / "ca.pem"
    authority.cert_pem.write_to_path(file)
    loop, stop, up = asyncio.new_event_loop(), asyncio.Event(), threading.Event()
    ports: list[int] = []

    async def serve() -> None:
        async with public(make(FakeSurface()), context) as place:
            ports.append(place.port)
            up.set()
            await stop.wait()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),))
    thread.start()
    assert up.wait(10)
    yield f"https://127.0.0.1:{ports[0]}", file
    loop.call_soon_threadsafe(stop.set)
    thread.join(10)
    loop.close()


def test_over_tls_with_a_token(remote: tuple[str, Path], token: Path, capsys: pytest.CaptureFixture[str]) -> None:
    url, authority = remote
    words = ["zone", "list", "--json", "--url", url, "--token-file", str(token), "--ca-file", str(authority)]
    assert run(words) == 0
    assert "top/north" in capsys.readouterr().out
    assert run(["zone", "ban", "north", *words[3:]]) == 3


def test_a_certificate_of_nobody_known_is_refused(
    remote: tuple[str, Path], token: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["zone", "list", "--url", remote[0], "--token-file", str(token)]) == 3
    assert "--ca-file" in capsys.readouterr().err


def test_a_bad_token_is_refused(remote: tuple[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    url, authority = remote
    file = tmp_path / "bad"
    file.write_text("nonsense-token")
    assert run(["zone", "list", "--url", url, "--token-file", str(file), "--ca-file", str(authority)]) == 3
    assert "nonsense-token" not in capsys.readouterr().err


def test_nobody_there_is_unreachable(token: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["zone", "list", "--url", "https://127.0.0.1:9", "--token-file", str(token)]) == 5
    assert "nothing answers" in capsys.readouterr().err


def test_a_ca_file_is_one(token: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for file in (tmp_path / "none", token):
        words = ["--url", "https://127.0.0.1:9", "--token-file", str(token), "--ca-file", str(file)]
        assert run(["zone", "list", *words]) == 2
