from __future__ import annotations

import hashlib

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from banyan.core.errors import BadInput, Broken
from banyan.core.secret import Secret
from banyan.trust import keys
from tests.unit.trust.world import public, seed

P = 2**255 - 19
D = -121665 * pow(121666, -1, P) % P


def test_a_fingerprint_is_sha256_of_subject_public_key_info() -> None:
    key = Ed25519PrivateKey.from_private_bytes(seed("a").reveal()).public_key()
    der = key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    assert keys.spki(public("a")) == der
    assert keys.fingerprint(public("a")) == hashlib.sha256(der).digest()


def test_a_signature_holds_for_its_key_and_message_only() -> None:
    signature = keys.sign(seed("a"), b"word")
    assert keys.verify(public("a"), signature, b"word")
    assert not keys.verify(public("a"), signature, b"ward")
    assert not keys.verify(public("b"), signature, b"word")
    assert signature == keys.sign(seed("a"), b"word")


@pytest.mark.parametrize(
    ("key", "signature"), [(b"", b""), (b"\xff" * 32, b"\0" * 64), (b"k" * 31, b"s" * 64), (b"k" * 32, b"s" * 63)]
)
def test_nonsense_is_no_signature(key: bytes, signature: bytes) -> None:
    assert not keys.verify(key, signature, b"word")


def add(a: tuple[int, int], b: tuple[int, int]) -> tuple[int, int]:
    """Edwards addition, RFC 8032 §5.1.4 without projective coordinates."""
    (x1, y1), (x2, y2) = a, b
    k = D * x1 * x2 * y1 * y2 % P
    return (
        (x1 * y2 + x2 * y1) * pow(1 + k, -1, P) % P,
        (y1 * y2 + x1 * x2) * pow(1 - k, -1, P) % P,
    )


def root(square: int) -> int:
    x = pow(square, (P + 3) // 8, P)
    return x if x * x % P == square % P else x * pow(2, (P - 1) // 4, P) % P


def test_points_of_low_order_are_no_keys() -> None:
    y = int.from_bytes(bytes.fromhex("26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05"), "little")
    generator = (root((y * y - 1) * pow(D * y * y + 1, -1, P)), y)
    points, point = set(), generator
    for _ in range(8):
        points.add(point)
        point = add(point, generator)
    assert len(points) == 8
    assert (0, 1) in points
    encodings = {(y | (x & 1) << 255) for x, y in points} | {P, P + 1, P | 1 << 255, (P + 1) | 1 << 255, 1 | 1 << 255}
    for encoding in encodings:
        low = encoding.to_bytes(32, "little")
        with pytest.raises(BadInput, match="low order"):
            keys.check_public(low)
        # The signature R = identity, s = 0 would hold for every message under the identity "key".
        assert not keys.verify(low, (1).to_bytes(32, "little") + bytes(32), b"any")


def test_statements_differ_by_tag_and_by_where_parts_end() -> None:
    assert len({keys.statement("a", b"bc"), keys.statement("ab", b"c"), keys.statement("a", b"b", b"c")}) == 3


def test_a_seed_of_another_size_is_broken_state() -> None:
    with pytest.raises(Broken) as error:
        keys.public_key(Secret(b"short"))
    assert error.value.code == "bad-seed"
