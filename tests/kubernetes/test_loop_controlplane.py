"""The whole loop on the real control plane: submit, pilots, release, filter, bind, run, finish, status."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from devcluster.cluster import Devcluster
from schedulers.objects import names
from tests.kubernetes.installed import Installed, dagjob, phase, stage, submit, wait

pytestmark = pytest.mark.controlplane


#: By night, because their way is a part of that of gs, which has pilots and sizes.
SIMPLER = [pytest.param((policy, None), marks=pytest.mark.nightly) for policy in ("fifo", "fair")]


@pytest.fixture(params=[*SIMPLER, ("gs", "slearn")], ids=lambda p: p[0], scope="module")
def installed(request: pytest.FixtureRequest, alone: Devcluster) -> Iterator[Installed]:
    policy, predictor = request.param
    running = Installed(
        alone,
        brain={"policy": {"kind": policy}, "predictor": {"kind": predictor} if predictor else None},
    )
    yield running
    running.stop()
    assert running.replay() > 0


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
    for name, gate in (("gated", "true"), ("bare", "false")):
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": name,
                "namespace": space,
                "labels": {names.QUEUE_LABEL: "default"},
                "annotations": {names.RUN_SECONDS: "2", "rm-emulator.io/gate": gate},
            },
            "spec": {
                "schedulerName": names.SCHEDULER,
                "restartPolicy": "Never",
                "containers": [{"name": "c", "image": "x", "resources": {"requests": {"cpu": "1"}}}],
            },
        }
        submit(cluster, pod)
    wait(lambda: [p["status"]["phase"] for p in cluster.get("pods", "-n", space)["items"]] == 2 * ["Succeeded"])


def test_what_waits_says_why(installed: Installed) -> None:
    cluster, space = installed.cluster, installed.cluster.namespace()
    submit(cluster, dagjob("big", space, [stage("all", 24, 4)]))

    def told() -> bool:
        status = cluster.get("dagjob", "big", "-n", space).get("status", {})
        return bool(status.get("position") == 1)

    wait(told)  # first its pods are still to come, and it has no place in the queue yet
    pods = cluster.get("pods", "-n", space)["items"]
    wait(
        lambda: (
            any(c["type"] == names.WAITING_CONDITION for p in pods for c in p["status"].get("conditions", ()))
            or pods.__setitem__(slice(None), cluster.get("pods", "-n", space)["items"])
        )
    )
    wait(lambda: phase(cluster, space, "big") == "Succeeded", 60)
