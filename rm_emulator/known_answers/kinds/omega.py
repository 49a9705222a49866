"""Schedulers that take time to think (Omega and what it is compared with), played through by the engine itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from rm_emulator.engine.config import Central, EngineConfig, GiveUp, SharedState, Thinker, TwoLevel
from rm_emulator.engine.in_memory import run_in_memory
from rm_emulator.engine.multiple_schedulers import MultipleSchedulers, assign_jobs, first_container
from rm_emulator.engine.recording import MemoryRecording
from rm_emulator.known_answers.checks import Case, Checks, Unsupported, kind, only, values
from rm_emulator.workload.model import Fixed, Workload, WorkloadJob
from schedulers.core.log import SchedulerConfig
from schedulers.core.model import Job, Node, Stage
from schedulers.core.placer import Placer
from schedulers.core.registry import NoParams
from schedulers.core.resources import Vector
from schedulers.core.scheduler import Scheduler
from schedulers.core.state import NodeState

#: Parts of a unit of time, and of a cpu.
_UNIT: Final = 1000
_KEYS: Final = ("architecture", "machines", "schedulers", "single", "jobs", "retry", "give_up", "conflict", "commit")


class _Preferred(Placer):
    """The node that comes first in a list."""

    def __init__(self, order: Sequence[str]) -> None:
        super().__init__(NoParams())
        self._rank = {name: number for number, name in enumerate(order)}

    def pick(self, demand: Vector, nodes: Sequence[NodeState], capacity: Vector) -> NodeState:
        """See Placer.pick."""
        return min(nodes, key=lambda node: self._rank[node.spec.id])


@kind("omega_trace", (*_KEYS, "expect", "tol", "wall"))
def _omega_trace(case: Case) -> Checks:
    for scheduler in case["schedulers"].values():
        only(scheduler, ("t_job", "t_task", "order"), "setting of a scheduler")
    for job in case["jobs"]:
        only(job, ("id", "by", "at", "tasks", "cpu", "dur"), "key of a job")
    kept, end = _run(case)
    placed = {row.id for row in kept.jobs} - {each.job for each in kept.tries if each.given_up}
    conflicts = sum(1 for each in kept.tries if each.refused)
    submitted = {job["id"]: job["at"] for job in case["jobs"]}
    first: dict[str, int] = {}
    busy = dict.fromkeys(_schedulers(case), 0)
    for each in sorted(kept.tries, key=lambda each: each.began_ms):
        first.setdefault(each.job, each.began_ms)
        busy[each.scheduler] += each.ended_ms - each.began_ms
    ways = {
        "commits": lambda: [[each.ended_ms / _UNIT, each.job, each.placed, each.refused] for each in kept.tries],
        "conflicts": lambda: conflicts,
        "conflict_fraction": lambda: conflicts / len(placed),
        "busy": lambda: {name: ms / _UNIT for name, ms in busy.items()},
        "busyness": lambda: {name: ms / _UNIT / case["wall"] for name, ms in busy.items()},
        "waits": lambda: {name: ms / _UNIT - submitted[name] for name, ms in first.items()},
        "end": lambda: end / _UNIT,
        "abandoned": lambda: [each.job for each in kept.tries if each.given_up],
    }
    yield from values(case["expect"], ways, tolerance=case.get("tol", 0.0))


def _run(case: Case) -> tuple[MemoryRecording, int]:
    """What was tried, the jobs, and the end of the last task or attempt."""
    machines = tuple(Node(id=name, capacity=(_whole(cpu),)) for name, cpu in case["machines"].items())
    jobs = tuple(sorted((_job(job) for job in case["jobs"]), key=lambda source: source.submit_ms))
    settings, thinkers = _architecture(case)
    cluster = EngineConfig(nodes=machines, resources=("cpu",), profile="events", architecture=settings)
    deciders = [
        _decider(number, case["schedulers"].get(thinker.name, {}).get("order", list(case["machines"])))
        for number, thinker in enumerate(thinkers)
    ]
    workload = Workload(name="case", jobs=jobs, resources=("cpu",))
    simulation, kept = run_in_memory(cluster, workload, MultipleSchedulers(deciders, assign_jobs(jobs, thinkers)))
    return kept, simulation.calendar.now


def _decider(number: int, order: Sequence[str]) -> Scheduler:
    first = first_container(number)
    config = SchedulerConfig(resources=("cpu",), policy={"kind": "requeue"}, offers="thought", first_container=first)
    scheduler = Scheduler(config)
    scheduler.placer = _Preferred(order)
    return scheduler


def _schedulers(case: Case) -> list[str]:
    return ["all"] if case["architecture"].startswith("monolithic") else list(case["schedulers"])


def _architecture(case: Case) -> tuple[Central | TwoLevel | SharedState, tuple[Thinker, ...]]:
    """The architecture's settings and its schedulers. A job's scheduler is its user."""
    kind = case["architecture"]
    none_placed, attempts = case.get("give_up", (100, 1000))
    give_up = GiveUp(none_placed=none_placed, attempts=attempts)
    common: dict[str, Any] = {"retry_ms": _whole(case.get("retry", 1)), "give_up": give_up}
    each = tuple(_thinker(name, times) for name, times in case["schedulers"].items())
    if kind in ("monolithic_single", "monolithic_multi"):
        paths = (_thinker("", case["single"], everybody=True),) if kind == "monolithic_single" else each
        return Central(paths=paths, **common), (Thinker(name="all"),)
    if kind == "two_level":
        return TwoLevel(schedulers=each, **common), each
    if kind != "shared_state":
        raise Unsupported(f"architecture {kind} is not supported")
    return SharedState(schedulers=each, conflict=case["conflict"], commit=case["commit"], **common), each


def _thinker(name: str, times: Mapping[str, Any], *, everybody: bool = False) -> Thinker:
    return Thinker(
        name=name,
        users=() if everybody else (name,),
        t_job_ms=_whole(times["t_job"]),
        t_task_ms=_whole(times["t_task"]),
    )


def _job(job: Mapping[str, Any]) -> WorkloadJob:
    stage = Stage(name="tasks", tasks=job["tasks"], demand=(_whole(job["cpu"]),))
    spec = Job(id=job["id"], stages=(stage,), user=job["by"])
    return WorkloadJob(job=spec, submit_ms=_whole(job["at"]), runtimes=(Fixed(_whole(job["dur"])),))


def _whole(value: float) -> int:
    """In thousandths. Raises Unsupported where that is not exact."""
    parts = round(value * _UNIT)
    if abs(parts - value * _UNIT) > 1e-6:
        raise Unsupported(f"{value} is not a whole number of thousandths")
    return parts
