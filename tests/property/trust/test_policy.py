"""Laws of `decide`: rules only ever take away; the order of the table does not matter; nobody gets another's place."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from banyan.core.errors import BanyanError
from banyan.core.ids import ZoneCode
from banyan.core.policy import CodeRecord, Rule, Verdict
from banyan.core.zone import Admin, Child, ChildState, Mode
from banyan.trust.attest import Verified
from banyan.trust.enrol import Admit, Neighbours, Standing, decide, matches
from banyan.trust.keys import fingerprint
from tests.unit.trust.world import EAST, NOW, TOP, WEST, asked, minted, public

MODES = list(Mode)
PATTERNS = st.sampled_from(["*", "east", "e*", "west", "[e-f]ast", "?", "EAST", ""])
REQUESTS = [
    asked(name=name, driver=driver, mode=mode, labels=labels)
    for name in ("east", "west", "east1")
    for driver in ("", "sim", "openstack")
    for mode in MODES
    for labels in ({}, {"site": "east"})
]
RULES = st.builds(
    Rule,
    id=st.text("abc", min_size=1, max_size=3),
    priority=st.integers(0, 3),
    verifier=st.sampled_from(["*", "join-code", "known-key"]),
    name=PATTERNS,
    driver=PATTERNS,
    labels=st.dictionaries(st.just("site"), PATTERNS),
    verdict=st.sampled_from(Verdict),
    mode=st.sampled_from(Mode),
)
TABLES = st.lists(RULES, max_size=4, unique_by=lambda rule: rule.id).map(tuple)


@st.composite
def proofs(draw: st.DrawFn) -> Verified:
    record: CodeRecord | None = minted()[1] if draw(st.booleans()) else None
    if record is not None:
        record = replace(record, used=draw(st.integers(0, 1)), revoked=draw(st.booleans()))
    return Verified(
        "known-key" if record is None else "join-code",
        "reference",
        name=draw(PATTERNS),
        driver=draw(st.sampled_from(["*", "sim"])),
        mode=draw(st.sampled_from(Mode)),
        replace=draw(st.booleans()),
        code=record,
    )


@st.composite
def surroundings(draw: st.DrawFn, name: str) -> tuple[Neighbours, bool]:
    """Up to three children, in any state, with any of the names, keys and codes; and a person's word to replace."""
    children: list[Child] = []
    for code in draw(st.lists(st.sampled_from([EAST, WEST, ZoneCode(3)]), unique=True)):
        key = draw(st.sampled_from(["east", "west", "other"]))
        child = Child(
            code,
            draw(st.sampled_from(["east", "west", "north"])),
            fingerprint(public(key)),
            state=draw(st.sampled_from(ChildState)),
            admin=draw(st.sampled_from(Admin)),
        )
        alive = [c for c in children if c.state is not ChildState.RETIRED]
        unique = all(c.name != child.name and c.fingerprint != child.fingerprint for c in alive)
        if child.state is ChildState.RETIRED or unique:
            children.append(child)
    living = [c for c in children if c.state is not ChildState.RETIRED]
    own = fingerprint(public("east"))
    neighbours = Neighbours(
        by_name=next((c for c in living if c.name == name), None),
        by_key=next((c for c in [*living, *children] if c.fingerprint == own), None),
        by_code=next((c for c in children if c.code == EAST), None),
        above=(TOP,),
    )
    return neighbours, draw(st.booleans())


@st.composite
def cases(draw: st.DrawFn):
    request = draw(st.sampled_from(REQUESTS))
    neighbours, person = draw(surroundings(request.name))
    return draw(proofs()), request, draw(TABLES), neighbours, person


def outcome(verified, request, rules, neighbours, person) -> Admit | str:
    try:
        return decide(verified, request, rules, neighbours, now=NOW, epoch=1, replace=person)
    except BanyanError as error:
        return error.code


@given(cases())
def test_rules_only_take_away(case) -> None:
    verified, request, rules, neighbours, person = case
    with_rules = outcome(verified, request, rules, neighbours, person)
    without = outcome(verified, request, (), neighbours, person)
    if isinstance(with_rules, Admit):
        assert isinstance(without, Admit)
        assert MODES.index(with_rules.mode) <= MODES.index(without.mode)
        assert (with_rules.code, with_rules.name, with_rules.use) == (without.code, without.name, without.use)


@given(cases(), st.randoms())
def test_the_order_of_the_table_does_not_matter(case, random) -> None:
    verified, request, rules, neighbours, person = case
    shuffled = list(rules)
    random.shuffle(shuffled)
    assert outcome(verified, request, tuple(shuffled), neighbours, person) == outcome(*case)


@given(cases())
def test_who_is_admitted_takes_nobodys_place_unasked(case) -> None:
    verified, request, rules, neighbours, person = case
    admitted = outcome(*case)
    if not isinstance(admitted, Admit):
        return
    assert admitted.fingerprint == request.fingerprint
    held = (neighbours.by_name, neighbours.by_key, neighbours.by_code)
    owner = next((c for c in held if c is not None and c.code == admitted.code), None)
    match admitted.standing:
        case Standing.NEW:
            assert owner is None
            assert neighbours.by_name is None
        case Standing.AGAIN:
            assert owner is not None
            assert owner.fingerprint == request.fingerprint
        case Standing.REPLACES:
            assert owner is neighbours.by_name
            assert person or (verified.replace and verified.name == request.name)
    assert owner is None or (owner.admin is not Admin.BANNED and owner.state is not ChildState.RETIRED)
    assert MODES.index(admitted.mode) <= min(MODES.index(request.mode), MODES.index(verified.mode))
    if rules:
        first = next(r for r in sorted(rules, key=lambda r: (r.priority, r.id)) if matches(r, verified, request))
        assert first.id == admitted.rule
        assert first.verdict is not Verdict.REFUSE
    if verified.code is not None and (verified.code.revoked or (verified.code.used and admitted.use)):
        raise AssertionError("a code that is over admitted somebody")


@given(cases())
def test_the_same_request_twice_converges(case) -> None:
    """After admission the row has the key; the same request then stands AGAIN at the same code."""
    verified, request, rules, neighbours, person = case
    first = outcome(*case)
    if not isinstance(first, Admit):
        return
    child = Child(first.code, first.name, first.fingerprint, quarantined=first.quarantined)
    other = neighbours.by_code if neighbours.by_code and neighbours.by_code.code != first.code else None
    by_code = child if first.code == request.code else other
    here = Neighbours(child if child.name == request.name else neighbours.by_name, child, by_code, (TOP,))
    used = verified if verified.code is None else replace(verified, code=replace(verified.code, used=1))
    again = outcome(used, request, rules, here, person)
    assert isinstance(again, Admit)
    assert (again.standing, again.code, again.name) == (Standing.AGAIN, first.code, first.name)
    assert (again.mode, again.labels, again.quarantined) == (first.mode, first.labels, first.quarantined)
