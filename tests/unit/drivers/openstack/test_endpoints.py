"""Where services are, and which microversion is asked for."""

from __future__ import annotations

import msgspec
import pytest

from banyan.drivers.openstack.endpoints import Offer, Service, base, read_offer
from banyan.drivers.openstack.microversions import COMPUTE, PLACEMENT, Microversion, TooOld, agree


@pytest.mark.parametrize(
    ("service", "address", "url"),
    [
        (Service.COMPUTE, "http://c:8774/v2.1", "http://c:8774/v2.1"),
        (Service.COMPUTE, "http://c:8774/v2.1/", "http://c:8774/v2.1"),
        (Service.COMPUTE, "http://c:8774/v2.1/p1", "http://c:8774/v2.1"),
        (Service.COMPUTE, "http://c:8774/v2/p1", "http://c:8774/v2.1"),
        (Service.COMPUTE, "https://api/compute", "https://api/compute/v2.1"),
        (Service.PLACEMENT, "https://api/placement/", "https://api/placement"),
        (Service.IDENTITY, "http://k:5000", "http://k:5000/v3"),
        (Service.IDENTITY, "http://k:5000/v2.0", "http://k:5000/v3"),
        (Service.IMAGE, "http://g:9292", "http://g:9292/v2"),
        (Service.IMAGE, "http://g:9292/v2", "http://g:9292/v2"),
        (Service.NETWORK, "http://n:9696/", "http://n:9696/v2.0"),
    ],
)
def test_an_address_of_the_catalogue_becomes_that_of_the_wanted_version(
    service: Service, address: str, url: str
) -> None:
    assert base(service, address, "p1") == url


@pytest.mark.parametrize(
    ("body", "offer"),
    [
        (b'{"version": {"id": "v2.1", "version": "2.104", "min_version": "2.1"}}', Offer((2, 1), (2, 104))),
        (
            b'{"versions": [{"id": "v2.0", "version": ""}, {"id": "v2.1", "version": "2.79", "min_version": "2.1"}]}',
            Offer((2, 1), (2, 79)),
        ),
        (b'{"versions": [{"id": "v1.0", "max_version": "1.36", "min_version": "1.0"}]}', Offer((1, 0), (1, 36))),
        (b'{"versions": [{"id": "v2.0"}]}', Offer(None, None)),
    ],
)
def test_version_documents(body: bytes, offer: Offer) -> None:
    assert read_offer(body) == offer


@pytest.mark.parametrize("body", [b"<html>", b"[]", b'{"versions": []}', b'{"version": 3}'])
def test_what_is_no_version_document_is_refused(body: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        read_offer(body)


@pytest.mark.parametrize(
    ("high", "chosen"), [((2, 104), (2, 87)), ((2, 87), (2, 87)), ((2, 80), (2, 80)), ((2, 79), (2, 79))]
)
def test_the_newest_that_both_know(high: tuple[int, int], chosen: tuple[int, int]) -> None:
    assert agree(COMPUTE, (2, 1), high) == Microversion(*chosen)


def test_compute_stays_below_the_version_that_calls_every_host() -> None:
    assert Microversion(2, 88) > COMPUTE.ceiling


@pytest.mark.parametrize(
    ("low", "high"), [((2, 1), (2, 78)), ((2, 90), (2, 104)), (None, None), ((), ()), ((2, 1), None)]
)
def test_older_than_train_is_refused(low: tuple[int, ...] | None, high: tuple[int, ...] | None) -> None:
    with pytest.raises(TooOld, match="2\\."):
        agree(COMPUTE, low, high)


def test_train_has_both_floors() -> None:
    assert agree(COMPUTE, (2, 1), (2, 79)) == COMPUTE.floor
    assert agree(PLACEMENT, (1, 0), (1, 36)) == PLACEMENT.floor
