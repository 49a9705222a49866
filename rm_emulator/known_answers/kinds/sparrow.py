"""Sparrow's workers, schedulers and messages, through `schedulers.decentralised` and the engine."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any, Final

import msgspec

from rm_emulator.engine.config import Decentralised as Messages
from rm_emulator.engine.config import EngineConfig
from rm_emulator.engine.in_memory import run_in_memory
from rm_emulator.engine.recording import Attempt
from rm_emulator.engine.workers import Workers
from rm_emulator.known_answers.checks import Case, Check, Checks, Unsupported, kind, only, values
from rm_emulator.known_answers.zero_wait import zero_wait, zero_wait_among
from rm_emulator.workload.model import PerTask, Workload, WorkloadJob
from schedulers.core.decisions import Decision
from schedulers.core.log import SchedulerConfig
from schedulers.core.model import Job, Node, Stage
from schedulers.core.state import JobState, StageState
from schedulers.decentralised.decider import Decentraliser
from schedulers.decentralised.messages import Launch
from schedulers.decentralised.queues import QUEUES, QueueItem
from schedulers.decentralised.sampling import Sampling
from schedulers.decentralised.settings import Probing

#: Job of the tasks that are at a worker at time 0.
_THERE: Final = "at the start: "
#: Times are whole ms: one unit of a case is divided so often.
_UNIT: Final = 1000


@kind("sparrow_zero_wait", {"policy", "load", "tasks", "probe_ratio", "workers", "busy", "expect", "tol"})
def sparrow_zero_wait(case: Case) -> Checks:
    """The formulas that the charts of response times show."""
    ratio = case.get("probe_ratio", 1)
    if "workers" in case:
        got = zero_wait_among(case["workers"], case["busy"], case["tasks"], ratio)
    else:
        got = zero_wait(case["policy"], case["load"], case["tasks"], ratio)
    yield Check("", case["expect"], got, case.get("tol", 0))


@kind("sparrow_reservations", {"tasks", "probe_ratio", "workers", "expect"})
def sparrow_reservations(case: Case) -> Checks:
    """Probes of one job on idle workers: how many are drawn, on how many workers, and the messages that follow."""
    names = [f"w{number}" for number in range(case["workers"])]
    drawn = Sampling(1).together("job", 0, case["tasks"], names, float(case["probe_ratio"]))
    counts = [drawn.count(name) for name in names]
    expected = dict(case["expect"])
    messages = expected.pop("messages", {})
    ways: dict[str, Callable[[], Any]] = {
        "reservations": lambda: len(drawn),
        "workers_probed": lambda: sum(map(bool, counts)),
        "least": lambda: min(counts),
        "most": lambda: max(counts),
    }
    yield from values(expected, ways)
    sent: dict[str, Callable[[], Any]] = {
        "sampling": lambda: _messages(case, names, "batch"),
        "late_binding_without_cancellation": lambda: _messages(case, names, "late_binding"),
    }
    yield from values(messages, sent, under="messages/")


def _messages(case: Case, names: list[str], method: str) -> int:
    """How many messages one job takes in all, without cancellation."""
    jobs = [{"id": "job", "at": 0, "tasks": [1] * case["tasks"]}]
    played = _Played(
        {"policy": method, "workers": names, "cancellation": False, "jobs": jobs}, ratio=float(case["probe_ratio"])
    )
    return sum(tally.messages for tally in played.decider.tallies)


@kind("sparrow_worker_queue", {"queue", "reservations", "no_task", "expect"})
def sparrow_worker_queue(case: Case) -> Checks:
    """One slot that is freed again and again."""
    queue = QUEUES["user_round_robin" if case["queue"] == "round_robin" else case["queue"]]()
    for group, request in case["reservations"]:
        queue.put(QueueItem(group, request, 0))
    in_vain, launches = set(case.get("no_task", ())), []
    entry = queue.take()
    while entry is not None:
        if entry.job in in_vain:
            entry = queue.take_after(entry)
        else:
            launches.append(entry.job)
            entry = queue.take()
    yield from values(case["expect"], {"launches": lambda: launches})


@kind("sparrow_trace", {"policy", "workers", "slots", "delay", "initial", "cancellation", "jobs", "expect", "tol"})
def sparrow_trace(case: Case) -> Checks:
    """A small cluster played through by the engine. slots: of each worker that does not name its own; 1 if left out."""
    played = _Played(case)
    ways: dict[str, Callable[[], Any]] = {
        "starts": lambda: played.by_task(case["expect"]["starts"], lambda task: _units(task.started_ms)),
        "workers": lambda: played.by_task(case["expect"]["workers"], lambda task: task.node),
        "finish": lambda: {row.id: _units(row.finish_ms) for row in played.rows if row.id in case["expect"]["finish"]},
        "requests": lambda: played.decider.requests,
        "no_task": lambda: played.decider.no_tasks,
        "cancelled": lambda: played.decider.cancelled,
    }
    yield from values(case["expect"], ways, tolerance=case.get("tol", 0))


def _units(ms: int | None) -> float | None:
    return None if ms is None else ms / _UNIT


def _ms(units: Any) -> int:
    ms = Fraction(str(units)) * _UNIT
    if ms.denominator != 1:
        raise Unsupported(f"a time of {units}, of which a thousandth is not a whole number")
    return int(ms)


class _Given(Sampling):
    """Workers as a case lists them; drawn where it lists none."""

    def __init__(self, jobs: Mapping[str, Mapping[str, Any]]) -> None:
        super().__init__(1)
        given = {name: [_listed(each) for each in job["probes"]] for name, job in jobs.items() if "probes" in job}
        self._apart = given
        # What is listed for each task holds for those too that are bound to no worker.
        bound = {name for name, job in jobs.items() if any(isinstance(task, Mapping) for task in job["tasks"])}
        self._together = {
            name: [] if name in bound else [worker for each in listed for worker in each]
            for name, listed in given.items()
        }

    def together(self, job: str, stage: int, tasks: int, eligible: Sequence[str], ratio: float) -> list[str]:
        """See Sampling."""
        given = self._together.get(job)
        return super().together(job, stage, tasks, eligible, ratio) if given is None else given

    def apart(self, job: str, stage: int, eligible: Sequence[Sequence[str]], number: int) -> list[list[str]]:
        """See Sampling."""
        given = self._apart.get(job)
        return super().apart(job, stage, eligible, number) if given is None else given


def _listed(workers: str | Sequence[str]) -> list[str]:
    return [workers] if isinstance(workers, str) else list(workers)


class _Decider(Decentraliser):
    """What is at a worker at the start comes to it without a message."""

    def _search_workers(
        self, job: JobState, stage: StageState, tasks: Sequence[int], decisions: list[Decision], *, again: bool = False
    ) -> None:
        if not job.id.startswith(_THERE):
            super()._search_workers(job, stage, tasks, decisions, again=again)
            return
        for task in range(stage.tasks):
            self._launched(Launch(job.id, stage.index, 0, job.id.removeprefix(_THERE), task), decisions)


class _Played:
    """A case, run to its end. decider: who decided; rows: of its jobs, in the order in which they ended."""

    def __init__(self, case: Case, ratio: float = 2.0) -> None:
        jobs = {job["id"]: job for job in case["jobs"]}
        settings = Probing(
            method=case["policy"],
            probe_ratio=ratio,
            constraints=True,
            cancellation=case.get("cancellation", True),
        )
        config = SchedulerConfig(
            resources=("slots",), policy={"kind": "fifo"}, decentralised=msgspec.to_builtins(settings)
        )
        self.decider = _Decider(config, sampling=_Given(jobs))
        engine = EngineConfig(
            nodes=tuple(Node(id=name, capacity=(slots,)) for name, slots in _workers(case)),
            resources=("slots",),
            architecture=Messages(message_ms=_ms(case.get("delay", 0)), **msgspec.structs.asdict(settings)),
        )
        there = [_job(_THERE + name, 0, tasks) for name, tasks in case.get("initial", {}).items()]
        coming = [_job(name, _ms(job["at"]), job["tasks"]) for name, job in jobs.items()]
        coming.sort(key=lambda job: job.submit_ms)
        workload = Workload(name="case", jobs=(*there, *coming), resources=("slots",))
        kept = run_in_memory(engine, workload, Workers(self.decider)).recording
        self.rows = kept.jobs
        self._tasks = {(attempt.job, attempt.task): attempt for attempt in kept.tasks}

    def by_task(self, jobs: Mapping[str, Sequence[Any]], what: Callable[[Attempt], Any]) -> dict[str, list[Any]]:
        """Of each task of these jobs, by index."""
        return {job: [what(self._tasks[job, task]) for task in range(len(tasks))] for job, tasks in jobs.items()}


def _workers(case: Case) -> Iterator[tuple[str, int]]:
    """Names with slots: a list of names, or by name."""
    given, plain = case["workers"], int(case.get("slots", 1))
    for name in given:
        about: Mapping[str, int] = given[name] if isinstance(given, Mapping) else {}
        only(about, {"slots"}, f"worker '{name}': key")
        yield name, about.get("slots", plain)


def _job(name: str, at: int, tasks: Sequence[Any]) -> WorkloadJob:
    about = [task if isinstance(task, Mapping) else {"dur": task} for task in tasks]
    for task in about:
        only(task, {"dur", "allowed"}, f"task of job '{name}': key")
    hosts = tuple(tuple(task.get("allowed", ())) for task in about)
    stage = Stage(name="run", tasks=len(about), demand=(1,), hosts=hosts if any(hosts) else ())
    times = PerTask(tuple(_ms(task["dur"]) for task in about))
    return WorkloadJob(job=Job(id=name, stages=(stage,)), submit_ms=at, runtimes=(times,))
