"""What the architecture of a scenario becomes in the engine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rm_emulator.engine.config import Central, GiveUp, SharedState, TwoLevel
from rm_emulator.experiments.resolved import at_point
from rm_emulator.scenario.check import check
from rm_emulator.scenario.cluster import engine_config, resources_of
from rm_emulator.scenario.load import load
from schedulers.core.model import Job, Service

TASKS = {"name": "m", "tasks": 2, "demand": {"cpu": 1}}
BASE: dict[str, Any] = {
    "apiVersion": "rm-emulator.io/v1alpha1",
    "kind": "Scenario",
    "metadata": {"name": "x"},
    "spec": {
        "cluster": {"nodes": [{"count": 2, "capacity": {"cpu": 4}}]},
        "workload": {
            "kind": "jobs",
            "jobs": [
                {"name": "web", "service": {}, "stages": [TASKS]},
                {"name": "etl", "stages": [{**TASKS, "duration": "3s"}]},
            ],
        },
        "policies": [{"kind": "fifo"}],
    },
}


def settings(**architecture: Any) -> Any:
    scenario = load(BASE, changes={"spec.cluster.architecture": architecture}).scenario
    return engine_config(scenario, resources_of(scenario)).architecture


def test_one_scheduler_without_think_times_is_no_architecture() -> None:
    assert settings(kind="central") is None


def test_central_thinks_about_the_rest_as_about_nothing_else() -> None:
    found = settings(kind="central", t_job="2s", t_task="10ms", paths=[{"kinds": ["service"], "t_job": "6s"}])
    assert isinstance(found, Central)
    paths = [found.path(Job(id="a", stages=(), service=service)) for service in (Service(), None)]
    assert [(path.t_job_ms, path.t_task_ms) for path in paths] == [(6000, 5), (2000, 10)]


def test_a_count_makes_so_many_schedulers() -> None:
    found = settings(kind="two_level", schedulers=[{"name": "a", "count": 2}, {"name": "b"}], retry="2s")
    assert isinstance(found, TwoLevel)
    assert [each.name for each in found.thinkers] == ["a-1", "a-2", "b"]
    assert found.retry_ms == 2000


def test_shared_state_says_what_refuses_and_when_to_give_up() -> None:
    found = settings(
        kind="shared_state",
        schedulers=[{"name": "a"}],
        conflict="sequence",
        commit="all_or_nothing",
        give_up={"attempts": 7},
    )
    assert isinstance(found, SharedState)
    assert (found.conflict, found.commit, found.give_up) == (
        "sequence",
        "all_or_nothing",
        GiveUp(none_placed=100, attempts=7),
    )


@pytest.mark.parametrize(
    ("architecture", "profile"),
    [
        ({"kind": "central"}, "yarn"),
        ({"kind": "central", "t_job": "1s"}, "events"),
        ({"kind": "shared_state", "schedulers": [{"name": "a"}]}, "events"),
        ({"kind": "decentralised"}, "events"),
    ],
)
def test_an_architecture_with_timing_of_its_own_brings_the_profile(architecture: dict[str, Any], profile: str) -> None:
    loaded = load(BASE, changes={"spec.cluster.architecture": architecture})
    assert loaded.scenario.spec.cluster.profile == profile


def test_a_scenario_as_resolved_is_the_same_again(tmp_path: Path) -> None:
    schedulers = [{"name": "a", "t_job": "2s", "policy": {"kind": "gs", "predictor": {"kind": "slearn"}}}]
    loaded = load(BASE, changes={"spec.cluster.architecture": {"kind": "shared_state", "schedulers": schedulers}})
    again = load(at_point(loaded))
    assert again.scenario.spec.cluster.architecture == loaded.scenario.spec.cluster.architecture
    assert len(check(again).workload.jobs) == 2
