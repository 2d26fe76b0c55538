"""What refuses a start, looked at before anything is written: a start that is refused leaves nothing behind.

All of it is looked at again where it is used, since it may change in between. What only the folder or its database can
tell is not here (store/open.py): they are opened after this.
"""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from banyan.api.listen import public_socket
from banyan.core.errors import BadInput, Conflict
from banyan.core.ports import Clock, Ids
from banyan.drivers.registry import Drivers, Registry
from banyan.link.sockets import Proxy
from banyan.serve.config import Settings, credentials_folder
from banyan.serve.queue import queue_context
from banyan.store.keys import seal_from_file
from banyan.store.location import parse_location
from banyan.store.lock import holder
from banyan.trust import tokens


def check_start(settings: Settings, join_code: str | None, clock: Clock, ids: Ids, *, listens: bool) -> None:
    """Raises what `serve`, or without `listens` `join`, would be refused for: BadInput, Conflict, Unreachable, or
    Broken("seal-key-missing")."""
    racks = settings.for_zone().racks
    if settings.store.url:
        parse_location(settings.store.url)
    if join_code is None:
        settings.for_parent()
    else:
        tokens.parse(join_code)
    link = settings.link
    Proxy.parse(link.proxy, link.proxy_user, link.proxy_password_file)
    seal = seal_file(settings)
    if seal is not None:
        seal_from_file(seal, ids)
    drivers = Drivers(Registry.installed(), clock, ids)
    for rack in racks:
        drivers.make(rack)  # opens nothing, and so has nothing to close
    if listens:
        settings.public_url()
        if settings.api.tls:
            own_certificate(settings)
        if settings.queue.listen:
            queue_context(settings.queue, server=True)
        if settings.queue.zone or settings.queue.zone_socket:
            raise BadInput(
                "bad-setting",
                "queue.zone and queue.zone_socket say where an API process (--role api) finds its zone; leave them out",
            )
        _check_addresses(settings)


def seal_file(settings: Settings) -> Path | None:
    """Where the seal key is if not in the data folder: as the settings say, or a credential of systemd."""
    if settings.store.seal_key_file:
        return Path(settings.store.seal_key_file)
    folder = credentials_folder()
    return folder / "seal.key" if folder is not None and (folder / "seal.key").exists() else None


def own_certificate(settings: Settings) -> ssl.SSLContext | None:
    """TLS with the certificate that the settings name, None if they name none. Raises BadInput("bad-setting")."""
    api = settings.api
    if bool(api.certificate) != bool(api.key):
        raise BadInput("bad-setting", "api.certificate and api.key go together: set both, or neither")
    if not api.certificate:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(api.certificate, api.key)
    except (OSError, ssl.SSLError) as error:
        raise BadInput(
            "bad-setting", f"api.certificate or api.key cannot be used: {error}; both are PEM files"
        ) from error
    return context


def addresses(settings: Settings) -> Sequence[tuple[str, str, bool]]:
    """What the zone listens on: the setting's name, the address, whether it is encrypted."""
    return (
        ("api.listen", settings.api.listen, settings.api.tls),
        ("link.listen", settings.link.listen, True),
        *((("queue.listen", settings.queue.listen, True),) if settings.queue.listen else ()),
    )


def same_port(settings: Settings) -> BadInput | None:
    """What is wrong when each of our addresses is free, and not both: one port serves one of them."""
    with ExitStack() as held:
        for what, address, encrypted in addresses(settings):
            try:
                held.callback(public_socket(address, encrypted=encrypted).close)
            except Conflict:
                held.close()
                try:
                    public_socket(address, encrypted=encrypted).close()
                except Conflict:
                    return None
                # not-offered: one port that serves both the API and the link: each listens on a port of its own
                return BadInput(
                    "same-address",
                    f"api.listen (--listen-api {settings.api.listen}) and link.listen (--listen-link "
                    f"{settings.link.listen}) need one port for both; give {what} another",
                )
    return None


def _check_addresses(settings: Settings) -> None:
    for _, address, encrypted in addresses(settings):
        try:
            public_socket(address, encrypted=encrypted).close()
        except Conflict:
            if holder(settings.folder) is None:
                raise
            # Another process serves this very folder: that is what there is to say, and opening the store says it.
    wrong = same_port(settings)
    if wrong is not None:
        raise wrong
