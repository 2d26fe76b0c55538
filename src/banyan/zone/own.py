"""The zone's own self: code, name, keys, authorities and corrected time, as held in memory.

Made once by `open_own` from the store (or written there at the first start), then changed only through its
methods, each of which stores before it takes effect. Knows nothing of parents, children or racks.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from banyan.core.errors import BadInput, Broken, Conflict
from banyan.core.identity import SYSTEM, Caller
from banyan.core.ids import ZoneCode, check_name, code_text
from banyan.core.journal import Event
from banyan.core.ports import Clock, Ids, Store
from banyan.core.records import AuthorityRow, Self, StoreUnknown, Unit
from banyan.core.secret import Secret
from banyan.core.time import BUILD_DATE, LEASE_DRIFT, Mono, TimeBasis, Wall
from banyan.core.zone import ChildState
from banyan.trust import keys
from banyan.trust.authority import CA_LIFE, SERIAL_SIZE, Issuer, ca_certificate
from banyan.trust.certificate import read
from banyan.zone.again import Again
from banyan.zone.firm import firm

IDENTITY_KEY = "zone"
TOKEN_KEY = "tokens"
API_KEY = "api"
SEED = 32  # bytes of an Ed25519 seed

# Tokens read at a time.
TOKENS = 1_000
# Children that the line of a release names.
NAMED = 5
# How far corrected time may run ahead of the floor in the store before the floor is written again, seconds.
FLOOR_STEP = 60.0
# A correction of less than this is the network's delay, not news. Seconds.
TOLERANCE = 2.0


def authority_key(fingerprint: bytes) -> str:
    return f"authority.{fingerprint.hex()[:16]}"


@dataclass(frozen=True, slots=True)
class Moment:
    """One instant by boot time and by corrected time."""

    mono: Mono
    wall: Wall


@dataclass(slots=True)
class Authority:
    """One CA of ours, with its seed."""

    row: AuthorityRow
    seed: Secret


@dataclass(frozen=True, slots=True)
class Adopted:
    """A zone that took another's place: its row under the inherited code, and the CA made for it."""

    row: Self
    authority: Authority


class Own:
    """See the module. `seed` is the key by which parents know this zone; `token_seed` signs API tokens.

    `guided`: there is a parent who can prove the time. `retimed` is called after a proof moved it.
    """

    def __init__(
        self,
        store: Store,
        clock: Clock,
        ids: Ids,
        row: Self,
        seed: Secret,
        token_seed: Secret,
        api_seed: Secret,
        authorities: list[Authority],
    ) -> None:
        self._store = store
        self._clock = clock
        self._ids = ids
        self.row = row
        self.journal_hint = 0
        self._changing = asyncio.Lock()
        self.again = Again(store, clock, ids)
        # The store may know of this row what memory does not; `doubted` is called then (reconcile/doubts.py).
        self.in_doubt = False
        self.doubted: Callable[[], None] = lambda: None
        self.guided = False
        self.retimed: Callable[[], None] = lambda: None
        self._proven: Moment | None = None
        self._behind: Moment | None = None
        self.seed = seed
        self.token_seed = token_seed
        self.api_seed = api_seed
        self.authorities = authorities
        self.public = keys.public_key(seed)
        self.token_public = keys.public_key(token_seed)
        self.fingerprint = keys.fingerprint(self.public)

    @property
    def code(self) -> ZoneCode:
        return self.row.code

    @property
    def name(self) -> str:
        return self.row.name

    @property
    def authority(self) -> Authority:
        for one in self.authorities:
            if one.row.current:
                return one
        raise Broken("no-authority", "this zone has no current CA; restore the data folder from a backup")

    def wall(self) -> Wall:
        """Corrected time now; never below the floor.

        Once a parent proved the time, boot time carries it on: a step of the machine's clock is no news. Without one
        the machine's clock is the truth; while that is behind the floor, time goes on from there, a little slower.
        """
        now, floor = self._clock.now(), self.row.time.floor
        if self._proven is not None:
            return max(Wall(self._proven.wall + (now - self._proven.mono)), floor)
        told = Wall(self._clock.wall() + self.row.time.offset)
        if told >= floor:
            self._behind = None
            return told
        if self._behind is None:
            self._behind = Moment(now, floor)
        return max(Wall(self._behind.wall + (now - self._behind.mono) / LEASE_DRIFT), floor)

    @property
    def issuer(self) -> Issuer:
        """What signs certificates for our controllers and children now."""
        return Issuer(self.code, self.authority.seed)

    def issuer_of(self, leaf: bytes | None) -> Issuer:
        """The CA that signed a server certificate of ours, which a wire still shows after a change of the CA.

        The present one if that leaked, or where `leaf` is None.
        """
        by = None if leaf is None else read(leaf, "own certificate").issuer
        for one in self.authorities:
            if one.row.fingerprint == by and not one.row.leaked:
                return Issuer(self.code, one.seed)
        return self.issuer

    def serial(self) -> bytes:
        return self._ids.token(SERIAL_SIZE)

    def event(
        self, kind: str, target: str, text: str, caller: Caller = SYSTEM, outcome: str = "done", **facts: str
    ) -> Event:
        return Event(kind, target, caller, text, facts, outcome)

    def write(self, unit: Unit, event: Event) -> None:
        """Appends a journal line at corrected time, inside a unit of work."""
        # Seen by followers as a hint to look; after a rollback they find nothing new.
        self.journal_hint = unit.journal.append(self.wall(), event).number

    def write_all(self, unit: Unit, events: Sequence[Event]) -> None:
        """As `write`, in this order."""
        for line in unit.journal.append_all(self.wall(), events)[-1:]:
            self.journal_hint = line.number

    async def learn_time(self, basis: TimeBasis) -> None:
        """Takes a better idea of what time it is, durably before it counts."""
        if basis == self.row.time:
            return
        boot = self._clock.boot_id()
        await self._change("zone.time", lambda row: replace(row, time=basis, boot_id=boot))

    async def prove_time(self, basis: TimeBasis) -> None:
        """As `learn_time`, from an authenticated parent: from now on boot time carries this on."""
        before = self.wall()
        await self.learn_time(basis)
        now = Moment(self._clock.now(), self.row.time.correct(self._clock.wall()))
        self._proven, self._behind = now, None
        if abs(now.wall - before) > TOLERANCE:
            self.retimed()

    async def raise_floor(self) -> None:
        """Notes that this instant is past, at most once a minute, and how far the machine's clock is off.

        What a clock says that nobody has proved is no past, where there is a parent who could prove it.
        """
        if self.guided and self._proven is None:
            return
        past, basis = self.wall(), self.row.time
        if self._proven is not None:
            basis = basis.learned(self._clock.wall(), past, TOLERANCE)
            # By now so much is past even if our quartz runs fast: the parent is not to be found behind it.
            past = Wall(self._proven.wall + (self._clock.now() - self._proven.mono) / LEASE_DRIFT)
        if past >= basis.floor + FLOOR_STEP:
            basis = basis.raised(past)
        await self.learn_time(basis)

    def adopt(self, unit: Unit, code: ZoneCode, seed: bytes) -> Adopted | None:
        """Takes the code of the zone that this one replaces (protocols §2), inside the caller's unit.

        A new CA is made, since its certificates carry the code. Raises Conflict("has-children"): zones below hold
        certificates of the old code. None if the code is ours already.
        """
        if code == self.code:
            return None
        if has_children(unit):
            raise Conflict(
                "has-children",
                f"{self.name} was told to take the place of zone {code_text(code)}, but has children of its own; "
                "replace a zone by one that is freshly installed",
            )
        row = replace(unit.self_.get() or self.row, code=code)
        unit.self_.put(row)
        # Tokens of a version before do not say so themselves: from now on they are of another zone.
        after: str | None = None
        while page := unit.tokens.page(after, TOKENS):
            for token in page:
                unit.tokens.put(replace(token, issuer=token.issuer or self.code))
            after = page[-1].id
        made = make_authority(unit, code, Secret(seed), self.serial(), self.wall())
        unit.authorities.put(replace(self.authority.row, current=False))
        unit.authorities.put(made.row)
        return Adopted(row, made)

    def adopted(self, adopted: Adopted | None) -> None:
        """Memory follows `adopt` after its commit."""
        if adopted is not None:
            self.row = replace(self.row, code=adopted.row.code)
            self.authorities = [adopted.authority]

    async def raise_epoch(self, reason: str, seen: int) -> None:
        """After meeting what we signed at our own epoch `seen` and do not know: we are the restored one (protocols §8).

        Once, however many children tell it in one moment: later ones find it done. Also before the release of an
        earlier restore: what was issued under a number in a life that is over must not be good in this one.
        """
        now = self.wall()
        event = self.event("zone-rolled-back", self.name, reason)

        def risen(row: Self) -> Self | None:
            return None if row.epoch > seen else replace(row, epoch=seen + 1, restored_at=row.restored_at or now)

        await self._change("zone.rolled-back", risen, event)

    def check_released(self, what: str) -> None:
        """Raises Conflict("restored") while this zone is restored and not released: it does not know what was decided
        since its backup, so that nothing is destroyed, and nobody let in, by what it knew then (protocols §8)."""
        if self.row.restored_at is not None:
            raise Conflict(
                "restored",
                f"{self.name} was restored from an earlier state and may not {what} before a person has looked: what "
                "was decided since its backup is not known here. Then say `banyan release` at this zone",
            )

    async def release(self, caller: Caller, unheard: Sequence[str] = ()) -> None:
        """`unheard`: names of children that were not heard since, for the journal."""
        text = "forgets, and lets in, again"
        if unheard:
            more = len(unheard) - NAMED
            names = ", ".join(unheard[:NAMED]) + (f" and {more} more" if more > 0 else "")
            text += f"; not heard since the restore: {names}"
        event = self.event("zone-released", self.name, text, caller, unheard=str(len(unheard)))
        await self._change("zone.released", lambda row: replace(row, restored_at=None), event)

    async def _change(self, name: str, new: Callable[[Self], Self | None], event: Event | None = None) -> None:
        """Changes the row that the unit reads, one change at a time, then memory: no change undoes another.

        Where `new` gives None nothing is to be changed, and nothing is written.
        """

        def work(unit: Unit) -> Self:
            held = unit.self_.get() or self.row
            row = new(held)
            if row is None:
                return held
            unit.self_.put(row)
            if event is not None:
                self.write(unit, event)
            return row

        async def write() -> None:
            async with self._changing:
                try:
                    self.row = await self.again.write(name, work, lambda unit, row: unit.self_.get() == row)
                except StoreUnknown:
                    self.in_doubt = True
                    self.doubted()
                    raise

        await firm(write())

    async def rotate(self, name: str, work: Callable[[Unit], None], before: AuthorityRow, new: Authority) -> None:
        """Another CA is the present one, by a unit of the caller's that stores it and `before`, the one until now."""

        def stands(unit: Unit, _: None) -> bool:
            return any(row.fingerprint == new.row.fingerprint for row in unit.authorities.all())

        async with self._changing:
            try:
                await self.again.write(name, work, stands)
            except StoreUnknown:
                self.in_doubt = True
                self.doubted()
                raise
            old = [
                replace(one, row=before) if one.row.fingerprint == before.fingerprint else one
                for one in self.authorities
            ]
            self.authorities = [*old, new]

    async def settle(self) -> None:
        """Reads the row and the CAs again if they are in doubt. Raises StoreUnknown if the store does not answer."""
        if not self.in_doubt:
            return
        async with self._changing:
            row, found = await self.again.ask("the zone's own row", lambda unit: (unit.self_.get(), authorities(unit)))
            self.row, self.authorities, self.in_doubt = row or self.row, found, False
        # Certificates are made anew where the CA is another.
        self.retimed()


def has_children(unit: Unit) -> bool:
    """Whether zones hold certificates that say our code; retired ones never come back."""
    return unit.children.count() > unit.children.count(ChildState.RETIRED)


def authorities(unit: Unit) -> list[Authority]:
    """All CAs of this zone, the oldest first. Raises Broken("key-missing")."""
    found = []
    for one in unit.authorities.all():
        seed = unit.keys.get(one.key)
        if seed is None:
            raise Broken("key-missing", f"the key of CA {one.fingerprint.hex()[:16]} is not in the store")
        found.append(Authority(one, seed))
    return found


def make_authority(unit: Unit, code: ZoneCode, seed: Secret, serial: bytes, now: Wall) -> Authority:
    """A new CA for zone `code`, its seed sealed in the unit; the row is the caller's to put."""
    issuer = Issuer(code, seed)
    key = authority_key(issuer.fingerprint)
    unit.keys.put(key, seed)
    # Made before a parent could say what time it is: so it holds from the earliest time that there can be.
    lifetime = max(now, BUILD_DATE) + CA_LIFE - BUILD_DATE
    certificate = ca_certificate(issuer, serial=serial, now=BUILD_DATE, lifetime=lifetime)
    return Authority(AuthorityRow(issuer.fingerprint, certificate, key, now, Wall(now + CA_LIFE)), seed)


async def open_own(store: Store, clock: Clock, ids: Ids, name: str, labels: Mapping[str, str]) -> Own:
    """Reads the zone's own rows, or makes them at the first start: code, keys, CA, in one unit.

    Raises BadInput("other-zone") when the folder belongs to a zone of another name, BadInput("bad-name") for a new one.
    """
    fresh_code = ZoneCode(int.from_bytes(ids.token(5), "big"))
    seeds = [Secret(ids.token(SEED)) for _ in range(4)]
    serial = ids.token(SERIAL_SIZE)
    now = TimeBasis().correct(clock.wall())

    def work(unit: Unit) -> tuple[Self, list[Secret], list[Authority]]:
        row = unit.self_.get()
        if row is None:
            check_name(name)
            row = Self(fresh_code, name, now, labels=dict(labels), boot_id=clock.boot_id())
            unit.self_.put(row)
            for key, seed in zip((IDENTITY_KEY, TOKEN_KEY, API_KEY), seeds[:3], strict=True):
                unit.keys.put(key, seed)
            made = make_authority(unit, row.code, seeds[3], serial, now)
            unit.authorities.put(made.row)
            unit.journal.append(now, Event("zone-created", name, SYSTEM, "first start of this zone", {}))
        if row.name != name and name:
            raise BadInput(
                "other-zone",
                f"this data folder belongs to zone {row.name!r}, not {name!r}; "
                f"start it as {row.name!r}, rename it, or use another folder",
            )
        if dict(row.labels) != dict(labels) and labels:
            row = replace(row, labels=dict(labels))
            unit.self_.put(row)
        found = [unit.keys.get(key) for key in (IDENTITY_KEY, TOKEN_KEY, API_KEY)]
        if any(seed is None for seed in found):
            raise Broken("key-missing", "a key of this zone is not in the store; restore it from a backup")
        return row, [seed for seed in found if seed is not None], authorities(unit)

    row, found, issuers = await store.write("zone.created", work)
    own = Own(store, clock, ids, row, found[0], found[1], found[2], issuers)
    last = await store.read(lambda unit: unit.journal.last())
    own.journal_hint = 0 if last is None else last.number
    return own
