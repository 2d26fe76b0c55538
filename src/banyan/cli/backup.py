"""banyan backup and restore: a zone as one encrypted file. They work on the data folder, beside a running zone."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter

from banyan.cli.output import Screen, instant, number
from banyan.cli.serve import Config, Data, Json
from banyan.cli.target import read_passphrase
from banyan.core.errors import BadInput
from banyan.core.secret import Secret
from banyan.core.time import TimeBasis

if TYPE_CHECKING:
    from banyan.serve.config import Settings
    from banyan.store.backup import Manifest

File = Annotated[Path, Parameter(metavar="FILE", help="The backup.")]
Passphrase = Annotated[
    Path | None,
    Parameter(
        metavar="F",
        help="A file with the passphrase that seals it, one line; - is standard input. Needed.",
        allow_leading_hyphen=True,
        show_default=False,
    ),
]

WithoutImages = Annotated[
    bool,
    Parameter(
        negative="",
        help="Leave out the data of images: a zone restored from it has none to hand out.",
        show_default=False,
    ),
]


def _passphrase(file: Path | None) -> Secret:
    if file is None:
        raise BadInput(
            "no-passphrase",
            "a backup is sealed with a passphrase: --passphrase-file F names a file that holds it in one line "
            "(`openssl rand -base64 24 > F`, mode 0600). Keep it elsewhere: without it nobody reads the backup",
        )
    return read_passphrase(file)


def backup(
    file: File,
    /,
    *,
    passphrase_file: Passphrase = None,
    without_images: WithoutImages = False,
    data: Data = None,
    config: Config = None,
    json: Json = False,
) -> int:
    """Write a zone's database, keys, settings and images to one encrypted file. The zone may be running."""
    from banyan.serve.clock import SystemClock, SystemIds
    from banyan.store.backup import backup as write

    settings = _settings(data, config)
    made = write(
        settings.folder,
        file,
        _passphrase(passphrase_file),
        ids=SystemIds(),
        now=TimeBasis().correct(SystemClock().wall()),
        location=settings.store.url or None,
        seal_key=_seal_key(settings),
        settings=config,
        images=not without_images,
    )
    return _show(made, json, f"{file} holds it")


def restore(file: File, /, *, passphrase_file: Passphrase = None, data: Data = None, json: Json = False) -> int:
    """Make a new or empty data folder the zone of a backup.

    Until `banyan release` it forgets nobody, and lets nobody in by what it knew before.
    """
    from banyan.serve.clock import SystemClock, SystemIds
    from banyan.store.backup import restore as read

    settings = _settings(data, None)
    made = read(
        file,
        settings.folder,
        _passphrase(passphrase_file),
        ids=SystemIds(),
        now=TimeBasis().correct(SystemClock().wall()),
    )
    done = (
        f"{settings.folder} is that zone; `banyan serve` runs it, and until `banyan release` it forgets nobody, and "
        "lets nobody in by what it knew before"
    )
    return _show(made, json, done)


def _settings(data: Path | None, config: Path | None) -> Settings:
    from banyan.serve.config import load

    return load(config, {"data": str(data.expanduser().absolute()) if data else None})


def _seal_key(settings: Settings) -> Path | None:
    """Where the seal key is if not in the data folder: as the settings say, or a credential of systemd."""
    from banyan.serve.config import credentials_folder

    if settings.store.seal_key_file:
        return Path(settings.store.seal_key_file)
    folder = credentials_folder()
    return folder / "seal.key" if folder is not None and (folder / "seal.key").exists() else None


def _show(made: Manifest, json: bool, done: str) -> int:
    screen = Screen(json)
    if json:
        screen.one(made)
        return 0
    files = ", ".join(f"{name} ({number(size)} B)" for name, size in made.files.items())
    screen.show(
        [
            ("zone", f"{made.name} ({made.zone})"), ("epoch", str(made.epoch)), ("made", instant(made.made_at)),
            ("by", f"banyan {made.program}"), ("holds", files),
            ("images", f"{number(made.images)} ({number(made.image_bytes)} B)"),
        ]
    )  # fmt: skip
    if made.images_lost:
        screen.note(f"the data of {number(made.images_lost)} images that the zone knows is not in it: it has no file")
    screen.note(done)
    return 0


def register(app: App) -> None:
    app.command(backup)
    app.command(restore)
