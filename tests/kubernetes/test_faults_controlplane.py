"""On the real control plane things break: what brain heard and decided replays in the emulator, and every job ends."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from devcluster.cluster import Devcluster
from schedulers.core.events import ContainerEnded, NodeLost
from schedulers.core.log import parse
from tests.kubernetes.installed import Installed, a_devcluster, dagjob, phase, stage, submit, wait
from tests.kubernetes.test_controllers_controlplane import end
from tests.kubernetes.test_gangs_controlplane import evict

pytestmark = pytest.mark.controlplane
#: The first has the index without which the second finds no pod; the fake kubelets beat for no node.
EVICTING = (
    "--controllers=node-lifecycle-controller,taint-eviction-controller",
    "--node-monitor-grace-period=1h",
)
JOBS = ("a", "b", "c")


@pytest.fixture(scope="module")
def evicting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Devcluster]:
    """A control plane that evicts pods from tainted nodes."""
    with a_devcluster(tmp_path_factory.mktemp("faults"), flags={"controller-manager": EVICTING}) as cluster:
        yield cluster


@pytest.mark.drawn(of=4)
def test_jobs_end_and_the_log_replays_though_nodes_go_and_pods_fail(evicting: Devcluster) -> None:
    space = evicting.namespace()
    installed = Installed(evicting, brain={"policy": {"kind": "fair"}, "predictor": None})
    try:
        for name in JOBS:
            submit(
                evicting, dagjob(name, space, [stage("map", 6, 25), stage("reduce", 2, 2, parents=["map"])], retries=3)
            )
        nodes = sorted(wait(lambda: by_node(evicting, space) if len(by_node(evicting, space)) >= 3 else None))
        deleted, tainted, other = nodes[:3]
        failed, evicted = by_node(evicting, space)[other][:2]
        end(evicting, space, failed, phase="Failed", reason="Error", message="The process was killed.")
        evict(evicting, space, evicted)
        moved = by_node(evicting, space)[tainted]
        evicting.kubectl("taint", "node", tainted, "broken=yes:NoExecute")
        evicting.kubectl("delete", "node", deleted)
        wait(lambda: tainted not in by_node(evicting, space), 15)
        wait(lambda: all(phase(evicting, space, name) == "Succeeded" for name in JOBS), 120)
        # No pod of an ended job waits or runs for ever, wherever the job's faults have left one.
        wait(lambda: not phases(evicting, space) - {"Succeeded", "Failed"}, 60)
    finally:
        installed.stop()
    (log,) = installed.logs
    facts = list(parse(log.read_bytes().splitlines(keepends=True)))
    assert deleted in [fact.node for fact in facts if isinstance(fact, NodeLost)]
    # The failed pod, the evicted pod, and those of the tainted node, which would have run on for ten seconds.
    assert sum(isinstance(fact, ContainerEnded) and fact.code != 0 for fact in facts) >= 2 + len(moved)
    assert installed.replay() > 0
    command = [sys.executable, "-m", "rm_emulator", "replay", str(log)]
    assert subprocess.run(command, capture_output=True, check=False).returncode == 0


def by_node(cluster: Devcluster, space: str) -> dict[str, list[str]]:
    """Names of the running pods of each node."""
    found: dict[str, list[str]] = {}
    pods: list[dict[str, Any]] = cluster.get("pods", "-n", space)["items"]
    for pod in pods:
        if pod["status"].get("phase") == "Running" and "deletionTimestamp" not in pod["metadata"]:
            found.setdefault(pod["spec"]["nodeName"], []).append(pod["metadata"]["name"])
    return found


def phases(cluster: Devcluster, space: str) -> set[str]:
    """Phases of all pods of a namespace; of a pod that is being deleted, its last."""
    return {pod["status"].get("phase", "Pending") for pod in cluster.get("pods", "-n", space)["items"]}
