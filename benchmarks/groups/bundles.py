"""Group `policies`: how many candidates are examined with a bundle per node, beside one pass per task."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from benchmarks.reference import quiet
from benchmarks.rows import Row, benchmark
from schedulers.core import keyed
from schedulers.core.decisions import Decision, Place
from schedulers.core.events import Estimated, Heartbeat, JobSubmitted, NodeAdded
from schedulers.core.log import SchedulerConfig
from schedulers.core.model import Job, Node, Stage
from schedulers.core.scheduler import Scheduler
from schedulers.kit.bundles import Bundling

_NODE: Final = (16000, 65536)
_DEMANDS: Final = ((1000, 2048), (2000, 4096), (1000, 8192), (4000, 8192), (500, 1024))


@benchmark("bundle_examinations", "policies")
def bundle_examinations(tiny: bool) -> Iterator[Row]:
    """Graphene fills an empty cluster, node after node: a bundle per node, beside a pass per task."""
    nodes, jobs = (5, 20) if tiny else (100, 1000)
    with quiet():
        (few, filled), (many, alike) = (_examined(nodes, jobs, bundling=on) for on in (True, False))
    yield Row(
        name="bundle_examinations",
        value=many / few,
        unit="x",
        target=">= 3",
        note=f"{many} candidates examined to fill {nodes} nodes from {jobs} jobs with a pass per task, {few} bundled; "
        f"then {filled:.3f} of the cluster is used, and {alike:.3f} with a pass per task",
    )


def _examined(nodes: int, jobs: int, *, bundling: bool) -> tuple[int, float]:
    """Candidates examined until each node has beaten once, and the dominant share of the cluster that is used then."""
    policy: dict[str, Any] = {"kind": "graphene", "bundling": bundling}
    scheduler = Scheduler(SchedulerConfig(resources=("cpu", "memory"), policy=policy, predictor={"kind": "oracle"}))
    for i in range(nodes):
        scheduler.handle(NodeAdded(0, Node(id=f"n{i:04d}", capacity=_NODE)))
    draw = keyed.generator(1, "bench", "bundles")
    work = np.rint(draw.lognormal(np.log(60_000), 1.5, jobs)).astype(int).tolist()
    for i in range(jobs):
        stage = Stage(name="run", tasks=1 + i % 9, demand=_DEMANDS[i % len(_DEMANDS)])
        scheduler.handle(Estimated(0, f"j{i:04d}", (max(1, work[i]),)))
        scheduler.handle(JobSubmitted(0, Job(id=f"j{i:04d}", stages=(stage,), queue=f"q{i % 4}")))
    placed: list[Decision] = []
    for i in range(nodes):
        placed += scheduler.handle(Heartbeat(1, f"n{i:04d}"))
    assert any(isinstance(decision, Place) for decision in placed)
    assert isinstance(scheduler.policy, Bundling)
    state = scheduler.state
    return scheduler.policy.examined, max(u / c for u, c in zip(state.used, state.capacity, strict=True))
