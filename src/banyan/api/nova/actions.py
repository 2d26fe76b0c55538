"""What may be asked of a server by POST …/action: each key of a body is a row of the table, with its own policy."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from banyan.api.nova import fields
from banyan.api.nova.fields import Fields
from banyan.api.nova.server_create import no_placing
from banyan.api.nova.server_view import ServerView, Shown
from banyan.api.nova.servers import access_notes, found, make_password, server_id
from banyan.api.openstack.call import Answer, Call, Reply
from banyan.api.openstack.faults import Unsupported
from banyan.core.errors import BadInput, Conflict
from banyan.core.permissions import Target, may, require
from banyan.core.secret import Secret
from banyan.core.server import Action, Arguments, Change, VmState

Handler = Callable[[Call, object], Awaitable[Answer]]


def plain(action: Action, summary: str) -> Handler:
    """An action whose value says nothing; old clients send anything in it."""

    async def run(call: Call, value: object) -> Answer:
        await call.compute.servers.act(call.principal, server_id(call), action)
        return None

    run.__doc__ = summary
    return run


start = plain(Action.START, "Powers it on.")
stop = plain(Action.STOP, "Powers it off.")
pause = plain(Action.PAUSE, "Holds it in memory.")
unpause = plain(Action.UNPAUSE, "Lets it run on.")
suspend = plain(Action.SUSPEND, "Puts its memory on disk.")
resume = plain(Action.RESUME, "Takes its memory back from disk.")
unrescue = plain(Action.UNRESCUE, "Boots it from its own disk again.")
offload = plain(Action.OFFLOAD, "Frees the host of a shelved server.")
unlock = plain(Action.UNLOCK, "Takes the lock off.")


async def reboot(call: Call, value: object) -> Answer:
    """Restarts it, softly or by cycling power."""
    given = Fields(value, "reboot")
    kind = given.need("type", fields.one_of("HARD", "Hard", "hard", "SOFT", "Soft", "soft"))
    given.done()
    action = Action.REBOOT_HARD if kind.lower() == "hard" else Action.REBOOT
    await call.compute.servers.act(call.principal, server_id(call), action)
    return None


async def resize(call: Call, value: object) -> Answer:
    """Gives it another flavor; it waits for confirmResize or revertResize."""
    given = Fields(value, "resize")
    flavor = given.need("flavorRef", fields.flavor_ref)
    disk_config = given.take("OS-DCF:diskConfig", fields.disk_config, "")
    given.done()
    await call.compute.life.resize(call.principal, server_id(call), flavor, disk_config)
    return None


async def confirm_resize(call: Call, value: object) -> Answer:
    """Keeps what a resize or migration made, and frees what was before."""
    await call.compute.life.confirm(call.principal, server_id(call))
    return None


async def revert_resize(call: Call, value: object) -> Answer:
    """Goes back to what was before a resize or migration."""
    await call.compute.life.revert(call.principal, server_id(call))
    return None


async def migrate(call: Call, value: object) -> Answer:
    """Moves it to another host; it waits for confirmResize or revertResize."""
    host = ""
    if call.version.minor >= 56 and value is not None:
        given = Fields(value, "migrate")
        host = given.take("host", fields.or_none(fields.fqdn), None) or ""
        given.done()
    if host:
        raise BadInput("no-named-host", f"a server can not be moved to a named host ({host[:80]})")
    await call.compute.life.migrate(call.principal, server_id(call), host)
    return None


async def rescue(call: Call, value: object) -> Answer:
    """Boots it from another image, to repair it."""
    given = Fields({} if value is None else value, "rescue")
    image = given.take("rescue_image_ref", fields.uuid, "")
    password = given.take("adminPass", fields.text(0, 255), None)
    given.done()
    password = make_password(call) if password is None else password
    await call.compute.life.rescue(call.principal, server_id(call), image, Secret(password.encode()))
    return {"adminPass": password}


async def change_password(call: Call, value: object) -> Answer:
    """Sets the guest's administrator's password."""
    given = Fields(value, "changePassword")
    password = Secret(given.need("adminPass", fields.text(0, 255)).encode())
    given.done()
    await call.compute.servers.act(call.principal, server_id(call), Action.SET_PASSWORD, password=password)
    return None


async def lock(call: Call, value: object) -> Answer:
    """From now on only an administrator, or its unlock, counts."""
    reason = ""
    if call.version.minor >= 73 and value is not None:
        given = Fields(value, "lock")
        reason = given.take("locked_reason", fields.text(1, 255), "")
        given.done()
    await call.compute.servers.act(call.principal, server_id(call), Action.LOCK, Arguments(reason=reason))
    return None


async def shelve(call: Call, value: object) -> Answer:
    """Stops it, keeps its disk as an image, and frees its host."""
    await call.compute.life.shelve(call.principal, server_id(call))
    return None


async def unshelve(call: Call, value: object) -> Answer:
    """Gives a shelved server a host again."""
    zone, host, minor = "", "", call.version.minor
    if minor >= 77 and value is not None:
        given = Fields(value, "unshelve")
        zone = given.take("availability_zone", fields.or_none(fields.name), None) or ""
        host = given.take("host", fields.fqdn, "") if minor >= 91 else ""
        given.done()
    if host and not may(call.principal, "compute:server_place"):
        raise no_placing()
    await call.compute.life.unshelve(call.principal, server_id(call), zone, host)
    return None


async def reset_state(call: Call, value: object) -> Answer:
    """Says what state it is in: for an administrator who knows better."""
    given = Fields(value, "os-resetState")
    state = given.need("state", fields.one_of("active", "error"))
    given.done()
    arguments = Arguments(state=VmState(state))
    await call.compute.servers.act(call.principal, server_id(call), Action.RESET, arguments)
    return None


async def force_delete(call: Call, value: object) -> Answer:
    """Deletes it, whatever it is doing: as every delete does."""
    await call.compute.life.delete(call.principal, server_id(call))
    return None


async def restore(call: Call, value: object) -> Answer:
    """Takes a delete back; here none waits, so there is nothing to restore."""
    server = await call.compute.servers.show(call.principal, server_id(call))
    raise Conflict("bad-state", f"Cannot 'restore' instance {server.id} while it is in vm_state {server.state}")


async def console_output(call: Call, value: object) -> Answer:
    """The end of what it wrote to its console."""
    given = Fields({} if value is None else value, "os-getConsoleOutput")
    length = given.take("length", fields.or_none(fields.whole(-1, 2_147_483_647)), None)
    given.done()
    lines = None if length is None or length == -1 else length
    output = await call.compute.servers.console(call.principal, server_id(call), lines)
    if lines is not None:
        # So many lines when a client splits them: the last one's end begins no further one.
        output = "\n".join(output.removesuffix("\n").split("\n")[-lines:]) if lines else ""
    return {"output": output}


async def create_image(call: Call, value: object) -> Answer:
    """Makes an image of its disk."""
    given = Fields(value, "createImage")
    name = given.need("name", fields.name)
    metadata = given.take("metadata", fields.metadata, {})
    given.done()
    image = await call.compute.life.snapshot(call.principal, server_id(call), name, metadata)
    return _imaged(call, image)


async def create_backup(call: Call, value: object) -> Answer:
    """Makes an image of its disk, and drops the oldest ones of its kind."""
    given = Fields(value, "createBackup")
    name = given.need("name", fields.name)
    kind = given.need("backup_type", fields.text(0, 255))
    keep = given.need("rotation", fields.whole(0, 2_147_483_647))
    metadata = given.take("metadata", fields.metadata, {})
    given.done()
    image = await call.compute.life.backup(call.principal, server_id(call), name, kind, keep, metadata)
    if keep == 0:
        return None
    return _imaged(call, image)


def _imaged(call: Call, image: str) -> Reply:
    if call.version.minor >= 45:
        return Reply({"image_id": image})
    return Reply(headers={"Location": f"{call.base}/image/v2/images/{image}"})


async def add_security_group(call: Call, value: object) -> Answer:
    """Puts its interfaces under one more security group."""
    await call.compute.life.join_group(call.principal, server_id(call), _group(value, "addSecurityGroup"))
    return None


async def remove_security_group(call: Call, value: object) -> Answer:
    """Takes its interfaces out of a security group."""
    await call.compute.life.leave_group(call.principal, server_id(call), _group(value, "removeSecurityGroup"))
    return None


def _group(value: object, name: str) -> str:
    given = Fields(value, name)
    group = given.need("name", fields.name)
    given.done()
    return group


# --- rebuild --------------------------------------------------------------------------------------


async def rebuild(call: Call, value: object) -> Answer:
    """Makes its disk anew from an image."""
    minor, who, id = call.version.minor, call.principal, server_id(call)
    given = Fields(value, "rebuild")
    image = given.need("imageRef", fields.uuid)
    password = given.take("adminPass", fields.text(0, 255), None)
    given.take("preserve_ephemeral", fields.truth, False)
    notes, dropped = access_notes(given)
    clear: list[str] = []
    description: str | None = None
    key_name = ""
    user_data: str | None = None
    if minor >= 19 and "description" in given:
        description = given.need("description", fields.or_none(fields.description))
        clear += ["description"] if description is None else []
    if minor >= 54 and "key_name" in given:
        named = given.need("key_name", fields.or_none(fields.text(1, 255)))
        key_name = named or ""
        clear += ["key"] if named is None else []
    if minor <= 56 and given.take("personality", fields.items, []):
        raise BadInput("no-personality", "files are not injected here; use user_data")
    if minor >= 57 and "user_data" in given:
        user_data = given.need("user_data", fields.or_none(fields.user_data))
        clear += ["user_data"] if user_data is None else []
    if minor >= 63 and given.take("trusted_image_certificates", fields.or_none(fields.texts), None):
        raise BadInput("no-certificates", "trusted_image_certificates are not offered; leave them out")
    hostname: str | None = None
    if minor >= 90:
        hostname = given.take("hostname", fields.fqdn if minor >= 94 else fields.hostname, None)
    arguments = Arguments(
        name=given.take("name", fields.name, None),
        description=description,
        metadata=given.take("metadata", fields.metadata, None),
        user_data=user_data,
        hostname=hostname,
        disk_config=given.take("OS-DCF:diskConfig", fields.disk_config, ""),
        clear=tuple(clear),
    )
    given.done()
    password = make_password(call) if password is None else password
    server = await call.compute.life.rebuild(who, id, image, arguments, key_name, Secret(password.encode()))
    if notes or dropped:
        change = Change(metadata_merge=notes, metadata_drop=dropped)
        server = await call.compute.servers.change(who, id, change)
    shown = Shown(user_data=False) if minor >= 75 else Shown(part=True, key=minor >= 54)
    view = ServerView(call).whole(server, shown)
    view["adminPass"] = password
    if minor >= 57:
        view["user_data"] = server.spec.user_data or None
    return Reply({"server": view}, headers={"Location": call.link(f"/v2.1/servers/{id}")})


# --- what is not offered --------------------------------------------------------------------------


async def no_injection(call: Call, value: object) -> Answer:
    """Sends a guest its network settings: it has them from its network already, so nothing is to be done."""
    server = await found(call)
    require(call.principal, "compute:server_reset", Target(project=server.project))
    return None


def not_offered(what: str) -> Handler:
    """404 for a server that is not there, else 501."""

    async def run(call: Call, value: object) -> Answer:
        server_id(call)
        await call.compute.servers.show(call.principal, server_id(call))
        raise Unsupported("not-offered", f"{what} is not offered by this cloud")

    run.__doc__ = f"{what}: not offered."
    return run


live_migrate = not_offered("Live migration by hand")
evacuate = not_offered("Evacuation by hand")
crash_dump = not_offered("Triggering a crash dump")
vnc_console = not_offered("A VNC console")
spice_console = not_offered("A SPICE console")
rdp_console = not_offered("An RDP console")
serial_console = not_offered("A serial console")
fixed_ip = not_offered("Giving fixed addresses by actions")
floating_ip = not_offered("Giving floating addresses by actions")
