"""Which zone is meant: the options that every command has, and how they become a connection.

    --data DIR      the zone of this data folder, over its local socket: no secret is needed
    --url URL       a zone anywhere, over TLS, with the token in --token-file

A flag wins over the environment. Nothing here opens a connection (client.py does).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

from cyclopts import Group, Parameter, Token

from banyan.core.errors import BadInput
from banyan.core.secret import Secret

GROUP = Group("Which zone", sort_key=90)
MAX_TOKEN_FILE = 16 * 1024


@dataclass(frozen=True, slots=True)
class Given:
    """A value and whether it was typed, or came from the environment."""

    value: str
    typed: bool


def given(type_: object, tokens: Sequence[Token]) -> Given:
    """cyclopts' converter for the options whose source matters."""
    return Given(tokens[0].value, tokens[0].source == "cli")


@dataclass(frozen=True, slots=True)
class Socket:
    """A zone on this machine, by its data folder."""

    folder: Path


@dataclass(frozen=True, slots=True)
class Remote:
    """A zone by URL. `authority` is a PEM file of CAs, None for the system's."""

    url: str
    token: Secret
    authority: Path | None


@Parameter(name="*")
@dataclass(frozen=True, slots=True)
class Target:
    data: Annotated[
        Given | None,
        Parameter(
            converter=given,
            accepts_keys=False,
            n_tokens=1,
            env_var="BANYAN_DATA",
            group=GROUP,
            metavar="DIR",
            help="The zone that runs on this data folder (default: the per-user folder, ~/.local/share/banyan).",
        ),
    ] = None
    url: Annotated[
        Given | None,
        Parameter(
            converter=given,
            accepts_keys=False,
            n_tokens=1,
            env_var="BANYAN_URL",
            group=GROUP,
            metavar="URL",
            help="A zone anywhere: https://host:port. Needs --token-file.",
        ),
    ] = None
    token_file: Annotated[
        Path | None,
        Parameter(
            env_var="BANYAN_TOKEN_FILE",
            group=GROUP,
            metavar="F",
            help="A file with the API token, with --url. - is standard input.",
            allow_leading_hyphen=True,
        ),
    ] = None
    ca_file: Annotated[
        Path | None,
        Parameter(
            env_var="BANYAN_CA_FILE",
            group=GROUP,
            metavar="F",
            help="CAs (PEM) that may sign the zone's certificate, with --url.",
        ),
    ] = None
    json: Annotated[bool, Parameter(negative="", group=GROUP, help="Print JSON, as docs/contracts/cli.md has it.")] = (
        False
    )

    def folder(self, default: Path) -> Path:
        """The data folder, for commands that work on one. Raises BadInput if a URL was typed."""
        if self.url is not None and self.url.typed:
            raise BadInput("bad-option", "this command works on a data folder on this machine; use --data, not --url")
        return Path(self.data.value).expanduser().absolute() if self.data else default

    def where(self, default: Path) -> Socket | Remote:
        """The zone that is meant. Raises BadInput, also when it could be two."""
        data, url = self.data, self.url
        if data and url and data.typed == url.typed:
            how = "--data and --url" if data.typed else "BANYAN_DATA and BANYAN_URL"
            raise BadInput("two-zones", f"{how} name two zones; give one of --data and --url")
        if url is None or (data is not None and data.typed):
            return Socket(self.folder(default))
        return Remote(check_url(url.value), self._token(), self.ca_file)

    def _token(self) -> Secret:
        if self.token_file is None:
            raise BadInput("no-token", "--url needs a token: --token-file FILE, or BANYAN_TOKEN_FILE")
        return Secret(read_secret(self.token_file, "token").encode())


# The default of every command: what the environment says, else the per-user folder.
HERE = Target()


def check_url(text: str) -> str:
    """`text` if a token may be sent there: https, or http on loopback. Raises BadInput."""
    parts = urlsplit(text)
    plain = parts.scheme == "http" and parts.hostname in ("127.0.0.1", "::1", "localhost")
    if parts.scheme != "https" and not plain:
        raise BadInput(
            "bad-url",
            f"a URL is https://host:port (http only on loopback, since a token is sent), got {text[:100]!r}",
        )
    if not parts.hostname or parts.username or parts.password or parts.query or parts.fragment:
        raise BadInput("bad-url", "a URL is https://host:port and nothing more; no user, password or query")
    return text.rstrip("/")


def read_secret(file: Path, what: str, wrapped: bool = False) -> str:
    """A secret without spaces: the one line of `file`, or of standard input for "-"; several are one if `wrapped`.

    Raises BadInput; never repeats what it read.
    """
    text = _read(file, what)
    secret = "".join(text.split()) if wrapped else text.strip()
    if not (secret and secret.isascii()) or any(c.isspace() for c in secret):
        raise _unfit(file, what)
    return secret


def read_passphrase(file: Path) -> Secret:
    """The one line of `file`, spaces and all, without its end. Raises BadInput."""
    lines = _read(file, "passphrase").splitlines()
    if len(lines) != 1 or not lines[0].strip():
        raise _unfit(file, "passphrase")
    return Secret(lines[0].encode())


def _read(file: Path, what: str) -> str:
    import sys

    try:
        if str(file) == "-":
            text = sys.stdin.read(MAX_TOKEN_FILE + 1)
        else:
            with file.expanduser().open(encoding="utf-8") as stream:
                text = stream.read(MAX_TOKEN_FILE + 1)
    except OSError as error:
        # Somebody may have given the secret itself: then it must not come back on the screen.
        raise BadInput(
            "no-file", f"cannot read the {what} from the file that was named: {error.strerror}; give the name of a file"
        ) from error
    except UnicodeDecodeError as error:
        raise _unfit(file, what) from error
    if len(text) > MAX_TOKEN_FILE:
        raise _unfit(file, what)
    return text


def _unfit(file: Path, what: str) -> BadInput:
    where = "standard input (-)" if str(file) == "-" else f"the file {file}"
    return BadInput("bad-file", f"{where} must hold a {what} and nothing else, one line")
