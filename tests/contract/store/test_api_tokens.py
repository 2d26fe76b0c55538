"""API tokens on each store: what the row says counts, however often it was remembered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import msgspec
import pytest

from banyan.core.errors import BadInput, BanyanError, Conflict, NotFound, Refused, Unauthenticated
from banyan.core.identity import Caller, Role
from banyan.core.ids import ZoneCode, code_text
from banyan.core.policy import TokenRecord
from banyan.core.records import Unit
from banyan.core.time import Mono, Wall, iso
from banyan.core.zone import Admin, ChildState, Health
from banyan.store.backup import mark_restored
from banyan.zone.commands.access import KEPT, SWEPT
from banyan.zone.commands.tokens import ApiTokens
from banyan.zone.own import open_own
from banyan.zone.tree import Node, Tree
from banyan.zone.views import TokenCreated, TokenView
from tests.contract.store.conftest import Kept
from tests.contract.store.fakes import SeededIds

HOUR, DAY = 3600.0, 86_400.0
START = 1_800_000_000.0
NORTH, LAB = ZoneCode(100), ZoneCode(101)


class Clock:
    def __init__(self) -> None:
        self.at = START

    def now(self) -> Mono:
        return Mono(self.at)

    def wall(self) -> float:
        return self.at

    async def sleep_until(self, instant: Mono) -> None:
        raise AssertionError("nothing here sleeps")

    def boot_id(self) -> str:
        return "boot"


class Zone:
    """A zone as far as tokens need one: itself, its tree, its store."""

    def __init__(self, kept: Kept) -> None:
        self.kept = kept
        self.clock = Clock()
        self.ids = SeededIds()
        self.open()

    def open(self) -> None:
        """As after a start of the process."""
        self.own = self.kept.run(open_own(self.kept.store, self.clock, self.ids, "top", {}))
        self.tree = Tree(self.own.code, "top")
        self.put(NORTH, self.own.code, "north")
        self.put(LAB, NORTH, "lab")
        self.tokens = ApiTokens(self.own, self.kept.store, self.ids, self.tree)
        self.admin = Caller("root@local", Role.ADMIN, self.own.code)

    def put(self, code: ZoneCode, parent: ZoneCode, name: str) -> None:
        via = NORTH if code == LAB else code
        self.tree.put(Node(code, parent, via, name, ChildState.READY, Health.ALIVE, Admin.ENABLED, "", "0.1.0", None))

    def make(
        self,
        by: Caller | None = None,
        *,
        role: Role = Role.ADMIN,
        under: ZoneCode | None = None,
        expires: float | None = HOUR,
        subject: str = "ops",
    ) -> TokenCreated:
        made = self.tokens.create(by or self.admin, subject, role, under or self.own.code, expires)
        return self.kept.run(made)

    def use(self, token: TokenCreated) -> Caller:
        return self.kept.run(self.tokens.authenticate(token.token, "192.0.2.1", "req-1"))

    def why(self, token: TokenCreated) -> str:
        """The code of the refusal, "" if it is good."""
        try:
            self.use(token)
        except Unauthenticated as refused:
            return refused.code
        return ""

    def listed(self) -> Sequence[TokenView]:
        page = self.kept.run(self.tokens.page("", 1000))
        return [msgspec.json.decode(item, type=TokenView) for item in page.items]

    def state(self, token: TokenCreated) -> str:
        (found,) = (view.state for view in self.listed() if view.id == token.id)
        return found

    def revoke(self, token: TokenCreated) -> None:
        self.kept.run(self.tokens.revoke(self.admin, token.id))

    def affirm(self, token: TokenCreated, by: Caller | None = None) -> TokenView:
        return self.kept.run(self.tokens.affirm(by or self.admin, token.id))

    def restored(self) -> None:
        """What `banyan restore` does to the rows, and the start after it."""
        self.kept.write(lambda unit: mark_restored(unit, Wall(self.clock.at), "a backup"))
        self.kept.again()
        self.open()

    def lines(self) -> list[tuple[str, str]]:
        return [(line.kind, line.target) for line in self.kept.read(lambda unit: unit.journal.page(0, 1000, {}))]


@pytest.fixture
def zone(kept: Kept) -> Zone:
    return Zone(kept)


def test_a_token_names_its_caller_until_it_ends(zone: Zone) -> None:
    made = zone.make(role=Role.OPERATOR, under=LAB, subject="grafana")
    assert (made.role, made.under, made.expires) == ("operator", "top/north/lab", iso(Wall(START + HOUR)))
    caller = zone.use(made)
    assert (caller.subject, caller.role, caller.issuer) == ("token:grafana", Role.OPERATOR, zone.own.code)
    assert (caller.under, caller.token, caller.address, caller.request) == (LAB, made.id, "192.0.2.1", "req-1")
    assert zone.use(zone.make()).under is None
    zone.clock.at += HOUR - 1
    assert zone.why(made) == ""
    zone.clock.at += 1
    assert (zone.why(made), zone.state(made)) == ("token-expired", "expired")


def test_a_revoked_token_is_refused_at_once_and_after_a_restart(zone: Zone) -> None:
    made, other = zone.make(), zone.make()
    assert zone.why(made) == "", "it is remembered now"
    zone.revoke(made)
    assert (zone.why(made), zone.why(other)) == ("token-revoked", "")
    zone.kept.again()
    zone.open()
    assert (zone.why(made), zone.state(made), zone.why(other)) == ("token-revoked", "revoked", "")
    with pytest.raises(NotFound, match="no-such"):
        zone.kept.run(zone.tokens.revoke(zone.admin, "no-such"))


def test_after_a_restore_tokens_of_before_are_refused_until_they_are_affirmed(zone: Zone) -> None:
    made, revoked = zone.make(), zone.make()
    zone.revoke(revoked)
    zone.restored()
    with pytest.raises(Unauthenticated, match=f"restored from a backup.*banyan token affirm {made.id}") as refused:
        zone.use(made)
    assert refused.value.code == "token-before-restore"
    assert (zone.state(made), zone.state(revoked)) == ("before-restore", "revoked")
    fresh = zone.make()
    assert zone.why(fresh) == ""
    assert zone.affirm(made).state == "good"
    assert (zone.why(made), zone.state(made)) == ("", "good")
    lines = zone.lines()
    zone.affirm(made)
    assert zone.lines() == lines, "said again it changes nothing"
    assert lines.count(("token-affirmed", made.id)) == 1
    zone.restored()
    assert zone.why(made) == zone.why(fresh) == "token-before-restore", "good until the next restore only"


def test_a_token_that_was_made_after_the_backup_is_unknown_to_the_restored_zone(zone: Zone) -> None:
    lost = zone.make()
    assert zone.why(lost) == ""
    zone.kept.write(lambda unit: unit.tokens.sweep(Wall(START + 2 * HOUR), 10))
    zone.restored()
    with pytest.raises(Unauthenticated, match="not kept here.*token create") as refused:
        zone.use(lost)
    assert refused.value.code == "token-unknown"
    with pytest.raises(NotFound):
        zone.affirm(lost)


def test_a_zone_that_finds_out_that_it_was_restored_refuses_tokens_that_it_remembers(zone: Zone) -> None:
    made = zone.make()
    assert zone.why(made) == ""
    zone.kept.run(zone.own.raise_epoch("a child has seen more", zone.own.row.epoch))
    assert zone.why(made) == "token-before-restore"
    zone.affirm(made)
    assert zone.why(made) == ""


def test_what_is_over_or_revoked_can_not_be_affirmed(zone: Zone) -> None:
    over, revoked = zone.make(), zone.make(expires=DAY)
    zone.revoke(revoked)
    zone.clock.at += HOUR
    for token, state in ((over, "expired"), (revoked, "revoked")):
        with pytest.raises(Conflict, match=state) as refused:
            zone.affirm(token)
        assert refused.value.code == "token-ended"


def test_a_token_gives_no_longer_life_than_its_own(zone: Zone) -> None:
    maker = zone.make(expires=HOUR)
    by = zone.use(maker)
    assert zone.make(by, expires=None).expires == maker.expires, "by default as long as the maker at most"
    assert zone.make(by, expires=60.0).expires == iso(Wall(START + 60))
    assert zone.make(by, expires=HOUR).expires == maker.expires
    zone.clock.at += 60
    assert zone.make(by, expires=HOUR - 60).expires == maker.expires
    with pytest.raises(Refused, match=f"{maker.id} ends at") as refused:
        zone.make(by, expires=HOUR - 59)
    assert refused.value.code == "token-outlives-maker"
    assert zone.make(expires=None).expires == iso(Wall(START + 60 + DAY)), "nobody's token but the machine's own"


def test_neither_does_a_token_that_was_made_by_one(zone: Zone) -> None:
    first = zone.make(expires=HOUR)
    second = zone.make(zone.use(first), expires=None)
    third = zone.make(zone.use(second), expires=None)
    assert third.expires == first.expires
    with pytest.raises(Refused):
        zone.make(zone.use(third), expires=2 * HOUR)


def test_nor_by_affirming_one_of_before_a_restore(zone: Zone) -> None:
    long, short = zone.make(expires=DAY), zone.make(expires=60.0)
    zone.restored()
    by = zone.use(zone.make(expires=HOUR))
    with pytest.raises(Refused) as refused:
        zone.affirm(long, by)
    assert (refused.value.code, zone.why(long)) == ("token-outlives-maker", "token-before-restore")
    assert zone.affirm(short, by).state == "good"


def test_a_token_that_was_revoked_meanwhile_makes_none(zone: Zone) -> None:
    maker = zone.make()
    by = zone.use(maker)
    zone.revoke(maker)
    for act in (lambda: zone.make(by, expires=60.0), lambda: zone.affirm(maker)):
        with pytest.raises(BanyanError) as refused:
            act()
        assert refused.value.code in ("token-revoked", "token-ended")
    assert [view.id for view in zone.listed()] == [maker.id]


def test_a_token_stays_with_its_zone_whatever_that_is_called(zone: Zone) -> None:
    made = zone.make(under=NORTH)
    zone.put(NORTH, zone.own.code, "nord")
    zone.put(ZoneCode(102), zone.own.code, "north")
    assert zone.use(made).under == NORTH
    (view,) = zone.listed()
    assert (view.under, view.zone, view.state) == ("top/nord", code_text(NORTH), "good")
    zone.tree.move(zone.own.code, "world/top")
    assert [view.under for view in zone.listed()] == ["world/top/nord"]


def test_a_token_of_a_zone_that_is_gone_is_good_for_nothing_and_the_list_says_so(zone: Zone) -> None:
    made, lab, whole = zone.make(under=NORTH), zone.make(under=LAB), zone.make()
    assert zone.why(made) == ""
    zone.tree.remove(NORTH)
    with pytest.raises(Unauthenticated, match="top/north.*retired, or left"):
        zone.use(made)
    assert [zone.why(one) for one in (made, lab, whole)] == ["token-zone-gone", "token-zone-gone", ""]
    found = {view.id: (view.under, view.zone, view.state) for view in zone.listed()}
    assert found == {
        made.id: ("top/north", code_text(NORTH), "zone-gone"),
        lab.id: ("top/north/lab", code_text(LAB), "zone-gone"),
        whole.id: ("", "", "good"),
    }


def test_a_token_of_this_zone_is_one_of_everything(zone: Zone) -> None:
    made = zone.make(under=zone.own.code)
    assert (made.under, zone.use(made).under) == ("", None)


def test_tokens_are_kept_a_month_after_their_end_and_go_with_new_ones(zone: Zone) -> None:
    old = [zone.make(expires=60.0 + number) for number in range(3)]
    lives = zone.make(expires=90 * DAY)

    def crowd(unit: Unit) -> None:
        record = unit.tokens.get(old[0].id)
        assert record is not None
        for number in range(SWEPT + 5):
            unit.tokens.put(replace(record, id=f"x{number}", expires=Wall(START + 1)))

    zone.clock.at += 60 + KEPT
    zone.make(expires=60.0)
    assert {token.id for token in old} <= {view.id for view in zone.listed()}, "not before the month is over"
    zone.kept.write(crowd)
    before = len(zone.listed())
    zone.make(expires=60.0)
    assert len(zone.listed()) == before - SWEPT + 1, "so many in one unit, and no more"
    zone.clock.at += 2
    zone.make(expires=60.0)
    left = {view.id for view in zone.listed()}
    assert not left & {f"x{number}" for number in range(SWEPT + 5)} and old[0].id not in left
    assert {old[2].id, lives.id} <= left
    assert ("token-created", old[0].id) in zone.lines(), "the journal forgets nothing"


def test_the_list_is_paged(zone: Zone) -> None:
    made = sorted(zone.make(expires=60.0).id for _ in range(5))
    found, marker = [], ""
    for size in (2, 2, 1):
        page = zone.kept.run(zone.tokens.page(marker, 2))
        assert len(page.items) == size
        found += [msgspec.json.decode(item, type=TokenView).id for item in page.items]
        marker = page.marker
        assert bool(marker) == (len(found) < 5)
    assert found == made


@pytest.mark.parametrize(
    ("subject", "expires", "code"), [("", 60.0, "bad-subject"), ("x", 0.5, "bad-lifetime"), ("x", 1e9, "bad-lifetime")]
)
def test_a_token_that_can_not_be_made_leaves_nothing(zone: Zone, subject: str, expires: float, code: str) -> None:
    with pytest.raises(BadInput) as refused:
        zone.make(subject=subject, expires=expires)
    assert (refused.value.code, zone.listed()) == (code, [])


def test_a_signature_alone_is_nothing(zone: Zone) -> None:
    """Whoever got the key but not the store, or made a token in a life of this zone that was taken back."""
    made = zone.make()
    row = zone.kept.read(lambda unit: unit.tokens.get(made.id))
    assert isinstance(row, TokenRecord)
    zone.kept.write(lambda unit: unit.tokens.sweep(Wall(START + DAY), 10))
    zone.tokens = ApiTokens(zone.own, zone.kept.store, zone.ids, zone.tree)
    assert zone.why(made) == "token-unknown"
    assert zone.why(made) == "token-unknown", "nor remembered"
    zone.kept.write(lambda unit: unit.tokens.put(row))
    assert zone.why(made) == ""
