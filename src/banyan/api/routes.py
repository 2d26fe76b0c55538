"""The route table: every address of the API, one row each. 405s, discovery, the OpenAPI document, the permissions
page and the authorisation test come from here; a row without a case in tests/api/cases.py is a failing test.

`role` is the least role that a caller needs *somewhere*; where, is for the zone to decide, which checks both again.
"""

from __future__ import annotations

from banyan.api.discovery import Root, Version, root, version
from banyan.api.openapi import Document, document
from banyan.api.paging import PageQuery
from banyan.api.table import Route, route
from banyan.api.zones import (
    codes,
    inventory,
    itself,
    journal,
    known_keys,
    measures,
    receivers,
    rules,
    servers,
    tokens,
    usage,
    zones,
)
from banyan.core.identity import Role
from banyan.zone.receiver_view import ReceiverView
from banyan.zone.views import (
    CodeCreated,
    CodeView,
    HostView,
    JournalView,
    KnownKeyView,
    LeavingView,
    RackView,
    ReleaseView,
    RuleView,
    ServerDetail,
    ServersCreated,
    ServerView,
    StatusView,
    TokenCreated,
    TokenView,
    TraceView,
    UsageView,
    UseView,
    WhyView,
    ZoneView,
)

_V, _O, _A = Role.VIEWER, Role.OPERATOR, Role.ADMIN
_ACT = "/v1/zones/{path…}/actions"


def _rows() -> tuple[Route, ...]:
    return TABLE


TABLE: tuple[Route, ...] = (
    # Asked of nobody: what leads to the rest.
    route("GET", "/", root, "discover", None, "The versions of this API", answer=Root),
    route("GET", "/v1", version(_rows), "discover", None, "Every address of version 1", answer=Version),
    route("GET", "/openapi.json", document(_rows), "discover", None, "This API as OpenAPI says it", answer=Document),
    route("GET", "/healthz", measures.health, "health", None, "Whether this process answers", media="text/plain"),
    route("GET", "/metrics", measures.metrics, "metrics", _V, "Figures for Prometheus", media="text/plain"),
    # The zone itself.
    route("GET", "/v1/status", itself.status, "status", _V, "The zone itself", answer=StatusView),
    route("POST", "/v1/authority/rotate", itself.rotate, "authority.rotate", _A, "Make a new CA, crossed with the old "
          "one unless that leaked", body=itself.RotateBody, answer=StatusView),
    route("POST", "/v1/release", itself.release, "release", _A, "Let a restored zone forget, and let in, "
          "again, or show what is at stake", body=itself.ReleaseBody, answer=ReleaseView),
    route("POST", "/v1/leave", itself.leave, "leave", _A, "Leave the parent, or show what becomes of what",
          body=itself.LeaveBody, answer=LeavingView, paged=True),
    # What is there.
    route("GET", "/v1/usage", usage.usage, "usage", _V, "Totals of the tree, unknown apart",
          query=usage.UsageQuery, answer=UsageView),
    route("GET", "/v1/use", usage.use, "use", _V, "What each project uses",
          query=usage.UseQuery, answer=UseView, paged=True),
    route("GET", "/v1/racks", inventory.racks, "rack.list", _V, "Racks",
          query=inventory.RacksQuery, answer=RackView, paged=True),
    route("GET", "/v1/hosts", inventory.hosts, "host.list", _V, "Hosts",
          query=inventory.HostsQuery, answer=HostView, paged=True),
    route("POST", "/v1/hosts/{name…}/actions/disable", inventory.disable_host, "host.disable", _O, "Place nothing "
          "on it; servers that it has stay", query=inventory.HostQuery, body=inventory.DisableBody, answer=HostView),
    route("POST", "/v1/hosts/{name…}/actions/enable", inventory.enable_host, "host.enable", _O, "Let it take servers "
          "again", query=inventory.HostQuery, answer=HostView),
    route("GET", "/v1/servers", inventory.servers, "server.list", _V, "Servers as last seen",
          query=inventory.ServersQuery, answer=ServerView, paged=True),
    # Servers that Banyan makes.
    route("GET", "/v1/placed", servers.placed, "server.placed", _V, "Servers that Banyan made, the newest first",
          query=servers.ServersQuery, answer=ServerDetail, paged=True),
    route("POST", "/v1/placed", servers.create, "server.create", _O, "Order servers wherever there is room",
          body=servers.ServersBody, answer=ServersCreated, status=201, keyed=True),
    route("GET", "/v1/placed/{id}", servers.show, "server.show", _V, "One server", answer=ServerDetail),
    route("DELETE", "/v1/placed/{id}", servers.delete, "server.delete", _O, "Delete a server", answer=ServerDetail,
          status=202),
    route("GET", "/v1/placed/{id}/why", servers.why, "server.why", _V, "Why it is where it is, or has no place: of a "
          "server, an order or a request", answer=WhyView),
    # Zones below.
    route("GET", "/v1/zones", zones.list_zones, "zone.list", _V, "Zones below",
          query=zones.ZonesQuery, answer=ZoneView, paged=True),
    route("GET", "/v1/zones/{path…}", zones.show, "zone.show", _V, "One zone", answer=ZoneView),
    route("POST", f"{_ACT}/disable", zones.reasoned("zone.disable"), "zone.disable", _O, "Give it no new work",
          body=zones.ReasonBody, answer=ZoneView),
    route("POST", f"{_ACT}/enable", zones.plain("zone.enable"), "zone.enable", _O, "Let it take work again",
          answer=ZoneView),
    route("POST", f"{_ACT}/maintenance", zones.maintain, "zone.maintenance", _O, "Expect its absence for a while",
          body=zones.MaintenanceBody, answer=ZoneView),
    route("POST", f"{_ACT}/rescan", zones.plain("zone.rescan"), "zone.rescan", _O, "Read its racks again now",
          answer=ZoneView),
    route("POST", f"{_ACT}/ban", zones.reasoned("zone.ban"), "zone.ban", _A, "Refuse its key, cut its stream",
          body=zones.ReasonBody, answer=ZoneView),
    route("POST", f"{_ACT}/unban", zones.plain("zone.unban"), "zone.unban", _A, "Hear its key again",
          answer=ZoneView),
    route("POST", f"{_ACT}/retire", zones.reasoned("zone.retire"), "zone.retire", _A, "Forget it; its code is kept",
          body=zones.ReasonBody, answer=ZoneView),
    route("POST", f"{_ACT}/rename", zones.rename, "zone.rename", _A, "Give it another name",
          body=zones.RenameBody, answer=ZoneView),
    route("POST", f"{_ACT}/replace", zones.replace, "zone.replace", _A, "Make a join code for a new key under its name",
          body=zones.ReplaceBody, answer=CodeCreated, status=201),
    route("POST", f"{_ACT}/admit", zones.plain("zone.admit"), "zone.admit", _A, "Take it out of quarantine",
          answer=ZoneView),
    route("POST", f"{_ACT}/accept", zones.plain("zone.accept"), "zone.accept", _A, "Believe a rolled-back zone again",
          answer=ZoneView),
    # The journal.
    route("GET", "/v1/journal", journal.page, "journal", _V, "The journal, a page, or the next lines as they come",
          query=journal.JournalQuery, answer=JournalView, paged=True, deadline=journal.MAX_WAIT + 30.0),
    route("GET", "/v1/requests/{request}", journal.trace, "journal", _V, "Lines of all journals, here and "
          "below, of one request", query=journal.TraceQuery, answer=TraceView, paged=True),
    route("GET", "/v1/journal/follow", journal.follow, "journal", _V, "The journal as Server-Sent Events",
          query=journal.FollowQuery, media="text/event-stream", stream=True),
    # Where alarms go.
    route("GET", "/v1/receivers", receivers.list_receivers, "receiver.list", _O, "Receivers of alarms, and how they "
          "are", query=PageQuery, answer=ReceiverView, paged=True),
    route("POST", "/v1/receivers/{name}/test", receivers.test, "receiver.test", _O, "Send a receiver a test, past its "
          "queue", answer=ReceiverView),
    # Who may join, who may ask.
    route("GET", "/v1/codes", codes.list_codes, "code.list", _O, "Join codes, without their secrets",
          query=PageQuery, answer=CodeView, paged=True),
    route("POST", "/v1/codes", codes.create, "code.create", _O, "Make a join code; it is shown this once",
          body=codes.CodeBody, answer=CodeCreated, status=201),
    route("DELETE", "/v1/codes/{id}", codes.revoke, "code.revoke", _O, "Revoke a join code", status=204),
    route("GET", "/v1/tokens", tokens.list_tokens, "token.list", _A, "API tokens, without their secrets",
          query=PageQuery, answer=TokenView, paged=True),
    route("POST", "/v1/tokens", tokens.create, "token.create", _O, "Make an API token; it is shown this once",
          body=tokens.TokenBody, answer=TokenCreated, status=201),
    route("POST", "/v1/tokens/{id}/affirm", tokens.affirm, "token.affirm", _A, "Make a token of before a restore good "
          "again", answer=TokenView),
    route("DELETE", "/v1/tokens/{id}", tokens.revoke, "token.revoke", _A, "Revoke an API token", status=204),
    route("GET", "/v1/rules", rules.list_rules, "rule.list", _V, "The policy, in its order",
          query=PageQuery, answer=RuleView, paged=True),
    route("PUT", "/v1/rules/{id}", rules.put, "rule.put", _A, "Add or replace a rule",
          body=rules.RuleBody, answer=RuleView),
    route("DELETE", "/v1/rules/{id}", rules.delete, "rule.delete", _A, "Remove a rule", status=204),
    route("GET", "/v1/known-keys", known_keys.list_keys, "key.list", _V, "Keys listed beforehand",
          query=PageQuery, answer=KnownKeyView, paged=True),
    route("PUT", "/v1/known-keys/{fingerprint}", known_keys.put, "key.put", _A, "List a key beforehand",
          body=known_keys.KnownKeyBody, answer=KnownKeyView),
    route("DELETE", "/v1/known-keys/{fingerprint}", known_keys.delete, "key.delete", _A, "Forget a key", status=204),
)  # fmt: skip
