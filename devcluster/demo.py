"""The whole of it in a minute: a control plane, our manifests, the samples; watched live, replayed, torn down."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import msgspec
from rich import box
from rich.console import Console
from rich.live import Live
from rich.table import Table

from devcluster import binaries
from devcluster.cluster import Broken, Devcluster
from devcluster.deployments import Running
from devcluster.installation import MANIFESTS, apply_crds, running
from schedulers.core.replay import Replay
from schedulers.objects.names import QUEUE_LABEL

_SPACE: Final = "demo"
_LONGEST_S: Final = 180.0


def demo() -> int:
    """Returns 0 when every sample has succeeded and the brain's log replays; 1 otherwise. Raises Broken."""
    if not MANIFESTS.is_dir():
        raise Broken("the demonstration applies the manifests of a checkout: run it there (`make demo-kubernetes`)")
    console = Console(file=sys.stdout)
    with ExitStack() as stack:
        cluster = stack.enter_context(_control_plane(console))
        brain = stack.enter_context(_installed(cluster, console))
        _submit(cluster, console)
        good = _watch(cluster, console)
        brain.stop()
        same = _replay(brain, console)
        console.print("Ending every process ...")
    return 0 if good and same else 1


# -- steps --------------------------------------------------------------------------------------


@contextmanager
def _control_plane(console: Console) -> Iterator[Devcluster]:
    with TemporaryDirectory(prefix="rm-demo-") as folder:
        cluster = Devcluster(Path(folder) / "cluster", build=binaries.can_build())
        try:
            console.print("Starting etcd, kube-apiserver, kube-controller-manager and 4 fake nodes of 8 CPU ...")
            cluster.up(nodes=4, reserved=True)
            yield cluster
        finally:
            cluster.remove()


@contextmanager
def _installed(cluster: Devcluster, console: Console) -> Iterator[Running]:
    console.print("kubectl apply -k manifests/crds; kubectl apply -k manifests/overlays/dev")
    apply_crds(cluster)
    cluster.apply(MANIFESTS / "overlays" / "dev")
    with running(cluster) as brain:
        yield brain


def _submit(cluster: Devcluster, console: Console) -> None:
    console.print("kubectl apply -f manifests/samples/queues.yaml; kubectl apply -k manifests/samples\n")
    cluster.kubectl("create", "namespace", _SPACE)
    cluster.apply(MANIFESTS / "samples" / "queues.yaml")
    time.sleep(1.5)  # admission knows a new Queue after about a second
    samples = str(MANIFESTS / "samples")
    cluster.kubectl("apply", "--server-side", "-k", samples, "-n", _SPACE)


def _watch(cluster: Devcluster, console: Console) -> bool:
    """Show what happens until all is over; returns whether all succeeded."""
    began = time.monotonic()
    reports: dict[str, str] = {}
    with Live(console=console, auto_refresh=False, transient=True) as live:
        while True:
            rows = _rows(cluster)
            seconds = time.monotonic() - began
            for row in rows:
                if row.report and reports.get(row.name) != row.report:
                    reports[row.name] = row.report
                    console.print(f"{seconds:5.1f} s  [bold]{row.name}[/]: {row.report}", highlight=False)
            live.update(_table(rows, seconds), refresh=console.is_terminal)
            if all(row.phase in ("Succeeded", "Failed") for row in rows):
                break
            if seconds > _LONGEST_S:
                console.print(f"[red]not done after {_LONGEST_S:.0f} s")
                break
            time.sleep(0.3)
    console.print(_table(rows, time.monotonic() - began))
    return all(row.phase == "Succeeded" for row in rows)


def _replay(brain: Running, console: Console) -> bool:
    """Replay the brain's event log in this process: the decisions must be the same."""
    facts = decisions = 0
    for replica in brain.replicas:
        for file in sorted((replica.folder / "volumes").glob("*/log/events-*.jsonl")):
            for step in Replay(file.read_bytes().splitlines(keepends=True)):
                facts, decisions = facts + 1, decisions + len(step.decisions)
    console.print(
        f"\nThe brain's log, replayed without Kubernetes: {facts} facts, {decisions} decisions, all the same."
    )
    return facts > 0


# -- what is shown ------------------------------------------------------------------------------


class _Row(msgspec.Struct):
    """A stage, a plain pod, or all pods of a batch Job. report: why it waits, what it is estimated at, how it ended."""

    name: str
    queue: str
    stage: str = ""
    phase: str = "Pending"
    report: str = ""
    tasks: int = 0
    gated: int = 0
    released: int = 0
    running: int = 0
    done: int = 0


def _rows(cluster: Devcluster) -> list[_Row]:
    rows: list[_Row] = []
    for job in cluster.get("dagjobs", "-n", _SPACE)["items"]:
        rows += _stages(job)
    pods: dict[str, _Row] = {}
    for pod in cluster.get("pods", "-n", _SPACE)["items"]:
        owner = next(iter(pod["metadata"].get("ownerReferences", ())), {"kind": "Pod", "name": pod["metadata"]["name"]})
        if owner["kind"] != "DagJob":
            name = f"{owner['kind'].lower()} {owner['name']}"
            _count(pods.setdefault(name, _Row(name, pod["metadata"]["labels"].get(QUEUE_LABEL, ""))), pod)
    for job in cluster.get("jobs", "-n", _SPACE)["items"]:
        row = pods.get(f"job {job['metadata']['name']}")
        if row is not None:
            row.tasks = job["spec"]["completions"]
            row.phase = "Succeeded" if row.done == row.tasks else "Running"
    return [*rows, *pods.values()]


def _stages(job: Mapping[str, Any]) -> Iterator[_Row]:
    status, spec = job.get("status", {}), job["spec"]
    counts = {stage["name"]: stage for stage in status.get("stages", ())}
    for stage in spec["stages"]:
        count = counts.get(stage["name"], {})
        yield _Row(
            name=f"dagjob {job['metadata']['name']}",
            queue=spec["queue"],
            stage=f"{stage['name']}{' (gang)' if stage.get('gang') else ''}",
            phase=status.get("phase", "Pending"),
            report=_report(status),
            tasks=stage.get("tasks", 1),
            gated=count.get("waiting", 0),
            released=count.get("released", 0),
            running=count.get("running", 0),
            done=count.get("succeeded", 0),
        )


def _report(status: Mapping[str, Any]) -> str:
    if status.get("phase") in ("Succeeded", "Failed"):
        return str(status["phase"]).lower()
    estimate = status.get("estimateSeconds")
    words = [status.get("message", ""), f"work estimated at {estimate:.0f} s" if estimate else ""]
    return "; ".join(part for part in words if part)


def _count(row: _Row, pod: Mapping[str, Any]) -> None:
    phase, gated = pod["status"].get("phase", "Pending"), bool(pod["spec"].get("schedulingGates"))
    row.tasks += 1
    row.gated += gated
    row.released += phase == "Pending" and not gated
    row.running += phase == "Running"
    row.done += phase == "Succeeded"
    row.phase = phase


def _table(rows: list[_Row], seconds: float) -> Table:
    table = Table(title=f"after {seconds:.0f} s", title_justify="left", box=box.SIMPLE)
    for heading in ("", "queue", "stage"):
        table.add_column(heading, no_wrap=True)
    for heading in ("gated", "released", "running", "done"):
        table.add_column(heading, justify="right", no_wrap=True)
    before = ""
    for row in rows:
        names = (row.name, row.queue) if row.name != before else ("", "")
        before = row.name
        numbers = [str(number or "") for number in (row.gated, row.released, row.running)]
        done = f"[green]{row.done}/{row.tasks}[/]" if row.done == row.tasks else f"{row.done}/{row.tasks}"
        table.add_row(*names, row.stage, *numbers, done)
    return table
