"""Many gated pods at once: bound per second beside kube-scheduler alone, and how long a released pod waits for it.

Tasks of a DagJob are narrowed to their node when they are released, so kube-scheduler looks at that node alone. Pods of
their own are not, because nobody would make them anew: kube-scheduler looks at every node for each of them.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from statistics import mean
from typing import Any, Final

import yaml

from benchmarks.kubernetes.cluster import create_pods, pod_body, wait_ready
from benchmarks.rows import Row
from devcluster.cluster import Devcluster, free_ports
from devcluster.installation import apply_crds
from operators.cache.cache import Change
from operators.cache.reflector import Kind, Reflector
from schedulers.objects import names
from schedulers.objects.pod import Pod

_TAKEN_BACK: Final = "a release did not take effect and is taken back"
_LONGEST_S: Final = 300.0


def rows(*, tiny: bool = False) -> Iterator[Row]:
    """On a devcluster of its own; two turns of each kind, in turns, so that all meet the same machine."""
    nodes, pods, turns = (10, 50, 1) if tiny else (1000, 5000, 2)
    took: dict[str, list[_Turn]] = {"alone": [], "tasks": [], "pods": []}
    with tempfile.TemporaryDirectory() as folder:
        cluster = Devcluster(Path(folder))
        try:
            cluster.up(nodes=nodes, cpu="64", memory="256Gi", pods="1000")
            apply_crds(cluster)
            for which in list(took) * turns:
                took[which].append(_Turn(cluster, pods, which))
        finally:
            cluster.remove()
    alone = max(turn.per_second for turn in took["alone"])
    for which, name in (("tasks", "burst"), ("pods", "burst_of_pods")):
        ours = max(turn.per_second for turn in took[which])
        waits = [wait for turn in took[which] for wait in turn.waits]
        note = (
            f"{pods} {'tasks of a DagJob' if which == 'tasks' else 'pods of their own'} on {nodes} nodes, from the "
            "first bound to the last, beside kube-scheduler alone, as it comes, with pods without a gate; the better "
            f"of {turns} each, in turns; {sum(turn.taken_back for turn in took[which])} releases taken back; "
            f"{mean(waits):.1f} s from a release to the binding"
        )
        yield Row(name=name, value=ours, unit="pods/s", reference=alone, ratio=ours / alone, target=">= 0.9", note=note)


class _Turn:
    """One burst of tasks, of pods, or of pods that kube-scheduler alone binds.

    waits: seconds from each pod's release until it is bound. taken_back: releases that were.
    """

    def __init__(self, cluster: Devcluster, count: int, which: str) -> None:
        self._cluster, self._count, self._which = cluster, count, which
        self._space = cluster.namespace("burst")
        self._released: dict[str, float] = {}
        self._bound: dict[str, float] = {}
        with ExitStack() as stack:
            stack.callback(self._delete)
            if which == "tasks":
                self._controllers(stack)
                cluster.kubectl("create", "-f", "-", input=json.dumps(_dagjob(self._space, count)))
            else:
                asyncio.run(create_pods(cluster, self._space, count, gated=which == "pods"))
            asyncio.run(self._watch(stack))
        first, last = min(self._bound.values()), max(self._bound.values())
        self.per_second = (count - 1) / (last - first)
        self.waits = [self._bound[uid] - at for uid, at in self._released.items()]
        log = cluster.folder / "brain.log"
        self.taken_back = log.read_text().count(_TAKEN_BACK) if which != "alone" else 0

    async def _watch(self, stack: ExitStack) -> None:
        async with self._cluster.client() as client:
            kind = Kind("Pod", Pod, f"/api/v1/namespaces/{self._space}/pods")
            watched: Reflector[Pod] = Reflector(client, kind, self._hear)
            task = asyncio.ensure_future(watched.run())
            while len(watched.objects) < self._count:
                await asyncio.sleep(0.05)
            await asyncio.to_thread(self._start, stack)
            until = time.monotonic() + _LONGEST_S
            while len(self._bound) < self._count:
                if time.monotonic() > until:
                    raise TimeoutError(f"{len(self._bound)} of {self._count} pods bound within {_LONGEST_S:g} s")
                await asyncio.sleep(0.05)
            task.cancel()

    def _hear(self, change: Change) -> None:
        old, new, now = change.old, change.new, time.monotonic()
        if new is None:
            return
        if old is not None and old.is_gated and not new.is_gated:
            self._released[new.metadata.uid] = now
        if new.spec.nodeName:
            self._bound.setdefault(new.metadata.uid, now)

    def _start(self, stack: ExitStack) -> None:
        config = self._cluster.scheduler_config()
        if self._which == "alone":
            del config["percentageOfNodesToScore"]
        else:
            config["extenders"] = [self._brain(stack)]
        file = self._cluster.folder / "scheduler-bench.yaml"
        file.write_text(yaml.safe_dump(config))
        stack.callback(self._cluster.stop, "scheduler")
        self._cluster.start("scheduler", config=file)

    def _brain(self, stack: ExitStack) -> dict[str, Any]:
        """Start it; returns how kube-scheduler is to ask it."""
        port, management = free_ports(2)
        storage = self._cluster.folder / "brain"
        shutil.rmtree(storage, ignore_errors=True)
        settings = {
            "policy": {"kind": "fifo"},
            "extender": {"address": "127.0.0.1", "port": port, "tls": None},
            "storage": {"dir": str(storage)},
        }
        self._run(stack, "extender", "brain", management, settings)
        return {
            "urlPrefix": f"http://127.0.0.1:{port}/v1",
            "filterVerb": "filter",
            "prioritizeVerb": "prioritize",
            "weight": 1,
            "nodeCacheCapable": True,
            "httpTimeout": "5s",
        }

    def _controllers(self, stack: ExitStack) -> None:
        self._run(stack, "controllers", "controllers", free_ports(1)[0], {})

    def _run(self, stack: ExitStack, module: str, name: str, management: int, settings: dict[str, Any]) -> None:
        """One of our processes, until the turn is over."""
        settings |= {
            "management": {"address": "127.0.0.1", "port": management},
            "leaderElection": None,
            "kubeconfig": str(self._cluster.kubeconfig),
        }
        folder = self._cluster.folder
        (folder / f"{name}.yaml").write_text(yaml.safe_dump(settings))
        log = stack.enter_context((folder / f"{name}.log").open("wb"))
        command = [sys.executable, "-m", f"operators.{module}", "--config", str(folder / f"{name}.yaml")]
        process = subprocess.Popen(command, stdout=log, stderr=log)  # noqa: S603
        stack.callback(process.wait)
        stack.callback(process.terminate)
        wait_ready(management)

    def _delete(self) -> None:
        self._cluster.kubectl("delete", "dagjobs", "--all", "-n", self._space, "--cascade=orphan")
        self._cluster.kubectl("delete", "--raw", f"/api/v1/namespaces/{self._space}/pods?gracePeriodSeconds=0")


def _dagjob(space: str, tasks: int) -> dict[str, Any]:
    spec = {key: value for key, value in pod_body("task", gated=False)["spec"].items() if key != "schedulerName"}
    return {
        "apiVersion": names.API_VERSION,
        "kind": "DagJob",
        "metadata": {"name": "burst", "namespace": space},
        "spec": {"stages": [{"name": "all", "tasks": tasks, "template": {"spec": spec}}]},
    }
