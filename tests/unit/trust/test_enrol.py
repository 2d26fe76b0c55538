from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import msgspec
import pytest

from banyan.core.errors import BadInput, BanyanError, Conflict, Refused
from banyan.core.ids import ZoneCode
from banyan.core.policy import Rule, Verdict
from banyan.core.time import Wall
from banyan.core.zone import Admin, Child, ChildState, Mode
from banyan.trust import enrol
from banyan.trust.attest import Verified
from banyan.trust.enrol import Admit, Neighbours, Standing
from banyan.trust.keys import fingerprint
from banyan.trust.session import Session
from tests.unit.trust.world import (
    EAST,
    ENROL,
    GREET,
    HOUR,
    NOBODY,
    NOW,
    TOP,
    WEST,
    Parent,
    asked,
    by_code,
    chance,
    known,
    minted,
    public,
    seed,
    session,
)

CODE, RECORD = minted()
PASS = by_code(CODE, RECORD)


def child(code: ZoneCode = EAST, name: str = "east", key: str = "east", **changes: object) -> Child:
    return replace(Child(code, name, fingerprint(public(key))), **changes)


def near(*children: Child, key: str = "east", code: ZoneCode = EAST, name: str = "east", **changes: object):
    """What `children` mean for a request with that key, code and name."""
    print_ = fingerprint(public(key))
    found = Neighbours(
        by_name=next((c for c in children if c.name == name and c.state is not ChildState.RETIRED), None),
        by_key=next((c for c in children if c.fingerprint == print_), None),
        by_code=next((c for c in children if c.code == code), None),
        above=(TOP,),
    )
    return replace(found, **changes)


def decide(
    verified: Verified = PASS,
    *,
    key: str = "east",
    rules: tuple[Rule, ...] = (),
    around: Neighbours = NOBODY,
    now: Wall = NOW,
    epoch: int = 1,
    person: bool = False,
    **changes: object,
) -> Admit:
    return enrol.decide(verified, asked(key, **changes), rules, around, now=now, epoch=epoch, replace=person)


def code_of(call: Callable[[], object], kind: type[BanyanError] = Refused) -> str:
    with pytest.raises(kind) as error:
        call()
    assert len(error.value.text) > 30
    return error.value.code


# --- the form, and the proof of the key ----------------------------------------------------------


def test_a_request_is_proved_by_its_key() -> None:
    request = asked()
    assert (request.code, request.name, request.fingerprint) == (EAST, "east", fingerprint(public("east")))


@pytest.mark.parametrize(
    "changes",
    [
        {"code": WEST},
        {"name": "west"},
        {"driver": "sim"},
        {"labels": {}},
        {"mode": "protect"},
        {"version": "2"},
        {"has_children": True},
        {"public_key": public("west")},
        {"signature": b""},
        {"evidence": msgspec.structs.replace(ENROL.evidence, kind="x")},
        {"evidence": msgspec.structs.replace(ENROL.evidence, body=b"x")},
    ],
)
def test_nothing_of_a_request_can_be_changed_on_its_way(changes: dict[str, object]) -> None:
    signed = enrol.sign_request(seed("east"), session(), ENROL)
    enrol.check_request(session(), signed)
    changed = msgspec.structs.replace(signed, **changes)
    assert code_of(lambda: enrol.check_request(session(), changed)) == "bad-possession"


def test_a_request_serves_in_its_own_session_only() -> None:
    signed = enrol.sign_request(seed("east"), session(), ENROL)
    welcome = Parent().welcome(GREET)
    for other in (
        Session.of(GREET, msgspec.structs.replace(welcome, nonce=chance("x")), welcome.chain[0]),
        Session.of(msgspec.structs.replace(GREET, nonce=chance("x")), welcome, welcome.chain[0]),
        Session.of(GREET, msgspec.structs.replace(welcome, code=WEST), welcome.chain[0]),
        Session.of(GREET, welcome, b"another certificate"),
    ):
        assert code_of(lambda other=other: enrol.check_request(other, signed)) == "bad-possession"


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"name": "East"}, "bad-name"),
        ({"name": "zone1\n"}, "bad-name"),
        ({"name": "еast"}, "bad-name"),  # a Cyrillic letter that looks like "e"
        ({"name": ""}, "bad-name"),
        ({"name": "a/b"}, "bad-name"),
        ({"name": "code:h4kmsy1t"}, "bad-name"),
        ({"code": ZoneCode(2**40)}, "bad-code"),
        ({"code": ZoneCode(-1)}, "bad-code"),
        ({"labels": {str(n): "" for n in range(33)}}, "bad-label"),
        ({"labels": {"k": "v" * 256}}, "bad-label"),
        ({"driver": "x" * 256}, "too-long"),
        ({"version": "\x1b[2J"}, "too-long"),
        ({"mode": "own"}, "bad-mode"),
    ],
)
def test_requests_of_a_wrong_form(changes: dict[str, object], code: str) -> None:
    assert code_of(lambda: asked(**changes), BadInput) == code


def test_nonces_have_their_size() -> None:
    welcome = Parent().welcome(GREET)
    short = msgspec.structs.replace(welcome, nonce=b"")
    assert code_of(lambda: Session.of(GREET, short, b""), BadInput) == "bad-nonce"


def test_a_renewal_is_proved_by_its_key_for_the_certificate_that_was_shown() -> None:
    renew = enrol.sign_renewal(seed("new"), EAST, b"certificate")
    assert enrol.check_renewal(renew, EAST, b"certificate") == public("new")
    assert code_of(lambda: enrol.check_renewal(renew, WEST, b"certificate")) == "bad-possession"
    assert code_of(lambda: enrol.check_renewal(renew, EAST, b"another")) == "bad-possession"
    stolen = msgspec.structs.replace(renew, public_key=public("east"))
    assert code_of(lambda: enrol.check_renewal(stolen, EAST, b"certificate")) == "bad-possession"


# --- policy --------------------------------------------------------------------------------------


def test_a_code_alone_is_policy_enough() -> None:
    assert decide() == Admit(
        code=EAST,
        name="east",
        fingerprint=fingerprint(public("east")),
        labels={"site": "berlin"},
        mode=Mode.PLACE,
        quarantined=False,
        standing=Standing.NEW,
        use=CODE.id,
        rule="",
        verifier="join-code",
        reference=CODE.id,
    )


def test_so_is_a_known_key() -> None:
    admitted = decide(known(mode=Mode.OBSERVE))
    assert (admitted.use, admitted.mode) == (None, Mode.OBSERVE)
    assert code_of(lambda: decide(known(name="west"))) == "name-not-allowed"


def test_what_a_code_is_bound_to() -> None:
    bound = by_code(*minted(name="zone1", driver="open*", labels={"site": "paris", "tier": "1"}, mode=Mode.OBSERVE))
    admitted = decide(bound, name="zone1")
    assert admitted.labels == {"site": "paris", "tier": "1"}  # the code's word, not the child's
    assert admitted.mode is Mode.OBSERVE
    for name in ("zone1xyz", "zone", "xzone1", "zone11"):
        assert code_of(lambda name=name: decide(bound, name=name)) == "name-not-allowed"
    assert code_of(lambda: decide(bound, name="zone1", driver="sim")) == "driver-not-allowed"
    assert code_of(lambda: decide(bound, name="zone1", driver="")) == "driver-not-allowed"


def test_patterns_hold_for_whole_values() -> None:
    edge = by_code(*minted(name="edge-[0-9]*"))
    assert decide(edge, name="edge-7").name == "edge-7"
    assert code_of(lambda: decide(edge, name="xedge-7")) == "name-not-allowed"


def test_the_first_rule_that_matches_decides() -> None:
    rules = (
        Rule("z", priority=1, name="eas?", driver="openstack", set_labels={"rule": "z"}, mode=Mode.OBSERVE),
        Rule("a", priority=2, verdict=Verdict.REFUSE),
    )
    admitted = decide(rules=rules)
    assert (admitted.rule, admitted.mode, admitted.labels["rule"]) == ("z", Mode.OBSERVE, "z")
    assert decide(rules=rules[::-1]).rule == "z"  # by priority, whatever the order they come in
    assert code_of(lambda: decide(rules=rules, name="north")) == "policy-refused"


def test_with_rules_what_matches_none_is_refused_even_with_a_code() -> None:
    assert code_of(lambda: decide(rules=(Rule("a", name="west"),))) == "no-rule"
    assert code_of(lambda: decide(rules=(Rule("a", verifier="known-key"),))) == "no-rule"
    assert decide(rules=(Rule("a", verifier="join-code"),)).rule == "a"


def test_rules_never_widen_what_the_evidence_is_bound_to() -> None:
    bound = by_code(*minted(name="west", mode=Mode.OBSERVE))
    assert code_of(lambda: decide(bound, rules=(Rule("all"),))) == "name-not-allowed"
    assert decide(bound, name="west", rules=(Rule("all", mode=Mode.PROTECT),)).mode is Mode.OBSERVE


@pytest.mark.parametrize(
    ("asked_for", "granted"), [("observe", Mode.OBSERVE), ("place", Mode.PLACE), ("protect", Mode.PLACE)]
)
def test_a_mode_is_the_least_of_what_is_asked_and_granted(asked_for: str, granted: Mode) -> None:
    assert decide(rules=(Rule("a", mode=Mode.PROTECT),), mode=asked_for).mode is granted


def test_labels_as_conditions() -> None:
    rules = (Rule("a", labels={"site": "ber*"}),)
    assert decide(rules=rules).rule == "a"
    assert code_of(lambda: decide(rules=rules, labels={})) == "no-rule"
    assert code_of(lambda: decide(rules=(Rule("a", labels={"other": "*"}),))) == "no-rule"
    # What the code says is believed before what the stranger says.
    bound = by_code(*minted(labels={"site": "paris"}))
    assert code_of(lambda: decide(bound, rules=rules)) == "no-rule"


def test_quarantine() -> None:
    rules = (Rule("q", verdict=Verdict.QUARANTINE),)
    assert decide(rules=rules).quarantined
    admitted_by_a_person = near(child(quarantined=False))
    assert not decide(rules=rules, around=admitted_by_a_person).quarantined
    still = near(child(quarantined=True))
    assert decide(around=still).quarantined


# --- names, keys, codes --------------------------------------------------------------------------


@pytest.mark.parametrize("state", [s for s in ChildState if s is not ChildState.RETIRED])
def test_the_same_key_again_converges(state: ChildState) -> None:
    again = decide(around=near(child(state=state)))
    assert (again.standing, again.code, again.name) == (Standing.AGAIN, EAST, "east")


def test_the_same_key_after_a_reinstallation_inherits_its_code_and_its_present_name() -> None:
    renamed = child(WEST, "paris")
    again = decide(around=near(renamed))
    assert (again.standing, again.code, again.name) == (Standing.AGAIN, WEST, "paris")


def test_the_same_key_may_repeat_a_code_that_is_over() -> None:
    late = Wall(NOW + 2 * HOUR)
    used = by_code(CODE, replace(RECORD, used=1))
    for verified, now in ((PASS, late), (used, NOW), (used, late)):
        again = decide(verified, around=near(child()), now=now)
        assert (again.standing, again.use) == (Standing.AGAIN, None)
    assert decide(around=near(child())).use == CODE.id
    revoked = by_code(CODE, replace(RECORD, revoked=True))
    assert code_of(lambda: decide(revoked, around=near(child()))) == "code-revoked"
    assert code_of(lambda: decide(around=near(child()), epoch=2)) == "code-before-restore"


def test_codes_that_are_over() -> None:
    assert code_of(lambda: decide(now=Wall(NOW + 2 * HOUR))) == "code-expired"
    assert code_of(lambda: decide(by_code(CODE, replace(RECORD, used=1)))) == "code-used"
    assert code_of(lambda: decide(by_code(CODE, replace(RECORD, revoked=True)))) == "code-revoked"
    assert code_of(lambda: decide(epoch=2)) == "code-before-restore"


def test_a_taken_name() -> None:
    taken = near(child(WEST, "east", "west"))
    assert code_of(lambda: decide(around=taken), Conflict) == "name-taken"
    banned = near(child(WEST, "east", "west", admin=Admin.BANNED))
    assert code_of(lambda: decide(around=banned, person=True), Conflict) == "name-taken"
    look_alike = near(child(WEST, "east1", "west"))
    assert decide(around=look_alike).standing is Standing.NEW


def test_a_retired_zones_name_is_free_but_not_its_code() -> None:
    gone = child(WEST, "east", "west", state=ChildState.RETIRED)
    assert decide(around=near(gone)).standing is Standing.NEW
    assert code_of(lambda: decide(around=near(gone, code=WEST), code=WEST)) == "retired"
    own = child(state=ChildState.RETIRED)
    assert code_of(lambda: decide(around=near(own))) == "retired"
    reborn = decide(around=near(own, code=WEST), code=WEST)
    assert (reborn.standing, reborn.code) == (Standing.NEW, WEST)


def test_replacing_a_zone_inherits_its_code() -> None:
    taken = near(child(WEST, "east", "west"))
    replacing = by_code(*minted(name="east", replace=True))
    for admitted in (decide(replacing, around=taken), decide(around=taken, person=True)):
        assert (admitted.standing, admitted.code, admitted.name) == (Standing.REPLACES, WEST, "east")
        assert admitted.fingerprint == fingerprint(public("east"))
    assert decide(known(replace=True), around=taken).standing is Standing.REPLACES


def test_a_zone_with_children_takes_no_other_code() -> None:
    """Theirs say the code that it has: it would have to go."""
    taken = near(child(WEST, "east", "west"))
    replacing = by_code(*minted(name="east", replace=True))
    assert code_of(lambda: decide(replacing, around=taken, has_children=True), Conflict) == "has-children"
    assert code_of(lambda: decide(around=near(child(WEST, "paris")), has_children=True), Conflict) == "has-children"
    # With its own code it may come as often as it likes, and join where nobody is.
    assert decide(around=near(child()), has_children=True).standing is Standing.AGAIN
    assert decide(has_children=True).standing is Standing.NEW


def test_replacing_needs_the_exact_name() -> None:
    """A record from elsewhere may say otherwise than `mint` allows; then it replaces nobody."""
    loose = replace(PASS, replace=True)
    taken = near(child(WEST, "east", "west"))
    assert code_of(lambda: decide(loose, around=taken), Conflict) == "name-taken"


def test_a_key_that_is_a_child_takes_no_other_place() -> None:
    other = child(WEST, "west", "east")
    taken = child(EAST, "east", "somebody")
    around = near(other, taken, code=ZoneCode(7))
    again = decide(around=around, code=ZoneCode(7), person=True)
    assert (again.standing, again.code, again.name) == (Standing.AGAIN, WEST, "west")


def test_somebody_elses_code() -> None:
    holder = near(child(EAST, "other", "west"))
    assert code_of(lambda: decide(around=holder), Conflict) == "code-taken"
    # A sibling's key with another's code.
    around = near(child(WEST, "west", "east"), child(EAST, "other", "west"))
    assert code_of(lambda: decide(around=around), Conflict) == "code-taken"
    # In a replaced zone's own place it is no conflict.
    held = near(child(EAST, "east", "west"))
    assert decide(around=held, person=True).code == EAST


def test_the_code_of_a_zone_that_is_above_or_below_already() -> None:
    assert code_of(lambda: decide(code=TOP, around=NOBODY)) == "loop"
    below = replace(NOBODY, through=("north",))
    assert code_of(lambda: decide(around=below)) == "diamond"
    assert decide(around=replace(near(child()), through=("north",))).standing is Standing.AGAIN


def test_the_banned() -> None:
    assert code_of(lambda: decide(around=near(child(admin=Admin.BANNED)))) == "banned"
    new_code = near(child(admin=Admin.BANNED), code=WEST, name="x")
    assert code_of(lambda: decide(around=new_code, code=WEST, name="x")) == "banned"
    retired = near(child(admin=Admin.BANNED, state=ChildState.RETIRED), code=WEST)
    assert code_of(lambda: decide(around=retired, code=WEST)) == "banned"


def test_disabled_zones_may_come_again() -> None:
    for admin in (Admin.DISABLED, Admin.MAINTENANCE):
        assert decide(around=near(child(admin=admin))).standing is Standing.AGAIN
