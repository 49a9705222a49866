"""The DAG experiment of SLearn's section 6: the first stage sampled, or all stages from history, on GTrace19-DAG.

    python -m studies.chains --seeds 3

GTrace19-DAG has "about 900 jobs" there, and 400 here: a seed of all policies takes a minute.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from rm_emulator import api
from rm_emulator.program import end
from studies import tables

JOBS: Final = 400
#: The preset's own load is the one of Table 5; sections 5 and 6 have the same setup.
LOAD: Final = 1.04
POLICIES: Final[Mapping[str, dict[str, Any]]] = {
    **{
        label: {"kind": "gs", "predictor": {"kind": label}}
        for label in ("slearn_dag", "three_sigma_dag", "point_estimate_dag")
    },
    **{label: tables.POLICIES[label] for label in ("las", "fifo", "oracle", "posterior", "slearn")},
}
#: SLearn-DAG's average speedup over each (Figure 10).
PAPER: Final[Mapping[str, float]] = {"three_sigma_dag": 1.26, "point_estimate_dag": 1.74, "las": 2.15}
#: Median prediction error, % (section 6). Ours is of a job's total work, of the jobs that have an estimate.
PAPER_ERROR: Final[Mapping[str, float]] = {"slearn_dag": 33.90, "three_sigma_dag": 47.21}


def scenario(seeds: Sequence[int], jobs: int = JOBS, load: float = LOAD) -> dict[str, Any]:
    """GTrace19-DAG under all policies, on the cluster of `studies.tables`."""
    return tables.document(
        f"gtrace19-dag-{load}",
        seeds,
        POLICIES,
        cluster={"nodes": [{"count": 150, "capacity": {"cpu": 1, "memory": "4Gi"}}], "profile": "yarn"},
        workload={"kind": "synthetic", "preset": "google19-like", "stages": [2, 5], "jobs": jobs, "load": load},
        baseline="slearn_dag",
    )


def speedups(results: api.Results) -> str:
    """SLearn-DAG's speedup over every other policy, three averages with intervals, the paper's beside them."""
    rows = [
        [*row[:-1], f"{PAPER[row[0]]:.2f}" if row[0] in PAPER else "-"]
        for row in tables.speedup_rows(results, "", "slearn_dag")
    ]
    return tables.table(["over", *(name.replace("_", " ") for name in tables.SPEEDUPS), "paper"], rows)


def errors(results: api.Results) -> str:
    """Jobs in the queue of their true size, and errors of the estimates, the paper's median beside them."""
    rows = [
        [*row[:-1], f"{PAPER_ERROR[row[0]]:.1f}" if row[0] in PAPER_ERROR else "-"]
        for row in tables.accuracy_rows(results, "")
    ]
    return tables.table(["predictor", "correct queue %", "error P50 %", "error P90 %", "paper's P50"], rows)


def main(
    out: Annotated[Path, typer.Option(help="where the runs are kept")] = Path("out/chains"),
    seeds: Annotated[int, typer.Option(min=2, help="number of seeds")] = 10,
    jobs: Annotated[int | None, typer.Option(min=1, help="parallel processes; default: one per core")] = None,
) -> None:
    """Run the experiment and print its tables."""
    out.mkdir(parents=True, exist_ok=True)
    wanted = scenario(range(1, seeds + 1))
    results = tables.run(wanted, out / wanted["metadata"]["name"], jobs)
    typer.echo(f"{speedups(results)}\n\n{errors(results)}")


if __name__ == "__main__":
    end(lambda: typer.run(main))
