"""Durations and numbers on a command line: wrong ones are refused here, by option, with what is right; nothing is sent.

The bounds are those of the API, so that neither refuses what the other takes.
"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import get_args, get_type_hints

import msgspec
import pytest

from banyan.api.zones import codes, journal, rules, servers, tokens, zones
from banyan.cli import values
from banyan.cli.main import run
from banyan.core.errors import BadInput
from tests.unit.cli.conftest import Zone

DURATIONS = [
    ("code create --expires", "1s", "90d"),
    ("token create --role viewer --expires", "1s", "366d"),
    ("zone replace north --expires", "1s", "30d"),
    ("zone maintenance north --until", "1s", "366d"),
    ("usage --watch --interval", "0.2s", "1d"),
]
NUMBERS = [
    ("code create --uses", "1", "1,000,000", "0 1000001 -1 1.5 all"),
    ("server create web --project p --count", "1", "2,000", "0 2001 -1"),
    ("server create web --project p --count 9 --least", "1", "9", "0 10 -1"),
    ("server create web --project p --vcpu", "1", "1,048,576", "0 1048577"),
    ("server create web --project p --memory", "1", "1,099,511,627,776", "0 -5"),
    ("server create web --project p --disk", "0", "1,099,511,627,776", "-1"),
    ("rule add labs --priority", "0", "1,000,000", "-1 1000001"),
    ("zone list --limit", "1", "", "0 -1"),
    ("journal --limit", "1", "", "0 -1"),
    ("journal --after", "0", "999,999,999,999,999,999", "-1 1000000000000000000"),
]


@pytest.mark.parametrize(("line", "least", "most"), DURATIONS)
@pytest.mark.parametrize("text", ["0s", "0", "400d", "9" * 400 + "d", "soon", "-1h", "1 month", "", "nan", "1e9"])
def test_a_duration_out_of_bounds_is_named_with_its_option(
    zone: Zone, line: str, least: str, most: str, text: str
) -> None:
    before = (len(zone.surface.codes_made), len(zone.surface.tokens_made), len(zone.surface.said))
    *words, option = shlex.split(line)
    result = zone.say(*words, f"{option}={text}")
    assert result.status == 2, result.err
    assert option in result.err and f"from {least} to {most}" in result.err and "24h" in result.err
    assert "[bad-duration]" in result.err and "$." not in result.err and len(result.err) < 400
    assert (len(zone.surface.codes_made), len(zone.surface.tokens_made), len(zone.surface.said)) == before


@pytest.mark.parametrize(("line", "least", "most", "wrong"), NUMBERS)
def test_a_number_out_of_bounds_is_named_with_its_option(
    zone: Zone, line: str, least: str, most: str, wrong: str
) -> None:
    *words, option = shlex.split(line)
    for text in wrong.split():
        result = zone.say(*words, f"{option}={text}")
        assert result.status == 2, result.err
        assert option in result.err and least in result.err and most in result.err, result.err
        assert "`$." not in result.err, "worded by the API"


def test_how_long_a_join_tries_is_bounded_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for text in ("400d", "soon", ""):
        assert run(["join", "--data", str(tmp_path), "--name", "a", f"--patience={text}"]) == 2
        assert "--patience" in capsys.readouterr().err


def test_the_edges_are_taken() -> None:
    assert values.duration("1s", "--x", 1, 60) == 1.0
    assert values.duration("1m", "--x", 1, 60) == 60.0
    with pytest.raises(BadInput, match="--x is a duration from 1s to 1m, as in 90s, 15m, 24h, 7d or 2w, got '61'"):
        values.duration("61", "--x", 1, 60)
    assert [values.spoken(s) for s in (0.2, 1, 90, 3600, 86400, 90 * 86400)] == ["0.2s", "1s", "90s", "1h", "1d", "90d"]


def bounds(body: type[msgspec.Struct], field: str) -> tuple[float | None, float | None]:
    """Of a number in a body of the API: (least or what it lies above, most)."""
    waiting = [get_type_hints(body, include_extras=True)[field]]
    while waiting:
        one = waiting.pop()
        if isinstance(one, msgspec.Meta):
            return one.ge if one.ge is not None else one.gt, one.le
        waiting += [*get_args(one), *getattr(one, "__metadata__", ())]
    raise AssertionError(field)


def test_the_bounds_are_those_of_the_api() -> None:
    assert bounds(codes.CodeBody, "expires") == (0, values.MAX_CODE_LIFE)
    assert bounds(tokens.TokenBody, "expires") == (0, values.MAX_TOKEN_LIFE)
    assert bounds(zones.ReplaceBody, "expires") == (0, values.MAX_REPLACE_LIFE)
    assert bounds(codes.CodeBody, "uses") == (1, values.MAX_USES)
    assert bounds(rules.RuleBody, "priority") == (0, values.MAX_PRIORITY)
    for field, least, most in (
        ("count", 1, values.MAX_SERVERS), ("least", 1, values.MAX_SERVERS), ("vcpu", 1, values.MAX_VCPU),
        ("memory_mib", 1, values.MAX_SIZE), ("disk_gib", 0, values.MAX_SIZE),
    ):  # fmt: skip
        assert bounds(servers.ServersBody, field) == (least, most), field
    assert bounds(journal.FollowQuery, "after")[0] == 0
