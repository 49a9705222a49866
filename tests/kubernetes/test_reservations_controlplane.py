"""On the real control plane a gang that is first in the order starts, whatever waits behind it."""

from __future__ import annotations

import pytest

from devcluster.cluster import Devcluster
from schedulers.objects import names
from tests.kubernetes.installed import Installed, dagjob, phase, stage, submit, wait

pytestmark = pytest.mark.controlplane


@pytest.mark.drawn(of=2)
def test_a_gang_of_the_highest_weight_starts_while_a_backlog_of_small_tasks_waits(alone: Devcluster) -> None:
    space = alone.namespace()
    brain = {"policy": {"kind": "hdrf"}, "predictor": None, "reserveAfter": "5s"}
    installed = Installed(alone, brain=brain)
    queue = {"apiVersion": names.API_VERSION, "kind": "Queue"}
    try:
        submit(
            alone,
            queue | {"metadata": {"name": "gold"}, "spec": {"weight": 10}},
            queue | {"metadata": {"name": "batch"}, "spec": {"weight": 1}},
        )
        # The first tasks end node by node, so that the nodes are never all empty at once.
        first = [stage(f"first{seconds}", 4, seconds) for seconds in (3, 5, 7, 9)]
        backlog = dagjob("backlog", space, [*first, stage("a", 100, 4), stage("b", 100, 5)], queue="batch")
        submit(alone, backlog)
        wait(lambda: running(alone, space, "backlog") >= 16, 60)
        submit(alone, dagjob("train", space, [stage("all", 4, 3, cpu="6", gang=True)], queue="gold"))
        said = wait(lambda: waits(alone, space, "train", "HasReservation"), 30)
        assert "reserved for all: " in said
        wait(lambda: phase(alone, space, "train") == "Succeeded", 40)
        assert phase(alone, space, "backlog") != "Succeeded"
    finally:
        installed.stop()
    assert installed.replay() > 0


def running(cluster: Devcluster, space: str, job: str) -> int:
    """How many pods of the job run."""
    selector = f"{names.DAGJOB_LABEL}={job}"
    phases = cluster.kubectl("get", "pods", "-n", space, "-l", selector, "-o", "jsonpath={.items[*].status.phase}")
    return phases.split().count("Running")


def waits(cluster: Devcluster, space: str, job: str, reason: str) -> str:
    """Why the DagJob waits, if that is for this reason."""
    status = cluster.get("dagjob", job, "-n", space).get("status", {})
    return str(status.get("message", "")) if status.get("reason") == reason else ""
