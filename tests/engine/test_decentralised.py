"""Schedulers that see no cluster, and workers with queues: what must hold whatever they draw."""

from __future__ import annotations

from collections import Counter
from typing import Any, Literal

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rm_emulator.audit import DeciderAudit
from rm_emulator.engine.config import Decentralised, EngineConfig
from rm_emulator.engine.recording import MemoryRecording
from rm_emulator.engine.simulation import Simulation
from rm_emulator.engine.workers import Workers
from rm_emulator.workload.model import PerTask, Workload, WorkloadJob
from schedulers.core.decisions import Send
from schedulers.core.errors import InvalidParameters
from schedulers.core.events import Delivered, Event
from schedulers.core.log import Log, SchedulerConfig
from schedulers.core.model import Job, Node, Queue, Stage
from schedulers.core.replay import CorruptLog, Replay
from schedulers.core.scheduler import Scheduler
from schedulers.decentralised.decider import Decentraliser, decider
from schedulers.decentralised.messages import LateBindingProbe
from schedulers.decentralised.settings import Probing

METHODS: tuple[Literal["random", "per_task", "batch", "late_binding"], ...] = (
    "random",
    "per_task",
    "batch",
    "late_binding",
)
Spec = tuple[int, list[list[int]]]  # when a job comes, and the run times of its stages, one after the other


def job(name: str, at: int, stages: list[list[int]], **more: Any) -> WorkloadJob:
    """A chain of stages of one-slot tasks."""
    made = tuple(
        Stage(name=f"s{n}", tasks=len(times), demand=(1,), parents=(n - 1,) if n else ())
        for n, times in enumerate(stages)
    )
    times = tuple(PerTask(tuple(each)) for each in stages)
    return WorkloadJob(job=Job(id=name, stages=made, **more), submit_ms=at, runtimes=times)


def jobs(specs: list[Spec]) -> list[WorkloadJob]:
    return [job(f"j{n:02d}", at, stages) for n, (at, stages) in enumerate(sorted(specs))]


def starts(kept: MemoryRecording) -> dict[tuple[str, int, int], int | None]:
    return {(task.job, task.stage, task.task): task.started_ms for task in kept.tasks}


class Run:
    """One workload under these settings, audited."""

    def __init__(
        self,
        workload: list[WorkloadJob],
        *,
        workers: int = 3,
        slots: int = 2,
        delay: int = 1,
        seed: int = 1,
        queues: tuple[Queue, ...] = (),
        audited: bool = True,
        **how: Any,
    ) -> None:
        self.lines = bytearray()
        chosen = Probing(**how)
        nodes = tuple(Node(id=f"w{n}", capacity=(slots,)) for n in range(workers))
        plain = msgspec.to_builtins(chosen)
        config = SchedulerConfig(resources=("slots",), policy={"kind": "fifo"}, seed=seed, decentralised=plain)
        log = Log(self.lines.extend)
        self.decider = Decentraliser(config, log=log)
        self.audit = DeciderAudit(self.decider)
        architecture = Decentralised(message_ms=delay, slots_per_worker=slots, **msgspec.structs.asdict(chosen))
        engine = EngineConfig(nodes=nodes, resources=("slots",), queues=queues, architecture=architecture)
        of = Workload(name="test", jobs=tuple(workload), resources=("slots",))
        kept = MemoryRecording()
        Simulation(engine, of, Workers(self.audit if audited else self.decider), kept, seed=seed).run()
        log.flush()
        self.tasks, self.rows, self.starts = kept.tasks, kept.jobs, starts(kept)

    def history(self) -> list[tuple[Event, list[Any]]]:
        return [(event, list(decisions)) for event, decisions in self.audit.history]


class Central:
    """The same on one queue that knows of every slot."""

    def __init__(self, workload: list[WorkloadJob], *, workers: int, slots: int) -> None:
        nodes = tuple(Node(id=f"w{n}", capacity=(slots,)) for n in range(workers))
        config = SchedulerConfig(resources=("slots",), policy={"kind": "fifo"}, offers="cycle")
        engine = EngineConfig(nodes=nodes, resources=("slots",), profile="events")
        of = Workload(name="test", jobs=tuple(workload), resources=("slots",))
        kept = MemoryRecording()
        Simulation(engine, of, Scheduler(config), kept).run()
        self.starts = starts(kept)


TIMES = st.lists(st.integers(1, 9), min_size=1, max_size=5)
SPECS = st.lists(st.tuples(st.integers(0, 12), st.lists(TIMES, min_size=1, max_size=2)), min_size=1, max_size=5)
SINGLE = st.lists(st.tuples(st.integers(0, 12), st.lists(TIMES, min_size=1, max_size=1)), min_size=1, max_size=6)
HOW = st.fixed_dictionaries(
    {
        "method": st.sampled_from(METHODS),
        "probe_ratio": st.sampled_from([1.0, 1.05, 2.0, 3.5]),
        "cancellation": st.booleans(),
        "worker_order": st.sampled_from(["fifo", "user_round_robin", "priority"]),
        "delay": st.integers(0, 3),
        "workers": st.integers(1, 4),
        "slots": st.integers(1, 3),
        "seed": st.integers(0, 9),
    }
)


@settings(max_examples=60)
@given(SPECS, HOW)
def test_every_task_runs_once_where_there_is_room_and_after_its_parents(specs: list[Spec], how: dict[str, Any]) -> None:
    Run(jobs(specs), **how).audit.drained()


@settings(max_examples=60)
@given(SPECS, HOW)
def test_every_message_is_delivered_once_and_one_delay_later(specs: list[Spec], how: dict[str, Any]) -> None:
    sent: Counter[tuple[int, Any]] = Counter()
    heard: Counter[tuple[int, Any]] = Counter()
    for event, decisions in Run(jobs(specs), **how).history():
        sent.update((event.at + how["delay"], each.message) for each in decisions if isinstance(each, Send))
        if isinstance(event, Delivered):
            heard[event.at, event.message] += 1
    assert sent == heard


@settings(max_examples=40)
@given(SPECS, HOW)
def test_a_log_replays_to_the_same_decisions(specs: list[Spec], how: dict[str, Any]) -> None:
    lines = bytes(Run(jobs(specs), **how).lines).splitlines(keepends=True)
    assert sum(len(step.decisions) for step in Replay(lines, decider)) > 0


def log_of_one_job() -> list[bytes]:
    return bytes(Run([job("a", 0, [[5] * 3])]).lines).splitlines(keepends=True)


def test_a_message_that_nobody_knows_is_told_with_its_line() -> None:
    lines = log_of_one_job()
    number = next(n for n, line in enumerate(lines, start=1) if b'"Delivered"' in line and b'"Request"' in line)
    lines[number - 1] = lines[number - 1].replace(b'"Request"', b'"Rumour"')
    said = f"line {number}: a fact that cannot be: a message that cannot be read: Invalid value 'Rumour'"
    with pytest.raises(CorruptLog, match=said):
        list(Replay(lines, decider))


def test_a_log_whose_header_names_settings_at_their_default_replays() -> None:
    header, *lines = log_of_one_job()
    assert b'"decentralised":{}' in header
    told = header.replace(b'"decentralised":{}', b'"decentralised":{"schedulers":1,"method":"late_binding"}')
    assert sum(len(step.decisions) for step in Replay([told, *lines], decider)) > 0


def test_a_log_whose_header_has_settings_that_are_not_there_is_refused() -> None:
    header, *lines = log_of_one_job()
    told = header.replace(b'"decentralised":{}', b'"decentralised":{"methods":"batch"}')
    with pytest.raises(InvalidParameters, match="decentralised: Object contains unknown field `methods`"):
        Replay([told, *lines], decider)


@settings(max_examples=40)
@given(SINGLE, st.sampled_from(METHODS), st.integers(0, 3))
def test_one_worker_is_a_queue_in_order(specs: list[Spec], method: str, delay: int) -> None:
    ran = Run(jobs(specs), workers=1, slots=1, delay=delay, method=method)
    order = sorted(ran.tasks, key=lambda task: task.started_ms or 0)
    assert [(task.job, task.task) for task in order] == sorted((task.job, task.task) for task in order)


@settings(max_examples=40)
@given(SINGLE, st.integers(1, 4), st.integers(1, 3))
def test_who_asks_every_worker_without_delay_is_one_queue_that_knows_all(
    specs: list[Spec], workers: int, slots: int
) -> None:
    ran = Run(jobs(specs), workers=workers, slots=slots, delay=0, probe_ratio=float(workers))
    assert ran.starts == Central(jobs(specs), workers=workers, slots=slots).starts


@settings(max_examples=40)
@given(st.lists(st.tuples(st.integers(0, 12), st.integers(1, 9)), min_size=1, max_size=8), st.integers(0, 9))
def test_one_probe_for_one_task_is_a_random_worker_whatever_the_method(specs: list[tuple[int, int]], seed: int) -> None:
    workload = jobs([(at, [[time]]) for at, time in specs])
    runs = [Run(workload, delay=0, probe_ratio=1.0, method=method, seed=seed).starts for method in METHODS]
    assert all(starts == runs[0] for starts in runs)


@settings(max_examples=20)
@given(SPECS, HOW, st.integers(2, 5))
def test_how_many_schedulers_there_are_does_not_matter(specs: list[Spec], how: dict[str, Any], number: int) -> None:
    assert Run(jobs(specs), **how).starts == Run(jobs(specs), schedulers=number, **how).starts


@pytest.mark.parametrize(("tasks", "ratio", "reserved"), [(2, 1.5, 3), (50, 1.1, 55), (14, 2.0, 28)])
def test_a_stage_is_reserved_for_as_often_as_its_tasks_times_the_ratio_rounded_up(
    tasks: int, ratio: float, reserved: int
) -> None:
    ran = Run([job("a", 0, [[5] * tasks])], workers=6, probe_ratio=ratio)
    sent = [each.message for _, decisions in ran.history() for each in decisions if isinstance(each, Send)]
    assert sum(len(message.workers) for message in sent if isinstance(message, LateBindingProbe)) == reserved


def test_jobs_go_to_the_next_scheduler_in_turn() -> None:
    ran = Run([job(name, 0, [[5]]) for name in "abcde"], schedulers=2)
    assert [tally.jobs for tally in ran.decider.tallies] == [3, 2]


def test_users_take_turns_at_a_worker() -> None:
    workload = [job("a", 0, [[5] * 4], user="ann"), job("b", 1, [[5] * 2], user="bob")]
    ran = Run(workload, workers=1, slots=1, delay=0, probe_ratio=1.0, worker_order="user_round_robin")
    assert [task.job for task in sorted(ran.tasks, key=lambda task: task.started_ms or 0)] == [
        "a",
        "a",
        "b",
        "a",
        "b",
        "a",
    ]


def test_the_queue_that_is_declared_first_goes_first_at_a_worker() -> None:
    workload = [job("low", 0, [[5] * 2], queue="low"), job("high", 1, [[5] * 2], queue="high")]
    queues = Queue(name="high"), Queue(name="low")
    ran = Run(workload, workers=1, slots=1, delay=0, probe_ratio=1.0, worker_order="priority", queues=queues)
    order = [task.job for task in sorted(ran.tasks, key=lambda task: task.started_ms or 0)]
    assert order == ["low", "high", "high", "low"]


def test_a_task_with_input_runs_only_where_that_is() -> None:
    stage = Stage(name="s", tasks=4, demand=(1,), hosts=(("w0",), ("w1", "w2"), (), ("w0",)))
    source = WorkloadJob(job=Job(id="a", stages=(stage,)), submit_ms=0, runtimes=(PerTask((5, 5, 5, 5)),))
    ran = Run([source], workers=6, slots=1, constraints=True)
    there = {task.task: task.node for task in ran.tasks}
    assert (there[0], there[3], there[1] in ("w1", "w2")) == ("w0", "w0", True)


def test_a_stage_follows_one_message_after_its_parents_end() -> None:
    ran = Run([job("a", 0, [[5], [7]])], delay=2)
    assert ran.starts["a", 0, 0] == 6  # reservation, request, task
    assert ran.starts["a", 1, 0] == 6 + 5 + 2 + 6


@pytest.mark.parametrize("method", METHODS)
def test_a_job_of_which_a_stage_fits_no_worker_is_given_up_and_all_else_goes_on(method: str) -> None:
    stages = Stage(name="fits", tasks=9, demand=(1,)), Stage(name="large", tasks=1, demand=(9,))
    large = Job(id="large", stages=stages)
    sources = [
        WorkloadJob(job=large, submit_ms=0, runtimes=(PerTask((5,) * 9), PerTask((5,)))),
        job("small", 1, [[5]]),
    ]
    ran = Run(sources, workers=2, slots=1, method=method, audited=False)
    assert {row.id: row.finish_ms is None for row in ran.rows} == {"large": True, "small": False}
    assert b"given up: stage large asks for 9 slots, more than any of the 2 nodes has in all" in ran.lines


def test_more_slots_than_tasks_fit_are_refused() -> None:
    sources = [WorkloadJob(job=Job(id="a", stages=(Stage(name="s", tasks=1, demand=(2,)),)), submit_ms=0,
                           runtimes=(PerTask((5,)),))]  # fmt: skip
    said = "2 slots per worker, but node 'w0' has room for 1 task of job 'a' stage 's'"
    with pytest.raises(ValueError, match=said):
        Run(sources, slots=2)
