"""What people may write into policy: only what can ever match."""

from __future__ import annotations

import pytest

from banyan.core.errors import BadInput
from banyan.trust.attest import VERIFIERS
from banyan.zone.commands.access import verifier_of


def test_a_rules_verifier_is_one_that_there_is_in_one_spelling() -> None:
    assert sorted(VERIFIERS) == ["join-code", "known-key"]
    assert [verifier_of(kind) for kind in ("join-code", "known-key", "*")] == ["join-code", "known-key", "*"]


@pytest.mark.parametrize("text", ["join_code", "join*", "", "JOIN-CODE", "x.509"])
def test_a_verifier_that_nobody_can_show_is_refused_and_the_kinds_are_named(text: str) -> None:
    with pytest.raises(BadInput, match="join-code, known-key, or \\*") as refused:
        verifier_of(text)
    assert refused.value.code == "bad-rule"
