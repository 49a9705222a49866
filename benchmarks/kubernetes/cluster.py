"""Against the real API server and kube-scheduler: gate releases per second, pods bound per second."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

from benchmarks.rows import Row
from devcluster.cluster import Devcluster, free_ports
from devcluster.deployments import answers
from devcluster.installation import apply_crds
from operators.cache.reflector import Kind, Reflector
from operators.client import Client
from operators.extender.releases import ReleaseWriter, release_patch
from operators.extender.window import Window
from schedulers.objects.names import GATE, SCHEDULER
from schedulers.objects.pod import Pod


def rows(*, tiny: bool = False) -> Iterator[Row]:
    """On a devcluster of its own."""
    with tempfile.TemporaryDirectory() as folder:
        cluster = Devcluster(Path(folder))
        try:
            cluster.up(nodes=10 if tiny else 100, cpu="64", memory="256Gi", pods="1000")
            yield asyncio.run(_release_burst(cluster, 50 if tiny else 2000))
            yield _pods_per_second(cluster, 50 if tiny else 1000)
        finally:
            cluster.remove()


# -- releases -----------------------------------------------------------------------------------


async def _release_burst(cluster: Devcluster, count: int) -> Row:
    """Alternating halves, so that both meet the same machine: our queue, and the barest loop of the same client."""
    async with cluster.client() as client:
        rates: dict[str, list[float]] = {"releases": [], "bare": []}
        for name in ("releases", "bare") * 2:
            pods = await _gated(client, cluster.namespace("burst"), count // 2)
            loop = _with_releases if name == "releases" else _bare
            began = time.perf_counter()
            await loop(client, pods)
            rates[name].append(len(pods) / (time.perf_counter() - began))
    ours, bare = max(rates["releases"]), max(rates["bare"])
    note = f"{count} releases in two turns each; the better turn counts, against a bare patch loop of the same client"
    return Row(
        name="release_burst", value=ours, unit="pods/s", reference=bare, ratio=ours / bare, target=">= 0.8", note=note
    )


async def _gated(client: Client, space: str, count: int) -> list[Pod]:
    await _many(lambda n: client.create(f"/api/v1/namespaces/{space}/pods", pod_body(f"p{n}", gated=True)), count)
    kind = Kind("Pod", Pod, f"/api/v1/namespaces/{space}/pods")
    watched: Reflector[Pod] = Reflector(client, kind, lambda change: None)
    task = asyncio.ensure_future(watched.run())
    while len(watched.objects) < count:
        await asyncio.sleep(0.05)
    task.cancel()
    return list(watched.objects.values())


async def _with_releases(client: Client, pods: list[Pod]) -> None:
    releases = ReleaseWriter(
        client, concurrency=16, window=Window(time.monotonic, floor=len(pods))
    )  # nobody binds them
    task = asyncio.ensure_future(releases.run())
    for pod in pods:
        releases.release(pod, "n0")
    await releases.drained()
    task.cancel()


async def _bare(client: Client, pods: list[Pod]) -> None:
    async def patch(number: int) -> None:
        pod = pods[number]
        path = f"/api/v1/namespaces/{pod.metadata.namespace}/pods/{pod.metadata.name}"
        await client.patch(path, release_patch(pod, "n0"), kind="json")

    await _many(patch, len(pods))


async def _many(act: Callable[[int], Awaitable[Any]], count: int) -> None:
    """0 to count - 1, 16 at once."""
    numbers = iter(range(count))

    async def work() -> None:
        for number in numbers:
            await act(number)

    await asyncio.gather(*(work() for _ in range(16)))


def pod_body(name: str, *, gated: bool) -> dict[str, Any]:
    """A small pod of our scheduler's."""
    container = {"name": "main", "image": "busybox", "resources": {"requests": {"cpu": "50m", "memory": "16Mi"}}}
    spec = {"schedulerName": SCHEDULER, "containers": [container]}
    if gated:
        spec["schedulingGates"] = [{"name": GATE}]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


# -- pods per second ----------------------------------------------------------------------------


def _pods_per_second(cluster: Devcluster, count: int) -> Row:
    """Waiting pods bound by kube-scheduler alone, and with our extender deciding each of them by filter."""
    config = Path(cluster.folder) / "brain.yaml"
    port, management = free_ports(2)
    config.write_text(
        f"policy: {{kind: fifo}}\nextender: {{address: 127.0.0.1, port: {port}, tls: null}}\n"
        f"management: {{address: 127.0.0.1, port: {management}}}\nleaderElection: null\n"
        f"storage: {{dir: {cluster.folder / 'brain'}, log: hash}}\nkubeconfig: {cluster.kubeconfig}\n"
    )
    apply_crds(cluster)
    command = [sys.executable, "-m", "operators.extender", "--config", str(config)]
    with (cluster.folder / "brain.log").open("wb") as log, subprocess.Popen(command, stderr=log) as brain:  # noqa: S603
        try:
            wait_ready(management)
            extender = {
                "urlPrefix": f"http://127.0.0.1:{port}/v1",
                "filterVerb": "filter",
                "preemptVerb": "preempt",
                "nodeCacheCapable": True,
                "httpTimeout": "5s",
            }
            rates = dict.fromkeys(("alone", "ours"), 0.0)
            for which in ("alone", "ours") * 2:
                rate = _bound_per_second(cluster, count, extender if which == "ours" else None)
                rates[which] = max(rates[which], rate)
        finally:
            brain.terminate()
    note = (
        f"{count} waiting pods without gate, each decided by a filter call; in turns with kube-scheduler alone, "
        "the better of two turns each"
    )
    return Row(
        name="pods_per_s_with_extender",
        value=rates["ours"],
        unit="pods/s",
        reference=rates["alone"],
        ratio=rates["ours"] / rates["alone"],
        target=">= 0.8",
        note=note,
    )


def _bound_per_second(cluster: Devcluster, count: int, extender: dict[str, Any] | None) -> float:
    import yaml

    space = cluster.namespace("rate")
    config = cluster.folder / "scheduler-bench.yaml"
    config.write_text(yaml.safe_dump(cluster.scheduler_config([extender] if extender is not None else [])))

    asyncio.run(create_pods(cluster, space, count, gated=False))
    began = time.perf_counter()
    cluster.start("scheduler", config=config)
    try:
        return asyncio.run(_until_bound(cluster, space, count, began))
    finally:
        cluster.stop("scheduler")
        cluster.kubectl("delete", "pods", "--all", "-n", space, "--grace-period=0", "--force", "--wait=false")


async def create_pods(cluster: Devcluster, space: str, count: int, *, gated: bool) -> None:
    """So many small pods of our scheduler's, with our gate or without."""
    async with cluster.client() as client:
        await _many(lambda n: client.create(f"/api/v1/namespaces/{space}/pods", pod_body(f"p{n}", gated=gated)), count)


async def _until_bound(cluster: Devcluster, space: str, count: int, began: float) -> float:
    """From the first pod bound to the last, so that kube-scheduler's own start is left out."""
    first = began
    async with cluster.client() as client:
        watched: Reflector[Pod] = Reflector(
            client, Kind("Pod", Pod, f"/api/v1/namespaces/{space}/pods"), lambda change: None
        )
        task = asyncio.ensure_future(watched.run())
        while True:
            bound = sum(1 for pod in watched.objects.values() if pod.spec.nodeName)
            now = time.perf_counter()
            if bound == 0:
                first = now
            if bound == count:
                task.cancel()
                return count / (now - first)
            if now - began > 300:
                raise TimeoutError(
                    f"{bound} of {count} pods bound within 300 s:\n{cluster.processes['scheduler'].tail()}"
                )
            await asyncio.sleep(0.02)


def wait_ready(port: int) -> None:
    """Until a process answers its probe. Raises TimeoutError."""
    for _ in range(300):
        if answers(f"http://127.0.0.1:{port}/readyz"):
            return
        time.sleep(0.1)
    raise TimeoutError(f"the process with the probes on port {port} does not become ready")
