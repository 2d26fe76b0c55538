"""Where in the tree a server is, as far as networks mind: the zone that has the rack of its id, by its code.

A network of reach `zone` is in the zone of its first server; one of reach `provider` in the zones that the operator
named, and below them. Codes are kept, since they stay when a zone is renamed; people say and see paths.
"""

from __future__ import annotations

from collections.abc import Container
from typing import Protocol

from banyan.core.ids import RackCode, ZoneCode, code_text, parse_code, read_guest_id
from banyan.zone.rack_routes import RackRoutes
from banyan.zone.tree import Tree


class Places(Protocol):
    """Zones by the texts of their codes."""

    @property
    def several(self) -> bool:
        """True if a server may be in another zone than this one."""

    def of_server(self, id: str) -> str:
        """ "" if nobody knows."""

    def named(self, text: str) -> str:
        """The zone that a person means. Raises NotFound("no-zone"), Conflict("ambiguous-zone")."""

    def path(self, code: str) -> str:
        """As people read it; a zone that is not there any more is shown by its code."""

    def way(self, code: str) -> str:
        """The path from here downwards; "" of this zone, and of one that is not there."""

    def within(self, code: str, area: str) -> bool:
        """True if `code` is that zone or lies below it."""


class TreePlaces:
    def __init__(self, tree: Tree, routes: RackRoutes, own: Container[RackCode]) -> None:
        self._tree = tree
        self._routes = routes
        self._own = own

    @property
    def several(self) -> bool:
        return len(self._routes) > 0

    def of_server(self, id: str) -> str:
        parts = read_guest_id(id)
        if parts is None:
            return ""
        if parts.rack in self._own:
            return code_text(self._tree.root)
        owner = self._routes.owner(parts.rack)
        return "" if owner is None else code_text(owner)

    def named(self, text: str) -> str:
        return code_text(self._tree.resolve(text))

    def path(self, code: str) -> str:
        found = ZoneCode(parse_code(code))
        return self._tree.path_of(found) if found == self._tree.root or found in self._tree else code

    def way(self, code: str) -> str:
        return "/".join(node.name for node in reversed(list(self._tree.chain(ZoneCode(parse_code(code))))))

    def within(self, code: str, area: str) -> bool:
        above = {code_text(node.code) for node in self._tree.chain(ZoneCode(parse_code(code)))}
        return area in above or area in (code, code_text(self._tree.root))


class OnePlace:
    """A zone alone: everything is here."""

    several = False

    def of_server(self, id: str) -> str:
        return "."

    def named(self, text: str) -> str:
        return text

    def path(self, code: str) -> str:
        return code

    def way(self, code: str) -> str:
        return ""

    def within(self, code: str, area: str) -> bool:
        return code == area
