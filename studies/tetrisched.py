"""TetriSched's tables: deadlines met beside its ablations and guaranteed queues, by how wrong estimates are.

`make tables` runs it. Runs are kept under OUT; docs/results-wishes.md is written from its template.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Annotated, Any, Final

import msgspec
import numpy as np
import polars as pl
import typer

from rm_emulator import api
from rm_emulator.files import write_file
from rm_emulator.program import end
from rm_emulator.workload.model import Drawn, PerNode, RunTimes, Workload, WorkloadJob
from schedulers.core import keyed
from schedulers.core.decisions import Decision
from schedulers.core.events import Event, Tick
from schedulers.core.model import Job, Stage, Wish, Wishes
from schedulers.core.scheduler import Scheduler
from studies.jockey import DUE, OTHERS, REST, said
from studies.kept import measured
from studies.steady import marked, quarters, warm_up
from studies.tables import document, filled, over_seeds, table

NAME: Final = "results-wishes"
#: Racks of nodes with room for one task each; the first of them have GPUs.
RACKS, GPU_RACKS = 8, 2
#: Nodes of the usual cluster, and of the paper's RC256.
USUAL, LARGE = 64, 256
#: Relative errors of all estimates.
ERRORS: Final = (-0.5, -0.2, 0.0, 0.2, 0.5, 1.0)
#: Jobs of a seed on the usual cluster, the first of which do not count, and the mean time between two. A larger cluster
#: has as many times more jobs.
JOBS: Final = 200
_APART_S: Final = 9.0
#: How many times as long tasks take on nodes that are not those that their job would like.
_SLOWER: Final = 1.5
#: Times over what a job takes at best that it has until its deadline.
_FACTORS: Final = (1.5, 4.0)
#: The period between plans.
_CYCLE_MS: Final = 4000
BASELINE: Final = "tetrisched"
#: A monitor that takes all that is wanted after three seconds, where Hadoop waits fifteen and takes a fifth of it.
_FAST: Final = {
    "enabled": True,
    "max_wait_before_kill_ms": 3000,
    "total_per_round": 1.0,
    "natural_termination_factor": 1.0,
}
_RAYON: Final = {"kind": "rayon", "padding": 0.3}
#: Policies under every error of estimates, and on the larger cluster.
POLICIES: Final[Mapping[str, dict[str, Any]]] = {
    BASELINE: {"kind": "tetrisched"},
    "no_preferences": {"kind": "tetrisched", "preferences": "none"},
    "no_global_plan": {"kind": "tetrisched", "search": "one_by_one"},
    "no_plan_ahead": {"kind": "tetrisched", "plan_ahead_s": 0.0},
    "rayon": {**_RAYON, "preemption": _FAST},
}
#: Policies with right estimates alone.
VARIANTS: Final[Mapping[str, dict[str, Any]]] = {
    "tetrisched_calendar": {"kind": "tetrisched", "admission": "calendar"},
    "hard": {"kind": "tetrisched", "preferences": "hard"},
    "rayon_hadoop": {**_RAYON, "preemption": {"enabled": True}},
    "rayon_unpadded": {"kind": "rayon", "preemption": _FAST},
    "rayon_earliest": {**_RAYON, "preemption": _FAST, "fit": "earliest"},
}
#: How far plans reach, in s, by what a table calls the policy.
AHEAD: Final = {
    "no_plan_ahead": 0,
    "ahead_44": 44,
    BASELINE: 96,
    "ahead_120": 120,
    "ahead_144": 144,
}
KNOWN: Final[Mapping[str, dict[str, Any]]] = {
    **POLICIES,
    **VARIANTS,
    **{
        label: {"kind": "tetrisched", "plan_ahead_s": float(seconds)}
        for label, seconds in AHEAD.items()
        if label not in POLICIES
    },
}
HEAD: Final = (
    "policy",
    "deadlines met, %",
    "minus tetrisched's, points",
    "accepted, %",
    "met of these, %",
    "mean JCT of best effort, s",
    "cycle, ms",
    "longest, ms",
)


class Measured(msgspec.Struct, frozen=True):
    """Of the jobs of one run after the warm-up. cycles: CPU seconds of each plan.

    rest_s: mean JCT without deadlines. due: jobs with a deadline. met: those that kept it. accepted: those that a plan
    ever had keep it, or that a calendar accepted. kept: both. arrivals_s: between the first arrival and the last.
    span_s: until the last end. load: work over room between these arrivals. late, rest_quarters_s: by quarter of the
    jobs in their order, part of the deadlines missed, and mean JCT without deadlines.
    """

    due: int
    met: int
    accepted: int
    kept: int
    rest_s: float
    cycles: tuple[float, ...]
    arrivals_s: float
    span_s: float
    load: float
    late: tuple[float, ...]
    rest_quarters_s: tuple[float, ...]


class Watched:
    """Remembers which deadlines were ever accepted, and the CPU time of the first tick of each cycle, which plans."""

    def __init__(self) -> None:
        self.accepted: set[str] = set()
        self.cycles: dict[int, float] = {}
        """By number of the cycle."""

    def __call__(self, scheduler: Scheduler, event: Event, decide: api.Decide) -> list[Decision]:
        """See `api.Watch`."""
        if not (isinstance(event, Tick) and scheduler.state.waiting):
            return decide(event)
        begun = time.process_time()
        decisions = decide(event)
        self.cycles.setdefault(event.at // _CYCLE_MS, time.process_time() - begun)
        state, policy = scheduler.state, scheduler.policy
        self.accepted |= {name for name, job in state.jobs.items() if policy.about(job).get("accepted")}
        return decisions


#: By name of each rack, whether it has GPUs.
KINDS: Final = {f"{'gpu' if rack < GPU_RACKS else 'plain'}-{rack}": rack < GPU_RACKS for rack in range(RACKS)}


def nodes_of(size: int) -> dict[str, bool]:
    """The nodes of a cluster of this many, and whether each has GPUs."""
    return {
        f"{rack}-{n + 1:0{len(str(size // RACKS))}}": gpus for rack, gpus in KINDS.items() for n in range(size // RACKS)
    }


def cluster(size: int) -> dict[str, Any]:
    """Racks of equal nodes that decide at once."""
    racks = [
        {
            "name": f"{rack}-",
            "count": size // RACKS,
            "capacity": {"cpu": 1},
            "rack": rack,
            "kind": "gpu" if has_gpus else "plain",
        }
        for rack, has_gpus in KINDS.items()
    ]
    return {"nodes": racks, "profile": "events"}


def workload(seed: int, size: int = USUAL) -> Workload:
    """The jobs of a seed for a cluster of a size."""
    random = keyed.generator(seed, "tetrisched's jobs")
    scale = size // USUAL
    arrivals = np.cumsum(random.exponential(1000 * _APART_S / scale, JOBS * scale))
    nodes = nodes_of(size)
    made = (_job(f"j{number:02}", int(at), random, nodes) for number, at in enumerate(arrivals))
    return Workload(name=f"jobs-{seed}", jobs=tuple(made), resources=("cpu",))


def _job(name: str, at: int, random: np.random.Generator, nodes: Mapping[str, bool]) -> WorkloadJob:
    """Three of four have a deadline: gangs that would like GPUs, or one rack for all. The others take what there is."""
    kind = ("gpu", "mpi", "rest")[int(random.choice(3, p=(0.375, 0.375, 0.25)))]
    mean, tasks = float(random.uniform(20_000, 80_000)), int(random.integers(4, 25 if kind == "rest" else 9))
    due = at + round(float(random.uniform(*_FACTORS)) * mean)
    stage = Stage(name=kind, tasks=tasks, demand=(1000,), gang=kind != "rest")
    job = Job(id=name, name=kind, stages=(stage,), queue=REST if kind == "rest" else DUE)
    times: RunTimes = Drawn(mean, 0.1)
    if kind == "gpu":
        job = msgspec.structs.replace(job, deadline=due, wishes=Wishes(prefer=(Wish(device="gpu"), Wish())))
        times = _by_kind(mean, tasks, random, nodes)
    elif kind == "mpi":
        ways = Wish(same_rack=True), Wish(slowdown=_SLOWER)
        job = msgspec.structs.replace(job, deadline=due, wishes=Wishes(prefer=ways))
    return WorkloadJob(job=job, submit_ms=at, runtimes=(times,), apart=_SLOWER if kind == "mpi" else 1.0)


def _by_kind(mean: float, tasks: int, random: np.random.Generator, nodes: Mapping[str, bool]) -> PerNode:
    """Run times of tasks that are faster on nodes with GPUs."""
    there = {node: 1.0 if has_gpus else _SLOWER for node, has_gpus in nodes.items()}
    drawn = np.maximum(1.0, random.normal(mean, 0.1 * mean, tasks))
    return PerNode(tuple(there), tuple(tuple(round(ms * factor) for factor in there.values()) for ms in drawn))


def measure(label: str, size: int, error: float | None, seed: int) -> Measured:
    """Run one seed under one of KNOWN with estimates as wrong as this, or under one of OTHERS (None)."""
    policy = OTHERS[label] if error is None else KNOWN[label]
    told = {} if error is None else {"predictor": {"kind": "oracle", "error": [error, error]}}
    queues = [{"name": DUE, "guaranteed": "75%"}, {"name": REST, "guaranteed": "25%"}]
    made = document(
        "wishes",
        [seed],
        {"one": {**policy, **told}},
        cluster=cluster(size),
        queues=queues,
        workload=workload(seed, size),
    )
    watched = Watched()
    ended = api.play(made, watch=watched).jobs.sort("submit_ms", "id")
    ended = ended.slice(warm_up(len(ended)))
    since, last = ended["submit_ms"][0], ended["submit_ms"][-1]
    finished = pl.col("finish_ms")
    hurried = ended.filter(pl.col("deadline_ms").is_not_null())
    due = dict(hurried.select("id", (finished <= pl.col("deadline_ms")).fill_null(False)).iter_rows())
    rest = ended.filter(pl.col("deadline_ms").is_null() & finished.is_not_null())
    rest_s = ((rest["finish_ms"] - rest["submit_ms"]) / 1000).to_list()
    accepted = watched.accepted & due.keys()
    return Measured(
        due=len(due),
        met=sum(due.values()),
        accepted=len(accepted),
        kept=sum(due[name] for name in accepted),
        rest_s=fmean(rest_s),
        cycles=tuple(cpu_s for cycle, cpu_s in watched.cycles.items() if cycle >= since // _CYCLE_MS),
        arrivals_s=(last - since) / 1000,
        span_s=(ended.select(finished.max()).item() - since) / 1000,
        load=ended["work_ms"].sum() / (last - since) / size,
        late=quarters([not met for met in due.values()]),
        rest_quarters_s=quarters(rest_s),
    )


Runs = Mapping[str, Sequence[Measured]]


def rows(runs: Runs, beside: Sequence[Measured]) -> Iterator[list[str]]:
    """Cells of HEAD; runs: by policy, one for each seed. beside: what each is compared with, seed by seed."""
    for label, seeds in runs.items():
        cycles = [1000 * cycle for each in seeds for cycle in each.cycles]
        plans = label not in OTHERS and KNOWN[label]["kind"] == "tetrisched"
        yield [
            label,
            met(seeds),
            "-" if seeds is beside else over_seeds(_less(seeds, beside)),
            *((over_seeds(_accepted(seeds)), over_seeds(_kept(seeds))) if label not in OTHERS else "--"),
            rest(seeds),
            *((f"{fmean(cycles):.0f}", f"{max(cycles):.0f}") if plans else "--"),
        ]


def met(seeds: Sequence[Measured]) -> str:
    """A cell of deadlines met, in %, which is in italics where more and more are missed."""
    return marked(over_seeds(_met(seeds)), [each.late for each in seeds])


def rest(seeds: Sequence[Measured]) -> str:
    """A cell of best effort's mean JCT, in s, which is in italics where it grows."""
    return marked(over_seeds([each.rest_s for each in seeds]), [each.rest_quarters_s for each in seeds])


def _met(seeds: Sequence[Measured]) -> list[float]:
    """Deadlines met, in %."""
    return [100 * each.met / each.due for each in seeds]


def _less(seeds: Sequence[Measured], beside: Sequence[Measured]) -> list[float]:
    """The difference of deadlines met, seed by seed, in points."""
    return [mine - other for mine, other in zip(_met(seeds), _met(beside), strict=True)]


def _accepted(seeds: Sequence[Measured]) -> list[float]:
    """Deadlines accepted, in %."""
    return [100 * each.accepted / each.due for each in seeds]


def _kept(seeds: Sequence[Measured]) -> list[float]:
    """Accepted deadlines met, in %."""
    return [100 * each.kept / each.accepted for each in seeds if each.accepted]


def by_error(found: Mapping[float, Runs], tell: Callable[[str, float], str]) -> str:
    """A table of policies by errors of estimates. tell: the cell of a policy and an error."""
    head = ["policy", *(said(error, error) for error in found)]
    labels = next(iter(found.values()))
    return table(head, [[label, *(tell(label, error) for error in found)] for label in labels])


def caption(runs: Runs, size: int) -> str:
    """What a table was measured on: cluster, jobs, span, load, seeds."""
    seeds = next(iter(runs.values()))
    ends = [each.span_s / 60 for one in runs.values() for each in one]
    whole = JOBS * size // USUAL
    arrivals, load = fmean(each.arrivals_s / 60 for each in seeds), fmean(each.load for each in seeds)
    return (
        f"{size} nodes, {whole} jobs a seed. The first {warm_up(whole)} do not count; the others arrive in "
        f"{arrivals:.1f} minutes and end within {fmean(ends):.1f} (mean) to {max(ends):.1f} (most); load {load:.2f}; "
        f"{len(seeds)} seeds."
    )


def main(
    out: Annotated[Path, typer.Option(help="where the runs are kept")] = Path("out/wishes"),
    docs: Annotated[Path, typer.Option(help="the folder with results-wishes.in.md")] = Path("docs"),
    seeds: Annotated[int, typer.Option(min=1, help="number of seeds")] = 10,
    jobs: Annotated[int, typer.Option(min=1, help="parallel processes")] = 2,
) -> None:
    """Run everything, and write docs/results-wishes.md: an hour and a quarter on one core."""
    template = (docs / f"{NAME}.in.md").read_text(encoding="utf-8")
    kinds = [
        *((label, USUAL, 0.0) for label in KNOWN),
        *((label, USUAL, None) for label in OTHERS),
        *((label, LARGE, 0.0) for label in POLICIES),
        *((label, USUAL, error) for error in ERRORS if error for label in POLICIES),
    ]
    cells = [(*kind, seed) for seed in range(1, seeds + 1) for kind in kinds]  # a page of fewer seeds is soon there
    found = dict(zip(cells, measured(out, Measured, measure, cells, jobs), strict=True))

    def of(labels: Iterable[str], error: float | None, size: int = USUAL) -> dict[str, list[Measured]]:
        return {label: [found[label, size, error, seed] for seed in range(1, seeds + 1)] for label in labels}

    exact, large = of([*POLICIES, *VARIANTS], 0.0), of(POLICIES, 0.0, LARGE)
    ahead, others = of(AHEAD, 0.0), of(OTHERS, None)
    swept = {error: of(POLICIES, error) for error in ERRORS}

    def whole(runs: Runs, beside: Sequence[Measured], size: int = USUAL) -> str:
        return f"{caption(runs, size)}\n\n{table(HEAD, list(rows(runs, beside)))}"

    best = exact[BASELINE]
    tables = {
        "exact": whole({**exact, **others}, best),
        "ahead": whole({**ahead, BASELINE: best}, best),
        "large": whole(large, large[BASELINE], LARGE),
        "swept": caption(swept[ERRORS[0]], USUAL),
        "met": by_error(swept, lambda label, error: met(swept[error][label])),
        "less": by_error(swept, lambda label, error: over_seeds(_less(swept[error][label], swept[error][BASELINE]))),
        "accepted": by_error(swept, lambda label, error: over_seeds(_accepted(swept[error][label]))),
        "kept": by_error(swept, lambda label, error: over_seeds(_kept(swept[error][label]))),
        "rest": by_error(swept, lambda label, error: rest(swept[error][label])),
    }
    write_file(docs / f"{NAME}.md", filled(template, **tables))
    typer.echo(f"{docs / NAME}.md written", err=True)


if __name__ == "__main__":
    end(lambda: typer.run(main))
