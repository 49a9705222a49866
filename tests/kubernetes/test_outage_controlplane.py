"""What happens while nothing is heard of the real API server is not taken for what has not happened."""

from __future__ import annotations

import asyncio
import json
import signal
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from devcluster.cluster import Devcluster
from operators.client import Client, Unreachable
from operators.controllers.config import ControllersConfig
from operators.controllers.process import ControllersProcess
from tests.kubernetes.installed import Installed, dagjob, stage, submit, wait

pytestmark = pytest.mark.controlplane

#: When pods are made anew where the watches alone are cut.
RECREATE_S = 6
#: How long the API server is away: longer than the 30 s after which pods are made anew by default. kube-scheduler comes
#: back to a pod that it could not bind up to 10 s later, and may find the brain not ready yet, so less would not do.
OUTAGE_S = 32.0


class Deaf(Client):
    """A client whose watches can be cut, while everything that it writes goes through."""

    cut = False

    async def watch(self, path: str, *, read_timeout_s: float, **params: str) -> AsyncIterator[bytes]:
        lines = super().watch(path, read_timeout_s=read_timeout_s, **params)
        while True:
            following = asyncio.ensure_future(_next(lines))
            while not following.done():
                if self.cut:
                    following.cancel()
                    raise Unreachable("cut off")
                await asyncio.wait({following}, timeout=0.05)
            line = following.result()
            if line is None:
                return
            yield line


async def _next(lines: AsyncIterator[bytes]) -> bytes | None:
    return await anext(lines, None)


def pods(cluster: Devcluster, space: str) -> dict[str, dict[str, Any]]:
    return {pod["metadata"]["uid"]: pod for pod in cluster.get("pods", "-n", space)["items"]}


def release(cluster: Devcluster, pod: dict[str, Any], node: str) -> None:
    """What brain does."""
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    terms = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    patch = [
        {"op": "remove", "path": "/spec/schedulingGates"},
        {"op": "add", "path": "/spec/affinity", "value": affinity},
    ]
    meta = pod["metadata"]
    cluster.kubectl("patch", "pod", meta["name"], "-n", meta["namespace"], "--type=json", "-p", json.dumps(patch))


def bind(cluster: Devcluster, pod: dict[str, Any], node: str) -> None:
    """What kube-scheduler does."""
    meta = pod["metadata"]
    target = {"apiVersion": "v1", "kind": "Node", "name": node}
    binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": meta["name"]}, "target": target}
    path = f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}/binding"
    cluster.kubectl("create", "--raw", path, "-f", "-", input=json.dumps(binding))


def test_pods_that_were_bound_while_the_watch_was_cut_are_not_made_anew(anew: Devcluster) -> None:
    space = anew.namespace("deaf")

    async def run() -> None:
        config = ControllersConfig(leader_election=None, recreate_after=1000 * RECREATE_S)  # type: ignore[arg-type]
        async with Deaf(anew.access(**_admin(anew))) as client:
            process = ControllersProcess(config, client, "test")
            task = asyncio.create_task(asyncio.wait_for(_acting(process), 90))
            try:
                await asyncio.to_thread(act, client)
            finally:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)

    def act(client: Deaf) -> None:
        submit(anew, dagjob("j", space, [stage("a", 3, 600, cpu="100m")]))
        wait(lambda: len(pods(anew, space)) == 3, 20)
        before = pods(anew, space)
        for pod in before.values():
            release(anew, pod, "n0")
        time.sleep(1)  # the controllers hear of it
        client.cut = True
        time.sleep(0.5)
        for pod in before.values():
            bind(anew, pod, "n0")
        time.sleep(RECREATE_S + 3)
        client.cut = False
        wait(lambda: anew.get("dagjob", "j", "-n", space)["status"]["stages"][0]["running"] == 3, 30)
        assert pods(anew, space).keys() == before.keys()
        anew.kubectl("delete", "dagjob", "j", "-n", space)

    asyncio.run(run())


def _admin(cluster: Devcluster) -> dict[str, str]:
    folder = cluster.authority.folder
    return {"certificate": (folder / "admin.crt").read_text(), "key": (folder / "admin.key").read_text()}


async def _acting(process: ControllersProcess) -> None:
    """The process without its ports."""
    async with asyncio.TaskGroup() as group:
        group.create_task(process.cache.run())
        group.create_task(process.gained())


# -- all of it ----------------------------------------------------------------------------------


@pytest.fixture
def installed(anew: Devcluster) -> Iterator[Installed]:
    settings = {"policy": {"kind": "fifo"}, "predictor": None}
    running = Installed(anew, brain=settings)
    yield running
    running.stop()


@pytest.mark.chaos
@pytest.mark.drawn(of=2)
def test_an_outage_of_the_api_server_under_load_takes_no_pod_along(installed: Installed) -> None:
    cluster = installed.cluster
    space, scheduler = cluster.namespace("outage"), installed.brain.container("kube-scheduler").process
    scheduler.send(signal.SIGSTOP)  # so that the outage comes while pods are released and not bound
    try:
        submit(cluster, *(dagjob(f"j{n}", space, [stage("a", 10, 600, cpu="500m")]) for n in range(5)))
        wait(lambda: len(now := pods(cluster, space)) == 50 and not any(map(is_gated, now.values())))
        before = pods(cluster, space).keys()
        cluster.kill("apiserver")
    finally:
        scheduler.send(signal.SIGCONT)
    time.sleep(OUTAGE_S)
    cluster.start("apiserver")
    wait(lambda: all(pod["status"]["phase"] == "Running" for pod in pods(cluster, space).values()))
    assert pods(cluster, space).keys() == before
    cluster.kubectl("delete", "namespace", space, "--wait=false")


def is_gated(pod: dict[str, Any]) -> bool:
    return bool(pod["spec"].get("schedulingGates"))
