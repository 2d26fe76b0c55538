"""SIGKILL before and after each commit of each step of a join, on the parent's side; test_kill.py has the steps.

A file of its own, so that both sides run beside each other.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.wire.zones.processes import Cloud
from tests.wire.zones.test_kill import (
    PARENT_STEPS,
    PHASES,
    SLOW_RACK,
    check,
    doomed,
    make_code,
    reborn,
    wait_for_death,
    wait_until_counted,
)

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("step", PARENT_STEPS)
def test_a_child_joins_a_parent_that_is_killed_all_the_same(tmp_path: Path, step: str, phase: str) -> None:
    with Cloud(tmp_path) as cloud:
        top = doomed(cloud.zone("top"), f"{phase}:{step}").spawn()
        try:
            top.wait_until(top.answers, "to answer")
            code = make_code(top)
        except (AssertionError, OSError):
            # It died on the way; then the code that it did not hand out is made again.
            wait_for_death(top)
            code = make_code(reborn(top).start())
        child = cloud.zone("lab", *SLOW_RACK, code=code).spawn()
        if top.program == "doomed":
            wait_for_death(top)
            reborn(top).start()
        wait_until_counted(top)
        check(top, child)
