"""A job that waits behind the day's work is told how much sooner a submission tonight would end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import rm_emulator
from rm_emulator.forecasts.answers import Tried
from rm_emulator.forecasts.arrivals import tonight

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("no_report")]
DAY_H = 24


def _job(name: str, user: str, at_h: int, tasks: int, task_h: int) -> dict[str, Any]:
    stage = {"name": "map", "tasks": tasks, "demand": {"cpu": 1}, "duration": f"{task_h}h"}
    return {"name": name, "user": user, "submit": f"{at_h}h", "stages": [stage]}


#: From 8:00 to 20:00 the only core is busy.
SCENARIO: dict[str, Any] = {
    "apiVersion": "rm-emulator.io/v1alpha1",
    "kind": "Scenario",
    "metadata": {"name": "days"},
    "spec": {
        "cluster": {"nodes": [{"capacity": {"cpu": 1}}], "profile": "events"},
        "workload": {
            "kind": "jobs",
            "jobs": [_job("mine", "ann", 1, 1, 1), *(_job("day", "bob", DAY_H * day + 8, 6, 2) for day in range(3))],
        },
        "policies": [{"kind": "fifo"}],
    },
}
MINE = """
apiVersion: rm-emulator.io/v1alpha1
kind: DagJob
metadata: {name: mine, namespace: ann, labels: {rm-emulator.io/user: ann}}
spec:
  stages:
  - name: map
    tasks: 1
    template: {spec: {containers: [{name: c, resources: {requests: {cpu: "1"}}}]}}
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("days") / "out"
    rm_emulator.run(SCENARIO, out=out, jobs=1)
    out.with_name("job.yaml").write_text(MINE)
    return out


def _tried(run: Path, at: str, arrivals: str) -> tuple[Tried, ...]:
    file = run.with_name("job.yaml")
    (new,) = rm_emulator.simulate(run, at, file, draws=6, earlier=0, arrivals=arrivals).answer.asked
    return new.sooner


def test_tonight_the_job_starts_at_once(run: Path) -> None:
    (tried,) = _tried(run, "33h", "24h")
    tonight_ms = (DAY_H + 22) * 3_600_000
    assert (tried.kind, tried.start.p10_ms, tried.start.p50_ms) == ("tonight", tonight_ms, tonight_ms)
    assert 6 * 3_600_000 < tried.sooner_ms < 14 * 3_600_000


def test_tonight_is_not_tried_where_jobs_to_come_have_no_time_of_day(run: Path) -> None:
    assert _tried(run, "33h", "26h") == ()


@pytest.mark.parametrize(("now_h", "expected_h"), [(0, 22), (21.5, 22), (22, 46), (23, 46), (47, 70)])
def test_tonight_is_the_next_ten_in_the_evening(now_h: float, expected_h: int) -> None:
    assert tonight(round(now_h * 3_600_000)) == expected_h * 3_600_000
