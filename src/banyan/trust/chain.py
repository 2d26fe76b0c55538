"""Each end checks the other, at an explicit instant (protocols §7.1, §7.4).

`verify_parent`: a child, before a word of its own leaves. The order matters: first signatures from the leaf to the
pin, then the proof of time by the CA's key, then whether that time can be, and only at that time the certificates'
own. Somebody with an old server key, but no CA key, can choose no time. `verify_child`: a parent, after the
handshake; an expired certificate is told apart, for `renewable`. `standing`: the certificate against the row.
TLS has proved before that the peer holds the leaf's key, and was told not to judge times.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from banyan.core.errors import BadInput, Refused
from banyan.core.ids import ZoneCode, code_text
from banyan.core.messages import Greet, Welcome
from banyan.core.records import AuthorityRow
from banyan.core.secret import Secret
from banyan.core.time import TimeBasis, Wall, iso
from banyan.core.zone import Admin, Child, ChildState
from banyan.trust.authority import CROSS_LIFE, server_name
from banyan.trust.certificate import Certificate, read
from banyan.trust.keys import short, sign, statement, verify
from banyan.trust.session import check_nonce

# A zone rotates its CA once in years; a chain of a few hurried rotations still fits.
MAX_CERTIFICATES = 16
# What a child must do that can not come back as it is. A code of another CA is taken only by a zone without a parent.
_AGAIN = "join it again with a new code"
_ANEW = "`banyan leave --apply` at that zone, then join it again with a new code"
MAX_PATH = 5
# A proven time may be this much before what we know to be past: two clocks, and a code made a moment ago.
TIME_TOLERANCE = 300.0
# An expired certificate is renewed for this long; cross certificates live as long.
RECOVERY = CROSS_LIFE
LATEST_MS = 253_402_300_799_000  # the end of year 9999, the last instant that X.509 can write


@dataclass(frozen=True, slots=True)
class ParentProof:
    """Who the parent is, and what time it is. `pin`: the pinned CA; `path`: CA certificates from the present CA's
    to the pin, the cross certificates between (empty when the pin is the present CA). `basis`: time as corrected.
    `until`: when the certificate that was shown is over, or its CA's.
    """

    code: ZoneCode
    authority: bytes
    fingerprint: bytes
    pin: bytes
    path: tuple[bytes, ...]
    now: Wall
    basis: TimeBasis
    until: Wall


@dataclass(frozen=True, slots=True)
class ChildProof:
    """What a child's certificate says, its signature checked. `fingerprint` is of its key."""

    code: ZoneCode
    fingerprint: bytes
    public: bytes
    not_before: Wall
    not_after: Wall
    expired: bool


@dataclass(frozen=True, slots=True)
class Pins:
    """What a child keeps of its parent: fields `pin` and `bundle` of core.zone.Uplink."""

    pin: bytes
    bundle: tuple[bytes, ...]


# --- the child looks at its parent ---------------------------------------------------------------


def verify_parent(
    greet: Greet,
    welcome: Welcome,
    leaf: bytes,
    *,
    pin: bytes,
    bundle: Sequence[bytes] = (),
    code: ZoneCode | None = None,
    basis: TimeBasis,
    machine_wall: float,
) -> ParentProof:
    """The proof that `leaf` (the certificate that TLS proved) speaks for the zone whose CA is pinned.

    `bundle`: CA certificates kept from before; `code`: the parent's, if it is known already. Raises Refused:
    not-the-parent, self-signed, childs-certificate, wrong-server-name, unknown-authority, wrong-pin, wrong-zone,
    bad-time-proof, time-behind, not-yet-valid, certificate-expired, cross-expired, authority-expired; or BadInput
    (bad-certificate, bad-nonce, bad-key) for what can not be read.
    """
    if not welcome.chain or welcome.chain[0] != leaf:
        raise Refused(
            "not-the-parent",
            "the parent's welcome is not for the certificate that it showed in TLS; something stands between",
        )
    certificate = read(leaf, "parent's certificate")
    authorities = read_authorities([*welcome.chain[1:], *welcome.bundle, *bundle])
    ca = _server_authority(certificate, authorities)
    path = _path(ca, authorities, pin)
    if ca.zone is None or welcome.code != ca.zone or (code is not None and code != ca.zone):
        expected = welcome.code if code is None else code
        raise Refused(
            "wrong-zone",
            f"expected zone {_code(expected)} here, but its CA belongs to zone {_code(ca.zone)}; "
            "check the address, or join again with a new code",
        )
    check_time_proof(ca.public, welcome.proof, nonce=greet.nonce, time_ms=welcome.time, leaf=leaf)
    learned = judge_time(basis, machine_wall, welcome.time)
    now = learned.correct(machine_wall)
    _valid_at(certificate, now, "parent's certificate", "certificate-expired", "restart or renew at the parent")
    _valid_at(ca, now, "parent's CA certificate", "authority-expired", "rotate the CA at the parent, join again")
    for cross in path:
        _valid_at(cross, now, "cross certificate of the parent's CAs", "cross-expired", _ANEW)
    return ParentProof(
        code=ca.zone,
        authority=ca.der,
        fingerprint=ca.fingerprint,
        pin=pin,
        path=tuple(cross.der for cross in path),
        now=now,
        basis=learned,
        until=min(certificate.not_after, ca.not_after),
    )


def new_pins(proof: ParentProof, welcome: Welcome, bundle: Sequence[bytes] = ()) -> Pins:
    """What to keep after `proof`: the present CA becomes the pin; certificates that lead on are kept while valid.

    Kept, at most MAX_CERTIFICATES: the present CA's, those that the welcome brought, older ones; each for the same zone
    and not over. That by which the present CA signed the last one leads back, should the parent be restored.
    """
    kept = {proof.authority: None}
    for certificate in read_authorities([*welcome.chain[1:], *welcome.bundle, *bundle]):
        if certificate.zone == proof.code and certificate.not_after > proof.now:
            kept[certificate.der] = None
    return Pins(proof.fingerprint, tuple(kept)[:MAX_CERTIFICATES])


def read_authorities(ders: Sequence[bytes]) -> list[Certificate]:
    """The CA certificates among `ders`, each once, with one zone in both names, signed by a key among them.

    Raises BadInput("bad-certificate").
    """
    unique = list(dict.fromkeys(ders))
    if len(unique) > 3 * MAX_CERTIFICATES:
        raise BadInput("bad-certificate", f"at most {3 * MAX_CERTIFICATES} certificates are read, got {len(unique)}")
    found = [read(der, "CA certificate") for der in unique]
    found = [c for c in found if c.authority and c.zone is not None and c.zone == c.issuer_zone]
    publics = {c.fingerprint: c.public for c in found}
    return [c for c in found if c.issuer in publics and c.signed_by(publics[c.issuer])]


def _server_authority(leaf: Certificate, authorities: Sequence[Certificate]) -> Certificate:
    """The CA that signed `leaf`, and means it to be a controller of its zone; its longest-lived certificate."""
    if leaf.self_signed:
        raise Refused(
            "self-signed",
            f"the parent showed a certificate that it signed itself ({short(leaf.fingerprint)}); "
            "expected one signed by the CA in the join code. Is this address the parent's?",
        )
    if leaf.client or leaf.child is not None:
        raise Refused(
            "childs-certificate",
            f"the certificate of child zone {_code(leaf.child)} was shown as a parent's; children never speak "
            "for their parent. Tell the operator of the parent: that child's machine may be in wrong hands",
        )
    signers = [c for c in authorities if c.fingerprint == leaf.issuer and c.self_signed] or [
        c for c in authorities if c.fingerprint == leaf.issuer
    ]
    if not signers or not leaf.signed_by(signers[0].public):
        raise Refused(
            "unknown-authority",
            f"the CA {short(leaf.issuer)} that signed the parent's certificate was not shown with it, "
            "or did not sign it; is this address the parent's?",
        )
    expected = server_name(leaf.issuer)
    if not leaf.server or leaf.authority or leaf.names != (expected,) or leaf.issuer_zone != signers[0].zone:
        raise Refused(
            "wrong-server-name",
            f"expected a server certificate for {expected}, got one for "
            f"{', '.join(name[:80] for name in leaf.names[:4]) or 'no name'}; is this the parent's link port?",
        )
    return max(signers, key=lambda c: c.not_after)


def _path(ca: Certificate, authorities: Sequence[Certificate], pin: bytes) -> list[Certificate]:
    """Cross certificates from the CA's key to the pinned key, by the shortest way."""
    found = route(ca.fingerprint, ca.zone, authorities, pin)
    if found is None:
        raise Refused(
            "wrong-pin",
            f"expected a parent whose CA is {short(pin)} (the join code or an earlier session said so), "
            f"got CA {short(ca.fingerprint)}. Nothing was told to it. If the address is right, the parent was "
            "reinstalled or its CA replaced after a leak: `banyan leave --apply` here, if this zone had joined, and "
            "join again with a new code",
        )
    return found


def route(
    start: bytes, zone: ZoneCode | None, authorities: Sequence[Certificate], end: bytes
) -> list[Certificate] | None:
    """Certificates of CAs of `zone` from the key `start` to the key `end`, each signed by the next one's key.

    By the shortest way; None if there is none of at most MAX_PATH. Times are for the caller to judge.
    """
    routes: dict[bytes, list[Certificate]] = {start: []}
    edge = [start]
    for _ in range(MAX_PATH):
        if end in routes:
            return routes[end]
        reached = []
        # The longest-lived first: of two that join the same CAs, the one that is not over must win.
        for cross in sorted(authorities, key=lambda c: (-c.not_after, c.der)):
            if cross.fingerprint in edge and cross.issuer not in routes and cross.zone == zone:
                routes[cross.issuer] = [*routes[cross.fingerprint], cross]
                reached.append(cross.issuer)
        edge = reached
    return None


def _valid_at(certificate: Certificate, now: Wall, what: str, over: str, remedy: str) -> None:
    if now < certificate.not_before:
        raise Refused(
            "not-yet-valid",
            f"the {what} begins at {iso(certificate.not_before)}, and it is {iso(now)}; check both clocks",
        )
    if now > certificate.not_after:
        raise Refused(over, f"the {what} ended at {iso(certificate.not_after)}, and it is {iso(now)}; {remedy}")


# --- time ----------------------------------------------------------------------------------------


def time_proof(ca_seed: Secret, *, nonce: bytes, time_ms: int, leaf: bytes) -> bytes:
    """The CA's signature: "to the greeting with this nonce, at this time, through this server certificate"."""
    return sign(ca_seed, _time_statement(nonce, time_ms, leaf))


def check_time_proof(ca_public: bytes, proof: bytes, *, nonce: bytes, time_ms: int, leaf: bytes) -> None:
    """Raises Refused("bad-time-proof") unless `ca_public` signed exactly this."""
    if not verify(ca_public, proof, _time_statement(nonce, time_ms, leaf)):
        raise Refused(
            "bad-time-proof",
            "the parent could not prove the time by its CA's key: it may hold a controller's old key and nothing "
            "more. Nothing was told to it; check the address, then the parent",
        )


def judge_time(basis: TimeBasis, machine_wall: float, proven_ms: int) -> TimeBasis:
    """How to correct the clock once `proven_ms` was proved; its floor is now at least that.

    Raises Refused("time-behind") when that is more than TIME_TOLERANCE before what is known to be past: the other
    end was restored, or its clock is wrong, or it repeats something old.
    """
    proven = Wall(proven_ms / 1000)
    if proven < basis.floor - TIME_TOLERANCE:
        raise Refused(
            "time-behind",
            f"the parent says that it is {iso(proven)}, but {iso(basis.floor)} is already past; "
            "set the clock of the parent's machine, or look whether it was restored from a backup",
        )
    return basis.learned(machine_wall, proven).raised(proven)


def _time_statement(nonce: bytes, time_ms: int, leaf: bytes) -> bytes:
    check_nonce(nonce)
    if not 0 <= time_ms <= LATEST_MS:
        raise BadInput("bad-time", f"expected milliseconds since 1970 before year 10000, got {time_ms}")
    return statement("time", nonce, time_ms.to_bytes(8, "big"), hashlib.sha256(leaf).digest())


# --- the parent looks at its child ---------------------------------------------------------------


def verify_child(leaf: bytes, authorities: Iterable[AuthorityRow], now: Wall) -> ChildProof:
    """What the certificate of a child proves at `now`; `authorities` are this zone's own CAs, old ones too.

    Raises Refused: parents-certificate, self-signed, unknown-authority, leaked-authority, authority-expired,
    not-a-child, not-yet-valid; or BadInput("bad-certificate").
    """
    certificate = read(leaf, "child's certificate")
    if certificate.self_signed:
        raise Refused(
            "self-signed",
            f"the child showed a certificate that it signed itself ({short(certificate.fingerprint)}); "
            "a zone that has not joined asks with a join code",
        )
    row = next((row for row in authorities if row.fingerprint == certificate.issuer), None)
    ca = own_authority(row.certificate) if row is not None else None
    if row is None or ca is None or not certificate.signed_by(ca.public):
        raise Refused(
            "unknown-authority",
            f"the child's certificate is signed by {short(certificate.issuer)}, which is no CA of this zone; "
            f"it may belong to another parent, or to a state of this one that was lost: {_ANEW}",
        )
    if row.leaked:
        raise Refused(
            "leaked-authority",
            f"the child's certificate is signed by CA {short(row.fingerprint)}, whose key leaked; {_ANEW}",
        )
    if certificate.authority or certificate.server:
        raise Refused("parents-certificate", "a controller's certificate was shown as a child's; use the child's own")
    if not certificate.client or certificate.child is None or certificate.issuer_zone != ca.zone:
        raise Refused("not-a-child", f"the certificate does not name a child zone; {_AGAIN}")
    _valid_at(ca, now, "CA certificate of this zone", "authority-expired", "rotate the CA, join the child again")
    if now < certificate.not_before:
        raise Refused(
            "not-yet-valid",
            f"the child's certificate begins at {iso(certificate.not_before)}, and here it is {iso(now)}; "
            "this zone's clock is behind, or it was restored from a backup",
        )
    return ChildProof(
        code=certificate.child,
        fingerprint=certificate.fingerprint,
        public=certificate.public,
        not_before=certificate.not_before,
        not_after=certificate.not_after,
        expired=now > certificate.not_after,
    )


@lru_cache(maxsize=64)
def own_authority(der: bytes) -> Certificate:
    """A CA certificate of our own; read once, not at each of a thousand sessions."""
    return read(der, "CA certificate")


def renewable(proof: ChildProof, now: Wall) -> bool:
    """Whether the certificate may be renewed by its key: it is valid, or ended at most RECOVERY ago."""
    return now <= proof.not_after + RECOVERY


def check_expiry(proof: ChildProof, now: Wall, *, renewing: bool) -> None:
    """Raises Refused("certificate-expired") if over and not asking for another, or over for longer than RECOVERY."""
    if proof.expired and not (renewing and renewable(proof, now)):
        remedy = "ask for a new one in the hello" if renewable(proof, now) else _AGAIN
        raise Refused(
            "certificate-expired",
            f"the child's certificate ended at {iso(proof.not_after)}, and it is {iso(now)}; {remedy}",
        )


def check_claimed(proof: ChildProof, claimed: ZoneCode) -> None:
    """Raises Refused("wrong-zone") unless the zone that a hello names is the one of the certificate."""
    if proof.code != claimed:
        raise Refused(
            "wrong-zone",
            f"the hello is from zone {_code(claimed)}, but the certificate is that of zone {_code(proof.code)}",
        )


def standing(proof: ChildProof, claimed: ZoneCode, child: Child | None) -> Child:
    """The row of the child that `proof` stands for; `claimed`: the code in its hello, `child`: the row of that.

    Raises Refused: wrong-zone (a sibling's certificate, or the right CA for another zone), no-child, retired, banned,
    wrong-key (replaced by another machine).
    """
    check_claimed(proof, claimed)
    if child is None:
        raise Refused(
            "no-child",
            f"zone {_code(claimed)} is not listed here: this parent may have been restored from before it joined; "
            f"{_AGAIN}",
        )
    check_claimed(proof, child.code)
    if child.state is ChildState.RETIRED:
        raise Refused(
            "retired",
            f"zone {child.name} ({_code(claimed)}) was retired, and its code is never given again; to join, "
            "start it with a new data folder and a new code",
        )
    if child.admin is Admin.BANNED:
        raise Refused(
            "banned",
            f"zone {child.name} is banned here: {child.admin_reason or 'no reason was given'}; "
            "`banyan zone unban` at this parent lifts it",
        )
    if proof.fingerprint != child.fingerprint:
        raise Refused(
            "wrong-key",
            f"zone {child.name} has another key here ({short(child.fingerprint)}) than the one shown "
            f"({short(proof.fingerprint)}): it was replaced, or this one was restored from before; {_AGAIN}",
        )
    return child


def _code(code: ZoneCode | None) -> str:
    """For texts; a stranger's number may be out of range."""
    return code_text(code) if code is not None and 0 <= code < 1 << 40 else "(none)"
