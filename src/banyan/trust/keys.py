"""Ed25519 keys from 32-byte seeds, fingerprints, and signatures over statements.

A *fingerprint* is SHA-256 of the key's SubjectPublicKeyInfo in DER: what pins are, and rows hold. Every
signature of ours is over a `statement`: a tag that names its purpose, then parts with their lengths, so that
bytes signed for one purpose never pass for another. `verify` answers; it raises nothing, whatever it is fed.
"""

from __future__ import annotations

import hashlib

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from banyan.core.errors import BadInput, Broken
from banyan.core.secret import Secret

SEED_SIZE = 32
PUBLIC_SIZE = 32
SIGNATURE_SIZE = 64
FINGERPRINT_SIZE = 32

# SubjectPublicKeyInfo of an Ed25519 key is these bytes, then the key (RFC 8410 §4).
_SPKI_PREFIX = bytes.fromhex("302a300506032b6570032100")

# The y coordinates, little-endian and without the sign of x, of the points whose order divides 8, with the two
# encodings that are not reduced. With such a "key" one signature holds for many messages (RFC 8032 §8.9, and
# Chalkias et al., "Taming the many EdDSAs"), so it proves nothing.
_LOW_ORDER = frozenset(
    bytes.fromhex(y)
    for y in (
        "0000000000000000000000000000000000000000000000000000000000000000",
        "0100000000000000000000000000000000000000000000000000000000000000",
        "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
        "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
        "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
        "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
        "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    )
)


def private_key(seed: Secret) -> Ed25519PrivateKey:
    """The key of a seed. Raises Broken("bad-seed") unless it has 32 bytes."""
    value = seed.reveal()
    if len(value) != SEED_SIZE:
        raise Broken("bad-seed", f"the seed of a key has {SEED_SIZE} bytes, this one has {len(value)}")
    return Ed25519PrivateKey.from_private_bytes(value)


def public_key(seed: Secret) -> bytes:
    """The 32 bytes of the seed's public key."""
    return private_key(seed).public_key().public_bytes_raw()


def check_public(public: bytes, what: str = "public key") -> bytes:
    """`public` if a signature by it means something; else BadInput("bad-key")."""
    if len(public) != PUBLIC_SIZE:
        raise BadInput("bad-key", f"the {what} must have {PUBLIC_SIZE} bytes (Ed25519), got {len(public)}")
    if _unsigned(public) in _LOW_ORDER:
        raise BadInput("bad-key", f"the {what} is a point of low order, which proves nothing; make a new key")
    return public


def spki(public: bytes) -> bytes:
    """SubjectPublicKeyInfo of an Ed25519 key, DER."""
    if len(public) != PUBLIC_SIZE:
        raise BadInput("bad-key", f"a public key has {PUBLIC_SIZE} bytes (Ed25519), got {len(public)}")
    return _SPKI_PREFIX + public


def fingerprint(public: bytes) -> bytes:
    """SHA-256 over `spki(public)`, 32 bytes."""
    return hashlib.sha256(spki(public)).digest()


def statement(tag: str, *parts: bytes) -> bytes:
    """What is signed for the purpose `tag`: no two lists of parts, and no two tags, give the same bytes."""
    out = [b"banyan ", tag.encode(), b"\x00"]
    for part in parts:
        out += (len(part).to_bytes(4, "big"), part)
    return b"".join(out)


def sign(seed: Secret, message: bytes) -> bytes:
    """64 bytes; the same for the same seed and message (RFC 8032)."""
    return private_key(seed).sign(message)


def verify(public: bytes, signature: bytes, message: bytes) -> bool:
    """True if `signature` over `message` is by `public`. False for anything malformed."""
    if len(public) != PUBLIC_SIZE or len(signature) != SIGNATURE_SIZE or _unsigned(public) in _LOW_ORDER:
        return False
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, message)
    except (InvalidSignature, UnsupportedAlgorithm, ValueError):
        return False
    return True


def short(digest: bytes) -> str:
    """The first 16 hexadecimal digits, for people."""
    return digest.hex()[:16]


def _unsigned(public: bytes) -> bytes:
    return public[:-1] + bytes((public[-1] & 0x7F,))
