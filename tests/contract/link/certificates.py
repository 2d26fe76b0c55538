"""One small PKI for all link tests: a top's CA, its controller, children; a stranger's CA beside it."""

from __future__ import annotations

from dataclasses import dataclass, field

from banyan.core.ids import ZoneCode
from banyan.core.ports import Credentials
from banyan.core.secret import Secret
from banyan.core.time import BUILD_DATE, Wall
from banyan.link.wire import Identity
from banyan.trust.authority import Issuer, ca_certificate, cross_certificate, issue_child, issue_server
from banyan.trust.keys import public_key

NOW = Wall(BUILD_DATE + 86_400.0)


@dataclass
class Authority:
    """A CA and what it signs. `name` makes its keys; `code` is its zone's."""

    name: str
    code: ZoneCode = ZoneCode(1)
    issuer: Issuer = field(init=False)
    certificate: bytes = field(init=False)
    serial: int = 0

    def __post_init__(self) -> None:
        self.issuer = Issuer(self.code, _seed(self.name))
        self.certificate = ca_certificate(self.issuer, serial=self._serial(), now=NOW)

    def controller(self, chain: tuple[bytes, ...] = (), now: Wall = NOW) -> Credentials:
        seed = _seed(f"{self.name} controller {self.serial}")
        leaf = issue_server(self.issuer, public_key(seed), serial=self._serial(), now=now)
        return Credentials(leaf, seed, chain)

    def child(self, code: ZoneCode, now: Wall = NOW) -> Credentials:
        seed = _seed(f"{self.name} child {code}")
        leaf = issue_child(self.issuer, code, public_key(seed), serial=self._serial(), now=now)
        return Credentials(leaf, seed)

    def cross(self, other: Authority) -> bytes:
        """We say that the other is a CA of our zone."""
        return cross_certificate(self.issuer, other.issuer.public, serial=self._serial(), now=NOW)

    def identity(self, *older: Authority) -> Identity:
        chain = tuple(one.cross(self) for one in older)
        return Identity(self.controller(chain), (self.certificate, *(one.certificate for one in older)))

    def _serial(self) -> bytes:
        self.serial += 1
        return self.serial.to_bytes(16, "big")


def _seed(name: str) -> Secret:
    return Secret(name.encode().ljust(32, b".")[:32])
