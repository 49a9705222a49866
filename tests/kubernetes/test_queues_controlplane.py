"""Policies that follow a tree of queues, on the real control plane, with no code of their own there."""

from __future__ import annotations

from collections import Counter

import pytest

from devcluster.cluster import Devcluster
from schedulers.core.replay import Replay
from schedulers.core.scheduler import Scheduler
from schedulers.objects import names
from tests.kubernetes.installed import MANIFESTS, Installed, dagjob, phase, stage, submit, wait

pytestmark = pytest.mark.controlplane

#: 16 tasks of 2 CPU fill the four nodes. Two are in scratch, whose limit they reach; of the others the weights
#: give data three quarters and training one.
TASKS = {"analytics": 14, "reports": 7, "training": 7, "scratch": 4}
DATA = ("analytics", "reports")


@pytest.mark.parametrize(("policy", "predictor"), [("drf", "slearn"), ("hdrf", None), ("capacity", None)])
@pytest.mark.drawn(of=8)
def test_queues_get_what_weights_and_limits_say(alone: Devcluster, policy: str, predictor: str | None) -> None:
    alone.apply(MANIFESTS / "samples" / "queues.yaml")
    space = alone.namespace()
    settings = {"policy": {"kind": policy}, "predictor": {"kind": predictor} if predictor else None}
    installed = Installed(alone, brain=settings)
    try:
        begin_at_once(alone, space)
        wait(lambda: in_proportion(held(alone, space)), 30)
        wait(lambda: any(is_told_of_the_limit(text) for text in told(alone, space)), 30)
        wait(lambda: share(alone, "scratch") == "12.5%", 30)
        for queue in TASKS:
            wait(lambda queue=queue: phase(alone, space, queue) == "Succeeded", 60)
    finally:
        installed.stop()
    assert installed.replay() > 0
    check_every_moment(installed, policy, pilots=predictor is not None)


def begin_at_once(cluster: Devcluster, space: str) -> None:
    """All jobs wait before the first task may start, so that nobody is there before the others."""
    nodes = [node["metadata"]["name"] for node in cluster.get("nodes")["items"]]
    cluster.kubectl("cordon", *nodes)
    try:
        jobs = []
        for queue, tasks in TASKS.items():
            stages = [stage("all", tasks, 4)]
            if queue == "reports":
                stages.append(stage("sum", 2, 1, parents=["all"], gang=True))
            jobs.append(dagjob(queue, space, stages, queue=queue))
        submit(cluster, *jobs)
        wait(lambda: len(cluster.get("pods", "-n", space)["items"]) == sum(TASKS.values()), 30)
    finally:
        cluster.kubectl("uncordon", *nodes)


def held(cluster: Devcluster, space: str) -> Counter[str]:
    """Pods on nodes, by queue."""
    bound = [p for p in cluster.get("pods", "-n", space)["items"] if p["spec"].get("nodeName")]
    return Counter(
        p["metadata"]["labels"][names.QUEUE_LABEL] for p in bound if p["status"]["phase"] not in ("Succeeded", "Failed")
    )


def in_proportion(tasks: Counter[str]) -> bool:
    """Of 14 tasks 10.5 in data and 3.5 in training, and in data twice as many in analytics; each up to one task."""
    data = sum(tasks[queue] for queue in DATA)
    return (
        (data, tasks["training"]) in ((10, 4), (11, 3))
        and abs(tasks["analytics"] - 2 * data / 3) <= 1
        and tasks["scratch"] == 2
    )


def told(cluster: Devcluster, space: str) -> list[str]:
    """What pods of scratch that wait are told."""
    return [
        condition.get("message", "")
        for pod in cluster.get("pods", "-n", space, "-l", f"{names.QUEUE_LABEL}=scratch")["items"]
        for condition in pod["status"].get("conditions", ())
        if (condition["type"], condition["status"]) == (names.WAITING_CONDITION, "True")
    ]


def is_told_of_the_limit(text: str) -> bool:
    return (
        "queue scratch holds 4 of cpu (12.5% of the cluster) and may hold 4: "
        "2 more for stage all would be over its limit" in text
    )


def share(cluster: Devcluster, queue: str) -> str:
    return str(cluster.get("queue.rm-emulator.io", queue).get("status", {}).get("share", ""))


def check_every_moment(installed: Installed, policy: str, *, pilots: bool) -> None:
    """What brain decided, fact by fact: the limit held throughout, and the proportion whenever the cluster was full."""
    full = sampled = 0
    for file in installed.logs:
        replay = Replay(file.read_bytes().splitlines(keepends=True))
        if replay.scheduler.config.policy["kind"] != policy:
            continue  # of an earlier test: the volume is still there
        for step in replay:
            state = replay.scheduler.state
            assert state.tree.used("scratch")[0] <= 4000
            tasks = running(replay.scheduler)
            waits = {job.spec.queue for job in state.waiting.values()}
            if step.decisions and waits == set(TASKS) and sum(tasks.values()) == 16:
                assert in_proportion(tasks), tasks
                full += 1
            sampled += any(container.pilot for container in state.containers.values())
    assert full > 0
    assert (sampled > 0) == pilots


def running(scheduler: Scheduler) -> Counter[str]:
    state = scheduler.state
    return Counter(state.jobs[container.job].spec.queue for container in state.containers.values())
