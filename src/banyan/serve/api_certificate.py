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
    names = tuple(dict.fromkeys(name for host in hosts for name in _names(host)))
    made = api_certificate(seed, names, serial=serial, now=now)
    path = folder / NAME
    certificate = made.certificate
    if path.exists() and still_fits(held := path.read_bytes(), made.certificate, now):
        certificate = held
    else:
        fresh = path.with_suffix(".new")
        fresh.write_bytes(certificate)
        fresh.chmod(0o644)
        fresh.replace(path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    descriptor = os.memfd_create("banyan-api-key", os.MFD_CLOEXEC)
    try:
        os.write(descriptor, made.key.reveal() + certificate)
        context.load_cert_chain(f"/proc/self/fd/{descriptor}")
    finally:
        os.ftruncate(descriptor, 0)
        os.close(descriptor)
    return context


def _names(host: str) -> tuple[str, ...]:
    machine = (os.uname().nodename, "localhost", "127.0.0.1", "::1")
    bare = host.strip("[]")
    if bare in ("0.0.0.0", "::", ""):
        return machine
    return (bare, "localhost", "127.0.0.1", "::1") if bare in ("127.0.0.1", "::1", "localhost") else (bare,)
