"""API tokens of this zone: made, listed, revoked, affirmed after a restore, and asked what they are worth.

The signature tells that this zone made a token. That it still stands is told by its row: one that was revoked, whose
row is of an older epoch of the zone, or that has no row, is refused. So a zone that was restored from a backup
refuses what was made before it, and what was made after it and lost; only a person's word (`affirm`) makes a token of
the backup good again, as nobody can tell what was revoked since. Whoever stands at the machine needs no token.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace

from banyan.core.errors import Conflict, NotFound
from banyan.core.identity import Caller, Role
from banyan.core.ids import ZoneCode
from banyan.core.policy import TokenRecord, TokenState
from banyan.core.ports import Ids, Store
from banyan.core.records import Unit
from banyan.core.secret import Secret
from banyan.core.time import Wall, iso
from banyan.trust import jwt, signed_tokens
from banyan.zone import lists, present
from banyan.zone.commands.access import KEPT, SWEPT, life
from banyan.zone.firm import firm
from banyan.zone.own import Own
from banyan.zone.tree import Tree
from banyan.zone.views import PageView, TokenCreated, TokenView

# How long a token is good for when nobody says, seconds.
DEFAULT_LIFE = 86_400.0
# Tokens whose signature and row are remembered, by digest: to look at both costs more than most requests.
MAX_KNOWN = 4096


@dataclass(frozen=True, slots=True)
class _Known:
    claims: signed_tokens.TokenClaims
    record: TokenRecord


class ApiTokens:
    """Every call has been authorised by `Front`. `under` is a zone of `tree`, or this one."""

    def __init__(self, own: Own, store: Store, ids: Ids, tree: Tree) -> None:
        self._own = own
        self._store = store
        self._ids = ids
        self._tree = tree
        self._known: dict[bytes, _Known] = {}
        self._changes = 0

    async def create(
        self, caller: Caller, subject: str, role: Role, under: ZoneCode, expires: float | None
    ) -> TokenCreated:
        """`expires` in seconds from now. A token that makes one gives at most what is left of its own life: None takes
        that, more is refused (token-outlives-maker)."""
        now = self._own.wall()
        id = self._ids.token(8).hex()
        wanted = Wall(int(now + life(DEFAULT_LIFE if expires is None else expires)))
        part = None if under == self._own.code else under
        path = "" if part is None else self._tree.path_of(part)

        def work(unit: Unit) -> tuple[TokenRecord, Secret]:
            until = wanted
            maker = self._maker(unit, caller)
            if maker is not None and expires is None:
                until = min(until, maker.expires)
            if maker is not None:
                signed_tokens.check_maker(maker, until)
            record = TokenRecord(
                id=id,
                subject=subject,
                role=role.name.lower(),
                under=part,
                path=path,
                issued=now,
                expires=until,
                created_by=caller.subject,
                epoch=self._own.row.epoch,
                issuer=self._own.code,
            )
            claims = signed_tokens.TokenClaims(self._own.code, subject, role, part, id, now, until)
            token = signed_tokens.issue(self._own.token_seed, claims)
            # As long after its end as the journal may be asked about what a token did.
            unit.tokens.sweep(Wall(now - KEPT), SWEPT)
            unit.tokens.put(record)
            facts = {"role": record.role, "under": path, "expires": iso(until)}
            self._own.write(unit, self._own.event("token-created", id, f"for {subject}", caller, **facts))
            return record, token

        record, token = await self._own.again.write(
            "token.created", work, lambda unit, made: unit.tokens.get(id) == made[0]
        )
        return TokenCreated(id, token.reveal().decode(), record.role, path, iso(record.expires))

    def _maker(self, unit: Unit, caller: Caller) -> TokenRecord | None:
        """The token by which `caller` acts, as it stands in this unit; None for who stands at the machine."""
        if not caller.token:
            return None
        record = unit.tokens.get(caller.token)
        if record is None:
            raise signed_tokens.unknown(caller.token)
        signed_tokens.check_good(record, self._state(record))
        return record

    def _state(self, record: TokenRecord) -> TokenState:
        listed = record.under is None or record.under in self._tree
        return signed_tokens.state_of(
            record, now=self._own.wall(), epoch=self._own.row.epoch, issuer=self._own.code, listed=listed
        )

    async def page(self, marker: str, limit: int) -> PageView:
        rows = await self._store.read(lambda unit: unit.tokens.page(marker or None, limit + 1))
        return lists.first(rows, limit, self._view, lambda row: row.id)

    def _view(self, record: TokenRecord) -> TokenView:
        path = record.path
        if record.under is not None and record.under in self._tree:
            path = self._tree.path_of(record.under)
        return present.token(record, self._state(record), path)

    async def affirm(self, caller: Caller, id: str) -> TokenView:
        """A token from before a restore is good again, until its end. Raises NotFound("no-token"),
        Conflict("token-ended"), and as `create` does for a caller whose own token ends sooner."""

        def work(unit: Unit) -> TokenRecord:
            record = _row(unit, id)
            if self._state(record) in (TokenState.REVOKED, TokenState.EXPIRED, TokenState.OF_ANOTHER_ZONE):
                raise Conflict("token-ended", f"token {id} is {self._state(record)}, and stays so; make a new one")
            maker = self._maker(unit, caller)
            if maker is not None:
                signed_tokens.check_maker(maker, record.expires)
            if record.epoch == self._own.row.epoch:
                return record
            record = replace(record, epoch=self._own.row.epoch)
            unit.tokens.put(record)
            text = f"of {record.subject}, good again after the restore"
            self._own.write(unit, self._own.event("token-affirmed", id, text, caller))
            return record

        return self._view(await self._change(id, "token.affirmed", work))

    async def revoke(self, caller: Caller, id: str) -> None:
        """Raises NotFound("no-token")."""

        def work(unit: Unit) -> TokenRecord:
            record = replace(_row(unit, id), revoked=True)
            unit.tokens.put(record)
            self._own.write(unit, self._own.event("token-revoked", id, f"of {record.subject}", caller))
            return record

        await self._change(id, "token.revoked", work)

    async def _change(self, id: str, name: str, work: Callable[[Unit], TokenRecord]) -> TokenRecord:
        def forget() -> None:
            self._changes += 1
            self._known = {digest: known for digest, known in self._known.items() if known.record.id != id}

        async def change() -> TokenRecord:
            try:
                # While the commit's fate is not known the next request reads what there is.
                return await self._own.again.write(
                    name, work, lambda unit, record: unit.tokens.get(id) == record, unsure=forget
                )
            finally:
                forget()

        return await firm(change())

    async def authenticate(self, bearer: str, address: str, request: str) -> Caller:
        """Raises Unauthenticated, with one text for all that is wrong with a signature."""
        digest = hashlib.sha256(bearer.encode()).digest()
        known = self._known.get(digest)
        if known is None or known.claims.expires <= self._own.wall():
            known = await self._look(bearer, digest)
        claims = known.claims
        signed_tokens.check_good(known.record, self._state(known.record))
        return Caller(f"token:{claims.subject}", claims.role, self._own.code, claims.under, claims.id, address, request)

    async def _look(self, bearer: str, digest: bytes) -> _Known:
        keys = (jwt.TokenKey(self._own.code, self._own.token_public),)
        claims = signed_tokens.verify(bearer, keys, self._own.wall())
        changes = self._changes
        record = await self._store.read(lambda unit: unit.tokens.get(claims.id))
        if record is None:
            raise signed_tokens.unknown(claims.id)
        known = _Known(claims, record)
        if changes == self._changes:
            # Otherwise it may have been read before a change that is done by now.
            while len(self._known) >= MAX_KNOWN:
                self._known.pop(next(iter(self._known)))
            self._known[digest] = known
        return known


def _row(unit: Unit, id: str) -> TokenRecord:
    record = unit.tokens.get(id)
    if record is None:
        raise NotFound("no-token", f"there is no token {id[:40]!r}; `banyan token list` shows all")
    return record
