"""How long a gang that is first in the order waits while a backlog of small pods takes room as it frees."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import yaml

from operators.bench.row import Row
from operators.devcluster.cluster import Devcluster
from operators.devcluster.deployments import Running
from schedulers.objects import names

_MANIFESTS: Final = Path(__file__).parents[2] / "manifests"
_CRDS: Final = ("crd/dagjobs.rm-emulator.io", "crd/queues.rm-emulator.io")
_NODES: Final = 8
_LONGEST_S: Final = 180.0


def rows(*, tiny: bool = False) -> Iterator[Row]:
    """The worst of five turns on a devcluster of its own, reserving after 30 s as the manifests do."""
    turns, tasks = (1, 80) if tiny else (5, 400)
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        cluster = Devcluster(Path(folder))
        stack.callback(cluster.remove)
        cluster.up(nodes=_NODES)
        _install(cluster, "2s" if tiny else "30s", stack)
        took = [_turn(cluster, tasks) for _ in range(turns)]
    note = (
        f"a gang of {_NODES} x 6 CPU in a queue of weight 10, on {_NODES} nodes of 8 CPU that {tasks} pods of 2 CPU "
        f"and 10 s fill; the worst of {turns} turns, until all its pods run"
    )
    yield Row(name="gang_wait", value=max(took), unit="s", target="<= 60", note=note)


def _install(cluster: Devcluster, reserve_after: str, stack: ExitStack) -> None:
    """Brain, kube-scheduler and controllers, with two queues."""
    cluster.apply(_MANIFESTS / "crds")
    cluster.kubectl("wait", "--for=condition=Established", *_CRDS)
    cluster.apply(_MANIFESTS / "overlays" / "dev")
    config = yaml.safe_load(cluster.get("configmap", "rm-brain", "-n", names.NAMESPACE)["data"]["config.yaml"])
    config |= {"policy": {"kind": "hdrf"}, "predictor": None, "reserveAfter": reserve_after}
    patch = json.dumps({"data": {"config.yaml": yaml.safe_dump(config)}})
    cluster.kubectl("patch", "configmap", "rm-brain", "-n", names.NAMESPACE, "--type=merge", "-p", patch)
    running = []
    for name in ("rm-brain", "rm-controllers"):
        running.append(Running(cluster, name))
        stack.callback(running[-1].stop)
    for part in running:
        part.wait_ready()
    for name, weight in (("gold", 10), ("batch", 1)):
        spec = {"metadata": {"name": name}, "spec": {"weight": weight}}
        _create(cluster, {"apiVersion": names.API_VERSION, "kind": "Queue", **spec})


def _turn(cluster: Devcluster, tasks: int) -> float:
    """Seconds from the gang's creation until all its pods run."""
    space = cluster.namespace("gang")
    backlog, train = _dagjob("backlog", space, "batch", tasks, 2), _dagjob("train", space, "gold", _NODES, 6)
    _until(lambda: _accepted(cluster, backlog))
    _until(lambda: _running(cluster, space, "backlog") == 4 * _NODES)
    began = time.monotonic()
    _create(cluster, train)
    _until(lambda: _running(cluster, space, "train") == _NODES)
    took = time.monotonic() - began
    cluster.kubectl("delete", "dagjobs", "--all", "-n", space)
    cluster.kubectl("delete", "pods", "--all", "-n", space, "--grace-period=0", "--force")
    return took


def _dagjob(name: str, space: str, queue: str, tasks: int, cpu: int) -> dict[str, Any]:
    container = {"name": "main", "image": "busybox", "resources": {"requests": {"cpu": str(cpu), "memory": "64Mi"}}}
    template = {"metadata": {"annotations": {names.RUN_SECONDS: "10"}}, "spec": {"containers": [container]}}
    stage = {"name": "all", "tasks": tasks, "gang": queue == "gold", "template": template}
    metadata = {"name": name, "namespace": space}
    return {
        "apiVersion": names.API_VERSION,
        "kind": "DagJob",
        "metadata": metadata,
        "spec": {"queue": queue, "stages": [stage]},
    }


def _create(cluster: Devcluster, thing: dict[str, Any]) -> None:
    cluster.kubectl("create", "-f", "-", input=json.dumps(thing))


def _accepted(cluster: Devcluster, thing: dict[str, Any]) -> bool:
    """The API server hears of new queues a moment after they are there, and refuses jobs for them before."""
    try:
        _create(cluster, thing)
    except RuntimeError as error:
        if "does not exist" not in str(error):
            raise
        return False
    return True


def _running(cluster: Devcluster, space: str, job: str) -> int:
    selector = f"{names.DAGJOB_LABEL}={job}"
    phases = cluster.kubectl("get", "pods", "-n", space, "-l", selector, "-o", "jsonpath={.items[*].status.phase}")
    return phases.split().count("Running")


def _until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + _LONGEST_S
    while not true():
        if time.monotonic() > end:
            raise TimeoutError(f"it does not happen within {_LONGEST_S:g} s")
        time.sleep(0.2)
