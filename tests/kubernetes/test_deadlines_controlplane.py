"""DagJobs with deadlines and wishes on the real control plane: promised or planned, run, replayed."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from devcluster.cluster import Devcluster
from operators.client import stamp
from schedulers.core.events import Rehearsed
from schedulers.core.replay import Replay
from schedulers.objects import names
from tests.kubernetes.installed import Installed, dagjob, phase, stage, submit, wait

pytestmark = pytest.mark.controlplane

JOCKEY = {"kind": "jockey", "policy": {"kind": "fair"}, "period_ms": 2_000, "dead_zone_ms": 0}


@pytest.mark.drawn(of=2)
def test_a_dagjob_with_a_deadline_is_promised_an_end_and_runs(alone: Devcluster) -> None:
    space = alone.namespace()
    installed = Installed(alone, brain={"policy": JOCKEY, "predictor": {"kind": "point_estimate"}})
    # It runs for several periods: its promise is revised after it has been seen.
    due = dagjob("due", space, [stage("map", 8, 8), stage("reduce", 2, 1, parents=["map"])])
    due["spec"]["deadline"] = stamp(round(1000 * time.time()) + 600_000)
    try:
        submit(alone, due, dagjob("other", space, [stage("only", 20, 1)]))
        promise = wait(lambda: told(alone, space, "due"), 30)
        assert promise["message"].startswith("finishes ")
        assert promise["containers"] >= 1
        revised = wait(lambda: (now := told(alone, space, "due")) and now["revisedTime"] > promise["revisedTime"], 30)
        assert revised
        for job in ("due", "other"):
            wait(lambda job=job: phase(alone, space, job) == "Succeeded", 90)
        assert told(alone, space, "other") is None
    finally:
        installed.stop()
    assert installed.replay() > 0
    facts = [step.event for file in installed.logs for step in Replay(file.read_bytes().splitlines(keepends=True))]
    assert any(isinstance(fact, Rehearsed) for fact in facts)


@pytest.mark.parametrize("policy", ["tetrisched", "alsched"])
@pytest.mark.drawn(of=2)
def test_dagjobs_run_where_they_wish_to_and_their_log_replays(alone: Devcluster, policy: str) -> None:
    space = alone.namespace()
    there = alone.add_nodes(2, labels={names.TYPE_LABEL: "a100"}, prefix=f"{policy}-", reserved=True)
    settings = {"policy": {"kind": policy, "cycle_s": 1.0}, "predictor": {"kind": "point_estimate"}}
    installed = Installed(alone, brain=settings)
    train = dagjob("train", space, [stage("fit", 2, 3, cpu="6", gang=True)], wishes={"prefer": [{"device": "a100"}]})
    report = dagjob("report", space, [stage("sum", 2, 3, cpu="6")], wishes={"prefer": [{"spread": True}]})
    report["spec"]["deadline"] = stamp(round(1000 * time.time()) + 600_000)
    nowhere = dagjob("nowhere", space, [stage("fit", 2, 1)], wishes={"prefer": [{"device": "h100"}]})
    try:
        submit(alone, train, report, nowhere)
        for job in ("train", "report", "nowhere"):  # what can never be had is passed by
            wait(lambda job=job: phase(alone, space, job) == "Succeeded", 90)
        assert sorted(nodes_of(alone, space, "train")) == sorted(there)
        assert len(set(nodes_of(alone, space, "report"))) == 2
    finally:
        installed.stop()
        alone.kubectl("delete", "node", *there)
    assert installed.replay() > 0


def nodes_of(cluster: Devcluster, space: str, job: str) -> list[str]:
    """Where its pods ran."""
    pods = cluster.get("pods", "-n", space, "-l", f"{names.DAGJOB_LABEL}={job}")["items"]
    return [pod["spec"]["nodeName"] for pod in pods]


def told(cluster: Devcluster, space: str, job: str) -> dict[str, Any] | None:
    """What kubectl shows of `status.promise`."""
    said = cluster.kubectl("get", "dagjob", job, "-n", space, "-o", "jsonpath={.status.promise}")
    return dict(json.loads(said)) if said else None
