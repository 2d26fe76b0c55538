"""Join codes: one string that takes a stranger to its parent, and proves that it was invited (protocols §7).

    banyan1.<base64url of: MessagePack [addresses, pin, issued, expires, id, secret], then 4 bytes of SHA-256>

The check bytes name a mistyped code before anything is dialled. The parent keeps a CodeRecord: of the secret it keeps
only `secret_hash`. From the secret follows an Ed25519 key; the hash is that key's fingerprint. So whoever reads the
parent's database, or a session, learns nothing to join with. Texts of errors never repeat any part of a code.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import ipaddress
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from banyan.core.errors import BadInput, Refused
from banyan.core.ids import check_label
from banyan.core.policy import CodeRecord, CodeState
from banyan.core.reading import msgpack_reader
from banyan.core.secret import Secret
from banyan.core.time import Wall, iso
from banyan.core.zone import Mode
from banyan.trust.keys import FINGERPRINT_SIZE, fingerprint, public_key, statement

PREFIX = "banyan1."
MAX_CODE = 2048
MAX_ADDRESSES = 8
ID_SIZE = 8
SECRET_SIZE = 32
MAX_LABELS = 32
_CHECK_SIZE = 4
_LATEST = 253_402_300_799
_HOST = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)(?:\.(?!-)[a-z0-9_-]{1,63}(?<!-))*\Z")
_WRAPPING = re.compile(r"[\s\u200b\u200c\u200d\u2060\ufeff]+")


class _Body(msgspec.Struct, frozen=True, array_like=True):
    """The order is the format; fields are only appended. Seconds, whole."""

    addresses: list[str]
    pin: bytes
    issued: int
    expires: int
    id: bytes
    secret: bytes


_BODY = msgpack_reader(_Body)


@dataclass(frozen=True, slots=True)
class JoinCode:
    """What a code carries. `pin`: SHA-256 of the parent's CA key. `id`: of the parent's CodeRecord."""

    addresses: tuple[str, ...]
    pin: bytes
    issued: Wall
    expires: Wall
    id: str
    secret: Secret = field(repr=False)

    def encode(self) -> Secret:
        """The string, as ASCII. Raises BadInput as `parse` does."""
        _check(self)
        body = msgspec.msgpack.encode(
            _Body(
                list(self.addresses),
                self.pin,
                int(self.issued),
                int(self.expires),
                bytes.fromhex(self.id),
                self.secret.reveal(),
            )
        )
        text = PREFIX.encode() + base64.urlsafe_b64encode(body + _checksum(body)).rstrip(b"=")
        if len(text) > MAX_CODE:
            raise BadInput("bad-address", f"the addresses are too long for a join code of {MAX_CODE} characters")
        return Secret(text)


def parse(text: str) -> JoinCode:
    """The code in `text`; white space anywhere, as pasting adds it, is forgiven.

    Raises BadInput: code-empty, code-version, code-mistyped, bad-code-body, bad-address; nothing else.
    """
    if len(text) > 4 * MAX_CODE:
        raise BadInput("code-mistyped", f"a join code has at most {MAX_CODE} characters, this text has {len(text)}")
    packed = _WRAPPING.sub("", text)
    if not packed:
        raise BadInput("code-empty", "expected a join code, got nothing; `banyan code create` at the parent makes one")
    if not packed.startswith(PREFIX):
        if re.match(r"banyan[0-9]{1,4}\.", packed):
            raise BadInput("code-version", f"this join code is of another version of Banyan; here they begin {PREFIX}")
        raise BadInput("code-mistyped", f"a join code begins with {PREFIX!r}; was the whole of it copied?")
    return _unpack(packed.removeprefix(PREFIX))


def mint(
    *,
    addresses: Sequence[str],
    pin: bytes,
    now: Wall,
    expires: Wall,
    id: bytes,
    secret: Secret,
    uses: int | None = 1,
    name: str = "*",
    driver: str = "*",
    labels: Mapping[str, str] | None = None,
    mode: Mode = Mode.PLACE,
    replace: bool = False,
    created_by: str = "",
    epoch: int = 1,
) -> tuple[JoinCode, CodeRecord]:
    """A new code and what its parent keeps of it. `id`: 8 random bytes, `secret`: 32; `epoch`: the zone's own.

    Raises BadInput: bad-address, bad-lifetime, bad-uses, bad-label, replace-needs-name.
    """
    if uses is not None and not 1 <= uses <= 1_000_000:
        raise BadInput("bad-uses", f"a join code serves 1 to 1,000,000 times, or without end, got {uses}")
    if replace and any(c in name for c in "*?["):
        raise BadInput("replace-needs-name", f"a code that replaces a zone must name that one zone, got {name[:80]!r}")
    bound = dict(check_label(key, value) for key, value in (labels or {}).items())
    if len(bound) > MAX_LABELS:
        raise BadInput("bad-label", f"a join code sets at most {MAX_LABELS} labels, got {len(bound)}")
    code = JoinCode(tuple(addresses), pin, Wall(int(now)), Wall(int(expires)), id.hex(), secret)
    _check(code)
    record = CodeRecord(
        id=code.id,
        secret_hash=secret_hash(secret),
        issued=code.issued,
        expires=code.expires,
        uses=uses,
        name=name,
        driver=driver,
        labels=bound,
        mode=mode,
        replace=replace,
        created_by=created_by,
        epoch=epoch,
    )
    return code, record


def secret_hash(secret: Secret) -> bytes:
    """What a parent keeps of a code's secret: the fingerprint of the key that follows from it, 32 bytes."""
    return fingerprint(public_key(signing_seed(secret)))


def signing_seed(secret: Secret) -> Secret:
    """The seed of the key by which the holder of a code proves it."""
    return Secret(hashlib.sha256(statement("join-code key", secret.reveal())).digest())


def state_of(record: CodeRecord, now: Wall, epoch: int) -> CodeState:
    """What the code of this record is worth now. `epoch`: the zone's own."""
    if record.revoked:
        return CodeState.REVOKED
    if record.epoch != epoch:
        return CodeState.BEFORE_RESTORE
    if now > record.expires:
        return CodeState.EXPIRED
    return CodeState.USED_UP if record.uses is not None and record.used >= record.uses else CodeState.OPEN


def check_usable(record: CodeRecord, now: Wall, epoch: int) -> None:
    """Raises Refused: code-revoked, code-before-restore, code-expired, code-used.

    That one use goes to one key only is decided by CodeRows.use, not here.
    """
    check_standing(record, epoch)
    state = state_of(record, now, epoch)
    if state is CodeState.EXPIRED:
        raise Refused(
            "code-expired",
            f"join code {record.id} ended at {iso(record.expires)}, and it is {iso(now)}; "
            "make a new one at the parent (`banyan code create`)",
        )
    if state is CodeState.USED_UP:
        raise Refused(
            "code-used",
            f"join code {record.id} has served {record.used} of {record.uses} times, for other keys; "
            "make a new one at the parent (`banyan code create`)",
        )


def check_standing(record: CodeRecord, epoch: int) -> None:
    """Raises Refused: code-revoked, code-before-restore. These hold for a key that used the code before, too."""
    if record.revoked:
        raise Refused("code-revoked", f"join code {record.id} was revoked at the parent; ask for a new one")
    if record.epoch != epoch:
        raise Refused(
            "code-before-restore",
            f"join code {record.id} was made before the parent was restored from a backup; "
            "make a new one there (`banyan code create`)",
        )


def check_address(text: str) -> str:
    """`text` if it is `host:port`, `192.0.2.1:port` or `[2001:db8::1]:port`; else BadInput("bad-address")."""
    host, colon, port = text.rpartition(":")
    if colon and port.isascii() and port.isdigit() and len(port) <= 5 and 1 <= int(port) <= 65535:
        if host.startswith("[") and host.endswith("]"):
            if _is_ip(host[1:-1], 6):
                return text
        elif _is_ip(host, 4) or (len(host) <= 253 and _HOST.match(host.lower()) and not _all_digits(host)):
            return text
    raise BadInput(
        "bad-address",
        f"expected an address as host:port, 192.0.2.1:8781 or [2001:db8::1]:8781, got {text[:80]!r}",
    )


def _unpack(packed: str) -> JoinCode:
    mistyped = BadInput(
        "code-mistyped",
        "this join code is not as it was made: a character is wrong, missing or too many. Copy it again as a whole",
    )
    try:
        raw = base64.b64decode(packed + "=" * (-len(packed) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        raise mistyped from None
    body, check = raw[:-_CHECK_SIZE], raw[-_CHECK_SIZE:]
    # The second look refuses the spare bits of a last character, which base64 leaves open.
    if check != _checksum(body) or base64.urlsafe_b64encode(raw).rstrip(b"=") != packed.encode():
        raise mistyped
    try:
        fields = _BODY(body)
        code = JoinCode(
            tuple(fields.addresses),
            fields.pin,
            Wall(fields.issued),
            Wall(fields.expires),
            fields.id.hex(),
            Secret(fields.secret),
        )
    except (ValueError, OverflowError):
        # Not `from`: what was being read would stand in the traceback.
        raise BadInput("bad-code-body", "this join code was not made by Banyan: its content can not be read") from None
    _check(code)
    return code


def _check(code: JoinCode) -> None:
    if not 1 <= len(code.addresses) <= MAX_ADDRESSES:
        raise BadInput("bad-address", f"a join code has 1 to {MAX_ADDRESSES} addresses, got {len(code.addresses)}")
    for address in code.addresses:
        check_address(address)
    sizes = (len(code.pin), len(code.id), len(code.secret.reveal()))
    if sizes != (FINGERPRINT_SIZE, 2 * ID_SIZE, SECRET_SIZE):
        raise BadInput("bad-code-body", f"a join code's pin, id, secret have 32, 16, 32 places, got {sizes}")
    if not 0 <= code.issued < code.expires <= _LATEST:
        raise BadInput("bad-lifetime", "a join code must end after it is made, and before the year 10000")


def _checksum(body: bytes) -> bytes:
    return hashlib.sha256(PREFIX.encode() + body).digest()[:_CHECK_SIZE]


def _is_ip(text: str, version: int) -> bool:
    try:
        return ipaddress.ip_address(text).version == version and "%" not in text
    except ValueError:
        return False


def _all_digits(host: str) -> bool:
    """`1.2.3` and `127.1` are neither names nor whole addresses, whatever a resolver makes of them."""
    return host.replace(".", "").isdigit()
