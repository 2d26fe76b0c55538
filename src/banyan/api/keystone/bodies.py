"""What Keystone's clients send: one type per body. Unknown fields of things that have `extra` are kept, others ignored.

Names, lengths and what may be null are Keystone's own (api-ref/identity/v3).
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from banyan.api.openstack.call import Call
from banyan.core.errors import BadInput
from banyan.core.secret import Secret
from banyan.zone.identity.desk import Changes

Name = Annotated[str, Meta(min_length=1, max_length=255, pattern=r"\S")]
# Projects, domains and groups.
ShortName = Annotated[str, Meta(min_length=1, max_length=64, pattern=r"\S")]
Id = Annotated[str, Meta(min_length=1, max_length=255)]
Text = Annotated[str, Meta(max_length=16_384)]
Password = Annotated[str, Meta(max_length=4_096)]
Tag = Annotated[str, Meta(min_length=1, max_length=255, pattern=r"^[^,/]+$")]
Options = dict[str, object]


# --- users and groups ---------------------------------------------------------------------------


class UserNew(Struct, frozen=True):
    name: Name
    domain_id: Id | UnsetType = UNSET
    default_project_id: Id | None = None
    enabled: bool = True
    description: Text | None = None
    password: Password | None = None
    options: Options = {}


class UserCreate(Struct, frozen=True):
    user: UserNew


class UserChange(Struct, frozen=True):
    name: Name | UnsetType = UNSET
    domain_id: Id | UnsetType = UNSET
    default_project_id: Id | UnsetType | None = UNSET
    enabled: bool | UnsetType = UNSET
    description: Text | UnsetType | None = UNSET
    password: Password | UnsetType | None = UNSET
    options: Options | UnsetType = UNSET


class UserUpdate(Struct, frozen=True):
    user: UserChange


class PasswordChange(Struct, frozen=True):
    original_password: Password
    password: Annotated[str, Meta(min_length=1, max_length=4_096)]


class PasswordUpdate(Struct, frozen=True):
    user: PasswordChange


class GroupNew(Struct, frozen=True):
    name: ShortName
    domain_id: Id | UnsetType = UNSET
    description: Text | None = None


class GroupCreate(Struct, frozen=True):
    group: GroupNew


class GroupChange(Struct, frozen=True):
    name: ShortName | UnsetType = UNSET
    domain_id: Id | UnsetType = UNSET
    description: Text | UnsetType | None = UNSET


class GroupUpdate(Struct, frozen=True):
    group: GroupChange


# --- projects and domains -----------------------------------------------------------------------


class ProjectNew(Struct, frozen=True):
    name: ShortName
    domain_id: Id | None = None
    parent_id: Id | None = None
    is_domain: bool = False
    enabled: bool = True
    description: Text | None = None
    tags: Annotated[list[Tag], Meta(max_length=80)] = []
    options: Options = {}


class ProjectCreate(Struct, frozen=True):
    project: ProjectNew


class ProjectChange(Struct, frozen=True):
    name: ShortName | UnsetType = UNSET
    domain_id: Id | UnsetType | None = UNSET
    parent_id: Id | UnsetType | None = UNSET
    is_domain: bool | UnsetType = UNSET
    enabled: bool | UnsetType = UNSET
    description: Text | UnsetType | None = UNSET
    tags: Annotated[list[Tag], Meta(max_length=80)] | UnsetType = UNSET
    options: Options | UnsetType = UNSET


class ProjectUpdate(Struct, frozen=True):
    project: ProjectChange


class TagsBody(Struct, frozen=True):
    tags: Annotated[list[Tag], Meta(max_length=80)]


class DomainNew(Struct, frozen=True):
    name: ShortName
    enabled: bool = True
    description: Text | None = None
    tags: Annotated[list[Tag], Meta(max_length=80)] = []
    options: Options = {}


class DomainCreate(Struct, frozen=True):
    domain: DomainNew


class DomainChange(Struct, frozen=True):
    name: ShortName | UnsetType = UNSET
    enabled: bool | UnsetType = UNSET
    description: Text | UnsetType | None = UNSET
    tags: Annotated[list[Tag], Meta(max_length=80)] | UnsetType = UNSET
    options: Options | UnsetType = UNSET


class DomainUpdate(Struct, frozen=True):
    domain: DomainChange


# --- roles --------------------------------------------------------------------------------------


class RoleNew(Struct, frozen=True):
    name: Name
    domain_id: Id | None = None
    description: Text | None = None
    options: Options = {}


class RoleCreate(Struct, frozen=True):
    role: RoleNew


class RoleChange(Struct, frozen=True):
    name: Name | UnsetType = UNSET
    domain_id: Id | UnsetType | None = UNSET
    description: Text | UnsetType | None = UNSET
    options: Options | UnsetType = UNSET


class RoleUpdate(Struct, frozen=True):
    role: RoleChange


# --- credentials --------------------------------------------------------------------------------


class RoleRef(Struct, frozen=True):
    id: str = ""
    name: str = ""


class RuleRef(Struct, frozen=True):
    """A rule that is there, by id, or a new one."""

    id: str = ""
    service: Annotated[str, Meta(max_length=255)] = ""
    method: Annotated[str, Meta(pattern="^(GET|HEAD|POST|PUT|PATCH|DELETE)?$")] = ""
    path: Annotated[str, Meta(max_length=255)] = ""


class ApplicationCredentialNew(Struct, frozen=True):
    name: Name
    description: Text | None = None
    secret: Annotated[str, Meta(min_length=1, max_length=4_096)] | None = None
    expires_at: str | None = None
    roles: Annotated[list[RoleRef], Meta(max_length=1_000)] = []
    unrestricted: bool = False
    access_rules: Annotated[list[RuleRef], Meta(max_length=1_000)] = []
    project_id: str = ""


class ApplicationCredentialCreate(Struct, frozen=True):
    application_credential: ApplicationCredentialNew


class CredentialNew(Struct, frozen=True):
    type: Annotated[str, Meta(min_length=1, max_length=255)]
    blob: Text
    user_id: Id | UnsetType = UNSET
    project_id: Id | None = None


class CredentialCreate(Struct, frozen=True):
    credential: CredentialNew


class CredentialChange(Struct, frozen=True):
    type: Annotated[str, Meta(min_length=1, max_length=255)] | UnsetType = UNSET
    blob: Text | UnsetType = UNSET
    user_id: Id | UnsetType = UNSET
    project_id: Id | UnsetType | None = UNSET


class CredentialUpdate(Struct, frozen=True):
    credential: CredentialChange


class Ec2Create(Struct, frozen=True):
    tenant_id: Id


Signed = Annotated[str, Meta(max_length=4_096)]
SignedMap = Annotated[dict[str, Signed], Meta(max_length=256)]


class Ec2Signed(Struct, frozen=True):
    """A request as its receiver tells it."""

    access: Text
    signature: Text
    host: Text = ""
    verb: Text = "GET"
    path: Signed = "/"
    params: SignedMap = {}
    headers: SignedMap = {}
    body_hash: Text = ""


class Ec2Signature(Struct, frozen=True):
    credentials: Ec2Signed | UnsetType = UNSET
    older: Ec2Signed | UnsetType = msgspec.field(default=UNSET, name="ec2Credentials")


class S3Signed(Struct, frozen=True):
    access: Text
    signature: Text
    token: Annotated[str, Meta(max_length=65_536)]


class S3Signature(Struct, frozen=True):
    credentials: S3Signed


# --- the catalogue ------------------------------------------------------------------------------


class RegionNew(Struct, frozen=True):
    id: Annotated[str, Meta(max_length=255)] | None = None
    description: Text | None = None
    parent_region_id: Id | None = None


class RegionCreate(Struct, frozen=True):
    region: RegionNew


class RegionChange(Struct, frozen=True):
    description: Text | UnsetType | None = UNSET
    parent_region_id: Id | UnsetType | None = UNSET


class RegionUpdate(Struct, frozen=True):
    region: RegionChange


class ServiceNew(Struct, frozen=True):
    type: Annotated[str, Meta(min_length=1, max_length=255)]
    name: Annotated[str, Meta(max_length=255)] = ""
    enabled: bool = True
    description: Text | None = None


class ServiceCreate(Struct, frozen=True):
    service: ServiceNew


class ServiceChange(Struct, frozen=True):
    type: Annotated[str, Meta(min_length=1, max_length=255)] | UnsetType = UNSET
    name: Annotated[str, Meta(max_length=255)] | UnsetType = UNSET
    enabled: bool | UnsetType = UNSET
    description: Text | UnsetType | None = UNSET


class ServiceUpdate(Struct, frozen=True):
    service: ServiceChange


Interface = Annotated[str, Meta(pattern="^(public|internal|admin)(URL)?$")]
Url = Annotated[str, Meta(min_length=1, max_length=2_048, pattern=r"^\S+$")]


class EndpointNew(Struct, frozen=True):
    service_id: Id
    interface: Interface
    url: Url
    region: Id | None = None
    region_id: Id | None = None
    enabled: bool = True


class EndpointCreate(Struct, frozen=True):
    endpoint: EndpointNew


class EndpointChange(Struct, frozen=True):
    service_id: Id | UnsetType = UNSET
    interface: Interface | UnsetType = UNSET
    url: Url | UnsetType = UNSET
    region: Id | UnsetType | None = UNSET
    region_id: Id | UnsetType | None = UNSET
    enabled: bool | UnsetType = UNSET


class EndpointUpdate(Struct, frozen=True):
    endpoint: EndpointChange


# --- reading ------------------------------------------------------------------------------------

# Never kept as extra: they are answered from elsewhere, or would be secrets in clear text.
_NEVER = frozenset({"id", "links", "password", "original_password", "password_expires_at"})


def extra(call: Call, body: Struct) -> dict[str, object]:
    """What a client sent beside the known fields of the one thing that its body is about, and its options. What stands
    beside that thing is not looked at, as Keystone does not."""
    (outer,) = msgspec.structs.fields(body)
    known: Struct = getattr(body, outer.name)
    fields = {field.encode_name for field in msgspec.structs.fields(known)} - {"options"} | _NEVER
    raw = msgspec.json.decode(call.content, type=dict[str, msgspec.Raw])[outer.encode_name]
    thing = msgspec.json.decode(raw, type=dict[str, object])
    return {key: value for key, value in thing.items() if key not in fields}


def changed(call: Call, body: Struct, **names: str) -> Changes:
    """The changes in a body: fields of its one thing that were sent, under the record's names where those differ.

    A text that is null is empty; a password that is null stays what it is.
    """
    (outer,) = msgspec.structs.fields(body)
    new: Struct = getattr(body, outer.name)
    found: dict[str, object] = {}
    password: Secret | None = None
    for field in msgspec.structs.fields(new):
        value: object = getattr(new, field.name)
        if value is UNSET or field.name == "options":
            continue
        if field.name == "password":
            password = Secret(value.encode()) if isinstance(value, str) else None
        elif field.name == "tags" and isinstance(value, list):
            found["tags"] = check_tags(value)
        else:
            found[names.get(field.name, field.name)] = "" if value is None and field.name == "description" else value
    return Changes(found, password, extra(call, body))


def interface_of(text: str) -> str:
    """`publicURL` is an older word for `public`."""
    return text.removesuffix("URL")


def check_tags(tags: list[str]) -> tuple[str, ...]:
    """In order, each once. Raises BadInput for a tag that is there twice."""
    if len(set(tags)) != len(tags):
        raise BadInput("bad-tags", "tags must differ from each other")
    return tuple(sorted(tags))


def check_tag(tag: str) -> None:
    """Raises BadInput for a tag that stands in an address and would be refused in a body."""
    if not 1 <= len(tag) <= 255 or "," in tag or "/" in tag:
        raise BadInput("bad-tags", "a tag has 1 to 255 characters, without comma and slash")
