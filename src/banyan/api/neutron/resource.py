"""What lists, single answers and refusals of all kinds have in common: a kind is a table of its attributes.

A list takes filters by attribute (several values: any of them), `fields`, `sort_key` and `sort_dir`, `limit`, `marker`
and `page_reverse`, tags. A filter that names no attribute is refused: it would select more than was meant.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Generic, Protocol, TypeVar
from urllib.parse import urlencode

from banyan.api.neutron.fields import bad, truth_of
from banyan.api.openstack.call import Call
from banyan.core.errors import BadInput
from banyan.core.network_rows import Listing, Value
from banyan.core.permissions import anywhere
from banyan.core.time import Wall
from banyan.zone.networks.desk import MAX_LIST

R = TypeVar("R")
R_contra = TypeVar("R_contra", contravariant=True)

_PAGING = frozenset({"fields", "sort_key", "sort_dir", "limit", "marker", "page_reverse"})
_TAGS = {"tags": "tags", "tags-any": "tags_any", "not-tags": "not_tags", "not-tags-any": "not_tags_any"}


def plain(text: str) -> Value:
    return text


def flag(text: str) -> Value:
    found = truth_of(text)
    if found is None:
        raise bad("filter", f"'{text[:40]}' cannot be converted to boolean.")
    return found


def number(text: str) -> Value:
    if not (text.lstrip("-").isascii() and text.lstrip("-").isdigit() and len(text) < 19):
        raise bad("filter", f"'{text[:40]}' is not an integer.")
    return int(text)


# Without slots: a frozen class with them can not be made by its alias (Attribute[Port](…)) on Python 3.11.
@dataclass(frozen=True)
class Attribute(Generic[R_contra]):
    """`show`: its value in answers. `column`: the record's field that lists filter and sort by, "" is none; `parse`: a
    filter's value; `sorts`, `filters`: whether they do."""

    name: str
    show: Callable[[R_contra], object]
    column: str = ""
    parse: Callable[[str], Value] = plain
    sorts: bool = True
    filters: bool = True


class Narrow(Protocol):
    """Filters that are no plain attribute: takes those that it knows out of `query`."""

    def __call__(self, query: dict[str, tuple[str, ...]], listing: Listing) -> Listing: ...


def nothing_more(query: dict[str, tuple[str, ...]], listing: Listing) -> Listing:
    return listing


@dataclass(frozen=True, slots=True)
class Shape(Generic[R]):
    """One kind: its words, its attributes in the order of answers. `admin`: those that only administrators see."""

    one: str
    many: str
    attributes: tuple[Attribute[R], ...]
    narrow: Narrow = nothing_more
    admin: frozenset[str] = frozenset()
    tagged: bool = True
    by_name: Mapping[str, Attribute[R]] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "by_name", {one.name: one for one in self.attributes})

    def view(self, call: Call, record: R) -> dict[str, object]:
        """A record, with the attributes that were asked for (`fields`), or all."""
        wanted = frozenset(call.query.get("fields", ()))
        hidden = frozenset() if is_admin(call) else self.admin
        return {
            one.name: one.show(record)
            for one in self.attributes
            if (not wanted or one.name in wanted) and one.name not in hidden
        }

    def made(self, call: Call, records: Sequence[R], many: bool) -> dict[str, object]:
        """The answer to a request that made one, or many."""
        views = [self.view(call, one) for one in records]
        return {self.many: views} if many else {self.one: views[0]}

    async def listed(
        self, call: Call, page: Callable[[Listing, str], Awaitable[Sequence[R]]], key: Callable[[R], str]
    ) -> dict[str, object]:
        """A page of the kind, as the query asks for it. `key`: the id of a record, which is the marker of the next."""
        listing, marker, backwards = self._asked(call)
        found = list(await page(listing, marker)) if listing.limit else []
        if backwards:
            found.reverse()
        answer: dict[str, object] = {self.many: [self.view(call, one) for one in found]}
        links = self._links(call, found, key, listing.limit, marker, backwards)
        if links:
            answer[f"{self.many}_links"] = links
        return answer

    def _asked(self, call: Call) -> tuple[Listing, str, bool]:
        query = dict(call.query)
        backwards = flag(_last(query, "page_reverse", "false")) is True
        marker = _last(query, "marker", "")
        limit = call.limit(MAX_LIST) if _last(query, "limit", "") else MAX_LIST
        sort = self._sort(query, backwards)
        listing = Listing(sort=sort, limit=limit)
        for name in _PAGING:
            query.pop(name, None)
        if self.tagged:
            for name, place in _TAGS.items():
                if name in query:
                    words = tuple(word for value in query.pop(name) for word in value.split(",") if word)
                    listing = replace(listing, **{place: words})  # type: ignore[arg-type]  # fields of texts
        listing = self.narrow(query, listing)
        where: dict[str, tuple[Value, ...]] = {}
        for name, values in query.items():
            known = self.by_name.get(name)
            if known is None or not known.column or not known.filters:
                text = f"['{name[:80]}'] is invalid attribute for filtering"
                raise BadInput("bad-filter", f"Invalid input for filters. {text}")
            asked = tuple(known.parse(value) for value in values)
            held = where.get(known.column)
            where[known.column] = asked if held is None else tuple(one for one in asked if one in held)
        return replace(listing, where={**where, **listing.where}), marker, backwards

    def _sort(self, query: Mapping[str, tuple[str, ...]], backwards: bool) -> tuple[tuple[str, bool], ...]:
        keys, ways = query.get("sort_key", ()), query.get("sort_dir", ())
        if ways and len(ways) != len(keys):
            raise BadInput("bad-sort", "The number of sort_keys and sort_dirs must be same")
        found = []
        for at, name in enumerate(keys):
            known = self.by_name.get(name)
            if known is None or not known.column or not known.sorts:
                raise BadInput("bad-sort", f"[{name[:80]!r}] is invalid attribute for sort_keys")
            way = ways[at] if ways else "asc"
            if way not in ("asc", "desc"):
                raise BadInput("bad-sort", f"'{way[:40]}' is invalid for sort_dirs; it is asc or desc")
            found.append((known.column, (way == "desc") != backwards))
        if backwards and all(column != "id" for column, _ in found):
            found.append(("id", True))
        return tuple(found)

    def _links(
        self, call: Call, found: Sequence[R], key: Callable[[R], str], limit: int, marker: str, backwards: bool
    ) -> list[dict[str, str]]:
        if not limit or not found:
            return []
        full = len(found) == limit
        links = []
        if full if not backwards else bool(marker):
            links.append(self._link(call, "next", key(found[-1]), reverse=False))
        if full if backwards else bool(marker):
            links.append(self._link(call, "previous", key(found[0]), reverse=True))
        return links

    def _link(self, call: Call, rel: str, marker: str, *, reverse: bool) -> dict[str, str]:
        left = [(name, one) for name, values in call.query.items() for one in values]
        pairs = [(name, one) for name, one in left if name not in ("marker", "page_reverse")]
        pairs.append(("marker", marker))
        if reverse:
            pairs.append(("page_reverse", "True"))
        return {"rel": rel, "href": f"{call.link('/v2.0/' + self.many.replace('_', '-'))}?{urlencode(pairs)}"}


def is_admin(call: Call) -> bool:
    return anywhere(call.principal, "network:administer_network")


def _last(query: Mapping[str, tuple[str, ...]], name: str, default: str) -> str:
    values = query.get(name)
    return values[-1] if values else default


def instant(at: Wall) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def expected(call: Call) -> int | None:
    """The revision that the caller saw: `If-Match: revision_number=3`. Raises BadInput("bad-match")."""
    text = call.headers.get("if-match", "").strip()
    if not text:
        return None
    name, _, value = text.strip('"').partition("=")
    if name.strip() != "revision_number" or not (value.isascii() and value.isdigit() and len(value) < 19):
        raise BadInput("bad-match", f"If-Match must be revision_number=N here, got {text[:80]!r}")
    return int(value)


class Kept(Protocol):
    """What all kinds have."""

    @property
    def id(self) -> str: ...
    @property
    def project(self) -> str: ...
    @property
    def description(self) -> str: ...
    @property
    def created_at(self) -> Wall: ...
    @property
    def updated_at(self) -> Wall: ...
    @property
    def revision(self) -> int: ...


def common(of: Callable[[R], Kept]) -> tuple[Attribute[R], ...]:
    """The attributes of every kind. `of`: the record in what is shown."""
    return (
        Attribute("id", lambda one: of(one).id, "id"),
        Attribute("project_id", lambda one: of(one).project, "project"),
        Attribute("tenant_id", lambda one: of(one).project, "project"),
        Attribute("description", lambda one: of(one).description, "description"),
        Attribute("created_at", lambda one: instant(of(one).created_at), "created_at", filters=False),
        Attribute("updated_at", lambda one: instant(of(one).updated_at), "updated_at", filters=False),
        Attribute("revision_number", lambda one: of(one).revision, "revision", number),
    )
