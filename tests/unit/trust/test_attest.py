from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from banyan.core.errors import Refused
from banyan.core.messages import Evidence
from banyan.core.policy import KnownKey
from banyan.core.zone import Mode
from banyan.trust import attest
from banyan.trust.attest import join_code, known_key
from banyan.trust.keys import fingerprint
from banyan.trust.session import Session
from tests.unit.trust.world import GREET, Parent, by_code, chance, known, minted, public, session

CODE, RECORD = minted(name="east*", driver="openstack", labels={"site": "berlin"}, mode=Mode.OBSERVE)


def context(key: str = "east", at: Session | None = None) -> attest.Context:
    listed = KnownKey(fingerprint(public("east")), "east", {"rack": "7"}, Mode.PROTECT, replace=True)
    return attest.Context(at or session(), public(key), {RECORD.id: RECORD}, {listed.fingerprint: listed})


def refused(evidence: Evidence, where: attest.Context) -> str:
    with pytest.raises(Refused) as error:
        attest.verify(evidence, where)
    return error.value.code


def test_a_join_code_proves_its_attributes() -> None:
    verified = by_code(CODE, RECORD)
    assert verified == attest.Verified(
        "join-code", CODE.id, "east*", "openstack", {"site": "berlin"}, Mode.OBSERVE, replace=False, code=RECORD
    )


def test_the_evidence_holds_no_secret_and_serves_nowhere_else() -> None:
    evidence = join_code.evidence(CODE, session(), public("east"))
    assert CODE.secret.reveal() not in evidence.body
    welcome = msgspec.structs.replace(Parent().welcome(GREET), nonce=chance("another"))
    later = Session.of(GREET, welcome, welcome.chain[0])
    assert refused(evidence, context(at=later)) == "code-forged"  # said again
    elsewhere = replace(session(), leaf=Parent(leaf_seed=CODE.secret).leaf())
    assert refused(evidence, context(at=elsewhere)) == "code-forged"  # passed on to another controller
    assert refused(evidence, context(key="west")) == "code-forged"  # used for another key


def test_what_a_reader_of_the_parents_database_knows_is_not_enough() -> None:
    stolen = replace(CODE, secret=type(CODE.secret)(RECORD.secret_hash))
    assert refused(join_code.evidence(stolen, session(), public("east")), context()) == "code-forged"


def test_codes_unknown_and_forged() -> None:
    other, _ = minted(id=chance("other id", 8))
    assert refused(join_code.evidence(other, session(), public("east")), context()) == "code-unknown"
    guessed, _ = minted(secret=type(CODE.secret)(bytes(32)))
    assert refused(join_code.evidence(guessed, session(), public("east")), context()) == "code-forged"


def test_a_known_key() -> None:
    assert known("east", name="e*") == attest.Verified("known-key", fingerprint(public("east")).hex()[:16], name="e*")
    verified = attest.verify(known_key.evidence(), context())
    assert (verified.labels, verified.mode, verified.replace) == ({"rack": "7"}, Mode.PROTECT, True)
    assert refused(known_key.evidence(), context(key="west")) == "key-unknown"
    assert refused(Evidence("known-key", b"x"), context()) == "bad-evidence"


@pytest.mark.parametrize("body", [b"", b"\xc0", b"\x93\xc4\x00\xc4\x00\xc4\x00", b"\x00" * 5000])
def test_evidence_that_is_none(body: bytes) -> None:
    assert refused(Evidence("join-code", body), context()) == "bad-evidence"
    assert refused(Evidence("x509", body), context()) == "unknown-evidence"


@pytest.mark.parametrize("kind", attest.VERIFIERS)
def test_each_verifier_is_listed_by_its_own_kind(kind: str) -> None:
    assert attest.VERIFIERS[kind].kind == kind
