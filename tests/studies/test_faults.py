"""What faults cost: the share of effective time beside the closed form, and Daly's interval."""

from __future__ import annotations

from statistics import fmean

import pytest

from studies import faults
from studies.faults import DALY, FACTORS, POLICIES, TRAININGS, Training, daly_s, jobs

SEEDS = range(1, 6)


@pytest.mark.slow
@pytest.mark.parametrize("training", [each for each in TRAININGS if each.nodes <= 128], ids=str)
@pytest.mark.drawn(of=4)
def test_effective_time_is_that_of_the_closed_form_within_five_percent(training: Training) -> None:
    assert fmean(training.ettr(40, seed) for seed in SEEDS) == pytest.approx(training.closed_form, rel=0.05)


def test_without_failures_only_checkpoints_cost_time() -> None:
    training = Training(nodes=2, rate=1e-6, every_s=600, cost_s=60, restart_s=60)
    # A millionth of the time to a failure: there is none.
    assert training.ettr(1e-6, 1) == pytest.approx(1 / 1.1, rel=0.01)


@pytest.mark.slow
@pytest.mark.drawn(of=4)
def test_no_interval_beats_dalys_beyond_its_confidence_interval() -> None:
    best = [DALY._replace(every_s=daly_s(DALY)).ettr(40, seed) for seed in SEEDS]
    for factor in FACTORS:
        other = DALY._replace(every_s=factor * daly_s(DALY))
        gaps = [other.ettr(40, seed) - one for seed, one in zip(SEEDS, best, strict=True)]
        found = faults.api.interval(gaps)
        assert found.ci95 is None or found.ci95[0] <= 0, factor


def test_the_jobs_of_a_seed_are_gangs_and_dags_by_turns() -> None:
    made = jobs(1)
    assert [len(job["stages"]) for job in made[:100]].count(1) > 30
    assert {job["name"].split("-")[0] for job in made} == {"train", "dag"}
    assert made == jobs(1)
    assert len(POLICIES) == 10
