"""The whole loop on the real control plane: submit, pilots, release, filter, bind, run, finish, status."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from operators.devcluster.cluster import Devcluster
from operators.devcluster.deployments import Running
from schedulers.core.replay import Replay
from schedulers.objects import names
from tests.kubernetes.conftest import MANIFESTS

pytestmark = pytest.mark.controlplane


class Installed:
    """Our parts, running from the applied overlay."""

    def __init__(self, cluster: Devcluster, policy: str, predictor: str | None) -> None:
        self.cluster = cluster
        cluster.apply(MANIFESTS / "overlays" / "dev")
        config = cluster.get("configmap", "rm-brain", "-n", names.NAMESPACE)
        text = config["data"]["config.yaml"].replace("policy: {kind: gs}", f"policy: {{kind: {policy}}}")
        wanted = "null" if predictor is None else f"{{kind: {predictor}}}"
        text = text.replace("predictor: {kind: slearn}", f"predictor: {wanted}")
        patch = json.dumps({"data": {"config.yaml": text}})
        cluster.kubectl("patch", "configmap", "rm-brain", "-n", names.NAMESPACE, "--type=merge", "-p", patch)
        self.brain, self.controllers = Running(cluster, "rm-brain"), Running(cluster, "rm-controllers")
        try:
            self.controllers.wait_ready()
            self.brain.wait_ready()
        except BaseException:
            self.stop()
            raise

    @property
    def logs(self) -> list[Path]:
        """Event logs of this brain, oldest first."""
        return sorted((self.brain.replicas[0].folder / "volumes" / "state" / "log").glob("events-*.jsonl"))

    def stop(self) -> None:
        """End our parts; their objects stay."""
        self.brain.stop()
        self.controllers.stop()


def wait(true: Callable[[], Any], seconds: float = 60) -> Any:
    until = time.monotonic() + seconds
    while not (found := true()):
        assert time.monotonic() < until, "it does not happen"
        time.sleep(0.2)
    return found


def dagjob(name: str, namespace: str, stages: list[dict[str, Any]], **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": names.API_VERSION,
        "kind": "DagJob",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"stages": stages, **spec},
    }


def stage(name: str, tasks: int, seconds: int, *, cpu: str = "2", **more: Any) -> dict[str, Any]:
    container = {"name": "main", "image": "busybox", "resources": {"requests": {"cpu": cpu, "memory": "1Gi"}}}
    template = {"metadata": {"annotations": {names.RUN_SECONDS: str(seconds)}}, "spec": {"containers": [container]}}
    return {"name": name, "tasks": tasks, "template": template, **more}


def submit(cluster: Devcluster, *objects: dict[str, Any]) -> None:
    cluster.kubectl("create", "-f", "-", input=json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)}))


def phase(cluster: Devcluster, namespace: str, name: str) -> str:
    status = cluster.get("dagjob", name, "-n", namespace).get("status", {})
    return str(status.get("phase", ""))


@pytest.fixture(params=[("fifo", None), ("fair", None), ("gs", "slearn")], ids=lambda p: p[0], scope="module")
def installed(request: pytest.FixtureRequest, devcluster: Devcluster) -> Iterator[Installed]:
    running = Installed(devcluster, *request.param)
    yield running
    running.stop()
    for log in running.logs:
        lines = log.read_bytes().splitlines(keepends=True)
        assert sum(1 for _ in Replay(lines)) > 0


def test_a_dagjob_runs_to_its_end(installed: Installed) -> None:
    cluster, space = installed.cluster, installed.cluster.namespace()
    submit(
        cluster,
        dagjob("etl", space, [stage("map", 20, 2), stage("reduce", 3, 2, parents=["map"], gang=True)]),
        dagjob("small", space, [stage("only", 2, 2)]),
    )
    wait(lambda: phase(cluster, space, "etl") == "Succeeded", 90)
    wait(lambda: phase(cluster, space, "small") == "Succeeded", 30)
    status = cluster.get("dagjob", "etl", "-n", space)["status"]
    assert [(s["name"], s["succeeded"]) for s in status["stages"]] == [("map", 20), ("reduce", 3)]
    pods = cluster.get("pods", "-n", space)["items"]
    used: dict[str, int] = {}
    for pod in pods:
        used[pod["spec"]["nodeName"]] = used.get(pod["spec"]["nodeName"], 0) + 1
        (term,) = pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][
            "nodeSelectorTerms"
        ]
        assert term["matchFields"][0]["values"] == [pod["spec"]["nodeName"]]
    assert len(pods) == 25


def test_a_plain_pod_and_one_without_gate_run(installed: Installed) -> None:
    cluster, space = installed.cluster, installed.cluster.namespace()
    for name, gates in (("gated", [{"name": names.GATE}]), ("bare", [])):
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": name,
                "namespace": space,
                "labels": {names.QUEUE_LABEL: "default"},
                "annotations": {names.RUN_SECONDS: "2"},
            },
            "spec": {
                "schedulerName": names.SCHEDULER,
                "schedulingGates": gates,
                "restartPolicy": "Never",
                "containers": [{"name": "c", "image": "x", "resources": {"requests": {"cpu": "1"}}}],
            },
        }
        submit(cluster, pod)
    wait(lambda: [p["status"]["phase"] for p in cluster.get("pods", "-n", space)["items"]] == 2 * ["Succeeded"])


def test_what_waits_says_why(installed: Installed) -> None:
    cluster, space = installed.cluster, installed.cluster.namespace()
    submit(cluster, dagjob("big", space, [stage("all", 24, 4)]))
    reason = wait(lambda: cluster.get("dagjob", "big", "-n", space).get("status", {}).get("message"))
    assert "waiting in queue default" in reason
    pods = cluster.get("pods", "-n", space)["items"]
    wait(
        lambda: (
            any(c["type"] == names.WAITING_CONDITION for p in pods for c in p["status"].get("conditions", ()))
            or pods.__setitem__(slice(None), cluster.get("pods", "-n", space)["items"])
        )
    )
    wait(lambda: phase(cluster, space, "big") == "Succeeded", 60)
