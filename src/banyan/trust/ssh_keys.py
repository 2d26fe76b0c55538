"""Key pairs for people's servers: made here if they ask for it, else read and named by their fingerprint.

A private half is returned once and never kept. Ed25519 and P-256, since they are made in microseconds; what is read may
be of any kind that OpenSSH has. Formats: RFC 4253 6.6 (public), OpenSSH's own (private), RFC 5280 (certificates).
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_ssh_public_key,
)
from cryptography.x509.oid import NameOID

from banyan.core.errors import BadInput
from banyan.core.secret import Secret
from banyan.core.time import Wall

MAX_PUBLIC_KEY = 16_384
# Kinds that cryptography does not read: their private half is in a security token.
_TOKEN_KINDS = ("sk-ssh-ed25519@openssh.com", "sk-ecdsa-sha2-nistp256@openssh.com")
_LIFE = timedelta(days=10 * 365)
_UPN = x509.ObjectIdentifier("1.3.6.1.4.1.311.20.2.3")


def make_ssh(seed: Secret, comment: str) -> tuple[str, Secret]:
    """(public half, private half), each as OpenSSH writes it. `seed`: 32 random bytes."""
    key = ed25519.Ed25519PrivateKey.from_private_bytes(seed.reveal())
    public = key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()
    private = key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption())
    return f"{public} {comment}\n", Secret(private)


def make_x509(seed: Secret, subject: str, now: Wall) -> tuple[str, Secret]:
    """(a certificate that signs itself, its private key), both PEM. `subject` becomes its user principal name.
    `seed`: 48 random bytes."""
    number = int.from_bytes(seed.reveal(), "big")
    key = ec.derive_private_key(number % (_P256_ORDER - 1) + 1, ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, subject[:64] or "server")])
    begin = datetime.fromtimestamp(now, UTC)
    # A UTF8String (DER), as the extension wants it.
    text = subject.encode()[:120]
    other = x509.OtherName(_UPN, b"\x0c" + bytes([len(text)]) + text)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(number % (1 << 152) + 1)
        .not_valid_before(begin - timedelta(days=1))
        .not_valid_after(begin + _LIFE)
        .add_extension(x509.SubjectAlternativeName([other]), critical=False)
        .add_extension(x509.ExtendedKeyUsage([x509.oid.ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return certificate.public_bytes(Encoding.PEM).decode(), Secret(private)


# SEC 2, 2.4.2: the order of P-256's base point.
_P256_ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551


def ssh_fingerprint(public_key: str) -> str:
    """MD5 of the key in pairs of digits, as OpenStack's clients compare it. Raises BadInput("bad-public-key")."""
    if len(public_key) > MAX_PUBLIC_KEY:
        raise _bad(f"it may have {MAX_PUBLIC_KEY} characters, this one has {len(public_key)}")
    words = public_key.split()
    if len(words) < 2 or (not public_key.isascii() and not _known(words)):
        raise _bad("expected is one line: the kind, the key in base 64, and a comment")
    try:
        blob = base64.b64decode(words[1], validate=True)
        if words[0] not in _TOKEN_KINDS:
            load_ssh_public_key(f"{words[0]} {words[1]}".encode())
    except (ValueError, binascii.Error, UnsupportedAlgorithm, UnicodeEncodeError) as error:
        raise _bad("it is not a public key of SSH") from error
    kind = words[0].encode()
    if blob[: 4 + len(kind)] != len(kind).to_bytes(4, "big") + kind:
        raise _bad("it says another kind than it is of")
    return _pairs(hashlib.md5(blob, usedforsecurity=False).hexdigest())


def x509_fingerprint(certificate: str) -> str:
    """SHA-1 of a PEM certificate in pairs of digits. Raises BadInput("bad-public-key")."""
    if len(certificate) > MAX_PUBLIC_KEY:
        raise _bad(f"it may have {MAX_PUBLIC_KEY} characters, this one has {len(certificate)}")
    try:
        read = x509.load_pem_x509_certificate(certificate.encode())
    except (ValueError, UnicodeEncodeError) as error:
        raise _bad("it is not a certificate in PEM") from error
    return _pairs(read.fingerprint(hashes.SHA1()).hex())


def _known(words: list[str]) -> bool:
    """The comment may be in any language, the key may not."""
    return all(word.isascii() for word in words[:2])


def _pairs(digits: str) -> str:
    return ":".join(digits[at : at + 2] for at in range(0, len(digits), 2))


def _bad(why: str) -> BadInput:
    return BadInput("bad-public-key", f"Keypair data is invalid: {why}")
