"""An extender over a brain with made-up nodes, for the latency benchmark: prints its port, serves until killed."""

from __future__ import annotations

import asyncio
import gc
import sys
import time
from typing import Any, Final

from operators.access import Access
from operators.cache.cache import Cache, Change
from operators.client import Client, wall_ms
from operators.extender.app import Extender
from operators.extender.brain import Brain
from operators.extender.config import BrainConfig
from operators.extender.process import scheduler_config
from operators.extender.releases import ReleaseWriter
from operators.serving.ports import ExtenderPort, ManagementPort
from operators.serving.server import management, serve
from schedulers.core.scheduler import Scheduler
from schedulers.objects.meta import Meta
from schedulers.objects.node import NodeObject, NodeStatus

CONFIG: Final = BrainConfig(
    policy={"kind": "gs"},
    predictor={"kind": "slearn"},
    extender=ExtenderPort(port=0, tls=None),
    management=ManagementPort(address="127.0.0.1", port=0),
)


class DetachedBrain(Brain):
    """Always leads, hears of nothing by itself, and what it wants written goes nowhere: only the decision is timed."""

    def __init__(self) -> None:
        nowhere = Client(Access(url="http://127.0.0.1:9"))
        cache = Cache(nowhere, lambda change: None)
        super().__init__(Scheduler(scheduler_config(CONFIG)), cache, ReleaseWriter(nowhere), clock=wall_ms)

    def not_ready(self) -> str | None:
        """Never."""


def node_name(index: int) -> str:
    """As cloud providers name them: long names make large bodies."""
    return f"ip-10-{index // 65536}-{index // 256 % 256}-{index % 256}.eu-central-1.compute.internal"


def brain_of(nodes: int) -> DetachedBrain:
    """A brain with empty nodes of 64 CPUs."""
    brain = DetachedBrain()
    offered: Any = {"cpu": "64", "memory": "256Gi", "pods": "110"}
    for index in range(nodes):
        name = node_name(index)
        brain.hear(Change("Node", None, NodeObject(Meta(name=name, uid=name), status=NodeStatus(allocatable=offered))))
    return brain


async def _serve(nodes: int) -> None:
    began = time.perf_counter()
    brain = brain_of(nodes)
    sys.stderr.write(f"{nodes} nodes taken in within {time.perf_counter() - began:.2f} s\n")
    gc.collect()
    gc.freeze()  # as the process does when it begins to lead
    app = Extender(brain, budget_s=CONFIG.extender.budget_s).app()

    def listening(verbs: int, _: int) -> None:
        sys.stdout.write(f"{verbs}\n")
        sys.stdout.flush()

    await serve(app, CONFIG.extender, management(brain.not_ready), CONFIG.management, listening=listening)


if __name__ == "__main__":
    asyncio.run(_serve(int(sys.argv[1])))
