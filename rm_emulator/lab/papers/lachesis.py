"""LACHESIS's settings under its online baselines: the orders with DEFT, with and without copies, and HEFT's plans.

    python -m rm_emulator.lab.papers.lachesis --docs docs

Every schedule is read from its run and held against the validator of `lab.schedules`, or the tables are not written.
Runs are kept under a folder, so a stopped one goes on where it was.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec
import numpy as np
import typer
import yaml

from rm_emulator.experiments import api
from rm_emulator.files import write_file
from rm_emulator.lab.emulated import finished
from rm_emulator.lab.papers.tables import by_label, document, filled, run, show, table
from rm_emulator.lab.schedules import Problem, Run, violations
from rm_emulator.program import end
from rm_emulator.results.figures import Speedup
from rm_emulator.results.statistics import student_t
from rm_emulator.scenario import examples

NAME: Final = "results-lachesis"
ORACLE: Final = {"kind": "oracle"}
#: As in the paper a task is assigned once its parents are done.
DEFT: Final = {"kind": "deft", "ahead": False}
ORDERS: Final = ("fifo", "sjf", "hrrn", "rank_up", "lachesis")
POLICIES: Final[Mapping[str, Mapping[str, Any]]] = {
    **{f"{name}, deft": {"kind": name, "predictor": ORACLE, "placement": DEFT} for name in ORDERS},
    "heft": {"kind": "planned", "planner": "heft", "predictor": ORACLE},
    "fifo, first fit": {"kind": "fifo", "predictor": ORACLE},
}
BASELINE: Final = "rank_up, deft"
#: The workload of each table, by name.
SETTINGS: Final[Mapping[str, Mapping[str, Any]]] = {
    "batch_20": {"jobs": 20, "reading": "stage"},
    "batch_60": {"jobs": 60, "reading": "stage"},
    "stream_60": {"jobs": 60, "reading": "stage", "arrivals": "poisson", "interarrival": "45s"},
    "tasks_5": {"jobs": 5, "reading": "tasks"},
}
#: HEFT's plan of stages of hundreds of tasks takes minutes.
SPLIT: Final = ("tasks_5",)


class Cell(msgspec.Struct, frozen=True):
    """One run. Times in ms; slr: makespan by the longest way in the least times, jobs one by one, their mean.

    decision: median and 99th percentile, NaN where none was timed.
    """

    makespan: float
    speedup: float
    slr: float
    copies: float
    decision: tuple[float, float]


def scenario(setting: str, seeds: Sequence[int], *, copies: bool) -> dict[str, Any]:
    """One setting on the executors of the packaged example, with two runs of a task at most, or one."""
    spec = yaml.safe_load(examples.files("lachesis")[0].read_text(encoding="utf-8"))["spec"]
    labels = [label for label in POLICIES if setting not in SPLIT or label != "heft"]
    if copies:
        labels = [label for label in labels if label.endswith("deft")]
    return document(
        f"{setting}-{'copies' if copies else 'plain'}",
        seeds,
        {label.replace(", ", "_").replace(" ", "_"): POLICIES[label] for label in labels},
        cluster=spec["cluster"],
        workload={"kind": "lachesis", **SETTINGS[setting]},
        **({"copies": {"max": 2}} if copies else {}),
    )


def cells(results: api.Results) -> dict[str, dict[int, Cell]]:
    """What came of each run, by label and seed. Raises ValueError for a schedule that is none."""
    return {
        label: {seed: _cell(results.path, label, seed, figures) for seed, figures in runs.items()}
        for label, runs in by_label(results).items()
    }


def _cell(folder: Path, label: str, seed: int, figures: Mapping[str, Any]) -> Cell:
    problem, runs = finished(folder, label, seed)
    for wrong in violations(problem, runs):
        raise ValueError(f"{label}, seed {seed}: what ran is no schedule: {wrong}")
    times = np.array(problem.times)
    makespan = max(each.end for each in runs)
    took = figures["decision_us"] or {}
    return Cell(
        makespan=makespan,
        speedup=float(times.sum(axis=0).min()) / makespan,
        slr=float(np.mean(list(_slrs(problem, runs)))),
        copies=sum(each.copy and each.done for each in runs) / len(times),
        decision=((took.get("p50") or math.nan) / 1000, (took.get("p99") or math.nan) / 1000),
    )


def _slrs(problem: Problem, runs: Sequence[Run]) -> Iterator[float]:
    """Per job its time from arrival to end by its longest way; jobs are what edges and barriers tie together."""
    least = [min(row) for row in problem.times]
    above: list[list[int]] = [[] for _ in least]
    for parent, child, _ in problem.edges:
        above[child].append(parent)
    for first, then in problem.after:
        for child in then:
            above[child] += first
    ends, jobs = [0.0] * len(least), list(range(len(least)))
    path = [0.0] * len(least)
    for each in runs:
        if not each.copy and each.done:
            ends[each.task] = each.end

    def job(task: int) -> int:
        while jobs[task] != task:
            jobs[task] = jobs[jobs[task]]
            task = jobs[task]
        return task

    for task in sorted(range(len(least)), key=ends.__getitem__):  # parents end before their children
        path[task] = least[task] + max((path[parent] for parent in above[task]), default=0.0)
        for parent in above[task]:
            jobs[job(task)] = job(parent)
    spans: dict[int, tuple[float, float]] = {}
    for task in range(len(least)):
        span, way = spans.get(job(task), (0.0, 0.0))
        spans[job(task)] = max(span, ends[task] - problem.releases[task]), max(way, path[task])
    return (span / way for span, way in spans.values())


HEAD: Final = (
    "policy",
    "makespan by rank_up's",
    "speedup",
    "less rank_up's",
    "SLR",
    "less rank_up's",
    "copies per task",
    "copies save, %",
    "decision, ms: P50, P99",
)


def rows(plain: Mapping[str, Mapping[int, Cell]], copied: Mapping[str, Mapping[int, Cell]]) -> list[list[str]]:
    """Cells of HEAD, with copies where there are some; intervals over seeds of what is paired seed by seed."""
    made, base = [], {**plain, **copied}["rank_up_deft"]
    for label, without in plain.items():
        best = copied.get(label, without)
        seeds = sorted(best)

        def over(values: list[float], digits: int = 3) -> str:
            return show(Speedup(value=float(np.mean(values)), ci95=list(student_t(values))), digits)

        saved = [100 * (1 - best[seed].makespan / without[seed].makespan) for seed in seeds]
        copies = float(np.mean([best[seed].copies for seed in seeds]))
        made.append(
            [
                label.replace("_deft", ", deft").replace("_first_fit", ", first fit"),
                over([best[seed].makespan / base[seed].makespan for seed in seeds]),
                f"{np.mean([best[seed].speedup for seed in seeds]):.2f}",
                over([best[seed].speedup - base[seed].speedup for seed in seeds], 2),
                f"{np.mean([best[seed].slr for seed in seeds]):.2f}",
                over([best[seed].slr - base[seed].slr for seed in seeds], 2),
                f"{copies:.2f}" if label in copied else "-",
                over(saved, 1) if label in copied else "-",
                ", ".join(_timed([best[seed].decision[q] for seed in seeds]) for q in (0, 1)),
            ]
        )
    return made


def _timed(values: Sequence[float]) -> str:
    timed = [value for value in values if not math.isnan(value)]
    return f"{np.mean(timed):.2f}" if timed else "-"


def main(
    out: Annotated[Path, typer.Option(help="where the runs are kept")] = Path("out/lachesis-online"),
    docs: Annotated[Path, typer.Option(help=f"the folder with {NAME}.in.md")] = Path("docs"),
    seeds: Annotated[int, typer.Option(min=2, help="number of seeds")] = 10,
    jobs: Annotated[int, typer.Option(min=1, help="parallel processes")] = 2,
) -> None:
    """Run everything, and write docs/results-lachesis.md."""
    out.mkdir(parents=True, exist_ok=True)
    measured = {}
    for setting in SETTINGS:
        both = []
        for copies in (False, True):
            made = scenario(setting, range(1, seeds + 1), copies=copies)
            both.append(cells(run(made, out / made["metadata"]["name"], jobs)))
        measured[setting] = table(HEAD, rows(*both))
    template = (docs / f"{NAME}.in.md").read_text(encoding="utf-8")
    write_file(docs / f"{NAME}.md", filled(template, seeds=seeds, **measured))
    typer.echo(f"{docs / NAME}.md written", err=True)


if __name__ == "__main__":
    end(lambda: typer.run(main))
