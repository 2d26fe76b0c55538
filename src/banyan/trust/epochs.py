"""How a parent learns, from nobody's word but its own, that it was restored from an earlier state (protocols §8).

With each session a parent signs the epoch that it grants; the child keeps that and shows it in its next hello. A claim
of a higher epoch than the parent holds is believed only as far as the parent signed it: a child that lies can not put
its parent into the standing of a restored one. A backup may be older than a change of the CA: then the child shows
the certificates by which the old CA signed the new one. Which of two has gone back: `marks`. CAs change: `rotation`.
"""

from __future__ import annotations

from collections.abc import Sequence

from banyan.core.errors import BanyanError
from banyan.core.ids import ZoneCode
from banyan.core.messages import EpochProof
from banyan.core.records import AuthorityRow
from banyan.core.time import Wall
from banyan.trust.authority import Issuer
from banyan.trust.certificate import read
from banyan.trust.chain import MAX_PATH, own_authority, read_authorities, route
from banyan.trust.keys import fingerprint, sign, statement, verify


def prove_epoch(issuer: Issuer, child: ZoneCode, epoch: int) -> EpochProof:
    """At the parent: "I, zone `issuer.code`, granted zone `child` this epoch", by its present CA."""
    return EpochProof(epoch, issuer.public, sign(issuer.seed, _statement(issuer.code, child, epoch)))


def crosses_to(proof: EpochProof, bundle: Sequence[bytes], parent: ZoneCode, shown: bytes) -> tuple[bytes, ...]:
    """At the child: certificates (DER) among `bundle` from the CA that signed `proof` to the CA `shown` (fingerprint).

    None when these are one, or when nothing leads there: then the parent may still know the older CA as its own.
    """
    signer = fingerprint(proof.authority)
    found = [] if signer == shown else route(signer, parent, read_authorities(bundle), shown)
    return () if found is None else tuple(certificate.der for certificate in found)


def proved_epoch(
    proof: EpochProof | None,
    crosses: Sequence[bytes],
    *,
    parent: ZoneCode,
    child: ZoneCode,
    authorities: Sequence[AuthorityRow],
    now: Wall,
) -> int:
    """At the parent: the epoch of `child` that zone `parent` did sign, 0 if this proves none. Never raises.

    `authorities`: the CAs that it knows as its own; one that leaked vouches for nothing.
    """
    if proof is None or not verify(proof.authority, proof.signature, _statement(parent, child, proof.epoch)):
        return 0
    return proof.epoch if _is_ours(proof.authority, crosses, parent, authorities, now) else 0


def _is_ours(
    public: bytes, crosses: Sequence[bytes], parent: ZoneCode, authorities: Sequence[AuthorityRow], now: Wall
) -> bool:
    """Whether `public` is a CA's that we know, or follows one by `crosses`, the one nearest to ours last."""
    believed = {row.fingerprint: own_authority(row.certificate).public for row in authorities if not row.leaked}
    leaked = {row.fingerprint for row in authorities if row.leaked}
    try:
        path = [read(der, "cross certificate") for der in crosses[:MAX_PATH]]
    except BanyanError:
        path = []
    for cross in reversed(path):
        signer = believed.get(cross.issuer)
        fits = cross.authority and parent == cross.zone == cross.issuer_zone and cross.not_after > now
        if fits and signer is not None and cross.fingerprint not in leaked and cross.signed_by(signer):
            believed[cross.fingerprint] = cross.public
    return fingerprint(public) in believed


def _statement(parent: ZoneCode, child: ZoneCode, epoch: int) -> bytes:
    return statement("epoch", parent.to_bytes(8, "big"), child.to_bytes(8, "big"), epoch.to_bytes(8, "big"))
