"""Which stranger becomes which child (protocols §7, docs/contracts/enrolment.md).

The zone calls, in one transaction: `check_request` (form, and proof of the key), `attest.verify` (the evidence),
`decide` (policy, names, keys, codes), then CodeRows.use if `Admit.use` says so. Every refusal is raised, so that a
forgotten look at a result admits nobody; before `decide` returns, nothing has been written. The child's side is
`sign_request` and, for renewals, `sign_renewal`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase

import msgspec

from banyan.core.errors import BadInput, Conflict, Refused
from banyan.core.ids import ZoneCode, check_label, check_name, code_text
from banyan.core.messages import Enrol, Evidence, Renew
from banyan.core.policy import Rule, Verdict
from banyan.core.secret import Secret
from banyan.core.time import Wall
from banyan.core.zone import Admin, Child, ChildState, Mode
from banyan.trust.attest.contract import Verified
from banyan.trust.keys import check_public, fingerprint, public_key, sign, statement, verify
from banyan.trust.session import Session, check_code
from banyan.trust.tokens import MAX_LABELS, check_standing, check_usable

MAX_TEXT = 255
_MODES = (Mode.OBSERVE, Mode.PLACE, Mode.PROTECT)  # each may do what those before it may


class Standing(StrEnum):
    """How the admitted one stands to the rows: nobody yet, the same key once more, or in another key's place."""

    NEW = "new"
    AGAIN = "again"
    REPLACES = "replaces"


@dataclass(frozen=True, slots=True)
class Request:
    """A stranger's request, its form checked, and its key proved."""

    code: ZoneCode
    name: str
    public_key: bytes
    fingerprint: bytes
    evidence: Evidence
    driver: str
    labels: Mapping[str, str]
    mode: Mode
    version: str
    has_children: bool


@dataclass(frozen=True, slots=True)
class Neighbours:
    """What is already here that a stranger could collide with.

    `by_name`: the child with the requested name that is not retired. `by_key`: the child with the key, whatever its
    state. `by_code`: the child with the code, whatever its state. `above`: codes of this zone and its ancestors.
    `through`: names of the children in whose lineage the code is.
    """

    by_name: Child | None
    by_key: Child | None
    by_code: Child | None
    above: Collection[ZoneCode]
    through: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Admit:
    """What the stranger becomes. `code`: what its certificate says; not the requested one for AGAIN and REPLACES,
    where the row's code is inherited. `use`: the join code of which one use is to be taken, before anything is written.
    `rule`: the id of the rule that matched, "" if there is none at all; `reason`: what it says.
    """

    code: ZoneCode
    name: str
    fingerprint: bytes
    labels: Mapping[str, str]
    mode: Mode
    quarantined: bool
    standing: Standing
    use: str | None
    rule: str
    verifier: str
    reference: str
    reason: str = ""


# --- the key is proved ---------------------------------------------------------------------------


def sign_request(seed: Secret, session: Session, enrol: Enrol) -> Enrol:
    """The child's side: `enrol` with its public key and the proof of it."""
    enrol = msgspec.structs.replace(enrol, public_key=public_key(seed), signature=b"")
    return msgspec.structs.replace(enrol, signature=sign(seed, _possession(session, enrol)))


def check_request(session: Session, enrol: Enrol) -> Request:
    """Raises BadInput (bad-name, bad-label, bad-code, bad-key, bad-mode, too-long) or Refused("bad-possession")."""
    check_code(enrol.code)
    check_name(enrol.name)
    check_public(enrol.public_key, "key to be certified")
    if len(enrol.labels) > MAX_LABELS:
        raise BadInput("bad-label", f"a zone brings at most {MAX_LABELS} labels, got {len(enrol.labels)}")
    labels = dict(check_label(key, value) for key, value in enrol.labels.items())
    texts = {"driver": enrol.driver, "version": enrol.version, "evidence's kind": enrol.evidence.kind}
    for what, text in texts.items():
        if len(text) > MAX_TEXT or not text.isprintable():
            raise BadInput("too-long", f"the {what} of a zone has at most {MAX_TEXT} printable characters")
    try:
        mode = Mode(enrol.mode)
    except ValueError as error:
        raise BadInput("bad-mode", f"expected a mode of {', '.join(_MODES)}, got {enrol.mode[:40]!r}") from error
    if not verify(enrol.public_key, enrol.signature, _possession(session, enrol)):
        raise Refused(
            "bad-possession",
            f"zone {enrol.name} did not prove that it holds its key in this session; "
            "something stands between, or its program is broken",
        )
    return Request(
        code=enrol.code,
        name=enrol.name,
        public_key=enrol.public_key,
        fingerprint=fingerprint(enrol.public_key),
        evidence=enrol.evidence,
        driver=enrol.driver,
        labels=labels,
        mode=mode,
        version=enrol.version,
        has_children=enrol.has_children,
    )


def sign_renewal(seed: Secret, code: ZoneCode, certificate: bytes) -> Renew:
    """The child's side: asks for a certificate over the key of `seed`, in a session that shows `certificate`."""
    return Renew(public_key(seed), sign(seed, _renewal(public_key(seed), code, certificate)))


def check_renewal(renew: Renew, code: ZoneCode, certificate: bytes) -> bytes:
    """The public key to certify for zone `code`, whose session showed `certificate` (DER).

    Raises BadInput("bad-key", "bad-code") or Refused("bad-possession"). An expired certificate is renewed for the same
    key only: then the caller compares the key's fingerprint with the row's.
    """
    check_code(code)
    check_public(renew.public_key, "key to be certified")
    if not verify(renew.public_key, renew.signature, _renewal(renew.public_key, code, certificate)):
        raise Refused(
            "bad-possession",
            f"zone {code_text(code)} asked for a certificate over a key that it did not prove to hold; "
            "its program is broken, or it is not what it says",
        )
    return renew.public_key


def _possession(session: Session, enrol: Enrol) -> bytes:
    body = msgspec.msgpack.encode(
        [
            enrol.code,
            enrol.name,
            enrol.public_key,
            enrol.driver,
            sorted(enrol.labels.items()),
            enrol.mode,
            enrol.version,
            enrol.has_children,
        ]
    )
    evidence = statement("evidence", enrol.evidence.kind.encode(errors="replace"), enrol.evidence.body)
    return statement("possession", session.binding(), hashlib.sha256(evidence).digest(), body)


def _renewal(public: bytes, code: ZoneCode, certificate: bytes) -> bytes:
    return statement("renewal", public, code.to_bytes(8, "big"), hashlib.sha256(certificate).digest())


# --- who it becomes ------------------------------------------------------------------------------


def decide(
    verified: Verified,
    request: Request,
    rules: Sequence[Rule],
    neighbours: Neighbours,
    *,
    now: Wall,
    epoch: int,
    replace: bool = False,
) -> Admit:
    """What becomes of `request`. `epoch`: this zone's own. `replace`: a person allowed a new key under this name.

    Raises Refused: banned, retired, loop, diamond, name-not-allowed, driver-not-allowed, no-rule, policy-refused,
    code-revoked, code-before-restore, code-expired, code-used; Conflict: name-taken, code-taken, has-children.
    """
    _check_banned(request, neighbours)
    same = neighbours.by_key
    if same is not None and same.state is ChildState.RETIRED:
        same = None
    _check_attributes(verified, request)
    rule = _first_match(verified, request, rules)
    standing, row = _standing(request, neighbours, same, replace or _replaces(verified, request))
    _check_place(request, neighbours, row)
    _check_code(request, row)
    use = _use(verified, again=standing is Standing.AGAIN, now=now, epoch=epoch)
    labels = {**request.labels, **verified.labels, **(rule.set_labels if rule else {})}
    return Admit(
        code=row.code if row else request.code,
        name=row.name if row else request.name,
        fingerprint=request.fingerprint,
        labels=labels,
        mode=min(request.mode, verified.mode, rule.mode if rule else Mode.PROTECT, key=_MODES.index),
        # The same key once more changes nothing that a person may have decided since.
        quarantined=row.quarantined
        if row and standing is Standing.AGAIN
        else rule is not None and rule.verdict is Verdict.QUARANTINE,
        standing=standing,
        use=use,
        rule=rule.id if rule else "",
        verifier=verified.kind,
        reference=verified.reference,
        reason=rule.reason if rule else "",
    )


def matches(rule: Rule, verified: Verified, request: Request) -> bool:
    """Whether all conditions of `rule` hold: shell patterns on whole values, case counts.

    Labels are the child's own with the evidence's over them; a label that is absent matches no pattern.
    """
    labels = {**request.labels, **verified.labels}
    return (
        rule.verifier in ("*", verified.kind)
        and fnmatchcase(request.name, rule.name)
        and fnmatchcase(request.driver, rule.driver)
        and all(key in labels and fnmatchcase(labels[key], pattern) for key, pattern in rule.labels.items())
    )


def _check_banned(request: Request, neighbours: Neighbours) -> None:
    for row in (neighbours.by_key, neighbours.by_code):
        if row is not None and row.admin is Admin.BANNED and row.fingerprint == request.fingerprint:
            raise Refused(
                "banned",
                f"zone {row.name} is banned here: {row.admin_reason or 'no reason was given'}; "
                "`banyan zone unban` at this parent lifts it",
            )


def _check_attributes(verified: Verified, request: Request) -> None:
    if not fnmatchcase(request.name, verified.name):
        raise Refused(
            "name-not-allowed",
            f"{_what(verified)} is for zones named {verified.name!r}, not for {request.name!r}; "
            "set the name (`--name`), or ask for another code",
        )
    if not fnmatchcase(request.driver, verified.driver):
        raise Refused(
            "driver-not-allowed",
            f"{_what(verified)} is for driver {verified.driver!r}, not for {request.driver or 'none'!r}; "
            "set the driver (`--driver`), or ask for another code",
        )


def _first_match(verified: Verified, request: Request, rules: Sequence[Rule]) -> Rule | None:
    """The rule that admits; None when there is no rule at all, and the evidence alone is the policy."""
    for rule in sorted(rules, key=lambda rule: (rule.priority, rule.id)):
        if matches(rule, verified, request):
            if rule.verdict is Verdict.REFUSE:
                raise Refused(
                    "policy-refused", f"the parent's policy refuses {request.name!r}: {rule.reason or rule.id}"
                )
            return rule
    if rules:
        labels = {**request.labels, **verified.labels}
        shown = ", ".join(f"{key}={labels[key]}" for key in sorted(labels)[:8]) or "none"
        raise Refused(
            "no-rule",
            f"no rule of the parent's policy admits zone {request.name!r} with driver {request.driver or 'none'!r}, "
            f"labels {shown}, by {verified.kind}; its operator may add one (`banyan rule add`)",
        )
    return None


def _standing(
    request: Request, neighbours: Neighbours, same: Child | None, replace: bool
) -> tuple[Standing, Child | None]:
    """How the request stands to the children, and the row that it takes on."""
    if same is not None:
        return Standing.AGAIN, same
    held = neighbours.by_name
    if held is None:
        return Standing.NEW, None
    if held.admin is Admin.BANNED:
        raise Conflict(
            "name-taken",
            f"the name {request.name!r} belongs to a banned zone ({code_text(held.code)}); "
            "unban or retire that one first, or choose another name",
        )
    if not replace:
        raise Conflict(
            "name-taken",
            f"a zone named {request.name!r} ({code_text(held.code)}) is here already, with another key; choose another "
            f"name, or, if this one is to take its place, run `banyan zone replace {request.name}` at the parent",
        )
    return Standing.REPLACES, held


def _replaces(verified: Verified, request: Request) -> bool:
    """The evidence may say "replace" only for the one zone that it names, never for whatever fits a pattern."""
    return verified.replace and verified.name == request.name


def _check_place(request: Request, neighbours: Neighbours, row: Child | None) -> None:
    """The requested code is nobody else's: not a child's, not an ancestor's, not known through a child."""
    text = code_text(request.code)
    holder = neighbours.by_code
    if holder is not None and holder is not row and holder.code != (row.code if row else None):
        if holder.state is ChildState.RETIRED:
            raise Refused(
                "retired",
                f"zone code {text} belonged to {holder.name!r}, which was retired; a code is never given again: "
                "start this zone with a new data folder",
            )
        raise Conflict(
            "code-taken",
            f"zone code {text} belongs to {holder.name!r}, with another key; if this zone was copied from that one, "
            "start it with a new data folder",
        )
    if request.code in neighbours.above:
        raise Refused("loop", f"zone {text} is this zone or above it; a zone can not join below itself")
    if neighbours.through and (row is None or row.code != request.code):
        raise Refused(
            "diamond",
            f"zone {text} is already reached through {', '.join(repr(name) for name in neighbours.through[:4])}; "
            "let it leave there first (`banyan leave`)",
        )


def _check_code(request: Request, row: Child | None) -> None:
    """Whoever takes on a row takes on its code, which a zone with children can not."""
    if row is None or row.code == request.code or not request.has_children:
        return
    raise Conflict(
        "has-children",
        f"zone {request.name!r} was to take the place of {row.name!r}, and with it the code {code_text(row.code)}, but "
        f"has zones of its own below it, whose certificates say {code_text(request.code)}; replace a zone by one that "
        "is freshly installed (a new data folder), or let this one join under another name",
    )


def _use(verified: Verified, *, again: bool, now: Wall, epoch: int) -> str | None:
    """The join code of which a use is to be taken. One that is over still lets a key in that is a child already."""
    record = verified.code
    if record is None:
        return None
    try:
        check_usable(record, now, epoch)
    except Refused:
        if not again:
            raise
        check_standing(record, epoch)
        return None
    return record.id


def _what(verified: Verified) -> str:
    return f"join code {verified.reference}" if verified.code else f"the {verified.kind} {verified.reference}"
