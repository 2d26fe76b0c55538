"""Fetches images from addresses that users name: core.image_ports.Fetcher over HTTP.

Each hop is judged anew, by its URL and by every address that its host resolves to; the connection is made to an
address that was judged, never to what the name means a moment later. What goes wrong is said without telling the
user anything of the network that this machine is in.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator
from typing import Final
from urllib.parse import urljoin, urlsplit

import httpx
import structlog

from banyan.core.errors import BadInput
from banyan.core.image_ports import FetchFailed
from banyan.zone.images.addresses import AddressRules, Place, check_address, judged

log = structlog.get_logger("banyan.images")

_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
# Seconds for a name to be resolved, for a connection, and between two pieces of data.
_RESOLVE, _CONNECT, _READ = 10.0, 10.0, 60.0
_PIECE: Final = 1 << 18
# Addresses of one host that are tried.
_TRIED: Final = 3


class HttpFetcher:
    """`redirects`: how many are followed for one image."""

    def __init__(self, rules: AddressRules, *, redirects: int = 5) -> None:
        self._rules = rules
        self._redirects = redirects

    async def fetch(self, url: str) -> AsyncGenerator[bytes, None]:
        limits = httpx.Timeout(_CONNECT, read=_READ)
        # Settings of the environment, such as proxies, are for those who ask of their own accord.
        async with httpx.AsyncClient(trust_env=False, follow_redirects=False, timeout=limits) as client:
            for _ in range(self._redirects + 1):
                place = self._judged(url)
                response = await self._ask(client, url, place)
                try:
                    if response.status_code in _REDIRECTS:
                        url = self._next(url, place, response)
                        continue
                    if response.status_code != 200:
                        raise FetchFailed(f"{place.host} answered with status {response.status_code}")
                    async for piece in response.aiter_raw(_PIECE):
                        yield piece
                    return
                except httpx.HTTPError as error:
                    log.info("an image was not fetched", host=place.host, error=repr(error)[:200])
                    raise FetchFailed(f"{place.host} stopped sending before the image was whole") from error
                finally:
                    await response.aclose()
        raise FetchFailed(f"there were more than {self._redirects} redirects")

    def _judged(self, url: str) -> Place:
        try:
            return judged(url, self._rules)
        except BadInput as error:
            raise FetchFailed(error.text) from error

    def _next(self, url: str, place: Place, response: httpx.Response) -> str:
        target = urljoin(url, str(response.headers.get("location", "")))
        if place.scheme == "https" and urlsplit(target).scheme != "https":
            raise FetchFailed(f"{place.host} leads away from https, which is not followed")
        return target

    async def _ask(self, client: httpx.AsyncClient, url: str, place: Place) -> httpx.Response:
        """The head of the answer; the connection goes to an address that was judged."""
        parts = urlsplit(url)
        target = parts.path or "/"
        if parts.query:
            target += f"?{parts.query}"
        failure: httpx.HTTPError | None = None
        for address in (await self._addresses(place))[:_TRIED]:
            there = f"[{address}]" if ":" in address else address
            request = client.build_request(
                "GET",
                f"{place.scheme}://{there}:{place.port}{target}",
                headers={"Host": parts.netloc, "Accept-Encoding": "identity"},
                extensions={"sni_hostname": place.host},
            )
            try:
                return await client.send(request, stream=True)
            except httpx.HTTPError as error:
                failure = error
        log.info("an image was not fetched", host=place.host, error=repr(failure)[:200])
        raise FetchFailed(f"{place.host} could not be reached") from failure

    async def _addresses(self, place: Place) -> list[str]:
        """Those of the host, if every one of them may be connected to."""
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(_RESOLVE):
                found = await loop.getaddrinfo(place.host, place.port, type=socket.SOCK_STREAM)
        except (OSError, TimeoutError, UnicodeError) as error:
            raise FetchFailed(f"{place.host} could not be resolved") from error
        addresses = list(dict.fromkeys(str(info[4][0]) for info in found))
        try:
            for address in addresses:
                check_address(address, self._rules)
        except BadInput as error:
            raise FetchFailed(error.text) from error
        return addresses
