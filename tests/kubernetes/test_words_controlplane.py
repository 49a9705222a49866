"""What users are told on the real control plane: of waiting, limits and templates, and that it ends when that does."""

from __future__ import annotations

import json
import re
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from devcluster.cluster import Devcluster
from schedulers.objects import names
from tests.kubernetes.installed import Installed, dagjob, phase, stage, submit, wait

pytestmark = pytest.mark.controlplane


@pytest.fixture(scope="module")
def installed(alone: Devcluster) -> Iterator[Installed]:
    running = Installed(alone, brain={"conditions": {"perSecond": 200}})
    yield running
    running.stop()


@pytest.fixture
def cluster(installed: Installed) -> Devcluster:
    return installed.cluster


@pytest.fixture
def space(cluster: Devcluster) -> str:
    return cluster.namespace("words")


def queue(name: str, **spec: Any) -> dict[str, Any]:
    return {"apiVersion": names.API_VERSION, "kind": "Queue", "metadata": {"name": name}, "spec": spec}


def status(cluster: Devcluster, space: str, name: str) -> dict[str, Any]:
    shown: dict[str, Any] = cluster.get("dagjob", name, "-n", space).get("status", {})
    return shown


def conditions(item: dict[str, Any], kind: str) -> list[tuple[str, str]]:
    """(status, reason) of an object's conditions of a type."""
    return [(c["status"], c["reason"]) for c in item.get("status", {}).get("conditions", ()) if c["type"] == kind]


def waits(cluster: Devcluster, space: str) -> list[tuple[str, str]]:
    items = cluster.get("pods", "-n", space)["items"]
    return [said for pod in items for said in conditions(pod, names.WAITING_CONDITION)]


def metrics(installed: Installed) -> dict[str, float]:
    """The brain's figures of queues."""
    (replica,) = installed.brain.replicas
    with urllib.request.urlopen(f"http://127.0.0.1:{replica.ports[8081]}/metrics") as answer:
        text = answer.read().decode()
    return {name: float(value) for name, value in re.findall(r"^(rm_queue_\S+) (\S+)$", text, re.MULTILINE)}


def mistakes(installed: Installed) -> list[str]:
    """Lines of our parts' logs that tell of an error or a warning."""
    return [line for line in installed.said("warning").splitlines() if re.search(r'"level": ?"(error|warning)"', line)]


def test_words_of_waiting_end_with_it_and_kubectl_wait_sees_it(cluster: Devcluster, space: str) -> None:
    submit(cluster, dagjob("first", space, [stage("all", 16, 4)]), dagjob("many", space, [stage("all", 16, 0.1)]))
    wait(lambda: "True" in {said for said, _ in waits(cluster, space)})
    wait(lambda: phase(cluster, space, "many") == "Succeeded", 90)
    wait(lambda: {said for said, _ in waits(cluster, space)} == {"False"}, 20)
    told = [pod for pod in cluster.get("pods", "-n", space)["items"] if conditions(pod, names.WAITING_CONDITION)]
    cluster.kubectl(
        "wait",
        "pod",
        told[0]["metadata"]["name"],
        "-n",
        space,
        f"--for=condition={names.WAITING_CONDITION}=false",
        "--timeout=1s",
    )
    wait(lambda: not status(cluster, space, "many").get("reason"), 5)


def test_a_node_selector_that_matches_no_node_is_told_as_such(cluster: Devcluster, space: str) -> None:
    picky = stage("a", 1, 1)
    picky["template"]["spec"]["nodeSelector"] = {"zone": "nowhere"}
    submit(cluster, dagjob("picky", space, [picky]))
    wait(lambda: status(cluster, space, "picky").get("reason") == "NoNodeMatches", 20)
    assert status(cluster, space, "picky")["message"].startswith(
        "stage a may use none of the 4 nodes (4 with other labels)"
    )


def test_a_template_that_the_api_server_refuses_is_told_as_such(cluster: Devcluster, space: str) -> None:
    wrong = stage("a", 1, 1)
    wrong["template"]["spec"]["containers"][0]["comand"] = ["true"]
    submit(cluster, dagjob("wrong", space, [wrong]))
    wait(lambda: status(cluster, space, "wrong").get("reason") == "PodsRefused", 20)
    shown = status(cluster, space, "wrong")
    assert 'unknown field "spec.containers[0].comand"' in shown["message"]
    assert [said for said, _ in conditions({"status": shown}, names.PODS_REFUSED)] == ["True"]


def test_an_event_of_a_pod_without_gate_says_why_and_not_that_there_is_room(cluster: Devcluster, space: str) -> None:
    submit(cluster, queue("closed", max={"cpu": 1}))
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "bare",
            "namespace": space,
            "labels": {names.QUEUE_LABEL: "closed"},
            "annotations": {"rm-emulator.io/gate": "false"},
        },
        "spec": {
            "schedulerName": names.SCHEDULER,
            "containers": [{"name": "c", "image": "x", "resources": {"requests": {"cpu": "2"}}}],
        },
    }
    submit(cluster, pod)

    def told() -> str:
        events = cluster.get("events.events.k8s.io", "-n", space)["items"]
        return " ".join(event.get("note", "") for event in events if event["reason"] == "FailedScheduling")

    wait(lambda: "queue closed holds 0 of cpu" in told(), 40)  # pods of the test before may hold all nodes at first
    assert "has room" not in told()
    cluster.kubectl("delete", "pod", "bare", "-n", space, "--wait=false")
    cluster.kubectl("delete", "queue.rm-emulator.io", "closed")


def test_a_deleted_queue_that_was_called_default_leaves_the_default_queue_open(cluster: Devcluster, space: str) -> None:
    submit(cluster, queue("default", max={"cpu": 1}))
    wait(lambda: conditions(cluster.get("queue.rm-emulator.io", "default"), "Ready"), 20)
    cluster.kubectl("delete", "queue.rm-emulator.io", "default")
    submit(cluster, dagjob("after", space, [stage("a", 1, 0.2)]))
    wait(lambda: phase(cluster, space, "after") == "Succeeded", 30)


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"max": {"cpus": 4}}, "there is no resource cpus (cpu, memory"),
        ({"guaranteed": {"cpu": 1, "mem": "1Gi"}}, "there is no resource mem (cpu"),
        ({"perUser": {"limit": {"gpu": 1}}}, "there is no resource gpu (cpu"),
        ({"max": {"cpu": "four"}}, "an amount in a limit cannot be read"),
        ({"max": {"cpu": -1}}, "an amount in a limit cannot be read, is below 0"),
        ({"max": "120%"}, "a limit is neither a share"),
        ({"max": 50}, "a limit is neither a share"),
        ({"max": [1]}, "a limit is neither a share"),
    ],
    ids=str,
)
def test_a_limit_that_means_nothing_is_refused(cluster: Devcluster, spec: dict[str, Any], why: str) -> None:
    with pytest.raises(RuntimeError) as refused:
        submit(cluster, queue("limits", **spec))
    assert why in str(refused.value)


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"max": {"cpu": 4, "memory": "8Gi", "nvidia.com/gpu": 1, "pods": 1.0}, "perUser": {"maxRunning": 1}},
        {"guaranteed": "12.5%", "max": "100%", "perUser": {"limit": 0.25}},
        {"guaranteed": 0, "max": "0.5"},
    ],
    ids=str,
)
def test_a_limit_that_can_be_read_passes(cluster: Devcluster, spec: dict[str, Any]) -> None:
    body = json.dumps(queue("limits", **spec))
    assert "created" in cluster.kubectl("create", "--dry-run=server", "-f", "-", input=body)


def test_guarantees_of_more_than_there_is_are_told_on_the_queue(cluster: Devcluster) -> None:
    submit(cluster, queue("half-a", guaranteed="90%"), queue("half-b", guaranteed="90%"))

    def told() -> list[str]:
        ready = cluster.get("queue.rm-emulator.io", "half-b").get("status", {}).get("conditions", ())
        return [c["message"] for c in ready if (c["status"], c["reason"]) == ("False", "LimitsContradict")]

    assert wait(told, 10) == ["'half-a', 'half-b' are guaranteed 180% together, and the cluster has 100%"]
    cluster.kubectl("delete", "queue.rm-emulator.io", "half-a", "half-b")


def test_parents_count_what_is_below_them_and_queues_that_are_gone_have_no_figures(
    installed: Installed, cluster: Devcluster, space: str
) -> None:
    submit(cluster, queue("above"), queue("below", parent="above"))
    submit(cluster, dagjob("long", space, [stage("a", 2, 60)], queue="below"))

    def shown_above() -> dict[str, Any]:
        shown: dict[str, Any] = cluster.get("queue.rm-emulator.io", "above").get("status", {})
        return shown if shown.get("running") == 2 else {}

    shown = wait(shown_above, 20)
    assert (shown["jobs"], shown["share"]) == (1, "12.5%")
    wait(lambda: metrics(installed).get('rm_queue_share{queue="above"}') == 0.125, 5)
    assert metrics(installed)['rm_queue_running_pods{queue="below"}'] == 2
    cluster.kubectl("delete", "dagjob", "long", "-n", space)
    cluster.kubectl("delete", "queue.rm-emulator.io", "below", "above")
    wait(lambda: not cluster.get("pods", "-n", space)["items"], 60)
    wait(lambda: not [name for name in metrics(installed) if "below" in name or "above" in name], 5)


def test_a_running_job_is_deleted_without_an_error(installed: Installed, cluster: Devcluster, space: str) -> None:
    submit(cluster, dagjob("long", space, [stage("a", 40, 60), stage("b", 1, 1, parents=["a"])]))
    wait(lambda: any(s.get("running", 0) > 5 for s in status(cluster, space, "long").get("stages", ())), 30)
    before = mistakes(installed)
    cluster.kubectl("delete", "dagjob", "long", "-n", space)
    wait(lambda: not cluster.get("pods", "-n", space)["items"], 60)
    assert mistakes(installed) == before
