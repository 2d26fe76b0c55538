"""Application credentials, access rules, credentials and EC2 keys."""

from __future__ import annotations

from datetime import UTC, datetime

from banyan.api.keystone import render
from banyan.api.keystone.bodies import (
    ApplicationCredentialCreate,
    CredentialCreate,
    CredentialUpdate,
    Ec2Create,
    changed,
    extra,
)
from banyan.api.keystone.people import filters
from banyan.api.openstack.call import Answer, Call
from banyan.core.directory import Credential
from banyan.core.errors import BadInput
from banyan.core.secret import Secret
from banyan.core.time import Wall
from banyan.zone.identity.keys import EC2, NewCredential


async def create_application_credential(call: Call, body: ApplicationCredentialCreate) -> Answer:
    """Make an application credential for oneself, in the project of the token; its secret is told this once."""
    new = body.application_credential
    wanted = NewCredential(
        owner=call.params["user_id"],
        name=new.name,
        description=new.description or "",
        secret=None if new.secret is None else Secret(new.secret.encode()),
        roles=tuple((role.id, role.name) for role in new.roles),
        expires=None if new.expires_at is None else _instant(new.expires_at),
        unrestricted=new.unrestricted,
        rules=tuple(
            ("", "", rule.id) if rule.id else (rule.service, rule.method, rule.path) for rule in new.access_rules
        ),
        project=new.project_id,
    )
    shown = await call.identity.keys.create(call.principal, wanted)
    return {"application_credential": render.application_credential(call, shown)}


async def show_application_credential(call: Call) -> Answer:
    """One application credential, without its secret."""
    shown = await call.identity.keys.shown(
        call.principal, call.params["user_id"], call.params["application_credential_id"]
    )
    return {"application_credential": render.application_credential(call, shown)}


async def list_application_credentials(call: Call) -> Answer:
    """The application credentials of a user."""
    owner = call.params["user_id"]
    page = await call.identity.keys.list_of(call.principal, owner, call.maybe("name"))
    return render.collection(
        call,
        "application_credentials",
        page,
        render.application_credential,
        f"/v3/users/{owner}/application_credentials",
    )


async def delete_application_credential(call: Call) -> Answer:
    """Delete an application credential; tokens that were had with it end."""
    await call.identity.keys.delete(call.principal, call.params["user_id"], call.params["application_credential_id"])
    return None


async def show_access_rule(call: Call) -> Answer:
    """One access rule."""
    rule = await call.identity.keys.rule(call.principal, call.params["user_id"], call.params["access_rule_id"])
    return {"access_rule": render.access_rule(call, rule)}


async def list_access_rules(call: Call) -> Answer:
    """The access rules of a user."""
    owner = call.params["user_id"]
    page = await call.identity.keys.rules(
        call.principal, owner, filters(call, service="service", method="method", path="path")
    )
    return render.collection(call, "access_rules", page, render.access_rule, f"/v3/users/{owner}/access_rules")


async def delete_access_rule(call: Call) -> Answer:
    """Delete an access rule that nothing uses."""
    await call.identity.keys.delete_rule(call.principal, call.params["user_id"], call.params["access_rule_id"])
    return None


# --- credentials --------------------------------------------------------------------------------


async def create_credential(call: Call, body: CredentialCreate) -> Answer:
    """Keep a secret of a user for another protocol."""
    new = body.credential
    owner = new.user_id if isinstance(new.user_id, str) else call.principal.user
    credential = Credential("", owner, new.project_id, new.type, Secret(new.blob.encode()), extra=extra(call, body))
    kept = await call.identity.keys.keep(call.principal, credential, "identity:create_credential")
    return {"credential": render.credential(call, kept)}


async def show_credential(call: Call) -> Answer:
    """One credential."""
    held = await call.identity.keys.credential(call.principal, call.params["credential_id"])
    return {"credential": render.credential(call, held)}


async def list_credentials(call: Call) -> Answer:
    """Credentials, by id; one's own, for who may not see all."""
    wanted = filters(call, user_id="owner", type="kind")
    page = await call.identity.keys.credentials(call.principal, wanted, render.asked(call), "identity:list_credentials")
    last = page.items[-1].id if page.items else ""
    return render.collection(call, "credentials", page, render.credential, "/v3/credentials", last)


async def update_credential(call: Call, body: CredentialUpdate) -> Answer:
    """Change a credential."""
    changes = changed(call, body, user_id="owner", project_id="project", type="kind")
    fields = dict(changes.fields)
    blob = fields.get("blob")
    if isinstance(blob, str):
        fields["blob"] = Secret(blob.encode())
    held = await call.identity.keys.change(call.principal, call.params["credential_id"], fields)
    return {"credential": render.credential(call, held)}


async def delete_credential(call: Call) -> Answer:
    """Delete a credential."""
    await call.identity.keys.forget(call.principal, call.params["credential_id"])
    return None


# --- EC2 ----------------------------------------------------------------------------------------


async def create_ec2(call: Call, body: Ec2Create) -> Answer:
    """Make an EC2 access key for a project."""
    made = await call.identity.keys.make_ec2(call.principal, call.params["user_id"], body.tenant_id)
    return {"credential": render.ec2(call, made)}


async def show_ec2(call: Call) -> Answer:
    """One EC2 access key, with its secret."""
    held = await call.identity.keys.ec2(
        call.principal, call.params["user_id"], call.params["access"], "identity:ec2_get_credential"
    )
    return {"credential": render.ec2(call, held)}


async def list_ec2(call: Call) -> Answer:
    """The EC2 access keys of a user."""
    owner = call.params["user_id"]
    page = await call.identity.keys.credentials(
        call.principal, {"owner": owner, "kind": EC2}, render.asked(call), "identity:ec2_list_credentials"
    )
    return render.collection(call, "credentials", page, render.ec2, f"/v3/users/{owner}/credentials/OS-EC2")


async def delete_ec2(call: Call) -> Answer:
    """Delete an EC2 access key."""
    action = "identity:ec2_delete_credential"
    held = await call.identity.keys.ec2(call.principal, call.params["user_id"], call.params["access"], action)
    await call.identity.keys.forget(call.principal, held.id, action)
    return None


def _instant(text: str) -> Wall:
    """ISO 8601, in UTC where it names no zone. Raises BadInput."""
    try:
        at = datetime.fromisoformat(text)
        return Wall((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp())
    except (ValueError, OverflowError):
        raise BadInput(
            "bad-expiry", f"expires_at is an instant such as 2027-01-31T12:00:00Z, got {text[:40]!r}"
        ) from None
