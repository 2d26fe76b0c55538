"""What the handshake of a wire proves, as functions of certificates alone: signatures, purposes, the server's name.

TLS does this on a real wire (`tls` calls `check_server` for the name); `memory_wire` does it here.
Neither judges times: `trust.chain` does, at corrected time.
"""

from __future__ import annotations

from collections.abc import Sequence

from banyan.core.errors import BadInput, Refused
from banyan.core.ports import Credentials
from banyan.trust.authority import server_name
from banyan.trust.certificate import Certificate, read
from banyan.trust.chain import MAX_CERTIFICATES
from banyan.trust.keys import public_key

# As far as trust.chain follows cross certificates: a child that was away meets a step or two.
DEPTH = 5


def check_possession(credentials: Credentials) -> None:
    """Raises BadInput("wrong-key") unless the seed is that of the certificate's key."""
    if read(credentials.certificate).public != public_key(credentials.seed):
        raise BadInput("wrong-key", "the certificate is for another key than the one that came with it")


def check_server(leaf: bytes, chain: Sequence[bytes], bundle: Sequence[bytes]) -> None:
    """Raises Refused("not-the-parent") unless `leaf` is a controller's of a CA that leads to one in `bundle`.

    `chain`: the CA certificates that were shown with it, as after a rotation.
    """
    certificate = _read(leaf)
    if not _is_signed(certificate, _authorities(chain[:MAX_CERTIFICATES]), _authorities(bundle), DEPTH):
        raise not_the_parent()
    check_name(leaf)


def check_name(leaf: bytes) -> None:
    """Raises Refused("not-the-parent") unless `leaf` says that it is a controller's of the CA that signed it.

    For a certificate whose signatures were checked: its issuer's key identifier is then the CA's fingerprint.
    """
    certificate = _read(leaf)
    if not certificate.server or certificate.names != (server_name(certificate.issuer),):
        raise not_the_parent()


def not_the_parent() -> Refused:
    return Refused(
        "not-the-parent",
        "the certificate that was shown is not signed by the pinned CA for one of its controllers: "
        "check that the address leads to the parent's link port, and that nothing in between opens TLS",
    )


def check_client(leaf: bytes, authorities: Sequence[bytes]) -> None:
    """Raises Refused("not-a-child") unless `leaf` is a client certificate that one of `authorities` signed."""
    certificate = _read(leaf)
    if not _is_signed(certificate, (), _authorities(authorities), 0) or not certificate.client:
        raise Refused("not-a-child", "the certificate that was shown is not signed for a child by a CA of this zone")


def _is_signed(
    certificate: Certificate, chain: Sequence[Certificate], anchors: Sequence[Certificate], depth: int
) -> bool:
    """Whether an anchor signed it, or a CA certificate of `chain` that leads to an anchor in `depth` steps."""
    if any(_signed_by(certificate, ca) for ca in anchors):
        return True
    return depth > 0 and any(
        _signed_by(certificate, ca) and _is_signed(ca, chain, anchors, depth - 1)
        for ca in chain
        if ca.der != certificate.der
    )


def _authorities(ders: Sequence[bytes]) -> list[Certificate]:
    return [read(der, "CA certificate") for der in ders]


def _signed_by(certificate: Certificate, ca: Certificate) -> bool:
    return ca.authority and ca.fingerprint == certificate.issuer and certificate.signed_by(ca.public)


def _read(leaf: bytes) -> Certificate:
    try:
        return read(leaf, "peer's certificate")
    except BadInput as error:
        raise Refused("not-the-parent", f"{error.text}; is this a link port of Banyan?") from error
