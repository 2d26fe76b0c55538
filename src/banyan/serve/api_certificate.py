"""The API's own certificate, kept in DATA/api.pem so that callers can pin it over restarts (`--ca-file`).

Its key follows from a sealed seed and is never on disk. A new certificate is made when the names change or the
old one nears its end.
"""

from __future__ import annotations

import os
import ssl
from pathlib import Path

from banyan.core.secret import Secret
from banyan.core.time import Wall
from banyan.trust.api_certificate import still_fits
from banyan.trust.authority import api_certificate

NAME = "api.pem"


def api_context(folder: Path, seed: Secret, hosts: tuple[str, ...], serial: bytes, now: Wall) -> ssl.SSLContext:
    """A server context for the API. Unspecified addresses stand for this machine's names."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    show(context, *api_material(folder, seed, hosts, serial, now))
    return context


def api_material(folder: Path, seed: Secret, hosts: tuple[str, ...], serial: bytes, now: Wall) -> tuple[bytes, Secret]:
    """The certificate that the API shows, and its key (PEM)."""
    names = tuple(dict.fromkeys(name for host in hosts for name in _names(host)))
    made = api_certificate(seed, names, serial=serial, now=now)
    path = folder / NAME
    if path.exists() and still_fits(held := path.read_bytes(), made.certificate, now):
        return held, made.key
    fresh = path.with_suffix(".new")
    fresh.write_bytes(made.certificate)
    fresh.chmod(0o644)
    fresh.replace(path)
    return made.certificate, made.key


def show(context: ssl.SSLContext, certificate: bytes, key: Secret) -> None:
    """Connections from now on are shown this certificate. The key never gets on a disk."""
    descriptor = os.memfd_create("banyan-api-key", os.MFD_CLOEXEC)
    try:
        os.write(descriptor, key.reveal() + certificate)
        context.load_cert_chain(f"/proc/self/fd/{descriptor}")
    finally:
        os.ftruncate(descriptor, 0)
        os.close(descriptor)


def _names(host: str) -> tuple[str, ...]:
    machine = (os.uname().nodename, "localhost", "127.0.0.1", "::1")
    bare = host.strip("[]")
    if bare in ("0.0.0.0", "::", ""):
        return machine
    return (bare, "localhost", "127.0.0.1", "::1") if bare in ("127.0.0.1", "::1", "localhost") else (bare,)
