"""When will it run: how good the answers of `simulate` are, beside one who is told the truth and two simple rivals.

`make tables` runs it. Runs and the answers of each moment are kept under OUT, so a killed study goes on;
docs/results-when.md is written from its template.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Final

import numpy as np
import polars as pl
import typer

from rm_emulator.files import write_file
from rm_emulator.forecasts.scoring import Law, pinballs, scores
from rm_emulator.program import end
from rm_emulator.workload.synthetic import PRESETS
from schedulers.core import keyed
from studies.preset_law import preset_law
from studies.tables import document, filled, run, table

NAME: Final = "results-when"
ANSWERERS: Final = ("simulate", "law", "told", "drain_rate", "progress")
#: The answerers that give a time and no interval.
RIVALS: Final = ("drain_rate", "progress")
#: Remaining times that came, s, by which the answers are told apart.
HORIZONS: Final[Mapping[str, tuple[float, float]]] = {
    "30 s to 5 min": (30, 300),
    "5 min to 1 h": (300, 3600),
    "more than 1 h": (3600, float("inf")),
}
HEAD: Final = (
    "came in",
    "answerer",
    "answers",
    "80 % interval holds, %",
    "pinball loss, s",
    "over told's",
    "median error, %",
)
#: Columns that say which question an answer is for, and which moment the question is of.
_QUESTION, _MOMENT = ("seed", "at_s", "job"), ("seed", "at_s")
_QUANTILES: Final = ("p10_s", "p50_s", "p90_s")
_BOOTSTRAPS: Final = 2000
_CORES: Final[dict[str, Any]] = {"count": 100, "capacity": {"cpu": 1, "memory": "4Gi"}}


def scenarios(data: Path, seeds: list[int]) -> dict[str, dict[str, Any]]:
    """By name: a preset with history under two predictors, production DAGs, and the log of a batch machine.

    No accounting of a Slurm site is free to use. The log tells what `sacct` tells of a job: user, recurring program,
    processors, and a run time for all of them; limits and failures are not in the log.
    """
    found = {}
    for predictor in ("posterior", "slearn"):
        found[f"2sigma-like-{predictor}"] = document(
            f"when-2sigma-{predictor}",
            seeds,
            cluster={"nodes": [_CORES], "profile": "yarn"},
            workload={"kind": "synthetic", "preset": "2sigma-like", "jobs": 500, "load": 1.0},
            policies={"gs": {"kind": "gs", "predictor": {"kind": predictor}}},
        )
    dags = data / "alibaba-2018-dags-batch_task.csv.gz"
    if dags.is_file():
        found["alibaba-2018-dags"] = document(
            "when-alibaba-2018",
            seeds,
            cluster={"nodes": [{"count": 10, "capacity": {"cpu": 16, "memory": "32Gi"}}], "profile": "events"},
            workload=_extract("alibaba2018", dags, 800, 0.9, cov=0.5),  # so the tasks of a stage vary
            policies={"fair": {"kind": "fair"}},
        )
    log = data / "NASA-iPSC-1993-3.1-cln.swf.gz"
    if log.is_file():
        found["nasa-ipsc"] = document(
            "when-nasa-ipsc",
            seeds,
            cluster={"nodes": [{**_CORES, "count": 128}], "profile": "events"},
            workload=_extract("swf", log, 600, 0.7),
            policies={"fifo": {"kind": "fifo"}},
        )
    return found


def _extract(form: str, path: Path, jobs: int, load: float, **options: float) -> dict[str, Any]:
    """Jobs drawn from the second half of a trace, whose first half is history."""
    block = {"kind": "trace", "format": form, "path": str(path.resolve()), "options": options}
    return {**block, "extract": {"jobs": jobs}, "load": load}


def measure(out: Path, name: str, scenario: Mapping[str, Any], questions: int, draws: int) -> pl.DataFrame:
    """The scores of all seeds; the answers of each moment are kept beside the runs."""
    results = run(scenario, out / name, None, progress=False)
    ((label, runs),) = results.by_label.items()
    part = -(-questions // len(runs))
    frames = []
    for seed in runs:
        kept = out / f"{name}-{seed}-{part}-{draws}"
        kept.mkdir(exist_ok=True)
        found = scores(
            out / name, label=label, seed=seed, questions=part, draws=draws, law=_law(scenario), kept=kept,
            progress=_report,
        )  # fmt: skip
        frames.append(found.with_columns(seed=pl.lit(seed)))
    return pl.concat(frames)


def _law(scenario: Mapping[str, Any]) -> Law | None:
    """The law that draws the workload; None for a trace."""
    workload = scenario["spec"]["workload"]
    return preset_law(PRESETS[workload["preset"]], _CORES["count"]) if workload["kind"] == "synthetic" else None


def _report(line: str) -> None:
    typer.echo(line, err=True)


def rows(found: pl.DataFrame) -> Iterator[list[str]]:
    """Cells of HEAD by horizon and answerer, then over all horizons."""
    judged = _judged(found)
    for horizon, (low, high) in {**HORIZONS, "all": (0.0, float("inf"))}.items():
        part = judged.filter(pl.col("came_s").is_between(low, high, closed="left"))
        for answerer in ANSWERERS:
            own = part.filter(pl.col("answerer") == answerer)
            if own.is_empty():
                continue
            interval = "-" if answerer in RIVALS else _ratio(own, "held", "one", 100)
            over = "1.00" if answerer == "told" else _ratio(own, "loss", "told", 1, 2)
            means = own.select(pl.col("loss").mean(), pl.col("error").median() * 100).row(0)
            yield [horizon, answerer, f"{len(own)}", interval, f"{means[0]:.0f}", over, f"{means[1]:.0f}"]


def _judged(found: pl.DataFrame) -> pl.DataFrame:
    """Of each answer: loss, `told`'s loss on the same question, whether the interval held, relative error of p50."""
    came, answers = found["came_s"].to_numpy(), np.asarray(found.select(_QUANTILES).to_numpy())
    judged = found.with_columns(
        loss=pl.Series(pinballs(came, answers)),
        held=pl.col("came_s").is_between("p10_s", "p90_s").cast(pl.Float64),
        error=(pl.col("p50_s") / pl.col("came_s") - 1).abs(),
        one=pl.lit(1.0),
    )
    told = judged.filter(pl.col("answerer") == "told").select(*_QUESTION, told="loss")
    return judged.join(told, on=_QUESTION)


def _ratio(part: pl.DataFrame, over: str, under: str, times: float, digits: int = 0) -> str:
    """Sum over sum, with a 95 % interval by bootstrap over moments, since the answers of a moment share its draws."""
    sums = part.group_by(_MOMENT, maintain_order=True).agg(pl.col(over, under).sum()).select(over, under).to_numpy()
    drawn = sums[keyed.generator(0, "bootstrap").integers(0, len(sums), (_BOOTSTRAPS, len(sums)))].sum(axis=1)
    low, high = np.quantile(times * drawn[:, 0] / drawn[:, 1], (0.025, 0.975))
    value = times * sums[:, 0].sum() / sums[:, 1].sum()
    return f"{value:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]"


def _asked(answers: pl.DataFrame) -> str:
    return f"{answers.height} questions at {answers.n_unique(_MOMENT)} moments"


def main(
    out: Annotated[Path, typer.Option(help="where runs and scores are kept")] = Path("out/when"),
    docs: Annotated[Path, typer.Option(help="the folder with results-when.in.md")] = Path("docs"),
    data: Annotated[Path, typer.Option(help="the folder of real traces")] = Path("../shared/data"),
    questions: Annotated[int, typer.Option(min=4, help="questions of each workload, over all seeds")] = 1000,
    draws: Annotated[int, typer.Option(min=2, help="plays of each answer")] = 20,
    seeds: Annotated[int, typer.Option(min=1, help="number of seeds")] = 3,
) -> None:
    """Run everything, and write docs/results-when.md."""
    out.mkdir(parents=True, exist_ok=True)
    template = (docs / f"{NAME}.in.md").read_text(encoding="utf-8")
    found = {
        name: measure(out, name, scenario, questions, draws)
        for name, scenario in scenarios(data, list(range(1, seeds + 1))).items()
    }
    known = {name: table(HEAD, list(rows(frame))) for name, frame in found.items()}
    asked = {name: _asked(frame.filter(pl.col("answerer") == "simulate")) for name, frame in found.items()}
    write_file(docs / f"{NAME}.md", filled(template, when=known, asked=asked, draws=draws, seeds=seeds))
    typer.echo(f"{docs / NAME}.md written", err=True)


if __name__ == "__main__":
    end(lambda: typer.run(main))
