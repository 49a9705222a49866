"""Group `planning`, and a row of `policies`: how long the offline plan of one DAG takes, and how good it is.

On unlike machines the reference is SAGA (ANRGUSC/saga, `anrg-saga` 2.0.2), which is no dependency: what it took for the
same DAG was measured once, by `studies/beside_saga.py`. So there is no ratio, and targets are of values.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from statistics import median
from typing import Final

from benchmarks.reference import quiet
from benchmarks.rows import Row, benchmark
from benchmarks.setups import lachesis_batch, run
from rm_emulator.workload import dags, lachesis
from schedulers.core import keyed
from schedulers.core.model import Stage
from schedulers.planning.dags import lists
from schedulers.planning.dags.schedule import Plan
from schedulers.planning.graphene.construction import build_schedule
from schedulers.planning.unrelated.deft import choose
from schedulers.planning.unrelated.heft import heft
from schedulers.planning.unrelated.instance import Instance
from schedulers.planning.unrelated.ranks import ranks_up
from schedulers.planning.unrelated.timelines import Timelines

_CAPACITY: Final = (16_000, 65_536)
#: Parents are at most so many stages back, so that the DAG is deep as well as wide.
_BACK: Final = 20


@benchmark("build_schedule_10000", "policies")
def build_schedule_10000(tiny: bool) -> Iterator[Row]:
    """Graphene's BuildSchedule with its usual budget on a DAG of 10,000 tasks."""
    yield _planned("build_schedule_10000", dag(2, 200) if tiny else dag(100, 10_000), 100, "<= 10")


@benchmark("build_schedule", "planning")
def build_schedule_rows(tiny: bool) -> Iterator[Row]:
    """The same on DAGs of 10,000 stages and of 100,000 tasks."""
    yield _planned("build_schedule/10k_stages", dag(200, 200) if tiny else dag(10_000, 10_000), 100, "<= 10")
    yield _planned("build_schedule/100k_tasks", dag(20, 2_000) if tiny else dag(1000, 100_000), 1000, None)


#: CPU time in ms of SAGA's HEFT for the DAG of `heft_200x50`, the least of three on a shared core.
_SAGA_HEFT_MS: Final = 870.0


@benchmark("heft_200x50", "planning")
def heft_200x50(tiny: bool) -> Iterator[Row]:
    """HEFT on a DAG of 200 tasks for 50 machines of unlike speed."""
    made = _unlike(tiny)
    taken = min(_ms(partial(heft, made)) for _ in range(1 if tiny else 20))
    yield Row(
        name="heft_200x50",
        value=taken,
        unit="ms",
        reference=_SAGA_HEFT_MS,
        target="<= 20",
        note=f"{made.tasks} tasks, {len(made.edges)} edges, {made.machines} machines, CPU time, the least of 20; "
        "reference: SAGA's HEFT on the same DAG, measured once",
    )


@benchmark("deft_decision", "planning")
def deft_decision(tiny: bool) -> Iterator[Row]:
    """DEFT's choice of a machine and of a copy for one task, all 50 machines looked at."""
    made = _unlike(tiny)
    lines, took = Timelines(made), []
    for task in made.by_priority(ranks_up(made, "speeds")):
        begun = time.process_time()
        choice = choose(lines, task)
        if choice.parent is not None:
            lines.place(choice.parent, choice.machine, choice.copy_start)
        lines.place(task, choice.machine, choice.start)
        took.append(1000 * (time.process_time() - begun))
    took.sort()
    yield Row(
        name="deft_decision",
        value=took[int(0.98 * len(took))],
        unit="ms",
        target="<= 1",
        note=f"98th percentile of {len(took)} decisions, CPU time, {made.machines} machines; "
        f"median {median(took):.3f} ms",
    )


@benchmark("lachesis_workload", "planning")
def lachesis_workload(tiny: bool) -> Iterator[Row]:
    """LACHESIS's batch emulated under each of its orders with DEFT, and under HEFT's plans."""
    jobs = 2 if tiny else 20
    for name in ("fifo", "sjf", "hrrn", "rank_up", "rank_down", "planned"):
        with quiet():
            ran = run(lachesis_batch({"kind": name}, jobs))
        yield Row(
            name=f"lachesis_workload/{name}",
            value=1000 * ran.cpu_s / ran.tasks,
            unit="ms",
            note=f"CPU time a task, {ran.tasks} tasks of {jobs} jobs on 50 executors; makespan {ran.sim_s:.0f} s",
        )


def _unlike(tiny: bool) -> Instance:
    """A random DAG of the HEFT literature for machines of LACHESIS's speeds; CCR 1."""
    tasks, machines = (10, 3) if tiny else (200, 50)
    made = dags.dag(dags.Shape(tasks=tasks, mean_ms=10_000), lachesis.speeds(machines, seed=1), seed=1)
    return Instance(made.times, made.edges, made.rate / 1000)


def _ms(plan: Callable[[], object]) -> float:
    """CPU time in ms."""
    with quiet():
        begun = time.process_time()
        plan()
        return 1000 * (time.process_time() - begun)


def _planned(name: str, made: tuple[tuple[Stage, ...], list[int]], machines: int, target: str | None) -> Row:
    """A plan of one DAG beside a list schedule of it."""
    plan, taken = _timed(partial(build_schedule, *made, _CAPACITY, machines))
    other, bare = _timed(partial(lists.cp, *made, _CAPACITY, machines))
    return Row(
        name=name,
        value=taken,
        unit="s",
        reference=bare,
        target=target,
        note=(
            f"{len(made[0])} stages, {len(plan.order)} tasks, {machines} machines; ended: {plan.ended}; makespan "
            f"{plan.makespan / plan.bound:.3f} of the lower bound; reference: a critical-path list schedule, "
            f"{other.makespan / other.bound:.3f} of it"
        ),
    )


def dag(stages: int, tasks: int, seed: int = 1) -> tuple[tuple[Stage, ...], list[int]]:
    """Stages with about so many tasks in all, and their run times in ms; widths and run times vary lognormally."""
    draw = keyed.generator(seed, "bench", "planning", stages)
    widths = draw.lognormal(0, 1, stages)
    made = []
    for s, width in enumerate((widths * tasks / widths.sum()).tolist()):
        before = range(max(0, s - _BACK), s)
        chosen = draw.integers(before.start, s, int(draw.integers(0, 3))).tolist() if s else []
        made.append(
            Stage(
                name=f"s{s}",
                tasks=max(1, round(width)),
                demand=(500 * int(draw.integers(1, 9)), 1024 * int(draw.integers(1, 17))),
                parents=tuple(sorted(set(chosen))),
            )
        )
    return tuple(made), [max(1, round(ms)) for ms in draw.lognormal(9, 1, stages).tolist()]


def _timed(plan: Callable[[], Plan]) -> tuple[Plan, float]:
    """A plan and the CPU seconds it took."""
    with quiet():
        begun = time.process_time()
        made = plan()
        return made, time.process_time() - begun
