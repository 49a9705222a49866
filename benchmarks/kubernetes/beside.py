"""How long kube-scheduler waits for an answer while the forecaster runs, against the forecaster at rest.

API server, brain and forecaster are real. The forecaster plays and writes at its own pace, with the weight that its
Deployment asks for, and is halted (SIGSTOP) every other turn: turns of a second meet the same machine, however busy.
Apart, the forecaster has the last CPU to itself and the brain the others, as on two nodes; else both have all CPUs.
Apart, brain, forecaster and asker are of the real-time class, where that is allowed, and wait for nobody else's work;
during calls a loop that touches no memory holds the forecaster's CPU whenever the forecaster does not, since others'
work there would slow the brain by the shared cache and memory, most of all while the forecaster is halted.
Linux shares CPUs between groups of processes: a kubelet makes a group of each pod, and here a session is a group
(autogroup). Together, brain and forecaster are groups beside all others, as pods of one QoS class are. In one group,
they share what their group gets beside others, as two burstable pods beside guaranteed ones: what the forecaster takes
counts as taken by the brain's group. On a busy machine waits for a CPU hide all else, so the brain's wait for a CPU and
its CPU time during a call are told, too: whatever keeps the brain's event loop from the answer counts as CPU time, and
work of others does not.
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
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np

from benchmarks.kubernetes.cluster import pod_body, wait_ready
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
#: Priorities of real time, which stand above all work without: of the loop, and of who is measured.
_LOOP, _MEASURED = 1, 2

#: Beside the forecaster or not -> turns -> calls -> ms until the answer, of the brain's CPU time meanwhile, and of its
#: wait for a CPU.
Took = dict[bool, list[list[tuple[float, float, float]]]]


def rows(*, tiny: bool = False) -> Iterator[Row]:
    """Filter at 5,000 nodes with 100 live DagJobs; every call is for a pod that is new, and places the pod."""
    nodes, jobs, pairs, calls = (50, 5, 4, 10) if tiny else (5000, 100, 150, 50)
    with tempfile.TemporaryDirectory() as folder:
        cluster = Devcluster(Path(folder))
        try:
            cluster.up(nodes=nodes, cpu="64", memory="256Gi")
            for part in ("kwok", "controller-manager"):
                cluster.stop(part)
            apply_crds(cluster)
            cluster.kubectl("create", "namespace", names.NAMESPACE)
            for place, took, meanwhile in _measured(cluster, jobs, pairs, calls):
                yield from _rows(place, took, f"{nodes} nodes, {jobs} live DagJobs; {meanwhile}")
        finally:
            cluster.remove()


def _rows(place: str, took: Took, about: str) -> Iterator[Row]:
    pairs, calls = len(took[True]), len(took[True][0])
    for share, name, aim in ((0.5, "p50", None), (0.99, "p99", "<= 1.03")):
        beside, alone, low, high = compared(took, 0, share)
        used, used_alone, least, most = compared(took, 1, share)
        waited, waited_alone = (np.quantile(np.array(took[side])[:, :, 2], share) for side in (True, False))
        note = (
            f"{about}; {pairs} pairs of turns of {calls} calls, with the forecaster and with the forecaster halted; "
            f"95 % of the ratios by bootstrap over pairs: {low:.3f} to {high:.3f}; CPU time of the brain meanwhile: "
            f"{used:.2f} and {used_alone:.2f} ms, ratio {used / used_alone:.3f} ({least:.3f} to {most:.3f}); "
            f"its wait for a CPU: {waited:.2f} and {waited_alone:.2f} ms"
        )
        row = f"filter_{name}_forecaster_{place}"
        yield Row(name=row, value=beside, unit="ms", reference=alone, ratio=beside / alone, target=aim, note=note)


def compared(took: Took, measure: int, share: float) -> tuple[float, float, float, float]:
    """Quantile beside the forecaster, without, ms; 95 % interval of their ratio, pairs of turns being drawn.

    measure: 0 for the time until the answer, 1 for CPU time, 2 for the wait for a CPU.
    """
    beside, alone = (np.array(took[side])[:, :, measure] for side in (True, False))
    pairs = len(beside)
    drawn = keyed.generator(0, "bootstrap").integers(0, pairs, (_BOOTSTRAPS, pairs))
    above, below = (np.quantile(side[drawn].reshape(_BOOTSTRAPS, -1), share, axis=1) for side in (beside, alone))
    low, high = np.quantile(above / below, (0.025, 0.975))
    return float(np.quantile(beside, share)), float(np.quantile(alone, share)), float(low), float(high)


def _measured(cluster: Devcluster, jobs: int, pairs: int, calls: int) -> Iterator[tuple[str, Took, str]]:
    """By place of the forecaster the calls' times, and words on the answers written and the load meanwhile."""
    space, cpus = cluster.namespace("beside"), sorted(os.sched_getaffinity(0))
    with ExitStack() as stack:
        verbs, brain = stack.enter_context(_brain(cluster))
        stack.callback(os.sched_setaffinity, 0, cpus)
        asyncio.run(_make_jobs(cluster, space, jobs))
        for place, theirs, ours in (
            ("apart", cpus[-1:], cpus[:-1] or cpus),
            ("together", cpus, cpus),
            ("in_one_group", cpus, cpus),
        ):
            for process in (0, brain):
                os.sched_setaffinity(process, ours)
            with _forecaster(cluster, theirs, own_group=place != "in_one_group") as (forecaster, management):
                asyncio.run(_until_told(cluster, space))
                before, used, load = _written(management), _cpu_s(forecaster), os.getloadavg()[0]
                measured = [brain, os.getpid(), *(pid for pid, _ in _members(forecaster))] if place == "apart" else []
                # Connected only now, as the brain ends connections that are idle for long.
                with connected(verbs) as connection, _real_time(measured) as ahead, _loop(theirs, on=ahead) as loop:
                    asker = _Asker(connection, brain, loop)
                    took = asyncio.run(_turns(cluster, space, asker, forecaster, pairs, calls))
                written, used = _written(management) - before, _cpu_s(forecaster) - used
                load = (load + os.getloadavg()[0]) / 2
                about = f"{written} answers written in {used:.1f} s of the forecaster's CPU time"
                about += "; in real time" if ahead else ""
                yield place, took, f"{about}; load average {load:.1f} on {len(cpus)} CPUs"


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
def _real_time(processes: Sequence[int]) -> Iterator[bool]:
    """Put these processes, and what they start, before all other work on their CPUs; yields whether this is allowed."""
    try:
        _set_class(processes, os.SCHED_FIFO, _MEASURED)
    except PermissionError:
        yield False
        return
    try:
        yield bool(processes)
    finally:
        _set_class(processes, os.SCHED_OTHER, 0)


@contextmanager
def _loop(cpus: list[int], *, on: bool) -> Iterator[int | None]:
    """A halted process that keeps work without real time off a CPU when it goes on; None unless `on`."""
    if not on:
        yield None
        return
    # The loop begins in its parent's class and on its CPU, so it halts itself: else the parent might never run again.
    program = "import os, signal\nos.kill(os.getpid(), signal.SIGSTOP)\nwhile True: pass"
    with subprocess.Popen([sys.executable, "-c", program]) as process:  # noqa: S603
        os.waitpid(process.pid, os.WUNTRACED)
        os.sched_setaffinity(process.pid, cpus)
        _set_class([process.pid], os.SCHED_FIFO, _LOOP)
        try:
            yield process.pid
        finally:
            process.kill()


def _set_class(processes: Sequence[int], policy: int, priority: int) -> None:
    """All threads: one that waits for a CPU may hold the lock that the event loop needs."""
    for process in processes:
        with suppress(FileNotFoundError, ProcessLookupError):  # a play may end any time
            for task in Path(f"/proc/{process}/task").iterdir():
                os.sched_setscheduler(int(task.name), policy, os.sched_param(priority))


@contextmanager
def _forecaster(cluster: Devcluster, cpus: list[int], *, own_group: bool) -> Iterator[tuple[int, int]]:
    """The forecaster's process on some CPUs; yields the process group, plays included, and the port of the metrics.

    own_group: whether Linux' scheduler takes the forecaster for a group of its own, or for a part of the brain's.
    """
    (management,) = free_ports(1)
    config = cluster.folder / "forecaster.yaml"
    config.write_text(
        f"namespace: {names.NAMESPACE}\nmanagement: {{address: 127.0.0.1, port: {management}}}\n"
        f"kubeconfig: {cluster.kubeconfig}\n"
    )
    command = [sys.executable, "-m", "forecaster", "--config", str(config)]
    with (
        (cluster.folder / "forecaster.log").open("wb") as log,
        subprocess.Popen(  # noqa: S603
            command, stderr=log, start_new_session=own_group, process_group=None if own_group else 0
        ) as process,
    ):
        os.sched_setaffinity(process.pid, cpus)
        _weigh(process.pid, own_group=own_group)
        try:
            wait_ready(management)
            yield process.pid, management
        finally:
            os.killpg(process.pid, signal.SIGCONT)
            process.terminate()


def _weigh(process: int, *, own_group: bool) -> None:
    """Give a process the forecaster's weight: its group, beside the brain's group, or else the process itself."""
    group = Path(f"/proc/{process}/autogroup")
    if own_group and group.exists():  # else sessions are no groups, and processes are weighed one by one
        group.write_text(str(_NICE))
    os.setpriority(os.PRIO_PROCESS, process, os.getpriority(os.PRIO_PROCESS, 0) + _NICE)


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
    loop: int | None

    def ask_all(self, pods: Sequence[Any], nodes: Sequence[str]) -> list[tuple[float, float, float]]:
        """See `ask`; meanwhile nobody else's work runs beside the brain, where a loop is there to keep it off."""
        if self.loop is not None:
            os.kill(self.loop, signal.SIGCONT)
        try:
            return [self.ask(pod, nodes) for pod in pods]
        finally:
            if self.loop is not None:
                os.kill(self.loop, signal.SIGSTOP)

    def ask(self, pod: Any, nodes: Sequence[str]) -> tuple[float, float, float]:
        """(Until the answer, CPU time of the brain's event loop meanwhile, its wait for a CPU), ms."""
        body = msgspec.json.encode({"Pod": pod, "Nodes": None, "NodeNames": nodes})
        used, waited = self._loop_ms()
        took = call(self.connection, "filter", body)
        used_after, waited_after = self._loop_ms()
        return took, used_after - used, waited_after - waited

    def _loop_ms(self) -> tuple[float, float]:
        """CPU time, and wait for a CPU, of the main thread, whose loop answers."""
        used, waited, _ = Path(f"/proc/{self.brain}/task/{self.brain}/schedstat").read_text().split()
        return int(used) / 1e6, int(waited) / 1e6


async def _turns(cluster: Devcluster, space: str, asker: _Asker, forecaster: int, pairs: int, calls: int) -> Took:
    took: Took = {True: [], False: []}
    async with cluster.client() as client:
        known = [node["metadata"]["name"] for node in (await client.get("/api/v1/nodes"))["items"]]
        pods = path_of("Pod", f"{space}/")
        for pair in range(pairs):
            for beside in (True, False) if pair % 2 else (False, True):
                os.killpg(forecaster, signal.SIGCONT if beside else signal.SIGSTOP)
                bodies = (pod_body(f"p{forecaster}-{pair}-{beside:d}-{number}", gated=False) for number in range(calls))
                turn = await asyncio.gather(*(client.create(pods, body) for body in bodies))
                took[beside].append(asker.ask_all(turn, known))
                paths = (f"{pods}/{pod['metadata']['name']}" for pod in turn)  # nobody binds them
                await asyncio.gather(*(client.delete(path, gracePeriodSeconds="0") for path in paths))
    os.killpg(forecaster, signal.SIGCONT)
    return took


def _members(group: int) -> Iterator[tuple[int, list[str]]]:
    """The processes of a group, each with the fields of its `stat` from the third on."""
    for file in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            fields = file.read_text().rpartition(")")[2].split()
            if int(fields[2]) == group:
                yield int(file.parent.name), fields


def _cpu_s(group: int) -> float:
    """CPU time of a process group: of those that live, and of those that they have waited for."""
    return sum(sum(map(int, fields[11:15])) for _, fields in _members(group)) / os.sysconf("SC_CLK_TCK")


def _written(management: int) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", management)
    connection.request("GET", "/metrics")
    text = connection.getresponse().read().decode()
    connection.close()
    found = re.search(r'^rm_forecasts_total\{outcome="ok"\} ([\d.e+]+)$', text, re.MULTILINE)
    return int(float(found[1])) if found is not None else 0
