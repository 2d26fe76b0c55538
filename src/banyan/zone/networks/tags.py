"""Tags of networks, subnets, ports and the rest: words of the users' own, by which they find things again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from banyan.core.errors import BadInput, NotFound
from banyan.core.network import Kind, SecurityRule, Thing
from banyan.core.network_rows import NetworkRows
from banyan.core.principal import Principal
from banyan.core.records import Unit
from banyan.zone.networks.desk import Desk, changeable, changed, rows_of, seen

MAX_TAGS, MAX_LENGTH = 50, 255


class Tags:
    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def show(self, who: Principal, kind: Kind, id: str) -> tuple[str, ...]:
        def work(rows: NetworkRows) -> tuple[str, ...]:
            return _of(seen(rows, who, kind, rows_of(rows, kind), id))  # type: ignore[type-var]  # one of the kinds

        return await self._desk.read(work)

    async def has(self, who: Principal, kind: Kind, id: str, tag: str) -> None:
        """Raises NotFound("no-tag")."""
        if tag not in await self.show(who, kind, id):
            raise NotFound("no-tag", f"Tag {tag[:255]} could not be found.")

    async def set(self, who: Principal, kind: Kind, id: str, tags: Sequence[str]) -> tuple[str, ...]:
        return await self._change(who, kind, id, lambda _: tags)

    async def add(self, who: Principal, kind: Kind, id: str, tags: Sequence[str]) -> tuple[str, ...]:
        return await self._change(who, kind, id, lambda old: [*old, *tags])

    async def remove(self, who: Principal, kind: Kind, id: str, tag: str) -> tuple[str, ...]:
        """Raises NotFound("no-tag")."""

        def without(old: Sequence[str]) -> Sequence[str]:
            if tag not in old:
                raise NotFound("no-tag", f"Tag {tag[:255]} could not be found.")
            return [one for one in old if one != tag]

        return await self._change(who, kind, id, without)

    async def _change(
        self, who: Principal, kind: Kind, id: str, edit: Callable[[Sequence[str]], Sequence[str]]
    ) -> tuple[str, ...]:
        def work(unit: Unit) -> tuple[str, ...]:
            table = rows_of(unit.networks, kind)
            old = changeable(unit.networks, who, "update", kind, table, id)  # type: ignore[type-var]  # a table of rows that have tags; the kind says which
            tags = tuple(dict.fromkeys(edit(_of(old))))
            check_tags(tags)
            if tags != _of(old):
                new: Thing = replace(old, tags=tags)  # type: ignore[arg-type]  # every kind that is tagged has them
                self._desk.note(unit, who, f"{kind.value.replace('_', '-')}-tagged", id, ", ".join(tags)[:500])
                changed(table, old, new, self._desk.now())  # type: ignore[type-var]  # the same
            return tags

        return await self._desk.change("network.tagged", work)


def check_tags(tags: Sequence[str]) -> None:
    """Raises BadInput("bad-tag")."""
    if len(tags) > MAX_TAGS:
        raise BadInput(
            "bad-tag", f"Invalid input for tags. The number of tags exceed the per-resource limit of {MAX_TAGS}"
        )
    for tag in tags:
        if not 1 <= len(tag) <= MAX_LENGTH or "," in tag or not tag.isprintable():
            text = (
                f"Invalid input for tags. '{tag[:80]}' must have 1 to {MAX_LENGTH} printable characters, and no comma"
            )
            raise BadInput("bad-tag", text)


def _of(thing: Thing) -> tuple[str, ...]:
    return () if isinstance(thing, SecurityRule) else thing.tags
