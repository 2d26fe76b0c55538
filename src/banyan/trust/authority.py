"""A zone as certificate authority, for its own controllers and its own children only (protocols §7).

Certificates follow from (zone code, seed, serial, now) and nothing else, so worlds repeat them byte for byte.
All CAs of one zone have one subject, so that a cross certificate is self-issued and a path through it keeps to
"path length 0" (RFC 5280 §4.2.1.9, §6.1.4). Key identifiers are the fingerprints of `keys` (RFC 7093, method 4).
Times are judged in `chain`, never by OpenSSL. Reading certificates: `certificate`.
"""

from __future__ import annotations

import hashlib
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from math import floor

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID, ObjectIdentifier

from banyan.core.errors import BadInput, Broken
from banyan.core.ids import ZoneCode, code_text
from banyan.core.secret import Secret
from banyan.core.time import Wall
from banyan.trust.keys import SEED_SIZE, check_public, fingerprint, private_key, public_key, statement

DAY = 86_400.0
CA_LIFE = 3652 * DAY
LEAF_LIFE = DAY
CROSS_LIFE = 90 * DAY
# A certificate begins this much before it is made: a neighbour's corrected time may lag by a network delay.
BACKDATE = 300.0
SERIAL_SIZE = 16

ORGANISATION = "Banyan"
ZONE_URI = "banyan:zone:"
API_LIFE = 397 * DAY  # the longest that browsers accept
_P256_ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551


@dataclass(frozen=True, slots=True)
class Issuer:
    """One CA of a zone: the zone's code and the CA's seed. All that signing needs."""

    code: ZoneCode
    seed: Secret

    @property
    def public(self) -> bytes:
        return public_key(self.seed)

    @property
    def fingerprint(self) -> bytes:
        return fingerprint(self.public)


@dataclass(frozen=True, slots=True)
class ApiCertificate:
    """For the HTTP API: PEM of the certificate, PEM (PKCS #8) of its key."""

    certificate: bytes
    key: Secret


def server_name(ca_fingerprint: bytes) -> str:
    """The DNS name in a controller's certificate: whose key signs, not where it runs."""
    return f"controller.{ca_fingerprint.hex()[:32]}"


def ca_certificate(issuer: Issuer, *, serial: bytes, now: Wall, lifetime: float = CA_LIFE) -> bytes:
    """The self-signed certificate of a new CA, DER."""
    return cross_certificate(issuer, issuer.public, serial=serial, now=now, lifetime=lifetime)


def cross_certificate(
    issuer: Issuer, public: bytes, *, serial: bytes, now: Wall, lifetime: float = CROSS_LIFE
) -> bytes:
    """`issuer` says that `public` is a CA of the same zone; DER."""
    builder = _builder(_zone_subject(issuer.code), issuer, public, serial, now, lifetime)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    return _signed(builder.add_extension(_usage(ca=True), critical=True), issuer)


def issue_server(issuer: Issuer, public: bytes, *, serial: bytes, now: Wall, lifetime: float = LEAF_LIFE) -> bytes:
    """A controller's certificate for the link: serverAuth only, SAN `server_name(CA)`; DER."""
    name = server_name(issuer.fingerprint)
    builder = _builder(_subject(name), issuer, public, serial, now, lifetime)
    return _signed(_leaf(builder, ExtendedKeyUsageOID.SERVER_AUTH, [x509.DNSName(name)]), issuer)


def issue_child(
    issuer: Issuer, code: ZoneCode, public: bytes, *, serial: bytes, now: Wall, lifetime: float = LEAF_LIFE
) -> bytes:
    """A child's certificate: clientAuth only, SAN `banyan:zone:<code>`; DER."""
    builder = _builder(_zone_subject(code), issuer, public, serial, now, lifetime)
    uri = x509.UniformResourceIdentifier(ZONE_URI + code_text(code))
    return _signed(_leaf(builder, ExtendedKeyUsageOID.CLIENT_AUTH, [uri]), issuer)


def api_certificate(
    seed: Secret, hosts: Sequence[str], *, serial: bytes, now: Wall, lifetime: float = API_LIFE
) -> ApiCertificate:
    """A self-signed server certificate for browsers and scripts, over ECDSA P-256 with names and addresses `hosts`.

    Not signed by the zone's CA: browsers refuse Ed25519 anywhere in a chain, and the CA's word stays for the link.
    Deterministic (RFC 6979 signature). Raises BadInput("bad-host").
    """
    if not 1 <= len(hosts) <= 32:
        raise BadInput("bad-host", f"an API certificate has 1 to 32 names and addresses, got {len(hosts)}")
    names = [_general_name(host) for host in dict.fromkeys(hosts)]
    key = _p256(seed)
    # RFC 5280 §4.1.2.6: a subject is there, whatever the names are; browsers read the SAN only.
    subject = _subject("banyan api")
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(_serial(serial))
        .not_valid_before(_instant(now - BACKDATE))
        .not_valid_after(_instant(now + lifetime))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key()), critical=False)
    )
    certificate = _leaf(builder, ExtendedKeyUsageOID.SERVER_AUTH, names).sign(
        key, hashes.SHA256(), ecdsa_deterministic=True
    )
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return ApiCertificate(certificate.public_bytes(Encoding.PEM), Secret(pem))


def _builder(
    subject: x509.Name, issuer: Issuer, public: bytes, serial: bytes, now: Wall, lifetime: float
) -> x509.CertificateBuilder:
    key = Ed25519PublicKey.from_public_bytes(check_public(public))
    if lifetime <= 0:
        raise BadInput("bad-lifetime", f"a certificate must live longer than nothing, got {lifetime:g} s")
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(_zone_subject(issuer.code))
        .public_key(key)
        .serial_number(_serial(serial))
        .not_valid_before(_instant(now - BACKDATE))
        .not_valid_after(_instant(now + lifetime))
        .add_extension(x509.SubjectKeyIdentifier(fingerprint(public)), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier(issuer.fingerprint, None, None), critical=False)
    )


def _leaf(
    builder: x509.CertificateBuilder, purpose: ObjectIdentifier, names: list[x509.GeneralName]
) -> x509.CertificateBuilder:
    return (
        builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(ca=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([purpose]), critical=True)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
    )


def _signed(builder: x509.CertificateBuilder, issuer: Issuer) -> bytes:
    return builder.sign(private_key(issuer.seed), None).public_bytes(Encoding.DER)


def _usage(*, ca: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not ca,
        key_cert_sign=ca,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        crl_sign=False,
        encipher_only=False,
        decipher_only=False,
    )


def _subject(common_name: str) -> x509.Name:
    return x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, ORGANISATION),
            x509.NameAttribute(NameOID.COMMON_NAME, common_name),
        ]
    )


def _zone_subject(code: ZoneCode) -> x509.Name:
    return _subject(f"zone {code_text(code)}")


def _serial(serial: bytes) -> int:
    """A positive number of at most 127 bits (RFC 5280 §4.1.2.2 allows 20 octets)."""
    if len(serial) != SERIAL_SIZE:
        raise Broken("bad-serial", f"a serial number is made of {SERIAL_SIZE} random bytes, got {len(serial)}")
    return (int.from_bytes(serial, "big") & ((1 << 127) - 1)) or 1


def _instant(wall: float) -> datetime:
    return datetime.fromtimestamp(floor(wall), UTC)


def _general_name(host: str) -> x509.GeneralName:
    try:
        address = ipaddress.ip_address(host.removeprefix("[").removesuffix("]"))
    except ValueError:
        labels = host.lower().removeprefix("*.").split(".")
        if len(host) <= 253 and all(_is_label(label) for label in labels):
            return x509.DNSName(host.lower())
    else:
        if "%" not in host:  # a zone index means nothing on another machine
            return x509.IPAddress(address)
    raise BadInput("bad-host", f"expected a DNS name or an IP address, got {host[:80]!r}")


def _is_label(label: str) -> bool:
    return (
        0 < len(label) <= 63
        and label.isascii()
        and label.replace("-", "").replace("_", "").isalnum()
        and not label.startswith("-")
        and not label.endswith("-")
    )


def _p256(seed: Secret) -> ec.EllipticCurvePrivateKey:
    """A P-256 key from 32 bytes: 64 derived bytes reduced, so that the bias is below 2^-256 (FIPS 186-5, A.2.1)."""
    value = seed.reveal()
    if len(value) != SEED_SIZE:
        raise Broken("bad-seed", f"the seed of a key has {SEED_SIZE} bytes, this one has {len(value)}")
    wide = hashlib.sha512(statement("api-key", value)).digest()
    return ec.derive_private_key(int.from_bytes(wide, "big") % (_P256_ORDER - 1) + 1, ec.SECP256R1())
