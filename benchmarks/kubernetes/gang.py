"""How long a gang that is first in the order waits while a backlog of small pods takes room as it frees."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from typing import Any, Final

from benchmarks.rows import Row
from devcluster.cluster import Devcluster
from devcluster.installation import MANIFESTS, apply_crds, change_config, running, until
from schedulers.objects import names

_CPUS: Final = 8
_LONGEST_S: Final = 300.0
#: Seconds that the small tasks run.
_RUN_S: Final = (8, 9, 10, 11)
#: Seconds within which the gang runs once the last task before it is over.
_SLACK_S: Final = 5


def rows(*, tiny: bool = False) -> Iterator[Row]:
    """The worst of five turns on a devcluster of its own, with the reservations of the manifests."""
    nodes, turns, after = (4, 1, "2s") if tiny else (20, 5, "30s")
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        cluster = Devcluster(Path(folder))
        stack.callback(cluster.remove)
        cluster.up(nodes=nodes, cpu=str(_CPUS), reserved=True)
        stack.enter_context(_installed(cluster, after))
        took = [_turn(cluster, nodes) for _ in range(turns)]
    note = (
        f"until a gang of {nodes} x {_CPUS} CPU runs, in an empty queue of weight 10 on {nodes} nodes that tasks of "
        f"2 CPU and 8 to 11 s keep full; reserved after {after}; the worst of {turns} (median {median(took):.0f})"
    )
    bound = f"<= {int(after[:-1]) + max(_RUN_S) + _SLACK_S}"
    yield Row(name="gang_wait", value=max(took), unit="s", target=bound, note=note)


@contextmanager
def _installed(cluster: Devcluster, reserve_after: str) -> Iterator[None]:
    """Brain, kube-scheduler and controllers, with two queues."""
    apply_crds(cluster)
    cluster.apply(MANIFESTS / "overlays" / "dev")
    settings = {"policy": {"kind": "hdrf"}, "predictor": None, "reserveAfter": reserve_after}
    change_config(cluster, "rm-brain", lambda config: config | settings)
    with running(cluster):
        for name, weight in (("gold", 10), ("batch", 1)):
            spec = {"metadata": {"name": name}, "spec": {"weight": weight}}
            _create(cluster, {"apiVersion": names.API_VERSION, "kind": "Queue", **spec})
        yield


def _turn(cluster: Devcluster, nodes: int) -> float:
    """Seconds from the gang's creation until all its pods run, while more tasks wait than could run in that time."""
    space = cluster.namespace("gang")
    backlog = _dagjob("backlog", space, "batch", [_stage(f"s{run_s}", 10 * nodes, 2, run_s) for run_s in _RUN_S])
    train = _dagjob("train", space, "gold", [_stage("all", nodes, _CPUS, 10) | {"gang": True}])
    _create(cluster, backlog)
    until(lambda: _running(cluster, space, "backlog") > 3 * nodes, _LONGEST_S)
    began = time.monotonic()
    _create(cluster, train)
    until(lambda: _running(cluster, space, "train") == nodes, _LONGEST_S)
    took = time.monotonic() - began
    if not any(stage["waiting"] for stage in cluster.get("dagjob", "backlog", "-n", space)["status"]["stages"]):
        raise RuntimeError("the backlog was over before the gang began: nothing was measured")
    cluster.kubectl("delete", "dagjobs", "--all", "-n", space)
    cluster.kubectl("delete", "--raw", f"/api/v1/namespaces/{space}/pods?gracePeriodSeconds=0")  # all in one call
    until(lambda: not cluster.kubectl("get", "pods", "-n", space, "-o", "name"), _LONGEST_S)
    return took


def _dagjob(name: str, space: str, queue: str, stages: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "apiVersion": names.API_VERSION,
        "kind": "DagJob",
        "metadata": {"name": name, "namespace": space},
        "spec": {"queue": queue, "stages": stages},
    }


def _stage(name: str, tasks: int, cpu: int, run_s: int) -> dict[str, Any]:
    container = {"name": "main", "image": "busybox", "resources": {"requests": {"cpu": str(cpu), "memory": "64Mi"}}}
    template = {"metadata": {"annotations": {names.RUN_SECONDS: str(run_s)}}, "spec": {"containers": [container]}}
    return {"name": name, "tasks": tasks, "template": template}


def _create(cluster: Devcluster, thing: dict[str, Any]) -> None:
    cluster.kubectl("create", "-f", "-", input=json.dumps(thing))


def _running(cluster: Devcluster, space: str, job: str) -> int:
    selector = f"{names.DAGJOB_LABEL}={job}"
    phases = cluster.kubectl("get", "pods", "-n", space, "-l", selector, "-o", "jsonpath={.items[*].status.phase}")
    return phases.split().count("Running")
