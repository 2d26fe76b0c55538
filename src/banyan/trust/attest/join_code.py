"""Evidence by join code: a signature over the session by the key that follows from the code's secret.

The secret itself is never sent: a parent that was checked and yet is wrong could not join anybody elsewhere with
what it got. The signature covers the key to be certified, so nobody can put another one in its place. Whether
the code has expired, or is used up, is asked in `trust.enrol`: only who proved the secret learns that.
"""

from __future__ import annotations

import hashlib
import hmac

import msgspec

from banyan.core.errors import Refused
from banyan.core.messages import Evidence
from banyan.core.reading import msgpack_reader
from banyan.trust.attest.contract import Context, Verified
from banyan.trust.keys import fingerprint, public_key, sign, statement, verify
from banyan.trust.session import Session
from banyan.trust.tokens import ID_SIZE, JoinCode, signing_seed

KIND = "join-code"


class _Body(msgspec.Struct, frozen=True, array_like=True):
    id: bytes
    public: bytes
    signature: bytes


_BODY = msgpack_reader(_Body)


def evidence(code: JoinCode, session: Session, public: bytes) -> Evidence:
    """The child's side. Only after chain.verify_parent; `public`: the key that is to be certified."""
    seed = signing_seed(code.secret)
    signature = sign(seed, _statement(code.id, session, public))
    body = _Body(bytes.fromhex(code.id), public_key(seed), signature)
    return Evidence(KIND, msgspec.msgpack.encode(body))


class JoinCodeVerifier:
    """Raises Refused: bad-evidence, code-unknown, code-forged."""

    kind = KIND

    def verify(self, body: bytes, context: Context) -> Verified:
        try:
            shown = _BODY(body)
        except ValueError as error:
            raise Refused("bad-evidence", "the evidence for the join code can not be read") from error
        if len(shown.id) != ID_SIZE:
            raise Refused("bad-evidence", f"the id of a join code has {ID_SIZE} bytes, got {len(shown.id)}")
        id = shown.id.hex()
        record = context.codes.get(id)
        if record is None:
            raise Refused(
                "code-unknown",
                f"join code {id} is not known here: another zone made it, or it ended long ago; "
                "make a new one at the parent (`banyan code create`)",
            )
        if len(shown.public) != 32 or not (
            hmac.compare_digest(fingerprint(shown.public), record.secret_hash)
            and verify(shown.public, shown.signature, _statement(id, context.session, context.public_key))
        ):
            raise Refused(
                "code-forged", f"whoever asks does not hold the secret of join code {id}; use it as it was made"
            )
        return Verified(
            kind=KIND,
            reference=id,
            name=record.name,
            driver=record.driver,
            labels=record.labels,
            mode=record.mode,
            replace=record.replace,
            code=record,
        )


def _statement(id: str, session: Session, public: bytes) -> bytes:
    return statement("join-code evidence", id.encode(), session.binding(), hashlib.sha256(public).digest())
