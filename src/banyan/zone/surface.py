"""What surfaces (api, web) may ask of a zone. `Zone` implements it; tests may fake it.

Every call takes the Caller and authorises it here, in the zone, never in the surface. `path` is what a person typed:
a whole path, an unambiguous last part, or a code; "" is the zone itself or, where it bounds a list, a total or a token,
the whole of what the caller may see. Errors: NotFound ("no-zone", also for what the caller may not see), Conflict
("ambiguous-zone", naming the candidates), Refused ("forbidden"), Unreachable ("member-unreachable": the outcome is not
known when it says so).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from banyan.core.host import HostChange
from banyan.core.identity import Caller, Role
from banyan.core.order import Specification
from banyan.zone.receiver_view import ReceiverView
from banyan.zone.views import (
    CodeCreated,
    HostView,
    KnownKeyView,
    PageView,
    ReleaseView,
    RuleView,
    ServerDetail,
    ServersCreated,
    StatusView,
    TokenCreated,
    TokenView,
    UsageView,
    WhyView,
    ZoneView,
)


class Surface(Protocol):
    async def authenticate(self, bearer: str, address: str, request: str) -> Caller:
        """The caller that a token names. Raises Unauthenticated: bad-token, token-expired, token-revoked, and others,
        each saying what to do."""

    def local(self, user: str, request: str) -> Caller:
        """The caller behind the local socket: an admin of the whole zone."""

    async def refused(self, caller: Caller | None, address: str, what: str, error: str) -> None:
        """Journals a refusal of authentication or authorisation, rate-limited."""

    async def status(self, caller: Caller) -> StatusView: ...

    async def usage(self, caller: Caller, path: str) -> UsageView: ...

    async def zones(
        self, caller: Caller, path: str, filters: Mapping[str, str], sort: str, marker: str, limit: int
    ) -> PageView:
        """ZoneView objects below `path`. filters: health, state, admin, name (pattern), label.KEY. sort: path
        (default), used, hosts, servers, as_of, health; a leading "-" turns it round."""

    async def zone(self, caller: Caller, path: str) -> ZoneView: ...

    async def page(
        self, caller: Caller, kind: str, path: str, filters: Mapping[str, str], marker: str, limit: int
    ) -> PageView:
        """kind: "racks" (RackView), "hosts" (HostView), "servers" (ServerView), "use" (UseView, of the zone itself;
        filters project, name), "journal" (JournalView; marker is the last number seen; filters kind, target, actor,
        outcome)."""

    async def say_of_host(
        self, caller: Caller, name: str, change: HostChange, *, under: str = "", rack: str = "", id: str = ""
    ) -> HostView:
        """A person's word about the one host of that name in `under`, of that rack and id if they are given. Raises
        NotFound("no-host"), Conflict("ambiguous-host"), Unreachable("host-undecided"), and "member-unreachable" where
        a zone that can not be asked may have one of that name."""

    async def create_servers(
        self,
        caller: Caller,
        specification: Specification,
        *,
        count: int,
        least: int,
        project: str,
        retry_key: str = "",
    ) -> ServersCreated:
        """Between `least` and `count` servers of a project, wherever there is room; the same ones for the same
        `retry_key` (servers/surface.py). Raises NoValidHost with counts."""

    async def servers(self, caller: Caller, project: str, marker: str, limit: int) -> PageView:
        """ServerDetail objects of servers that Banyan made, of all projects if `project` is "", the newest first. Pages
        may be short and still go on."""

    async def server(self, caller: Caller, id: str) -> ServerDetail: ...

    async def delete_server(self, caller: Caller, id: str) -> ServerDetail:
        """Accepted and durable; it goes after that. Raises NotFound("no-server"), Conflict("locked"), ("bad-state")."""

    async def why(self, caller: Caller, id: str) -> WhyView:
        """Of a server, or of an order or request of late."""

    async def command(self, caller: Caller, name: str, path: str, arguments: Mapping[str, str]) -> ZoneView:
        """A person's word about a zone below, carried to its parent. name and arguments:

        zone.disable (reason) · zone.enable · zone.maintenance (until: seconds from now or RFC 3339, reason) ·
        zone.ban (reason) · zone.unban · zone.retire (reason) · zone.rename (name) ·
        zone.admit (out of quarantine) · zone.accept (a rolled-back child is believed again) · zone.rescan

        To let a new key take a zone's name and code is no word about the zone, but a code: `create_code(replace=True)`.
        """

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
        """`expires` in seconds from now; `name` and `driver` are patterns."""

    async def codes(self, caller: Caller, marker: str, limit: int) -> PageView:
        """CodeView objects, by id."""

    async def revoke_code(self, caller: Caller, id: str) -> None: ...

    async def create_token(
        self, caller: Caller, subject: str, role: Role, under: str, expires: float | None
    ) -> TokenCreated:
        """Never more than the caller's own role and subtree. `expires` in seconds from now; None is a day, or what is
        left of the token that makes it. Raises Refused("token-outlives-maker") for a longer life than that."""

    async def tokens(self, caller: Caller, marker: str, limit: int) -> PageView:
        """TokenView objects, by id."""

    async def affirm_token(self, caller: Caller, id: str) -> TokenView:
        """A token made before this zone was restored from a backup is good again. Conflict("token-ended") if it is over
        or revoked."""

    async def revoke_token(self, caller: Caller, id: str) -> None: ...

    async def rules(self, caller: Caller, marker: str, limit: int) -> PageView:
        """RuleView objects, in the order in which they are tried."""

    async def put_rule(self, caller: Caller, rule: RuleView) -> RuleView: ...
    async def delete_rule(self, caller: Caller, id: str) -> None: ...

    async def known_keys(self, caller: Caller, marker: str, limit: int) -> PageView:
        """KnownKeyView objects, by fingerprint."""

    async def put_known_key(self, caller: Caller, key: KnownKeyView) -> KnownKeyView: ...
    async def delete_known_key(self, caller: Caller, fingerprint: str) -> None: ...

    async def receivers(self, caller: Caller, marker: str, limit: int) -> PageView:
        """ReceiverView objects of this zone, by name, for operators."""

    async def test_receiver(self, caller: Caller, name: str) -> ReceiverView:
        """Sends one notice past the queue. Raises NotFound("no-receiver"), SendFailed("receiver-failed")."""

    async def rotate_authority(self, caller: Caller, leaked: bool) -> StatusView:
        """Makes a new CA, cross-signed with the old one unless that leaked."""

    async def release(self, caller: Caller, apply: bool) -> ReleaseView:
        """A restored zone may forget and let in again: what Own.check_released holds back (protocols §8, marks).
        Without `apply` nothing is done: the answer says what is at stake."""

    async def leave(self, caller: Caller, apply: bool) -> PageView:
        """LeavingView objects: what leaving forgets, and what stays; left with `apply`. One page: zone/leaving.py."""

    def metrics(self, caller: Caller) -> Mapping[str, float]:
        """Of the whole zone. Plain gauges and counters by Prometheus name (labels in braces), cheap to read."""

    def journal_number(self) -> int:
        """The newest journal line's number, for followers."""

    async def journal_grew(self, number: int) -> None:
        """Returns when the journal is longer than `number`."""
