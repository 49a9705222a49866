"""Application masters that are lost with their nodes, fail or hang: their containers, and the job's next attempt.

Nodes beat every second from the phases 959, 187, 166 and 554 ms on, masters call at whole seconds. A single job comes
at 0: its master gets n2 at 166 ms and asks at 1 s, its three tasks are granted on n1, n3 and n0 and start at 2 s.
"""

from __future__ import annotations

from math import log1p
from typing import Any

import msgspec
import pytest

from rm_emulator.engine.calendar import TICK
from rm_emulator.engine.config import EngineConfig, Faults, MasterFaults
from rm_emulator.engine.simulation import Simulation
from rm_emulator.testing import Audit, MemoryRecording
from rm_emulator.workload.model import Workload, WorkloadJob
from schedulers.core import keyed
from schedulers.core.decisions import Preempt
from schedulers.core.events import JobCancelled, JobChanged, StageWithdrawn
from schedulers.core.log import SchedulerConfig
from schedulers.core.model import Node
from schedulers.core.scheduler import Scheduler
from tests.engine.test_faults import HOUR, Ran, batch, fault

LOST, KILLED, FAILED = -100, -106, 1
TASKS, MASTER = 0, 1


def mastered(name: str = "a", tasks: int = 3, ms: int = 100_000) -> WorkloadJob:
    return msgspec.structs.replace(batch(name, tasks, ms), am=(1000, 1024))


def ran(*jobs: WorkloadJob, nodes: int = 4, **faults: Any) -> Ran:
    return Ran(*(jobs or (mastered(),)), nodes=nodes, **faults)


def of(made: Ran, stage: int) -> list[tuple[str, int | None, int, int]]:
    """Node, start and end (ms), and exit code of each attempt of a stage."""
    return [(each.node, each.started_ms, each.ended_ms, each.code) for each in made.kept.tasks if each.stage == stage]


def failing(after_ms: int, attempt: int = 0, **rules: Any) -> MasterFaults:
    """Masters of job `a` whose attempt number `attempt` fails so many ms after its start."""
    drawn = keyed.uniform(0, "failing masters", "a", attempt)
    return MasterFaults(per_hour=-log1p(-drawn) / after_ms * HOUR, **rules)


# -- a lost node ----------------------------------------------------------------------------------


def test_with_its_masters_node_a_job_loses_its_containers_and_begins_anew() -> None:
    made = ran(outages=[fault(50_000, "unhealthy", node="n2")])
    # The next master gets n1, which beats at 50.187 s, and asks at 51 s for what n3 and n0 then run from 52 s on. The
    # third task waits for the first to end, and starts with the master's next call.
    assert of(made, MASTER) == [("n2", 166, 50_000, LOST), ("n1", 50_187, 254_000, 0)]
    assert of(made, TASKS)[:3] == [(node, 2000, 50_000, KILLED) for node in ("n1", "n3", "n0")]
    assert of(made, TASKS)[3:] == [
        ("n3", 52_000, 152_000, 0),
        ("n0", 52_000, 152_000, 0),
        ("n0", 153_000, 253_000, 0),
    ]
    (row,) = made.kept.jobs
    assert (row.finish_ms, row.failed_tasks) == (254_000, 4)
    assert made.told(StageWithdrawn) == [("StageWithdrawn", 50_000)]
    assert made.told(JobChanged) == [("JobChanged", 1000), ("JobChanged", 51_000)]


def test_a_master_on_a_dead_node_does_nothing_until_the_death_is_noticed() -> None:
    # Tasks end at 102 s and count; the death is noticed at 800 s, and the next master (n0, in its stead) has only to
    # register, and ends in its next call.
    made = ran(outages=[fault(50_000, node="n2")])
    assert [end for _, _, end, _ in of(made, TASKS)] == [102_000] * 3
    assert of(made, MASTER) == [("n2", 166, 800_000, LOST), ("n0", 800_000, 801_000, 0)]
    assert made.kept.jobs[0].finish_ms == 801_000


def test_a_dead_master_launches_nothing_that_was_granted_to_its_job() -> None:
    # Dead at 1.7 s: n1 and n3 have granted at 1.187 and 1.554 s, n0 does so at 1.959 s, for a launch at 2 s.
    made = ran(outages=[fault(1700, node="n2")])
    assert of(made, TASKS)[:3] == [(node, None, 800_000, KILLED) for node in ("n1", "n3", "n0")]


def test_a_master_that_was_silent_for_a_time_launches_and_asks_in_its_next_call() -> None:
    made = ran(outages=[fault(1700, "silent", until=9500, node="n2")])
    assert [start for _, start, _, _ in of(made, TASKS)] == [10_000] * 3
    assert of(made, MASTER) == [("n2", 166, 111_000, 0)]
    # Silent before its first call, at 1 s: the call comes after the silence.
    later = ran(outages=[fault(700, "silent", until=9500, node="n2")])
    assert later.told(JobChanged) == [("JobChanged", 10_000)]


def test_a_master_on_a_drained_node_goes_on_until_the_limit() -> None:
    made = ran(outages=[fault(50_000, "drain", node="n2")], drain_limit_ms=30_000)
    assert of(made, MASTER)[0] == ("n2", 166, 80_000, LOST)
    assert ran(outages=[fault(50_000, "drain", node="n2")]).kept.jobs[0].finish_ms == 103_000


@pytest.mark.parametrize("profile", ["yarn", "sls"])
def test_lost_nodes_are_not_charged(profile: str) -> None:
    nodes = ("n0", "n1", "n2", "n3")
    lost = [fault(at, "unhealthy", at + 5000, node) for at in (20_000, 40_000, 60_000) for node in nodes]
    made = ran(profile=profile, outages=lost, masters=MasterFaults(attempts=1))
    assert sum(code == LOST for *_, code in of(made, MASTER)) == 3
    assert made.kept.jobs[0].finish_ms is not None


@pytest.mark.parametrize("policy", ["fifo", "capacity", "fair_yarn"])
def test_a_preempted_master_is_not_charged_and_every_policy_grants_the_next(policy: str) -> None:
    config = EngineConfig(
        nodes=tuple(Node(id=f"n{index}", capacity=(1000, 1024)) for index in range(4)),
        faults=Faults(outages=(), masters=MasterFaults(attempts=1)),
    )
    rules = SchedulerConfig(resources=config.resources, policy={"kind": policy}, offers="heartbeat")
    audit, kept = Audit(Scheduler(rules)), MemoryRecording()
    workload = Workload(name="w", jobs=(mastered(),), resources=config.resources)
    simulation = Simulation(config, workload, audit, kept)
    preempt = Preempt(1, "by hand", "a")  # the first container of all, the master's
    simulation.calendar.at(30_000, TICK, 0, simulation.actions[Preempt], preempt)
    simulation.run()
    audit.drained()
    assert [each.code for each in kept.tasks if each.stage == MASTER] == [-102, 0]
    # Told a ms later, with the end of the master.
    assert [each.ended_ms for each in kept.tasks if each.code == KILLED] == [30_001] * 3
    assert kept.jobs[0].finish_ms is not None


# -- a master that fails by itself ------------------------------------------------------------------


def test_a_failed_master_is_started_again_and_finished_tasks_count() -> None:
    # Failing 120 s after 166 ms; the tasks are done at 102 s, but for those of the second wave.
    made = ran(mastered(tasks=4), masters=failing(120_000, attempts=9))
    first, *_ = of(made, MASTER)
    assert first == ("n2", 166, 120_166, FAILED)
    codes = [code for *_, end, code in of(made, TASKS) if end <= 120_166]
    assert codes == [0, 0, 0, KILLED]
    assert sum(code == 0 for *_, code in of(made, TASKS)) == 4


def test_a_job_fails_with_the_second_failure_of_its_masters() -> None:
    # The first fails at 166 + 8611 ms, the second (n2 again, in the beat that tells) after its own draw.
    made = ran(masters=failing(8611))
    seconds = [(start, code) for _, start, _, code in of(made, MASTER)]
    assert seconds == [(166, FAILED), (8777, FAILED)]
    (row,) = made.kept.jobs
    assert (row.finish_ms, row.failed_ms) == (None, of(made, MASTER)[1][2])
    assert {code for *_, code in of(made, TASKS)} == {KILLED, -107}
    (told,) = [fact for fact, _ in made.audit.history if isinstance(fact, JobCancelled)]
    assert told.why == "its application master failed 2 times"


def test_kept_containers_outlive_their_master_if_they_run() -> None:
    made = ran(masters=failing(8611, keep_containers=True))
    assert of(made, MASTER)[0][2:] == (8777, FAILED)
    # All of them end with their job at last, whose second master fails at 29.688 s.
    assert {(start, end, code) for _, start, end, code in of(made, TASKS)} == {(2000, 29_688, -107)}
    # Failing at 1.7 s: what n1 and n3 have granted, and nobody has launched, is not kept.
    early = ran(masters=failing(1534, keep_containers=True, attempts=99))
    assert of(early, TASKS)[:2] == [("n1", None, 1700, KILLED), ("n3", None, 1700, KILLED)]


def test_tasks_that_are_kept_end_while_there_is_no_master() -> None:
    # Only n0 and n1 are there: n0 has the task, n1 the master, and is away until after the end of the task.
    rules = MasterFaults(keep_containers=True)
    made = ran(mastered(tasks=1), nodes=2, outages=[fault(50_000, "unhealthy", HOUR, "n1")], masters=rules)
    assert of(made, TASKS) == [("n0", 2000, 102_000, 0)]
    assert [code for *_, code in of(made, MASTER)] == [LOST, 0]
    # The next master has n0, free with the task's end, and ends in its next call.
    assert made.kept.jobs[0].finish_ms == 103_000


def test_a_hanging_master_is_noticed_as_a_dead_node_is_and_charged() -> None:
    # Hanging from 50 s on: 200, 400 and 600 s come too early, at 800 s the silence is longer than 600 s.
    made = ran(masters=failing(49_834, hangs=1.0, attempts=1))
    assert of(made, MASTER) == [("n2", 166, 800_000, KILLED)]
    assert [end for _, _, end, _ in of(made, TASKS)] == [102_000] * 3
    assert made.kept.jobs[0].failed_ms == 800_000


def test_failures_of_masters_do_not_depend_on_the_cluster() -> None:
    rules = MasterFaults(per_hour=200, attempts=99)
    lives = []
    for nodes in (3, 6):
        masters = [each for each in ran(mastered(tasks=9), nodes=nodes, masters=rules).kept.tasks if each.stage]
        lives.append([each.ended_ms - (each.started_ms or 0) for each in masters if each.code == FAILED])
    fewest = min(map(len, lives))
    assert fewest > 1
    assert lives[0][:fewest] == lives[1][:fewest]
