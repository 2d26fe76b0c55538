"""How strangers get in: join codes, policy rules, known keys. API tokens are in tokens.py."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from banyan.core.errors import BadInput, NotFound
from banyan.core.identity import Caller
from banyan.core.ids import check_label
from banyan.core.policy import CodeRecord, KnownKey, Rule, Verdict
from banyan.core.ports import Ids, Store
from banyan.core.records import Unit
from banyan.core.secret import Secret
from banyan.core.time import Wall, iso
from banyan.core.zone import Mode
from banyan.trust import tokens
from banyan.trust.attest import VERIFIERS
from banyan.zone import lists, present
from banyan.zone.own import Own
from banyan.zone.views import CodeCreated, KnownKeyView, PageView, RuleView

MAX_LIFE = 366 * 86_400.0
MAX_TEXT = 255
# Codes and tokens that ended are kept so long, seconds: the journal names them, and people ask what they were.
KEPT = 30 * 86_400.0
# How many of them go in one unit. Each new one takes along more than one old one, so that they do not pile up.
SWEPT = 100


class Access:
    """Every call has been authorised by `Zone`; what it makes is never more than its caller has."""

    def __init__(self, own: Own, store: Store, ids: Ids, addresses: tuple[str, ...]) -> None:
        self._own = own
        self._store = store
        self._ids = ids
        self._addresses = addresses

    # --- join codes -----------------------------------------------------------------------------

    async def create_code(
        self,
        caller: Caller,
        *,
        name: str,
        driver: str,
        labels: Mapping[str, str],
        uses: int | None,
        expires: float,
        mode: str,
        replace: bool,
    ) -> CodeCreated:
        now = self._own.wall()
        code, record = tokens.mint(
            addresses=self._addresses,
            pin=self._own.authority.row.fingerprint,
            now=now,
            expires=Wall(now + life(expires)),
            id=self._ids.token(tokens.ID_SIZE),
            secret=Secret(self._ids.token(tokens.SECRET_SIZE)),
            uses=uses,
            name=pattern(name, "name"),
            driver=pattern(driver, "driver"),
            labels=labels,
            mode=mode_of(mode),
            replace=replace,
            created_by=caller.subject,
            epoch=self._own.row.epoch,
        )
        facts = {"name": record.name, "uses": str(uses or "unlimited"), "expires": iso(record.expires)}
        event = self._own.event("code-created", record.id, f"for zones named {record.name}", caller, **facts)

        def work(unit: Unit) -> None:
            unit.codes.sweep(Wall(now - KEPT), SWEPT)
            unit.codes.put(record)
            self._own.write(unit, event)

        await self._own.again.write("code.created", work, lambda unit, _: unit.codes.get(record.id) is not None)
        return CodeCreated(record.id, code.encode().reveal().decode(), iso(record.expires))

    async def codes(self, marker: str, limit: int) -> PageView:
        rows = await self._store.read(lambda unit: unit.codes.page(marker or None, limit + 1))
        now, epoch = self._own.wall(), self._own.row.epoch
        return lists.first(
            rows, limit, lambda row: present.code(row, tokens.state_of(row, now, epoch)), lambda row: row.id
        )

    async def revoke_code(self, caller: Caller, id: str) -> None:
        def work(unit: Unit) -> CodeRecord:
            row = unit.codes.get(id)
            if row is None:
                raise NotFound("no-code", f"there is no join code {id[:40]!r}; `banyan code list` shows all")
            row = replace(row, revoked=True)
            unit.codes.put(row)
            self._own.write(unit, self._own.event("code-revoked", id, "serves nobody any more", caller))
            return row

        def revoked(unit: Unit, _: CodeRecord) -> bool:
            row = unit.codes.get(id)
            return row is not None and row.revoked

        await self._own.again.write("code.revoked", work, revoked)

    # --- policy ---------------------------------------------------------------------------------

    async def rules(self, marker: str, limit: int) -> PageView:
        """In the order in which they are tried. The marker is "PRIORITY:ID"."""
        priority, _, id = marker.partition(":")
        if marker and not (priority.removeprefix("-").isdecimal() and len(priority) <= 18 and id):
            raise lists.bad_marker()
        after = (int(priority), id) if marker else None
        rows = await self._store.read(lambda unit: unit.rules.page(after, limit + 1))
        return lists.first(rows, limit, present.rule, lambda row: f"{row.priority}:{row.id}")

    async def put_rule(self, caller: Caller, view: RuleView) -> RuleView:
        rule = Rule(
            id=view.id or self._ids.token(5).hex(),
            priority=view.priority,
            verifier=verifier_of(view.verifier),
            name=pattern(view.name, "name"),
            driver=pattern(view.driver, "driver"),
            labels={key: pattern(value, f"label {key}") for key, value in view.labels.items()},
            verdict=verdict_of(view.verdict),
            set_labels=dict(check_label(key, value) for key, value in view.set_labels.items()),
            mode=mode_of(view.mode),
            reason=view.reason[:MAX_TEXT],
        )
        if len(rule.id) > 63 or not rule.id.replace("-", "").isalnum():
            raise BadInput("bad-rule", f"a rule's id is 1 to 63 letters, digits and hyphens, got {rule.id[:80]!r}")

        def work(unit: Unit) -> None:
            unit.rules.put(rule)
            text = f"{rule.verdict} zones named {rule.name}"
            self._own.write(unit, self._own.event("rule-set", rule.id, text, caller, priority=str(rule.priority)))

        await self._own.again.write("rule.set", work, lambda unit, _: unit.rules.get(rule.id) == rule)
        return present.rule(rule)

    async def delete_rule(self, caller: Caller, id: str) -> None:
        def work(unit: Unit) -> None:
            if unit.rules.get(id) is None:
                raise NotFound("no-rule", f"there is no rule {id[:63]!r}; `banyan rule list` shows all")
            unit.rules.delete(id)
            self._own.write(unit, self._own.event("rule-deleted", id, "no longer asked", caller))

        await self._own.again.write("rule.deleted", work, lambda unit, _: unit.rules.get(id) is None)

    async def known_keys(self, marker: str, limit: int) -> PageView:
        """By fingerprint, which is the marker too."""
        try:
            after = bytes.fromhex(marker) or None
        except ValueError:
            raise lists.bad_marker() from None
        rows = await self._store.read(lambda unit: unit.known_keys.page(after, limit + 1))
        return lists.first(rows, limit, present.known_key, lambda row: row.fingerprint.hex())

    async def put_known_key(self, caller: Caller, view: KnownKeyView) -> KnownKeyView:
        key = KnownKey(
            fingerprint=fingerprint_of(view.fingerprint),
            name=pattern(view.name, "name"),
            labels=dict(check_label(k, v) for k, v in view.labels.items()),
            mode=mode_of(view.mode),
            replace=view.replace,
            created_by=caller.subject,
        )

        def work(unit: Unit) -> None:
            unit.known_keys.put(key)
            text = f"may join as {key.name}"
            self._own.write(unit, self._own.event("key-listed", key.fingerprint.hex()[:16], text, caller))

        await self._own.again.write("key.listed", work, lambda unit, _: unit.known_keys.get(key.fingerprint) == key)
        return present.known_key(key)

    async def delete_known_key(self, caller: Caller, text: str) -> None:
        fingerprint = fingerprint_of(text)

        def work(unit: Unit) -> None:
            if unit.known_keys.get(fingerprint) is None:
                raise NotFound("no-key", f"key {text[:16]} is not listed; `banyan key list` shows all")
            unit.known_keys.delete(fingerprint)
            self._own.write(unit, self._own.event("key-unlisted", fingerprint.hex()[:16], "may not join", caller))

        await self._own.again.write("key.unlisted", work, lambda unit, _: unit.known_keys.get(fingerprint) is None)


def life(seconds: float) -> float:
    if not 1 <= seconds <= MAX_LIFE:
        raise BadInput("bad-lifetime", f"expires must be from 1 s to {MAX_LIFE / 86400:.0f} days, got {seconds:g} s")
    return seconds


def pattern(text: str, what: str) -> str:
    if not 1 <= len(text) <= MAX_TEXT or not text.isprintable():
        raise BadInput("bad-pattern", f"the pattern for {what} is 1 to {MAX_TEXT} printable characters; * matches any")
    return text


def verifier_of(text: str) -> str:
    """A kind of proof, or "*". One that no zone can show would make a rule that never matches."""
    if text != "*" and text not in VERIFIERS:
        raise BadInput(
            "bad-rule", f"a rule's verifier is {', '.join(sorted(VERIFIERS))}, or * for any; got {text[:40]!r}"
        )
    return text


def mode_of(text: str) -> Mode:
    try:
        return Mode(text)
    except ValueError as error:
        raise BadInput("bad-mode", f"mode is observe, place or protect, got {text[:40]!r}") from error


def verdict_of(text: str) -> Verdict:
    try:
        return Verdict(text)
    except ValueError as error:
        raise BadInput("bad-rule", f"a rule's verdict is admit, quarantine or refuse, got {text[:40]!r}") from error


def fingerprint_of(text: str) -> bytes:
    cleaned = text.replace(":", "").strip().lower()
    try:
        value = bytes.fromhex(cleaned)
    except ValueError:
        value = b""
    if len(value) != 32:
        raise BadInput("bad-fingerprint", "a fingerprint is 64 hexadecimal digits (`banyan status` shows a zone's)")
    return value
