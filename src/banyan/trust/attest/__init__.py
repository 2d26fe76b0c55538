"""Attestation: a registry of verifiers, each of which answers "why should this stranger be let in?".

A verifier proves, it never decides: what a proof is good for is `trust.enrol`'s policy. To add one: a module with a
class that fulfils `contract.Verifier`, and its line in VERIFIERS. X.509 and TPM will come here. Nothing outside
this package may tell verifiers apart by kind.
"""

from __future__ import annotations

from collections.abc import Mapping

from banyan.core.errors import Refused
from banyan.core.messages import Evidence
from banyan.trust.attest.contract import Context, Verified, Verifier
from banyan.trust.attest.join_code import JoinCodeVerifier
from banyan.trust.attest.known_key import KnownKeyVerifier

MAX_EVIDENCE = 4096

VERIFIERS: Mapping[str, Verifier] = {v.kind: v for v in (JoinCodeVerifier(), KnownKeyVerifier())}


def verify(evidence: Evidence, context: Context) -> Verified:
    """What `evidence` proves. Raises Refused("unknown-evidence", "bad-evidence") and what the verifier raises."""
    verifier = VERIFIERS.get(evidence.kind)
    if verifier is None:
        raise Refused(
            "unknown-evidence",
            f"this zone knows no evidence of kind {evidence.kind[:40]!r}; it knows {', '.join(sorted(VERIFIERS))}",
        )
    if len(evidence.body) > MAX_EVIDENCE:
        raise Refused("bad-evidence", f"evidence has at most {MAX_EVIDENCE} bytes, got {len(evidence.body)}")
    return verifier.verify(evidence.body, context)


__all__ = ["MAX_EVIDENCE", "VERIFIERS", "Context", "Verified", "Verifier", "verify"]
