"""Takes each valid artefact, changes it, and shows it again: never accepted, never anything but an error of ours.

Flips in each byte, cuts at each length, and bytes put in; then, by hypothesis, any bytes at all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from banyan.core.errors import BanyanError
from banyan.core.messages import Evidence, Welcome
from banyan.core.time import TimeBasis
from banyan.core.zone import Child
from banyan.trust import attest, authority, chain, enrol, issued, lineage, signed_tokens, tokens
from banyan.trust.attest import join_code
from banyan.trust.authority import Issuer
from banyan.trust.keys import fingerprint
from tests.unit.trust import test_lineage, test_signed_tokens
from tests.unit.trust.world import EAST, ENROL, GREET, NOW, TOP, Parent, chance, minted, public, row, seed, session

CA = Issuer(TOP, seed("top ca"))
NEW = Issuer(TOP, seed("new ca"))
CODE, RECORD = minted()
CHILD = authority.issue_child(CA, EAST, public("east"), serial=chance("c"), now=NOW)
CROSS = authority.cross_certificate(CA, NEW.public, serial=chance("x"), now=NOW)
SIGNED = enrol.sign_request(seed("east"), session(), ENROL)
RENEW = enrol.sign_renewal(seed("east"), EAST, CHILD)
ENTRY = test_lineage.own(EAST)


LEAF = Parent().leaf()
WELCOME = Parent().welcome(GREET)
ROTATED = Parent(ca=NEW).welcome(GREET)
OLD_CA = row(CA).certificate


def see(welcome: Welcome) -> None:
    chain.verify_parent(GREET, welcome, welcome.chain[0], pin=CA.fingerprint, basis=TimeBasis(), machine_wall=NOW)


def parent_leaf(der: bytes) -> None:
    """A changed certificate that TLS is said to have proved; the proof of time is for the changed one."""
    proof = chain.time_proof(CA.seed, nonce=GREET.nonce, time_ms=WELCOME.time, leaf=der)
    see(msgspec.structs.replace(WELCOME, chain=(der, *WELCOME.chain[1:]), proof=proof))


def welcome_with(**changes: object) -> None:
    see(msgspec.structs.replace(WELCOME, **changes))


def through_cross(der: bytes) -> None:
    see(msgspec.structs.replace(ROTATED, bundle=(der, OLD_CA)))


def evidence(body: bytes) -> None:
    context = attest.Context(session(), public("east"), {RECORD.id: RECORD}, {})
    attest.verify(Evidence("join-code", body), context)


def row_with(**changes: object) -> None:
    lineage.judge_rows(
        [msgspec.structs.replace(ENTRY, **changes)],
        child=Child(EAST, "east", fingerprint(public("east"))),
        own=TOP,
        ancestors=(),
        held=lambda _: None,
        via=lambda _: None,
        path=str,
    )


def as_text(check: Callable[[str], object]) -> Callable[[bytes], object]:
    return lambda raw: check(raw.decode("latin-1"))


@dataclass(frozen=True)
class Artefact:
    valid: bytes
    check: Callable[[bytes], object]


ARTEFACTS = {
    "server certificate": Artefact(LEAF, parent_leaf),
    "ca certificate": Artefact(Parent().ca_certificate(), lambda der: welcome_with(chain=(LEAF, der))),
    "cross certificate": Artefact(CROSS, through_cross),
    "child's certificate": Artefact(CHILD, lambda der: chain.verify_child(der, [row(CA)], NOW)),
    "issued certificate": Artefact(
        CHILD, lambda der: issued.check_issued(der, public("east"), [row(CA).certificate], NOW)
    ),
    "proof of time": Artefact(WELCOME.proof, lambda raw: welcome_with(proof=raw)),
    "join-code evidence": Artefact(join_code.evidence(CODE, session(), public("east")).body, evidence),
    "possession": Artefact(
        SIGNED.signature,
        lambda raw: enrol.check_request(session(), msgspec.structs.replace(SIGNED, signature=raw)),
    ),
    "enrolled key": Artefact(
        SIGNED.public_key,
        lambda raw: enrol.check_request(session(), msgspec.structs.replace(SIGNED, public_key=raw)),
    ),
    "renewal": Artefact(
        RENEW.signature,
        lambda raw: enrol.check_renewal(msgspec.structs.replace(RENEW, signature=raw), EAST, CHILD),
    ),
    "lineage entry": Artefact(ENTRY.entry, lambda raw: row_with(entry=raw)),
    "lineage signature": Artefact(ENTRY.signature, lambda raw: row_with(signature=raw)),
    "api token": Artefact(
        test_signed_tokens.token().encode(),
        as_text(lambda text: signed_tokens.verify(text, [test_signed_tokens.KEY], NOW)),
    ),
    "join code": Artefact(CODE.encode().reveal(), as_text(tokens.parse)),
}


def changed(valid: bytes) -> Iterator[bytes]:
    for at in range(len(valid)):
        for bit in {at % 8, (3 * at + 5) % 8} if len(valid) > 200 else range(8):
            yield valid[:at] + bytes((valid[at] ^ 1 << bit,)) + valid[at + 1 :]
        yield valid[:at]
        yield valid[:at] + valid[at + 1 :]
        yield valid[:at] + b"\x00" + valid[at:]
    yield valid + b"\x00"
    yield valid + valid


def is_refused(check: Callable[[bytes], object], raw: bytes) -> bool:
    """False if accepted; whatever is not an error of ours passes through, and fails the test."""
    try:
        check(raw)
    except BanyanError as error:
        return bool(error.code and error.text)
    return False


@pytest.mark.parametrize("name", ARTEFACTS)
def test_the_artefact_itself_is_accepted(name: str) -> None:
    artefact = ARTEFACTS[name]
    artefact.check(artefact.valid)


# White space inside a join code is forgiven, so putting some in changes nothing.
FORGIVEN = {"join code": lambda raw: "".join(raw.decode("latin-1").split()).encode("latin-1")}


@pytest.mark.parametrize("name", ARTEFACTS)
def test_no_changed_artefact_is_accepted(name: str) -> None:
    artefact = ARTEFACTS[name]
    same = FORGIVEN.get(name, lambda raw: raw)
    accepted = [
        raw for raw in changed(artefact.valid) if same(raw) != artefact.valid and not is_refused(artefact.check, raw)
    ]
    assert accepted == []


@pytest.mark.parametrize("name", ARTEFACTS)
@given(raw=st.binary(max_size=600))
def test_no_bytes_at_all_are_accepted_or_raise_anything_else(name: str, raw: bytes) -> None:
    assert is_refused(ARTEFACTS[name].check, raw)


@given(
    st.sampled_from(sorted(ARTEFACTS)),
    st.sampled_from(sorted(ARTEFACTS)),
)
def test_no_artefact_passes_for_another(one: str, other: str) -> None:
    if ARTEFACTS[one].valid != ARTEFACTS[other].valid:
        assert is_refused(ARTEFACTS[other].check, ARTEFACTS[one].valid)
