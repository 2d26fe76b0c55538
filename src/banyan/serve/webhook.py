"""Tells a webhook: CloudEvents 1.0 in structured JSON, signed as in the Standard Webhooks specification, over HTTPS.

`event`, `signature` and `headers` are pure. A notice has been taken when the answer's status is 2xx; nothing else of
the answer is looked at but Retry-After, redirects are not followed, and no error has the address's path in its text.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import logging
import os
import ssl
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import httpx
import msgspec
import structlog

from banyan import __version__
from banyan.core.errors import BadInput
from banyan.core.receiver import Notice, ReceiverSpec, SendFailed
from banyan.core.time import Wall, iso

log = structlog.get_logger("banyan.receivers")

CONTENT_TYPE: Final = "application/cloudevents+json; charset=utf-8"
# Of the bytes of a secret (Standard Webhooks, "Signature scheme"), and how many a file may have, for a change of it.
LEAST_SECRET, MOST_SECRET, SECRETS = 24, 64, 2
_PREFIX: Final = "whsec_"
# What can not become well by itself: this very notice is not understood.
_REFUSED: Final = frozenset({400, 413, 415, 422, 431})
_GONE: Final = 410
_CONNECT: Final = 10.0


class Data(msgspec.Struct, frozen=True):
    """What a CloudEvent of ours carries. Instants are RFC 3339; numbers are of lines of the zone's journal."""

    zone: str
    kind: str
    outcome: str
    target: str
    text: str
    since: str
    actor: str
    facts: dict[str, str]
    count: int
    subjects: tuple[str, ...]
    first: int
    last: int
    command: str
    means: str
    done: str
    held: str
    next: str


class CloudEvent(msgspec.Struct, frozen=True):
    """Attributes as CloudEvents 1.0 names them; `severity` is an extension."""

    specversion: str
    id: str
    source: str
    type: str
    subject: str
    time: str
    datacontenttype: str
    severity: str
    data: Data


def event(notice: Notice) -> bytes:
    data = Data(
        zone=notice.zone,
        kind=notice.kind,
        outcome=notice.outcome,
        target=notice.target,
        text=notice.text,
        since=iso(notice.since),
        actor=notice.actor,
        facts=dict(notice.facts),
        count=notice.count,
        subjects=notice.subjects,
        first=notice.first,
        last=notice.last,
        command=notice.command,
        means=notice.means,
        done=notice.done,
        held=notice.held,
        next=notice.next,
    )
    return msgspec.json.encode(
        CloudEvent(
            specversion="1.0",
            id=notice.id,
            source=f"urn:banyan:zone:{notice.code}",
            type=f"banyan.{notice.kind}",
            subject=notice.target,
            time=iso(notice.at),
            datacontenttype="application/json",
            severity=notice.severity,
            data=data,
        )
    )


def signature(secrets: Sequence[bytes], id: str, timestamp: int, body: bytes) -> str:
    """One `v1,` signature for each secret, the newest first."""
    signed = f"{id}.{timestamp}.".encode() + body
    made = (hmac.new(secret, signed, hashlib.sha256).digest() for secret in secrets)
    return " ".join("v1," + base64.b64encode(one).decode() for one in made)


def headers(secrets: Sequence[bytes], id: str, now: Wall, body: bytes) -> dict[str, str]:
    timestamp = int(now)
    return {
        "Content-Type": CONTENT_TYPE,
        "User-Agent": f"banyan/{__version__}",
        "webhook-id": id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": signature(secrets, id, timestamp, body),
    }


def read_secrets(name: str, path: Path) -> tuple[bytes, ...]:
    """The secrets in a file, a line each, the one in use first. Raises BadInput("bad-secret-file")."""

    def bad(text: str) -> BadInput:
        return BadInput("bad-secret-file", f"the secret of the receiver {name}, {path}, {text}")

    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise bad(f"cannot be read: {error.strerror}") from error
    with os.fdopen(descriptor, "rb") as file:
        mode = stat.S_IMODE(os.fstat(descriptor).st_mode)
        if mode & 0o077:
            raise bad(f"may be read by others (mode {mode:04o}); `chmod 600` it, and make a new secret")
        lines = file.read(4_096).decode("ascii", "replace").split()
    if not 1 <= len(lines) <= SECRETS:
        raise bad(f"has {len(lines)} lines; it has the secret, and while that is changed the old one below it")
    none = bad("has a line that is no secret: 24 to 64 bytes in base64, after `whsec_`")
    return tuple(_secret(line, none) for line in lines)


def _secret(line: str, bad: BadInput) -> bytes:
    try:
        secret = base64.b64decode(line.removeprefix(_PREFIX), validate=True)
    except ValueError:
        raise bad from None
    if not LEAST_SECRET <= len(secret) <= MOST_SECRET:
        raise bad
    return secret


class Webhook:
    """core.receiver.Sender. The secret is read for each attempt, so that it can be changed while the zone runs."""

    def __init__(self, spec: ReceiverSpec) -> None:
        """Raises BadInput("bad-secret-file") or ("bad-ca-file")."""
        # Their lines have the whole address in them, which may be known to its owner only.
        for library in ("httpx", "httpcore"):
            logging.getLogger(library).setLevel(logging.WARNING)
        self._spec = spec
        self._secret = Path(spec.secret_file)
        read_secrets(spec.name, self._secret)
        # Settings of the environment, such as proxies, are for those who ask of their own accord.
        self._client = httpx.AsyncClient(
            trust_env=False,
            follow_redirects=False,
            verify=trust(spec),
            timeout=httpx.Timeout(spec.deadline, connect=min(_CONNECT, spec.deadline)),
            limits=httpx.Limits(max_connections=2, max_keepalive_connections=1),
        )

    async def send(self, notice: Notice, now: Wall) -> None:
        where = self._spec.where
        body = event(notice)
        try:
            # A file of a few bytes on this machine: nothing to wait for.
            secrets = read_secrets(self._spec.name, self._secret)
        except BadInput as error:
            raise SendFailed(error.text) from error
        request = self._client.build_request(
            "POST", self._spec.address, content=body, headers=headers(secrets, notice.id, now, body)
        )
        try:
            response = await self._client.send(request, stream=True)
            # Its body is not read: it may have any size, and says nothing that counts.
            await response.aclose()
        except httpx.HTTPError as error:
            log.info("a receiver was not reached", receiver=self._spec.name, error=type(error).__name__)
            raise SendFailed(f"{where} could not be reached: {_why(error)}") from error
        if not response.is_success:
            raise refusal(where, response.status_code, response.headers.get("retry-after", ""))

    async def close(self) -> None:
        await self._client.aclose()


def refusal(where: str, status: int, later: str) -> SendFailed:
    """What an answer that is not 2xx means. `later`: Retry-After, of which only seconds are understood."""
    after = float(later) if later.isascii() and later.isdigit() and len(later) < 8 else None
    if status == _GONE:
        return SendFailed(f"{where} answered 410 Gone: it wants nothing any more", gone=True)
    if 300 <= status < 400:
        text = f"{where} answered {status} and leads elsewhere, which is not followed; if it moved, change the settings"
        return SendFailed(text)
    return SendFailed(f"{where} answered {status}", refused=status in _REFUSED, after=after)


def _why(error: httpx.HTTPError) -> str:
    """Of a failed connection; the exception's own text may have the whole address in it."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return f"its certificate is not to be trusted ({cause.verify_message})"
        if isinstance(cause, ssl.SSLError):
            return "it speaks no TLS that is understood"
        cause = cause.__cause__ or cause.__context__
    if isinstance(error, httpx.TimeoutException):
        return "no answer in time"
    return "no connection" if isinstance(error, httpx.ConnectError) else "the connection broke"


def trust(spec: ReceiverSpec) -> ssl.SSLContext:
    """What a receiver's certificate must be signed by: `ca_file`, or whom this machine trusts. Raises BadInput."""
    try:
        context = ssl.create_default_context(cafile=spec.ca_file or None)
    except (OSError, ssl.SSLError) as error:
        raise BadInput(
            "bad-ca-file", f"ca_file of the receiver {spec.name}, {spec.ca_file}, is no file of certificates (PEM)"
        ) from error
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context
