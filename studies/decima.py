"""Decima's batch setting: 20 TPC-H jobs at once on 50 executors, every baseline, beside the released simulator.

    python -m studies.decima --seeds 100 --profiles PATH

The jobs are the very ones that the released simulator (hongzimao/decima-sim) draws from the same seeds; run times of
tasks are drawn anew, so means differ by that noise and by what the two simulators do differently.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean, variance
from typing import Annotated, Any, Final

import typer

from rm_emulator import api
from rm_emulator.files import write_file
from rm_emulator.program import end
from studies.tables import document, filled, run, show, table

#: The released simulator's seeds begin here.
FIRST_SEED: Final = 1000
ORACLE: Final = {"kind": "oracle"}
#: Exponents of weighted fair sharing among which the best one is taken, seed by seed.
ALPHAS: Final = (-2.0, -1.6, -1.4, -1.2, -1.1, -1.0, -0.8, -0.6, -0.4)
POLICIES: Final[Mapping[str, dict[str, Any]]] = {
    "fifo": {"kind": "fifo"},
    "sjf_cp": {"kind": "sjf_cp", "predictor": ORACLE},
    "naive": {"kind": "weighted_fair", "alpha": 1.0, "predictor": ORACLE},
    "fair": {"kind": "weighted_fair", "alpha": 0.0, "predictor": ORACLE},
    "tuned": {"kind": "weighted_fair", "alpha": -1.1, "predictor": ORACLE},
    "capped_sjf": {"kind": "capped_sjf", "predictor": ORACLE},
}
#: Mean JCT in s over seeds 1000 to 1099, and its standard deviation, of the same rules in the released simulator.
RELEASED: Final[Mapping[str, tuple[float, float]]] = {
    "fifo": (235.0, 43.7),
    "sjf_cp": (162.1, 19.2),
    "naive": (136.8, 41.2),
    "fair": (93.0, 22.8),
    "tuned": (86.6, 19.6),
    "capped_sjf": (76.6, 16.1),
    "best alpha": (85.7, 19.2),
}
RELEASED_SEEDS: Final = 100


def scenario(seeds: Sequence[int], profiles: str | None = None, *, grid: bool = False) -> dict[str, Any]:
    """The scenario. profiles: path of the full profiles; None: the built-in summary. grid: all of ALPHAS too."""
    policies = dict(POLICIES)
    if grid:
        policies |= {_label(alpha): {**POLICIES["fair"], "alpha": alpha} for alpha in ALPHAS}
    workload = {
        "kind": "tpch",
        "jobs": 20,
        "arrivals": "batch",
        "draws": "released",
        "sizes": [2, 5, 10, 20, 50, 100],
    }
    return document(
        "decima-batch",
        seeds,
        policies,
        cluster={
            "nodes": [{"count": 50, "capacity": {"cpu": 1, "memory": "2Gi"}}],
            "profile": "events",
            "executors": {"moving_delay": "2s", "warmup": "1s"},
        },
        workload={**workload, "profiles": profiles} if profiles else workload,
        baseline="fair",
    )


def _label(alpha: float) -> str:
    return f"alpha{alpha:g}".replace(".", "_")  # a label has no dot


def means(results: api.Results) -> dict[str, dict[int, float]]:
    """Mean JCT in s by label and seed; `best alpha` is the least of the grid's, seed by seed, if there is a grid."""
    jcts = {
        label: {seed: figures["jct_s"]["mean"] for seed, figures in by_seed.items()}
        for label, by_seed in results.by_label.items()
    }
    grid = [jcts.pop(label) for label in map(_label, ALPHAS) if label in jcts]
    if grid:
        jcts["best alpha"] = {seed: min(by_seed[seed] for by_seed in grid) for seed in grid[0]}
    return jcts


HEAD: Final = (
    "policy",
    "mean JCT, s",
    "released, s",
    "difference, s",
    "ratio to fair",
    "released ratio",
    "ratio differs by",
    "mean of the seeds' ratios",
)


def rows(jcts: Mapping[str, Mapping[int, float]]) -> list[list[str]]:
    """Cells of HEAD. The difference of means has the joint interval of 95 % of two samples, as if of unlike jobs."""
    fair = jcts["fair"]
    made = []
    for label, by_seed in jcts.items():
        mean, (released, deviation) = fmean(by_seed.values()), RELEASED[label]
        joint = 1.96 * math.sqrt(variance(by_seed.values()) / len(by_seed) + deviation**2 / RELEASED_SEEDS)
        off = mean - released
        ratio, expected = mean / fmean(fair.values()), released / RELEASED["fair"][0]
        paired = [by_seed[seed] / fair[seed] for seed in by_seed]
        made.append(
            [
                label,
                f"{mean:.1f}",
                f"{released:.1f}",
                f"{off:+.1f} [{off - joint:+.1f}, {off + joint:+.1f}]",
                f"{ratio:.3f}",
                f"{expected:.3f}",
                f"{100 * (ratio / expected - 1):+.1f} %",
                show(api.interval(paired), digits=3),
            ]
        )
    return made


def page(template: str, jcts: Mapping[str, Mapping[int, float]]) -> str:
    """The page of docs: the template's prose with the measured table in it."""
    return filled(template, table=table(HEAD, rows(jcts)), seeds=len(jcts["fair"]))


def main(
    out: Annotated[Path, typer.Option(help="where the runs are kept")] = Path("out/decima"),
    seeds: Annotated[int, typer.Option(min=2, help="number of seeds, from 1000")] = 10,
    profiles: Annotated[str | None, typer.Option(help="full profiles; default: the built-in summary")] = None,
    jobs: Annotated[int | None, typer.Option(min=1, help="parallel processes; default: one per core")] = None,
    docs: Annotated[Path | None, typer.Option(help="folder whose results-decima.in.md is to become a page")] = None,
    *,
    grid: Annotated[bool, typer.Option("--grid", help="weighted fair with the best exponent, seed by seed")] = False,
) -> None:
    """Run every baseline in Decima's batch setting and print the table."""
    if docs is not None and profiles is not None and not Path(profiles).exists():
        typer.echo(f"{profiles}: not there, so Decima's table stays as it is", err=True)
        return
    out.mkdir(parents=True, exist_ok=True)
    made = scenario(range(FIRST_SEED, FIRST_SEED + seeds), profiles and str(Path(profiles).resolve()), grid=grid)
    jcts = means(run(made, out / "runs", jobs))
    typer.echo(table(HEAD, rows(jcts)))
    if docs is not None:
        write_file(docs / "results-decima.md", page((docs / "results-decima.in.md").read_text(encoding="utf-8"), jcts))


if __name__ == "__main__":
    end(lambda: typer.run(main))
