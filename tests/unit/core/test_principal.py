"""Requests that an application credential is good for."""

from __future__ import annotations

import time

import pytest

from banyan.core.principal import AllowedRequest, fits_path


@pytest.mark.parametrize(
    ("pattern", "path", "fits"),
    [
        ("/v2.1/servers", "/v2.1/servers", True),
        ("/v2.1/servers", "/v2.1/servers/a", False),
        ("/v2.1/servers", "/v2.1", False),
        ("/v2.1/servers/*", "/v2.1/servers/a", True),
        ("/v2.1/servers/*", "/v2.1/servers", False),
        ("/v2.1/servers/*", "/v2.1/servers/a/b", False),
        ("/v2.1/servers/{id}/action", "/v2.1/servers/a/action", True),
        ("/v2.1/**", "/v2.1/servers/a/action", True),
        ("/v2.1/**", "/v2.1", True),
        ("/v2.1/**", "/v3/servers", False),
        ("/**/action", "/v2.1/servers/a/action", True),
        ("/**/action", "/v2.1/servers/a/actions", False),
        ("/**", "/anything/at/all", True),
        ("/**/a/**/b", "/x/a/y/z/b", True),
        ("/**/a/**/b", "/x/y/z/b", False),
        ("/v2.1/serv*", "/v2.1/servers", False),
    ],
)
def test_paths_fit_by_segments(pattern: str, path: str, fits: bool) -> None:
    assert fits_path(pattern, path) is fits


def test_a_pattern_of_many_stars_takes_no_longer() -> None:
    began = time.perf_counter()
    assert not fits_path("/**" * 80 + "/x", "/a" * 500)
    assert time.perf_counter() - began < 1.0


def test_service_and_method_count() -> None:
    rule = AllowedRequest("compute", "GET", "/v2.1/servers")
    assert rule.fits("compute", "GET", "/v2.1/servers") and rule.fits("compute", "HEAD", "/v2.1/servers")
    assert not rule.fits("compute", "POST", "/v2.1/servers") and not rule.fits("image", "GET", "/v2.1/servers")
