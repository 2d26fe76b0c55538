"""What is issued: RFC 5280 to the letter, repeatable, and accepted by OpenSSL in the roles that it is for."""

from __future__ import annotations

import ssl

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from banyan.core.errors import BadInput
from banyan.core.ids import code_text
from banyan.core.secret import Secret
from banyan.trust import authority
from banyan.trust.authority import Issuer
from banyan.trust.certificate import read
from banyan.trust.keys import private_key
from tests.unit.trust.world import DAY, EAST, NOW, TOP, Parent, chance, public, row, seed

CA = Issuer(TOP, seed("top ca"))
NEW = Issuer(TOP, seed("new ca"))


def test_the_same_seed_serial_and_time_give_the_same_bytes() -> None:
    assert Parent().leaf() == Parent().leaf()
    made = [authority.api_certificate(seed("api"), ["a.example"], serial=chance("s"), now=NOW) for _ in range(2)]
    assert made[0] == made[1]


def test_a_ca() -> None:
    ca = read(row(CA).certificate)
    assert ca.authority
    assert ca.self_signed
    assert ca.signed_by(CA.public)
    assert ca.zone == ca.issuer_zone == TOP
    assert not (ca.server)
    assert not (ca.client)
    assert ca.not_after - NOW > 3650 * DAY
    parsed = x509.load_der_x509_certificate(row(CA).certificate)
    assert parsed.extensions.get_extension_for_class(x509.BasicConstraints).value.path_length == 0
    assert parsed.serial_number == int.from_bytes(chance("ca"), "big") & (2**127 - 1)


def test_leaves() -> None:
    server = read(Parent().leaf())
    assert server.server
    assert not server.client
    assert not server.authority
    assert server.child is None
    assert server.names == (authority.server_name(CA.fingerprint),)
    assert all(len(label) <= 63 for label in server.names[0].split("."))
    assert (server.not_before, server.not_after) == (NOW - 300, NOW + DAY)
    child = read(authority.issue_child(CA, EAST, public("east"), serial=chance("c"), now=NOW, lifetime=60))
    assert child.client
    assert not child.server
    assert not child.authority
    assert child.names == ()
    assert child.child == EAST
    assert child.not_after == NOW + 60
    assert child.issuer_zone == TOP
    san = x509.load_der_x509_certificate(child.der).extensions.get_extension_for_class(x509.SubjectAlternativeName)
    assert san.value.get_values_for_type(x509.UniformResourceIdentifier) == [f"banyan:zone:{code_text(EAST)}"]


def pem(der: bytes) -> str:
    return ssl.DER_cert_to_PEM_cert(der)


def context(
    server: bool, trusted: list[bytes], chain: list[bytes], key: Secret, folder: object, strict: bool = True
) -> ssl.SSLContext:
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if server else ssl.PROTOCOL_TLS_CLIENT)
    made.minimum_version = ssl.TLSVersion.TLSv1_3
    made.check_hostname = not server
    made.verify_mode = ssl.CERT_REQUIRED
    if strict:
        made.verify_flags |= ssl.VERIFY_X509_STRICT
    made.verify_flags |= 0x200000  # X509_V_FLAG_NO_CHECK_TIME: NOW is not the machine's
    made.load_verify_locations(cadata="".join(pem(der) for der in trusted))
    path = folder / ("server.pem" if server else "client.pem")
    text = private_key(key).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    path.write_text(text.decode() + "".join(pem(der) for der in chain))
    made.load_cert_chain(path)
    return made


def handshake(client: ssl.SSLContext, server: ssl.SSLContext, name: str) -> tuple[bytes | None, bytes | None]:
    """The certificates that each end saw. Raises ssl.SSLError if either end refused."""
    c_in, c_out, s_in, s_out = (ssl.MemoryBIO() for _ in range(4))
    a = client.wrap_bio(c_in, c_out, server_hostname=name)
    b = server.wrap_bio(s_in, s_out, server_side=True)
    done: set[int] = set()
    for _ in range(10):
        for side, out, peer_in in ((a, c_out, s_in), (b, s_out, c_in)):
            try:
                if id(side) not in done:
                    side.do_handshake()
                    done.add(id(side))
            except ssl.SSLWantReadError:
                pass
            peer_in.write(out.read())
    assert len(done) == 2
    return a.getpeercert(binary_form=True), b.getpeercert(binary_form=True)


def test_openssl_accepts_both_ends_strictly(tmp_path: object) -> None:
    ca, leaf = row(CA).certificate, Parent().leaf()
    child = authority.issue_child(CA, EAST, public("east"), serial=chance("c"), now=NOW)
    server = context(True, [ca], [leaf], seed("top controller"), tmp_path)
    client = context(False, [ca], [child], seed("east"), tmp_path)
    assert handshake(client, server, authority.server_name(CA.fingerprint)) == (leaf, child)


def test_openssl_follows_cross_certificates_both_ways(tmp_path: object) -> None:
    """A child of the old CA, and trusting only that, meets a controller that the new one certified."""
    old, new = row(CA).certificate, row(NEW).certificate
    cross = authority.cross_certificate(CA, NEW.public, serial=chance("x"), now=NOW)
    leaf = authority.issue_server(NEW, public("top controller"), serial=chance("l"), now=NOW)
    child = authority.issue_child(CA, EAST, public("east"), serial=chance("c"), now=NOW)
    server = context(True, [new, old], [leaf, cross], seed("top controller"), tmp_path)
    client = context(False, [old], [child], seed("east"), tmp_path)
    assert handshake(client, server, authority.server_name(NEW.fingerprint)) == (leaf, child)


def test_openssl_refuses_a_child_as_a_server_and_a_server_as_a_child(tmp_path: object) -> None:
    ca, leaf = row(CA).certificate, Parent().leaf()
    child = authority.issue_child(CA, EAST, public("east"), serial=chance("c"), now=NOW)
    posing = context(True, [ca], [child], seed("east"), tmp_path)
    client = context(False, [ca], [child], seed("east"), tmp_path)
    client.check_hostname = False
    with pytest.raises(ssl.SSLError, match="purpose"):
        handshake(client, posing, "x")
    server = context(True, [ca], [leaf], seed("top controller"), tmp_path)
    client = context(False, [ca], [leaf], seed("top controller"), tmp_path)
    with pytest.raises(ssl.SSLError, match="purpose"):
        handshake(client, server, authority.server_name(CA.fingerprint))


def test_the_api_certificate_serves_its_names_to_whoever_trusts_it(tmp_path: object) -> None:
    made = authority.api_certificate(
        seed("api"), ["top.example.org", "192.0.2.7", "[2001:db8::7]"], serial=chance("a"), now=NOW
    )
    assert "PRIVATE" not in repr(made)
    path = tmp_path / "api.pem"
    path.write_bytes(made.certificate + made.key.reveal())
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(path)
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.verify_flags |= 0x200000 | ssl.VERIFY_X509_STRICT
    client.load_verify_locations(cadata=made.certificate.decode())
    for name in ("top.example.org", "192.0.2.7", "2001:db8::7"):
        handshake(client, server, name)
    with pytest.raises(ssl.SSLError, match="mismatch"):
        handshake(client, server, "other.example.org")


@pytest.mark.parametrize("host", ["", "*", "a..b", "-a.example", "a b", "ü.example", "fe80::1%eth0", "x" * 64])
def test_hosts_that_are_none(host: str) -> None:
    with pytest.raises(BadInput) as error:
        authority.api_certificate(seed("api"), [host], serial=chance("a"), now=NOW)
    assert error.value.code == "bad-host"
