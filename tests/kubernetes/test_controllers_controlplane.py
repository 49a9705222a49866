"""The controllers on the real control plane: tries, what is deleted or lost, what is refused, and their own death."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

from devcluster.cluster import Devcluster
from schedulers.objects import names
from tests.kubernetes.installed import Installed, dagjob, phase, stage, submit, wait

pytestmark = pytest.mark.controlplane


@pytest.fixture(scope="module")
def installed(alone: Devcluster) -> Iterator[Installed]:
    lease = {"name": names.CONTROLLERS_LEASE, "leaseDuration": "3s", "renewDeadline": "2s", "retryPeriod": "500ms"}
    running = Installed(alone, controllers={"leaderElection": lease, "recreateAfter": "5s"})
    yield running
    running.stop()
    assert running.replay() > 0


@pytest.fixture
def cluster(installed: Installed) -> Devcluster:
    return installed.cluster


@pytest.fixture
def space(cluster: Devcluster) -> str:
    return cluster.namespace("controllers")


def failing(name: str, *, seconds: float = 0) -> dict[str, Any]:
    """A stage whose only pod ends with code 1."""
    made = stage(name, 1, seconds, cpu="100m")
    made["template"]["metadata"]["annotations"][names.EXIT_CODE] = "1"
    return made


def pods(cluster: Devcluster, space: str) -> dict[str, dict[str, Any]]:
    return {pod["metadata"]["name"]: pod for pod in cluster.get("pods", "-n", space)["items"]}


def uids(cluster: Devcluster, space: str) -> set[str]:
    return {pod["metadata"]["uid"] for pod in pods(cluster, space).values()}


def phases(cluster: Devcluster, space: str) -> dict[str, str]:
    return {name: pod["status"]["phase"] for name, pod in pods(cluster, space).items()}


def status(cluster: Devcluster, space: str, name: str = "j") -> dict[str, Any]:
    shown: dict[str, Any] = cluster.get("dagjob", name, "-n", space).get("status", {})
    return shown


def condition(cluster: Devcluster, space: str, kind: str) -> tuple[str, str, str]:
    """(status, reason, message) of a condition of the DagJob j."""
    conditions = (c for c in status(cluster, space).get("conditions", ()) if c["type"] == kind)
    return next(((c["status"], c["reason"], c["message"]) for c in conditions), ("", "", ""))


def events(cluster: Devcluster, space: str, reason: str) -> int:
    events = cluster.get("events.events.k8s.io", "-n", space)["items"]
    return sum(1 for event in events if event["reason"] == reason and event["regarding"]["kind"] == "DagJob")


def end(cluster: Devcluster, space: str, name: str, **said: Any) -> None:
    """What a kubelet says when a pod has ended."""
    patch = json.dumps({"status": said})
    cluster.kubectl("patch", "pod", name, "-n", space, "--subresource=status", "--type=merge", "-p", patch)


# -- tries --------------------------------------------------------------------------------------


@pytest.mark.drawn(of=2)
def test_a_job_fails_after_its_retries_and_its_children_never_start(cluster: Devcluster, space: str) -> None:
    submit(cluster, dagjob("j", space, [failing("bad"), stage("child", 2, 1, parents=["bad"])], retries=2))
    wait(lambda: phase(cluster, space, "j") == "Failed", 30)
    assert phases(cluster, space) == {f"j-bad-0-{attempt}": "Failed" for attempt in range(3)}
    true, reason, message = condition(cluster, space, "Failed")
    assert (true, reason) == ("True", "TaskFailed")
    assert message.startswith("task 0 of stage bad failed 3 times, the last time with code 1 on node n")
    bad, child = status(cluster, space)["stages"]
    assert (bad["failed"], child["created"], child["started"]) == (3, 0, False)
    assert events(cluster, space, "TaskRetried") == 2


def test_retries_are_bounded_although_failed_pods_are_deleted(cluster: Devcluster, space: str) -> None:
    submit(cluster, dagjob("j", space, [failing("bad", seconds=1)], retries=2))
    seen: set[str] = set()

    def over() -> bool:
        failed = [name for name, phase in phases(cluster, space).items() if phase == "Failed"]
        seen.update(failed)
        if failed:
            cluster.kubectl("delete", "pod", "-n", space, "--ignore-not-found", *failed)
        return phase(cluster, space, "j") == "Failed"

    wait(over, 30)
    assert status(cluster, space)["stages"][0]["failed"] == 3
    assert {"j-bad-0-0", "j-bad-0-1"} <= seen  # the last one may end after the test has looked


def test_a_pod_that_is_evicted_is_no_failed_try(cluster: Devcluster, space: str) -> None:
    submit(cluster, dagjob("j", space, [stage("a", 1, 600, cpu="100m")], retries=0))
    wait(lambda: phases(cluster, space).get("j-a-0-0") == "Running")
    end(cluster, space, "j-a-0-0", phase="Failed", reason="Evicted", message="The node was low on resource: memory.")
    wait(lambda: phases(cluster, space) == {"j-a-0-0": "Failed", "j-a-0-1": "Running"}, 30)
    wait(lambda: status(cluster, space)["stages"][0]["running"] == 1, 10)
    assert (phase(cluster, space, "j"), status(cluster, space)["stages"][0]["failed"]) == ("Running", 0)
    cluster.kubectl("delete", "dagjob", "j", "-n", space)


# -- what is deleted or lost --------------------------------------------------------------------


def test_a_gated_pod_that_is_deleted_comes_back(cluster: Devcluster, space: str) -> None:
    submit(cluster, dagjob("j", space, [stage("a", 1, 1, cpu="900")]))  # no node is as large
    before = wait(lambda: pods(cluster, space).get("j-a-0-0"))
    cluster.kubectl("delete", "pod", "j-a-0-0", "-n", space)
    after = wait(lambda: pods(cluster, space).get("j-a-0-0"), 10)
    assert after["metadata"]["uid"] != before["metadata"]["uid"]
    assert after["spec"]["schedulingGates"] == [{"name": names.GATE}]


def test_a_pod_on_a_node_that_is_gone_is_made_anew_and_has_not_failed(cluster: Devcluster, space: str) -> None:
    cluster.add_nodes(1, prefix="gone", labels={"lost": "soon"}, reserved=True)
    try:
        selective = stage("a", 1, 4)
        selective["template"]["spec"]["nodeSelector"] = {"lost": "soon"}
        submit(cluster, dagjob("j", space, [selective], retries=0))
        wait(lambda: phases(cluster, space).get("j-a-0-0") == "Running")
        before = uids(cluster, space)
        cluster.kubectl("delete", "node", "gone0")
        wait(lambda: uids(cluster, space) - before, 20)
        assert phase(cluster, space, "j") in ("Pending", "Running")
        cluster.add_nodes(1, prefix="gone", labels={"lost": "soon"}, reserved=True)
        wait(lambda: phase(cluster, space, "j") == "Succeeded", 30)
        assert status(cluster, space)["stages"][0]["failed"] == 0
    finally:
        cluster.kubectl("delete", "node", "gone0", "--ignore-not-found")


def test_a_pod_that_lost_its_labels_is_made_anew(cluster: Devcluster, space: str) -> None:
    submit(cluster, dagjob("j", space, [stage("a", 1, 1, cpu="900")]))
    before = wait(lambda: pods(cluster, space).get("j-a-0-0"))
    cluster.kubectl("label", "pod", "j-a-0-0", "-n", space, f"{names.QUEUE_LABEL}-")
    after = wait(lambda: uids(cluster, space) - {before["metadata"]["uid"]} and pods(cluster, space)["j-a-0-0"], 15)
    assert after["metadata"]["labels"][names.QUEUE_LABEL] == "default"


# -- what is refused ----------------------------------------------------------------------------


def test_an_invalid_template_is_told_in_the_api_servers_words(cluster: Devcluster, space: str) -> None:
    bad = stage("a", 40, 1)
    del bad["template"]["spec"]["containers"][0]["name"]
    submit(cluster, dagjob("j", space, [bad]))
    wait(lambda: condition(cluster, space, "PodsRefused")[0] == "True", 20)
    _, reason, message = condition(cluster, space, "PodsRefused")
    assert (reason, 'Pod "j-a-' in message) == ("InvalidTemplate", True)
    assert "spec.containers[0].name: Required value" in message
    assert (events(cluster, space, "PodsRefused"), events(cluster, space, "StageStarted")) == (1, 1)


def test_a_quota_is_waited_out(cluster: Devcluster, space: str) -> None:
    cluster.kubectl("create", "quota", "small", "-n", space, "--hard=pods=0")
    # As the controller of quotas does, which a devcluster has not.
    used = json.dumps({"status": {"hard": {"pods": "0"}, "used": {"pods": "0"}}})
    cluster.kubectl("patch", "quota", "small", "-n", space, "--subresource=status", "--type=merge", "-p", used)
    submit(cluster, dagjob("j", space, [stage("a", 2, 1)]))
    wait(lambda: "exceeded quota: small" in condition(cluster, space, "PodsRefused")[2], 20)
    cluster.kubectl("delete", "quota", "small", "-n", space)
    wait(lambda: phase(cluster, space, "j") == "Succeeded", 30)
    assert condition(cluster, space, "PodsRefused")[:2] == ("False", "Accepted")
    assert events(cluster, space, "StageStarted") == 1


def test_a_name_that_is_taken_is_told_and_free_once_its_pod_is_gone(cluster: Devcluster, space: str) -> None:
    container = {"name": "c", "image": "x"}
    meta = {"name": "j-a-0-0", "namespace": space}
    submit(cluster, {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {"containers": [container]}})
    submit(cluster, dagjob("j", space, [stage("a", 2, 1)]))
    wait(lambda: condition(cluster, space, "PodsRefused")[1] == "NameTaken", 20)
    assert "pod j-a-0-0 is there already and is nobody's" in condition(cluster, space, "PodsRefused")[2]
    cluster.kubectl("delete", "pod", "j-a-0-0", "-n", space)
    wait(lambda: phase(cluster, space, "j") == "Succeeded", 30)
    assert events(cluster, space, "PodsRefused") == 1


def test_a_queue_that_goes_is_told_and_comes_back(cluster: Devcluster, space: str) -> None:
    queue = {"apiVersion": names.API_VERSION, "kind": "Queue", "metadata": {"name": f"q-{space}"}, "spec": {}}
    submit(cluster, queue)
    submit(cluster, dagjob("j", space, [stage("a", 1, 1, cpu="900")], queue=f"q-{space}"))
    wait(lambda: condition(cluster, space, "QueueKnown")[0] == "True", 10)
    cluster.kubectl("delete", "rmq", f"q-{space}")
    wait(lambda: condition(cluster, space, "QueueKnown")[:2] == ("False", "NotFound"), 10)
    submit(cluster, queue)
    wait(lambda: condition(cluster, space, "QueueKnown")[0] == "True", 10)
    cluster.kubectl("delete", "rmq", f"q-{space}")


# -- ends ---------------------------------------------------------------------------------------


def test_controllers_that_are_killed_lose_nothing(installed: Installed, cluster: Devcluster, space: str) -> None:
    stages = [stage("a", 8, 1, cpu="500m"), failing("flaky"), stage("b", 4, 1, parents=["a"])]
    submit(cluster, dagjob("j", space, stages[:1] + stages[2:]), dagjob("bad", space, [stages[1]], retries=4))
    for _ in range(2):
        time.sleep(1)
        installed.controllers.kill("controllers")
    wait(lambda: (phase(cluster, space, "j"), phase(cluster, space, "bad")) == ("Succeeded", "Failed"), 60)
    now = phases(cluster, space)
    assert [name for name in now if name.startswith("bad-")] == [f"bad-flaky-0-{n}" for n in range(5)]
    assert sorted(name for name in now if name.startswith("j-")) == sorted(
        f"j-{stage}-{n}-0" for stage, tasks in (("a", 8), ("b", 4)) for n in range(tasks)
    )
    assert status(cluster, space, "bad")["stages"][0]["failed"] == 5


def test_a_finished_job_is_deleted_after_its_time(cluster: Devcluster, space: str) -> None:
    submit(
        cluster,
        dagjob("j", space, [stage("a", 2, 1)], ttlSecondsAfterFinished=2),
        dagjob("stays", space, [stage("a", 1, 1)]),
    )
    wait(lambda: phase(cluster, space, "stays") == "Succeeded", 30)
    wait(lambda: [job["metadata"]["name"] for job in cluster.get("dagjobs", "-n", space)["items"]] == ["stays"], 20)
    wait(lambda: list(pods(cluster, space)) == ["stays-a-0-0"], 20)


def test_a_deleted_dagjob_takes_its_pods_along_and_its_namesake_starts_anew(cluster: Devcluster, space: str) -> None:
    job = dagjob("j", space, [stage("a", 3, 600, cpu="100m")])
    submit(cluster, job)
    wait(lambda: list(phases(cluster, space).values()) == 3 * ["Running"])
    before = {pod["metadata"]["uid"] for pod in pods(cluster, space).values()}
    cluster.kubectl("delete", "dagjob", "j", "-n", space)
    submit(cluster, job)  # while the garbage collector, which looks for new kinds every 30 s, takes the others away
    wait(lambda: list(phases(cluster, space).values()) == 3 * ["Running"] and not before & uids(cluster, space), 60)
    assert events(cluster, space, "PodsRefused") == 0
    cluster.kubectl("delete", "dagjob", "j", "-n", space)
    wait(lambda: not pods(cluster, space), 20)
