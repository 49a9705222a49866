"""What others do to our pods on the real control plane: hidden use, kubelets that refuse, what cannot be bound."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from operators.devcluster.cluster import Devcluster
from schedulers.objects import names
from tests.kubernetes.installed import Installed, dagjob, phase, stage, submit, wait

pytestmark = pytest.mark.controlplane


@pytest.fixture(scope="module")
def installed(alone: Devcluster) -> Iterator[Installed]:
    running = Installed(alone, brain={"policy": {"kind": "fifo"}, "predictor": None})
    yield running
    running.stop()
    assert running.replay() > 0


@pytest.fixture
def cluster(installed: Installed) -> Devcluster:
    return installed.cluster


@pytest.fixture
def space(cluster: Devcluster) -> str:
    return cluster.namespace("neighbours")


def pods(cluster: Devcluster, space: str) -> dict[str, dict[str, Any]]:
    return {pod["metadata"]["name"]: pod for pod in cluster.get("pods", "-n", space)["items"]}


def status(cluster: Devcluster, space: str) -> dict[str, Any]:
    shown: dict[str, Any] = cluster.get("dagjob", "j", "-n", space).get("status", {})
    return shown


# -- hidden use ---------------------------------------------------------------------------------


def hidden(cluster: Devcluster, space: str, node: str) -> dict[str, Any]:
    """A pod that nearly fills a node, dressed up as one of a DagJob, of a controller that is none."""
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "controller": True}
    owner["uid"] = cluster.get("configmap", "o", "-n", space)["metadata"]["uid"]
    labels = {names.DAGJOB_LABEL: "j", names.STAGE_LABEL: "a", names.INDEX_LABEL: "0"}
    container = {"name": "c", "image": "x", "resources": {"requests": {"cpu": "7", "memory": "1Gi"}}}
    meta = {"name": f"hidden-{node}", "namespace": space, "labels": labels, "ownerReferences": [owner]}
    spec = {"nodeName": node, "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


def test_use_that_wears_our_labels_is_counted(cluster: Devcluster, space: str) -> None:
    cluster.kubectl("create", "configmap", "o", "-n", space)
    submit(cluster, *(hidden(cluster, space, f"n{n}") for n in range(4)))
    wait(lambda: [p["status"]["phase"] for p in pods(cluster, space).values()] == 4 * ["Running"])
    submit(cluster, dagjob("j", space, [stage("a", 1, 1)]))
    wait(lambda: status(cluster, space).get("reason") == "NoRoom", 20)
    assert pods(cluster, space)["j-a-0-0"]["spec"]["schedulingGates"] == [{"name": names.GATE}]
    cluster.kubectl("delete", "pod", "-n", space, "hidden-n0")
    wait(lambda: phase(cluster, space, "j") == "Succeeded", 20)
    cluster.kubectl("delete", "pod", "-n", space, *(f"hidden-n{n}" for n in (1, 2, 3)))
