"""How a parent learns, from nobody's word but its own, that it was restored from an earlier state (protocols §8).

With each session a parent signs the epoch that it grants; the child keeps that and shows it in its next hello. A claim
of a higher epoch than the parent holds is believed only as far as the parent signed it: a child that lies can not put
its parent into the standing of a restored one. A backup may be older than a change of the CA: then the child shows
the certificates by which the old CA signed the new one. Which of two has gone back: `marks`. CAs change: `rotation`.

The parent's own epoch is signed along, and rises with each restore that was noticed. So a proof tells *which* life it
is of: one of a life that is known to be over is no news about this one (`Proved.of_this_life`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from banyan.core.errors import BanyanError
from banyan.core.ids import ZoneCode
from banyan.core.messages import EpochProof
from banyan.core.records import AuthorityRow
from banyan.core.time import Wall
from banyan.trust.authority import Issuer
from banyan.trust.certificate import read
from banyan.trust.chain import MAX_PATH, own_authority, read_authorities, route
from banyan.trust.keys import fingerprint, sign, statement, verify

# A zone's own epoch at its first start. A proof of the version before says none, and counts as of this one.
FIRST = 1


@dataclass(frozen=True, slots=True)
class Proved:
    """What a zone did sign: it granted a child `epoch`, being itself at epoch `own`. Both 0: nothing is proved."""

    epoch: int = 0
    own: int = 0

    def of_this_life(self, own: int) -> bool:
        """Whether a zone that is at epoch `own` could not know of this yet, so that it was restored and not told.

        What was signed under a lower one was lost with a restore that raised `own`.
        """
        return self.own >= own


def prove_epoch(issuer: Issuer, child: ZoneCode, epoch: int, own: int) -> EpochProof:
    """At the parent: "I, zone `issuer.code`, at epoch `own`, granted zone `child` this epoch", by its present CA."""
    return EpochProof(epoch, issuer.public, sign(issuer.seed, _statement(issuer.code, child, epoch, own)), own)


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
) -> Proved:
    """At the parent: the epoch of `child` that zone `parent` did sign. Never raises.

    `authorities`: the CAs that it knows as its own; one that leaked vouches for nothing.
    """
    if proof is None:
        return Proved()
    said = _statement(parent, child, proof.epoch, proof.own)
    if verify(proof.authority, proof.signature, said) and _is_ours(proof.authority, crosses, parent, authorities, now):
        return Proved(proof.epoch, proof.own or FIRST)
    return Proved()


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


def _statement(parent: ZoneCode, child: ZoneCode, epoch: int, own: int) -> bytes:
    # Without `own`: as the version before signed it. No two lists of parts are one statement, so none can be left out.
    numbers = (parent, child, epoch, own) if own else (parent, child, epoch)
    return statement("epoch", *(number.to_bytes(8, "big") for number in numbers))
