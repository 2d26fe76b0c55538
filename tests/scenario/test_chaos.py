"""Random faults over random trees, from seeds: a failing one says how it is run again.

python -m banyan.simulate chaos --seed N --seeds 100      for a night
"""

from __future__ import annotations

import pytest

from banyan.simulate.chaos import Plan, run

# The last ones found something, each when its time was: they stay.
PLANS = [Plan(seed, zones=5, hours=0.3) for seed in range(1, 7)] + [Plan(10, zones=8, hours=0.5)]


@pytest.mark.parametrize("plan", PLANS, ids=lambda plan: f"seed{plan.seed}")
def test_chaos_settles(plan: Plan) -> None:
    outcome = run(plan)
    assert not outcome.broken, outcome.report()


def test_a_failure_names_the_command_that_repeats_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("banyan.simulate.chaos.CALM", 0.0)
    outcome = run(Plan(3, zones=2, hours=0.02))
    assert outcome.broken
    assert "python -m banyan.simulate chaos --seed 3 --zones 2 --hours 0.02" in outcome.report()
