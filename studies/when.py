"""When will it run: how good the answers of `simulate` are, beside one who is told the truth and two simple rivals.

`make tables` runs it. Runs and scores are kept under OUT, so a killed study goes on; docs/results-when.md is written
from its template.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Final

import numpy as np
import polars as pl
import typer

from rm_emulator.files import replacing, write_file
from rm_emulator.forecasts.scoring import pinball, scores
from rm_emulator.program import end
from studies.tables import document, filled, run, table

NAME: Final = "results-when"
ANSWERERS: Final = ("simulate", "told", "drain_rate", "progress")
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
_QUANTILES: Final = ("p10_s", "p50_s", "p90_s")
_CORES: Final = {"count": 100, "capacity": {"cpu": 1, "memory": "4Gi"}}


def scenarios(data: Path, seeds: list[int]) -> dict[str, dict[str, Any]]:
    """By name: a preset with history under two predictors, and production DAGs without any history."""
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
            workload=_dags(dags),
            policies={"fair": {"kind": "fair"}},
        )
    return found


def _dags(path: Path) -> dict[str, Any]:
    """Jobs drawn from the second half of the trace, whose first half is history; the tasks of a stage vary."""
    block = {"kind": "trace", "format": "alibaba2018", "path": str(path.resolve()), "options": {"cov": 0.5}}
    return {**block, "extract": {"jobs": 800}, "load": 0.9}


def measure(out: Path, name: str, scenario: Mapping[str, Any], questions: int, draws: int) -> pl.DataFrame:
    """The scores of all seeds, kept beside the runs by number of questions."""
    results = run(scenario, out / name, None, progress=False)
    ((label, runs),) = results.by_label.items()
    frames = []
    for seed in runs:
        kept = out / f"{name}-{seed}-{questions}-{draws}.parquet"
        if not kept.exists():
            part = -(-questions // len(runs))
            found = scores(out / name, label=label, seed=seed, questions=part, draws=draws, progress=_report)
            with replacing(kept) as file:
                found.write_parquet(file)
        frames.append(pl.read_parquet(kept))
    return pl.concat(frames)


def _report(line: str) -> None:
    typer.echo(line, err=True)


def rows(found: pl.DataFrame) -> Iterator[list[str]]:
    """Cells of HEAD by horizon and answerer, then over all horizons."""
    for horizon, (low, high) in {**HORIZONS, "all": (0.0, float("inf"))}.items():
        part = found.filter(pl.col("came_s").is_between(low, high, closed="left"))
        told = _loss(part.filter(pl.col("answerer") == "told"))
        for answerer in ANSWERERS:
            own = part.filter(pl.col("answerer") == answerer)
            if own.is_empty():
                continue
            loss = _loss(own)
            came, (low_s, middle, high_s) = own["came_s"].to_numpy(), (own[name].to_numpy() for name in _QUANTILES)
            error = float(np.median(np.abs(middle - came) / came))
            holds = float(np.mean((low_s <= came) & (came <= high_s)))
            # The rivals answer with a time and no interval, and not always.
            interval = f"{100 * holds:.0f}" if answerer in ANSWERERS[:2] else "-"
            over = f"{loss / told:.2f}" if answerer in ANSWERERS[:2] and told else "-"
            yield [horizon, answerer, f"{len(own)}", interval, f"{loss:.0f}", over, f"{100 * error:.0f}"]


def _loss(part: pl.DataFrame) -> float:
    if part.is_empty():
        return 0.0
    return pinball(part["came_s"].to_numpy(), np.asarray(part.select(_QUANTILES).to_numpy()))


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
    asked = {name: frame.filter(pl.col("answerer") == "simulate").height for name, frame in found.items()}
    write_file(docs / f"{NAME}.md", filled(template, when=known, asked=asked, draws=draws, seeds=seeds))
    typer.echo(f"{docs / NAME}.md written", err=True)


if __name__ == "__main__":
    end(lambda: typer.run(main))
