"""The zone's own certificates: its controller's for the link, and the CA behind it.

Wakes at the next renewal. The controller's key is made anew at each start and never stored. A CA is rotated by
a person's word, or by itself when it nears its end; old and new sign each other unless the old one leaked.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from banyan.core.identity import SYSTEM, Caller
from banyan.core.ports import Clock, Credentials, Ids, Store
from banyan.core.records import Unit
from banyan.core.secret import Secret
from banyan.core.time import Mono, Wall
from banyan.trust import rotation
from banyan.trust.authority import LEAF_LIFE, SERIAL_SIZE, Issuer, issue_server
from banyan.trust.certificate import read
from banyan.trust.keys import SEED_SIZE, public_key
from banyan.zone.firm import firm
from banyan.zone.own import Authority, Own, authority_key
from banyan.zone.reconcile.admission import Admission

# The longest nap: a jump of the clock must not leave an expired certificate in use for longer.
LOOK = 600.0


class Certificates:
    """zone.loop.Activation. `credentials`: what the link's listener shows. `changed` is called after each change."""

    name = "certificates"

    def __init__(self, own: Own, store: Store, clock: Clock, ids: Ids, admission: Admission) -> None:
        self.credentials: Credentials | None = None
        self.changed: Callable[[], None] = lambda: None
        self._own = own
        self._store = store
        self._clock = clock
        self._ids = ids
        self._admission = admission
        self._seed = Secret(ids.token(SEED_SIZE))
        self._jitter = ids.uniform(0.0, 1.0)
        self._rotating = asyncio.Lock()

    def trusted(self) -> tuple[bytes, ...]:
        """The CA certificates whose children this zone hears: all of its own but those that leaked."""
        return tuple(one.row.certificate for one in self._own.authorities if not one.row.leaked)

    async def activate(self, now: Mono) -> Mono | None:
        wall = self._own.wall()
        if rotation.should_rotate_authority(self._own.authority.row, wall):
            await self.rotate(SYSTEM, leaked=False)
        held = None if self.credentials is None else read(self.credentials.certificate, "own certificate")
        # One that was made by a clock ahead of time does not hold yet; one of a CA that is no longer ours never will.
        useless = held is not None and (wall < held.not_before or held.issuer != self._own.authority.row.fingerprint)
        if held is None or useless or rotation.should_renew(held.not_before, held.not_after, wall, self._jitter):
            self._issue(wall)
        return Mono(now + LOOK)

    def _issue(self, wall: Wall) -> None:
        certificate = issue_server(
            self._own.issuer, public_key(self._seed), serial=self._own.serial(), now=wall, lifetime=LEAF_LIFE
        )
        # A child that was away knows only an older CA: in TLS, too, the cross certificates must lead it here.
        crosses = rotation.bundle([one.row for one in self._own.authorities], wall)
        chain = (*crosses, self._own.authority.row.certificate)
        self.credentials = Credentials(certificate, self._seed, chain)
        self._admission.server_certificate = certificate
        self.changed()

    async def rotate(self, caller: Caller, *, leaked: bool) -> None:
        """A new CA becomes the current one, in one unit; a leaked one is crossed by nobody and believed no more."""
        await firm(self._rotate(caller, leaked))

    async def _rotate(self, caller: Caller, leaked: bool) -> None:
        async with self._rotating:
            await self._rotate_alone(caller, leaked)

    async def _rotate_alone(self, caller: Caller, leaked: bool) -> None:
        old = self._own.authority
        now = self._own.wall()
        seed = Secret(self._ids.token(SEED_SIZE))
        issuer = Issuer(self._own.code, seed)
        key = authority_key(issuer.fingerprint)
        serials = self._ids.token(3 * SERIAL_SIZE)
        rows = rotation.rotate(old.row, old.seed, issuer, key=key, serials=serials, now=now, leaked=leaked)
        text = "the old one leaked: children join again" if leaked else "old and new sign each other"
        event = self._own.event("authority-rotated", rows.present.fingerprint.hex()[:16], text, caller)

        def work(unit: Unit) -> None:
            unit.authorities.put(rows.before)
            unit.keys.put(key, seed)
            unit.authorities.put(rows.present)
            self._own.write(unit, event)

        await self._own.rotate("authority.rotated", work, rows.before, Authority(rows.present, seed))
        self._issue(now)
