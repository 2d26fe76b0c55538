"""A sealed file: what was written comes back, and any change to it, anywhere, is noticed."""

from __future__ import annotations

from io import BytesIO

import pytest

from banyan.core.errors import BadInput, BanyanError, Broken, Refused
from banyan.core.secret import Secret
from banyan.store.sealed_file import CHUNK, Costs, SealedReader, SealedWriter
from tests.contract.store.fakes import SeededIds

PASSPHRASE = Secret("correct horse, Ünïcode".encode())
CHEAP = Costs(log_n=4, r=1, p=1)
HEADER = 8 + 9 + 16 + 32


def sealed(plain: bytes, piece: int = 70_000, seed: int = 1) -> bytes:
    file = BytesIO()
    writer = SealedWriter(file, PASSPHRASE, SeededIds(seed), CHEAP)
    for at in range(0, len(plain), piece):
        writer.write(plain[at : at + piece])
    writer.finish()
    return file.getvalue()


def unsealed(content: bytes, passphrase: Secret = PASSPHRASE) -> bytes:
    reader = SealedReader(BytesIO(content), passphrase)
    parts = []
    while part := reader.read(100_000):
        parts.append(part)
    return b"".join(parts)


def plain(size: int) -> bytes:
    return SeededIds(size).token(size) if size else b""


@pytest.mark.parametrize("size", [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK, 3 * CHUNK + 17])
def test_what_was_written_comes_back(size: int) -> None:
    content = sealed(plain(size))
    assert unsealed(content) == plain(size)
    assert len(content) == HEADER + size + 16 * max(1, -(-size // CHUNK))


def test_nothing_of_it_shows_and_no_two_are_alike() -> None:
    text = b"banyan-seed-" * 1_000
    assert b"seed" not in sealed(text)
    assert sealed(text)[HEADER:] != sealed(text, seed=2)[HEADER:]


def test_a_wrong_passphrase_is_told_from_damage() -> None:
    with pytest.raises(Refused) as refused:
        unsealed(sealed(b"x"), Secret(b"wrong"))
    assert refused.value.code == "wrong-passphrase"


def test_an_empty_passphrase_is_refused() -> None:
    with pytest.raises(BadInput):
        SealedWriter(BytesIO(), Secret(b""), SeededIds(), CHEAP)


@pytest.mark.parametrize("at", [0, 7, 8, 9, 16, 17, 32, 33, 64, 65, 66, HEADER + CHUNK, HEADER + CHUNK + 16, -1])
def test_one_changed_byte_is_noticed(at: int) -> None:
    content = bytearray(sealed(plain(2 * CHUNK + 5)))
    content[at] ^= 1
    with pytest.raises(BanyanError) as refused:
        unsealed(bytes(content))
    assert refused.value.code in ("backup-damaged", "wrong-passphrase")
    assert (refused.value.code == "wrong-passphrase") <= (0 <= at < HEADER)


@pytest.mark.parametrize(
    "left", [0, 10, HEADER - 1, HEADER, HEADER + 1, HEADER + CHUNK + 16, HEADER + 2 * (CHUNK + 16), -1]
)
def test_a_file_cut_short_is_noticed_also_between_chunks(left: int) -> None:
    content = sealed(plain(3 * CHUNK))
    with pytest.raises(Broken) as refused:
        unsealed(content[:left])
    assert refused.value.code == "backup-damaged"


def test_swapped_repeated_dropped_and_appended_chunks_are_noticed() -> None:
    content = sealed(plain(4 * CHUNK))
    header, size = content[:HEADER], CHUNK + 16
    a, b, c, d = (content[HEADER + n * size : HEADER + (n + 1) * size] for n in range(4))
    assert unsealed(header + a + b + c + d) == plain(4 * CHUNK)
    for forged in (
        b + a + c + d,
        a + a + c + d,
        a + c + d,
        b + c + d,
        a + b + d,
        a + b + c + d + d,
        a + b + c + d + b"x",
    ):
        with pytest.raises(Broken):
            unsealed(header + forged)


def test_chunks_of_another_file_under_the_same_passphrase_do_not_fit() -> None:
    one, two = sealed(plain(2 * CHUNK)), sealed(plain(2 * CHUNK), seed=2)
    with pytest.raises(Broken):
        unsealed(one[: HEADER + CHUNK + 16] + two[HEADER + CHUNK + 16 :])


def test_what_was_not_finished_does_not_open() -> None:
    file = BytesIO()
    SealedWriter(file, PASSPHRASE, SeededIds(), CHEAP).write(plain(2 * CHUNK))
    with pytest.raises(Broken):
        unsealed(file.getvalue())


def test_a_header_can_not_make_the_reader_spend_memory() -> None:
    content = bytearray(sealed(b"x"))
    content[8] = 40
    with pytest.raises(Broken, match="memory"):
        unsealed(bytes(content))
