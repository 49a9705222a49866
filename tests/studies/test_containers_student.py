"""The student for containers that end with their tasks: its simulator beside the engine, its bound, its constant."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rm_emulator import api
from rm_emulator.scenario.schema import Scenario
from studies import containers_student as student
from studies.containers_play import STAGE, WEIGHTS, Episode, bound_s, episode
from studies.containers_student import CURVES, SHIPPED, SRPT, weights
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
def drawn() -> Episode:
    return episode(Scenario.model_validate(scenario({"kind": "fifo"})), 1)


@pytest.mark.slow
def test_every_job_ends_as_under_the_engine_with_curves(drawn: Episode) -> None:
    assert drawn.jct_s(weights(**CURVES)).tolist() == engine_s(CURVES_POLICY)


@pytest.mark.slow
def test_every_job_ends_as_under_the_engine_with_learned_curves(drawn: Episode) -> None:
    assert drawn.jct_s(weights(**SHIPPED)).tolist() == engine_s({**CURVES_POLICY, "learned": True})


@pytest.mark.slow
def test_every_job_ends_as_under_the_engine_with_srpt(drawn: Episode) -> None:
    assert drawn.by_index().jct_s(SRPT).tolist() == engine_s({**CURVES_POLICY, "kind": "srpt"})


@pytest.mark.slow
def test_no_policy_is_below_the_bound(drawn: Episode) -> None:
    at_once = drawn._replace(submits=np.zeros_like(drawn.submits))
    random = np.random.default_rng(1)
    for each in [weights(**SHIPPED), *random.normal(0, 1, (20, len(WEIGHTS)))]:
        assert at_once.jct_s(each).mean() >= bound_s(at_once)


def test_the_bound_of_two_jobs_of_single_tasks_is_the_shorter_one_first() -> None:
    """Two nodes, jobs of 2 and 4 tasks of 3 s: 3 s and 9 s, and a fluid ends them at 3 s and 9 s."""
    stages = np.array([(0, 2, 0, 0, 3e3, 3e3, 0, 0, 0), (1, 4, 2, 0, 3e3, 3e3, 0, 0, 0)], STAGE)
    none = np.empty(0, np.int64)
    two = Episode(np.zeros(2, np.int64), np.array([1, 2]), stages, none, np.full(6, 3000), np.array([2]))
    assert bound_s(two) == pytest.approx(6.0)
    assert two.jct_s(weights(**CURVES)).tolist() == [3.0, 9.0]


def test_nodes_that_hold_two_tasks_are_refused() -> None:
    nodes = [{"count": 2, "capacity": {"cpu": 4, "memory": "16Gi"}}]
    with pytest.raises(ValueError, match="each holds a single task"):
        episode(Scenario.model_validate(scenario({"kind": "fifo"}, nodes=nodes)), 1)


def test_no_seed_has_two_uses() -> None:
    most = max(student.TRAINING, *(case.seeds for case in student.CASES.values()))
    firsts = sorted(student.FIRST.values())
    assert all(later - earlier >= most for earlier, later in pairwise(firsts))


@pytest.mark.slow
def test_a_stopped_evolution_goes_on_without_a_difference(
    tmp_path: Path, drawn: Episode, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = {}
    for name, lengths in (("stopped", (1, 3)), ("whole", (3,))):
        study = student.Study(tmp_path, tmp_path / name)
        study.out.mkdir()
        study.episodes = lambda *_: [drawn] * student.TRAINING  # type: ignore[assignment]
        for generations in lengths:
            monkeypatch.setitem(student.WAYS, "scarce", student.Way(("scarce",), generations))  # type: ignore[arg-type]
            student.evolve(study, "scarce")
        found[name] = json.loads((study.out / "scarce.json").read_bytes())["mean"]
    assert found["stopped"] == found["whole"]
