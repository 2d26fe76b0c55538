"""banyan serve, join: the commands that run a zone. How flags become settings.

Everything that they do is in banyan.serve. What they need is imported when they run, so that the other commands
start quickly.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec
from cyclopts import App, Group, Parameter

from banyan.cli import values
from banyan.cli.output import Screen
from banyan.cli.target import read_secret
from banyan.core.errors import BadInput

if TYPE_CHECKING:
    from banyan.serve.config import Settings

RACK = Group("Its rack", sort_key=50)
ZONE = Group("The zone", sort_key=40)
API = Group("An API process in front of a zone", sort_key=60)
PATIENCE = "10m"

Data = Annotated[
    Path | None,
    Parameter(
        env_var="BANYAN_DATA",
        metavar="DIR",
        group=ZONE,
        help="Its data folder, made if it is not there (default: the per-user folder, ~/.local/share/banyan).",
    ),
]
Config = Annotated[
    Path | None,
    Parameter(
        metavar="FILE", group=ZONE, help="Settings (TOML); DATA/banyan.toml is read by itself. Flags win over it."
    ),
]
Json = Annotated[bool, Parameter(negative="", help="Print JSON, as docs/contracts/cli.md has it.", show_default=False)]


@Parameter(name="*")
@dataclass(frozen=True, slots=True)
class Setup:
    """The flags that say what a zone is; all of them are settings as well."""

    data: Data = None
    config: Config = None
    name: Annotated[
        str | None,
        Parameter(group=ZONE, help="Its name among its parent's children: lower-case letters, digits, hyphens."),
    ] = None
    label: Annotated[
        tuple[str, ...],
        Parameter(negative="", metavar="K=V", group=ZONE, help="A label; may be given again.", show_default=False),
    ] = ()
    store: Annotated[
        str | None,
        Parameter(metavar="URL", group=ZONE, help="postgresql://USER@HOST/DB instead of SQLite in the data folder."),
    ] = None
    advertise: Annotated[
        tuple[str, ...],
        Parameter(
            negative="",
            metavar="ADDR",
            group=ZONE,
            show_default=False,
            help="host:port where children shall dial it, if not --listen-link; may be given again.",
        ),
    ] = ()
    parent: Annotated[
        tuple[str, ...],
        Parameter(
            negative="",
            metavar="ADDR",
            group=ZONE,
            show_default=False,
            help="host:port of a parent that has listed this zone's key: no join code is needed; may be given again.",
        ),
    ] = ()
    parent_pin: Annotated[
        str | None,
        Parameter(metavar="HEX", group=ZONE, help="With --parent: its CA, as `banyan status` shows it there."),
    ] = None
    driver: Annotated[
        str | None,
        Parameter(
            group=RACK, help="It has a rack of its own, read by this driver: openstack, sim, … Without, it has none."
        ),
    ] = None
    cloud: Annotated[str | None, Parameter(group=RACK, help="With --driver openstack: an entry of clouds.yaml.")] = None
    hosts: Annotated[int | None, Parameter(group=RACK, metavar="N", help="With --driver sim: how many hosts.")] = None
    option: Annotated[
        tuple[str, ...],
        Parameter(
            negative="",
            metavar="K=V",
            group=RACK,
            help="Another option of the driver; may be given again.",
            show_default=False,
        ),
    ] = ()
    log_level: Annotated[
        Literal["debug", "info", "warning", "error"] | None, Parameter(help="How much is logged. Default: info.")
    ] = None
    log_format: Annotated[Literal["text", "json"] | None, Parameter(help="For people or machines. Default: text.")] = (
        None
    )

    def flags(self) -> dict[str, object]:
        """What was given, by dotted setting; None is not given."""
        return {
            "data": str(self.data.expanduser().absolute()) if self.data else None,
            "zone.name": self.name,
            "zone.labels": values.labels(self.label) or None,
            "store.url": self.store,
            "link.advertise": list(self.advertise) or None,
            "link.parent": list(self.parent) or None,
            "link.parent_pin": self.parent_pin,
            "log.level": self.log_level,
            "log.format": self.log_format,
            "rack": self._rack(),
        }

    def _rack(self) -> list[dict[str, object]] | None:
        options = values.options(self.option)
        for key, value in (("cloud", self.cloud), ("hosts", self.hosts)):
            if value is not None:
                options[key] = value
        if self.driver is None:
            if options:
                raise BadInput("bad-option", "--cloud, --hosts and --option are for a --driver; name one")
            return None
        # The driver's name is the rack's: one rack by flags, and always the same one.
        return [{"name": self.driver, "driver": self.driver, "options": options}]

    def settings(self, more: dict[str, object]) -> Settings:
        """Raises BadInput naming the file, the line or the flag that is wrong."""
        from banyan.serve.config import load

        settings = load(self.config, {**self.flags(), **more})
        if not settings.zone.name:
            raise BadInput("no-name", "a zone needs a name: --name NAME, or `name` under [zone] in its settings")
        return settings

    def for_process(self, more: dict[str, object]) -> Settings:
        """Settings of an API process: those of a zone are refused, or somebody would believe that it runs one."""
        from banyan.serve.config import load

        given = [name for name, value in self.flags().items() if value is not None and not name.startswith("log.")]
        if given:
            raise BadInput(
                "bad-option",
                f"an API process holds no zone, and has no {', '.join(given)}: leave that out; what it may be told is "
                "--config, --listen-api, --api-tls, and where its zone is",
            )
        return load(self.config, {**self.flags(), **more})


HERE = Setup()


def join_code(file: Path | None) -> str | None:
    """A join code as it was handed on: lines and spaces in it are forgiven."""
    return None if file is None else read_secret(file, "join code", wrapped=True)


def serve(
    *,
    listen_api: Annotated[
        str | None, Parameter(metavar="ADDR", help="Where the API listens, host:port. Default: 127.0.0.1:8780.")
    ] = None,
    listen_link: Annotated[
        str | None, Parameter(metavar="ADDR", help="Where children dial, host:port. Default: 127.0.0.1:8781.")
    ] = None,
    api_tls: Annotated[
        Literal["on", "off"] | None, Parameter(help="off is for loopback addresses only. Default: on.")
    ] = None,
    join_code_file: Annotated[
        Path | None,
        Parameter(
            metavar="F",
            help="A file with a join code (- is standard input): join first if not yet joined.",
            allow_leading_hyphen=True,
        ),
    ] = None,
    role: Annotated[
        Literal["zone", "api"],
        Parameter(group=API, help="api: a process that serves the API of a zone and holds nothing of it."),
    ] = "zone",
    zone_socket: Annotated[
        str | None,
        Parameter(metavar="PATH", group=API, help="With --role api: DATA/queue.sock of its zone on this machine."),
    ] = None,
    zone: Annotated[
        str | None,
        Parameter(metavar="ADDR", group=API, help="With --role api: queue.listen of its zone on another machine."),
    ] = None,
    setup: Setup = HERE,
) -> int:
    """Run a zone, or an API process in front of one, in the foreground, until SIGTERM. Exit status 3 if the zone's join
    was refused, or the zone does not take this API process."""
    tls = None if api_tls is None else api_tls == "on"
    more: dict[str, object] = {"api.listen": listen_api, "api.tls": tls}
    if role == "api":
        from banyan.serve.process import serve_api

        if join_code_file is not None or listen_link is not None:
            raise BadInput("bad-option", "an API process has no link: leave out --join-code-file and --listen-link")
        socket = None if zone_socket is None else str(Path(zone_socket).expanduser().absolute())
        return serve_api(setup.for_process({**more, "queue.zone_socket": socket, "queue.zone": zone}))
    if zone_socket is not None or zone is not None:
        raise BadInput("bad-option", "--zone-socket and --zone are for --role api")
    from banyan.serve.run import serve as run

    settings = setup.settings({**more, "link.listen": listen_link})
    return run(settings, join_code(join_code_file))


class Joined(msgspec.Struct, frozen=True):
    """The zone's whole path, as its new parent gave it."""

    path: str


def join(
    *,
    code_file: Annotated[
        Path | None,
        Parameter(
            metavar="F",
            help="A file with the join code; - is standard input. Not needed with --parent.",
            allow_leading_hyphen=True,
        ),
    ] = None,
    patience: Annotated[str, Parameter(help="How long to try while the parent cannot be reached.")] = PATIENCE,
    json: Json = False,
    setup: Setup = HERE,
) -> int:
    """Join a parent, with a join code or by a key that it has listed, and end. `serve` with --join-code-file or
    --parent does so by itself.
    """
    from banyan.serve.run import join as run

    screen = Screen(json)
    wait = values.duration(patience, "--patience", 0, values.MAX_PATIENCE)
    settings = setup.settings({})
    code = join_code(code_file)
    if code is None and not settings.link.parent:
        raise BadInput("bad-option", "join needs --code-file FILE, or, for a listed key, --parent and --parent-pin")
    path, before = run(settings, code, wait)
    if json:
        screen.one(Joined(path))
    else:
        screen.line(f"joined as {path}; `banyan serve` runs it")
    if before:
        screen.note("it had joined before, and nobody was asked; to join anew, `banyan leave --apply` first")
    return 0


def register(app: App) -> None:
    for command in (serve, join):
        app.command(command)
