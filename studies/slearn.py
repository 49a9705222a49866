"""Sampling against history: every preset and TPC-H, beside the figures of the SLearn paper.

`make tables` runs it. Each experiment is a scenario of its own under OUT, so a stopped study goes on where it was;
when all are there, docs/results.md is written from `results.in.md` and the measured tables.

A. Jajoo, Y. C. Hu, X. Lin, N. Deng, "The Case for Task Sampling based Learning for Cluster Job Scheduling" (SLearn),
NSDI 2022.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple

import typer

from rm_emulator import api
from rm_emulator.files import write_file
from rm_emulator.program import end
from studies import alibaba, misjudged, slearn_tables, timelines, variation
from studies.tables import document, filled, run

Policies = Mapping[str, Mapping[str, Any]]

PRESETS: Final = timelines.PRESETS
#: Google's traces once more: among those misjudged by history are the largest jobs.
MISJUDGED: Final = ("google11-misjudged", "google19-misjudged")
#: What is compared, in the paper's words (section 5.1.3), and our `posterior`.
POLICIES: Final[Policies] = {
    "slearn": {"kind": "gs", "predictor": {"kind": "slearn"}},
    "three_sigma": {"kind": "gs", "predictor": {"kind": "three_sigma"}},
    "three_sigma_tl": {"kind": "gs", "predictor": {"kind": "three_sigma", "thin_bypass": True}},
    "point_estimate": {"kind": "gs", "predictor": {"kind": "point_estimate"}},
    "las": {"kind": "las"},
    "fifo": {"kind": "fifo"},
    "oracle": {"kind": "gs", "predictor": {"kind": "oracle"}},
    "posterior": {"kind": "gs", "predictor": {"kind": "posterior"}},
    "posterior_left": {"kind": "gs", "inside": "least_left", "predictor": {"kind": "posterior"}},
}
DAG_POLICIES: Final[Policies] = {
    label: {"kind": "gs", "predictor": {"kind": label}}
    for label in ("slearn_dag", "three_sigma_dag", "point_estimate_dag")
}
SRPT: Final[Policies] = {"srpt": {"kind": "srpt", "predictor": {"kind": "oracle"}}}
#: SLearn with a fixed part of pilots (Table 6), with another limit of thin jobs (Table 9), and as it is.
SETTINGS: Final[Policies] = {
    "slearn": POLICIES["slearn"],
    **{
        f"percent_{percent}": {"kind": "gs", "predictor": {"kind": "slearn", "fixed_percent": percent}}
        for percent in slearn_tables.PERCENTS
    },
    **{
        f"thin_{limit}": {"kind": "gs", "predictor": {"kind": "slearn", "thin_limit": limit}}
        for limit in slearn_tables.THIN_LIMITS
    },
}
#: Queue bounds for TPC-H, whose jobs (some 40 to 1,600 task-seconds) would all share the paper's first two.
_NARROW: Final = {"first_threshold_ms": 3e4, "growth": 3.0}
NODES: Final = {"count": 150, "capacity": {"cpu": 1, "memory": "4Gi"}}
#: Jobs of the three traces (section 4.3).
JOBS: Final = 1250
#: Load of the experiments without a load in their name: Table 5's mean of the 2Sigma trace.
LOAD: Final = 1.05


class Experiment(NamedTuple):
    """A scenario of the study."""

    workload: Mapping[str, Any]
    policies: Policies = POLICIES
    profile: str = "yarn"
    baseline: str = "three_sigma"


def synthetic(preset: str, load: float = LOAD, **more: Any) -> dict[str, Any]:
    """The block of a preset's workload."""
    return {"kind": "synthetic", "preset": preset, "jobs": JOBS, "load": load, **more}


def _narrow(policies: Policies) -> Policies:
    return {
        label: {**policy, **(_NARROW if policy["kind"] in ("gs", "las") else {})} for label, policy in policies.items()
    }


def _without(policies: Policies, *labels: str) -> Policies:
    return {label: policy for label, policy in policies.items() if label not in labels}


#: GTrace19-DAG (section 6): "about 900 jobs" there, 400 here, so that a seed of all policies takes a minute.
CHAINS: Final = {**synthetic("google19-like", 1.04), "stages": [2, 5], "jobs": 400}
TPCH: Final = {
    "kind": "tpch",
    "jobs": 60,
    "sizes": [2, 5, 10, 20],
    "history_sizes": [2, 5, 10, 20],
    "durations": "per_task",
    "slots": 150,
    "load": 1.3,
}
ALIBABA: Final = "alibaba-2017"


def _few(policies: Policies, *labels: str) -> Policies:
    return {label: policies[label] for label in labels}


#: Whether the paper's gains by bin (Figure 9) and by limit of thin jobs (Table 9) come with its 39.7 % of jobs of four
#: tasks (section 5.2.8), and with the largest jobs among those that history misjudges.
_FOURS: Final = {"gang": 0.3966, "gang_task_s": 300.0}
BINS: Final[Mapping[str, Mapping[str, Any]]] = {
    "2sigma-like-fours": _FOURS,
    "2sigma-like-fours-misjudged": {**_FOURS, "outliers_large": 1.0, "tail_over": 0.9, "drift_max_s": None},
}
#: With heartbeats, where containers hold room for longer than tasks run: sizes by run times, and by what is held.
OCCUPANCY: Final[Policies] = {
    label + end: {**{**POLICIES, **DAG_POLICIES}[label], **_NARROW, "occupancy": bool(end)}
    for label in ("slearn", "three_sigma_dag", "posterior", "oracle")
    for end in ("", "_occupancy")
}
BY_BIN: Final[Policies] = {
    **_few(POLICIES, "slearn", "three_sigma"),
    "thin_5": SETTINGS["thin_5"],
}
#: By name, which is the folder of the runs. Other loads and the preset without its tide show what the gain depends on
#: (docs/research/presets-against-the-paper.md).
EXPERIMENTS: Final[Mapping[str, Experiment]] = {
    "2sigma-like": Experiment(synthetic("2sigma-like")),
    **{preset: Experiment(synthetic(preset)) for preset in MISJUDGED},
    **{preset: Experiment(synthetic(preset), _without(POLICIES, "fifo")) for preset in PRESETS[1:]},
    "gtrace19-dag": Experiment(
        CHAINS, _without({**DAG_POLICIES, **POLICIES}, "three_sigma_tl"), baseline="three_sigma_dag"
    ),
    "tpch": Experiment(TPCH, _narrow(_without({**POLICIES, **DAG_POLICIES, **SRPT}, "three_sigma_tl")), "events"),
    "tpch-occupancy": Experiment({**TPCH, "load": 0.5}, OCCUPANCY, baseline="slearn"),
    ALIBABA: Experiment(
        {**alibaba.BLOCK, "load": LOAD},
        {
            **_few(POLICIES, "slearn", "three_sigma", "las", "oracle", "posterior", "posterior_left"),
            **_few(DAG_POLICIES, "slearn_dag", "three_sigma_dag"),
        },
    ),
    **{f"{preset}-settings": Experiment(synthetic(preset), SETTINGS) for preset in PRESETS},
    **{name: Experiment(synthetic("2sigma-like", knobs=knobs), BY_BIN) for name, knobs in BINS.items()},
    "2sigma-like-no-tide": Experiment(
        synthetic("2sigma-like", knobs={"tide": 0.0, "burstiness": 1.4}),
        _few(POLICIES, "slearn", "three_sigma"),
    ),
    **{
        f"2sigma-like-{load}": Experiment(
            synthetic("2sigma-like", load),
            _few(POLICIES, "slearn", "three_sigma"),
        )
        for load in (0.8, 1.3)
    },
}


def scenario(name: str, seeds: Sequence[int]) -> dict[str, Any]:
    """The scenario of an experiment: 150 slots, every policy."""
    of = EXPERIMENTS[name]
    policies = of.policies if of.baseline in of.policies else {of.baseline: POLICIES[of.baseline], **of.policies}
    return document(
        name,
        seeds,
        cluster={"nodes": [NODES], "profile": of.profile},
        workload=of.workload,
        policies=policies,
        baseline=of.baseline,
    )


def main(
    out: Annotated[Path, typer.Option(help="where the runs are kept")] = Path("out/tables"),
    docs: Annotated[Path, typer.Option(help="the folder with results.in.md")] = Path("docs"),
    seeds: Annotated[int, typer.Option(min=2, help="number of seeds")] = 10,
    jobs: Annotated[int | None, typer.Option(min=1, help="parallel processes; default: one per core")] = None,
    data: Annotated[Path, typer.Option(help="folder of real traces, for the table of variation")] = Path(
        "../shared/data"
    ),
    engine: Annotated[str | None, typer.Option(help="a Dask cluster, as of `rm-emulator run --engine`")] = None,
) -> None:
    """Run all experiments, and write docs/results.md."""
    out.mkdir(parents=True, exist_ok=True)
    template = (docs / "results.in.md").read_text(encoding="utf-8")
    numbers = range(1, seeds + 1)
    there = [name for name in EXPERIMENTS if name != ALIBABA or alibaba.prepare(out, data)]
    measured = {name: run(scenario(name, numbers), out / name, jobs, engine) for name in there}
    curve, figure = misjudged.written(numbers, out, docs, jobs)
    figures = timelines.written(measured, api.SLOTS, docs)
    more = {
        "curve": curve,
        "curve_seeds": seeds,
        "figure": figure.name,
        "variation": variation.variation(data),
        **figures,
    }
    write_file(docs / "results.md", page(measured, template, **more))
    typer.echo(f"{docs / 'results.md'} written", err=True)


def page(measured: Mapping[str, api.Results], template: str, **more: object) -> str:
    """The page: the template's prose with the measured tables in it, and what else it asks for."""
    return filled(template, **slearn_tables.tables(measured), **more)


if __name__ == "__main__":
    end(lambda: typer.run(main))
