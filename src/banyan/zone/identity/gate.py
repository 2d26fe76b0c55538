"""The gate: who a token stands for now. Verified by key, looked up in the directory, remembered until it changes.

What is remembered is bounded, and dropped by whom a change touches, so that a disabled user, a new password, a grant
that was taken back and a revoked token count with the next request. Tokens are never kept, only their digests.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from banyan.core.directory import Revocation
from banyan.core.errors import Unauthenticated
from banyan.core.principal import Principal, ScopeKind, UserClaims
from banyan.core.records import Unit
from banyan.core.time import Wall
from banyan.trust import user_tokens
from banyan.trust.jwt import TokenKey
from banyan.zone.identity.desk import BATCH, Desk, Touched
from banyan.zone.identity.standing import DENIED, Standing, denied, stand

# gap: several processes on one database: what one changes is not told to the memory of another
# gap: other zones believe a root's tokens by its key; key sets and revocations are not handed down yet
# Tokens remembered, about 2 KiB each.
MAX_KNOWN = 8_192
# Revoked tokens of one user; with one more all its tokens end, so that nobody fills the memory of a zone.
MAX_REVOKED = 10_000
ALL_ROLES = frozenset({"admin", "manager", "member", "reader"})


@dataclass(slots=True)
class _Known:
    claims: UserClaims
    principal: Principal | None


class Gate:
    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._known: dict[bytes, _Known] = {}
        # The audit ids of revoked tokens, with the instant at which each had ended anyway.
        self._revoked: dict[str, Wall] = {}
        self._crowded = BATCH
        self._changes = 0
        self._watchers: list[Callable[[str, float], None]] = []
        desk.touch = self.touched

    async def load(self) -> None:
        """Remembers what was revoked, so that a check needs no store."""
        after = ""
        while True:
            rows = await self._desk.read(lambda rows, after=after: rows.revocations.page({}, after, BATCH))  # type: ignore[misc]  # mypy infers no type beside a default
            self._revoked.update({row.id: row.expires for row in rows})
            if len(rows) < BATCH:
                return
            after = rows[-1].id

    async def authenticate(self, token: str, address: str, request: str) -> Principal:
        """Raises Unauthenticated, with one text whatever is wrong."""
        own = self._desk.own
        now = own.wall()
        digest = hashlib.sha256(token.encode()).digest()
        known = self._known.get(digest)
        if (
            known is not None
            and known.principal is not None
            and now < known.claims.expires
            and known.claims.epoch == own.row.epoch
        ):
            return known.principal.at(address, request)
        claims = known.claims if known is not None else self.verify(token)
        changes = self._changes
        principal = await self._stands(claims, now)
        while len(self._known) >= MAX_KNOWN:
            self._known.pop(next(iter(self._known)))
        # What changed while the directory was read may not be in what was read.
        self._known[digest] = _Known(claims, principal if changes == self._changes else None)
        return principal.at(address, request)

    def local(self, user: str, request: str) -> Principal:
        """Whoever stands at the zone's own machine: an admin of the whole cloud, and no user of it."""
        own = self._desk.own
        return Principal(
            own.code,
            "",
            f"{user}@local",
            "",
            ScopeKind.SYSTEM,
            ALL_ROLES,
            Wall(own.wall() + 60.0),
            address="local",
            request=request,
        )

    def verify(self, token: str) -> UserClaims:
        """What a token says, if it is ours, in time and not revoked. Raises Unauthenticated."""
        own = self._desk.own
        claims = user_tokens.verify(token, (TokenKey(own.code, own.token_public),), own.wall())
        if claims.epoch != own.row.epoch:
            raise Unauthenticated("token-before-restore", DENIED, detail="made before this zone was restored")
        return claims

    async def standing(self, claims: UserClaims) -> Standing:
        """How the user of a token stands now. Raises Unauthenticated."""
        now = self._desk.own.wall()
        user_tokens.check_time(claims.issued, claims.expires, now)
        if claims.audit in self._revoked:
            raise Unauthenticated("token-revoked", DENIED)
        if claims.epoch != self._desk.own.row.epoch:
            raise Unauthenticated("token-before-restore", DENIED)
        standing = await self._desk.read(
            lambda rows: stand(rows, claims.user, claims.scope, claims.target, claims.application_credential, now)
        )
        if standing.user.epoch != claims.user_epoch:
            raise denied("the password was changed, or the user was disabled, after the token was made")
        return standing

    async def _stands(self, claims: UserClaims, now: Wall) -> Principal:
        standing = await self.standing(claims)
        credential = standing.credential
        restricted = credential is not None and not credential.unrestricted
        return claims.principal(standing.user.name, standing.role_names, restricted=restricted, only=standing.only)

    async def revoke(self, who: Principal, claims: UserClaims) -> None:
        """Ends one token. Repeating it is well."""
        now = self._desk.own.wall()

        def work(unit: Unit) -> bool:
            rows = unit.directory
            rows.sweep_revocations(now, BATCH)
            flood = rows.revocations.count({"owner": claims.user}) >= MAX_REVOKED
            if flood:
                end_tokens(unit, claims.user)
            else:
                rows.revocations.add(Revocation(claims.audit, claims.user, claims.expires))
            text = "all tokens of its user ended: too many were revoked one by one" if flood else "before its time"
            self._desk.note(unit, who, "token-revoked", claims.audit, text, user=claims.user)
            return flood

        def remember(flood: bool) -> None:
            if not flood:
                self._forget_ended(now)
                self._revoked[claims.audit] = claims.expires
                for tell in self._watchers:
                    tell(claims.audit, claims.expires)

        await self._desk.change("user-token.revoked", work, Touched(users={claims.user}), remember)

    def revoked(self) -> Iterable[tuple[str, float]]:
        """The audit ids of revoked tokens, each with the instant at which it had ended anyway."""
        return tuple(self._revoked.items())

    def watch(self, tell: Callable[[str, float], None]) -> Callable[[], None]:
        """`tell` hears of each token that is revoked from now on, until what is returned is called."""
        self._watchers.append(tell)
        return lambda: self._watchers.remove(tell)

    def touched(self, touched: Touched) -> None:
        """Those tokens are looked at anew. Cheap: a walk over what is remembered."""
        self._changes += 1
        for known in self._known.values():
            claims = known.claims
            if touched.all_of_them or claims.user in touched.users or claims.target in touched.projects:
                known.principal = None

    def _forget_ended(self, now: Wall) -> None:
        """Now and then, so that a walk over all of them is paid for by as many revocations."""
        if len(self._revoked) >= self._crowded:
            self._revoked = {audit: expires for audit, expires in self._revoked.items() if expires > now}
            self._crowded = max(BATCH, 2 * len(self._revoked))

    def measured(self) -> Mapping[str, float]:
        return {
            "banyan_user_tokens_known": float(len(self._known)),
            "banyan_user_tokens_revoked": float(len(self._revoked)),
            **self._desk.passwords.measured(),
        }


def end_tokens(unit: Unit, user: str) -> None:
    """All tokens of a user that are out end, in the caller's unit."""
    held = unit.directory.users.get(user)
    if held is not None:
        unit.directory.users.put(replace(held, epoch=held.epoch + 1))
