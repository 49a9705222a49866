"""Graphene's online part against other policies: TPC-H and Alibaba's jobs on a cluster with four resources.

Every experiment is a scenario of its own, kept under a folder like any run, so a stopped one goes on where it was.
All ratios are paired: the same jobs, demands and run times under every policy of a seed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any, Final

import msgspec
import polars as pl

from rm_emulator import api
from rm_emulator.workload.model import WorkloadJob
from schedulers.core import keyed
from studies import dags
from studies.tables import document, mean, run, show

Policies = Mapping[str, Mapping[str, Any]]
ORACLE: Final[Mapping[str, Any]] = {"kind": "oracle"}
GRAPHENE: Final[Mapping[str, Any]] = {"kind": "graphene", "predictor": ORACLE}
#: What is compared (Graphene, OSDI 2016, section 8).
COMPARED: Final[Policies] = {
    "graphene": GRAPHENE,
    "without_plans": {**GRAPHENE, "plan": "none"},
    "tetris": {"kind": "tetris", "predictor": ORACLE},
    "cp": {"kind": "cp", "predictor": ORACLE},
    "bfs": {"kind": "bfs"},
    "capacity": {"kind": "capacity"},
}
#: Relative errors by name, one draw per stage: of run times alone, and of run times and demands alike.
ERRORS: Final[Mapping[str, tuple[float, float]]] = {
    "m75_m50": (-0.75, -0.5),
    "m50_p50": (-0.5, 0.5),
    "p50_p75": (0.5, 0.75),
}
MISLED: Final = ("graphene", "cp", "tetris")
KAPPAS: Final = (0.02, 0.25, 0.9)
REMOTES: Final = (0.2, 0.8, 1.0)
NODES: Final = 10
#: Tasks that a node holds about at once: four units of each resource, and half a unit per task with some waste.
TASKS_PER_NODE: Final = 6
QUEUES: Final = ("a", "b")


def _misled(error: str) -> Policies:
    wrong = {"kind": "oracle", "error": list(ERRORS[error])}
    return {f"{name}_{error}": {**COMPARED[name], "predictor": wrong} for name in MISLED}


def _error_policies() -> Policies:
    right = {name: COMPARED[name] for name in MISLED}
    return right | {label: policy for error in ERRORS for label, policy in _misled(error).items()}


def _swept(setting: str, values: Sequence[float]) -> Policies:
    return {f"{setting}_{value:g}".replace(".", "_"): {**GRAPHENE, setting: value} for value in values}


#: Fair shares between two queues, and how far Graphene may stray from them.
FAIR: Final[Policies] = {
    **_swept("kappa", KAPPAS),
    **{name: COMPARED[name] for name in ("tetris", "capacity")},
    "drf": {"kind": "drf"},
}
ONE_QUEUE: Final = {"graphene": "kappa_0_25", "tetris": "tetris", "capacity": "capacity"}

TPCH: Final[Mapping[str, Any]] = {
    "kind": "tpch",
    "jobs": 10,
    "sizes": [2, 5, 10],
    "durations": "per_task",
    "history": 0,
    "demand": dict(dags.UNIT),
    "drawn": dict(dags.UNIT),
    "slots": NODES * TASKS_PER_NODE,
}
POISSON: Final[Mapping[str, Any]] = {**TPCH, "load": 1.3}
ALIBABA: Final[Mapping[str, Any]] = {
    "kind": "trace",
    "path": "alibaba-jobs",
    "extract": {"jobs": 150, "drop_wider_than": 120},
    "load": 1.3,
    "slots": NODES * TASKS_PER_NODE,
}
#: Input on three of the nodes, and a third more time away from it.
DATA: Final[Mapping[str, Any]] = {"replicas": 3, "remote": {"rack": 1.33, "off": 1.33}}

#: The paper's baselines run on YARN's Capacity Scheduler, which is asked for cores and memory alone.
YARN: Final[Mapping[str, Any]] = {"without": ["disk", "network"]}
AS_YARN: Final = ("cp", "bfs", "capacity")
#: How much more of network and disk may be asked for than there is.
OVERBOOK: Final = (0.0, 0.25, 0.5, 1.0)
#: What tasks use of what they ask for: all, or half on average.
USED: Final[Mapping[str, tuple[float, float]]] = {"all": (1.0, 1.0), "half": (0.0, 1.0)}


class Experiment(msgspec.Struct, frozen=True):
    """What differs between the scenarios; each policy by its label."""

    workload: Mapping[str, Any]
    policies: Policies
    overbook: Mapping[str, float] = {}
    queues: Sequence[str] = ()
    nodes: int = NODES


def _as_yarn(workload: Mapping[str, Any]) -> Experiment:
    return Experiment({**workload, "asks": YARN}, {name: COMPARED[name] for name in AS_YARN})


def _demands(error: str) -> Experiment:
    return Experiment({**ALIBABA, "asks": {"error": list(ERRORS[error])}}, _misled(error))


def _overbooked(used: str, part: float) -> str:
    return f"overbook_{used}_{part:g}".replace(".", "_")


EXPERIMENTS: Final[Mapping[str, Experiment]] = {
    "tpch": Experiment(POISSON, COMPARED),
    "alibaba": Experiment(ALIBABA, COMPARED),
    "queues": Experiment({**ALIBABA, "path": "alibaba-queues"}, FAIR, queues=QUEUES),
    "errors": Experiment(ALIBABA, _error_policies()),
    **{f"demands_{error}": _demands(error) for error in ERRORS},
    "remote": Experiment({**ALIBABA, "data": DATA}, _swept("remote", REMOTES)),
    "tpch_as_yarn": _as_yarn(POISSON),
    "alibaba_as_yarn": _as_yarn(ALIBABA),
    **{
        _overbooked(used, part): Experiment(
            {**ALIBABA, "asks": {"used": list(parts)}}, {"graphene": GRAPHENE}, {"network": part, "disk": part}
        )
        for used, parts in USED.items()
        for part in OVERBOOK
    },
}


def prepare(out: Path, trace: Path) -> None:
    """Write Alibaba's jobs with drawn demands into `out`, and again with each job in one of QUEUES, drawn evenly."""
    plain = dags.write(out / ALIBABA["path"], trace, 1)
    if not (path := out / "alibaba-queues").exists():
        workload = api.load_workload(plain)
        api.save_workload(
            msgspec.structs.replace(workload, jobs=tuple(_queued(entry) for entry in workload.jobs)), path
        )


def _queued(entry: WorkloadJob) -> WorkloadJob:
    queue = QUEUES[int(keyed.uniform(1, "dag-queue", entry.job.id) * len(QUEUES))]
    return msgspec.structs.replace(entry, job=msgspec.structs.replace(entry.job, queue=queue))


def scenario(name: str, wanted: Experiment, seeds: Sequence[int], jobs: int | None = None) -> dict[str, Any]:
    """The scenario of one experiment. jobs: how many instead of those that the experiment names."""
    return document(
        name,
        seeds,
        wanted.policies,
        cluster={
            "nodes": [{"count": wanted.nodes, "capacity": dict(dags.MACHINE)}],
            "profile": "events",
            "overbook": dict(wanted.overbook),
        },
        queues=[{"name": queue} for queue in wanted.queues],
        workload=wanted.workload if jobs is None else _smaller(wanted.workload, jobs),
    )


def _smaller(workload: Mapping[str, Any], jobs: int) -> dict[str, Any]:
    if "extract" in workload:
        return {**workload, "extract": {**workload["extract"], "jobs": jobs}}
    return {**workload, "jobs": jobs}


def measure(
    experiments: Mapping[str, Experiment],
    seeds: Sequence[int],
    out: Path,
    processes: int | None,
    jobs: int | None = None,
) -> dict[str, api.Results]:
    """Run experiments, or read what is kept of each. Alibaba's jobs come from `prepare`."""
    return {
        name: run(scenario(name, wanted, seeds, jobs), out / name, processes, progress=False)
        for name, wanted in experiments.items()
    }


# -- Tables -----------------------------------------------------------------------------------------------------------

HEAD: Final = (
    "policy",
    "mean JCT, s",
    "its JCT / graphene's: ratio of means",
    "median job",
    "makespan / graphene's",
    "running tasks",
    "utilisation, %",
)


def rows(results: api.Results, against: str = "graphene") -> list[list[str]]:
    """Cells of HEAD: means over seeds, ratios with Student's t over seeds."""
    figures = results.by_label
    seeds = sorted(figures[against])
    made = []
    for label, by_seed in figures.items():
        slower = results.versus(against, label)
        longer = [by_seed[s]["makespan_s"] / figures[against][s]["makespan_s"] for s in seeds]
        made.append(
            [
                label,
                f"{fmean([by_seed[s]['jct_s']['mean'] for s in seeds]):.1f}",
                *(
                    show(getattr(slower, average)) if label != against else "1"
                    for average in ("ratio_of_means", "p50_of_ratios")
                ),
                ratio(longer) if label != against else "1",
                f"{fmean([running(results, label, s) for s in seeds]):.1f}",
                f"{100 * fmean([used(by_seed[s]) for s in seeds]):.1f}",
            ]
        )
    return made


HEAD_QUEUES: Final = ("policy", "JCT / kappa 0.25's", "two queues / one", "Jain, 10 s", "60 s", "240 s")


def queue_rows(two: api.Results, one: api.Results, against: str = "kappa_0_25") -> list[list[str]]:
    """Cells of HEAD_QUEUES: mean JCT beside Graphene's and beside that with one queue; means of Jain's index."""
    figures, single = two.by_label, one.by_label
    seeds = sorted(figures[against])
    alone = {label: name for name, label in ONE_QUEUE.items()}
    made = []
    for label, by_seed in figures.items():
        own = [by_seed[s]["jct_s"]["mean"] / single[alone[label]][s]["jct_s"]["mean"] for s in seeds if label in alone]
        made.append(
            [
                label,
                show(two.versus(against, label).ratio_of_means) if label != against else "1",
                ratio(own) if own else "-",
                *(_jain([by_seed[s]["fairness"][f"jain_{w}s"]["mean"] for s in seeds]) for w in (10, 60, 240)),
            ]
        )
    return made


def _jain(means: Sequence[float | None]) -> str:
    """The mean over seeds; None: never had two queues work at once."""
    known = mean(means)
    return "-" if known is None else f"{known:.3f}"


HEAD_ERRORS: Final = (
    "errors",
    "of",
    *(f"{name} / itself without" for name in MISLED),
    *(f"{name} / graphene" for name in MISLED[1:]),
)


def error_rows(right: api.Results, demands: Mapping[str, api.Results]) -> list[list[str]]:
    """Cells of HEAD_ERRORS: mean JCT by its own with true estimates, and by Graphene's with the same errors.

    right: runs where demands are right. demands: by name of the error, runs where they are wrong as well.
    """
    own = ["1" for _ in MISLED]
    made = [["none", "-", *own, *(jct(right, name, right, "graphene") for name in MISLED[1:])]]
    for error, (low, high) in ERRORS.items():
        for what, wrong in (("run times", right), ("run times and demands", demands[error])):
            made.append(
                [
                    f"{100 * low:+.0f} to {100 * high:+.0f} %",
                    what,
                    *(jct(wrong, f"{name}_{error}", right, name) for name in MISLED),
                    *(jct(wrong, f"{name}_{error}", wrong, f"graphene_{error}") for name in MISLED[1:]),
                ]
            )
    return made


HEAD_YARN: Final = ("jobs", "policy", "JCT / graphene's", "JCT / its own asking for all", "makespan / graphene's")


def yarn_rows(jobs: str, blind: api.Results, plain: api.Results) -> list[list[str]]:
    """Cells of HEAD_YARN: means of those that ask for cores and memory alone, by those that ask for all they use."""
    seeds = sorted(plain.by_label["graphene"])
    return [
        [
            jobs,
            label,
            jct(blind, label, plain, "graphene"),
            jct(blind, label, plain, label),
            makespan(blind, label, plain, "graphene", seeds),
        ]
        for label in AS_YARN
    ]


def jct(results: api.Results, label: str, other: api.Results, against: str) -> str:
    """Mean JCT by that of another policy, which may be in the results of another experiment with the same jobs."""
    return show(other.versus(against, label, of=results).ratio_of_means)


def makespan(results: api.Results, label: str, other: api.Results, against: str, seeds: Sequence[int]) -> str:
    """Makespan by that of another policy, as `jct`."""
    above, below = results.by_label[label], other.by_label[against]
    return ratio([above[s]["makespan_s"] / below[s]["makespan_s"] for s in seeds])


HEAD_SWEEP: Final = ("setting", "mean JCT / default's", "makespan / default's")


def sweep_rows(results: api.Results, default: str) -> list[list[str]]:
    """Cells of HEAD_SWEEP."""
    return [[row[0], row[2], row[4]] for row in rows(results, default)]


HEAD_OVERBOOK: Final = ("tasks use", "overbooked by", "mean JCT / none's", "makespan / none's")


def overbook_rows(results: Mapping[str, api.Results]) -> list[list[str]]:
    """Cells of HEAD_OVERBOOK: Graphene's by those without overbooking."""
    made, name = [], "graphene"
    for used in USED:
        plain = results[_overbooked(used, OVERBOOK[0])]
        seeds = sorted(plain.by_label[name])
        for part in OVERBOOK[1:]:
            runs = results[_overbooked(used, part)]
            cells = jct(runs, name, plain, name), makespan(runs, name, plain, name, seeds)
            made.append([used, f"{part:g}", *cells])
    return made


def running(results: api.Results, label: str, seed: int) -> float:
    """Tasks that run at once, mean over the makespan."""
    of_run = (pl.col("label") == label) & (pl.col("seed") == seed)
    tasks = results.tasks.filter(of_run & pl.col("started_ms").is_not_null())
    area = float((tasks["ended_ms"] - tasks["started_ms"]).sum())
    return area / (1000 * float(results.by_label[label][seed]["makespan_s"]))


def used(run: Mapping[str, Any]) -> float:
    """Mean over resources of what was held of the cluster."""
    return fmean([part for part in run["utilisation"].values() if part is not None])


def ratio(paired: Sequence[float]) -> str:
    """`1.23 [1.10, 1.36]`: the mean of a ratio per seed, with Student's t."""
    return show(api.interval(paired))
