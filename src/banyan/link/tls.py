"""TLS contexts of the link: 1.3 only, both ends prove a key, and nothing here judges times (trust.chain does).

A parent asks for a child's certificate but does without, so that a stranger can enrol. A child that opens a session
believes only its bundle; one that enrols believes nobody here, and judges what was shown before it says anything.
Private keys pass through memory only (a memfd), never through a file. A context serves one identity.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Sequence

from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from banyan.core.ports import Credentials
from banyan.link.wire import Identity
from banyan.trust.keys import private_key

# X509_V_FLAG_NO_CHECK_TIME (OpenSSL's x509_vfy.h); Python's ssl has no name for it.
NO_CHECK_TIME = 0x200000


def server_context(identity: Identity) -> ssl.SSLContext:
    """For a parent's listener. A certificate that none of the identity's authorities signed ends the handshake."""
    context = _context(ssl.PROTOCOL_TLS_SERVER, identity.authorities)
    context.verify_mode = ssl.CERT_OPTIONAL
    # A resumed session would skip the look at the certificate, and tickets would be sent for nothing.
    context.num_tickets = 0
    context.options |= ssl.OP_NO_TICKET
    _load(context, identity.credentials)
    return context


def session_context(credentials: Credentials, bundle: Sequence[bytes]) -> ssl.SSLContext:
    """For a child that opens a session. The server's name is left to link.handshake, since it follows from the CA."""
    context = _context(ssl.PROTOCOL_TLS_CLIENT, bundle)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_REQUIRED
    _load(context, credentials)
    return context


def enrol_context() -> ssl.SSLContext:
    """For a stranger: encrypted, but to whom is not known before the welcome was judged."""
    context = _context(ssl.PROTOCOL_TLS_CLIENT, ())
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def _context(protocol: int, authorities: Sequence[bytes]) -> ssl.SSLContext:
    context = ssl.SSLContext(protocol)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    # PARTIAL_CHAIN: each certificate of a bundle is believed by itself, cross certificates as well.
    flags = NO_CHECK_TIME | ssl.VERIFY_X509_PARTIAL_CHAIN | ssl.VERIFY_X509_TRUSTED_FIRST
    context.verify_flags = ssl.VerifyFlags(flags)
    if authorities:
        context.load_verify_locations(cadata=b"".join(authorities))
    return context


def _load(context: ssl.SSLContext, credentials: Credentials) -> None:
    """Python's ssl reads a key from a path only: the path is that of an anonymous file in memory."""
    pem = private_key(credentials.seed).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    chain = b"".join(ssl.DER_cert_to_PEM_cert(der).encode() for der in (credentials.certificate, *credentials.chain))
    descriptor = os.memfd_create("banyan-key", os.MFD_CLOEXEC)
    try:
        os.write(descriptor, pem + chain)
        context.load_cert_chain(f"/proc/self/fd/{descriptor}")
    finally:
        os.ftruncate(descriptor, 0)
        os.close(descriptor)
