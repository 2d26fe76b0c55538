"""The receivers that the settings name: made at the start, shown, tested. Each is told by a loop of its own.

See zone/reconcile/telling.py for the telling, core/receiver.py for what is kept of one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import replace

from banyan.core.errors import Broken, NotFound
from banyan.core.identity import Caller
from banyan.core.ids import code_text
from banyan.core.pages import page
from banyan.core.ports import Clock, Ids, Store
from banyan.core.receiver import Notice, ReceiverRow, ReceiverSpec, Senders, SendFailed
from banyan.core.records import Unit
from banyan.core.time import iso
from banyan.zone.own import Own
from banyan.zone.receiver_view import ReceiverView
from banyan.zone.reconcile.telling import Telling


class Receivers:
    """`load` once; then `told` are to be run, each in a Loop. `path`: of this zone, as it is now."""

    def __init__(
        self,
        own: Own,
        store: Store,
        clock: Clock,
        ids: Ids,
        specs: Sequence[ReceiverSpec],
        senders: Senders | None,
        path: Callable[[], str],
    ) -> None:
        self.told: dict[str, Telling] = {}
        self._own = own
        self._store = store
        self._clock = clock
        self._ids = ids
        self._specs = specs
        self._senders = senders
        self._path = path

    async def load(self) -> None:
        """Gives each new one its place, at the end of the journal; forgets those that the settings name no more."""

        def work(unit: Unit) -> None:
            rows = {row.name: row for row in unit.receivers.all()}
            named = {spec.name for spec in self._specs}
            for name in sorted(rows.keys() - named):
                unit.receivers.delete(name)
                self._own.write(unit, self._own.event("receiver-removed", name, "no longer in the settings"))
            for spec in self._specs:
                self._place(unit, spec, rows.get(spec.name))

        kept, _ = await self._store.read(_rows)
        if self._specs or kept:
            await self._store.write("receiver.settings", work)
        for spec in self._specs:
            if self._senders is None:
                raise Broken("no-senders", f"the receiver {spec.name} has nothing that could tell it anything")
            sender = self._senders.make(spec)
            self.told[spec.name] = Telling(
                spec, sender, self._own, self._store, self._clock, self._ids, self._path
            )  # fmt: skip

    def _place(self, unit: Unit, spec: ReceiverSpec, row: ReceiverRow | None) -> None:
        address = hashlib.sha256(spec.address.encode()).hexdigest()
        if row is None:
            self._own.write(unit, self._own.event("receiver-added", spec.name, f"a {spec.kind} at {spec.where}"))
            last = unit.journal.last()
            unit.receivers.put(ReceiverRow(spec.name, 0 if last is None else last.number, address))
        elif row.address != address:
            # What the old address answered says nothing about the new one.
            fresh = replace(row, address=address, failing_since=None, dead=False, gone=False, last_error="")
            unit.receivers.put(fresh)

    async def close(self) -> None:
        for telling in self.told.values():
            await telling.sender.close()

    # --- showing --------------------------------------------------------------------------------

    def get(self, name: str) -> Telling:
        """Raises NotFound("no-receiver")."""
        telling = self.told.get(name)
        if telling is None:
            known = ", ".join(sorted(self.told)) or "none: name one in the settings, under [[receiver]]"
            raise NotFound("no-receiver", f"there is no receiver {name[:63]!r}; there are {known}")
        return telling

    async def views(self) -> list[ReceiverView]:
        """By name."""
        rows, end = await self._store.read(_rows)
        return [view(self.told[name], rows[name], end) for name in sorted(self.told) if name in rows]

    async def test(self, caller: Caller, name: str) -> ReceiverView:
        """Sends one notice, past the queue. Raises NotFound("no-receiver"), SendFailed("receiver-failed")."""
        telling = self.get(name)
        failure: SendFailed | None = None
        try:
            await telling.send(self._trial(caller, name))
        except SendFailed as error:
            failure = error
        text = "it was taken" if failure is None else failure.text
        outcome = "done" if failure is None else "failed"
        event = self._own.event("receiver-tested", name, text, caller, outcome)
        await telling.tested(event, failure is None)
        if failure is not None:
            raise failure
        rows, end = await self._store.read(_rows)
        return view(telling, rows[name], end)

    def _trial(self, caller: Caller, name: str) -> Notice:
        now = self._own.wall()
        about = page("receiver-test").filled(name, iso(now))
        code = code_text(self._own.code)
        return Notice(
            id=f"{code}-test-{self._ids.token(8).hex()}",
            zone=self._path(),
            code=code,
            kind="receiver-test",
            severity=about.severity,
            outcome="done",
            target=name,
            text="a test; nothing has happened",
            at=now,
            since=now,
            actor=caller.subject,
            subjects=(name,),
            means=about.means,
            done=about.done,
            held=about.held,
            next=about.next,
        )

    def metrics(self) -> dict[str, float]:
        """Cheap: `banyan_receiver_backlog` is as last looked at."""
        found: dict[str, float] = {}
        for name, telling in self.told.items():
            label, counts, row = f'{{receiver="{name}"}}', telling.counts, telling.row
            found[f"banyan_receiver_told_total{label}"] = counts.told
            found[f"banyan_receiver_failed_total{label}"] = counts.failed
            found[f"banyan_receiver_folded_total{label}"] = counts.folded
            found[f"banyan_receiver_skipped_total{label}"] = counts.skipped
            found[f"banyan_receiver_backlog{label}"] = telling.behind
            found[f"banyan_receiver_failing{label}"] = row is not None and (row.gone or row.failing_since is not None)
        return found


def _rows(unit: Unit) -> tuple[dict[str, ReceiverRow], int]:
    last = unit.journal.last()
    return {row.name: row for row in unit.receivers.all()}, 0 if last is None else last.number


def state(row: ReceiverRow) -> str:
    if row.gone:
        return "gone"
    if row.dead:
        return "dead"
    return "failing" if row.failing_since is not None else "well"


def view(telling: Telling, row: ReceiverRow, end: int) -> ReceiverView:
    spec, counts = telling.spec, telling.counts
    return ReceiverView(
        name=spec.name,
        kind=spec.kind,
        where=spec.where,
        severity=spec.severity,
        include=spec.include,
        exclude=spec.exclude,
        state=state(row),
        since=None if row.failing_since is None else iso(row.failing_since),
        last_error=row.last_error,
        last_sent=None if row.last_sent is None else iso(row.last_sent),
        number=row.number,
        backlog=max(0, min(telling.behind, end - row.number) if telling.row is not None else end - row.number),
        told=counts.told,
        failed=counts.failed,
        folded=counts.folded,
        skipped=counts.skipped,
    )
