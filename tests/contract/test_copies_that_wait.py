"""A copy that waits is looked at with every beat, so little is forecast for it: no less than is asked of it."""

from __future__ import annotations

from itertools import pairwise

import pytest

from rm_emulator.testing import Subject, case_for, run_case
from schedulers.core.live import JobState, StageState
from schedulers.core.model import CopyRules
from schedulers.core.policy import ClusterView
from schedulers.kit.assigned import AssigningPolicy
from schedulers.kit.forecast import Forecast

SUBJECT = Subject(
    policy={"kind": "srpt"},
    predictor={"kind": "oracle", "error": [-0.5, 1.0]},
    placement={"kind": "deft", "ahead": False},
    copies=CopyRules(max=4),
)


@pytest.mark.drawn(of=4)
def test_the_runs_of_a_task_are_forecast_as_they_are_among_all_others(monkeypatch: pytest.MonkeyPatch) -> None:
    own, asked = AssigningPolicy._forecast_of, list[Forecast]()

    def checked(self: AssigningPolicy, job: JobState, stage: StageState, task: int, view: ClusterView) -> Forecast:
        forecast, whole = own(self, job, stage, task, view), Forecast(view, (), self._rates)
        assert forecast.runs(job, stage.index, task) == whole.runs(job, stage.index, task)
        asked.append(forecast)
        return forecast

    monkeypatch.setattr(AssigningPolicy, "_forecast_of", checked)
    for seed in range(30):
        run_case(SUBJECT, case_for(SUBJECT, seed, disorder=bool(seed % 2)))
    assert any(one is not another for one, another in pairwise(asked))
