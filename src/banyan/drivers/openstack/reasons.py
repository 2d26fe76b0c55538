"""What went wrong with a cloud, in words for a person at night: which call, what came, what to do. Pure.

Every failure of the driver is made here as a DriverUnavailable with a stable code. No text holds a password or a
token: of an answer only the service's own message is quoted, and of an exception only what the system said.
"""

from __future__ import annotations

import errno
import http.client
import socket
import ssl
from collections.abc import Sequence

import msgspec

from banyan.core.records import DriverUnavailable
from banyan.core.text import shown
from banyan.drivers.openstack.endpoints import Service

_QUOTED = 200
# Entries of a clouds.yaml that a text names.
NAMED = 20


class Denied(DriverUnavailable):
    """The service knows who asks, and its policy does not let these credentials (403)."""


class Missing(DriverUnavailable):
    """What was asked for is not there (404): it went since it was listed, or the address is wrong."""


class Cut(DriverUnavailable):
    """A connection was closed instead of answered, as servers do to idle ones without a word: it is asked again."""


class BadRequest(DriverUnavailable):
    """The service did not accept the request (400); of a list, that its marker has gone."""


class Where:
    """Names the rack and its cloud in every text: `rack 'east' (cloud 'east-admin', region East)`."""

    def __init__(self, rack: str, cloud: str, region: str = "") -> None:
        self._cloud = cloud
        self._text = f"rack {rack!r} (cloud {cloud!r}{f', region {region}' if region else ''})"

    def __str__(self) -> str:
        return self._text

    def config(self, problem: str) -> DriverUnavailable:
        return DriverUnavailable(
            "openstack-config",
            f"{self}: {problem}; the driver reads this entry of clouds.yaml at the next scan again",
        )

    def no_entry(self, file: str, entries: Sequence[str]) -> DriverUnavailable:
        """`entries`: the names that there are instead."""
        more = f" and {len(entries) - NAMED} more" if len(entries) > NAMED else ""
        there = ", ".join(repr(shown(name, 64)) for name in entries[:NAMED]) + more
        return DriverUnavailable(
            "openstack-config",
            f"{self}: {file} has no entry {self._cloud!r}, it has {there or 'none at all'}; name one of these with "
            "`cloud` (--cloud), or add the entry (`clouds_file` names another file)",
        )

    def no_file(self, places: Sequence[str]) -> DriverUnavailable:
        """`places`: the folders in which it was looked for."""
        return DriverUnavailable(
            "openstack-config",
            f"{self}: there is no clouds.yaml in {', '.join(places)}; put one there, or name it with `clouds_file` or "
            "$OS_CLIENT_CONFIG_FILE",
        )

    def credentials(self, said: str) -> DriverUnavailable:
        return DriverUnavailable(
            "openstack-credentials",
            f"{self}: Keystone refused the credentials{_because(said)}; a password or application credential was "
            f"changed, expired or disabled: put the right one into the entry {self._cloud!r} of clouds.yaml",
        )

    def token_refused(self, service: Service, said: str) -> DriverUnavailable:
        return DriverUnavailable(
            "openstack-token-refused",
            f"{self}: {service.project} refused a token that Keystone had just given (401){_because(said)}; look "
            f"at keystone_authtoken in {service.project}'s settings, its memcached, and its clock",
            transient=True,
        )

    def denied(self, service: Service, call: str, said: str) -> Denied:
        return Denied(
            "openstack-role",
            f"{self}: {service.project} forbids {call} to these credentials (403){_because(said)}; give the user "
            "of this clouds.yaml entry the role that the service's policy asks for (docs/drivers/openstack.md)",
        )

    def no_service(self, service: Service, interface: str, region: str) -> DriverUnavailable:
        return DriverUnavailable(
            "openstack-no-service",
            f"{self}: the service catalogue has no {service} endpoint for interface {interface!r}"
            f"{f' in region {region!r}' if region else ''}; set `region` or `interface`, or register the endpoint",
        )

    def too_old(self, service: Service, problem: str) -> DriverUnavailable:
        return DriverUnavailable("openstack-too-old", f"{self}: {service.project} is too old or too new: {problem}")

    def cut(self, service: Service, address: str) -> DriverUnavailable:
        return Cut(
            "openstack-unreachable",
            f"{self}: {service.project} at {address} closes connections without an answer; is it starting, ending, or "
            "behind a proxy that has lost it?",
            transient=True,
        )

    def unreachable(self, service: Service, address: str, problem: str) -> DriverUnavailable:
        return DriverUnavailable(
            "openstack-unreachable",
            f"{self}: {service.project} at {address} cannot be reached: {problem}; is the service running, and "
            "is the way to it open from here?",
            transient=True,
        )

    def untrusted(self, service: Service, address: str, problem: str) -> DriverUnavailable:
        return DriverUnavailable(
            "openstack-tls",
            f"{self}: TLS with {service.project} at {address} failed: {problem}; set `cacert` in the clouds.yaml "
            "entry if the cloud has a CA of its own",
        )

    def late(self, service: Service, call: str, seconds: float) -> DriverUnavailable:
        return DriverUnavailable(
            "openstack-timeout",
            f"{self}: {service.project} did not answer {call} within {seconds:g} s; it accepts connections and then "
            "hangs, or is overloaded: look at its processes, its database and its message queue",
            transient=True,
        )

    def failing(self, service: Service, call: str, status: int, said: str, tries: int) -> DriverUnavailable:
        """`status` is 429 or 5xx, seen `tries` times."""
        what = "asks to slow down" if status == 429 else "fails"
        todo = "lower scan.requests_per_second" if status == 429 else f"look at {service.project}'s log"
        return DriverUnavailable(
            "openstack-failing",
            f"{self}: {service.project} {what}: {call} was answered with {status}"
            f"{f' {tries} times' if tries > 1 else ''}{_because(said)}; {todo}",
            transient=True,
        )

    def unexpected(self, service: Service, call: str, status: int, said: str) -> DriverUnavailable:
        text = f"{self}: {service.project} answered {call} with {status}{_because(said)}"
        match status:
            case 400:
                return BadRequest("openstack-bad-request", f"{text}; this cloud understands that call differently")
            case 404:
                return Missing("openstack-missing", f"{text}; is that address in the service catalogue right?")
        return DriverUnavailable("openstack-unexpected", f"{text}, which this call should never be answered with")

    def redirected(self, service: Service, call: str, status: int, target: str) -> DriverUnavailable:
        return DriverUnavailable(
            "openstack-redirect",
            f"{self}: {service.project} answered {call} with {status} and points to {target[:_QUOTED]!r}; a token is "
            "never sent on: put the right address into the service catalogue",
        )

    def nonsense(self, service: Service, call: str, kind: str, problem: str, body: bytes) -> DriverUnavailable:
        return DriverUnavailable(
            "openstack-nonsense",
            f"{self}: {service.project} answered {call} with something else than its API says "
            f"({kind or 'no content type'}: {problem}); it began with {_clean(body)!r}: does a proxy or another "
            "program answer in its place?",
            transient=True,
        )

    def too_big(self, service: Service, call: str, limit: int) -> DriverUnavailable:
        return DriverUnavailable(
            "openstack-too-big",
            f"{self}: {service.project}'s answer to {call} is over {limit >> 20} MiB; raise max_response_mib if the "
            "cloud is that large",
        )

    def endless(self, service: Service, call: str, pages: int) -> DriverUnavailable:
        return DriverUnavailable(
            "openstack-endless",
            f"{self}: {service.project}'s list for {call} was not at its end when the scan had read {pages} pages of "
            "all its lists, which is the most; is page_size, or the most that the service gives at once, too small "
            "for this cloud, or does a proxy give the same pages again?",
        )

    def busy(self, calls: int) -> DriverUnavailable:
        return DriverUnavailable(
            "openstack-busy",
            f"{self}: {calls} earlier calls still hang in the cloud past their deadline; no further one is made "
            "before one of them ends",
            transient=True,
        )

    def closed(self) -> DriverUnavailable:
        return DriverUnavailable("driver-closed", f"{self}: the driver is closed")


def message(body: bytes) -> str:
    """The service's own words in an error's body, whichever service it is; "" if there are none."""
    try:
        decoded: object = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return ""
    # {"itemNotFound": {"message": …}}, {"error": {"message": …}}, {"NeutronError": {…}}, {"errors": [{"detail": …}]}
    for _ in range(3):
        if isinstance(decoded, dict):
            texts = [decoded.get(key) for key in ("message", "detail", "title")]
            said = next((text for text in texts if isinstance(text, str) and text.strip()), None)
            if said is not None:
                return _clean(said.encode())
            decoded = next(iter(decoded.values()), None)
        elif isinstance(decoded, list):
            decoded = next(iter(decoded), None)
    return ""


def cause(error: BaseException) -> str:
    """What the system said at the bottom of a chain of exceptions, without the addresses that libraries add."""
    if is_cut(error):
        return "it closed the connection without an answer"
    links = chain(error)
    for link in reversed(links):
        if isinstance(link, socket.gaierror):
            return f"its name cannot be resolved ({link.strerror})"
        if isinstance(link, ssl.SSLError):
            return getattr(link, "verify_message", "") or link.reason or "TLS error"
        if isinstance(link, TimeoutError):
            return "no connection within the time allowed"
        if isinstance(link, OSError) and link.errno is not None:
            return (link.strerror or errno.errorcode.get(link.errno, str(link.errno))).lower()
    return type(links[-1]).__name__


def is_tls(error: BaseException) -> bool:
    return any(isinstance(link, ssl.SSLError) for link in chain(error))


def is_cut(error: BaseException) -> bool:
    """Whether there was a connection, and the other side closed it instead of answering."""
    return any(
        isinstance(link, ConnectionResetError | BrokenPipeError | http.client.RemoteDisconnected)
        for link in chain(error)
    )


def chain(error: BaseException) -> list[BaseException]:
    """An exception and what it was made from; some libraries keep the first one only as an argument."""
    links: list[BaseException] = []
    todo: list[BaseException] = [error]
    while todo and len(links) < 20:
        link = todo.pop(0)
        if link in links:
            continue
        links.append(link)
        linked = (link.__cause__, link.__context__, getattr(link, "reason", None), *link.args)
        todo += [thing for thing in linked if isinstance(thing, BaseException)]
    return links


def _because(said: str) -> str:
    return f": {said}" if said else ""


def _clean(body: bytes) -> str:
    """At most 200 printable characters on one line."""
    text = " ".join(body[: 4 * _QUOTED].decode("utf-8", "replace").split())
    return "".join(c for c in text if c.isprintable())[:_QUOTED].rstrip(" .")
