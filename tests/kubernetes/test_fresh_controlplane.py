"""A control plane that was emptied is as it was when it was fresh."""

from __future__ import annotations

import json
from typing import Any

import pytest

from devcluster.cluster import Devcluster
from schedulers.objects import names
from tests.kubernetes.fresh import Fresh, content, objects
from tests.kubernetes.installed import NODES, Installed, dagjob, phase, stage, submit, wait

pytestmark = pytest.mark.controlplane

A_JOB = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {"name": "batch"},
    "spec": {
        "parallelism": 2,
        "completions": 2,
        "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "busybox"}]}},
    },
}
A_KIND = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "things.example.org"},
    "spec": {
        "group": "example.org",
        "scope": "Namespaced",
        "names": {"kind": "Thing", "plural": "things", "singular": "thing"},
        "versions": [
            {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}
        ],
    },
}
HIGH = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 9}


def contents(cluster: Devcluster) -> dict[str, Any]:
    """Of all objects but nodes, which kubelets write to."""
    return {path: content(path, item) for path, item in objects(cluster).items() if "/nodes/" not in path}


def nodes(cluster: Devcluster) -> dict[str, Any]:
    """What tests change of them."""
    items = cluster.get("nodes")["items"]
    return {
        node["metadata"]["name"]: (node["metadata"]["labels"], node["spec"], node["status"]["allocatable"])
        for node in items
    }


def use(cluster: Devcluster) -> None:
    """As tests do, and more."""
    space = cluster.namespace()
    installed = Installed(cluster)
    try:
        submit(cluster, HIGH, A_KIND, dagjob("done", space, [stage("a", 2, 0)]))
        wait(lambda: phase(cluster, space, "done") == "Succeeded")
        submit(cluster, dagjob("waits", space, [stage("a", 1, 1, cpu="100")]))
        cluster.kubectl("create", "-n", space, "-f", "-", input=json.dumps(A_JOB))
        wait(lambda: "batch" in cluster.kubectl("get", "pods", "-n", space, "-o", "name"))
        cluster.kubectl("label", "namespace", "default", "team=a")
        cluster.kubectl("label", "node", "n0", "speed=2")
        cluster.kubectl("taint", "node", "n1", f"{names.RESERVED_TAINT}-")
        cluster.kubectl("delete", "node", "n2")
        cluster.add_nodes(1, prefix="more")
    finally:
        installed.stop()


@pytest.mark.drawn(of=4)
def test_it_lists_the_same_objects_as_a_fresh_one(fresh: Fresh, alone: Devcluster) -> None:
    before, machines = contents(alone), nodes(alone)
    use(alone)
    assert contents(alone).keys() - before.keys()
    fresh.restore()
    assert contents(alone) == before
    assert nodes(alone) == machines
    assert len(machines) == NODES


def test_our_kinds_are_put_back(fresh: Fresh, alone: Devcluster) -> None:
    before = contents(alone)
    alone.kubectl("delete", "crd", "queues.rm-emulator.io", "dagjobs.rm-emulator.io")
    fresh.restore()
    wait(lambda: contents(alone) == before)  # the entry of their group comes a moment later
    alone.kubectl("get", "queues,dagjobs", "-A")


def test_parts_that_were_started_or_killed_are_as_before(fresh: Fresh, alone: Devcluster) -> None:
    before = {part for part, pid in alone.status().items() if pid is not None}
    alone.start("scheduler")
    alone.kill("kwok")
    fresh.restore()
    assert {part for part, pid in alone.status().items() if pid is not None} == before
