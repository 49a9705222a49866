"""Profile `kubernetes`: cycles, pods that are created, released, started and seen."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from rm_emulator.engine.config import EngineConfig
from rm_emulator.engine.profiles.kubernetes import Kubernetes, PodLifecycle
from rm_emulator.engine.recording import JobRow, MemoryRecording
from rm_emulator.engine.simulation import Simulation
from rm_emulator.scenario.schema import Cluster
from rm_emulator.workload.model import Fixed, Workload, WorkloadJob
from schedulers.core.log import Log, SchedulerConfig
from schedulers.core.model import Job, Node, Stage
from schedulers.core.replay import Replay
from schedulers.core.scheduler import Scheduler

EXACT = Kubernetes.Params(
    cycle_ms=50, create_ms=30, create_rate=100, release_rate=1000, start_ms=40, seen_ms=5, whole_seconds=False
)


def run(*stages: Stage, settings: Kubernetes.Params = EXACT, ms: int = 1000, nodes: int = 4) -> tuple[JobRow, bytes]:
    config = EngineConfig(
        nodes=tuple(Node(id=f"n{i}", capacity=(4,)) for i in range(nodes)),
        resources=("cpu",),
        profile="kubernetes",
        settings=msgspec.to_builtins(settings),
    )
    lines = bytearray()
    log = Log(lines.extend)
    policy: dict[str, Any] = {"kind": "fifo"}
    scheduler = Scheduler(SchedulerConfig(resources=("cpu",), policy=policy, offers="cycle"), log=log)
    kept = MemoryRecording()
    job = WorkloadJob(job=Job(id="j", stages=stages), submit_ms=0, runtimes=tuple(Fixed(ms) for _ in stages))
    Simulation(config, Workload(name="w", jobs=(job,), resources=("cpu",)), scheduler, kept).run()
    log.flush()
    return kept.jobs[0], bytes(lines)


def test_one_pod_takes_creation_cycle_release_start_and_its_run_time() -> None:
    row, _ = run(Stage(name="a", tasks=1, demand=(1,)))
    # 30 until created, 10 at 100 pods/s, 5 seen; 50 of the cycle; 1 at 1000 releases/s, 40 start, 5 seen; 1000.
    assert row.finish_ms == 30 + 10 + 5 + 50 + 1 + 40 + 5 + 1000


def test_a_stage_starts_when_all_its_pods_are_there() -> None:
    row, _ = run(Stage(name="a", tasks=10, demand=(1,)))
    assert row.first_start_ms == 30 + 100 + 5 + 50 + 1 + 40 + 5


def test_a_childs_pods_are_created_after_its_parents_last_end() -> None:
    row, _ = run(Stage(name="a", tasks=1, demand=(1,)), Stage(name="b", tasks=1, demand=(1,), parents=(0,)))
    assert row.finish_ms == 2 * (30 + 10 + 5 + 50 + 1 + 40 + 5 + 1000)


def test_a_gang_larger_than_any_node_starts_together() -> None:
    row, _ = run(Stage(name="a", tasks=16, demand=(1,), gang=True))
    assert row.finish_ms is not None


def test_releases_pass_one_after_another() -> None:
    pods = PodLifecycle(Kubernetes.Params(release_rate=10, start_ms=0, seen_ms=0), 1)
    assert [pods.released(0) for _ in range(3)] == [100, 200, 300]


def test_pods_end_at_whole_seconds_of_the_clock() -> None:
    pods = PodLifecycle(Kubernetes.Params(seen_ms=0), 1)
    ends = {(now + pods.runs(now, 20_000)) % 1000 for now in range(0, 3000, 130)}
    assert len(ends) == 1
    assert all(19_000 < pods.runs(now, 20_000) <= 20_000 for now in range(0, 3000, 130))


@pytest.mark.parametrize("whole", [False, True])
def test_the_log_replays(whole: bool) -> None:
    settings = Kubernetes.Params(whole_seconds=whole)
    _, lines = run(Stage(name="a", tasks=30, demand=(1,)), settings=settings)
    assert sum(1 for _ in Replay(lines.splitlines(keepends=True))) > 60


def test_settings_beside_the_kind_mean_the_same_as_the_block_with_units() -> None:
    nodes = [{"capacity": {"cpu": 1}}]
    block = Cluster.model_validate(
        {"nodes": nodes, "profile": "kubernetes", "kubernetes": {"cycle": "2s", "create_rate": 3.0}}
    )
    beside = Cluster.model_validate(
        {"nodes": nodes, "profile": {"kind": "kubernetes", "cycle_ms": 2000, "create_rate": 3}}
    )
    read = [msgspec.convert(each.profile_settings, Kubernetes.Params) for each in (block, beside)]
    assert read == [Kubernetes.Params(cycle_ms=2000, create_rate=3.0)] * 2
    assert block.profile_name == beside.profile_name == "kubernetes"


def test_the_block_means_nothing_to_another_profile() -> None:
    other = Cluster.model_validate({"nodes": [{"capacity": {"cpu": 1}}], "kubernetes": {"cycle": "2s"}})
    assert other.profile_settings == {}
