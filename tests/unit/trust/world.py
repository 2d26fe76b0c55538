"""Two zones on paper: a parent with a CA, a child with a key, and the words between them. All from seeds."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace

import msgspec

from banyan.core.ids import ZoneCode
from banyan.core.messages import Enrol, Evidence, Greet, Welcome
from banyan.core.policy import CodeRecord, KnownKey
from banyan.core.records import AuthorityRow
from banyan.core.secret import Secret
from banyan.core.time import BUILD_DATE, TimeBasis, Wall
from banyan.trust import attest, authority, enrol, tokens
from banyan.trust.attest import join_code
from banyan.trust.authority import Issuer
from banyan.trust.chain import time_proof, verify_parent
from banyan.trust.enrol import Neighbours, Request
from banyan.trust.keys import fingerprint, public_key
from banyan.trust.session import Session
from banyan.trust.tokens import JoinCode

NOW = Wall(BUILD_DATE + 40 * 86_400.0)
HOUR = 3_600.0
DAY = 86_400.0
TOP = ZoneCode(0x12_3456_789A)
EAST = ZoneCode(0x0E_A570_0001)
WEST = ZoneCode(0x0E_E570_0002)
ADDRESSES = ("top.example.org:8781", "[2001:db8::1]:8781", "192.0.2.1:8781")


def seed(name: str) -> Secret:
    return Secret(hashlib.sha256(name.encode()).digest())


def public(name: str) -> bytes:
    return public_key(seed(name))


def chance(name: str, size: int = 16) -> bytes:
    return hashlib.sha512(name.encode()).digest()[:size]


def row(issuer: Issuer, now: Wall = NOW, **changes: object) -> AuthorityRow:
    certificate = authority.ca_certificate(issuer, serial=chance("ca"), now=now)
    made = AuthorityRow(issuer.fingerprint, certificate, "ca", now, Wall(now + authority.CA_LIFE))
    return replace(made, **changes)


@dataclass(slots=True)
class Parent:
    """A parent whose present CA is `ca`, at `now`; it answers greetings."""

    code: ZoneCode = TOP
    ca: Issuer = field(default_factory=lambda: Issuer(TOP, seed("top ca")))
    leaf_seed: Secret = field(default_factory=lambda: seed("top controller"))
    now: Wall = NOW
    bundle: tuple[bytes, ...] = ()

    def leaf(self) -> bytes:
        return authority.issue_server(self.ca, public_key(self.leaf_seed), serial=chance("leaf"), now=self.now)

    def ca_certificate(self, made: Wall = NOW) -> bytes:
        return authority.ca_certificate(self.ca, serial=chance("ca"), now=made)

    def welcome(self, greet: Greet, leaf: bytes | None = None) -> Welcome:
        leaf = self.leaf() if leaf is None else leaf
        ms = int(self.now * 1000)
        return Welcome(
            version=1,
            code=self.code,
            name="top",
            time=ms,
            nonce=chance("welcome nonce"),
            chain=(leaf, self.ca_certificate(min(self.now, NOW))),
            bundle=self.bundle,
            proof=time_proof(self.ca.seed, nonce=greet.nonce, time_ms=ms, leaf=leaf),
        )


GREET = Greet(1, 1, chance("greet nonce"), "enrol")


def meet(
    parent: Parent,
    *,
    pin: bytes | None = None,
    basis: TimeBasis = TimeBasis(),  # noqa: B008 - frozen
    wall: float = NOW,
    bundle: tuple[bytes, ...] = (),
    code: ZoneCode | None = None,
    **changes: object,
):
    """verify_parent over what `parent` says, with `changes` to its welcome."""
    welcome = parent.welcome(GREET)
    leaf = welcome.chain[0]
    welcome = msgspec.structs.replace(welcome, **changes)
    return verify_parent(
        GREET,
        welcome,
        leaf,
        pin=parent.ca.fingerprint if pin is None else pin,
        bundle=bundle,
        code=code,
        basis=basis,
        machine_wall=wall,
    )


def session(parent: Parent | None = None) -> Session:
    parent = parent or Parent()
    welcome = parent.welcome(GREET)
    return Session.of(GREET, welcome, welcome.chain[0])


def minted(**changes: object) -> tuple[JoinCode, CodeRecord]:
    arguments: dict[str, object] = {
        "addresses": ADDRESSES,
        "pin": Parent().ca.fingerprint,
        "now": NOW,
        "expires": Wall(NOW + HOUR),
        "id": chance("code id", 8),
        "secret": seed("code secret"),
    }
    return tokens.mint(**(arguments | changes))


ENROL = Enrol(
    evidence=Evidence("", b""),
    code=EAST,
    name="east",
    public_key=b"",
    signature=b"",
    driver="openstack",
    labels={"site": "berlin"},
    mode="place",
    version="1.0",
)


def asked(key: str = "east", evidence: Evidence | None = None, **changes: object) -> Request:
    """A checked request by the key of that seed."""
    message = msgspec.structs.replace(ENROL, evidence=evidence or Evidence("known-key", b""), **changes)
    return enrol.check_request(session(), enrol.sign_request(seed(key), session(), message))


def by_code(code: JoinCode, record: CodeRecord, key: str = "east") -> attest.Verified:
    """What a parent that keeps `record` finds proved by the holder of `code`."""
    evidence = join_code.evidence(code, session(), public(key))
    return attest.verify(evidence, attest.Context(session(), public(key), {record.id: record}, {}))


def known(key: str = "east", name: str = "east", **changes: object) -> attest.Verified:
    listed = replace(KnownKey(fingerprint(public(key)), name), **changes)
    return attest.verify(
        Evidence("known-key", b""), attest.Context(session(), public(key), {}, {listed.fingerprint: listed})
    )


NOBODY = Neighbours(None, None, None, above=(TOP,))
