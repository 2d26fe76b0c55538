"""The settings of one receiver of alarms, and what of its address may be shown. See config.py for the whole tree."""

from __future__ import annotations

import ipaddress
from typing import Annotated, Final, Literal
from urllib.parse import urlsplit

import msgspec

from banyan.core.errors import BadInput
from banyan.core.ids import check_name
from banyan.core.receiver import ReceiverKind, ReceiverSpec
from banyan.core.severity import Severity

# Of syslog, by the names that its implementations use (RFC 5424, 6.2.1).
FACILITIES: Final = {
    "user": 1, "daemon": 3, "auth": 4, "syslog": 5, "authpriv": 10,
    **{f"local{n}": 16 + n for n in range(8)},
}  # fmt: skip
# Where nothing else is said (RFC 5426, 6587, 5425).
PORTS: Final = {"udp": 514, "tcp": 601, "tls": 6514}


class ReceiverSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One receiver of alarms, told each event of the zone's journal that is for it. `kind`: webhook or syslog.

    `address`: of a webhook `https://HOST/PATH`; of syslog `udp://HOST:PORT`, `tcp://`, `tls://`, or `unix:/dev/log`.
    `secret_file`: of a webhook, the secret that signs, as `whsec_` and base64, in a file that only its owner reads.
    `ca_file`: certificates (PEM) of who signs the receiver's; empty is whom this machine trusts. `severity`: the least
    that it is told: info, notice, warning, error or critical. `include`, `exclude`: shell patterns over events' kinds.
    `deadline`: seconds for one attempt. `dead_after`: seconds of failing until that is an event itself. `backlog`,
    `backlog_age`: how many lines of the journal wait for it while it fails, and how long, in seconds. `facility`: of
    syslog.
    """

    name: str
    kind: Literal["webhook", "syslog"]
    address: str
    secret_file: str = ""
    ca_file: str = ""
    severity: Literal["info", "notice", "warning", "error", "critical"] = "notice"
    include: tuple[str, ...] = ("*",)
    exclude: tuple[str, ...] = ()
    facility: str = "daemon"
    deadline: Annotated[float, msgspec.Meta(ge=1, le=25)] = 15.0
    dead_after: Annotated[float, msgspec.Meta(ge=10, le=86_400)] = 300.0
    backlog: Annotated[int, msgspec.Meta(ge=10_000, le=10_000_000)] = 100_000
    backlog_age: Annotated[float, msgspec.Meta(ge=3_600, le=31_536_000)] = 604_800.0

    def spec(self) -> ReceiverSpec:
        """Raises BadInput("bad-name") or ("bad-setting")."""
        name, kind = check_name(self.name, "receiver name"), ReceiverKind(self.kind)
        if (kind is ReceiverKind.WEBHOOK) != bool(self.secret_file):
            raise BadInput(
                "bad-setting",
                f"the receiver {name}: a webhook needs a secret_file, with what it knows us by; syslog has none",
            )
        if self.facility not in FACILITIES:
            raise BadInput(
                "bad-setting", f"the receiver {name}: facility is one of {', '.join(FACILITIES)}, got {self.facility!r}"
            )
        return ReceiverSpec(
            name=name,
            kind=kind,
            address=self.address,
            where=where(name, kind, self.address),
            severity=Severity(self.severity),
            include=self.include,
            exclude=self.exclude,
            secret_file=self.secret_file,
            ca_file=self.ca_file,
            facility=FACILITIES[self.facility],
            deadline=self.deadline,
            dead_after=self.dead_after,
            backlog=self.backlog,
            backlog_age=self.backlog_age,
        )


def where(name: str, kind: ReceiverKind, address: str) -> str:
    """The part of an address that may be shown. Raises BadInput("bad-setting") for one that is of no use."""

    def bad(text: str) -> BadInput:
        return BadInput("bad-setting", f"the receiver {name}: {text}")

    if not address.isprintable() or " " in address or len(address) > 2_000:
        raise bad("its address has characters that no address has, or more than 2,000")
    try:
        parts = urlsplit(address)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        raise bad("its address has a host or a port that is none") from None
    if parts.username or parts.password:
        raise bad("its address has a user or a password in it; a webhook is signed, and needs neither")
    if kind is ReceiverKind.WEBHOOK:
        if parts.scheme not in ("https", "http") or not host:
            raise bad("a webhook's address begins with https:// and a host")
        if parts.scheme == "http" and not _loopback(host):
            raise bad("http is for receivers on this machine only; use https")
    elif parts.scheme == "unix":
        if not parts.path.startswith("/") or host:
            raise bad("the address of a local socket is unix: and its path, as in unix:/dev/log")
        return f"unix:{parts.path}"
    elif parts.scheme not in PORTS or not host or parts.path.strip("/") or parts.query:
        raise bad("a syslog receiver's address is udp://, tcp:// or tls:// with host and port, or unix: and a path")
    shown = f"[{host}]" if ":" in host else host
    return f"{parts.scheme}://{shown}" + (f":{port}" if port else "")


def _loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
