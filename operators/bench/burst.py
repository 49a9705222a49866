"""Many gated pods at once: bound per second beside kube-scheduler alone, and how long a released pod waits for it."""

from __future__ import annotations

import asyncio
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

from operators.bench.cluster import create_pods, wait_ready
from operators.bench.row import Row
from operators.cache.cache import Change
from operators.cache.reflector import Kind, Reflector
from operators.devcluster.cluster import Devcluster, free_ports
from schedulers.objects.pod import Pod

_TAKEN_BACK: Final = "a release did not take effect and is taken back"
_LONGEST_S: Final = 300.0


def rows(*, tiny: bool = False) -> Iterator[Row]:
    """On a devcluster of its own; two turns each, in turns, so that both meet the same machine."""
    nodes, pods, turns = (10, 50, 1) if tiny else (1000, 5000, 2)
    rates: dict[str, list[float]] = {"alone": [], "ours": []}
    waits, taken_back = [], 0
    with tempfile.TemporaryDirectory() as folder:
        cluster = Devcluster(Path(folder))
        try:
            cluster.up(nodes=nodes, cpu="64", memory="256Gi", pods="1000")
            cluster.apply(Path(__file__).parents[2] / "manifests" / "crds")
            for which in ("alone", "ours") * turns:
                turn = _Turn(cluster, pods, ours=which == "ours")
                rates[which].append(turn.per_second)
                waits += turn.waits
                taken_back += turn.taken_back
        finally:
            cluster.remove()
    ours, alone = max(rates["ours"]), max(rates["alone"])
    note = (
        f"{pods} pods on {nodes} nodes, from the first bound to the last, beside kube-scheduler alone with pods that "
        f"have no gate; the better of {turns} each, in turns; {taken_back} releases taken back; "
        f"{mean(waits):.1f} s from a release to the binding"
    )
    yield Row(name="burst", value=ours, unit="pods/s", reference=alone, ratio=ours / alone, target=">= 0.9", note=note)


class _Turn:
    """One burst. waits: seconds from each pod's release until it is bound. taken_back: releases that were."""

    def __init__(self, cluster: Devcluster, count: int, *, ours: bool) -> None:
        self._cluster, self._count = cluster, count
        self._space = cluster.namespace("burst")
        self._released: dict[str, float] = {}
        self._bound: dict[str, float] = {}
        asyncio.run(create_pods(cluster, self._space, count, gated=ours))
        with ExitStack() as stack:
            stack.callback(self._delete)
            asyncio.run(self._watch(stack, ours=ours))
        first, last = min(self._bound.values()), max(self._bound.values())
        self.per_second = (count - 1) / (last - first)
        self.waits = [self._bound[uid] - at for uid, at in self._released.items()]
        self.taken_back = (cluster.folder / "brain.log").read_text().count(_TAKEN_BACK) if ours else 0

    async def _watch(self, stack: ExitStack, *, ours: bool) -> None:
        async with self._cluster.client() as client:
            kind = Kind("Pod", Pod, f"/api/v1/namespaces/{self._space}/pods")
            watched: Reflector[Pod] = Reflector(client, kind, self._hear)
            task = asyncio.ensure_future(watched.run())
            while len(watched.objects) < self._count:
                await asyncio.sleep(0.05)
            await asyncio.to_thread(self._start, stack, ours=ours)
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

    def _start(self, stack: ExitStack, *, ours: bool) -> None:
        extenders = [self._brain(stack)] if ours else []
        config = self._cluster.folder / "scheduler-bench.yaml"
        config.write_text(yaml.safe_dump(self._cluster.scheduler_config(extenders)))
        stack.callback(self._cluster.stop, "scheduler")
        self._cluster.start("scheduler", config=config)

    def _brain(self, stack: ExitStack) -> dict[str, Any]:
        """Start it; returns how kube-scheduler is to ask it."""
        folder = self._cluster.folder
        port, management = free_ports(2)
        config = folder / "brain.yaml"
        config.write_text(
            f"policy: {{kind: fifo}}\nextender: {{address: 127.0.0.1, port: {port}, tls: null}}\n"
            f"management: {{address: 127.0.0.1, port: {management}}}\nleaderElection: null\n"
            f"storage: {{dir: {folder / 'brain'}}}\nkubeconfig: {self._cluster.kubeconfig}\n"
        )
        log = stack.enter_context((folder / "brain.log").open("wb"))
        command = [sys.executable, "-m", "operators.extender", "--config", str(config)]
        brain = subprocess.Popen(command, stdout=log, stderr=log)  # noqa: S603
        stack.callback(brain.wait)
        stack.callback(brain.terminate)
        wait_ready(management)
        return {
            "urlPrefix": f"http://127.0.0.1:{port}/v1",
            "filterVerb": "filter",
            "prioritizeVerb": "prioritize",
            "weight": 1,
            "nodeCacheCapable": True,
            "httpTimeout": "5s",
        }

    def _delete(self) -> None:
        self._cluster.kubectl("delete", "--raw", f"/api/v1/namespaces/{self._space}/pods?gracePeriodSeconds=0")
