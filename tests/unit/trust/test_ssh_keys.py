"""Key pairs for servers: made, read, named by their fingerprint."""

from __future__ import annotations

import base64
import subprocess
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_ssh_private_key

from banyan.core.errors import BadInput
from banyan.core.secret import Secret
from banyan.core.time import Wall
from banyan.trust import ssh_keys

SEED = Secret(bytes(range(32)))
LONG = Secret(bytes(range(48)))


def test_a_pair_that_was_made_fits_together() -> None:
    public, private = ssh_keys.make_ssh(SEED, "of-ann")
    read = load_ssh_private_key(private.reveal(), None)
    half = read.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()
    assert public == f"{half} of-ann\n"
    assert ssh_keys.make_ssh(SEED, "of-ann")[0] == public
    assert ssh_keys.ssh_fingerprint(public).count(":") == 15


def test_fingerprints_are_those_of_openssh(tmp_path: Path) -> None:
    public, _ = ssh_keys.make_ssh(SEED, "x")
    path = tmp_path / "key.pub"
    path.write_text(public)
    try:
        told = subprocess.run(
            ["ssh-keygen", "-E", "md5", "-lf", path], capture_output=True, text=True, check=True
        ).stdout
    except FileNotFoundError:
        pytest.skip("this machine has no ssh-keygen")
    assert f"MD5:{ssh_keys.ssh_fingerprint(public)} " in told


def test_a_certificate_signs_itself_and_is_for_clients() -> None:
    certificate, private = ssh_keys.make_x509(LONG, "ann", Wall(1_796_000_000.0))
    read = x509.load_pem_x509_certificate(certificate.encode())
    read.verify_directly_issued_by(read)
    assert b"PRIVATE KEY" in private.reveal()
    assert ssh_keys.x509_fingerprint(certificate).count(":") == 19


def rsa_key(bits: int) -> str:
    key = rsa.generate_private_key(65537, bits).public_key()
    return key.public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()


def test_other_kinds_and_comments_in_any_language_are_read() -> None:
    assert ssh_keys.ssh_fingerprint(f"{rsa_key(2048)} Zoë's laptop\n")
    blob = b"\0\0\0\x1ask-ssh-ed25519@openssh.com" + b"\0" * 40
    assert ssh_keys.ssh_fingerprint(f"sk-ssh-ed25519@openssh.com {base64.b64encode(blob).decode()}")


@pytest.mark.parametrize(
    "text",
    ["", "ssh-rsa", "ssh-rsa JUNK", "ssh-rsa AAAA", "not a key", "ssh-ed25519 " + "A" * 20_000, "ssh-rsa é", "\n\n"],
)
def test_what_is_no_key_is_refused(text: str) -> None:
    with pytest.raises(BadInput) as refused:
        ssh_keys.ssh_fingerprint(text)
    assert refused.value.code == "bad-public-key"
    with pytest.raises(BadInput):
        ssh_keys.x509_fingerprint(text)


def test_a_key_under_another_kinds_name_is_refused() -> None:
    public, _ = ssh_keys.make_ssh(SEED, "x")
    with pytest.raises(BadInput):
        ssh_keys.ssh_fingerprint(public.replace("ssh-ed25519", "ssh-rsa"))
    with pytest.raises(BadInput):
        ssh_keys.ssh_fingerprint(public.replace("ssh-ed25519", "sk-ssh-ed25519@openssh.com"))
