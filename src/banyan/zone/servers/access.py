"""Who may see a server, and who may do something to it. What is not for the caller is not there, for all it can tell.

Which words a role has is the policy table's to say, at the zone where the caller's token was checked; here, wherever
the row is, no server of another project is ever given away.
"""

from __future__ import annotations

from typing import Final

from banyan.core.errors import NotFound, Refused, Unreachable
from banyan.core.identity import Caller, Role
from banyan.core.permissions import ADMIN_ROLE, MEMBER_ROLE, READER_ROLE
from banyan.core.principal import Principal, ScopeKind
from banyan.core.server import Server

Who = Principal | Caller

UNCONFIRMED: Final = "server-unconfirmed"


def caller_of(who: Who) -> Caller:
    """For the journal."""
    return who if isinstance(who, Caller) else who.caller()


def is_operator(who: Who) -> bool:
    """Above the owner: a lock does not bind it, and it sees every project of its issuer, or of all for a Caller."""
    if isinstance(who, Caller):
        return who.role >= Role.OPERATOR
    return ADMIN_ROLE in who.roles and who.scope in (ScopeKind.PROJECT, ScopeKind.SYSTEM)


def is_owner(who: Who, server: Server) -> bool:
    """Acts in the server's own project, whatever it may beyond that."""
    return (
        isinstance(who, Principal)
        and who.scope is ScopeKind.PROJECT
        and (who.issuer, who.project) == (server.issuer, server.project)
    )


def sees_all(who: Who) -> bool:
    """Every project: of its issuer for a Principal, of all for a Caller."""
    reads = isinstance(who, Principal) and who.scope is ScopeKind.SYSTEM and READER_ROLE in who.roles
    return isinstance(who, Caller) or is_operator(who) or reads


def sees(who: Who, server: Server) -> bool:
    if isinstance(who, Caller):
        return True
    mine = who.scope is ScopeKind.PROJECT and who.project == server.project
    return who.issuer == server.issuer and (mine or sees_all(who))


def require_seen(who: Who, id: str, server: Server | None) -> Server:
    """Raises NotFound("no-server"), the same for what is not there and for what is another's; Unreachable
    ("server-unconfirmed") for what whoever ordered it may have been told of, while the word of that is on its way."""
    if server is None or not sees(who, server):
        raise NotFound("no-server", f"there is no server {id}")
    if server.unconfirmed:
        raise unconfirmed(id)
    return server


def unconfirmed(id: str) -> Unreachable:
    text = f"server {id} is held for its order, and the word that begins it is on its way; ask again"
    return Unreachable("server-unconfirmed", text, transient=True, retry_after=2.0)


def require_may_act(who: Who, id: str) -> None:
    """Raises Refused("forbidden")."""
    may = is_operator(who) or (isinstance(who, Principal) and MEMBER_ROLE in who.roles)
    if not may:
        raise Refused("forbidden", f"server {id} may be seen, and not changed: that needs the role {MEMBER_ROLE}")
