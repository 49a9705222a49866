"""Sparrow's ways to choose workers, beside one queue that knows every slot: response times, waits, messages.

    python -m studies.sparrow

Tasks take 200 ms on average and a message 1 ms: the ratio of 100 ms to 0.5 ms, in whole ms.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Final

import msgspec
import numpy as np
import typer

from rm_emulator.engine.config import Decentralised, EngineConfig
from rm_emulator.engine.control import OneScheduler
from rm_emulator.engine.played import played
from rm_emulator.engine.workers import Workers
from rm_emulator.known_answers.zero_wait import zero_wait
from rm_emulator.program import end
from rm_emulator.results.statistics import student_t
from rm_emulator.workload.model import Drawn, Workload, WorkloadJob
from schedulers.core import keyed
from schedulers.core.log import SchedulerConfig
from schedulers.core.model import Job, Node, Stage
from schedulers.core.scheduler import Scheduler
from schedulers.decentralised.decider import Decentraliser
from schedulers.decentralised.settings import Probing
from studies.tables import table

#: One queue that knows every slot, and needs no messages.
IDEAL: Final = "ideal"
METHODS: Final = ("random", "per_task", "batch", "late_binding", IDEAL)
LOADS: Final = (0.5, 0.7, 0.8, 0.9, 0.95)
MEAN_MS: Final = 200
#: The first part of the jobs meets a cluster that is still filling, and does not count.
WARM: Final = 0.25
#: Of the table of waits: 10 tasks per job on workers of one slot, half of them busy.
ZERO_WAIT_LOAD: Final = 0.5
ZERO_WAIT_TASKS: Final = 10


class Size(msgspec.Struct, frozen=True, kw_only=True):
    """How large a run is. delay: of a message, ms."""

    workers: int
    slots: int
    jobs: int
    tasks: int
    delay: int = 1


RESPONSES: Final = Size(workers=400, slots=4, jobs=400, tasks=50)
WAITS: Final = Size(workers=2000, slots=1, jobs=2500, tasks=ZERO_WAIT_TASKS, delay=0)


class Ran:
    """One run. jcts: of the jobs that count, ms. at_once: part of them of which no task waited. messages: per task."""

    def __init__(self, method: str, load: float, size: Size, seed: int) -> None:
        config = SchedulerConfig(resources=("slots",), policy={"kind": "fifo"}, offers="cycle", seed=seed)
        nodes = tuple(Node(id=f"w{number:05d}", capacity=(size.slots,)) for number in range(size.workers))
        engine = EngineConfig(nodes=nodes, resources=("slots",), profile="events")
        control: OneScheduler | Workers
        who: Decentraliser | None = None
        if method == IDEAL:
            control = OneScheduler(Scheduler(config))
        else:
            settings = Probing(method=method)  # type: ignore[arg-type]
            architecture = Decentralised(message_ms=size.delay, **msgspec.structs.asdict(settings))
            engine = msgspec.structs.replace(engine, architecture=architecture)
            who = Decentraliser(msgspec.structs.replace(config, decentralised=msgspec.to_builtins(settings)))
            control = Workers(who)
        kept = played(engine, _workload(load, size, seed), control, seed=seed).kept
        counted = sorted(kept.jobs, key=lambda row: row.submit_ms)[int(WARM * size.jobs) :]
        self.jcts = [row.finish_ms - row.submit_ms for row in counted if row.finish_ms is not None]
        last: dict[str, int] = {}
        for attempt in kept.tasks:
            assert attempt.started_ms is not None
            last[attempt.job] = max(last.get(attempt.job, 0), attempt.started_ms)
        self.at_once = fmean(last[row.id] == row.submit_ms for row in counted)
        sent = sum(tally.messages for tally in who.tallies) if who is not None else 0
        self.messages = sent / (size.jobs * size.tasks)


def _workload(load: float, size: Size, seed: int) -> Workload:
    """Jobs of equal width that come at random; run times of tasks are exponential."""
    gap = size.tasks * MEAN_MS / (size.workers * size.slots * load)
    draw = keyed.generator(seed, "sparrow", "arrivals")
    stage = Stage(name="run", tasks=size.tasks, demand=(1,))
    times = Drawn(mean_ms=MEAN_MS, kind="exponential")
    return Workload(
        name="sparrow",
        resources=("slots",),
        jobs=tuple(
            WorkloadJob(job=Job(id=f"j{number:06d}", stages=(stage,)), submit_ms=int(at), runtimes=(times,))
            for number, at in enumerate(np.cumsum(draw.exponential(gap, size.jobs)))
        ),
    )


def responses(
    size: Size = RESPONSES, loads: Sequence[float] = LOADS, seeds: Sequence[int] = (1, 2)
) -> dict[tuple[str, float], list[Ran]]:
    """Runs by method and load, one per seed."""
    return {(method, load): [Ran(method, load, size, seed) for seed in seeds] for method in METHODS for load in loads}


def waits(size: Size = WAITS, seeds: Sequence[int] = (1, 2, 3, 4)) -> dict[str, list[Ran]]:
    """Runs by method in which workers have one slot and messages take no time."""
    return {method: [Ran(method, ZERO_WAIT_LOAD, size, seed) for seed in seeds] for method in METHODS[:-1]}


def response_table(found: Mapping[tuple[str, float], Sequence[Ran]], quantile: float | None = None) -> str:
    """A row per method, a column per load. quantile: of the jobs of all seeds; None: the mean of the seeds' means."""
    loads = list(dict.fromkeys(load for _, load in found))
    rows = []
    for method in METHODS:
        cells = []
        for load in loads:
            each = [ran.jcts for ran in found[method, load]]
            value = fmean(map(fmean, each)) if quantile is None else float(np.quantile(np.concatenate(each), quantile))
            cells.append(f"{value:.0f}")
        rows.append([method, *cells])
    return table(("method", *(f"load {load:g}" for load in loads)), rows)


def message_table(found: Mapping[tuple[str, float], Sequence[Ran]], load: float) -> str:
    """Messages per task at one load, and how far the mean response time is above the ideal one."""
    ideal = fmean(map(fmean, (ran.jcts for ran in found[IDEAL, load])))
    rows = []
    for method in METHODS:
        each = found[method, load]
        above = 100 * (fmean(fmean(ran.jcts) for ran in each) / ideal - 1)
        rows.append([method, f"{fmean(ran.messages for ran in each):.2f}", f"{above:.1f} %"])
    return table(("method", "messages per task", f"mean response above ideal, load {load:g}"), rows)


def wait_table(found: Mapping[str, Sequence[Ran]]) -> str:
    """The part of jobs of which no task waits, with its interval over the seeds, beside the formula."""
    rows = []
    for method, runs in found.items():
        parts = [ran.at_once for ran in runs]
        low, high = student_t(parts)
        formula = "batch" if method == "late_binding" else method
        expected = zero_wait(formula, ZERO_WAIT_LOAD, ZERO_WAIT_TASKS, 2.0)
        inside = "yes" if low <= expected <= high else "no"
        rows.append([method, f"{fmean(parts):.4f} [{max(low, 0):.4f}, {high:.4f}]", f"{expected:.4f}", inside])
    return table(("method", "no task waits", "formula", "inside"), rows)


def tables() -> dict[str, str]:
    """Sparrow's tables by the names that the page of results has for them."""
    found = responses()
    return {
        "sparrow_means": response_table(found),
        "sparrow_p99": response_table(found, 0.99),
        "sparrow_messages": message_table(found, 0.8),
        "sparrow_waits": wait_table(waits()),
    }


def main() -> None:
    """Print the tables."""
    for name, made in tables().items():
        typer.echo(f"{name}\n\n{made}\n")


if __name__ == "__main__":
    end(lambda: typer.run(main))
