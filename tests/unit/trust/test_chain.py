"""Each case of a wrong peer has its own code; a right one passes. Times are explicit."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import msgspec
import pytest

from banyan.core.errors import BadInput, Refused
from banyan.core.ids import ZoneCode
from banyan.core.time import TimeBasis, Wall
from banyan.core.zone import Admin, Child, ChildState
from banyan.trust import authority, chain
from banyan.trust.authority import Issuer
from banyan.trust.keys import fingerprint, public_key
from tests.unit.trust.world import DAY, EAST, GREET, HOUR, NOW, TOP, WEST, Parent, chance, meet, public, row, seed

CA = Issuer(TOP, seed("top ca"))
OTHER = Issuer(TOP, seed("another ca"))


def refused(call: Callable[[], object]) -> str:
    with pytest.raises(Refused) as error:
        call()
    assert len(error.value.text) > 40  # says what to do
    return error.value.code


# --- the parent ----------------------------------------------------------------------------------


def test_the_pinned_parent_is_believed() -> None:
    proof = meet(Parent(), code=TOP)
    assert (proof.code, proof.fingerprint, proof.pin, proof.path) == (TOP, CA.fingerprint, CA.fingerprint, ())
    assert proof.now == NOW


def test_a_wrong_pin() -> None:
    assert refused(lambda: meet(Parent(), pin=OTHER.fingerprint)) == "wrong-pin"


def test_a_self_signed_server_certificate() -> None:
    impostor = Issuer(TOP, seed("top controller"))
    parent = Parent(ca=impostor)
    assert refused(lambda: meet(parent, pin=CA.fingerprint)) == "self-signed"


def test_a_certificate_that_tls_did_not_prove() -> None:
    other = authority.issue_server(CA, public("elsewhere"), serial=chance("x"), now=NOW)
    assert refused(lambda: meet(Parent(), chain=(other, Parent().ca_certificate()))) == "not-the-parent"
    assert refused(lambda: meet(Parent(), chain=())) == "not-the-parent"


def shown(leaf: bytes, parent: Parent | None = None) -> Callable[[], object]:
    """The parent shows `leaf`, and proves the time with its CA's key."""
    parent = parent or Parent()
    return lambda: chain.verify_parent(
        GREET,
        parent.welcome(GREET, leaf),
        leaf,
        pin=CA.fingerprint,
        basis=TimeBasis(),
        machine_wall=NOW,
    )


def test_a_childs_certificate_as_a_parents() -> None:
    leaf = authority.issue_child(CA, EAST, public("east"), serial=chance("x"), now=NOW)
    assert refused(shown(leaf)) == "childs-certificate"


def test_a_ca_certificate_as_a_leaf() -> None:
    leaf = authority.cross_certificate(CA, public("east"), serial=chance("x"), now=NOW)
    assert refused(shown(leaf)) == "wrong-server-name"


def test_the_name_of_another_ca() -> None:
    # The CA's key under another name can only come from a program of ours that is wrong; it is refused all the same.
    builder = authority._builder(authority._subject("x"), CA, public("top controller"), chance("x"), NOW, DAY)
    name = authority.x509.DNSName(authority.server_name(OTHER.fingerprint))
    leaf = authority._signed(authority._leaf(builder, authority.ExtendedKeyUsageOID.SERVER_AUTH, [name]), CA)
    assert refused(shown(leaf)) == "wrong-server-name"


def test_the_apis_certificate_is_no_controllers() -> None:
    made = authority.api_certificate(seed("api"), ["top.example.org"], serial=chance("x"), now=NOW)
    der = authority.x509.load_pem_x509_certificate(made.certificate).public_bytes(authority.Encoding.DER)
    with pytest.raises(BadInput) as error:
        shown(der)()
    assert error.value.code == "bad-certificate"


def test_a_ca_that_is_named_but_did_not_sign() -> None:
    forged = Issuer(TOP, seed("forger"))
    leaf = authority.issue_server(forged, public("top controller"), serial=chance("x"), now=NOW)
    assert refused(shown(leaf)) == "unknown-authority"  # its CA was not shown


def test_a_ca_of_another_zone_with_our_pin() -> None:
    assert refused(lambda: meet(Parent(), code=WEST)) == "wrong-zone"
    liar = Parent(code=WEST)  # says another code than its CA carries
    assert refused(lambda: meet(liar)) == "wrong-zone"


def test_an_old_server_key_with_a_chosen_time() -> None:
    """A thief has the controller's key and yesterday's certificate, and sets the clock back; it has no CA key."""
    parent = Parent(now=Wall(NOW - 3 * DAY))
    greet_of_then = msgspec.structs.replace(GREET, nonce=chance("an older greeting"))
    recorded = parent.welcome(greet_of_then)
    assert refused(lambda: meet(parent, proof=recorded.proof)) == "bad-time-proof"
    own = chain.time_proof(seed("top controller"), nonce=GREET.nonce, time_ms=recorded.time, leaf=recorded.chain[0])
    assert refused(lambda: meet(parent, proof=own)) == "bad-time-proof"
    assert refused(lambda: meet(parent, time=recorded.time + 1)) == "bad-time-proof"


def test_an_expired_server_certificate_at_the_proven_time() -> None:
    parent = Parent()
    old = parent.leaf()
    late = Parent(now=Wall(NOW + 2 * DAY))
    assert refused(shown(old, late)) == "certificate-expired"


def test_a_server_certificate_of_the_future() -> None:
    future = Parent(now=Wall(NOW + 2 * DAY)).leaf()
    assert refused(shown(future)) == "not-yet-valid"


def test_a_clock_a_year_behind_learns_the_time_and_goes_on() -> None:
    proof = meet(Parent(), wall=NOW - 365 * DAY)
    assert proof.now == NOW
    assert proof.basis.offset == 365 * DAY
    assert proof.basis.correct(NOW - 365 * DAY + 60) == NOW + 60


def test_a_clock_a_year_ahead_learns_the_time_and_goes_on() -> None:
    proof = meet(Parent(), wall=NOW + 365 * DAY)
    assert proof.now == NOW


def test_a_parent_of_the_past() -> None:
    assert refused(lambda: meet(Parent(), basis=TimeBasis(floor=Wall(NOW + 301)))) == "time-behind"
    assert meet(Parent(), basis=TimeBasis(floor=Wall(NOW + 299))).now == NOW + 299


def test_times_never_lower_the_floor() -> None:
    basis = chain.judge_time(TimeBasis(floor=Wall(NOW + 200)), NOW, int(NOW * 1000))
    assert basis.floor == NOW + 200
    assert chain.judge_time(TimeBasis(), NOW, int((NOW + 5) * 1000)).floor == NOW + 5


@pytest.mark.parametrize("time", [-1, 2**63, 253_402_300_800_000])
def test_a_time_that_is_none(time: int) -> None:
    with pytest.raises(BadInput) as error:
        meet(Parent(), time=time)
    assert error.value.code == "bad-time"


def test_too_many_certificates_are_not_read() -> None:
    bundle = tuple(bytes((i,)) for i in range(100))
    with pytest.raises(BadInput):
        meet(Parent(), bundle=bundle)


# --- the parent's CA rotated ---------------------------------------------------------------------


def rotated(times: int) -> tuple[Parent, Issuer, tuple[bytes, ...]]:
    """A parent that rotated; its first CA; every certificate between its CAs."""
    issuers = [CA] + [Issuer(TOP, seed(f"ca {n}")) for n in range(times)]
    bundle: list[bytes] = [row(issuers[0]).certificate]
    for old, new in itertools.pairwise(issuers):
        bundle.append(authority.cross_certificate(old, new.public, serial=chance("o"), now=NOW))
        bundle.append(authority.cross_certificate(new, old.public, serial=chance("n"), now=NOW))
        bundle.append(row(new).certificate)
    return Parent(ca=issuers[-1], bundle=tuple(bundle)), CA, tuple(bundle)


@pytest.mark.parametrize("times", [1, 2, 4])
def test_a_rotated_ca_is_reached_from_the_old_pin(times: int) -> None:
    parent, first, _ = rotated(times)
    proof = meet(parent, pin=first.fingerprint)
    assert proof.fingerprint == parent.ca.fingerprint
    assert len(proof.path) == times
    pins = chain.new_pins(proof, parent.welcome(GREET))
    assert pins.pin == parent.ca.fingerprint
    assert meet(parent, pin=pins.pin, bundle=pins.bundle).path == ()


def test_a_parent_restored_from_before_its_rotation_is_known_by_what_was_kept() -> None:
    parent, first, _ = rotated(1)
    pins = chain.new_pins(meet(parent, pin=first.fingerprint), parent.welcome(GREET))
    restored = Parent(ca=first)
    assert meet(restored, pin=pins.pin, bundle=pins.bundle).fingerprint == first.fingerprint
    assert refused(lambda: meet(restored, pin=pins.pin)) == "wrong-pin"


def test_cross_certificates_end_after_90_days() -> None:
    parent, first, _ = rotated(1)
    late = Wall(NOW + 91 * DAY)
    parent = Parent(ca=parent.ca, bundle=parent.bundle, now=late)
    assert refused(lambda: meet(parent, pin=first.fingerprint, wall=late)) == "cross-expired"
    assert meet(parent, wall=late).now == late
    parent.now = Wall(NOW + 89 * DAY)
    assert meet(parent, pin=first.fingerprint, wall=parent.now).pin == first.fingerprint


def test_a_ca_that_is_not_crossed_is_another_parent() -> None:
    parent, first, _ = rotated(1)
    assert refused(lambda: meet(Parent(ca=parent.ca), pin=first.fingerprint)) == "wrong-pin"


def test_a_cross_certificate_by_a_stranger_or_for_another_zone_leads_nowhere() -> None:
    mallory = Issuer(WEST, seed("mallory"))
    claims = authority.cross_certificate(Issuer(TOP, seed("mallory")), CA.public, serial=chance("m"), now=NOW)
    parent = Parent(code=WEST, ca=mallory, bundle=(row(CA).certificate, claims))
    assert refused(lambda: meet(parent, pin=CA.fingerprint)) == "wrong-pin"
    # Even a signature of the pinned CA does not make the CA of another zone this parent.
    builder = authority._builder(authority._zone_subject(WEST), CA, mallory.public, chance("m"), NOW, DAY)
    builder = builder.add_extension(authority.x509.BasicConstraints(ca=True, path_length=0), critical=True)
    crossed = authority._signed(builder.add_extension(authority._usage(ca=True), critical=True), CA)
    parent.bundle = (row(CA).certificate, crossed)
    assert refused(lambda: meet(parent, pin=CA.fingerprint)) == "wrong-pin"


def test_kept_certificates_are_bounded_and_not_over() -> None:
    parent, first, bundle = rotated(4)
    proof = meet(parent, pin=first.fingerprint)
    pins = chain.new_pins(proof, parent.welcome(GREET), bundle)
    assert len(pins.bundle) <= chain.MAX_CERTIFICATES
    parent.now = Wall(NOW + 91 * DAY)
    later = chain.new_pins(meet(parent, wall=parent.now), parent.welcome(GREET), pins.bundle)
    kept = [chain.read(der) for der in later.bundle]
    assert all(certificate.self_signed for certificate in kept)


# --- the child -----------------------------------------------------------------------------------


def certificate(key: str = "east", code: ZoneCode = EAST, issuer: Issuer = CA, now: Wall = NOW) -> bytes:
    return authority.issue_child(issuer, code, public(key), serial=chance(key), now=now)


def test_a_child_is_who_its_certificate_says() -> None:
    proof = chain.verify_child(certificate(), [row(CA)], NOW)
    assert (proof.code, proof.fingerprint, proof.public) == (EAST, fingerprint(public("east")), public("east"))
    assert not proof.expired
    assert proof.not_after == NOW + DAY


def test_a_child_of_the_ca_before_is_still_known() -> None:
    rows = [row(OTHER), row(CA, current=False)]
    assert chain.verify_child(certificate(), rows, NOW).code == EAST


def test_self_signed_children_and_those_of_other_parents() -> None:
    own = Issuer(EAST, seed("east"))
    assert refused(lambda: chain.verify_child(certificate(issuer=own), [row(CA)], NOW)) == "self-signed"
    assert refused(lambda: chain.verify_child(certificate(issuer=OTHER), [row(CA)], NOW)) == "unknown-authority"


def test_a_ca_that_leaked_vouches_for_nobody() -> None:
    assert refused(lambda: chain.verify_child(certificate(), [row(CA, leaked=True)], NOW)) == "leaked-authority"


def test_parents_certificates_are_no_childs() -> None:
    leaf = Parent().leaf()
    assert refused(lambda: chain.verify_child(leaf, [row(CA)], NOW)) == "parents-certificate"
    cross = authority.cross_certificate(CA, public("east"), serial=chance("x"), now=NOW)
    assert refused(lambda: chain.verify_child(cross, [row(CA)], NOW)) == "parents-certificate"


def test_the_childs_times() -> None:
    expired = chain.verify_child(certificate(), [row(CA)], Wall(NOW + DAY + 1))
    assert expired.expired
    assert refused(lambda: chain.verify_child(certificate(), [row(CA)], Wall(NOW - 301))) == "not-yet-valid"
    assert chain.verify_child(certificate(), [row(CA)], Wall(NOW - 299)).code == EAST
    ca = row(CA, now=Wall(NOW - authority.CA_LIFE - DAY))
    assert refused(lambda: chain.verify_child(certificate(), [ca], NOW)) == "authority-expired"


def test_an_expired_certificate_is_good_for_its_renewal_during_90_days() -> None:
    def check(days: float, renewing: bool) -> None:
        now = Wall(NOW + DAY + days * DAY)
        chain.check_expiry(chain.verify_child(certificate(), [row(CA)], now), now, renewing=renewing)

    check(-0.5, renewing=False)
    check(90, renewing=True)
    assert refused(lambda: check(0.01, renewing=False)) == "certificate-expired"
    assert refused(lambda: check(90.01, renewing=True)) == "certificate-expired"


def test_the_certificate_against_the_row() -> None:
    proof = chain.verify_child(certificate(), [row(CA)], NOW)
    child = Child(EAST, "east", fingerprint(public("east")))
    assert chain.standing(proof, EAST, child) is child

    def check(claimed: ZoneCode = EAST, child: Child | None = child) -> str:
        return refused(lambda: chain.standing(proof, claimed, child))

    sibling = Child(WEST, "west", fingerprint(public("west")))
    assert check(WEST, sibling) == "wrong-zone"
    assert check(EAST, sibling) == "wrong-zone"
    assert check(child=None) == "no-child"
    assert check(child=Child(EAST, "east", fingerprint(public("west")))) == "wrong-key"
    assert check(child=Child(EAST, "east", child.fingerprint, admin=Admin.BANNED)) == "banned"
    assert check(child=Child(EAST, "east", child.fingerprint, state=ChildState.RETIRED)) == "retired"


def test_codes_out_of_range_are_named_not_raised() -> None:
    proof = chain.verify_child(certificate(), [row(CA)], NOW)
    assert refused(lambda: chain.standing(proof, ZoneCode(2**64), None)) == "wrong-zone"
    assert refused(lambda: meet(Parent(), code=ZoneCode(-1))) == "wrong-zone"


def test_nothing_else_depends_on_the_machines_clock() -> None:
    """A certificate of a far past is judged only at the instant given."""
    past = Wall(NOW + 20 * 365 * DAY)
    ca = row(CA, now=past)
    leaf = certificate(now=past)
    assert chain.verify_child(leaf, [ca], Wall(past + HOUR)).expired is False
    assert public_key(seed("east")) == public("east")
