"""banyan completion SHELL: a script for the shell, made from the commands themselves; banyan version."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Literal

import msgspec
from cyclopts import App, Parameter

from banyan import __version__
from banyan.cli.output import Screen


class Version(msgspec.Struct, frozen=True):
    version: str


def version(*, json: Annotated[bool, Parameter(negative="", help="Print JSON.", show_default=False)] = False) -> int:
    """The version of this program. A zone's own is in `banyan status`."""
    screen = Screen(json)
    if json:
        screen.one(Version(__version__))
    else:
        screen.line(__version__)
    return 0


def register(app: App) -> None:
    app.command(_completion(app.generate_completion))
    app.command(version)


def _completion(generate: Callable[..., str]) -> Callable[..., int]:
    def completion(
        shell: Annotated[Literal["bash", "zsh", "fish"], Parameter(help="Whose script.", metavar="SHELL")], /
    ) -> int:
        """Print a script that completes commands and options: `source <(banyan completion bash)`."""
        Screen(json=False).line(generate(prog_name="banyan", shell=shell))
        return 0

    return completion
