"""Tokens: had by a login, looked at, ended; and what their holders may choose from."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from banyan.api.keystone import render
from banyan.api.keystone.bodies import Ec2Signature, Password, S3Signature
from banyan.api.keystone.catalogue import catalogue
from banyan.api.openstack.call import Answer, Call, Reply
from banyan.api.openstack.faults import Unsupported
from banyan.core.errors import BadInput
from banyan.core.principal import ScopeKind
from banyan.core.secret import Secret
from banyan.zone.identity.desk import Listed
from banyan.zone.identity.logins import Issued, Login, Ref, Scope

Short = Annotated[str, Meta(max_length=255)]


class DomainRef(Struct, frozen=True):
    id: Short = ""
    name: Short = ""


class UserPart(Struct, frozen=True):
    id: Short = ""
    name: Short = ""
    domain: DomainRef = DomainRef()
    password: Password | None = None


class PasswordPart(Struct, frozen=True):
    user: UserPart


class TokenPart(Struct, frozen=True):
    id: Annotated[str, Meta(max_length=8_192)]


class CredentialPart(Struct, frozen=True):
    id: Short = ""
    name: Short = ""
    user: UserPart = UserPart()
    secret: Password | None = None


class IdentityPart(Struct, frozen=True):
    methods: Annotated[list[Short], Meta(max_length=16)]
    password: PasswordPart | UnsetType = UNSET
    token: TokenPart | UnsetType = UNSET
    application_credential: CredentialPart | UnsetType = UNSET


class ProjectRef(Struct, frozen=True):
    id: Short = ""
    name: Short = ""
    domain: DomainRef = DomainRef()


class SystemRef(Struct, frozen=True):
    all: bool = False


class ScopePart(Struct, frozen=True):
    project: ProjectRef | UnsetType = UNSET
    domain: DomainRef | UnsetType = UNSET
    system: SystemRef | UnsetType = UNSET
    unscoped: dict[str, object] | UnsetType = UNSET
    trust: dict[str, object] | UnsetType = msgspec.field(default=UNSET, name="OS-TRUST:trust")


class AuthPart(Struct, frozen=True):
    identity: IdentityPart
    scope: ScopePart | str | None = None


class AuthBody(Struct, frozen=True):
    auth: AuthPart


async def log_in(call: Call, body: AuthBody) -> Answer:
    """Log in, and get a token."""
    return await _issued(call, await call.identity.logins.log_in(login_of(body.auth), call.address))


async def by_ec2_signature(call: Call, body: Ec2Signature) -> Answer:
    """A token for who signed a request with an EC2 key; asked by the service that got the request."""
    one = body.older if body.credentials is UNSET else body.credentials
    if one is UNSET:
        raise BadInput("bad-body", "the body needs credentials, with access, signature, host, verb, path and params")
    issued = await call.identity.signatures.ec2(
        call.principal,
        one.access,
        one.signature,
        verb=one.verb,
        host=one.host,
        path=one.path,
        params=one.params,
        headers=one.headers,
        body_hash=one.body_hash,
    )
    return await _issued(call, issued)


async def by_s3_signature(call: Call, body: S3Signature) -> Answer:
    """The same for S3, whose receiver tells the string that was signed, and looks at its date itself."""
    one = body.credentials
    return await _issued(call, await call.identity.signatures.s3(call.principal, one.access, one.signature, one.token))


async def _issued(call: Call, issued: Issued) -> Reply:
    rows = None if call.flag("nocatalog") else await catalogue(call, issued.claims)
    shown = render.token(issued.claims, issued.standing, rows)
    return Reply(shown, headers={"X-Subject-Token": issued.token.reveal().decode(), "Vary": "X-Auth-Token"})


async def show(call: Call) -> Answer:
    """What a token is worth now."""
    token = _subject(call)
    claims, standing = await call.identity.validate(call.principal, token)
    rows = None if call.flag("nocatalog") else await catalogue(call, claims)
    return Reply(render.token(claims, standing, rows), headers={"X-Subject-Token": token, "Vary": "X-Auth-Token"})


async def revoke(call: Call) -> Answer:
    """End a token before its time."""
    await call.identity.revoke(call.principal, _subject(call))
    return None


async def catalog(call: Call) -> Answer:
    """The catalogue, as the token's scope sees it."""
    rows = await catalogue(call, None)
    return {"catalog": rows, "links": {"self": call.link("/v3/auth/catalog"), "next": None, "previous": None}}


async def projects(call: Call) -> Answer:
    """The projects that one may have a token for."""
    page = await call.identity.projects_of(call.principal, call.principal.user)
    return render.collection(call, "projects", page, render.project, "/v3/auth/projects")


async def domains(call: Call) -> Answer:
    """The domains that one may have a token for."""
    page = await call.identity.domains_of(call.principal)
    return render.collection(call, "domains", page, render.domain, "/v3/auth/domains")


async def system(call: Call) -> Answer:
    """Whether one may have a token for the system."""
    there = [True] if await call.identity.on_system(call.principal) else []
    return render.collection(call, "system", Listed(there), lambda _, all_of: {"all": all_of}, "/v3/auth/system")


def login_of(auth: AuthPart) -> Login:
    """A body as the zone takes it. Raises BadInput."""
    part = auth.identity
    password = None if part.password is UNSET else part.password
    credential = None if part.application_credential is UNSET else part.application_credential
    users = [p.user for p in (password, credential) if p is not None]
    user = next((u for u in users if u.id or u.name), UserPart())
    if password is not None and password.user.password is None:
        raise BadInput("bad-body", "auth.identity.password.user needs a password")
    if credential is not None and not credential.id and not (credential.name and (user.id or user.name)):
        raise BadInput("bad-body", "auth.identity.application_credential needs an id, or a name with its user")
    return Login(
        methods=tuple(part.methods),
        user=Ref(user.id, user.name, user.domain.id, user.domain.name),
        password=None if password is None else _secret(password.user.password),
        token=None if part.token is UNSET else _secret(part.token.id),
        credential=Ref() if credential is None else Ref(credential.id, credential.name),
        credential_secret=None if credential is None else _secret(credential.secret),
        scope=_scope(auth.scope),
    )


def _scope(part: ScopePart | str | None) -> Scope:
    if part is None:
        return Scope()
    if isinstance(part, str):
        if part != "unscoped":
            raise BadInput("bad-scope", f"a scope is unscoped, or an object; got {part[:40]!r}")
        return Scope(ScopeKind.NONE)
    named = [one for one in (part.project, part.domain, part.system, part.unscoped, part.trust) if one is not UNSET]
    if len(named) != 1:
        raise BadInput("bad-scope", f"a scope is one of project, domain, system and unscoped; got {len(named)} of them")
    if part.project is not UNSET:
        ref = part.project
        if not ref.id and not (ref.name and (ref.domain.id or ref.domain.name)):
            raise BadInput("bad-scope", "a project is named by its id, or by its name and its domain")
        return Scope(ScopeKind.PROJECT, Ref(ref.id, ref.name, ref.domain.id, ref.domain.name))
    if part.domain is not UNSET:
        if not part.domain.id and not part.domain.name:
            raise BadInput("bad-scope", "a domain is named by its id or its name")
        return Scope(ScopeKind.DOMAIN, Ref(part.domain.id, part.domain.name))
    if part.system is not UNSET:
        if not part.system.all:
            raise BadInput("bad-scope", 'the scope of the system is {"all": true}')
        return Scope(ScopeKind.SYSTEM)
    if part.trust is not UNSET:
        raise Unsupported("no-trusts", "trusts are not offered here; use an application credential")
    return Scope(ScopeKind.NONE)


def _secret(text: str | None) -> Secret | None:
    return None if text is None else Secret(text.encode())


def _subject(call: Call) -> str:
    token = call.headers.get("x-subject-token", "")
    if not token:
        raise BadInput("no-subject", "the header X-Subject-Token names the token that is meant")
    return token
