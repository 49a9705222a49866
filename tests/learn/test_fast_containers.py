"""The fast simulator of containers that end with their tasks: beside the engine, and its bound."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rm_emulator import api
from rm_emulator.learn.fast_containers import CURVES, LEARNED, SRPT, STAGE, WEIGHTS, FastContainers, bound_s, episode
from rm_emulator.scenario.schema import Scenario
from studies.learned_settings import SETTINGS
from studies.tables import document

CLASSES: dict[str, Any] = next(dict(each.cluster) for each in SETTINGS if each.name == "classes")
BATCH: dict[str, Any] = {
    "kind": "tpch", "jobs": 6, "sizes": [2, 5], "draws": "released", "history": 0, "durations": "per_task",
    "demand": {"cpu": 1}, "drawn": {"memory": "8Gi"},
}  # fmt: skip
CURVES_POLICY = {"kind": "curves", "predictor": {"kind": "oracle"}, "placement": {"kind": "best_fit"}}


def scenario(policy: dict[str, Any], **cluster: Any) -> dict[str, Any]:
    return document("classes", [1], {"policy": policy}, cluster={**CLASSES, **cluster}, workload=BATCH)


def engine_s(policy: dict[str, Any]) -> list[float]:
    """JCTs by the engine, s."""
    jobs = api.play(scenario(policy), seed=1).jobs.sort("id")
    return [ms / 1000 for ms in jobs["finish_ms"] - jobs["submit_ms"]]


@pytest.fixture(scope="module")
def drawn() -> FastContainers:
    return episode(Scenario.model_validate(scenario({"kind": "fifo"})), 1)


@pytest.mark.slow
@pytest.mark.drawn(of=8)
def test_every_job_ends_as_under_the_engine_with_curves(drawn: FastContainers) -> None:
    assert drawn.jct_s(CURVES).tolist() == engine_s(CURVES_POLICY)


@pytest.mark.slow
@pytest.mark.drawn(of=8)
def test_every_job_ends_as_under_the_engine_with_learned_curves(drawn: FastContainers) -> None:
    assert drawn.jct_s(LEARNED).tolist() == engine_s({**CURVES_POLICY, "learned": True})


@pytest.mark.slow
@pytest.mark.drawn(of=8)
def test_every_job_ends_as_under_the_engine_with_srpt(drawn: FastContainers) -> None:
    assert drawn.by_index().jct_s(SRPT).tolist() == engine_s({**CURVES_POLICY, "kind": "srpt"})


@pytest.mark.slow
@pytest.mark.drawn(of=8)
def test_no_policy_is_below_the_bound(drawn: FastContainers) -> None:
    at_once = drawn._replace(submits=np.zeros_like(drawn.submits))
    random = np.random.default_rng(1)
    for each in [LEARNED, *random.normal(0, 1, (20, len(WEIGHTS)))]:
        assert at_once.jct_s(each).mean() >= bound_s(at_once)


def two_jobs() -> FastContainers:
    """Two nodes, and jobs of 2 and of 4 tasks of 3 s."""
    stages = np.array([(0, 2, 0, 0, 3e3, 3e3, 0, 0, 0), (1, 4, 2, 0, 3e3, 3e3, 0, 0, 0)], STAGE)
    none = np.empty(0, np.int64)
    return FastContainers(np.zeros(2, np.int64), np.array([1, 2]), stages, none, np.full(6, 3000), np.array([2]))


@pytest.mark.drawn(of=8)
def test_the_bound_of_two_jobs_of_equal_tasks_is_the_shorter_one_first() -> None:
    assert bound_s(two_jobs()) == pytest.approx((3 + 9) / 2)
    assert two_jobs().jct_s(CURVES).tolist() == [3.0, 9.0]


def test_nodes_that_hold_two_tasks_are_refused() -> None:
    nodes = [{"count": 2, "capacity": {"cpu": 4, "memory": "16Gi"}}]
    with pytest.raises(ValueError, match="each holds a single task"):
        episode(Scenario.model_validate(scenario({"kind": "fifo"}, nodes=nodes)), 1)
