"""An extender over a brain with made-up nodes, for the latency benchmark: prints its port, serves until killed."""

from __future__ import annotations

import asyncio
import gc
import sys
import time
from collections.abc import Sequence
from typing import Any

from operators.cache.reflector import Change
from operators.extender.app import Extender
from operators.extender.brain import Brain
from operators.extender.config import BrainConfig
from operators.extender.process import scheduler_config, wall_ms
from operators.extender.wire import FilterAnswer
from operators.serving.management import management
from operators.serving.ports import ExtenderPort, ManagementPort
from operators.serving.server import serve
from schedulers.core.scheduler import Scheduler
from schedulers.objects.meta import Meta
from schedulers.objects.node import Node, NodeStatus
from schedulers.objects.pod import Pod


class Nobody:
    """An outbox whose writes go nowhere: only the decision is timed."""

    def release(self, pod: Pod, node: str | None) -> None:
        """Nothing."""

    def release_gang(
        self, dagjob: str, stage: str, members: Sequence[tuple[Pod, str | None]], plan: dict[str, str]
    ) -> None:
        """Nothing."""

    def wake(self, pod: Pod, node: str) -> None:
        """Nothing."""

    def is_pending(self, uid: str) -> bool:
        """Nothing is."""
        return False


class Ready:
    """A decider that always leads."""

    def __init__(self, brain: Brain) -> None:
        self._brain = brain

    def not_ready(self) -> str | None:
        """Never."""

    def filter(self, pod: Pod, nodes: Sequence[str]) -> FilterAnswer:
        """The brain's answer."""
        return self._brain.filter(pod, nodes)

    def prioritize(self, pod: Pod, nodes: Sequence[str]) -> list[tuple[str, int]]:
        """The brain's answer."""
        return self._brain.prioritize(pod, nodes)

    def preempt(self, pod: Pod, victims: dict[str, tuple[list[str], int]]) -> dict[str, tuple[list[str], int]]:
        """The brain's answer."""
        return self._brain.preempt(pod, victims)


class Empty:
    """A cache in which nothing is watched."""

    pods: dict[str, Pod] = {}  # noqa: RUF012 - one for all, and empty


def node_name(index: int) -> str:
    """As cloud providers name them: long names make large bodies."""
    return f"ip-10-{index // 65536}-{index // 256 % 256}-{index % 256}.eu-central-1.compute.internal"


def brain_of(nodes: int) -> Brain:
    """A brain with empty nodes of 64 CPUs."""
    config = BrainConfig(policy={"kind": "gs"}, predictor={"kind": "slearn"}, extender=ExtenderPort(tls=None))
    cache: Any = Empty()
    brain = Brain(Scheduler(scheduler_config(config)), cache, Nobody(), clock=wall_ms)
    offered: Any = {"cpu": "64", "memory": "256Gi", "pods": "110"}
    for index in range(nodes):
        name = node_name(index)
        brain.hear(Change("Node", None, Node(Meta(name=name, uid=name), status=NodeStatus(allocatable=offered))))
    return brain


async def _serve(nodes: int) -> None:
    config = BrainConfig(
        policy={"kind": "gs"},
        predictor={"kind": "slearn"},
        extender=ExtenderPort(port=0, tls=None),
        management=ManagementPort(address="127.0.0.1", port=0),
    )
    began = time.perf_counter()
    decider = Ready(brain_of(nodes))
    sys.stderr.write(f"{nodes} nodes taken in within {time.perf_counter() - began:.2f} s\n")
    gc.collect()
    gc.freeze()  # as the process does when it begins to lead
    app = Extender(decider, budget_s=config.extender.budget_s).app()

    def listening(verbs: int, _: int) -> None:
        sys.stdout.write(f"{verbs}\n")
        sys.stdout.flush()

    await serve(app, config.extender, management(decider.not_ready), config.management, listening=listening)


if __name__ == "__main__":
    asyncio.run(_serve(int(sys.argv[1])))
