"""The blocking half: openstacksdk's configuration and keystoneauth's session, behind one guard.

Everything here runs on a lane's thread (lanes.py), never on the event loop. `Guard` stands where bytes leave, below
redirects and re-authentication: nothing but GET and token requests pass it, and in mode `place` the one write that
`writes` let its thread send. Answers are read up to a deadline and a size, whatever the other side does. `asking` adds
pace and retries.
"""

from __future__ import annotations

import os
import threading
import warnings
from argparse import Namespace
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import msgspec
import requests
import urllib3
from keystoneauth1 import exceptions as ksa
from keystoneauth1.session import Session, TCPKeepAliveAdapter

from banyan.core.records import DriverUnavailable
from banyan.drivers.openstack import reasons, writes
from banyan.drivers.openstack.endpoints import WANTED, Endpoint, Service, base, read_offer
from banyan.drivers.openstack.lanes import Overdue
from banyan.drivers.openstack.microversions import Microversion, TooOld, agree
from banyan.drivers.openstack.options import Mode, OpenStackOptions

if TYPE_CHECKING:
    from keystoneauth1.plugin import BaseAuthPlugin
    from openstack.config.cloud_region import CloudRegion

# Query parameters; a tuple repeats its name.
Params = Mapping[str, str | tuple[str, ...]]
NO_PARAMS: Params = {}

CONNECT_TIMEOUT = 10.0
_CHUNK = 256 * 1024
_PIECE_OF_ERROR = 64 * 1024
# Connections that are kept to one service; more are made when needed.
_CONNECTIONS = 32
# A project's token is had anew so many seconds before its end.
_SOON = 120


class Guard(TCPKeepAliveAdapter):
    """Counts what leaves, and lets nothing leave that could change a cloud.

    GET and HEAD read. A POST without a token can ask for one and for nothing else: services act only
    for a token. (Tokens are asked for by POST, also of an OpenID Connect provider.) A write passes only where this very
    thread was let send it, to this very address; in mode `observe` no thread is.
    """

    def __init__(self, mode: Mode) -> None:
        self.requests = 0
        self._mode = mode
        self._lock = threading.Lock()
        self._let = threading.local()
        super().__init__(pool_maxsize=_CONNECTIONS)

    @contextmanager
    def letting(self, ask: Ask, url: str) -> Iterator[None]:
        """While it lasts this thread may send `ask` to `url`. Raises writes.Forbidden for what is in no list."""
        if ask.method == "GET":
            yield
            return
        if self._mode is not Mode.PLACE:
            raise writes.Forbidden(f"the observing driver must never send {ask}")
        writes.check(ask.service, ask.method, ask.path, ask.body)
        with self._passing(ask.method, url):
            yield

    @contextmanager
    def rescoping(self, keystone: str) -> Iterator[None]:
        """While it lasts this thread may ask Keystone for another token with one that it has."""
        with self._passing("POST", f"{keystone}/auth/tokens"):
            yield

    @contextmanager
    def _passing(self, method: str, url: str) -> Iterator[None]:
        # As the address will be when it is sent.
        self._let.call = (method, requests.Request(method, url).prepare().url)
        try:
            yield
        finally:
            self._let.call = None

    def send(self, request: requests.PreparedRequest, *args: object, **kwargs: object) -> requests.Response:
        method = (request.method or "").upper()
        token = request.headers.get("X-Auth-Token")
        let = getattr(self._let, "call", None) == (method, request.url)
        if method not in ("GET", "HEAD") and not (method == "POST" and token is None) and not let:
            raise AssertionError(f"the observing driver must never send {method} {request.path_url}")
        with self._lock:
            self.requests += 1
        return super().send(request, *args, **kwargs)  # type: ignore[arg-type]  # the arguments are the session's own


@dataclass(frozen=True, slots=True)
class Ask:
    """One request. `timeout` is seconds; `overdue` is asked between pieces of the answer. `body` is sent as JSON.
    `project`: whose token it is asked with, "" for that of the entry. `version`: another microversion than is agreed.
    """

    service: Service
    path: str
    timeout: float
    overdue: Overdue
    params: Params
    method: str = "GET"
    body: Mapping[str, object] | None = None
    project: str = ""
    version: Microversion | None = None

    def __str__(self) -> str:
        # Never the body: it may hold a password or user data.
        return f"{self.method} {self.path}"


@dataclass(frozen=True, slots=True)
class Reply:
    """One whole answer. `kind`, `retry_after` and `location` are headers, "" where there is none."""

    status: int
    body: bytes
    kind: str = ""
    retry_after: str = ""
    location: str = ""


@dataclass(frozen=True, slots=True)
class Me:
    """Whom the credentials speak for."""

    project: str
    project_name: str
    domain: str
    user: str
    roles: tuple[str, ...]
    user_id: str = ""


@dataclass(slots=True)
class _Session:
    """What was opened; `serial` is Access's wish at that time."""

    serial: int
    region: CloudRegion
    session: Session
    auth: BaseAuthPlugin
    me: Me
    endpoints: dict[Service, Endpoint | DriverUnavailable] = field(default_factory=dict)
    scopes: dict[str, BaseAuthPlugin] = field(default_factory=dict)


class Access:
    """One cloud through its clouds.yaml entry. Blocking; safe from two threads.

    Raises DriverUnavailable for everything that goes wrong.
    """

    def __init__(self, rack: str, options: OpenStackOptions) -> None:
        self.where = reasons.Where(rack, options.cloud, options.region)
        self._rack = rack
        self._options = options
        self._guard = Guard(options.mode)
        self._lock = threading.RLock()
        self._wanted = 0
        self._session: _Session | None = None

    @property
    def sent(self) -> int:
        """All that left since the start, token requests included."""
        return self._guard.requests

    def forget(self) -> None:
        """The next call reads clouds.yaml, asks for a token and for versions again. Never blocks."""
        self._wanted += 1

    def close(self) -> None:
        """Drops idle connections. Never blocks."""
        self.forget()
        opened = self._session
        if opened is not None:
            opened.session.session.close()

    def me(self) -> Me:
        return self._opened().me

    def region(self) -> str:
        return self._opened().region.get_region_name() or ""

    def endpoint(self, service: Service, overdue: Overdue) -> Endpoint:
        """Where `service` is; its microversion is agreed on at the first call (one GET)."""
        opened = self._opened()
        with self._lock:
            found = opened.endpoints.get(service)
            if found is None:
                found = self._find(opened, service, overdue)
                opened.endpoints[service] = found
        if isinstance(found, DriverUnavailable):
            raise found
        return found

    def get(self, ask: Ask) -> Reply:
        """Asks a path below its service's endpoint. Statuses of 400 and above come back as replies, but for 401."""
        endpoint = self.endpoint(ask.service, ask.overdue)
        return self._get(self._opened(), ask, endpoint.url + ask.path, endpoint.headers(ask.version))

    def _scope(self, opened: _Session, ask: Ask) -> BaseAuthPlugin | None:
        """A token for another project than the entry's, had for the entry's own; None is that."""
        if not ask.project or ask.project == opened.me.project:
            return None
        keystone = self.endpoint(Service.IDENTITY, ask.overdue)
        with self._lock:
            found = opened.scopes.get(ask.project)
            if found is None or found.get_access(opened.session).will_expire_soon(_SOON):  # type: ignore[attr-defined]  # as above
                from keystoneauth1.identity import v3

                try:
                    token = opened.auth.get_token(opened.session) or ""
                    found = v3.Token(keystone.url, token, project_id=ask.project, reauthenticate=False)
                    with self._guard.rescoping(keystone.url):
                        found.get_access(opened.session)
                except ksa.ClientException as error:
                    raise self._token_error(keystone.url, error) from error
                opened.scopes[ask.project] = found
        return found

    # --- opening --------------------------------------------------------------------------------

    def _opened(self) -> _Session:
        with self._lock:
            wanted = self._wanted
            opened = self._session
            if opened is None or opened.serial != wanted:
                if opened is not None:
                    opened.session.session.close()
                opened = self._session = self._open(wanted)
            return opened

    def _open(self, serial: int) -> _Session:
        region = self._configured()
        self.where = reasons.Where(self._rack, self._options.cloud, region.get_region_name() or "")
        session = region.get_session()
        session.session.mount("http://", self._guard)
        session.session.mount("https://", self._guard)
        session.timeout = self._options.timeout
        session.redirect = False
        auth = session.auth
        if auth is None:
            raise self.where.config("the entry names no way to authenticate (auth_type: none)")
        return _Session(serial, region, session, auth, self._authenticate(region, session, auth))

    def _configured(self) -> CloudRegion:
        # Imported here, on a thread: openstacksdk takes half a second, which the event loop does not have.
        from openstack import exceptions as sdk
        from openstack.config.loader import CONFIG_FILES, OpenStackConfig

        # openstacksdk 4 warns of InfluxDB whether or not anybody asked for it.
        warnings.filterwarnings("ignore", message="Support for InfluxDB")
        o = self._options
        # argparse's None means "not chosen" to the SDK, which then takes the entry's own.
        chosen = Namespace(os_region_name=o.region or None, os_interface=o.interface.value if o.interface else None)
        try:
            # A file that was named is the only one: $OS_CLIENT_CONFIG_FILE would go before it.
            config = OpenStackConfig(
                config_files=[o.clouds_file] if o.clouds_file else None, load_envvars=not o.clouds_file
            )
            if o.clouds_file and config.config_filename != o.clouds_file:
                raise self.where.config(f"there is no readable file {o.clouds_file!r} (option clouds_file)")
            entries = sorted(map(str, config.get_cloud_names()))
            if o.cloud not in entries:
                if config.config_filename is not None:
                    raise self.where.no_entry(config.config_filename, entries)
                raise self.where.no_file(tuple(dict.fromkeys(os.path.dirname(file) for file in CONFIG_FILES)))
            return config.get_one(cloud=o.cloud, argparse=chosen)
        except (sdk.SDKException, ksa.ClientException) as error:
            raise self.where.config(f"clouds.yaml: {error}") from error
        except (OSError, ValueError, TypeError, AttributeError, KeyError) as error:
            # A file that is no YAML, or not of the right form, ends in any of these.
            raise self.where.config(f"clouds.yaml cannot be read: {type(error).__name__}") from error

    def _authenticate(self, region: CloudRegion, session: Session, auth: BaseAuthPlugin) -> Me:
        address = str(region.config.get("auth", {}).get("auth_url", ""))
        try:
            access = auth.get_access(session)  # type: ignore[attr-defined]  # every plugin that Keystone has can do this; the base class does not say so
        except ksa.ClientException as error:
            raise self._token_error(address, error) from error
        except AttributeError as error:
            raise self.where.config("the entry's auth_type gives no project's token") from error
        return Me(
            access.project_id or "",
            access.project_name or "",
            access.project_domain_id or "",
            access.username or "",
            tuple(sorted(access.role_names or ())),
            access.user_id or "",
        )

    def _find(self, opened: _Session, service: Service, overdue: Overdue) -> Endpoint | DriverUnavailable:
        region = opened.region
        address = region.get_endpoint(service.value)
        if not address:
            interface, where = region.get_interface(service.value), region.get_region_name(service.value)
            try:
                found = opened.auth.get_endpoint_data(
                    opened.session,
                    service_type=region.get_service_type(service.value),
                    interface=interface,
                    region_name=where,
                    service_name=region.get_service_name(service.value),
                    discover_versions=False,
                )
            except ksa.CatalogException:
                found = None
            except ksa.ClientException as error:
                raise self.where.config(f"the service catalogue cannot be read: {error}") from error
            if found is None or not found.catalog_url:
                return self.where.no_service(service, str(interface), where or "")
            address = found.catalog_url
        url = base(service, address, opened.me.project)
        if service not in WANTED:
            return Endpoint(service, url)
        return self._versioned(opened, service, url, overdue)

    def _versioned(
        self, opened: _Session, service: Service, url: str, overdue: Overdue
    ) -> Endpoint | DriverUnavailable:
        ask = Ask(service, "/ (its versions)", min(self._options.timeout, CONNECT_TIMEOUT), overdue, NO_PARAMS)
        reply = self._get(opened, ask, url + "/", {})
        if reply.status not in (200, 300):
            raise problem(self.where, ask, reply)
        try:
            offer = read_offer(reply.body)
            agreed = agree(WANTED[service], offer.low, offer.high)
            newest = Microversion(*offer.high[:2]) if offer.high is not None else None
            return Endpoint(service, url, agreed, str(offer), newest)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise self.where.nonsense(service, str(ask), reply.kind, str(error), reply.body) from error
        except TooOld as error:
            return self.where.too_old(service, str(error))

    # --- one request ----------------------------------------------------------------------------

    def _get(self, opened: _Session, ask: Ask, url: str, headers: Mapping[str, str]) -> Reply:
        scope = self._scope(opened, ask)
        try:
            with self._guard.letting(ask, url):
                response = self._sent(opened, ask, url, headers, scope)
            with closing(response):
                body = self._read(response, ask)
        except ksa.HttpError as error:
            # Statuses of the call itself come back as replies: this is Keystone's word about a new token.
            raise self._token_error("", error) from error
        except (ksa.ClientException, requests.RequestException) as error:
            raise self._connection_error(ask.service, str(ask), url, ask.timeout, error) from error
        if response.status_code == 401:
            opened.scopes.pop(ask.project, None)
            raise self.where.token_refused(ask.service, reasons.message(body))
        header = response.headers
        return Reply(
            response.status_code,
            body,
            header.get("Content-Type", ""),
            header.get("Retry-After", ""),
            header.get("Location", ""),
        )

    def _sent(
        self, opened: _Session, ask: Ask, url: str, headers: Mapping[str, str], scope: BaseAuthPlugin | None
    ) -> requests.Response:
        return opened.session.request(
            url,
            ask.method,
            auth=scope,
            json=ask.body,
            params=dict(ask.params),
            headers={"Accept": "application/json", **headers},
            timeout=(min(ask.timeout, CONNECT_TIMEOUT), ask.timeout),
            stream=True,
            raise_exc=False,
            log=False,
            redirect=False,
            connect_retries=0,
        )

    def _read(self, response: requests.Response, ask: Ask) -> bytes:
        limit = self._options.max_response if response.status_code < 400 else _PIECE_OF_ERROR
        pieces: list[bytes] = []
        size = 0
        for piece in response.iter_content(_CHUNK):
            size += len(piece)
            if size > limit:
                if response.status_code >= 400:
                    break
                raise self.where.too_big(ask.service, str(ask), limit)
            if ask.overdue():
                raise self.where.late(ask.service, str(ask), ask.timeout)
            pieces.append(piece)
        return b"".join(pieces)

    # --- foreign errors become ours -------------------------------------------------------------

    def _connection_error(
        self, service: Service, call: str, url: str, timeout: float, error: Exception
    ) -> DriverUnavailable:
        address = url.split("?", 1)[0]
        if reasons.is_tls(error):
            return self.where.untrusted(service, address, reasons.cause(error))
        links = reasons.chain(error)
        if any(isinstance(link, requests.ReadTimeout | urllib3.exceptions.ReadTimeoutError) for link in links):
            return self.where.late(service, call, timeout)
        if reasons.is_cut(error):
            return self.where.cut(service, address)
        return self.where.unreachable(service, address, reasons.cause(error))

    def _token_error(self, address: str, error: ksa.ClientException) -> DriverUnavailable:
        """Why there is no token: what Keystone answered, or that it did not. keystoneauth wraps either."""
        call = "the token request"
        links = reasons.chain(error)
        refusal = next((link for link in links if isinstance(link, ksa.HttpError)), None)
        if refusal is None:
            if any(isinstance(link, ksa.ConnectionError | ksa.SSLError) for link in links):
                return self._connection_error(Service.IDENTITY, call, address, self._options.timeout, error)
            return self.where.config(f"no token can be had with this entry: {error}")
        status = int(refusal.http_status)
        body = refusal.response.content[:_PIECE_OF_ERROR] if refusal.response is not None else b""
        said = reasons.message(body)
        if status == 401:
            return self.where.credentials(said)
        if status == 403:
            return self.where.denied(Service.IDENTITY, call, said)
        if status == 429 or status >= 500:
            return self.where.failing(Service.IDENTITY, call, status, said, 1)
        return self.where.unexpected(Service.IDENTITY, call, status, said)


def problem(where: reasons.Where, ask: Ask, reply: Reply, tries: int = 1) -> DriverUnavailable:
    """Why a reply that is not 200 is no answer."""
    said = reasons.message(reply.body)
    service, call = ask.service, str(ask)
    if reply.status == 403:
        return where.denied(service, call, said)
    if reply.status == 429 or reply.status >= 500:
        return where.failing(service, call, reply.status, said, tries)
    if 300 <= reply.status < 400:
        return where.redirected(service, call, reply.status, reply.location)
    return where.unexpected(service, call, reply.status, said)
