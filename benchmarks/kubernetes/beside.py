"""How long kube-scheduler waits for an answer while the forecaster runs, against the forecaster at rest.

API server, brain and forecaster are real. The forecaster plays and writes at its own pace, as low in priority as its
Deployment asks for, and is halted (SIGSTOP) every other turn: turns of a second meet the same machine, however busy.
On a busy machine waits for a CPU hide all else, so the CPU time of the brain during a call is told, too: whatever keeps
the brain's event loop from the answer counts, and work of others does not.
"""

from __future__ import annotations

import asyncio
import http.client
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np

from benchmarks.kubernetes.cluster import create_pods, wait_ready
from benchmarks.kubernetes.latency import call, connected
from benchmarks.rows import Row
from devcluster.cluster import Devcluster, free_ports
from devcluster.installation import apply_crds
from operators.client import path_of, wall_ms
from operators.extender.snapshots import Snapshots
from schedulers.core import keyed
from schedulers.core.model import PastJob
from schedulers.objects import names
from schedulers.objects.memory import HISTORY

#: The brain asks for 500m of a CPU and the forecaster for 100m; a step of nice is a factor of 1.25.
_NICE: Final = 7
_TASKS: Final = 10
_RECURRING: Final = "nightly"
_LONGEST_S: Final = 300.0
_BOOTSTRAPS: Final = 2000

#: Beside the forecaster or not -> turns -> calls -> ms until the answer, ms of the brain's CPU time meanwhile.
Took = dict[bool, list[list[tuple[float, float]]]]


def rows(*, tiny: bool = False) -> Iterator[Row]:
    """Filter at 5,000 nodes with 100 live DagJobs; every call is for a pod that is new, and places the pod."""
    nodes, jobs, pairs, calls = (50, 5, 4, 10) if tiny else (5000, 100, 100, 50)
    with tempfile.TemporaryDirectory() as folder:
        cluster = Devcluster(Path(folder))
        try:
            cluster.up(nodes=nodes, cpu="64", memory="256Gi")
            for part in ("kwok", "controller-manager"):
                cluster.stop(part)
            apply_crds(cluster)
            cluster.kubectl("create", "namespace", names.NAMESPACE)
            took, written = _measured(cluster, jobs, pairs, calls)
        finally:
            cluster.remove()
    pace = f"{pairs} pairs of turns of {calls} calls, with the forecaster and with the forecaster halted, by turns"
    for measure, kind in enumerate(("", "_cpu")):
        for share, name, aim in ((0.5, "p50", None), (0.99, "p99", "<= 1.03")):
            beside, alone, low, high = compared(took, measure, share)
            note = (
                f"{nodes} nodes, {jobs} live DagJobs; {pace}; 95 % of the ratios by bootstrap over pairs: {low:.3f} to "
                f"{high:.3f}; {written} answers written meanwhile"
            )
            row = f"filter{kind}_{name}_beside_forecaster"
            yield Row(name=row, value=beside, unit="ms", reference=alone, ratio=beside / alone, target=aim, note=note)


def compared(took: Took, measure: int, share: float) -> tuple[float, float, float, float]:
    """Quantile beside the forecaster, without, ms; 95 % interval of their ratio, pairs of turns being drawn.

    measure: 0 for the time until the answer, 1 for CPU time.
    """
    beside, alone = (np.array(took[side])[:, :, measure] for side in (True, False))
    pairs = len(beside)
    drawn = keyed.generator(0, "bootstrap").integers(0, pairs, (_BOOTSTRAPS, pairs))
    above, below = (np.quantile(side[drawn].reshape(_BOOTSTRAPS, -1), share, axis=1) for side in (beside, alone))
    low, high = np.quantile(above / below, (0.025, 0.975))
    return float(np.quantile(beside, share)), float(np.quantile(alone, share)), float(low), float(high)


def _measured(cluster: Devcluster, jobs: int, pairs: int, calls: int) -> tuple[Took, int]:
    """The calls' times, and the answers written during the calls."""
    space = cluster.namespace("beside")
    asyncio.run(create_pods(cluster, space, 2 * pairs * calls, gated=False))
    with _brain(cluster) as (verbs, brain), connected(verbs) as connection:
        asyncio.run(_make_jobs(cluster, space, jobs))
        with _forecaster(cluster) as (forecaster, management):
            asyncio.run(_until_told(cluster, space))
            before = _written(management)
            took = asyncio.run(_turns(cluster, space, _Asker(connection, brain), forecaster, pairs, calls))
            return took, _written(management) - before


@contextmanager
def _brain(cluster: Devcluster) -> Iterator[tuple[int, int]]:
    """The brain's process; yields the port of its verbs, and its process id."""
    verbs, management = free_ports(2)
    config = cluster.folder / "brain.yaml"
    config.write_text(
        f"policy: {{kind: gs}}\npredictor: {{kind: slearn}}\nleaderElection: null\nnamespace: {names.NAMESPACE}\n"
        f"extender: {{address: 127.0.0.1, port: {verbs}, tls: null}}\n"
        f"management: {{address: 127.0.0.1, port: {management}}}\n"
        f"storage: {{dir: {cluster.folder / 'brain'}, log: hash}}\nkubeconfig: {cluster.kubeconfig}\n"
    )
    command = [sys.executable, "-m", "operators.extender", "--config", str(config)]
    with (cluster.folder / "brain.log").open("wb") as log, subprocess.Popen(command, stderr=log) as process:  # noqa: S603
        try:
            wait_ready(management)
            yield verbs, process.pid
        finally:
            process.terminate()


@contextmanager
def _forecaster(cluster: Devcluster) -> Iterator[tuple[int, int]]:
    """The forecaster's process; yields its process group, that of its plays, too, and the port of its metrics."""
    (management,) = free_ports(1)
    config = cluster.folder / "forecaster.yaml"
    config.write_text(
        f"namespace: {names.NAMESPACE}\nmanagement: {{address: 127.0.0.1, port: {management}}}\n"
        f"kubeconfig: {cluster.kubeconfig}\n"
    )
    command = [sys.executable, "-m", "forecaster", "--config", str(config)]
    with (
        (cluster.folder / "forecaster.log").open("wb") as log,
        # No session of its own: Linux gives sessions equal parts of a CPU, whatever their priorities are.
        subprocess.Popen(command, stderr=log, process_group=0) as process,  # noqa: S603
    ):
        os.setpriority(os.PRIO_PROCESS, process.pid, os.getpriority(os.PRIO_PROCESS, 0) + _NICE)
        try:
            yield process.pid, management
        finally:
            os.killpg(process.pid, signal.SIGCONT)
            process.terminate()


async def _make_jobs(cluster: Devcluster, space: str, count: int) -> None:
    """Runs of one recurring job without any pod, and the stored history of its earlier runs."""
    container = {"name": "main", "image": "busybox", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}
    stage = {"tasks": _TASKS, "template": {"spec": {"containers": [container]}}}
    stages = [{"name": "map", **stage}, {"name": "reduce", "parents": ["map"], **stage}]
    past = [
        PastJob(name=_RECURRING, submitted=at, finished=at + 120_000, stages=((_TASKS, 55_000.0 + 500 * n),) * 2)
        for n, at in enumerate(range(wall_ms() - 6_000_000, wall_ms(), 300_000))
    ]
    async with cluster.client() as client:
        await Snapshots(client, name=HISTORY).store(msgspec.msgpack.encode(past))
        for number in range(count):
            meta = {"name": f"j{number}", "labels": {names.RECURRING_LABEL: _RECURRING}}
            body = {"apiVersion": names.API_VERSION, "kind": "DagJob", "metadata": meta, "spec": {"stages": stages}}
            await client.create(path_of("DagJob", f"{space}/"), body)


async def _until_told(cluster: Devcluster, space: str) -> None:
    """Until every DagJob has an answer with times. Raises TimeoutError."""
    until = time.monotonic() + _LONGEST_S
    async with cluster.client() as client:
        while True:
            listed = (await client.get(path_of("DagJob", f"{space}/")))["items"]
            told = sum("finish" in each.get("status", {}).get("expected", {}) for each in listed)
            if told == len(listed):
                return
            if time.monotonic() > until:
                raise TimeoutError(f"{told} of {len(listed)} DagJobs have an answer within {_LONGEST_S:g} s")
            await asyncio.sleep(0.5)


class _Asker(NamedTuple):
    connection: http.client.HTTPConnection
    brain: int

    def ask(self, pod: Any, nodes: Sequence[str]) -> tuple[float, float]:
        """(Until the answer, CPU time of the brain's event loop meanwhile), ms."""
        body = msgspec.json.encode({"Pod": pod, "Nodes": None, "NodeNames": nodes})
        before = self._cpu_ms()
        took = call(self.connection, "filter", body)
        return took, self._cpu_ms() - before

    def _cpu_ms(self) -> float:
        """Of the main thread, whose loop answers."""
        return int(Path(f"/proc/{self.brain}/task/{self.brain}/schedstat").read_text().split()[0]) / 1e6


async def _turns(cluster: Devcluster, space: str, asker: _Asker, forecaster: int, pairs: int, calls: int) -> Took:
    took: Took = {True: [], False: []}
    async with cluster.client() as client:
        known = [node["metadata"]["name"] for node in (await client.get("/api/v1/nodes"))["items"]]
        pods = iter((await client.get(path_of("Pod", f"{space}/")))["items"])
        for pair in range(pairs):
            for beside in (True, False) if pair % 2 else (False, True):
                os.killpg(forecaster, signal.SIGCONT if beside else signal.SIGSTOP)
                turn = [next(pods) for _ in range(calls)]
                took[beside].append([asker.ask(pod, known) for pod in turn])
                paths = (path_of("Pod", f"{space}/{pod['metadata']['name']}") for pod in turn)  # nobody binds them
                await asyncio.gather(*(client.delete(path, gracePeriodSeconds="0") for path in paths))
    os.killpg(forecaster, signal.SIGCONT)
    return took


def _written(management: int) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", management)
    connection.request("GET", "/metrics")
    text = connection.getresponse().read().decode()
    connection.close()
    found = re.search(r'^rm_forecasts_total\{outcome="ok"\} ([\d.e+]+)$', text, re.MULTILINE)
    return int(float(found[1])) if found is not None else 0
