"""Graphene on `production_dags`: against other schedulers, and whether any of its settings lets plans pay.

The ground of the paper's gains: jobs of 30 to 60 stages with unlike demands, whose work takes as long as their critical
path on their share of the cluster. Experiments are kept and paired as those of `online`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any, Final

from rm_emulator import api
from studies import dags, online
from studies.online import GRAPHENE, ORACLE, Experiment, Policies

#: Nodes where everything is compared and swept, and nodes of a cluster as large as the paper's.
NODES: Final = 20
MANY_NODES: Final = 100
#: Arrivals by name: total work over the cluster's in the span of arrivals; None: all jobs at time 0.
ARRIVALS: Final[Mapping[str, float | None]] = {"at_once": None, "load_1": 1.0, "load_2": 2.0}
KS: Final = (0, 0.2, 1, 5)
REPLANNED: Final = 1.5

#: Jobs by turns, the one that has least of the cluster first (the Capacity Scheduler's order `fair`).
BY_TURNS: Final[Mapping[str, Any]] = {**GRAPHENE, "packing": False, "k": 0, "kappa": 0, "level": "job"}
#: What is compared (Graphene, OSDI 2016, section 8.1): Tez+G+Tetris has Tetris' score times the place in the plan.
COMPARED: Final[Policies] = {
    "graphene": GRAPHENE,
    "without_plans": {**GRAPHENE, "plan": "none"},
    "tez_g_tetris": {**GRAPHENE, "k": 1},
    "tetris": {"kind": "tetris", "predictor": ORACLE},
    "tez_g_cs": BY_TURNS,
    "tez_cs": {**BY_TURNS, "plan": "none"},
    "capacity": {"kind": "capacity"},
    "cp": {"kind": "cp", "predictor": ORACLE},
    "srpt": {"kind": "srpt", "predictor": ORACLE},
}
#: The same with a cluster of MANY_NODES.
COMPARED_LARGE: Final = ("graphene", "without_plans", "tetris", "srpt")


def _swept() -> Policies:
    plans: Mapping[str, Mapping[str, Any]] = {"": {}, "_without": {"plan": "none"}}
    return {
        **{_label(k) + end: {**GRAPHENE, "k": k, **plan} for k, (end, plan) in product(KS, plans.items())},
        **{f"{_label(k)}_again": {**GRAPHENE, "k": k, "replan_factor": REPLANNED} for k in (0.2, 5)},
    }


def _label(k: float) -> str:
    return f"k_{k:g}".replace(".", "_")


def _workload(share: float, load: float | None) -> dict[str, Any]:
    """Tasks ask for up to half of a node, so that hundreds make a job."""
    drawn = {"cpu": 2, **dict.fromkeys(dags.RESOURCES[1:], "2Gi")}
    return {**_thousands(share, load), "drawn": drawn}


def _thousands(share: float, load: float | None) -> dict[str, Any]:
    """Thousands of tasks make a job, as in the paper's cluster."""
    return {"kind": "production_dags", "jobs": 20, "share": share, "load": load}


#: What the order of a plan, without its times, is worth where no other job fills the gaps, or few.
ALONE: Final[Policies] = {
    **{label: COMPARED[label] for label in ("graphene", "without_plans", "tetris", "cp")},
    "by_plan": {**GRAPHENE, "packing": False},
    "bfs": {"kind": "bfs"},
}
#: What is compared.
MAIN: Final[Mapping[str, Experiment]] = {
    "production": Experiment(_workload(0.25, 2.0), COMPARED, nodes=NODES),
    "production_alone": Experiment({**_workload(1, None), "jobs": 1}, ALONE, nodes=NODES // 4),
    "production_few": Experiment({**_workload(0.25, None), "jobs": 4}, ALONE, nodes=NODES),
}
#: The same on a cluster as large as the paper's: with jobs of as many tasks, and with its jobs of more.
LARGE: Final[Mapping[str, Experiment]] = {
    name: Experiment(workload, {label: COMPARED[label] for label in COMPARED_LARGE}, nodes=MANY_NODES)
    for name, workload in (
        ("production_large", _workload(0.1, 4.0)),
        ("production_thousands", _thousands(0.2, 2.0)),
    )
}
#: Where plans might pay.
SWEPT: Final[Mapping[str, Experiment]] = {
    f"production_{name}": Experiment(_workload(0.25, load), _swept(), nodes=NODES) for name, load in ARRIVALS.items()
}


# -- Tables -----------------------------------------------------------------------------------------------------------

HEAD_SWEEP: Final = (
    "arrivals",
    "k",
    "JCT: plans / none",
    "makespan: plans / none",
    "JCT: plans / none with k 5",
    "makespan: plans / none with k 5",
    f"JCT: planned again at {REPLANNED:g} / once",
    "makespan: planned again / once",
)


def sweep_rows(results: Mapping[str, api.Results]) -> Iterator[list[str]]:
    """Cells of HEAD_SWEEP. results: by experiment."""
    for name, load in ARRIVALS.items():
        runs = results[f"production_{name}"]
        seeds = sorted(runs.by_label[_label(5)])
        for k in KS:
            planned, again = _label(k), f"{_label(k)}_again"
            pairs = [(planned, f"{planned}_without"), (planned, f"{_label(5)}_without"), (again, planned)]
            yield [
                "at once" if load is None else f"load {load:g}",
                f"{k:g}",
                *(cell for above, below in pairs for cell in _both(runs, above, below, seeds)),
            ]


def _both(runs: api.Results, above: str, below: str, seeds: Sequence[int]) -> tuple[str, str]:
    """JCT and makespan of one setting by another's."""
    if above not in runs.by_label:
        return "-", "-"
    return online.jct(runs, above, runs, below), online.makespan(runs, above, runs, below, seeds)
