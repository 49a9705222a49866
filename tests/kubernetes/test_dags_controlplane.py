"""DAGs on the real control plane under all that brain takes: jobs, gangs, plans, speeds, replay."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from devcluster.cluster import Devcluster
from devcluster.deployments import Running
from schedulers.core.replay import Replay
from schedulers.objects import names
from tests.kubernetes.installed import Installed, dagjob, phase, stage, submit, wait
from tests.kubernetes.subjects import of_a_commit

pytestmark = pytest.mark.controlplane

ETL = [
    stage("map", 12, 1),
    stage("side", 2, 1, cpu="4"),
    stage("reduce", 3, 1, parents=["map", "side"], gang=True),
]


@pytest.mark.parametrize("settings", list(of_a_commit()))
@pytest.mark.drawn(of=4)
def test_dags_run_to_their_end(alone: Devcluster, settings: dict[str, Any]) -> None:
    space, policy = alone.namespace(), settings["policy"]["kind"]
    installed = Installed(alone, brain=settings)
    try:
        submit(alone, dagjob("etl", space, ETL), dagjob("small", space, [stage("only", 2, 1)]))
        if policy == "graphene":
            check_plan(wait(lambda: plan(alone, space, "etl"), 30))
        for job in ("etl", "small"):
            wait(lambda job=job: phase(alone, space, job) == "Succeeded", 60)
        assert bool(plan(alone, space, "etl")) == (policy == "graphene")
        assert not any("torch" in libraries for libraries in loaded(installed.brain))
    finally:
        installed.stop()
    assert installed.replay() > 0
    kinds = [Replay(file.read_bytes().splitlines(keepends=True)).scheduler.config.policy for file in installed.logs]
    assert settings["policy"] in kinds


@pytest.mark.parametrize("policy", ["lachesis", "played"])
@pytest.mark.drawn(of=2)
def test_what_is_assigned_by_estimates_runs_on_the_nodes_labelled_as_fast(alone: Devcluster, policy: str) -> None:
    space = alone.namespace()
    fast = alone.add_nodes(2, labels={names.SPEED_LABEL: "20"}, prefix=f"{policy}-", reserved=True)
    placement = {"kind": "deft", "ahead": False} if policy == "lachesis" else {"kind": "first_fit"}
    settings = {"policy": {"kind": policy}, "predictor": {"kind": "slearn"}, "placement": placement}
    installed = Installed(alone, brain=settings)
    try:
        joined = [stage("left", 3, 1), stage("right", 2, 1), stage("join", 1, 1, parents=["left", "right"])]
        submit(alone, dagjob("joined", space, joined), dagjob("small", space, [stage("only", 2, 1)]))
        for job in ("joined", "small"):
            wait(lambda job=job: phase(alone, space, job) == "Succeeded", 60)
            pods = alone.get("pods", "-n", space, "-l", f"{names.DAGJOB_LABEL}={job}")["items"]
            assert {pod["spec"]["nodeName"] for pod in pods} <= set(fast)
        assert not any("torch" in libraries for libraries in loaded(installed.brain))
    finally:
        installed.stop()
        alone.kubectl("delete", "node", *fast)
    assert installed.replay() > 0


def loaded(running: Running) -> list[str]:
    """What the processes of a Deployment have in memory, by the names of files."""
    containers = [container for replica in running.replicas for container in replica.containers.values()]
    return [Path(f"/proc/{container.process.pid()}/maps").read_text() for container in containers]


def plan(cluster: Devcluster, space: str, job: str) -> dict[str, Any] | None:
    """What kubectl shows of `status.plan`."""
    said = cluster.kubectl("get", "dagjob", job, "-n", space, "-o", "jsonpath={.status.plan}")
    return dict(json.loads(said)) if said else None


def check_plan(said: dict[str, Any]) -> None:
    """Every stage in order of its start, the gang after all others; times in seconds, from history or the default."""
    starts = [entry["startSeconds"] for entry in said["stages"]]
    assert sorted(entry["name"] for entry in said["stages"]) == ["map", "reduce", "side"]
    assert said["stages"][-1]["name"] == "reduce"
    assert starts == sorted(starts)
    assert starts[0] == 0
    assert 0 < starts[-1] < said["makespanSeconds"]
    assert said["boundSeconds"] <= said["makespanSeconds"]
    assert 1 <= said["machines"] <= 4
    assert said["troublesome"] == [] or set(said["troublesome"]) < {"map", "side", "reduce"}
