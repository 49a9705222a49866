"""The docs' result tables: sampling against history on every preset and on TPC-H, beside the paper's figures.

`make tables` runs it. Each (workload, load) is a scenario of its own under OUT, so a killed run goes on
where it was; when all are there, docs/results.md is written from `results.in.md` and the measured tables.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final

import jinja2
import typer
import yaml

import rm_emulator
from rm_emulator import api
from rm_emulator.files import write_file
from rm_emulator.program import end

#: Three averages of the speedup, as `Results.versus` has them.
SPEEDUPS: Final = ("ratio_of_means", "mean_of_ratios", "p50_of_ratios")
LOADS: Final = (0.8, 1.05, 1.3)
PRESETS: Final = ("2sigma-like", "google11-like", "google19-like")
#: What is compared, in the paper's words (SLearn, section 5.1.3), and our `posterior`.
POLICIES: Final[Mapping[str, dict[str, Any]]] = {
    "slearn": {"kind": "gs", "predictor": {"kind": "slearn"}},
    "three_sigma": {"kind": "gs", "predictor": {"kind": "three_sigma"}},
    "three_sigma_tl": {"kind": "gs", "predictor": {"kind": "three_sigma", "thin_bypass": True}},
    "point_estimate": {"kind": "gs", "predictor": {"kind": "point_estimate"}},
    "las": {"kind": "las"},
    "fifo": {"kind": "fifo"},
    "oracle": {"kind": "gs", "predictor": {"kind": "oracle"}},
    "posterior": {"kind": "gs", "predictor": {"kind": "posterior"}},
}
DAG_POLICIES: Final[Mapping[str, dict[str, Any]]] = {
    "slearn_dag": {"kind": "gs", "predictor": {"kind": "slearn_dag"}},
    "three_sigma_dag": {"kind": "gs", "predictor": {"kind": "three_sigma_dag"}},
}
#: SLearn's average speedup over each (and the median of the per-job ratio where the paper prints it), section 5.2.4.
PAPER: Final[Mapping[str, Mapping[str, str]]] = {
    "2sigma-like": {
        "three_sigma": "1.28 (P50 0.92)",
        "three_sigma_tl": "1.26",
        "point_estimate": "1.42",
        "las": "1.91 (P50 1.29)",
        "fifo": "3.29 (P50 8.45)",
        "oracle": "0.79 (P50 0.73)",
    },
    "google11-like": {
        "three_sigma": "1.56 (P50 1.00)",
        "three_sigma_tl": "1.55",
        "point_estimate": "2.17",
        "las": "1.65",
    },
    "google19-like": {
        "three_sigma": "1.32 (P50 1.07)",
        "three_sigma_tl": "1.32",
        "point_estimate": "1.54",
        "las": "1.72",
    },
}
#: Correct queue %, P50 and P90 of the error in %, as the paper prints them (Tables 6 and 10).
PAPER_ACCURACY: Final[Mapping[str, Mapping[str, tuple[float, float, float]]]] = {
    "2sigma-like": {"slearn": (89.09, 18.98, 58.66), "three_sigma": (73.84, 36.57, 475.78)},
    "google11-like": {"slearn": (86.45, 13.68, 49.95), "three_sigma": (76.20, 21.39, 294.52)},
    "google19-like": {"slearn": (73.96, 51.84, 92.25), "three_sigma": (58.07, 71.56, 1927.51)},
}


#: Sources of jobs. The preset without its tide shows how much of the gain depends on the tide
#: (docs/research/presets-against-the-paper.md).
WORKLOADS: Final[Mapping[str, dict[str, Any]]] = {
    **{preset: {"kind": "synthetic", "preset": preset, "jobs": 1250} for preset in PRESETS},
    "2sigma-like-no-tide": {
        "kind": "synthetic",
        "preset": "2sigma-like",
        "jobs": 1250,
        "knobs": {"tide": 0.0, "burstiness": 1.4},
    },
    "tpch": {
        "kind": "tpch",
        "jobs": 60,
        "sizes": [2, 5, 10, 20],
        "history_sizes": [2, 5, 10, 20],
        "durations": "per_task",
        "slots": 150,
    },
}


#: The variant without tide is there for one comparison, at the paper's load.
LOADS_OF: Final[Mapping[str, tuple[float, ...]]] = {"2sigma-like-no-tide": (1.05,)}


def scenario(workload: str, load: float, seeds: Sequence[int]) -> dict[str, Any]:
    """The scenario of one workload at one load: 150 slots, 1 s heartbeats, every policy."""
    policies = dict(POLICIES)
    if workload == "tpch":
        policies = {label: {**policy, **_narrow(policy)} for label, policy in {**policies, **DAG_POLICIES}.items()}
    return document(
        f"{workload}-{load}",
        seeds,
        cluster={"nodes": [{"count": 150, "capacity": {"cpu": 1, "memory": "4Gi"}}], "profile": "yarn"},
        workload={**WORKLOADS[workload], "load": load},
        policies=policies,
        baseline="three_sigma",
    )


def document(name: str, seeds: Sequence[int], policies: Mapping[str, Mapping[str, Any]], **spec: Any) -> dict[str, Any]:
    """A scenario whose logs are not kept. policies: by label; spec: the other blocks."""
    return {
        "apiVersion": api.API_VERSION,
        "kind": "Scenario",
        "metadata": {"name": name},
        "spec": {
            "seeds": list(seeds),
            **spec,
            "policies": [{"label": label, **policy} for label, policy in policies.items()],
            "log": "hash",
        },
    }


def run(
    scenario: Mapping[str, Any], out: Path, jobs: int | None, engine: str | None = None, *, progress: bool = True
) -> api.Results:
    """Run a scenario into `out` (the file stands beside it), or read what is kept of it."""
    path = out.with_name(f"{scenario['metadata']['name']}.yaml")
    write_file(path, yaml.safe_dump(scenario, sort_keys=False))
    return rm_emulator.run(path, out=out, jobs=jobs, engine=engine, progress=progress)


def _narrow(policy: Mapping[str, Any]) -> dict[str, Any]:
    """Queue bounds for TPC-H, whose jobs (some 40 to 1,600 task-seconds) would all share the paper's first two."""
    return {"first_threshold_ms": 3e4, "growth": 3.0} if policy["kind"] in ("gs", "las") else {}


def measure(
    workload: str, load: float, seeds: Sequence[int], out: Path, jobs: int | None, engine: str | None = None
) -> api.Results:
    """Run one scenario, or read what is kept of it."""
    return run(scenario(workload, load, seeds), out / f"{workload}-{load}", jobs, engine)


def speedup_rows(results: api.Results, workload: str, label: str) -> list[list[str]]:
    """Markdown cells: baseline, three averages with intervals, the paper's figure."""
    rows = []
    for baseline in results.by_label:
        if baseline != label:
            averages = results.versus(label, baseline)
            paper = PAPER.get(workload, {}).get(baseline, "-") if label == "slearn" else "-"
            rows.append([baseline, *(show(getattr(averages, name)) for name in SPEEDUPS), paper])
    return rows


def accuracy_rows(results: api.Results, workload: str) -> list[list[str]]:
    """Markdown cells: label, correct queue %, error P50 and P90 in %, and the paper's three."""
    rows = []
    for label, runs in results.by_label.items():
        correct = mean([run["queue_placement_correct"] for run in runs.values()])
        if correct is None:
            continue
        errors = [mean([run["prediction_error_pct"][q] for run in runs.values()]) for q in ("p50", "p90")]
        known = PAPER_ACCURACY.get(workload, {}).get(label)
        paper = " / ".join(f"{x:.1f}" for x in known) if known else "-"
        rows.append([label, f"{100 * correct:.1f}", *("-" if e is None else f"{e:.1f}" for e in errors), paper])
    return rows


def show(speedup: api.Speedup, digits: int = 2) -> str:
    """`1.23 [1.10, 1.36]`."""
    if speedup.value is None or speedup.ci95 is None:
        return "-"
    low, high = speedup.ci95
    return f"{speedup.value:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])


def mean(values: Sequence[float | None]) -> float | None:
    """The plain mean of those that apply, None when none does."""
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def over_seeds(values: Sequence[float], digits: int = 0) -> str:
    """The mean of one value per seed with its 95 % interval by Student's t; of one seed without."""
    made = api.interval(values)
    return f"{made.value:.{digits}f}" if made.value is not None and made.ci95 is None else show(made, digits)


def filled(template: str, **measured: object) -> str:
    """A page of Markdown: the template's prose with the measured tables in it. What is missing is an error."""
    environment = jinja2.Environment(undefined=jinja2.StrictUndefined, keep_trailing_newline=True, autoescape=False)  # noqa: S701 (Markdown, from our own figures)
    return environment.from_string(template).render(**measured)


def page(measured: Mapping[tuple[str, float], api.Results], seeds: Sequence[int], template: str) -> str:
    """The page: the template's prose with the measured tables in it."""
    averages = [name.replace("_", " ") for name in SPEEDUPS]
    slearn = {
        key: table(["over", *averages, "paper"], speedup_rows(results, key[0], "slearn"))
        for key, results in measured.items()
    }
    posterior = table(
        ["workload", "load", "over", *averages],
        [
            [workload, str(load), *row[:-1]]
            for (workload, load), results in measured.items()
            for row in speedup_rows(results, workload, "posterior")
            if row[0] in ("slearn", "three_sigma", "oracle", *DAG_POLICIES)
        ],
    )
    accuracy = {
        key: table(
            ["predictor", "correct queue %", "error P50 %", "error P90 %", "paper"], accuracy_rows(results, key[0])
        )
        for key, results in measured.items()
    }
    workloads = list(dict.fromkeys(workload for workload, _ in measured))
    loads = {name: [load for workload, load in measured if workload == name] for name in workloads}

    def gain(label: str, baseline: str, workload: str, load: float, average: str = "ratio_of_means") -> str:
        """For the prose: one speedup with its interval, so that text and tables cannot disagree."""
        return show(getattr(measured[workload, load].versus(label, baseline), average))

    return filled(
        template,
        gain=gain,
        slearn=slearn,
        posterior=posterior,
        accuracy=accuracy,
        seeds=len(seeds),
        workloads=workloads,
        loads=loads,
    )


def main(
    out: Annotated[Path, typer.Option(help="where the runs are kept")] = Path("out/tables"),
    docs: Annotated[Path, typer.Option(help="the folder with results.in.md")] = Path("docs"),
    seeds: Annotated[int, typer.Option(min=2, help="number of seeds")] = 5,
    jobs: Annotated[int | None, typer.Option(min=1, help="parallel processes; default: one per core")] = None,
    engine: Annotated[str | None, typer.Option(help="a Dask cluster, as of `rm-emulator run --engine`")] = None,
) -> None:
    """Run the comparison of every workload at every load, and write docs/results.md."""
    out.mkdir(parents=True, exist_ok=True)
    template = (docs / "results.in.md").read_text(encoding="utf-8")
    numbers = range(1, seeds + 1)
    measured = {
        (workload, load): measure(workload, load, numbers, out, jobs, engine)
        for workload in WORKLOADS
        for load in LOADS_OF.get(workload, LOADS)
    }
    write_file(docs / "results.md", page(measured, numbers, template))
    typer.echo(f"{docs / 'results.md'} written", err=True)


if __name__ == "__main__":
    end(lambda: typer.run(main))
