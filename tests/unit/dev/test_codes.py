"""The list of error codes: kinds are found wherever they are, and no code of theirs is left out."""

from __future__ import annotations

import pytest

from dev.codes import kinds, raised, render


@pytest.mark.parametrize(
    ("code", "kind", "status"),
    [("too-many-members", "OverSize", 413), ("no-valid-host", "NoValidHost", 409), ("not-offered", "Unsupported", 501)],
)
def test_a_kind_that_a_room_defines_for_itself_has_its_codes_in_the_list(code: str, kind: str, status: int) -> None:
    assert kinds()[kind].status == status
    assert kind in raised()[code]
    assert f"| `{code}` | {kind} | {kinds()[kind].exit_status} | {status} |" in render()
