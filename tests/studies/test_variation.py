"""Figure 1 of SLearn's paper: variation over time in a window, by hand and beside the measure without windows."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from rm_emulator import api
from rm_emulator.workload import describe
from rm_emulator.workload.model import Fixed, Workload, WorkloadJob
from rm_emulator.workload.stage_table import DAY_MS
from schedulers.core.model import Job, PastJob, Stage
from studies import variation
from studies.variation import cov_over_time


def past(ms: float, days: float, name: str = "etl") -> PastJob:
    at = round(days * DAY_MS)
    return PastJob(name=name, submitted=at, finished=at + 1, stages=((4, ms),), demand=(9,))


def job(ms: int, days: float, name: str = "etl") -> WorkloadJob:
    spec = Job(id=f"{name}-{days}", name=name, stages=(Stage(name="s", tasks=4, demand=(1,)),))
    return WorkloadJob(job=spec, submit_ms=round(days * DAY_MS), runtimes=(Fixed(ms),))


def workload(*jobs: WorkloadJob, history: tuple[PastJob, ...] = ()) -> Workload:
    return Workload(name="w", jobs=jobs, history=history)


TWENTY = math.sqrt(200 / 3) / 20
"""Of run times 10, 20, 30."""


def test_runs_before_the_window_do_not_count() -> None:
    history = (past(10, -1), past(20, -2.1), past(30, -2.2), past(900, -5.3))
    assert cov_over_time(workload(job(1, 0), history=history), 3) == [pytest.approx(TWENTY)]


def test_the_workload_s_own_runs_count_once_they_are_past() -> None:
    found = cov_over_time(workload(job(10, 0), job(20, 1.1), job(30, 2.2), job(1, 2.7)), 3)
    assert found == [None, None, pytest.approx(1 / 3), pytest.approx(TWENTY)]


def test_the_feature_with_the_least_variation_counts() -> None:
    history = (past(10, -7, "a"), past(10, -7, "b"), past(90, -2.3, "etl"), past(10, -1.3, "etl"))
    assert cov_over_time(workload(job(1, 0), history=history), 7) == [0.0]


def test_a_single_run_has_no_variation() -> None:
    assert cov_over_time(workload(job(1, 0), history=(past(10, -1),)), 14) == [None]


def test_a_window_without_end_is_the_measure_without_windows() -> None:
    made = api.synthetic("2sigma-like", jobs=1, seed=4)
    assert cov_over_time(made, 1e4) == [pytest.approx(cov) for cov in describe.cov_over_time(made)]


def test_the_table_has_a_row_for_each_preset_and_the_paper_s_figures(tmp_path: Path) -> None:
    rows = variation.variation(tmp_path, jobs=40).splitlines()[2:]
    assert [row.split(" | ")[-2:] for row in rows] == [
        ["1.00 (3.10), 14 days", "0.18 (0.55) |"],
        ["0.20 (0.73), 3 days", "0.04 (0.58) |"],
        ["1.35 (1.67), 3 days", "0.70 (1.33) |"],
    ]
