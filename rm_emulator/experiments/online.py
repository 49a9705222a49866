"""Graphene's online part against other policies: TPC-H and Alibaba's jobs on a cluster with four resources.

Every experiment is a scenario of its own, kept under a folder like any run, so a stopped one goes on where it was.
All ratios are paired: the same jobs, demands and run times under every policy of a seed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
import polars as pl
import yaml

from rm_emulator.experiments import api, dags
from rm_emulator.experiments.tables import show, versus
from rm_emulator.results.record import write_file
from rm_emulator.results.statistics import student_t
from rm_emulator.results.summary import cell_dir, read_table
from rm_emulator.workload import storage
from rm_emulator.workload.model import WorkloadJob
from schedulers.core import keyed

Policies = Mapping[str, Mapping[str, Any]]
ORACLE: Final[Mapping[str, Any]] = {"kind": "oracle"}
GRAPHENE: Final[Mapping[str, Any]] = {"kind": "graphene", "predictor": ORACLE}
#: What is compared (Graphene, OSDI 2016, section 8), and Graphene's two halves alone.
COMPARED: Final[Policies] = {
    "graphene": GRAPHENE,
    "online_only": {**GRAPHENE, "plan": "none"},
    "offline_only": {**GRAPHENE, "packing": False, "k": 0, "kappa": 9},
    "tetris": {"kind": "tetris", "predictor": ORACLE},
    "cp": {"kind": "cp", "predictor": ORACLE},
    "bfs": {"kind": "bfs"},
    "random": {"kind": "random"},
    "capacity": {"kind": "capacity"},
}
#: Relative errors of run times by name: one draw per stage. Demands cannot be wrong: the engine has one per stage.
ERRORS: Final[Mapping[str, tuple[float, float]]] = {
    "m75_m50": (-0.75, -0.5),
    "m50_p50": (-0.5, 0.5),
    "p50_p75": (0.5, 0.75),
}
MISLED: Final = ("graphene", "cp", "tetris")
KAPPAS: Final = (0.02, 0.25, 0.9)
ETAS: Final = (0, 0.2, 5, 20)
REMOTES: Final = (0.2, 0.8, 1.0)
NODES: Final = 10
#: Tasks that a node holds about at once: four units of each resource, and half a unit per task with some waste.
TASKS_PER_NODE: Final = 6
QUEUES: Final = ("a", "b")


def _error_policies() -> Policies:
    wrong = {
        f"{name}_{error}": {**COMPARED[name], "predictor": {"kind": "oracle", "error": list(ERRORS[error])}}
        for error in ERRORS
        for name in MISLED
    }
    return {**{name: COMPARED[name] for name in MISLED}, **wrong}


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
    "path": "alibaba",
    "extract": {"jobs": 150, "drop_wider_than": 120},
    "load": 1.3,
    "slots": NODES * TASKS_PER_NODE,
}
#: Input on three of the nodes, and a third more time away from it.
DATA: Final[Mapping[str, Any]] = {"replicas": 3, "remote": {"rack": 1.33, "off": 1.33}}

#: Workload and policies by the experiment's name.
EXPERIMENTS: Final[Mapping[str, tuple[Mapping[str, Any], Policies]]] = {
    "tpch": (POISSON, COMPARED),
    "alibaba": (ALIBABA, COMPARED),
    "queues": ({**ALIBABA, "path": "alibaba-queues"}, FAIR),
    "errors": (ALIBABA, _error_policies()),
    "eta": (ALIBABA, _swept("k", ETAS)),
    "remote": ({**ALIBABA, "data": DATA}, _swept("remote", REMOTES)),
    "batch": ({**TPCH, "arrivals": "batch"}, COMPARED),
}


def prepare(out: Path, trace: Path) -> None:
    """Write Alibaba's jobs with drawn demands into `out`, and again with each job in one of QUEUES, drawn evenly."""
    plain = dags.write(out / "alibaba", trace, 1)
    if not (path := out / "alibaba-queues").exists():
        workload = storage.load(plain)
        storage.save(msgspec.structs.replace(workload, jobs=tuple(_queued(entry) for entry in workload.jobs)), path)


def _queued(entry: WorkloadJob) -> WorkloadJob:
    queue = QUEUES[int(keyed.uniform(1, "dag-queue", entry.job.id) * len(QUEUES))]
    return msgspec.structs.replace(entry, job=msgspec.structs.replace(entry.job, queue=queue))


def scenario(name: str, seeds: Sequence[int], jobs: int | None = None) -> dict[str, Any]:
    """The scenario of one experiment. jobs: how many instead of those named above."""
    workload, policies = EXPERIMENTS[name]
    capacity = {"cpu": dags.UNITS, **dict.fromkeys(dags.RESOURCES[1:], f"{dags.UNITS}Gi")}
    return {
        "apiVersion": "rm-emulator.io/v1alpha1",
        "kind": "Scenario",
        "metadata": {"name": name},
        "spec": {
            "seeds": list(seeds),
            "cluster": {"nodes": [{"count": NODES, "capacity": capacity}], "profile": "events"},
            "queues": [{"name": queue} for queue in (QUEUES if name == "queues" else ())],
            "workload": workload if jobs is None else _smaller(workload, jobs),
            "policies": [{"label": label, **policy} for label, policy in policies.items()],
            "log": "hash",
        },
    }


def _smaller(workload: Mapping[str, Any], jobs: int) -> dict[str, Any]:
    if "extract" in workload:
        return {**workload, "extract": {**workload["extract"], "jobs": jobs}}
    return {**workload, "jobs": jobs}


def measure(name: str, seeds: Sequence[int], out: Path, processes: int | None, jobs: int | None = None) -> api.Results:
    """Run one experiment, or read what is there of it. Alibaba's jobs come from `prepare`."""
    path = out / f"{name}.yaml"
    write_file(path, yaml.safe_dump(scenario(name, seeds, jobs), sort_keys=False))
    return api.run(path, out / name, None, {}, processes, (), overwrite=False, progress=False)


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
    by_label = runs(results)
    seeds = sorted(by_label[against])
    made = []
    for label, by_seed in by_label.items():
        slower = versus(results, against, label, seeds)
        longer = [by_seed[s]["makespan_s"] / by_label[against][s]["makespan_s"] for s in seeds]
        made.append(
            [
                label,
                f"{mean([by_seed[s]['jct_s']['mean'] for s in seeds]):.1f}",
                *(
                    show(slower[average]) if label != against else "1"
                    for average in ("ratio_of_means", "p50_of_ratios")
                ),
                ratio(longer) if label != against else "1",
                f"{mean([running(results, label, s) for s in seeds]):.1f}",
                f"{100 * mean([used(by_seed[s]) for s in seeds]):.1f}",
            ]
        )
    return made


HEAD_QUEUES: Final = ("policy", "JCT / kappa 0.25's", "two queues / one", "Jain, 10 s", "60 s", "240 s")


def queue_rows(two: api.Results, one: api.Results, against: str = "kappa_0_25") -> list[list[str]]:
    """Cells of HEAD_QUEUES: mean JCT beside Graphene's and beside that with one queue; means of Jain's index."""
    by_label, single = runs(two), runs(one)
    seeds = sorted(by_label[against])
    alone = {label: name for name, label in ONE_QUEUE.items()}
    made = []
    for label, by_seed in by_label.items():
        own = [by_seed[s]["jct_s"]["mean"] / single[alone[label]][s]["jct_s"]["mean"] for s in seeds if label in alone]
        made.append(
            [
                label,
                show(versus(two, against, label, seeds)["ratio_of_means"]) if label != against else "1",
                ratio(own) if own else "-",
                *(_jain([by_seed[s]["fairness"][f"jain_{w}s"]["mean"] for s in seeds]) for w in (10, 60, 240)),
            ]
        )
    return made


def _jain(means: Sequence[float | None]) -> str:
    """The mean over seeds; None: never had two queues work at once."""
    there = [each for each in means if each is not None]
    return f"{mean(there):.3f}" if there else "-"


HEAD_ERRORS: Final = ("errors", *(f"{name} / itself without" for name in MISLED), "cp / graphene", "tetris / graphene")


def error_rows(results: api.Results) -> list[list[str]]:
    """Cells of HEAD_ERRORS: mean JCT by its own with true estimates, and by Graphene's with the same errors."""
    seeds = sorted(runs(results)["graphene"])

    def by(label: str, against: str) -> str:
        return "1" if label == against else show(versus(results, against, label, seeds)["ratio_of_means"])

    made = []
    for error in ("", *ERRORS):
        tail = f"_{error}" if error else ""
        low, high = ERRORS.get(error, (0, 0))
        made.append(
            [
                f"{100 * low:+.0f} to {100 * high:+.0f} %" if error else "none",
                *(by(name + tail, name) for name in MISLED),
                *(by(name + tail, "graphene" + tail) for name in MISLED[1:]),
            ]
        )
    return made


HEAD_SWEEP: Final = ("setting", "mean JCT / default's", "makespan / default's")


def sweep_rows(results: api.Results, default: str) -> list[list[str]]:
    """Cells of HEAD_SWEEP."""
    return [[row[0], row[2], row[4]] for row in rows(results, default)]


def runs(results: api.Results) -> dict[str, dict[int, Any]]:
    """Figures by label and seed."""
    found: dict[str, dict[int, Any]] = {}
    for run in results.summary["runs"]:
        found.setdefault(run["label"], {})[run["seed"]] = run
    return found


def running(results: api.Results, label: str, seed: int) -> float:
    """Tasks that run at once, mean over the makespan."""
    cell = cell_dir(results.path, label, seed)
    tasks = read_table(cell, "tasks", ["started_ms", "ended_ms"]).filter(pl.col("started_ms").is_not_null())
    area = float((tasks["ended_ms"] - tasks["started_ms"]).sum())
    return area / (1000 * float(runs(results)[label][seed]["makespan_s"]))


def used(run: Mapping[str, Any]) -> float:
    """Mean over resources of what was held of the cluster."""
    return mean([part for part in run["utilisation"].values() if part is not None])


def mean(values: Sequence[float]) -> float:
    """The plain mean."""
    return sum(values) / len(values)


def ratio(paired: Sequence[float]) -> str:
    """`1.23 [1.10, 1.36]`: the mean of a ratio per seed, with Student's t."""
    return show({"value": mean(paired), "ci95": student_t(paired)})
