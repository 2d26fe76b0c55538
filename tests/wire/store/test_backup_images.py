"""The data of images in backups: each that the database names is in it, whatever is deleted meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from banyan.core.errors import Broken
from banyan.core.image import Image, ImageStatus
from banyan.store.backup import backup, restore
from banyan.store.image_files import FOLDER, ImageFolder, kept
from tests.contract.store.conftest import Run, opened
from tests.contract.store.fakes import SeededIds
from tests.wire.store.test_backup import CHEAP, LATER, NOW, PASSPHRASE, bring_back, forge, make_zone, save

IDS = [f"{n}0000000-0000-4000-8000-000000000000" for n in range(3)]
NAMES = [f"{id}.00112233445566{n:02d}" for n, id in enumerate(IDS)]


def with_images(run: Run, data: Path) -> None:
    """Two active images, one that is being sent, and a file that no row names."""
    make_zone(run, data)
    store = opened(data)
    for n in range(2):
        image = Image(IDS[n], "p1", status=ImageStatus.ACTIVE, data=NAMES[n], size=10 + n)
        run(store.write("put", lambda u, image=image: u.images.images.add(image)))
    run(store.write("put", lambda u: u.images.images.add(Image(IDS[2], "p1", status=ImageStatus.SAVING, attempt="a"))))
    run(store.close())
    (data / FOLDER).mkdir()
    for n in range(2):
        (data / FOLDER / NAMES[n]).write_bytes(bytes([n]) * (10 + n))
    (data / FOLDER / f"{NAMES[2]}.part").write_bytes(b"half")


def test_images_come_back_with_their_zone(run: Run, tmp_path: Path) -> None:
    with_images(run, tmp_path / "zone")
    made = save(tmp_path / "zone", tmp_path / "backup")
    assert (made.images, made.image_bytes, made.images_lost) == (2, 21, 0)
    assert bring_back(tmp_path / "backup", tmp_path / "new") == made
    files = {path.name: path.read_bytes() for path in (tmp_path / "new" / FOLDER).iterdir()}
    assert files == {NAMES[0]: b"\0" * 10, NAMES[1]: b"\1" * 11}
    assert (tmp_path / "new" / FOLDER / NAMES[0]).stat().st_mode & 0o777 == 0o600


def test_without_images_and_with_a_file_that_is_lost(run: Run, tmp_path: Path) -> None:
    with_images(run, tmp_path / "zone")
    made = backup(
        tmp_path / "zone", tmp_path / "small", PASSPHRASE, ids=SeededIds(), now=NOW, costs=CHEAP, images=False
    )
    assert made.images == 0 and not (tmp_path / "new").exists()
    restore(tmp_path / "small", tmp_path / "new", PASSPHRASE, ids=SeededIds(), now=LATER)
    assert not (tmp_path / "new" / FOLDER).exists()
    (tmp_path / "zone" / FOLDER / NAMES[1]).write_bytes(b"shorter")
    made = save(tmp_path / "zone", tmp_path / "other")
    assert (made.images, made.images_lost) == (1, 1)


def test_no_file_is_deleted_while_a_backup_is_made(run: Run, tmp_path: Path) -> None:
    folder = ImageFolder(tmp_path / FOLDER, keep_free=0)

    async def pieces() -> AsyncIterator[bytes]:
        yield b"x"

    async def nobody(names: object) -> frozenset[str]:
        return frozenset()

    async def play() -> None:
        await folder.write("a.1", pieces(), 10)
        folder.release("a.1")
        with kept(tmp_path / FOLDER):
            await folder.delete("a.1")
            assert await folder.sweep(nobody) == 0
            assert (tmp_path / FOLDER / "a.1").read_bytes() == b"x"
        assert await folder.sweep(nobody) == 1

    asyncio.run(play())
    folder.close()


def test_forged_images_are_refused(run: Run, tmp_path: Path) -> None:
    """Of a name that is none of ours, or one more than the manifest says: nothing is there afterwards."""
    make_zone(run, tmp_path / "zone")
    manifest = save(tmp_path / "zone", tmp_path / "good")
    import msgspec

    database, seal = ((tmp_path / "zone" / name).read_bytes() for name in ("banyan.db", "seal.key"))
    files = {"banyan.db": len(database), "seal.key": len(seal)}
    said = msgspec.json.encode(msgspec.structs.replace(manifest, files=files))
    real = [("manifest.json", said), ("banyan.db", database), ("seal.key", seal)]
    for extra in (f"{FOLDER}/{NAMES[0]}", f"{FOLDER}/../evil", f"{FOLDER}/.lock"):
        forge(tmp_path / "forged", *real, (extra, b"x"))
        if extra.endswith(NAMES[0]):
            with pytest.raises(Broken, match="what its manifest names"):
                bring_back(tmp_path / "forged", tmp_path / "new")
            assert not (tmp_path / "new").exists()
        else:
            bring_back(tmp_path / "forged", tmp_path / extra.replace("/", "_"))
            assert not list(tmp_path.rglob("evil")) and not list(tmp_path.rglob(f"*_*/{FOLDER}"))
