"""Key pairs: a user's own, or another's for an administrator."""

from __future__ import annotations

import re
from urllib.parse import urlencode

from banyan.api.nova import fields, server_query, words
from banyan.api.nova.fields import bad, inner
from banyan.api.openstack.call import Answer, Call, Reply
from banyan.core.compute import KeyKind, KeyPair

_NAME = re.compile(r"[_\- a-zA-Z0-9]+\Z")
_NAME_92 = re.compile(r"[_\-@. a-zA-Z0-9]+\Z")


async def create(call: Call, body: object) -> Answer:
    """Makes a key pair, or takes a public key."""
    minor, who = call.version.minor, call.principal
    given = inner(body, "keypair")
    name = given.need("name", fields.name)
    if not (_NAME_92 if minor >= 92 else _NAME).match(name):
        allowed = "letters, digits, blanks and - _" + (" @ ." if minor >= 92 else "")
        raise bad("name", f"Keypair name contains unsafe characters: it is {allowed}.", name)
    kind = given.take("type", fields.one_of("ssh", "x509"), "ssh") if minor >= 2 else "ssh"
    user = given.take("user_id", fields.text(1, 255), who.user) if minor >= 10 else who.user
    text = fields.text(0, 65_536)
    public = given.need("public_key", text) if minor >= 92 else given.take("public_key", text, None)
    given.done()
    made = await call.compute.key_pairs.create(who, user, name, KeyKind(kind), public)
    view = _view(made.key, minor)
    view["user_id"] = made.key.user
    if made.private is not None:
        view["private_key"] = made.private.reveal().decode()
    return Reply({"keypair": view}, status=201 if minor >= 2 else 200)


def _view(key: KeyPair, minor: int) -> dict[str, object]:
    view: dict[str, object] = {"name": key.name, "public_key": key.public_key, "fingerprint": key.fingerprint}
    if minor >= 2:
        view["type"] = key.kind.value
    return view


def _user(call: Call) -> str:
    """Whose keys are asked for: from 2.10 a parameter may say."""
    given = call.query.get("user_id", ("",))[-1]
    return given if given and call.version.minor >= 10 else call.principal.user


async def listed(call: Call) -> Answer:
    """A user's key pairs, by name."""
    minor = call.version.minor
    paged = minor >= 35
    limit = server_query.limit(call) if paged else server_query.MAX_LIMIT
    marker = server_query.marker(call) if paged else ""
    keys = await call.compute.key_pairs.page(call.principal, _user(call), marker, limit)
    answer: dict[str, object] = {"keypairs": [{"keypair": _view(key, minor)} for key in keys]}
    if paged and limit and len(keys) == limit and ("limit" in call.query or limit == server_query.MAX_LIMIT):
        pairs = [(name, value) for name, values in call.query.items() if name != "marker" for value in values]
        pairs.append(("marker", keys[-1].name))
        answer["keypairs_links"] = [{"rel": "next", "href": f"{call.link('/v2.1/os-keypairs')}?{urlencode(pairs)}"}]
    return answer


async def show(call: Call) -> Answer:
    """One key pair, by its name."""
    key = await call.compute.key_pairs.show(call.principal, _user(call), call.params["name"])
    view = _view(key, call.version.minor)
    view.update(
        user_id=key.user,
        id=key.number,
        created_at=words.precise(key.created_at),
        updated_at=None,
        deleted=False,
        deleted_at=None,
    )
    return {"keypair": view}


async def delete(call: Call) -> Answer:
    """Deletes a key pair; servers that were made with it keep it."""
    await call.compute.key_pairs.delete(call.principal, _user(call), call.params["name"])
    return Reply(status=204 if call.version.minor >= 2 else 202)
