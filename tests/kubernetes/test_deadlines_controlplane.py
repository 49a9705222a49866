"""A DagJob with a deadline under `jockey` on the real control plane: promised, run, replayed."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from operators.client import stamp
from operators.devcluster.cluster import Devcluster
from schedulers.core.events import Rehearsed
from schedulers.core.replay import Replay
from tests.kubernetes.installed import Installed, dagjob, phase, stage, submit, wait

pytestmark = pytest.mark.controlplane

JOCKEY = {"kind": "jockey", "policy": {"kind": "fair"}, "period_ms": 2_000, "dead_zone_ms": 0}


def test_a_dagjob_with_a_deadline_is_promised_an_end_and_runs(alone: Devcluster) -> None:
    space = alone.namespace()
    installed = Installed(alone, brain={"policy": JOCKEY, "predictor": {"kind": "point_estimate"}})
    due = dagjob("due", space, [stage("map", 8, 1), stage("reduce", 2, 1, parents=["map"])])
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


def told(cluster: Devcluster, space: str, job: str) -> dict[str, Any] | None:
    """What kubectl shows of `status.promise`."""
    said = cluster.kubectl("get", "dagjob", job, "-n", space, "-o", "jsonpath={.status.promise}")
    return dict(json.loads(said)) if said else None
