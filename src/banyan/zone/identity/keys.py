"""What users make for their programs: application credentials, access rules, and credentials of other protocols."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace

import msgspec

from banyan.core.directory import AccessRule, ApplicationCredential, Credential, Role
from banyan.core.directory_rows import DirectoryRows, Filters
from banyan.core.errors import BadInput, Conflict, NotFound, Refused, Unauthenticated
from banyan.core.permissions import Target, anywhere, require
from banyan.core.principal import Principal, ScopeKind
from banyan.core.records import Unit
from banyan.core.secret import Secret
from banyan.core.time import Wall
from banyan.trust import passwords
from banyan.zone.identity.desk import Asked, Desk, Listed, Touched, check_may, found, known, listed, missing
from banyan.zone.identity.people import taken
from banyan.zone.identity.standing import stand

# Of one user, of each kind: they are listed whole.
MAX_KEYS = 1_000
EC2 = "ec2"


@dataclass(frozen=True, slots=True)
class NewCredential:
    """What an application credential shall be. `roles`: ids or names, none for all of the caller's. `secret` None:
    one is drawn. `rules`: requests that it is good for, as (service, method, path) or ("", "", id)."""

    owner: str
    name: str
    description: str = ""
    secret: Secret | None = None
    roles: tuple[tuple[str, str], ...] = ()
    expires: Wall | None = None
    unrestricted: bool = False
    rules: tuple[tuple[str, str, str], ...] = ()
    project: str = ""


@dataclass(frozen=True, slots=True)
class Shown:
    """An application credential with what it names; `secret` only when it was just made."""

    credential: ApplicationCredential
    roles: tuple[Role, ...]
    rules: tuple[AccessRule, ...]
    secret: Secret | None = None


class Keys:
    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    # --- application credentials ----------------------------------------------------------------

    async def create(self, who: Principal, new: NewCredential) -> Shown:
        """For the project of the caller's token, with roles that the caller has there; the secret is told this once.

        The zone's local admin may make one for anybody, in a project that it names.
        """
        action = "identity:create_application_credential"
        local = not who.user
        check_may(who, action, Target(user=new.owner))
        if not local and who.scope is not ScopeKind.PROJECT:
            raise BadInput("no-project", "an application credential is for a project; ask with a project's token")
        secret = new.secret or Secret(_text(self._desk.ids.token(32)).encode())
        kept = (
            passwords.digest(secret) if new.secret is None else await self._desk.passwords.hashed(secret, who.address)
        )
        now = self._desk.own.wall()
        if new.expires is not None and new.expires <= now:
            raise BadInput("bad-expiry", "expires_at must be to come; an application credential that has ended is none")
        id, rule_ids = self._desk.new_id(), [self._desk.new_id() for _ in new.rules]

        def work(unit: Unit) -> Shown:
            rows = unit.directory
            project = new.project if local else who.project
            try:
                standing = stand(rows, new.owner, ScopeKind.PROJECT, project, "", now)
            except Unauthenticated as error:
                raise Refused(
                    "no-role",
                    f"user {new.owner} has no role on project {project}, or one of them is disabled; give it one first",
                ) from error
            held = {role.id: role for role in standing.roles if local or role.name in who.roles}
            chosen = _chosen(held, new.roles)
            if rows.application_credentials.count({"owner": new.owner}) >= MAX_KEYS:
                raise Refused("too-many-keys", f"a user has at most {MAX_KEYS} application credentials")
            allowed = tuple(
                self._rule(rows, new.owner, rule, rule_id) for rule, rule_id in zip(new.rules, rule_ids, strict=True)
            )
            made = ApplicationCredential(
                id=id,
                owner=new.owner,
                project=project,
                name=new.name,
                secret=kept,
                roles=tuple(sorted(chosen)),
                created_at=now,
                expires=new.expires,
                description=new.description,
                unrestricted=new.unrestricted,
                access_rules=tuple(rule.id for rule in allowed),
            )
            if not rows.application_credentials.add(made):
                raise taken("application credential", new.name)
            _check_no_wider(rows, who, made)
            names = ", ".join(sorted(role.name for role in chosen.values()))
            self._desk.note(
                unit, who, "application-credential-created", id, new.name, owner=new.owner, project=project, roles=names
            )
            return Shown(made, tuple(chosen[role] for role in made.roles), allowed, secret)

        return await self._desk.change("application-credential.created", work)

    def _rule(self, rows: DirectoryRows, owner: str, rule: tuple[str, str, str], id: str) -> AccessRule:
        """The user's rule of that content, made if it is not there; ("", "", id) names one that is."""
        service, method, path = rule
        if not service and not method:
            named = rows.access_rules.get(path)
            if named is None or named.owner != owner:
                raise missing("access rule", path)
            return named
        found = rows.access_rules.find({"owner": owner, "service": service, "method": method, "path": path})
        if found is not None:
            return found
        if rows.access_rules.count({"owner": owner}) >= MAX_KEYS:
            raise Refused("too-many-keys", f"a user has at most {MAX_KEYS} access rules")
        made = AccessRule(id, owner, service, method, path)
        rows.access_rules.add(made)
        return made

    async def shown(self, who: Principal, owner: str, id: str) -> Shown:
        action = "identity:get_application_credential"
        require(who, action, Target(user=owner))

        def look(rows: DirectoryRows) -> Shown:
            held = rows.application_credentials.get(id)
            if held is None or held.owner != owner:
                raise missing("application credential", id)
            return _shown(rows, held)

        return await self._desk.read(look)

    async def list_of(self, who: Principal, owner: str, name: str | None) -> Listed[Shown]:
        require(who, "identity:list_application_credentials", Target(user=owner))
        filters: Filters = {"owner": owner} if name is None else {"owner": owner, "name": name}

        def look(rows: DirectoryRows) -> Listed[Shown]:
            return Listed([_shown(rows, one) for one in rows.application_credentials.page(filters, "", MAX_KEYS)])

        return await self._desk.read(look)

    async def delete(self, who: Principal, owner: str, id: str) -> None:
        """Tokens that were had with it end at once."""
        check_may(who, "identity:delete_application_credential", Target(user=owner))

        def work(unit: Unit) -> None:
            rows = unit.directory
            held = rows.application_credentials.get(id)
            if held is None or held.owner != owner:
                raise missing("application credential", id)
            rows.application_credentials.delete(id)
            self._desk.note(unit, who, "application-credential-deleted", id, held.name, owner=owner)

        await self._desk.change("application-credential.deleted", work, Touched(users={owner}))

    # --- access rules ---------------------------------------------------------------------------

    async def rule(self, who: Principal, owner: str, id: str) -> AccessRule:
        require(who, "identity:get_access_rule", Target(user=owner))
        held = await self._desk.read(lambda rows: rows.access_rules.get(id))
        if held is None or held.owner != owner:
            raise missing("access rule", id)
        return held

    async def rules(self, who: Principal, owner: str, filters: Filters) -> Listed[AccessRule]:
        require(who, "identity:list_access_rules", Target(user=owner))
        wanted = {**filters, "owner": owner}
        return Listed(await self._desk.read(lambda rows: rows.access_rules.page(wanted, "", MAX_KEYS)))

    async def delete_rule(self, who: Principal, owner: str, id: str) -> None:
        """Raises Refused while an application credential is bound to it."""
        check_may(who, "identity:delete_access_rule", Target(user=owner))

        def work(unit: Unit) -> None:
            rows = unit.directory
            held = rows.access_rules.get(id)
            if held is None or held.owner != owner:
                raise missing("access rule", id)
            users = rows.application_credentials.page({"owner": owner}, "", MAX_KEYS)
            if any(id in credential.access_rules for credential in users):
                raise Refused(
                    "rule-in-use", f"access rule {id} is used by an application credential; delete that first"
                )
            rows.access_rules.delete(id)
            self._desk.note(unit, who, "access-rule-deleted", id, f"{held.method} {held.path}", owner=owner)

        await self._desk.change("access-rule.deleted", work)

    # --- credentials for other protocols --------------------------------------------------------

    async def keep(self, who: Principal, credential: Credential, action: str) -> Credential:
        """Keeps a secret of a user. Of kind ec2 the id follows from the access key, so that two never clash."""
        check_may(who, action, Target(user=credential.owner))
        made = credential
        if credential.kind == EC2:
            access = _access_of(credential.blob)
            if not credential.project:
                raise BadInput("no-project", "a credential of type ec2 needs a project_id")
            made = _bound(who, replace(credential, id=hashlib.sha256(access.encode()).hexdigest(), access=access))
        else:
            made = replace(credential, id=self._desk.new_id())

        def work(unit: Unit) -> Credential:
            rows = unit.directory
            if rows.users.get(made.owner) is None:
                raise missing("user", made.owner)
            if made.project is not None and rows.projects.get(made.project) is None:
                raise missing("project", made.project)
            if rows.credentials.count({"owner": made.owner}) >= MAX_KEYS:
                raise Refused("too-many-keys", f"a user has at most {MAX_KEYS} credentials")
            if not rows.credentials.add(made):
                raise Conflict("name-taken", "a credential with this access key is there already")
            self._desk.note(unit, who, "credential-created", made.id, made.kind, owner=made.owner)
            return made

        return await self._desk.change("credential.created", work)

    async def make_ec2(self, who: Principal, owner: str, project: str) -> Credential:
        """A new access key and secret for one project."""
        access, secret = self._desk.ids.token(16).hex(), self._desk.ids.token(16).hex()
        blob = msgspec.json.encode({"access": access, "secret": secret, "trust_id": None})
        return await self.keep(who, Credential("", owner, project, EC2, Secret(blob)), "identity:ec2_create_credential")

    async def credential(self, who: Principal, id: str, action: str = "identity:get_credential") -> Credential:
        held = known(await self._desk.read(lambda rows: rows.credentials.get(id)), who, action, "credential", id)
        require(who, action, Target(user=held.owner))
        return _reached(who, held, "credential", id)

    async def ec2(self, who: Principal, owner: str, access: str, action: str) -> Credential:
        """By its access key, of that user."""
        require(who, action, Target(user=owner))
        wanted: Filters = {"owner": owner, "kind": EC2, "access": access}
        held = found(await self._desk.read(lambda rows: rows.credentials.find(wanted)), "credential", access)
        return _reached(who, held, "credential", access)

    async def credentials(self, who: Principal, filters: Filters, asked: Asked, action: str) -> Listed[Credential]:
        """Whoever may not see all sees their own."""
        wanted = dict(filters)
        if not anywhere(who, action):
            owner = wanted.get("owner", who.user)
            require(who, action, Target(user=owner if isinstance(owner, str) else ""))
            wanted["owner"] = owner

        def look(rows: DirectoryRows) -> Listed[Credential]:
            after = asked.after
            while True:
                page = listed(rows.credentials.page(wanted, after, asked.limit + 1), asked)
                mine = [one for one in page.items if _reaches(who, one)]
                if mine or not page.more:
                    return Listed(mine, page.more)
                # A page of nothing has no last to go on from.
                after = page.items[-1].id

        return await self._desk.read(look)

    async def change(self, who: Principal, id: str, fields: Mapping[str, object]) -> Credential:
        action = "identity:update_credential"

        def work(unit: Unit) -> Credential:
            rows = unit.directory
            held = known(rows.credentials.get(id), who, action, "credential", id)
            check_may(who, action, Target(user=held.owner))
            _reached(who, held, "credential", id)
            wanted = replace(held, **fields)  # type: ignore[arg-type]  # checked by their names in the API
            check_may(who, action, Target(user=wanted.owner))
            if rows.users.get(wanted.owner) is None:
                raise missing("user", wanted.owner)
            if wanted.project is not None and rows.projects.get(wanted.project) is None:
                raise missing("project", wanted.project)
            if wanted.kind != held.kind:
                raise BadInput("kind-fixed", "a credential keeps its type; make another one")
            if wanted.kind == EC2:
                if not wanted.project:
                    raise BadInput("no-project", "a credential of type ec2 needs a project_id")
                wanted = _bound(who, replace(wanted, access=_access_of(wanted.blob)))
            try:
                rows.credentials.put(wanted)
            except Conflict as error:
                raise Conflict("name-taken", "a credential with this access key is there already") from error
            self._desk.note(unit, who, "credential-updated", id, wanted.kind, fields=", ".join(sorted(fields)))
            return wanted

        return await self._desk.change("credential.updated", work)

    async def forget(self, who: Principal, id: str, action: str = "identity:delete_credential") -> None:
        def work(unit: Unit) -> None:
            rows = unit.directory
            held = known(rows.credentials.get(id), who, action, "credential", id)
            check_may(who, action, Target(user=held.owner))
            rows.credentials.delete(id)
            self._desk.note(unit, who, "credential-deleted", id, held.kind, owner=held.owner)

        await self._desk.change("credential.deleted", work)


def _chosen(held: Mapping[str, Role], wanted: tuple[tuple[str, str], ...]) -> dict[str, Role]:
    """The roles that were asked for, each by id or by name, out of those that are held; all of them for none asked."""
    if not wanted:
        return dict(held)
    by_name = {role.name: role for role in held.values()}
    found: dict[str, Role] = {}
    for id, name in wanted:
        role = held.get(id) if id else by_name.get(name)
        if role is None:
            raise NotFound("no-role", f"Could not find role assignment with role: {(id or name)[:255]} for this user.")
        found[role.id] = role
    return found


def _shown(rows: DirectoryRows, held: ApplicationCredential) -> Shown:
    known_roles, known_rules = rows.roles.some(held.roles), rows.access_rules.some(held.access_rules)
    return Shown(
        held,
        tuple(known_roles[id] for id in held.roles if id in known_roles),
        tuple(known_rules[id] for id in held.access_rules if id in known_rules),
    )


def _check_no_wider(rows: DirectoryRows, who: Principal, new: ApplicationCredential) -> None:
    """What is made with an application credential is good for no more requests than that, and for no longer. Its
    roles and its project are no more in any case. Raises Refused("wider-credential")."""
    maker = rows.application_credentials.get(who.application_credential) if who.application_credential else None
    if maker is None:
        return
    if maker.access_rules and not (new.access_rules and set(new.access_rules) <= set(maker.access_rules)):
        rules = ", ".join(maker.access_rules)
        raise Refused("wider-credential", f"made with an application credential it may have only its rules: {rules}")
    if maker.expires is not None and (new.expires is None or new.expires > maker.expires):
        raise Refused(
            "wider-credential", "made with an application credential it must not end after that; say expires_at"
        )


def _bound(who: Principal, key: Credential) -> Credential:
    """An EC2 key that a user makes with an application credential has the project and the roles of that, and ends with
    it (CVE-2020-12691). Raises Refused("wider-credential")."""
    if not who.application_credential or key.owner != who.user:
        return key
    if key.project != who.project:
        text = f"made with an application credential a key is for its project, {who.project}"
        raise Refused("wider-credential", text)
    said = msgspec.json.decode(key.blob.reveal(), type=dict[str, object])
    blob = msgspec.json.encode({**said, "app_cred_id": who.application_credential})
    return replace(key, blob=Secret(blob))


def _reaches(who: Principal, held: Credential) -> bool:
    """With an application credential a user has those of its EC2 keys that were made with it: another one's secret
    would be all that the other may."""
    mine = held.kind == EC2 and held.owner == who.user and bool(who.application_credential)
    return not mine or credential_of(held.blob) == who.application_credential


def _reached(who: Principal, held: Credential, kind: str, id: str) -> Credential:
    if not _reaches(who, held):
        raise missing(kind, id)
    return held


def credential_of(blob: Secret) -> str:
    """The id of the application credential that an EC2 key was made with, "" for none."""
    return msgspec.json.decode(blob.reveal(), type=_Ec2).app_cred_id or ""


def secret_of(blob: Secret) -> Secret:
    """The secret key in an EC2 credential's blob, as it was checked when it was kept."""
    return Secret(msgspec.json.decode(blob.reveal(), type=_Ec2).secret.encode())


def _access_of(blob: Secret) -> str:
    """The access key in an EC2 credential's blob. Raises BadInput, which repeats nothing of it."""
    try:
        return msgspec.json.decode(blob.reveal(), type=_Ec2).access
    except (msgspec.MsgspecError, UnicodeDecodeError):
        raise BadInput("bad-ec2", "the blob of a credential of type ec2 is JSON with access and secret") from None


class _Ec2(msgspec.Struct, frozen=True):
    access: str
    secret: str
    app_cred_id: str | None = None


def _text(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()
