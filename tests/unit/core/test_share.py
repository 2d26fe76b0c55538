"""What a rack offers: shell patterns on whole values, never on parts of them."""

from __future__ import annotations

import pytest

from banyan.core.host import Host
from banyan.core.share import OFFER_ALL, Share, matches

HOST = Host("1", "lab-7", {}, aggregates=("ssd", "fast"), availability_zone="az1")


@pytest.mark.parametrize(
    ("share", "offered"),
    [
        (OFFER_ALL, True),
        (Share(hosts=()), False),
        (Share(hosts=("lab-*",)), True),
        (Share(hosts=("lab",)), False),
        (Share(hosts=("LAB-7",)), False),
        (Share(availability_zones=("az1",)), True),
        (Share(availability_zones=("az",)), False),
        (Share(availability_zones=("az1xyz",)), False),
        (Share(aggregates=("hdd", "fast")), True),
        (Share(aggregates=("hdd",)), False),
        (Share(aggregates=()), False),
        (Share(aggregates=("*",)), True),
        (Share(hosts=("lab-7",), availability_zones=("az2",)), False),
    ],
)
def test_a_host_is_offered_if_every_part_matches(share: Share, offered: bool) -> None:
    assert share.offers(HOST) is offered
    assert share.mark(HOST).offered is offered


def test_a_host_in_no_aggregate_is_offered_only_to_all() -> None:
    bare = Host("2", "lab-8", {})
    assert Share(aggregates=("*",)).offers(bare)
    assert not Share(aggregates=("?*",)).offers(bare)


def test_marking_changes_nothing_that_is_right() -> None:
    assert OFFER_ALL.mark(HOST) is HOST


@pytest.mark.parametrize(("patterns", "value"), [(("*",), ""), (("a?",), "ab"), (("x", "a*"), "abc"), (("[ab]",), "b")])
def test_any_pattern_suffices(patterns: tuple[str, ...], value: str) -> None:
    assert matches(patterns, value)
