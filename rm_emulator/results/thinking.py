"""The figures of schedulers that take their time, from what came of each of their attempts (`tries.parquet`)."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from rm_emulator.results.figures import Spread, ThinkerFigures
from rm_emulator.results.metrics import figure, spread


def thinkers(tries: pl.DataFrame, jobs: pl.DataFrame, sim_s: float) -> dict[str, ThinkerFigures]:
    """Each scheduler's figures by its name. sim_s: how long the run was, which its busyness is measured against."""
    parts = tries.sort("scheduler", maintain_order=True).partition_by("scheduler", as_dict=True, maintain_order=True)
    return {str(name): _one(part, jobs, sim_s) for (name,), part in parts.items()}


def together(schedulers: Mapping[str, ThinkerFigures]) -> dict[str, float | None]:
    """Figures of a run over its schedulers: conflicts by job over all, and the busyness of the busiest."""
    jobs = sum(each.jobs for each in schedulers.values())
    busy = [each.busyness for each in schedulers.values() if each.busyness is not None]
    conflicts = sum(each.conflicts for each in schedulers.values())
    return {"conflict_fraction": figure(conflicts / jobs) if jobs else None, "busyness": max(busy, default=None)}


def _one(tries: pl.DataFrame, jobs: pl.DataFrame, sim_s: float) -> ThinkerFigures:
    each = tries.group_by("job").agg(pl.col("placed").sum(), began_ms=pl.col("began_ms").min())
    known = each.join(jobs.select("tasks", "submit_ms", job="id"), on="job").sort("job")
    whole = int((known["placed"] >= known["tasks"]).sum())
    conflicts = int((tries["refused"] > 0).sum())
    thought = tries["ended_ms"] - tries["began_ms"]
    useful = int(thought.filter(tries["placed"] > 0).sum())
    return ThinkerFigures(
        jobs=whole,
        attempts=len(tries),
        conflicts=conflicts,
        conflict_fraction=figure(conflicts / whole) if whole else None,
        busyness=figure(int(thought.sum()) / 1000 / sim_s) if sim_s else None,
        busyness_useful=figure(useful / 1000 / sim_s) if sim_s else None,
        wait_s=spread((known["began_ms"] - known["submit_ms"]) / 1000, Spread),
        given_up=int(tries["given_up"].sum()),
    )
