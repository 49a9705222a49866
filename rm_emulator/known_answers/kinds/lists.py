"""Schedules of small DAGs and job lists, through the real engine in profile `events` where there is a policy for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any, Final

from rm_emulator.engine.config import EngineConfig
from rm_emulator.engine.in_memory import run_in_memory
from rm_emulator.known_answers.checks import ABOUT, Case, Check, Checks, Skip, kind
from rm_emulator.known_answers.exact import shortest_makespan
from rm_emulator.workload.model import Fixed, Workload, WorkloadJob
from schedulers.core.log import SchedulerConfig
from schedulers.core.model import Job, Node, Stage
from schedulers.core.scheduler import Scheduler

_UNIT_MS: Final = 1000
_SINGLE: Final[dict[str, tuple[dict[str, Any], dict[str, Any] | None]]] = {
    "FIFO": ({"kind": "fifo"}, None),
    "SJF": ({"kind": "sjf"}, {"kind": "oracle"}),
}
#: Response ratios of what has waited and what it takes. LACHESIS' orders exactly as the textbook's does.
_RATIOS: Final[dict[str, Callable[[int, int], Fraction]]] = {
    "HRRN": lambda wait, service: Fraction(wait + service, service),
    "HRRN_lachesis_ratio": lambda wait, service: Fraction(wait, wait + service),
}


@kind("single_machine_nonpreemptive", {"arrival_service", "expected"})
def single_machine(case: Case) -> Checks:
    """Jobs of one task on a machine that runs one at a time; finish times and mean turnaround by rule."""
    jobs = case["arrival_service"]
    for rule, expected in case["expected"].items():
        if rule not in _SINGLE and rule not in _RATIOS:
            yield Skip(rule, f"rule {rule} is not supported")
            continue
        strange = next((key for key in expected if key not in {"finish", "mean_turnaround"}), None)
        if strange is not None:
            yield Skip(rule, f"expectation '{strange}' is not supported")
            continue
        finish = _by_policy(jobs, *_SINGLE[rule]) if rule in _SINGLE else _by_ratio(jobs, _RATIOS[rule])
        mean = sum(end - arrival for end, (arrival, _) in zip(finish, jobs, strict=True)) / len(jobs)
        got = {"finish": finish, "mean_turnaround": mean}
        yield Check(rule, expected, {key: got[key] for key in expected}, tolerance=1e-9)


def _by_policy(jobs: Sequence[Sequence[int]], policy: dict[str, Any], predictor: dict[str, Any] | None) -> list[int]:
    work = [
        WorkloadJob(
            job=Job(id=f"{i:03d}", stages=(Stage(name="run", tasks=1, demand=(1,)),)),
            submit_ms=arrival * _UNIT_MS,
            runtimes=(Fixed(service * _UNIT_MS),),
        )
        for i, (arrival, service) in enumerate(jobs)
    ]
    return _finish(work, 1, policy, predictor)


def _by_ratio(jobs: Sequence[Sequence[int]], ratio: Callable[[int, int], Fraction]) -> list[int]:
    """The machine takes the job there with the highest ratio, ties to the first. No policy does this."""
    now, finish, waiting = 0, [0] * len(jobs), dict(enumerate(jobs))
    while waiting:
        now = max(now, min(arrival for arrival, _ in waiting.values()))
        ratios = {i: ratio(now - arrival, service) for i, (arrival, service) in waiting.items() if arrival <= now}
        chosen = max(ratios, key=lambda i: (ratios[i], -i))
        now += waiting.pop(chosen)[1]
        finish[chosen] = now
    return finish


@kind("homogeneous_list_no_comm", {"tasks", "exec", "edges", "list_order", "variants"})
def list_schedule(case: Case) -> Checks:
    """Graham's list scheduling: whenever a processor is free it takes the first task of the list that is ready."""
    order: Sequence[int] = case["list_order"]
    for variant in case["variants"]:
        name = variant["variant"]
        known = ABOUT | {"variant", "exec", "edges", "processors", "list_schedule", "optimal"}
        strange = next((key for key in variant if key not in known), None)
        if strange is not None:
            yield Skip(name, f"key '{strange}' is not supported")
            continue
        yield Check(f"{name}/list_schedule", variant["list_schedule"], _makespan(variant, order))
        if "optimal" in variant:
            yield Check(f"{name}/optimal", variant["optimal"], _shortest(variant, order))


def _makespan(variant: Mapping[str, Any], order: Sequence[int]) -> int:
    runtimes = tuple(Fixed(variant["exec"][task] * _UNIT_MS) for task in order)
    job = WorkloadJob(job=Job(id="dag", stages=_stages(variant, order)), submit_ms=0, runtimes=runtimes)
    return _finish([job], variant["processors"], {"kind": "fifo"}, None)[0]


def _shortest(variant: Mapping[str, Any], order: Sequence[int]) -> int:
    return shortest_makespan(
        _stages(variant, order), [variant["exec"][task] for task in order], (1,), variant["processors"]
    )


def _stages(variant: Mapping[str, Any], order: Sequence[int]) -> tuple[Stage, ...]:
    """A stage per task, in the order of the list."""
    position = {task: i for i, task in enumerate(order)}
    parents: dict[int, list[int]] = {task: [] for task in order}
    for source, target, _ in variant["edges"]:
        parents[target].append(position[source])
    return tuple(
        Stage(name=f"task{task}", tasks=1, demand=(1,), parents=tuple(sorted(parents[task]))) for task in order
    )


def _finish(
    jobs: Sequence[WorkloadJob], slots: int, policy: dict[str, Any], predictor: dict[str, Any] | None
) -> list[int]:
    """When each job ends, in units, on `slots` machines of one slot."""
    nodes = tuple(Node(id=f"m{i}", capacity=(1,)) for i in range(slots))
    cluster = EngineConfig(nodes=nodes, resources=("slot",), profile="events")
    workload = Workload(name="case", jobs=tuple(jobs), resources=("slot",))
    config = SchedulerConfig(resources=("slot",), policy=policy, predictor=predictor, offers="cycle")
    kept = run_in_memory(cluster, workload, Scheduler(config), oracle=predictor is not None).recording
    ends = {row.id: row.finish_ms for row in kept.jobs if row.finish_ms is not None}
    return [ends[job.job.id] // _UNIT_MS for job in jobs]
