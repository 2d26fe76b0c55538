"""A wrong top: whatever stands where a parent is expected, the secret never leaves, and nothing is lost by asking.

Each imposter is a TLS server that keeps every byte it decrypts. It gets a greeting: a version and sixteen random bytes.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pytest

from banyan.core.ids import ZoneCode
from banyan.core.messages import Bye, Greet, Message, Welcome
from banyan.core.ports import Credentials
from banyan.core.secret import Secret
from banyan.core.time import Wall
from banyan.trust import tokens
from banyan.trust.authority import Issuer, ca_certificate, issue_server
from banyan.trust.chain import time_proof
from banyan.trust.keys import public_key
from tests.wire.zones.processes import Cloud, Said, Zone, together
from tests.wire.zones.stores import look, secret
from tests.wire.zones.stranger import CLOCK, IDS, Rogue, fresh_code, now_ms, seed, with_addresses

pytestmark = pytest.mark.slow

DAY = 86_400.0


@dataclass
class Known:
    """What a thief could have; each imposter uses of it what its case says."""

    top: Zone
    code: ZoneCode
    ca: Issuer
    ca_certificate: bytes
    child: Credentials


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Known]:
    with Cloud(tmp_path_factory.mktemp("top")) as cloud:
        top = cloud.zone("top").start()
        inside = cloud.zone("inside", code=top.code())
        assert inside.join().status == 0
        top.stop()
        own = look(top.data, lambda unit: unit.self_.get())
        [authority] = look(top.data, lambda unit: unit.authorities.all())
        [uplink] = look(inside.data, lambda unit: unit.uplinks.all())
        assert own is not None
        ca = Issuer(own.code, secret(top.data, authority.key))
        child = Credentials(uplink.certificate, secret(inside.data, "zone"))
        yield Known(top.start(), own.code, ca, authority.certificate, child)


def server(ca: Issuer, key: Secret, at: float = 0.0) -> bytes:
    """A controller's certificate that was made `at` seconds from now."""
    return issue_server(ca, public_key(key), serial=IDS.token(16), now=Wall(CLOCK.wall() + at))


def welcome(
    code: ZoneCode, leaf: bytes, ca: bytes, signer: Secret, at: float = 0.0, nonce: bytes = b""
) -> Callable[[Greet], Welcome]:
    """Answers a greeting with a time proof by `signer`, for the greeting's nonce or another."""
    time_ms = now_ms() + round(at * 1000)

    def answer(greet: Greet) -> Welcome:
        proof = time_proof(signer, nonce=nonce or greet.nonce, time_ms=time_ms, leaf=leaf)
        return Welcome(1, code, "top", time_ms, IDS.token(16), (leaf, ca), (), proof)

    return answer


Imposter = tuple[Credentials, Callable[[Greet], Message | None]]


def stranger_with_a_ca_of_its_own(k: Known) -> Imposter:
    own, key = Issuer(fresh_code(), seed()), seed()
    leaf, ca = server(own, key), ca_certificate(own, serial=IDS.token(16), now=Wall(CLOCK.wall()))
    return Credentials(leaf, key), welcome(own.code, leaf, ca, own.seed)


def one_that_claims_the_parents_code(k: Known) -> Imposter:
    own, key = Issuer(k.code, seed()), seed()
    leaf, ca = server(own, key), ca_certificate(own, serial=IDS.token(16), now=Wall(CLOCK.wall()))
    return Credentials(leaf, key), welcome(k.code, leaf, ca, own.seed)


def one_that_repeats_the_parents_welcome(k: Known) -> Imposter:
    """Its certificate in TLS is its own; what it says was heard from the parent for this very greeting."""
    own, key, parents = Issuer(fresh_code(), seed()), seed(), seed()
    return Credentials(server(own, key), key), welcome(k.code, server(k.ca, parents), k.ca_certificate, k.ca.seed)


def one_that_signed_itself(k: Known) -> Imposter:
    own = Issuer(k.code, seed())
    leaf = ca_certificate(own, serial=IDS.token(16), now=Wall(CLOCK.wall()))
    return Credentials(leaf, own.seed), welcome(k.code, leaf, k.ca_certificate, own.seed)


def a_child_of_the_parents(k: Known) -> Imposter:
    leaf = k.child.certificate
    return k.child, welcome(k.code, leaf, k.ca_certificate, k.child.seed)


def an_old_controllers_key_with_a_chosen_time(k: Known) -> Imposter:
    key = seed()
    leaf = server(k.ca, key, at=-3 * DAY)
    return Credentials(leaf, key), welcome(k.code, leaf, k.ca_certificate, key, at=-3 * DAY)


def an_old_controllers_key_with_an_old_proof(k: Known) -> Imposter:
    key = seed()
    leaf = server(k.ca, key)
    return Credentials(leaf, key), welcome(k.code, leaf, k.ca_certificate, k.ca.seed, nonce=IDS.token(16))


def a_controller_whose_certificate_ended(k: Known) -> Imposter:
    key = seed()
    leaf = server(k.ca, key, at=-3 * DAY)
    return Credentials(leaf, key), welcome(k.code, leaf, k.ca_certificate, k.ca.seed)


def a_parent_in_the_past(k: Known) -> Imposter:
    key = seed()
    leaf = server(k.ca, key, at=-3 * DAY)
    return Credentials(leaf, key), welcome(k.code, leaf, k.ca_certificate, k.ca.seed, at=-3 * DAY)


# What stands at the address, the error's code, and a word of its text.
IMPOSTERS: list[tuple[Callable[[Known], Imposter], str, str]] = [
    (stranger_with_a_ca_of_its_own, "wrong-pin", "Nothing was told to it"),
    (one_that_claims_the_parents_code, "wrong-pin", "join again with a new code"),
    (one_that_repeats_the_parents_welcome, "not-the-parent", "something stands between"),
    (one_that_signed_itself, "self-signed", "Is this address the parent's?"),
    (a_child_of_the_parents, "childs-certificate", "Tell the operator of the parent"),
    (an_old_controllers_key_with_a_chosen_time, "bad-time-proof", "check the address"),
    (an_old_controllers_key_with_an_old_proof, "bad-time-proof", "check the address"),
    (a_controller_whose_certificate_ended, "certificate-expired", "restart or renew at the parent"),
    (a_parent_in_the_past, "time-behind", "set the clock of the parent's machine"),
]


@dataclass
class Met:
    """What became of a zone that met an imposter: what it said, what it told, and that it may join all the same."""

    said: Said
    rogue: Rogue
    told: list[bytes]
    afterwards: Said


@pytest.fixture(scope="module")
def met(known: Known, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Met]]:
    with Cloud(tmp_path_factory.mktemp("met")) as cloud:

        def meet(make: Callable[[Known], Imposter], number: int) -> Met:
            code = known.top.code("--expires", "1h")
            name = f"unheard{number}"
            with Rogue(*make(known)) as rogue:
                zone = cloud.zone(name, code=with_addresses(code, rogue.address))
                said = zone.join("--patience", "2s", "--json")
            afterwards = zone.give(code).join("--json")
            return Met(said, rogue, [name.encode(), *traces(zone, code)], afterwards)

        found = together(*(lambda m=make, n=n: meet(m, n) for n, (make, _, _) in enumerate(IMPOSTERS)))
        yield {make.__name__: one for (make, _, _), one in zip(IMPOSTERS, found, strict=True)}


def traces(zone: Zone, code: str) -> list[bytes]:
    """All forms in which a zone's secrets, or the zone itself, could be told."""
    parsed = tokens.parse(code)
    own = look(zone.data, lambda unit: unit.self_.get())
    assert own is not None
    key = secret(zone.data, "zone")
    found = [code.encode(), code.removeprefix(tokens.PREFIX).encode(), own.code.to_bytes(5, "big")]
    seeds = (parsed.secret.reveal(), tokens.signing_seed(parsed.secret).reveal(), key.reveal())
    publics = (public_key(key), public_key(tokens.signing_seed(parsed.secret)), bytes.fromhex(parsed.id))
    for value in (*seeds, *publics):
        plain, safe = base64.b64encode(value), base64.urlsafe_b64encode(value)
        found += [value, value.hex().encode(), plain.rstrip(b"="), safe.rstrip(b"=")]
    return found


@pytest.mark.parametrize(("make", "error", "remedy"), IMPOSTERS, ids=lambda v: getattr(v, "__name__", ""))
def test_a_wrong_top_is_named_and_told_nothing(
    met: dict[str, Met], make: Callable[[Known], Imposter], error: str, remedy: str
) -> None:
    one = met[make.__name__]
    assert one.said.status == 3
    found, text = one.said.error()
    assert found == error, text
    assert remedy in text
    [greeting, *more] = one.rogue.words
    assert isinstance(greeting, Greet) and greeting.purpose == "enrol" and not more
    assert b"/link/v1/enrol" in one.rogue.heard, "it did decrypt what was said"
    for trace in one.told:
        for piece in pieces(trace):
            assert piece not in one.rogue.heard


def pieces(trace: bytes, size: int = 12) -> list[bytes]:
    """All parts of a trace that are long enough not to come by chance; a short trace is its own part."""
    return [trace[start : start + size] for start in range(max(1, len(trace) - size + 1))]


def test_nothing_is_lost_by_having_asked_a_wrong_top(met: dict[str, Met], known: Known) -> None:
    for one in met.values():
        assert one.afterwards.status == 0, one.afterwards.err
    used = {code["used"] for code in known.top.cli("code", "list", "--json").json()}
    assert used == {1}, "the same code, unspent, served at the right address"
    assert len(known.top.zones()) == 1 + len(IMPOSTERS)
    assert not known.top.journal(outcome="refused")


def test_a_never_of_somebody_unproved_does_not_end_a_zone(known: Known, tmp_path: Path) -> None:
    """Whoever stands at the address for a moment could otherwise keep a zone down for good."""

    def never(greet: Greet) -> Message:
        return Bye("banned", "go away for ever", -1)

    key = seed()
    own = Issuer(fresh_code(), seed())
    with Cloud(tmp_path) as cloud, Rogue(Credentials(server(own, key), key), never) as rogue:
        code = known.top.code()
        both = cloud.zone("patient", code=with_addresses(code, rogue.address, f"127.0.0.1:{known.top.link}"))
        said = both.join("--json")
        assert said.json() == {"path": "top/patient"}, "the next address is asked"
        alone = cloud.zone("alone", code=with_addresses(known.top.code(), rogue.address))
        said = alone.join("--patience", "1s", "--json")
        assert said.status == 5, "as one that cannot be reached, since nobody it knows has refused it"
        assert "go away for ever" in said.error()[1]
        assert all(isinstance(word, Greet) for word in rogue.words)


def test_a_child_of_old_is_not_fooled_either(tmp_path: Path) -> None:
    """In sessions, too: a child's certificate, and an old controller's key with a chosen time, at the right address."""
    with Cloud(tmp_path) as cloud:
        top = cloud.zone("top").start()
        lab = cloud.zone("lab", code=top.code(), hosts=1).start()
        other = cloud.zone("other", code=top.code())
        assert other.join().status == 0
        top.wait_for_zone("lab", state="ready")
        top.kill()
        [authority] = look(top.data, lambda unit: unit.authorities.all())
        [uplink] = look(other.data, lambda unit: unit.uplinks.all())
        code = look(top.data, lambda unit: unit.self_.get()).code
        ca = Issuer(code, secret(top.data, authority.key))
        chosen = 400 * DAY
        old = seed()
        leaf = server(ca, old, at=chosen)
        cases: list[tuple[Imposter, str]] = [
            (
                (Credentials(uplink.certificate, secret(other.data, "zone")), lambda greet: None),
                "not-the-parent",
            ),
            (
                (Credentials(leaf, old), welcome(code, leaf, authority.certificate, old, at=chosen)),
                "bad-time-proof",
            ),
        ]
        for (shown, answer), error in cases:
            with Rogue(shown, answer, port=top.link, authorities=[authority.certificate]) as rogue:
                lab.wait_until(lambda e=error: e in lab.uplink()["reason"], f"to say {error}")
                assert all(isinstance(word, Greet) for word in rogue.words)
                for trace in (b"lab", lab.status()["code"].encode()):
                    assert trace not in rogue.heard
        assert abs(lab.status()["time_offset"]) < 5, "nobody but the CA's key sets a child's clock"
        top.start()
        lab.wait_for_uplink("connected")
        top.wait_for_zone("lab", state="ready", health="alive")


def test_msgspec_is_what_the_imposters_speak() -> None:
    """The imposters' own welcome passes when everything in it is right: they fail for their reason and no other."""
    own, key = Issuer(fresh_code(), seed()), seed()
    leaf, ca = server(own, key), ca_certificate(own, serial=IDS.token(16), now=Wall(CLOCK.wall()))
    made = welcome(own.code, leaf, ca, own.seed)(Greet(1, 1, bytes(16), "enrol"))
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(made), type=Welcome) == made
