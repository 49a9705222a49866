"""Speculation: when a master asks for a copy of a late task, by Hadoop's rule and by LATE's, and what becomes of it."""

from __future__ import annotations

from typing import Any

import pytest

from rm_emulator.engine.assemble import timing
from rm_emulator.engine.config import CheckpointRules, EngineConfig, Executors, Faults, NodeFault, TaskFaults
from rm_emulator.engine.simulation import Simulation
from rm_emulator.engine.speculation import LateSpeculation, MapReduceSpeculation, ReportedTask, StageReport, takes_ms
from rm_emulator.testing import Audit, MemoryRecording
from rm_emulator.workload.model import Fixed, PerNode, PerTask, RunTimes, Workload, WorkloadJob
from schedulers.core.decisions import Copy, Preempt
from schedulers.core.events import CopyAsked
from schedulers.core.log import SchedulerConfig
from schedulers.core.model import Job, Node, Stage
from schedulers.core.scheduler import Scheduler


class Ran:
    """A finished run of `fifo` on nodes of one slot, under audit; its job has one stage."""

    def __init__(
        self,
        times: RunTimes,
        rule: str = "mapreduce",
        *,
        number: int = 4,
        nodes: int = 4,
        profile: str = "events",
        executors: Executors | None = None,
        **faults: Any,
    ) -> None:
        config = EngineConfig(
            nodes=tuple(Node(id=f"n{index}", capacity=(1000, 1024)) for index in range(nodes)),
            profile=profile,
            executors=executors,
            faults=Faults(speculation=rule, **faults),
        )
        rules = SchedulerConfig(resources=config.resources, policy={"kind": "fifo"}, offers=timing(config).offers)
        self.audit, self.kept = Audit(Scheduler(rules)), MemoryRecording()
        job = Job(id="a", stages=(Stage(name="s", tasks=number, demand=(1000, 1024)),))
        workload = Workload(
            name="w", jobs=(WorkloadJob(job=job, submit_ms=0, runtimes=(times,)),), resources=config.resources
        )
        self.simulation = Simulation(config, workload, self.audit, self.kept)
        self.simulation.run()
        self.audit.drained()

    @property
    def asked(self) -> list[tuple[int, int, tuple[str, ...]]]:
        """Time, task and nodes left out of each ask for a copy."""
        return [(fact.at, fact.task, fact.apart) for fact, _ in self.audit.history if isinstance(fact, CopyAsked)]

    def decided(self, kind: type) -> list[tuple[int, Any]]:
        """Decisions of a kind, with their times."""
        return [(fact.at, each) for fact, made in self.audit.history for each in made if isinstance(each, kind)]

    @property
    def rows(self) -> list[tuple[int, str, int, int | None, int, bool]]:
        """Task, node, code, start and end in ms, and whether the attempt is a copy, in the order of their ends."""
        return [(row.task, row.node, row.code, row.started_ms, row.ended_ms, row.copy) for row in self.kept.tasks]


#: The node n3 is five times as slow as the others.
ONE_SLOW = PerNode(("n0", "n1", "n2", "n3"), ((10_000, 10_000, 10_000, 50_000),))


def test_a_straggler_is_copied_with_the_first_look_after_the_first_end_and_the_copy_wins() -> None:
    """Three tasks end at 10.0 s, before the look of 10 s is over: no task waits, 75 % are done, mean 10 s.

    The fourth will end at 50 s by its progress, its copy at 20 s. The look of 10.000 s comes before the ends of 10 s.
    """
    ran = Ran(ONE_SLOW)
    assert ran.asked == [(11_000, 3, ())]
    assert ran.decided(Copy) == [(11_000, Copy(5, "n0", "a", 0, 3))]
    assert ran.decided(Preempt) == [(21_000, Preempt(4, "copy", "a"))]
    assert ran.rows[3:] == [(3, "n0", 0, 11_000, 21_000, True), (3, "n3", -102, 0, 21_000, False)]
    assert ran.simulation.end_ms == 21_000
    assert ran.kept.jobs[0].failed_tasks == 0


def test_a_copy_is_not_asked_for_where_it_would_end_no_sooner() -> None:
    # At 11 s the copy would end at 21 s, as the task does; a millisecond later and the copy is asked for.
    assert Ran(PerTask((10_000, 10_000, 10_000, 21_000))).asked == []
    assert Ran(PerTask((10_000, 10_000, 10_000, 21_001))).asked == [(11_000, 3, ())]


def test_the_task_that_ends_first_after_all_counts_and_the_copy_is_ended() -> None:
    # A task that is long by itself is as long again in its copy.
    ran = Ran(PerTask((10_000, 10_000, 10_000, 30_000)))
    assert ran.rows[3:] == [(3, "n3", 0, 0, 30_000, False), (3, "n0", -102, 11_000, 30_000, True)]


def test_after_an_ask_a_master_looks_again_after_15_s() -> None:
    times = PerNode(("n0", "n1", "n2", "n3"), ((10_000, 10_000, 90_000, 90_000),))
    ran = Ran(times)
    assert [(at, task) for at, task, _ in ran.asked] == [(11_000, 2), (26_000, 3)]


def test_no_copy_is_asked_for_while_tasks_wait_or_none_is_done() -> None:
    assert Ran(PerTask((50_000,) * 4)).asked == []
    # The sixth task waits until 90 s; at 91 s it would end at 180 s, and its copy at 91 s and the mean of 70 s.
    assert Ran(PerTask((10_000, *(90_000,) * 5)), number=6).asked == [(91_000, 5, ())]


def test_a_task_that_hangs_is_copied_once_its_progress_lags() -> None:
    """By keyed draws task 1 hangs at 4,177 ms and task 4 at 6,007 ms of 10 s; a copy takes 10 s.

    At 11 s task 1 would take 11 * 10 / 4.177 = 26.3 s, which is beyond 21 s. Task 4 would take 18.3 s; at 26 s, 15 s
    after the first ask, 43.3 s.
    """
    ran = Ran(Fixed(10_000), number=8, nodes=8, tasks=TaskFaults(hangs=0.3))
    assert ran.asked == [(11_000, 1, ()), (26_000, 4, ())]
    assert ran.simulation.end_ms == 36_000  # the watchdog would come after 600 s


def test_a_task_on_a_dead_node_is_copied_before_the_death_is_noticed() -> None:
    """Dead at 5 s: 5 s of 10 are done. At 11 s the estimate is 22 s, at which the copy of 10 s gains a second."""
    ran = Ran(Fixed(10_000), outages=[NodeFault(at_ms=5000, node="n3")], noticed_after_ms=600_000)
    assert ran.asked == [(11_000, 3, ())]
    assert ran.simulation.end_ms == 21_000


def test_late_copies_the_longest_left_after_a_minute_on_a_node_that_is_not_slow() -> None:
    """Tasks of 40 s, and on n6 and n7 of 200 and 300 s: looks begin at 60 s, the longest is copied first.

    Of the eight run times the third longest is the threshold, 40 s. The cap is one copy, as a tenth of 8 slots is none.
    The progress of n0 to n5 is 1, of n6 and n7 60/200 and 60/300: only n7 is below the third lowest, with n6.
    """
    names = tuple(f"n{index}" for index in range(8))
    ran = Ran(PerNode(names, ((40_000,) * 6 + (200_000, 300_000),)), "late", number=8, nodes=8)
    assert ran.asked[0] == (60_000, 7, ("n6", "n7"))
    assert ran.asked[1][:2] == (101_000, 6)
    assert ran.simulation.end_ms == 141_000


@pytest.mark.parametrize("profile", ["events", "yarn", "sls", "kubernetes"])
@pytest.mark.parametrize("rule", ["mapreduce", "late"])
def test_every_profile_carries_speculation_out(profile: str, rule: str) -> None:
    names = tuple(f"n{index}" for index in range(8))
    ran = Ran(PerNode(names, ((40_000,) * 7 + (600_000,),)), rule, number=8, nodes=8, profile=profile)
    assert len(ran.decided(Copy)) == 1
    assert ran.simulation.end_ms < 130_000


# -- the rules by themselves ------------------------------------------------------------------------


def report(now: int, *single: tuple[int, int, int], took: tuple[int, ...] = (10,), **fields: Any) -> StageReport:
    facts = {"tasks": 20, "slots": 100, "under_way": len(single), "copied": 0, **fields}
    return StageReport(now=now, took=took, single=[ReportedTask(*each) for each in single], **facts)


def test_hadoop_waits_for_five_percent_of_the_tasks() -> None:
    assert MapReduceSpeculation().choose(report(20, (3, 0, 100), tasks=21)) is None
    assert MapReduceSpeculation().choose(report(20, (3, 0, 100), tasks=20)) == 3


@pytest.mark.parametrize(("tasks", "under_way", "most"), [(20, 5, 10), (1500, 5, 15), (500, 300, 30)])
def test_hadoop_copies_ten_tasks_or_a_hundredth_of_all_or_a_tenth_of_those_under_way(
    tasks: int, under_way: int, most: int
) -> None:
    done = (10,) * tasks
    seen = [report(20, (3, 0, 100), took=done, tasks=tasks, under_way=under_way, copied=n) for n in (most - 1, most)]
    assert [MapReduceSpeculation().choose(each) for each in seen] == [3, None]


def test_hadoop_takes_the_latest_end_and_of_equal_ones_the_first_task() -> None:
    assert MapReduceSpeculation().choose(report(20, (1, 0, 100), (5, 5, 100), (2, 10, 95), (4, 0, 105))) == 2


def test_late_copies_a_tenth_of_the_slots_and_at_least_one() -> None:
    slow = (3, 0, 900_000)
    for slots, most in ((100, 10), (5, 1)):
        seen = [report(60_000, slow, took=(10, 10, 10), slots=slots, copied=n) for n in (most - 1, most)]
        assert [LateSpeculation().choose(each) for each in seen] == [3, None]


def test_late_leaves_alone_what_is_young_or_not_among_the_slowest_quarter() -> None:
    assert LateSpeculation().choose(report(59_999, (3, 0, 900_000), took=(10,) * 3)) is None
    assert LateSpeculation().choose(report(60_000, (3, 0, 900_000), took=(900_000,) * 3)) is None
    # The longest time left, and not the slowest: 4 began later.
    both = (3, 0, 900_000), (4, 600_000, 500_000)
    assert LateSpeculation().choose(report(700_000, *both, took=(10,) * 9)) == 4


def test_a_task_without_news_takes_longer_and_longer() -> None:
    assert [takes_ms(100, worked, elapsed) for worked, elapsed in ((50, 50), (50, 60), (50, 100), (0, 5))] == [
        100,
        120,
        200,
        50_000,
    ]


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"executors": Executors()}, "executors that outlive tasks"),
        ({"checkpoints": CheckpointRules(every_ms=1000)}, "checkpoints, which a copy does not read"),
    ],
)
def test_what_speculation_does_not_go_with(fields: dict[str, Any], why: str) -> None:
    with pytest.raises(ValueError, match=f"speculation does not go with {why}"):
        Ran(Fixed(1000), **fields)
