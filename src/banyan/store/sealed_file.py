"""A file encrypted as a whole under a passphrase, written and read as a stream of bounded chunks.

Header: magic, scrypt's costs (RFC 7914), salt, and an HMAC over these that tells a wrong passphrase from damage and
commits to the key. Then chunks of AES-256-GCM whose nonce is their number and whether they are the last
(the STREAM construction: Hoang, Reyhanitabar, Rogaway, Vizár 2015), so that a changed, dropped, swapped, repeated or
appended chunk does not open. A chunk is handed on only after it was verified; the end only by the last one.
"""

from __future__ import annotations

import hashlib
import hmac
import struct
from dataclasses import dataclass
from typing import BinaryIO

from banyan.core.errors import BadInput, Broken, Refused
from banyan.core.ports import Ids
from banyan.core.secret import Secret
from banyan.store.keys import KEY_SIZE, Cipher, Tampered

CHUNK = 1 << 20

_MAGIC = b"banyan\x00\x01"
_COSTS = struct.Struct(">BII")
_SALT = 16
_CHECK = 32
_TAG = 16
_HEADER = len(_MAGIC) + _COSTS.size + _SALT + _CHECK


@dataclass(frozen=True, slots=True)
class Costs:
    """scrypt's N = 2**log_n, r and p: 128 MiB and about half a second (OWASP's recommendation for passwords)."""

    log_n: int = 17
    r: int = 8
    p: int = 1

    def bounded(self) -> bool:
        """Whether deriving a key takes at most 1 GiB: a forged header must not exhaust who reads it."""
        return 1 <= self.log_n <= 20 and 1 <= self.r <= 8 and 1 <= self.p <= 4


DEFAULT_COSTS = Costs()


def _derive(passphrase: Secret, salt: bytes, costs: Costs) -> tuple[Secret, bytes]:
    """The cipher's key and the header's."""
    n = 1 << costs.log_n
    derived = hashlib.scrypt(
        passphrase.reveal(), salt=salt, n=n, r=costs.r, p=costs.p, maxmem=256 * n * costs.r, dklen=2 * KEY_SIZE
    )
    return Secret(derived[:KEY_SIZE]), derived[KEY_SIZE:]


def _nonce(number: int, last: bool) -> bytes:
    return number.to_bytes(11, "big") + bytes([last])


class SealedWriter:
    """Write, then `finish`; what was not finished does not open."""

    def __init__(self, file: BinaryIO, passphrase: Secret, ids: Ids, costs: Costs = DEFAULT_COSTS) -> None:
        if not passphrase.reveal():
            raise BadInput("empty-passphrase", "a backup needs a passphrase that is not empty")
        front = _MAGIC + _COSTS.pack(costs.log_n, costs.r, costs.p) + ids.token(_SALT)
        key, header_key = _derive(passphrase, front[-_SALT:], costs)
        self._header = front + hmac.digest(header_key, front, "sha256")
        self._cipher = Cipher(key)
        self._file = file
        self._held = bytearray()
        self._number = 0
        file.write(self._header)

    def write(self, plain: bytes) -> int:
        self._held += plain
        # One chunk is held back, for only `finish` knows which is the last.
        while len(self._held) > CHUNK:
            self._put(bytes(self._held[:CHUNK]), last=False)
            del self._held[:CHUNK]
        return len(plain)

    def finish(self) -> None:
        self._put(bytes(self._held), last=True)

    def _put(self, plain: bytes, *, last: bool) -> None:
        self._file.write(self._cipher.encrypt(_nonce(self._number, last), plain, self._header))
        self._number += 1


class SealedReader:
    """Reads what SealedWriter wrote. Raises Refused("wrong-passphrase") or Broken("backup-damaged")."""

    def __init__(self, file: BinaryIO, passphrase: Secret) -> None:
        header = file.read(_HEADER)
        if len(header) < _HEADER or not header.startswith(_MAGIC):
            raise Broken("backup-damaged", "this is not a backup made by `banyan backup`, or its beginning is lost")
        costs = Costs(*_COSTS.unpack_from(header, len(_MAGIC)))
        front, check = header[:-_CHECK], header[-_CHECK:]
        if not costs.bounded():
            raise Broken("backup-damaged", "the backup's header asks for more memory than any backup does")
        key, header_key = _derive(passphrase, front[-_SALT:], costs)
        if not hmac.compare_digest(check, hmac.digest(header_key, front, "sha256")):
            raise Refused("wrong-passphrase", "the passphrase is not this backup's (or its first bytes are damaged)")
        self._header = header
        self._cipher = Cipher(key)
        self._file = file
        self._next = file.read(CHUNK + _TAG)
        self._plain = b""
        self._at = 0
        self._number = 0
        self._ended = False

    def read(self, size: int) -> bytes:
        """Up to `size` bytes, as many as there are; b"" only after the last chunk was verified."""
        parts, wanted = [], size
        while wanted > 0:
            if self._at == len(self._plain):
                if self._ended:
                    break
                self._open_next()
                continue
            part = self._plain[self._at : self._at + wanted]
            self._at += len(part)
            wanted -= len(part)
            parts.append(part)
        return b"".join(parts)

    def drain(self) -> None:
        """Verifies the rest."""
        while self.read(CHUNK):
            pass

    def _open_next(self) -> None:
        sealed, self._next = self._next, self._file.read(CHUNK + _TAG)
        self._ended = not self._next
        try:
            self._plain = self._cipher.decrypt(_nonce(self._number, self._ended), sealed, self._header)
        except Tampered as error:
            raise Broken(
                "backup-damaged",
                f"the backup is damaged or cut short at its part {self._number + 1}; use another copy of it",
            ) from error
        self._at = 0
        self._number += 1
