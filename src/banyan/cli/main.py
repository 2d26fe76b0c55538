"""The command `banyan`: its nouns and verbs, and what becomes of errors.

exit status: 0 well · 1 broken · 2 usage · 3 refused · 4 not found · 5 unreachable · 6 partial · 130 Ctrl-C
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from cyclopts import App, CycloptsError, Group

from banyan import __version__
from banyan.cli import (
    backup,
    bench,
    check,
    codes,
    completion,
    credentials,
    doctor,
    help,
    inventory,
    itself,
    journal,
    keys,
    receivers,
    rules,
    serve,
    servers,
    support,
    tokens,
    usage,
    zones,
)
from banyan.cli.output import Screen
from banyan.core.errors import BadInput, BanyanError

EPILOGUE = """\
Exit status: 0 well, 1 broken, 2 usage, 3 refused, 4 not found, 5 unreachable, 6 partial. \
BANYAN_DATA, BANYAN_URL, BANYAN_TOKEN_FILE and BANYAN_CA_FILE stand for the options of these names."""


def build() -> App:
    """The whole command."""
    app = App(
        name="banyan",
        help="One control plane for very many clouds.",
        help_epilogue=EPILOGUE,
        version=__version__,
        group_commands=Group("Commands", sort_key=0),
        default_parameter=None,
        result_action="return_value",
    )
    for part in (zones.app, codes.app, tokens.app, rules.app, keys.app, receivers.app, bench.app):
        app.command(part)
    for room in (
        credentials, usage, inventory, servers, itself, journal, serve, check, doctor, support, backup, help,
        completion,
    ):  # fmt: skip
        room.register(app)
    return app


def run(arguments: Sequence[str]) -> int:
    """Runs one command line; the exit status."""
    screen = Screen(_wants_json(arguments))
    try:
        status = build()(list(arguments), exit_on_error=False, print_error=False)
    except CycloptsError as error:
        screen.error(BadInput("usage", f"{str(error).strip()} `banyan{_asked(arguments)} --help` shows what there is."))
        return BadInput.exit_status
    except BanyanError as error:
        screen.error(error)
        return error.exit_status
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # Whoever read (`| head`) has had enough. Python would complain once more when it flushes at the end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    return status if isinstance(status, int) else 0


def _wants_json(arguments: Sequence[str]) -> bool:
    """Also of a line that can not be read as it stands: who asked for JSON is told so in JSON."""
    given = [word.partition("=") for word in arguments]
    return any(word == "--json" and value not in ("false", "no", "0") for word, _, value in given)


def _asked(arguments: Sequence[str]) -> str:
    """The leading words of a command line, without options and what follows them."""
    words: list[str] = []
    for word in arguments[:2]:
        if not word.isalpha():
            break
        words.append(word)
    return "".join(f" {word}" for word in words)


def main() -> None:
    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
