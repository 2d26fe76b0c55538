"""Users' public keys. A private half that was made here is handed out once, and never stored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from banyan.core.compute import KeyKind, KeyPair
from banyan.core.compute_rows import ComputeRows, Tally
from banyan.core.errors import BadInput, Conflict, NotFound, Refused
from banyan.core.order import KeySnapshot
from banyan.core.permissions import Target, require
from banyan.core.principal import Principal
from banyan.core.quota import Quota
from banyan.core.records import Unit
from banyan.core.secret import Secret
from banyan.trust import ssh_keys
from banyan.zone.compute.desk import MAX_LIST, Desk
from banyan.zone.compute.limits import effective


@dataclass(frozen=True, slots=True)
class Made:
    """A new key pair. `private`: its other half, if it was made here: shown now, and never again."""

    key: KeyPair
    private: Secret | None = None


class KeyPairs:
    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def create(self, who: Principal, user: str, name: str, kind: KeyKind, public_key: str | None) -> Made:
        """`public_key` None: a pair is made. Raises BadInput("bad-public-key"), Conflict("key-taken"),
        Refused("quota-exceeded")."""
        require(who, "compute:create_keypair", Target(user=user))
        now, private = self._desk.now(), None
        if public_key is None and kind is KeyKind.SSH:
            public_key, private = ssh_keys.make_ssh(Secret(self._desk.ids.token(32)), "Generated-by-Banyan")
        elif public_key is None:
            public_key, private = ssh_keys.make_x509(Secret(self._desk.ids.token(48)), who.user_name, now)
        read = ssh_keys.ssh_fingerprint if kind is KeyKind.SSH else ssh_keys.x509_fingerprint
        key = KeyPair(user, name, public_key, read(public_key), kind, now)

        def work(unit: Unit) -> KeyPair:
            rows = unit.compute
            if rows.key_pairs.get(user, name) is not None:
                raise Conflict("key-taken", f"Key pair '{name}' already exists.")
            most = effective(rows.quotas, self._desk.limits, who.project)[Quota.KEY_PAIRS]
            if not rows.quotas.tally(Tally.KEY_PAIRS, user, most):
                raise Refused("quota-exceeded", f"Quota exceeded, too many key pairs: a user may have {most}.")
            if not rows.key_pairs.add(key):
                raise Conflict("key-taken", f"Key pair '{name}' already exists.")
            self._desk.note(unit, who, "key-pair-created", name, key.fingerprint, user=user)
            stored = rows.key_pairs.get(user, name)
            return key if stored is None else stored

        return Made(await self._desk.change("key-pair.created", work), private)

    async def show(self, who: Principal, user: str, name: str) -> KeyPair:
        """Raises NotFound("no-key-pair")."""
        require(who, "compute:get_keypair", Target(user=user))
        return await self._desk.read(lambda rows: existing(rows, user, name))

    async def page(self, who: Principal, user: str, after: str, limit: int) -> Sequence[KeyPair]:
        """By name, after that one. Raises BadInput("bad-marker")."""
        require(who, "compute:list_keypairs", Target(user=user))

        def work(rows: ComputeRows) -> Sequence[KeyPair]:
            if after and rows.key_pairs.get(user, after) is None:
                raise BadInput("bad-marker", f"marker [{after[:255]}] not found: it must be the name of a key pair")
            return rows.key_pairs.page(user, after, max(1, min(limit, MAX_LIST))) if limit else ()

        return await self._desk.read(work)

    async def delete(self, who: Principal, user: str, name: str) -> None:
        """Servers keep the public half that they were made with."""
        require(who, "compute:delete_keypair", Target(user=user))

        def work(unit: Unit) -> None:
            existing(unit.compute, user, name)
            unit.compute.key_pairs.delete(user, name)
            unit.compute.quotas.untally(Tally.KEY_PAIRS, user)
            self._desk.note(unit, who, "key-pair-deleted", name, "no longer for new servers", user=user)

        await self._desk.change("key-pair.deleted", work)

    async def snapshot(self, who: Principal, name: str) -> KeySnapshot:
        """The caller's key of that name, for an order. Raises BadInput("bad-key-name")."""
        found = await self._desk.read(lambda rows: rows.key_pairs.get(who.user, name))
        if found is None:
            raise BadInput("bad-key-name", "Invalid key_name provided.")
        return KeySnapshot(found.name, found.public_key, found.kind.value)


def existing(rows: ComputeRows, user: str, name: str) -> KeyPair:
    found = rows.key_pairs.get(user, name)
    if found is None:
        raise NotFound("no-key-pair", f"Keypair {name[:255]} not found for user {user}")
    return found
