"""The asynchronous half: one cloud asked at a pace, with deadlines and few retries, its answers decoded.

`Asker` is what the readers of a scan need (a fake of it needs no cloud); `Cloud` is the real one. It must never
wait without a deadline, nor retry without a budget: the next scan is the retry that counts. Blocking work and
decoding happen on `lanes`; errors come as DriverUnavailable from `reasons`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from email.utils import parsedate_to_datetime
from functools import partial
from typing import Protocol, TypeVar

import msgspec

from banyan.core.ports import Clock, Ids
from banyan.core.records import DriverUnavailable
from banyan.core.time import Mono
from banyan.drivers.openstack.access import CONNECT_TIMEOUT, NO_PARAMS, Access, Ask, Me, Params, Reply, problem
from banyan.drivers.openstack.endpoints import Endpoint, Service
from banyan.drivers.openstack.lanes import Lanes, LanesBusy, Overdue
from banyan.drivers.openstack.microversions import Microversion
from banyan.drivers.openstack.reasons import BadRequest, Cut, Where

T = TypeVar("T")

# One request is tried so often, one scan so often in all; waits double from the first up to the last (seconds).
TRIES = 4
RETRIES_PER_SCAN = 20
# Pages of lists, of all lists of one scan together: ten times those of 600,000 servers and 10,000 hosts.
MOST_PAGES = 10_000
FIRST_WAIT = 0.5
LAST_WAIT = 8.0
LONGEST_RETRY_AFTER = 30.0
_BUSY_STATUSES = (429, 502, 503, 504)


def lane_deadline(timeout: float) -> float:
    """Seconds for one call with all that may come before it: a token, the service's versions, a token once more."""
    return 2.25 * timeout + 2 * min(timeout, CONNECT_TIMEOUT)


class Page(Protocol):
    """One page of a list: its items' ids in order, and whether another page should be asked for."""

    def ids(self) -> list[str]: ...

    def more(self) -> bool: ...


P = TypeVar("P", bound=Page)


class Asker(Protocol):
    """GET requests to one cloud. Raises DriverUnavailable, of which Denied is 403 and Missing 404."""

    async def get(self, service: Service, path: str, shape: type[T], params: Params = NO_PARAMS) -> T: ...

    def pages(
        self, service: Service, path: str, shape: type[P], params: Params = NO_PARAMS
    ) -> AsyncGenerator[P, None]: ...

    async def aside(self, work: Callable[[], T]) -> T:
        """What `work` returns: pure work over thousands of things, done off the event loop.

        What msgspec finds wrong in it is DriverUnavailable as well.
        """


class Pace:
    """At most so many requests a second, evenly spaced; each takes its turn when it asks for it."""

    def __init__(self, per_second: float, clock: Clock) -> None:
        self._gap = 1.0 / per_second
        self._clock = clock
        self._next: Mono | None = None

    async def turn(self) -> None:
        now = self._clock.now()
        mine = now if self._next is None else max(now, self._next)
        self._next = Mono(mine + self._gap)
        await self._clock.sleep_until(mine)


class Retries:
    """What is left of a scan's budget of retries."""

    def __init__(self, left: int = RETRIES_PER_SCAN) -> None:
        self._left = left

    def take(self) -> bool:
        self._left -= 1
        return self._left >= 0


class Cloud:
    """One cloud, asked politely. `page_size` items to a page; `timeout` seconds for one request; `places`: how many
    requests may be under way at once. Several of them may share one `access`, each with a pace of its own."""

    def __init__(
        self,
        access: Access,
        clock: Clock,
        ids: Ids,
        pace: Pace,
        *,
        page_size: int,
        timeout: float,
        name: str,
        places: int = 2,
    ) -> None:
        self._access = access
        self._clock = clock
        self._ids = ids
        self._pace = pace
        self._page_size = page_size
        self._timeout = timeout
        # Of two, one is for a scan, one for a probe or a check beside it.
        self._lanes = Lanes(places, name)
        self._retries = Retries()
        self._pages = 0
        self._closed = False
        self.asked_last: Service = Service.IDENTITY

    @property
    def where(self) -> Where:
        return self._access.where

    @property
    def requests(self) -> int:
        return self._access.sent

    def begin(self) -> None:
        """A new scan: its budgets of retries and of pages are whole."""
        self._retries = Retries()
        self._pages = 0

    def forget(self) -> None:
        """After a failure: clouds.yaml, token and versions are read anew, as they may be what was wrong."""
        self._access.forget()

    def close(self) -> None:
        self._closed = True
        self._access.close()

    async def me(self) -> Me:
        """Who the credentials speak for; asks for a token if there is none."""
        self.asked_last = Service.IDENTITY
        await self._pace.turn()
        return await self._run(lambda _: self._access.me(), Service.IDENTITY, "the token request", self._timeout)

    async def region(self) -> str:
        return await self._run(lambda _: self._access.region(), Service.IDENTITY, "the token request", self._timeout)

    async def endpoint(self, service: Service) -> Endpoint:
        self.asked_last = service
        await self._pace.turn()
        work = partial(self._access.endpoint, service)
        return await self._run(work, service, "GET its versions", min(self._timeout, CONNECT_TIMEOUT))

    async def get(self, service: Service, path: str, shape: type[T], params: Params = NO_PARAMS) -> T:
        """The decoded answer. Waits its turn; retries what a busy service or its proxy answers."""
        self.asked_last = service
        tried = 1
        while True:
            await self._pace.turn()
            outcome = await self.once(service, path, shape, params, self._timeout, tried)
            if not isinstance(outcome, Busy):
                return outcome
            if tried == TRIES or not self._retries.take():
                raise outcome.error
            await self._wait(tried, outcome.retry_after)
            tried += 1

    async def once(
        self,
        service: Service,
        path: str,
        shape: type[T],
        params: Params,
        timeout: float,
        tried: int = 1,
    ) -> T | Busy:
        """One try, at once. A busy service comes back as `Busy`; all else that is no answer is raised."""

        def work(overdue: Overdue) -> T | Busy:
            return self._fetch(Ask(service, path, timeout, overdue, params), shape, tried)

        return await self._run(work, service, f"GET {path}", timeout)

    async def send(
        self,
        service: Service,
        method: str,
        path: str,
        body: Mapping[str, object] | None = None,
        project: str = "",
        version: Microversion | None = None,
    ) -> Reply:
        """One write, with the token of `project`. Statuses from 400 on come back as replies: it was not done. Only what
        is known not to have been begun (429) is tried again; raises DriverUnavailable when that is not known."""
        tried = 1
        while True:
            self.asked_last = service
            await self._pace.turn()

            def work(overdue: Overdue) -> Reply:
                ask = Ask(service, path, self._timeout, overdue, NO_PARAMS, method, body, project, version)
                return self._access.get(ask)

            reply = await self._run(work, service, f"{method} {path}", self._timeout)
            ask = Ask(service, path, self._timeout, bool, NO_PARAMS, method)
            if reply.status >= 500 or 300 <= reply.status < 400:
                raise problem(self.where, ask, reply, tried)
            if reply.status != 429:
                return reply
            if tried == TRIES or not self._retries.take():
                raise problem(self.where, ask, reply, tried)
            await self._wait(tried, reply.retry_after)
            tried += 1

    async def pages(
        self, service: Service, path: str, shape: type[P], params: Params = NO_PARAMS
    ) -> AsyncGenerator[P, None]:
        """Page after page by marker. What came on the page before may come again, after its last item went."""
        marker: str | None = None
        spare: list[str] = []
        while True:
            if self._pages >= MOST_PAGES:
                raise self.where.endless(service, f"GET {path}", MOST_PAGES)
            self._pages += 1
            asked = {**params, "limit": str(self._page_size), **({"marker": marker} if marker else {})}
            try:
                page = await self.get(service, path, shape, asked)
            except BadRequest:
                # The item that the marker names was deleted meanwhile: go on from the one before it.
                if marker is None or not spare:
                    raise
                marker = spare.pop()
                continue
            yield page
            ids = page.ids()
            if not ids or not page.more():
                return
            spare = ids[-4:-1]
            following = ids[-1]
            if following == marker:
                raise self.where.nonsense(service, f"GET {path}", "JSON", "the same page came twice", b"")
            marker = following

    def decoded(self, service: Service, reply: Reply, shape: type[T]) -> T:
        """A write's small answer. Raises DriverUnavailable for what makes no sense."""
        try:
            return msgspec.json.decode(reply.body, type=shape)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise self.where.nonsense(service, "a write", reply.kind, str(error), b"") from error

    async def aside(self, work: Callable[[], T]) -> T:
        service = self.asked_last
        try:
            return await self._run(lambda _: work(), service, "a list (reading it)", self._timeout)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise self.where.nonsense(service, "a list", "JSON", str(error), b"") from error

    # --- inside ---------------------------------------------------------------------------------

    def _fetch(self, ask: Ask, shape: type[T], tried: int) -> T | Busy:
        """On a lane's thread: the request and the decoding."""
        try:
            reply = self._access.get(ask)
        except Cut as error:
            return Busy(error)
        if reply.status in _BUSY_STATUSES:
            return Busy(problem(self.where, ask, reply, tried), reply.retry_after)
        if reply.status != 200:
            raise problem(self.where, ask, reply)
        try:
            return msgspec.json.decode(reply.body, type=shape)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise self.where.nonsense(ask.service, str(ask), reply.kind, str(error), reply.body) from error

    async def _run(self, work: Callable[[Overdue], T], service: Service, call: str, timeout: float) -> T:
        if self._closed:
            raise self.where.closed()
        try:
            return await self._lanes.run(work, lane_deadline(timeout))
        except LanesBusy as error:
            raise self.where.busy(self._lanes.places) from error
        except TimeoutError as error:
            raise self.where.late(service, call, timeout) from error

    async def _wait(self, tried: int, retry_after: str) -> None:
        longest = min(LAST_WAIT, FIRST_WAIT * 2**tried)
        asked = seconds_of(retry_after, self._clock.wall())
        wait = self._ids.uniform(FIRST_WAIT, longest) + min(asked, LONGEST_RETRY_AFTER)
        await self._clock.sleep_until(Mono(self._clock.now() + wait))


def seconds_of(retry_after: str, wall: float) -> float:
    """What a Retry-After header asks for: seconds, or a date (RFC 9110 §10.2.3); 0.0 if it is neither."""
    text = retry_after.strip()
    if text.isdecimal():
        return float(text)
    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - wall)
    except ValueError:
        return 0.0


class Busy:
    """A service that may answer later."""

    __slots__ = ("error", "retry_after")

    def __init__(self, error: DriverUnavailable, retry_after: str = "") -> None:
        self.error = error
        self.retry_after = retry_after
