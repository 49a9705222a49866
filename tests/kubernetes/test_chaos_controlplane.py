"""Many kills under load, fifty by night: nothing is over-committed, no gang stays partial, every job ends."""

from __future__ import annotations

import math
import random
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from devcluster.cluster import Devcluster
from schedulers.objects import names
from tests.examples import examples
from tests.kubernetes.installed import Installed, dagjob, stage, submit, wait

pytestmark = [pytest.mark.controlplane, pytest.mark.chaos]

#: By night.
KILLS = 50
#: After the last kill no gang stays partial for longer.
SETTLED_S = 30
CPUS = 8000


@pytest.fixture
def installed(anew: Devcluster) -> Iterator[Installed]:
    running = Installed(
        anew,
        brain={
            "leaderElection": {"leaseDuration": "3s", "renewDeadline": "2s", "retryPeriod": "500ms"},
            "snapshot": {"everySeconds": 2},
        },
        controllers={
            "leaderElection": {
                "name": names.CONTROLLERS_LEASE,
                "leaseDuration": "3s",
                "renewDeadline": "2s",
                "retryPeriod": "500ms",
            },
            "recreateAfter": "5s",
        },
    )
    yield running
    running.stop()


class Watcher(threading.Thread):
    """Looks at all pods, over and over, for a node that holds more than it has, and for gangs that stay partial."""

    def __init__(self, cluster: Devcluster, space: str) -> None:
        super().__init__(daemon=True)
        self.cluster, self.space = cluster, space
        self.over, self.looks = threading.Event(), 0
        self.overcommitted: list[str] = []
        self.last_kill, self.stuck = math.inf, set[str]()
        self._partial_since: dict[str, float] = {}

    def run(self) -> None:
        while not self.over.wait(0.5):
            try:
                pods = self.cluster.get("pods", "-n", self.space)["items"]
            except (RuntimeError, ValueError):
                continue  # the API server is away
            self.looks += 1
            used: dict[str, int] = {}
            for pod in pods:
                node = pod["spec"].get("nodeName")
                if node and pod["status"]["phase"] in ("Pending", "Running"):
                    used[node] = used.get(node, 0) + milli(pod)
            self.overcommitted += [f"{node}: {amount}" for node, amount in used.items() if amount > CPUS]
            self._look_at_gangs(pods, time.monotonic())

    def _look_at_gangs(self, pods: list[dict[str, Any]], now: float) -> None:
        partial = [job for job, members in gangs(pods).items() if is_partial(members)]
        self._partial_since = {job: self._partial_since.get(job, now) for job in partial}
        since = {job: max(begun, self.last_kill) for job, begun in self._partial_since.items()}
        self.stuck |= {job for job, begun in since.items() if now - begun > SETTLED_S}


def milli(pod: dict[str, Any]) -> int:
    """CPU that a pod asks for."""
    asked = [c["resources"]["requests"]["cpu"] for c in pod["spec"]["containers"]]
    return sum(int(a[:-1]) if a.endswith("m") else 1000 * int(a) for a in asked)


@pytest.mark.drawn(of=4)
def test_many_kills_lose_nothing(installed: Installed) -> None:
    cluster, draw, kills = installed.cluster, random.Random(50), examples(KILLS)
    space = cluster.namespace("chaos")
    jobs = [submit_one(cluster, space, n) for n in range(12)]
    watcher = Watcher(cluster, space)
    watcher.start()
    for kill in range(kills):
        jobs.append(submit_one(cluster, space, len(jobs)))  # there is load until the last kill
        part = draw.choice(["brain", "brain", "kube-scheduler", "controllers", "apiserver"])
        if part == "apiserver":
            cluster.kill("apiserver")
            time.sleep(draw.uniform(0, 1.5))
            cluster.start("apiserver")
        elif part == "controllers":
            installed.controllers.kill("controllers")
        else:
            installed.brain.kill(part)
        if kill < kills - 1:
            time.sleep(draw.uniform(0.5, 3))
    watcher.last_kill = time.monotonic()
    unfinished = wait_for_all(installed, space, jobs, 240)
    watcher.over.set()
    watcher.join()
    assert watcher.overcommitted == []
    assert watcher.looks > 20
    assert watcher.stuck == set()
    assert unfinished == [], installed.said(*(entry.split(":")[0] for entry in unfinished))
    assert installed.replay(cut=True) > 0


def submit_one(cluster: Devcluster, space: str, n: int) -> str:
    """A job of a stage and a gang after it; the API server may have only just been started."""
    stages = [stage("map", 4 + n % 5, 2 + n % 3), stage("gang", 3 + n % 4, 3, parents=["map"], gang=True, cpu="1")]

    def submitted() -> bool:
        try:
            submit(cluster, dagjob(f"job{n}", space, stages, retries=5))
        except RuntimeError as error:
            return "AlreadyExists" in str(error)  # it came through before, and its answer did not
        return True

    wait(submitted)
    return f"job{n}"


def wait_for_all(installed: Installed, space: str, jobs: list[str], seconds: float) -> list[str]:
    """Jobs that have not succeeded within so many seconds, with what is said of them."""

    def unfinished() -> list[str]:
        items = installed.cluster.get("dagjobs", "-n", space)["items"]
        statuses = {i["metadata"]["name"]: i.get("status", {}) for i in items}
        return [f"{name}: {statuses.get(name)}" for name in jobs if statuses.get(name, {}).get("phase") != "Succeeded"]

    try:
        wait(lambda: not unfinished(), seconds)
    except AssertionError:
        return unfinished()
    return []


def gangs(pods: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """Pods of each gang, by its job."""
    found: dict[str, list[dict[str, Any]]] = {}
    for pod in pods:
        labels = pod["metadata"]["labels"]
        if labels[names.STAGE_LABEL] == "gang":
            found.setdefault(labels[names.DAGJOB_LABEL], []).append(pod)
    return found


def is_partial(pods: list[dict[str, Any]]) -> bool:
    """Whether some are bound and some still behind our gate."""
    bound = sum(1 for pod in pods if pod["spec"].get("nodeName"))
    gated = sum(1 for pod in pods if {"name": names.GATE} in pod["spec"].get("schedulingGates", ()))
    return bound > 0 and gated > 0
