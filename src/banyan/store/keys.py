"""Secrets at rest: AES-256-GCM under a key that is not in the database (DATA/seal.key, or a credential's path).

Each secret is bound to its row's name, so that sealed rows can not be swapped. Nothing here logs, prints or
keeps a secret beyond the call. The same cipher, over chunks, is what backup.py writes.
"""

from __future__ import annotations

from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from sqlalchemy import Connection, bindparam, delete, select

from banyan.core.errors import Broken
from banyan.core.ports import Ids
from banyan.core.secret import Secret
from banyan.store import tables
from banyan.store.rows import Put

KEY_SIZE = 32
NONCE_SIZE = 12
_FORM = b"\x01"
# A sealed row of this name tells at opening whether the seal key is the right one.
_CHECK = ""
_CHECK_VALUE = Secret(b"banyan")

_T = tables.keys
_GET = select(_T.c.sealed).where(_T.c.name == bindparam("key"))
_PUT = Put(_T)
_DELETE = delete(_T).where(_T.c.name == bindparam("key"))


class Tampered(Exception):
    """What was to be opened was not sealed with this key, in this place, or was changed since."""


class Cipher:
    """AES-256-GCM (NIST SP 800-38D). A nonce must never come twice under one key."""

    def __init__(self, key: Secret) -> None:
        self._aead = AESGCM(key.reveal())

    def encrypt(self, nonce: bytes, plain: bytes, bound: bytes) -> bytes:
        return self._aead.encrypt(nonce, plain, bound)

    def decrypt(self, nonce: bytes, sealed: bytes, bound: bytes) -> bytes:
        """Raises Tampered."""
        try:
            return self._aead.decrypt(nonce, sealed, bound)
        except (InvalidTag, ValueError) as error:
            raise Tampered from error


class Seal:
    """Seals and opens secrets with one key. `origin` names where the key came from, for errors."""

    def __init__(self, key: Secret, ids: Ids, origin: str = "the seal key") -> None:
        if len(key.reveal()) != KEY_SIZE:
            raise Broken(
                "seal-key-wrong",
                f"{origin} must hold exactly {KEY_SIZE} bytes, it holds {len(key.reveal())}; put the right file back",
            )
        self._cipher = Cipher(key)
        self._ids = ids
        self._origin = origin

    def close(self, name: str, secret: Secret) -> bytes:
        nonce = self._ids.token(NONCE_SIZE)
        return _FORM + nonce + self._cipher.encrypt(nonce, secret.reveal(), _bound(name))

    def open(self, name: str, sealed: bytes) -> Secret:
        """Raises Broken("seal-key-wrong")."""
        nonce, body = sealed[1 : 1 + NONCE_SIZE], sealed[1 + NONCE_SIZE :]
        try:
            if sealed[:1] != _FORM:
                raise Tampered
            return Secret(self._cipher.decrypt(nonce, body, _bound(name)))
        except Tampered as error:
            what = f"the sealed secret {name!r}" if name else "this database"
            raise Broken(
                "seal-key-wrong",
                f"{what} was sealed with another key than {self._origin}; put back the seal key that belongs to this "
                "database, or restore both from one backup (banyan restore)",
            ) from error


def _bound(name: str) -> bytes:
    return b"banyan/keys/" + name.encode()


def seal_from_file(path: Path, ids: Ids) -> Seal:
    """Raises Broken("seal-key-missing" | "seal-key-wrong")."""
    try:
        key = Secret(path.read_bytes())
    except OSError as error:
        raise Broken(
            "seal-key-missing",
            f"the seal key {path} can not be read ({error.strerror}); put it back, or name where it is "
            "(store.seal_key_file, or a credential `seal.key` of systemd), or restore a backup, which holds it",
        ) from error
    return Seal(key, ids, str(path))


class SqlKeys:
    def __init__(self, connection: Connection, seal: Seal) -> None:
        self._connection = connection
        self._seal = seal

    def get(self, name: str) -> Secret | None:
        sealed = self._connection.execute(_GET, {"key": name}).scalar()
        return None if sealed is None else self._seal.open(name, sealed)

    def put(self, name: str, secret: Secret) -> None:
        _PUT(self._connection, {"name": name, "sealed": self._seal.close(name, secret)})

    def delete(self, name: str) -> None:
        self._connection.execute(_DELETE, {"key": name})

    def check(self) -> bool:
        """Whether a check row is there; raises Broken("seal-key-wrong") if this key did not seal it."""
        return self.get(_CHECK) is not None

    def sign(self) -> None:
        """Writes the check row: from now on only this seal key opens the database."""
        self.put(_CHECK, _CHECK_VALUE)
