"""Logging in: by password, by a token, by an application credential; and what comes of it, a token in one scope.

Whatever goes wrong with a credential, the stranger hears one text, after the same work: an unknown user costs as much
as a wrong password. Names are looked up before anything is believed of them.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from dataclasses import dataclass, replace

from banyan.core.directory import ApplicationCredential, Project, User
from banyan.core.directory_rows import DirectoryRows
from banyan.core.errors import BadInput, Refused, Unauthenticated
from banyan.core.permissions import require
from banyan.core.principal import Principal, ScopeKind, UserClaims
from banyan.core.secret import Secret
from banyan.core.time import Wall
from banyan.trust import passwords, user_tokens
from banyan.zone.identity.desk import Desk
from banyan.zone.identity.gate import Gate
from banyan.zone.identity.keys import EC2, credential_of, secret_of
from banyan.zone.identity.standing import Standing, denied, stand

PASSWORD, TOKEN, APPLICATION_CREDENTIAL = "password", "token", "application_credential"
METHODS = (PASSWORD, TOKEN, APPLICATION_CREDENTIAL)
EC2_METHOD = "ec2credential"
# Seconds that a signed request is good for, and that clocks may differ.
SIGNED_LIFE = 900.0
# Of a random text that nobody knows, at the usual cost: what an unknown user's password is compared with.
_NOBODY = "$argon2id$v=19$m=19456,t=2,p=1$5hNjYVFuDM8TUzVm6vQbCA$9zHCwSx7ckP4lxQz7ZtaJfRHvYO4n1VLJcVx4ZFnIrY"


@dataclass(frozen=True, slots=True)
class Ref:
    """A user, project or domain as people name one: by id, or by name within a domain."""

    id: str = ""
    name: str = ""
    domain_id: str = ""
    domain_name: str = ""


@dataclass(frozen=True, slots=True)
class Scope:
    """What a token shall be good for. `kind` None: whatever is the user's default."""

    kind: ScopeKind | None = None
    ref: Ref = Ref()


@dataclass(frozen=True, slots=True)
class Login:
    """One attempt. Of each method that is named its part is given; all must be of one user."""

    methods: tuple[str, ...]
    user: Ref = Ref()
    password: Secret | None = None
    token: Secret | None = None
    credential: Ref = Ref()
    credential_secret: Secret | None = None
    scope: Scope = Scope()


@dataclass(frozen=True, slots=True)
class Issued:
    """A token with what it says and how its user stands."""

    token: Secret
    claims: UserClaims
    standing: Standing


@dataclass(frozen=True, slots=True)
class _Proof:
    """What a method proved. `until`: when a token by it ends at the latest."""

    user: User
    methods: tuple[str, ...]
    until: Wall | None = None
    origin: str = ""
    credential: ApplicationCredential | None = None


class Logins:
    """`life`: of a token, seconds."""

    def __init__(self, desk: Desk, gate: Gate, life: float) -> None:
        self._desk = desk
        self._gate = gate
        self._life = life

    async def log_in(self, login: Login, address: str) -> Issued:
        """Raises Unauthenticated ("denied"), BadInput, Refused, Unreachable("logins-busy")."""
        if not login.methods or any(method not in METHODS for method in login.methods):
            raise Unauthenticated("denied", "Attempted to authenticate with an unsupported method.")
        proofs = [await self._prove(login, method, address) for method in dict.fromkeys(login.methods)]
        first = proofs[0]
        if any(proof.user.id != first.user.id for proof in proofs):
            raise denied("the methods prove two users")
        untils = [proof.until for proof in proofs if proof.until is not None]
        proof = replace(
            first,
            methods=tuple(dict.fromkeys(method for proof in proofs for method in proof.methods)),
            until=min(untils) if untils else None,
            origin=next((proof.origin for proof in proofs if proof.origin), ""),
            credential=next((proof.credential for proof in proofs if proof.credential is not None), None),
        )
        return await self._issue(proof, login.scope)

    async def by_signature(
        self, who: Principal, access: str, signed: Callable[[Secret], bool], at: float | None
    ) -> Issued:
        """For the user and project of an EC2 key, by a request that was signed with it. The service that got it asks
        (`who`). `at`: when it was signed, None where the signature does not say.

        Raises Unauthenticated ("denied") whatever does not fit, BadInput for what is no signature, Refused."""
        require(who, "identity:verify_signature")
        held = await self._desk.read(lambda rows: rows.credentials.find({"kind": EC2, "access": access}))
        # An unknown key costs what a wrong signature does.
        right = signed(Secret(access.encode()) if held is None else secret_of(held.blob))
        now = self._desk.own.wall()
        if at is not None and abs(now - at) > SIGNED_LIFE:
            raise denied(f"signed {now - at:.0f} s ago; a signed request is good for {SIGNED_LIFE:.0f} s")
        if held is None or not right:
            raise denied("no such access key, or a wrong signature")
        bound = credential_of(held.blob)

        def find(rows: DirectoryRows) -> tuple[User | None, ApplicationCredential | None]:
            return rows.users.get(held.owner), rows.application_credentials.get(bound) if bound else None

        user, credential = await self._desk.read(find)
        if user is None:
            raise denied("the user of the access key is gone")
        if bound and credential is None:
            raise denied("the application credential that made the access key is gone")
        until = None if credential is None else credential.expires
        proof = _Proof(user, (EC2_METHOD,), until, credential=credential)
        return await self._issue(proof, Scope(ScopeKind.PROJECT, Ref(id=held.project or "")))

    async def _prove(self, login: Login, method: str, address: str) -> _Proof:
        match method:
            case "password":
                return await self._by_password(login, address)
            case "token":
                return await self._by_token(login)
            case _:
                return await self._by_credential(login, address)

    async def _by_password(self, login: Login, address: str) -> _Proof:
        if login.password is None:
            raise BadInput("bad-body", "the method password needs auth.identity.password.user with a password")
        user = await self._desk.read(lambda rows: find_user(rows, login.user))
        kept = user.password if user is not None and user.password else _NOBODY
        right = await self._desk.passwords.matches(login.password, kept, address)
        if user is None or not right:
            raise denied("no such user, or a wrong password")
        return _Proof(user, (PASSWORD,))

    async def _by_token(self, login: Login) -> _Proof:
        if login.token is None:
            raise BadInput("bad-body", "the method token needs auth.identity.token.id")
        claims = self._gate.verify(login.token.reveal().decode("latin-1"))
        standing = await self._gate.standing(claims)
        if claims.application_credential:
            raise Refused("no-rescope", "a token that was had with an application credential keeps its scope")
        methods = tuple(dict.fromkeys((*claims.methods, TOKEN)))
        return _Proof(standing.user, methods, claims.expires, claims.origin)

    async def _by_credential(self, login: Login, address: str) -> _Proof:
        secret = login.credential_secret
        if secret is None:
            raise BadInput("bad-body", "the method application_credential needs an id or a name, and a secret")

        def find(rows: DirectoryRows) -> tuple[User | None, ApplicationCredential | None]:
            if login.credential.id:
                held = rows.application_credentials.get(login.credential.id)
                return (None if held is None else rows.users.get(held.owner)), held
            user = find_user(rows, login.user)
            # Looked for also where there is no user: that takes as long.
            owner = "" if user is None else user.id
            return user, rows.application_credentials.find({"owner": owner, "name": login.credential.name})

        user, credential = await self._desk.read(find)
        kept = _NOBODY if credential is None else credential.secret
        cheap = passwords.is_digest(kept)
        right = cheap and passwords.matches(secret, kept)
        if not right:
            # A wrong secret costs the same whether there is such a credential, and however its secret is kept.
            slow = _NOBODY if cheap else kept
            right = await self._desk.passwords.matches(secret, slow, address) and not cheap
        if user is None or credential is None or not right:
            raise denied("no such application credential, or a wrong secret")
        return _Proof(user, (APPLICATION_CREDENTIAL,), credential.expires, credential=credential)

    async def _issue(self, proof: _Proof, scope: Scope) -> Issued:
        own = self._desk.own
        now = own.wall()

        def read(rows: DirectoryRows) -> tuple[ScopeKind, str, Standing]:
            kind, target = _target(rows, proof, scope)
            credential = "" if proof.credential is None else proof.credential.id
            try:
                standing = stand(rows, proof.user.id, kind, target, credential, now)
            except Unauthenticated:
                if scope.kind is not None or kind is ScopeKind.NONE or credential:
                    raise
                # A default project that is gone, or where the user has nothing to do, is none.
                kind, target = ScopeKind.NONE, ""
                standing = stand(rows, proof.user.id, kind, target, "", now)
            return kind, target, standing

        kind, target, standing = await self._desk.read(read)
        if standing.user.epoch != proof.user.epoch:
            raise denied("the password was changed, or the user disabled, while it was checked")
        until = Wall(now + self._life)
        audit = self._audit()
        claims = UserClaims(
            issuer=own.code,
            user=standing.user.id,
            user_domain=standing.user.domain,
            scope=kind,
            target=target,
            project_domain="" if standing.project is None else standing.project.domain or "",
            roles=tuple(role.name for role in standing.roles),
            methods=proof.methods,
            audit=audit,
            origin=proof.origin or audit,
            issued=Wall(round(now, 6)),
            expires=Wall(round(until if proof.until is None else min(until, proof.until), 6)),
            epoch=own.row.epoch,
            user_epoch=standing.user.epoch,
            application_credential="" if proof.credential is None else proof.credential.id,
        )
        return Issued(user_tokens.issue(own.token_seed, claims), claims, standing)

    def _audit(self) -> str:
        return base64.urlsafe_b64encode(self._desk.ids.token(16)).rstrip(b"=").decode()


def find_domain(rows: DirectoryRows, id: str, name: str) -> Project | None:
    if id:
        found = rows.projects.get(id)
        return found if found is not None and found.is_domain else None
    return rows.projects.find({"domain": None, "name": name}) if name else None


def find_user(rows: DirectoryRows, ref: Ref) -> User | None:
    if ref.id:
        return rows.users.get(ref.id)
    domain = find_domain(rows, ref.domain_id, ref.domain_name)
    return None if domain is None else rows.users.find({"domain": domain.id, "name": ref.name})


def find_project(rows: DirectoryRows, ref: Ref) -> Project | None:
    if ref.id:
        return rows.projects.get(ref.id)
    domain = find_domain(rows, ref.domain_id, ref.domain_name)
    return None if domain is None else rows.projects.find({"domain": domain.id, "name": ref.name})


def _target(rows: DirectoryRows, proof: _Proof, scope: Scope) -> tuple[ScopeKind, str]:
    """The scope that is meant, and its id. Raises Unauthenticated if there is no such project or domain."""
    credential = proof.credential
    if credential is not None:
        if scope.kind not in (None, ScopeKind.PROJECT):
            raise denied("an application credential is for its project only")
        if scope.kind is ScopeKind.PROJECT:
            project = find_project(rows, scope.ref)
            if project is None or project.id != credential.project:
                raise denied("an application credential is for its project only")
        return ScopeKind.PROJECT, credential.project
    match scope.kind:
        case None:
            default = proof.user.default_project
            return (ScopeKind.PROJECT, default) if default else (ScopeKind.NONE, "")
        case ScopeKind.PROJECT:
            project = find_project(rows, scope.ref)
        case ScopeKind.DOMAIN:
            project = find_domain(rows, scope.ref.id or scope.ref.domain_id, scope.ref.name or scope.ref.domain_name)
        case _:
            return scope.kind, ""
    if project is None:
        raise denied("there is no such project or domain")
    return scope.kind, project.id
