"""Decima's batch setting: 20 TPC-H jobs at once on 50 executors, every baseline, beside the released simulator.

    python -m rm_emulator.experiments.decima --seeds 100 --profiles PATH

From a seed the released simulator draws other jobs than we do, and the mean JCT of 20 jobs hangs on which they are. So
the same rules were run in it on our jobs too (SAME_JOBS), and what is compared are ratios to `fair` on the same jobs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final

import typer
import yaml

from rm_emulator.experiments import api
from rm_emulator.experiments.tables import table
from rm_emulator.results.record import write_file
from rm_emulator.results.statistics import student_t

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
#: Mean JCT in s over seeds 1000 to 1099 of the same rules in the released simulator (hongzimao/decima-sim), its jobs.
RELEASED: Final[Mapping[str, float]] = {
    "fifo": 235.0,
    "sjf_cp": 162.1,
    "naive": 136.8,
    "fair": 93.0,
    "tuned": 86.6,
    "capped_sjf": 76.6,
    "best alpha": 85.7,
}
#: The same over the jobs that `scenario` has for these seeds.
SAME_JOBS: Final[Mapping[str, float]] = {
    "fifo": 249.3,
    "sjf_cp": 163.6,
    "naive": 142.5,
    "fair": 95.6,
    "tuned": 88.9,
    "capped_sjf": 77.9,
}


def scenario(seeds: Sequence[int], profiles: str | None = None, *, grid: bool = False) -> dict[str, Any]:
    """The scenario. profiles: path of the full profiles; None: the built-in summary. grid: all of ALPHAS too."""
    policies = dict(POLICIES)
    if grid:
        policies |= {_label(alpha): {**POLICIES["fair"], "alpha": alpha} for alpha in ALPHAS}
    workload = {"kind": "tpch", "jobs": 20, "arrivals": "batch", "sizes": [2, 5, 10, 20, 50, 100]}
    return {
        "apiVersion": "rm-emulator.io/v1alpha1",
        "kind": "Scenario",
        "metadata": {"name": "decima-batch"},
        "spec": {
            "seeds": list(seeds),
            "cluster": {
                "nodes": [{"count": 50, "capacity": {"cpu": 1, "memory": "2Gi"}}],
                "profile": "events",
                "executors": {"moving_delay": "2s", "warmup": "1s"},
            },
            "workload": {**workload, "profiles": profiles} if profiles else workload,
            "policies": [{"label": label, **policy} for label, policy in policies.items()],
            "baseline": "fair",
            "log": "hash",
        },
    }


def _label(alpha: float) -> str:
    return f"alpha{alpha:g}".replace(".", "_")  # a label has no dot


def means(results: api.Results) -> dict[str, dict[int, float]]:
    """Mean JCT in s by label and seed; `best alpha` is the least of the grid's, seed by seed, if there is a grid."""
    found: dict[str, dict[int, float]] = {}
    for run in results.summary["runs"]:
        found.setdefault(run["label"], {})[run["seed"]] = run["jct_s"]["mean"]
    grid = [found.pop(label) for label in map(_label, ALPHAS) if label in found]
    if grid:
        found["best alpha"] = {seed: min(by_seed[seed] for by_seed in grid) for seed in grid[0]}
    return found


def rows(found: Mapping[str, Mapping[int, float]]) -> list[list[str]]:
    """Cells: label, mean JCT in s, its ratio to fair, the mean of the seeds' own ratios, the released ratios."""
    fair = found["fair"]
    made = []
    for label, by_seed in found.items():
        ratio = sum(by_seed.values()) / sum(fair.values())
        paired = [by_seed[seed] / fair[seed] for seed in by_seed]
        low, high = student_t(paired)
        same = SAME_JOBS.get(label, 0.0) / SAME_JOBS["fair"]
        made.append(
            [
                label,
                f"{sum(by_seed.values()) / len(by_seed):.1f}",
                f"{ratio:.3f}",
                f"{sum(paired) / len(paired):.3f} [{low:.3f}, {high:.3f}]",
                f"{same:.3f}" if same else "-",
                f"{100 * (ratio / same - 1):+.1f} %" if same else "-",
                f"{RELEASED[label] / RELEASED['fair']:.3f}",
            ]
        )
    return made


HEAD: Final = (
    "policy",
    "mean JCT, s",
    "to fair",
    "mean of the seeds' ratios",
    "released, same jobs",
    "off",
    "released, its jobs",
)


def main(
    out: Annotated[Path, typer.Option(help="where the runs are kept")] = Path("out/decima"),
    seeds: Annotated[int, typer.Option(min=2, help="number of seeds, from 1000")] = 10,
    profiles: Annotated[str | None, typer.Option(help="full profiles; default: the built-in summary")] = None,
    jobs: Annotated[int | None, typer.Option(min=1, help="parallel processes; default: one per core")] = None,
    *,
    grid: Annotated[bool, typer.Option("--grid", help="weighted fair with the best exponent, seed by seed")] = False,
) -> None:
    """Run every baseline in Decima's batch setting and print the table."""
    out.mkdir(parents=True, exist_ok=True)
    path = out / "decima-batch.yaml"
    made = scenario(range(FIRST_SEED, FIRST_SEED + seeds), profiles, grid=grid)
    write_file(path, yaml.safe_dump(made, sort_keys=False))
    results = api.run(path, out / "runs", None, {}, jobs, (), overwrite=False, progress=True)
    typer.echo(table(HEAD, rows(means(results))))


if __name__ == "__main__":
    typer.run(main)
