"""Reads a stranger's certificate: all of it or nothing, and only the kind that `authority` makes.

Ed25519 keys and signatures, canonical DER, fingerprints as key identifiers. Whatever else comes is
BadInput("bad-certificate"); no other exception leaves here. Nothing is *believed* by reading: see `chain`.
"""

from __future__ import annotations

from dataclasses import dataclass

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.x509.oid import ExtendedKeyUsageOID, ExtensionOID, NameOID, SignatureAlgorithmOID

from banyan.core.errors import BadInput
from banyan.core.ids import ZoneCode, code_text, parse_code
from banyan.core.time import Wall
from banyan.trust.authority import ZONE_URI
from banyan.trust.keys import SIGNATURE_SIZE, check_public, fingerprint, verify

# Ours have about 450 bytes.
MAX_CERTIFICATE = 4096

# AlgorithmIdentifier of Ed25519, then the head of a BIT STRING of 64 whole bytes (RFC 8410 §3, §6).
_SIGNATURE_HEAD = bytes.fromhex("300506032b6570034100")
_UNDERSTOOD = frozenset(
    {
        ExtensionOID.BASIC_CONSTRAINTS,
        ExtensionOID.KEY_USAGE,
        ExtensionOID.EXTENDED_KEY_USAGE,
        ExtensionOID.SUBJECT_ALTERNATIVE_NAME,
        ExtensionOID.SUBJECT_KEY_IDENTIFIER,
        ExtensionOID.AUTHORITY_KEY_IDENTIFIER,
    }
)
# What cryptography raises while reading (its own classes have no common one); Warning, where warnings are errors.
_UNREADABLE = (
    ValueError,
    TypeError,
    OverflowError,
    UnsupportedAlgorithm,
    x509.InvalidVersion,
    x509.DuplicateExtension,
    x509.UnsupportedGeneralNameType,
    x509.ExtensionNotFound,
    x509.AttributeNotFound,
    Warning,
)


@dataclass(frozen=True, slots=True)
class Certificate:
    """`issuer`: fingerprint of the key that is said to have signed. `zone`, `issuer_zone`: codes in the names.

    `authority`: a CA's, for certificates only. `client`, `server`: its purposes (never both in ours).
    `child`: the code in its SAN. `names`: the DNS names in its SAN.
    """

    der: bytes
    public: bytes
    fingerprint: bytes
    issuer: bytes
    zone: ZoneCode | None
    issuer_zone: ZoneCode | None
    not_before: Wall
    not_after: Wall
    authority: bool
    client: bool
    server: bool
    names: tuple[str, ...]
    child: ZoneCode | None
    signed: bytes
    signature: bytes

    @property
    def self_signed(self) -> bool:
        return self.issuer == self.fingerprint

    def signed_by(self, public: bytes) -> bool:
        return verify(public, self.signature, self.signed)


def read(der: bytes, what: str = "certificate") -> Certificate:
    """Raises BadInput("bad-certificate") naming `what`."""
    if len(der) > MAX_CERTIFICATE:
        raise _bad(what, f"it has {len(der)} bytes, at most {MAX_CERTIFICATE} are read")
    try:
        return _read(x509.load_der_x509_certificate(der), der, what)
    except _UNREADABLE as error:
        raise _bad(what, "it is not a well-formed X.509 certificate", detail=repr(error)) from error


def _read(certificate: x509.Certificate, der: bytes, what: str) -> Certificate:
    key = certificate.public_key()
    if (
        not isinstance(key, Ed25519PublicKey)
        or certificate.signature_algorithm_oid != SignatureAlgorithmOID.ED25519
        or len(certificate.signature) != SIGNATURE_SIZE
    ):
        raise _bad(what, "its key and its signature must be Ed25519")
    if not der.endswith(certificate.tbs_certificate_bytes + _SIGNATURE_HEAD + certificate.signature):
        raise _bad(what, "it is not canonical DER")
    public = check_public(key.public_bytes_raw(), f"{what}'s key")
    extensions = certificate.extensions
    for extension in extensions:
        if extension.critical and extension.oid not in _UNDERSTOOD:
            raise _bad(what, f"it has a critical extension that is not understood ({extension.oid.dotted_string})")
    ca = extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    usage = extensions.get_extension_for_class(x509.KeyUsage).value
    issuer = extensions.get_extension_for_class(x509.AuthorityKeyIdentifier).value.key_identifier
    own = fingerprint(public)
    if issuer is None or extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value.digest != own:
        raise _bad(what, "its key identifiers must be SHA-256 fingerprints of the keys")
    purposes = _purposes(extensions)
    names, child = _names(extensions)
    return Certificate(
        der=der,
        public=public,
        fingerprint=own,
        issuer=issuer,
        zone=_zone(certificate.subject),
        issuer_zone=_zone(certificate.issuer),
        not_before=Wall(certificate.not_valid_before_utc.timestamp()),
        not_after=Wall(certificate.not_valid_after_utc.timestamp()),
        authority=ca and usage.key_cert_sign,
        client=not ca and usage.digital_signature and ExtendedKeyUsageOID.CLIENT_AUTH in purposes,
        server=not ca and usage.digital_signature and ExtendedKeyUsageOID.SERVER_AUTH in purposes,
        names=names,
        child=child,
        signed=certificate.tbs_certificate_bytes,
        signature=certificate.signature,
    )


def _purposes(extensions: x509.Extensions) -> frozenset[x509.ObjectIdentifier]:
    try:
        return frozenset(extensions.get_extension_for_class(x509.ExtendedKeyUsage).value)
    except x509.ExtensionNotFound:
        return frozenset()  # for our kinds no purpose means none, not any


def _names(extensions: x509.Extensions) -> tuple[tuple[str, ...], ZoneCode | None]:
    try:
        san = extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return (), None
    uris = san.get_values_for_type(x509.UniformResourceIdentifier)
    child = _code(uris[0].removeprefix(ZONE_URI)) if len(uris) == 1 and uris[0].startswith(ZONE_URI) else None
    return tuple(san.get_values_for_type(x509.DNSName)), child


def _zone(name: x509.Name) -> ZoneCode | None:
    found = name.get_attributes_for_oid(NameOID.COMMON_NAME)
    text = str(found[0].value) if len(found) == 1 else ""
    return _code(text.removeprefix("zone ")) if text.startswith("zone ") else None


def _code(text: str) -> ZoneCode | None:
    """The code in its one spelling; the forgiveness that people get is not for certificates."""
    try:
        code = parse_code(text)
    except BadInput:
        return None
    return ZoneCode(code) if code_text(code) == text else None


def _bad(what: str, why: str, detail: str = "") -> BadInput:
    return BadInput("bad-certificate", f"the {what} can not be used: {why}", detail=detail)
