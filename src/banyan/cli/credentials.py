"""banyan credentials: a clouds.yaml with which OpenStack's own clients use this zone's cloud.

The administrator's comes with the password of the first start, as long as that is in the data folder and still right;
for anybody else, and after that, an application credential is made at the zone's local socket: a key of that user's,
for that project, which can be listed and deleted like any other. Nothing is asked of the person.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import msgspec
from cyclopts import App, Parameter

from banyan.cli.client import Client
from banyan.cli.codes import Out, check_new, write_secret
from banyan.cli.session import OK, Session, session
from banyan.cli.target import HERE, Socket, Target, read_secret
from banyan.cli.values import default_folder
from banyan.core.errors import BadInput, NotFound, Unauthenticated

V3 = "/identity/v3"
PASSWORD_FILE, CERTIFICATE = "admin-password", "api.pem"
ADMIN, DEFAULT_DOMAIN = "admin", "default"
MAX_NUMBER = 1_000


class Endpoint(msgspec.Struct, frozen=True):
    interface: str
    url: str
    region_id: str | None = None


class Service(msgspec.Struct, frozen=True):
    type: str
    endpoints: list[Endpoint]


class Catalog(msgspec.Struct, frozen=True):
    catalog: list[Service]


class Thing(msgspec.Struct, frozen=True):
    """A user or a project."""

    id: str
    name: str
    default_project_id: str | None = None


class Users(msgspec.Struct, frozen=True):
    users: list[Thing]


class User(msgspec.Struct, frozen=True):
    user: Thing


class Projects(msgspec.Struct, frozen=True):
    projects: list[Thing]


class Project(msgspec.Struct, frozen=True):
    project: Thing


class Key(msgspec.Struct, frozen=True):
    id: str
    name: str
    secret: str = ""


class Keys(msgspec.Struct, frozen=True):
    application_credentials: list[Key]


class Made(msgspec.Struct, frozen=True):
    application_credential: Key


class Anything(msgspec.Struct, frozen=True):
    """An answer of which nothing is read."""


Entry = dict[str, object]


class Clouds(msgspec.Struct, frozen=True):
    """What is printed: the content of a clouds.yaml. With --out, `file` is where it went instead."""

    clouds: dict[str, Entry] = {}
    file: str = ""


def credentials(
    *,
    cloud_name: Annotated[str, Parameter(help="The entry's name, for `openstack --os-cloud NAME`.", metavar="NAME")],
    project: Annotated[str, Parameter(help="Which project: its name or its id.", metavar="P", show_default=False)] = "",
    user: Annotated[
        str, Parameter(help="Whose: the name of a user in the domain Default, or an id.", metavar="U")
    ] = ADMIN,
    out: Out = None,
    target: Target = HERE,
) -> int:
    """Print a clouds.yaml for OpenStack's clients, with a secret in it: keep it in a file (--out)."""
    where = target.where(default_folder())
    if not isinstance(where, Socket):
        raise BadInput("bad-option", "credentials are made at the zone's own machine: use --data, not --url")
    if out is not None:
        check_new(out)
    with session(target) as s:
        entry = _entry(s.client, where.folder, user, project, cloud_name)
        return _show(s, Clouds({cloud_name: entry}), out)


def _entry(client: Client, folder: Path, user: str, project: str, cloud_name: str) -> Entry:
    identity = next((one for one in client.get(f"{V3}/auth/catalog", Catalog).catalog if one.type == "identity"), None)
    public = None if identity is None else next((e for e in identity.endpoints if e.interface == "public"), None)
    if public is None:
        raise NotFound("no-identity", "this zone serves no identity; see `identity.enabled` in its settings")
    kind, auth = _by_password(client, folder, user, project) or _by_key(client, user, project, cloud_name)
    entry: Entry = {
        "auth_type": kind,
        "auth": {"auth_url": public.url, **auth},
        "region_name": public.region_id or "RegionOne",
        "identity_api_version": 3,
        "interface": "public",
    }
    certificate = folder / CERTIFICATE
    if public.url.startswith("https://") and certificate.is_file():
        entry["cacert"] = str(certificate)
    return entry


def cloud_entry(client: Client, folder: Path, name: str) -> Entry:
    """The administrator's, in the project admin. A key that is made for it has that name; `drop_key` deletes it."""
    return _entry(client, folder, ADMIN, "", name)


def drop_key(client: Client, entry: Entry) -> None:
    auth = entry["auth"]
    if entry["auth_type"] == "v3applicationcredential" and isinstance(auth, dict):
        owner = _user(client, ADMIN)
        client.delete(f"{V3}/users/{owner.id}/application_credentials/{auth['application_credential_id']}")


def _by_password(client: Client, folder: Path, user: str, project: str) -> tuple[str, Entry] | None:
    """With the first administrator's password, if it is still there and right for what is wanted."""
    path = folder / PASSWORD_FILE
    if user != ADMIN or not path.is_file():
        return None
    password = read_secret(path, "password")
    domain = {"id": DEFAULT_DOMAIN}
    wanted = project or ADMIN
    body = {
        "auth": {
            "identity": {
                "methods": ["password"],
                "password": {"user": {"name": ADMIN, "domain": domain, "password": password}},
            },
            "scope": {"project": {"name": wanted, "domain": domain}},
        }
    }
    try:
        client.post(f"{V3}/auth/tokens?nocatalog", body, Anything)
    except Unauthenticated:
        return None
    return "password", {
        "username": ADMIN,
        "password": password,
        "project_name": wanted,
        "user_domain_id": DEFAULT_DOMAIN,
        "project_domain_id": DEFAULT_DOMAIN,
    }


def _by_key(client: Client, user: str, project: str, cloud_name: str) -> tuple[str, Entry]:
    """With an application credential that is made now, under the first name that is free."""
    owner = _user(client, user)
    wanted = project or owner.default_project_id
    if not wanted:
        raise BadInput("no-project", f"user {owner.name} has no project of its own to act in; name one with --project")
    scope = _project(client, wanted)
    held = client.get(f"{V3}/users/{owner.id}/application_credentials", Keys).application_credentials
    names = {key.name for key in held}
    name = next(n for n in (cloud_name, *(f"{cloud_name}-{i}" for i in range(2, MAX_NUMBER))) if n not in names)
    new = {"name": name, "project_id": scope.id, "description": "made by `banyan credentials`"}
    body = {"application_credential": new}
    made = client.post(f"{V3}/users/{owner.id}/application_credentials", body, Made).application_credential
    return "v3applicationcredential", {
        "application_credential_id": made.id,
        "application_credential_secret": made.secret,
    }


def _user(client: Client, text: str) -> Thing:
    found = client.get(f"{V3}/users", Users, domain_id=DEFAULT_DOMAIN, name=text).users
    if found:
        return found[0]
    return client.get(f"{V3}/users/{_id(text)}", User).user


def _project(client: Client, text: str) -> Thing:
    found = client.get(f"{V3}/projects", Projects, domain_id=DEFAULT_DOMAIN, name=text).projects
    if found:
        return found[0]
    return client.get(f"{V3}/projects/{_id(text)}", Project).project


def _id(text: str) -> str:
    if not text.isalnum():
        raise NotFound("no-such", f"there is nothing named {text[:64]!r} in the domain Default")
    return text


def _show(s: Session, clouds: Clouds, out: Path | None) -> int:
    text = yaml(clouds.clouds)
    if out is not None:
        write_secret(out, text.rstrip("\n"))
    if s.screen.json:
        s.screen.one(clouds if out is None else Clouds(file=str(out)))
    elif out is None:
        s.screen.line(text.rstrip("\n"))
    else:
        s.screen.note(f"written to {out}; OS_CLIENT_CONFIG_FILE={out} openstack --os-cloud NAME …")
    return OK


def yaml(clouds: dict[str, Entry]) -> str:
    """The file. A text is quoted as JSON does, which YAML reads as well."""
    lines = ["clouds:"]
    for name, entry in clouds.items():
        lines.append(f"  {json.dumps(name)}:")
        for key, value in entry.items():
            if isinstance(value, dict):
                lines.append(f"    {key}:")
                lines += [f"      {inner}: {json.dumps(one)}" for inner, one in value.items()]
            else:
                lines.append(f"    {key}: {json.dumps(value)}")
    return "\n".join(lines) + "\n"


def register(app: App) -> None:
    app.command(credentials)
