"""How long a session may stand on the certificate that opened it: never longer than that holds, by boot time alone."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pytest

from banyan.core.errors import BanyanError
from banyan.core.identity import Caller
from banyan.core.messages import Generations, Greet, Renew, Request
from banyan.core.ports import Peer
from banyan.core.time import Wall
from banyan.core.zone import Uplink
from banyan.trust.authority import issue_child, issue_server
from banyan.trust.enrol import sign_renewal
from banyan.trust.keys import public_key
from banyan.zone.reconcile.uplinks import UplinkSide
from tests.unit.trust.world import Parent, chance
from tests.unit.zone.household import Household, Kid, Wire

DAY = 86_400.0


@pytest.fixture
def house() -> Iterator[Household]:
    made = Household()
    yield made
    made.close()


def ended(work: object, code: str = "certificate-expired") -> None:
    assert callable(work)
    with pytest.raises(BanyanError) as error:
        work()
    assert error.value.code == code
    assert error.value.transient, "it comes back, and asks for another in its hello"


def ask(kid: Kid) -> Renew:
    assert kid.wire is not None
    return sign_renewal(kid.seed, kid.code, kid.wire.peer.certificate or b"")


@pytest.mark.parametrize("jump", [0.0, 400 * DAY, -0.9 * DAY])
def test_a_session_that_begins_late_in_the_life_of_its_certificate_ends_with_it(house: Household, jump: float) -> None:
    kid = house.kid("east")
    house.go(0.9 * DAY)
    kid.open()
    # What the machine's clock does from now on is no news about the certificate.
    house.clock.jump(jump)
    house.go(0.1 * DAY - 60.0)
    kid.beat()
    house.go(62.0)
    ended(kid.beat)


def test_a_certificate_of_a_longer_life_than_is_wanted_now_gives_no_longer_session() -> None:
    house = Household(certificate_life=DAY / 2)
    kid = house.kid("east")
    own = house.zone.own
    kid.certificate = issue_child(own.issuer, kid.code, public_key(kid.seed), serial=own.serial(), now=own.wall())
    kid.open()
    house.go(DAY / 2 - 2.0)
    kid.beat()
    house.go(4.0)
    ended(kid.beat)
    kid.open()
    house.close()


def test_a_hello_that_renews_gives_a_whole_life(house: Household) -> None:
    kid = house.kid("east")
    house.go(0.9 * DAY)
    kid.open(renew=sign_renewal(kid.seed, kid.code, kid.certificate))
    house.go(DAY - 2.0)
    kid.beat()
    house.go(4.0)
    ended(kid.beat)


def test_a_renewal_extends_a_session_that_began_late(house: Household) -> None:
    kid = house.kid("east")
    house.go(0.9 * DAY)
    kid.open()
    kid.renew()
    house.go(DAY - 2.0)
    kid.beat()
    house.go(4.0)
    ended(kid.beat)


def test_a_renewal_that_is_refused_extends_nothing(house: Household) -> None:
    kid, other = house.kid("east"), house.kid("west")
    kid.open()
    assert kid.wire is not None
    house.go(0.9 * DAY)
    forged = msgspec.structs.replace(ask(kid), signature=bytes(64))
    with pytest.raises(BanyanError):
        house.run(house.zone.children.renew(kid.wire, forged))
    with pytest.raises(BanyanError):
        house.run(house.zone.children.renew(kid.wire, sign_renewal(other.seed, other.code, other.certificate)))
    house.go(0.1 * DAY + 2.0)
    ended(kid.beat)


def test_a_session_whose_certificate_is_over_renews_no_more(house: Household) -> None:
    """Else it would pass by what a hello asks of one that comes back with an expired certificate."""
    kid = house.kid("east")
    kid.open()
    house.go(DAY + 2.0)
    ended(kid.renew)
    ended(kid.beat)


def test_a_session_that_was_replaced_renews_no_more(house: Household) -> None:
    kid = house.kid("east")
    kid.open()
    older = kid.wire
    assert older is not None
    before = house.zone.roster.get(kid.code).child.fingerprint
    kid.open()
    asked = sign_renewal(house.stranger("other").seed, kid.code, older.peer.certificate or b"")
    ended(lambda: house.run(house.zone.children.renew(older, asked)), "replaced")
    assert house.zone.roster.get(kid.code).child.fingerprint == before
    ended(lambda: house.run(house.zone.children.renew(Wire(kid.code, kid.peer()), ask(kid))), "replaced")


# --- the child looks at its parent's ------------------------------------------------------------------


async def _nothing(request: Request, caller: Caller) -> bytes:
    return b""


class Above:
    """A child's side of an uplink to `parent`, without a link between. Both clocks agree at the start."""

    def __init__(self, house: Household, lived: float, name: str = "child") -> None:
        self.house = house
        now = house.zone.own.wall()
        self.parent = Parent(now=now)
        self.why: BanyanError | None = None
        shown = public_key(self.parent.leaf_seed)
        self.leaf = issue_server(self.parent.ca, shown, serial=chance("leaf"), now=Wall(now - lived))
        own = house.zone.own
        mine = issue_child(self.parent.ca, own.code, own.public, serial=chance(name), now=now, lifetime=90 * DAY)
        row = Uplink(1, ("top:1",), self.parent.ca.fingerprint, certificate=mine)
        zone = house.zone
        self.side = UplinkSide(
            row,
            own,
            house.store,
            house.clock,
            house.ids,
            house.settings,
            zone.streams,
            zone.members,
            _nothing,
            lambda row: None,
            lambda: 0,
        )

    def meet(self) -> None:
        greet = Greet(1, 1, self.house.ids.token(16), "session")
        welcome = self.parent.welcome(greet, self.leaf)
        self.house.run(self.side.welcomed(greet, welcome, Peer(self.leaf, "192.0.2.1", self.side.row.certificate)))

    def report(self) -> None:
        self.house.run(self.side.report(1, Generations(), 10_000))

    def stands_for(self, step: float = 60.0) -> float:
        """Seconds until it has enough of the session, to a step."""
        began = self.house.clock.now()
        while True:
            self.house.go(step)
            try:
                self.report()
            except BanyanError as error:
                self.why = error
                return self.house.clock.now() - began


@pytest.mark.parametrize("jump", [0.0, 400 * DAY, -300 * DAY])
def test_a_child_ends_its_session_a_little_before_the_certificate_of_its_parent_is_over(
    house: Household, jump: float
) -> None:
    above = Above(house, lived=0.5 * DAY)
    above.meet()
    above.report()
    house.clock.jump(jump)
    assert 0.44 * DAY <= above.stands_for() <= 0.5 * DAY
    assert above.why is not None
    assert (above.why.code, above.why.transient) == ("certificate-expired", True)
    above.parent.now = house.zone.own.wall()
    above.leaf = above.parent.leaf()
    above.meet()
    above.report()


def test_the_children_of_one_parent_do_not_come_back_in_one_moment(house: Household) -> None:
    stood = []
    for number in range(12):
        above = Above(house, lived=0.9 * DAY, name=f"child {number}")
        above.meet()
        stood.append(above.stands_for(step=30.0))
    assert max(stood) <= 0.1 * DAY
    assert max(stood) - min(stood) > 0.004 * DAY
    assert len(set(stood)) > 8
