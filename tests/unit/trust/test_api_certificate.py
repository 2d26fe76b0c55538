from __future__ import annotations

from collections.abc import Sequence

import pytest

from banyan.core.time import Wall
from banyan.trust.api_certificate import LEAST_LEFT, still_fits
from banyan.trust.authority import API_LIFE, api_certificate
from tests.unit.trust.world import NOW, chance, seed


def made(hosts: Sequence[str] = ("a.example", "192.0.2.1"), key: str = "api", now: Wall = NOW) -> bytes:
    return api_certificate(seed(key), hosts, serial=chance("s"), now=now).certificate


def test_a_certificate_is_kept_while_it_says_the_same() -> None:
    later = Wall(NOW + API_LIFE - LEAST_LEFT - 1)
    assert still_fits(made(), made(now=later), later)


@pytest.mark.parametrize(
    ("held", "now"),
    [
        (made(hosts=("a.example",)), NOW),
        (made(key="another"), NOW),
        (made(), Wall(NOW + API_LIFE - LEAST_LEFT)),
        (b"", NOW),
        (b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", NOW),
    ],
)
def test_another_is_made_when_it_does_not(held: bytes, now: Wall) -> None:
    assert not still_fits(held, made(now=now), now)
