"""What others do to our pods on the real control plane: hidden use, kubelets that refuse, what cannot be bound."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from devcluster.cluster import Devcluster
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


# -- priorities ---------------------------------------------------------------------------------


@pytest.mark.drawn(of=2)
def test_a_pod_of_high_priority_waits_like_all_others(cluster: Devcluster, space: str) -> None:
    """It is without gate, so it is kube-scheduler that finds no room for it, and could preempt."""
    submit(cluster, dagjob("j", space, [stage("a", 4, 15, cpu="8")]))
    wait(lambda: [bool(p["spec"].get("nodeName")) for p in pods(cluster, space).values()] == 4 * [True], 60)
    tasks = {name: pod["metadata"]["uid"] for name, pod in pods(cluster, space).items()}
    high = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "value": 1_000_000}
    high["metadata"] = {"name": f"high-{space}"}
    urgent = plain("urgent", space, names.SCHEDULER, **{names.QUEUE_LABEL: "default"})
    urgent["metadata"]["annotations"][f"{names.GROUP}/gate"] = "false"
    urgent["spec"]["priorityClassName"] = f"high-{space}"
    submit(cluster, high, urgent)
    wait(lambda: unschedulable(cluster, space, "urgent"), 20)
    wait(lambda: phase(cluster, space, "j") == "Succeeded", 40)
    assert {name: pods(cluster, space).get(name, {}).get("metadata", {}).get("uid") for name in tasks} == tasks
    wait(lambda: pods(cluster, space)["urgent"]["status"]["phase"] == "Succeeded", 30)
    cluster.kubectl("delete", "priorityclass", f"high-{space}")


def unschedulable(cluster: Devcluster, space: str, name: str) -> str:
    """What kube-scheduler says of a pod that it cannot bind."""
    conditions = pods(cluster, space)[name]["status"].get("conditions", ())
    return next(
        (c["message"] for c in conditions if (c["type"], c.get("reason")) == ("PodScheduled", "Unschedulable")), ""
    )


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


# -- kubelets that refuse -----------------------------------------------------------------------


def condition(cluster: Devcluster, space: str, kind: str) -> tuple[str, str, str]:
    conditions = (c for c in status(cluster, space).get("conditions", ()) if c["type"] == kind)
    return next(((c["status"], c["reason"], c["message"]) for c in conditions), ("", "", ""))


def test_a_task_that_a_kubelet_refuses_is_placed_anew_and_has_not_failed(cluster: Devcluster, space: str) -> None:
    submit(cluster, dagjob("j", space, [stage("a", 1, 4)], retries=0))
    wait(lambda: pods(cluster, space).get("j-a-0-0", {}).get("status", {}).get("phase") == "Running")
    node = pods(cluster, space)["j-a-0-0"]["spec"]["nodeName"]
    said = {
        "phase": "Failed",
        "reason": "OutOfcpu",
        "message": "Node didn't have enough resource",
        "containerStatuses": [],
    }
    patch = json.dumps({"status": said})
    cluster.kubectl("patch", "pod", "j-a-0-0", "-n", space, "--subresource=status", "--type=merge", "-p", patch)
    wait(lambda: "j-a-0-1" in pods(cluster, space), 20)
    words = f"node {node} refused pod j-a-0-0: OutOfcpu: Node didn't have enough resource"
    wait(lambda: phase(cluster, space, "j") == "Succeeded", 30)
    assert condition(cluster, space, "PodsUnplaced")[:2] == ("False", "Placed")
    assert status(cluster, space)["stages"][0]["failed"] == 0
    events = cluster.get("events.events.k8s.io", "-n", space)["items"]
    assert [e["note"] for e in events if e["reason"] == "PodRefused"] == [f"{words}; it is made anew"]


# -- what kube-scheduler cannot bind ------------------------------------------------------------


def test_pods_that_kube_scheduler_cannot_bind_hold_nothing_and_say_why(cluster: Devcluster, space: str) -> None:
    stuck = stage("a", 4, 1, cpu="8")
    stuck["template"]["spec"]["volumes"] = [{"name": "v", "persistentVolumeClaim": {"claimName": "missing"}}]
    submit(cluster, dagjob("j", space, [stuck]))
    wait(lambda: condition(cluster, space, "PodsUnplaced")[:2] == ("True", "Unschedulable"), 20)
    assert 'persistentvolumeclaim "missing" not found' in condition(cluster, space, "PodsUnplaced")[2]
    submit(cluster, dagjob("other", space, [stage("a", 4, 1, cpu="8")]))
    wait(lambda: phase(cluster, space, "other") == "Succeeded", 25)
    wait(lambda: 'persistentvolumeclaim "missing" not found' in status(cluster, space).get("message", ""), 10)
    cluster.kubectl("delete", "dagjob", "j", "-n", space)


def test_a_dagjob_that_asks_for_what_is_not_configured_is_refused(cluster: Devcluster, space: str) -> None:
    asks = stage("a", 4, 1)
    asks["template"]["spec"]["containers"][0]["resources"]["limits"] = {"example.com/gpu": "1"}
    submit(cluster, dagjob("j", space, [asks]))
    wait(lambda: phase(cluster, space, "j") == "Failed", 10)
    true, reason, message = condition(cluster, space, "Failed")
    assert (true, reason) == ("True", "UnknownResource")
    assert message.startswith("stage a asks for example.com/gpu, which is not among the configured resources")
    assert pods(cluster, space) == {}


# -- another scheduler --------------------------------------------------------------------------


@pytest.fixture
def default_scheduler(cluster: Devcluster, tmp_path: Path) -> Iterator[list[str]]:
    """The cluster's own scheduler beside ours, with two nodes that are not reserved."""
    config = cluster.scheduler_config()
    config["profiles"] = [{"schedulerName": "default-scheduler"}]
    file = tmp_path / "default-scheduler.yaml"
    file.write_text(yaml.safe_dump(config))
    cluster.start("scheduler", config=file)
    shared = cluster.add_nodes(2, prefix="shared")
    yield shared
    cluster.processes["scheduler"].stop()
    cluster.kubectl("delete", "node", *shared)


def plain(name: str, space: str, scheduler: str, **labels: str) -> dict[str, Any]:
    container = {"name": "c", "image": "x", "resources": {"requests": {"cpu": "300m", "memory": "1Gi"}}}
    meta = {"name": name, "namespace": space, "labels": labels, "annotations": {names.RUN_SECONDS: "3"}}
    spec = {"schedulerName": scheduler, "restartPolicy": "Never", "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


def test_two_schedulers_keep_to_their_own_nodes(cluster: Devcluster, space: str, default_scheduler: list[str]) -> None:
    others = [plain(f"other-{n}", space, "default-scheduler") for n in range(50)]
    mine = [plain(f"mine-{n}", space, names.SCHEDULER, **{names.QUEUE_LABEL: "default"}) for n in range(4)]
    submit(cluster, dagjob("j", space, [stage("a", 20, 2)]), *others, *mine)
    wait(lambda: {pod["status"]["phase"] for pod in pods(cluster, space).values()} == {"Succeeded"})
    ran = {name: pod["spec"]["nodeName"] for name, pod in pods(cluster, space).items()}
    assert {node for name, node in ran.items() if name.startswith("other-")} == set(default_scheduler)
    assert {node for name, node in ran.items() if not name.startswith("other-")} <= {f"n{n}" for n in range(4)}
